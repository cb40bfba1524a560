"""Whether scores that were learned from language-model judges predict what people prefer.

The scores stay as they are; two numbers, an intercept and a slope, translate a score difference
into a human preference. They are learned from the votes on some prompts and judged by the log loss
of the votes on the others. A bootstrap over prompts resamples judgments and votes together, because
both depend on the same prompts.

Source: OSCAR (arXiv 2609.24128), section 6.4 and appendices F.2-F.4.
"""

from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from benchtrial.errors import DataError, NotConverged
from benchtrial.orchestrator.models.oscar.arrays import Floats
from benchtrial.orchestrator.models.oscar.covariance import logistic
from benchtrial.orchestrator.models.oscar.fit import Specification, fit_encoded
from benchtrial.orchestrator.models.oscar.heldout import log_loss, specification
from benchtrial.orchestrator.models.oscar.table import Comparisons, encode

#: Ridge on intercept and slope of the calibration (F.3).
RIDGE = 1e-6
#: Newton steps of a two-parameter convex fit; fewer than ten are taken.
STEPS = 100
#: Largest step of either calibration parameter, for votes that the scores separate.
STRIDE = 5.0


def human_scores(votes: pd.DataFrame, *, ridge: float = 0.05) -> "pd.Series[float]":
    """Rank candidates by human votes: plain Bradley-Terry scores, best first (F.2).

    Parameters
    ----------
    votes
        Columns ``prompt, first, second, outcome``; raters need not be told apart.
    """
    data = encode(votes.assign(judge="human"))
    fit = fit_encoded(data, Specification(terms=(), sensitivities=False, ridge=ridge))
    return fit.scores.sort_values(ascending=False)


def calibrate(scores: "pd.Series[float]", votes: pd.DataFrame) -> tuple[float, float]:
    """Fit intercept and slope of P(first preferred) = sigma(intercept + slope gap) (F.3)."""
    usable = _votes_on(votes, scores.index)
    return _calibrate(_gaps(scores, usable), usable["outcome"].to_numpy(), np.ones(len(usable)))


def human_agreement(
    comparisons: pd.DataFrame,
    votes: pd.DataFrame,
    *models: str,
    seed: int | np.random.SeedSequence,
    folds: int = 5,
    replicates: int = 200,
    ridge: float = 0.05,
    executor: Executor | None = None,
) -> pd.DataFrame:
    """Compare models by how well their scores predict held-out human votes (table F1).

    Parameters
    ----------
    comparisons
        Judgments by language models; every model is fitted to these alone.
    votes
        Human votes on the same prompts: ``prompt, first, second, outcome``. Votes on a candidate
        that was not judged are left out.
    *models
        Names as in :func:`held_out_log_loss`; ``J, J+P, OSCAR`` as far as the table has the
        columns, by default J and J+P. Gains are against the first.
    folds
        Parts of the prompts; each part's votes are predicted from a calibration on the others.
    replicates
        Bootstrap draws of prompts, for judgments and votes alike; 0 for none.
    executor
        Where replicates run; here and now by default. The result is the same for any executor.

    Returns
    -------
    DataFrame by model: ``log_loss`` with ``low``, ``high``; ``gain`` over the first model with
    ``gain_low``, ``gain_high`` (positive is better); ``spearman`` with the human ranking; ``votes``
    used and ``failed`` replicates.
    """
    models = models or ("J", "J+P")
    data = encode(comparisons)
    used = _votes_on(votes, data.candidates)
    prompts = pd.Index(pd.unique(np.concatenate([data.prompts.to_numpy(), used["prompt"]])))
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    fold_seed, *streams = root.spawn(replicates + 1)
    fold = np.empty(len(prompts), dtype=np.intp)
    order = np.random.default_rng(fold_seed).permutation(len(prompts))
    fold[order] = np.arange(len(prompts)) % folds
    task = _Task(
        data, used, prompts, fold, {m: specification(m, data, ridge=ridge) for m in models}
    )
    once = np.ones(len(prompts))
    losses, scores = _losses(task, once)
    run = map if executor is None else executor.map
    draws = pd.DataFrame(list(run(_redraw, [(task, stream) for stream in streams])), columns=models)
    human = human_scores(used)
    rows = []
    for model in models:
        drawn, gained = draws[model].dropna(), (draws[models[0]] - draws[model]).dropna()
        low, high = _ends(drawn)
        gain_low, gain_high = _ends(gained)
        rows.append(
            {
                "model": model,
                "log_loss": losses[model],
                "low": low,
                "high": high,
                "gain": losses[models[0]] - losses[model],
                "gain_low": gain_low,
                "gain_high": gain_high,
                "spearman": float(
                    stats.spearmanr(scores[model].reindex(human.index), human).statistic
                ),
                "votes": len(used),
                "failed": replicates - len(drawn),
            }
        )
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class _Task:
    data: Comparisons
    votes: pd.DataFrame
    prompts: pd.Index
    fold: npt.NDArray[np.intp]
    specifications: dict[str, Specification]


def _redraw(task_and_stream: tuple[_Task, np.random.SeedSequence]) -> dict[str, float]:
    task, stream = task_and_stream
    generator = np.random.default_rng(stream)
    drawn = generator.integers(0, len(task.prompts), len(task.prompts))
    return _losses(task, np.bincount(drawn, minlength=len(task.prompts)).astype(np.float64))[0]


def _losses(
    task: _Task, multiplicity: Floats
) -> tuple[dict[str, float], dict[str, "pd.Series[float]"]]:
    """Held-out log loss of human votes and scores, by model, for weighted prompts."""
    of_judged = multiplicity[task.prompts.get_indexer(task.data.prompts)]
    data = task.data.reweighted(of_judged)
    where = task.prompts.get_indexer(pd.Index(task.votes["prompt"]))
    weight, fold = multiplicity[where], task.fold[where]
    outcome = task.votes["outcome"].to_numpy(dtype=np.float64)
    losses, scores = {}, {}
    for model, wanted in task.specifications.items():
        try:
            scores[model] = fit_encoded(data, wanted).scores
        except NotConverged:
            losses[model] = float("nan")
            continue
        gap = _gaps(scores[model], task.votes)
        predicted = np.full(len(gap), 0.5)
        for part in np.unique(fold):
            train, test = fold != part, fold == part
            intercept, slope = _calibrate(gap[train], outcome[train], weight[train])
            predicted[test] = logistic(intercept + slope * gap[test])
        losses[model] = log_loss(outcome, predicted, weight)
    return losses, scores


def _votes_on(votes: pd.DataFrame, candidates: pd.Index) -> pd.DataFrame:
    known = votes["first"].isin(candidates) & votes["second"].isin(candidates)
    used = votes[known & votes["outcome"].notna()]
    if used.empty:
        raise DataError("no human vote compares two of the judged candidates")
    return used


def _gaps(scores: "pd.Series[float]", votes: pd.DataFrame) -> Floats:
    gap: Floats = votes["first"].map(scores).to_numpy(dtype=np.float64) - votes["second"].map(
        scores
    ).to_numpy(dtype=np.float64)
    return gap


def _calibrate(gap: Floats, outcome: Floats, weight: Floats) -> tuple[float, float]:
    columns = np.stack([np.ones_like(gap), gap], axis=1)
    parameters = np.zeros(2)
    for _ in range(STEPS):
        p = logistic(columns @ parameters)
        slope = columns.T @ (weight * (p - outcome)) + RIDGE * parameters
        curve = columns.T @ (columns * (weight * p * (1 - p))[:, None]) + RIDGE * np.eye(2)
        step = np.clip(np.linalg.solve(curve, slope), -STRIDE, STRIDE)
        parameters = parameters - step
        if np.abs(step).max() < 1e-12:
            break
    return float(parameters[0]), float(parameters[1])


def _ends(draws: "pd.Series[float]") -> tuple[float, float]:
    if draws.empty:
        return float("nan"), float("nan")
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)
