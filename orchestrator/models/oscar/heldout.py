"""How well the models predict verdicts on prompts that they have not seen.

Prompts, not records, are held out: judgments of one prompt share its difficulty and its responses,
so a record on a known prompt is not new. All models are scored on identical folds by the mean log
loss of the slot-A score, which is proper for E(Y) = P(A) + P(tie) / 2 and so compares models with
and without a tie parameter.

Source: OSCAR (arXiv 2609.24128), section 6.3, appendices B.2, E.2 and E.3.
"""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchtrial.errors import DataError, NotConverged
from benchtrial.orchestrator.models.oscar.arrays import Floats
from benchtrial.orchestrator.models.oscar.fit import (
    Specification,
    fit_encoded,
    resolve_terms,
    standard_length_scale,
)
from benchtrial.orchestrator.models.oscar.result import OscarFit
from benchtrial.orchestrator.models.oscar.table import Comparisons, encode, resampled_prompts

#: Predictions are clipped to this distance from 0 and 1 (E.2).
CLIP = 1e-15
#: The paper's names for members of the family: terms, sensitivities, tie parameter (Table E1).
MODELS: dict[str, tuple[str, bool, bool]] = {
    "J": ("", True, False),
    "J+P": ("position", True, False),
    "J+L": ("length", True, False),
    "J+F": ("family", True, False),
    "OSCAR": ("position+length+family", True, False),
    "BT": ("", False, False),
    "BT+P": ("position", False, False),
    "BT+PLF": ("position+length+family", False, False),
    "Davidson+P": ("position", False, True),
    "Davidson+PLF": ("position+length+family", False, True),
}

Seed = int | np.random.Generator | np.random.SeedSequence


def specification(name: str, data: Comparisons, *, ridge: float = 0.05) -> Specification:
    """Turn a model's name (of :data:`MODELS`, or its terms) into what the fit needs.

    Lengths are scaled over the whole table, so that training folds and resamples share one scale.

    Raises
    ------
    DataError
        If the name is unknown or the table lacks a column of one of its terms.
    """
    terms, sensitivities, tie = MODELS.get(name, (name, True, False))
    named, _ = resolve_terms(terms, data)
    return Specification(
        terms=named,
        sensitivities=sensitivities,
        tie=tie,
        ridge=ridge,
        length_scale=standard_length_scale(data),
    )


def held_out_log_loss(
    comparisons: pd.DataFrame | Comparisons,
    *models: str,
    seed: Seed,
    folds: int = 3,
    ridge: float = 0.05,
) -> "pd.Series[float]":
    """Score models on held-out prompts.

    Parameters
    ----------
    comparisons
        As for :func:`fit_oscar`.
    *models
        Names of :data:`MODELS`, or terms joined by ``+`` (``""`` is J).
    seed
        Decides the folds, and nothing else.
    folds
        Number of parts of the prompts; each is predicted from the others.

    Returns
    -------
    Series of mean log loss (E2) by model, in nats per verdict.

    Raises
    ------
    DataError
        If there are fewer prompts than folds, or a model cannot be fitted to this table.
    """
    data = comparisons if isinstance(comparisons, Comparisons) else encode(comparisons)
    fold = prompt_folds(data, folds, seed)
    losses = {
        name: _out_of_fold(data, specification(name, data, ridge=ridge), fold).loss
        for name in models
    }
    return pd.Series(losses, name="log_loss", dtype=float)


def held_out_differences(
    comparisons: pd.DataFrame | Comparisons,
    contrasts: Sequence[tuple[str, str]],
    *,
    seed: int | np.random.SeedSequence,
    replicates: int = 200,
    folds: int = 3,
    ridge: float = 0.05,
    executor: Executor | None = None,
) -> pd.DataFrame:
    """Compare models on held-out prompts by the paired refit bootstrap of E.3.

    Each replicate resamples prompts within each fixed fold, refits both models of each contrast on
    the same resampled training folds and scores them on the same resampled test fold.

    Parameters
    ----------
    contrasts
        Pairs of model names; the difference is the first's loss minus the second's, so a positive
        one favours the second.
    executor
        Where replicates run; here and now by default. The result is the same for any executor.

    Returns
    -------
    DataFrame with columns first, second, difference, low, high (2.5th and 97.5th percentiles) and
    failed, the replicates in which a fit did not converge.
    """
    data = comparisons if isinstance(comparisons, Comparisons) else encode(comparisons)
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    fold_seed, *streams = root.spawn(replicates + 1)
    fold = prompt_folds(data, folds, fold_seed)
    names = list(dict.fromkeys(name for contrast in contrasts for name in contrast))
    specifications = {name: specification(name, data, ridge=ridge) for name in names}
    original = {name: _out_of_fold(data, wanted, fold) for name, wanted in specifications.items()}
    tasks = [
        _Replicate(data, fold, stream, specifications, {n: f.fits for n, f in original.items()})
        for stream in streams
    ]
    run = map if executor is None else executor.map
    draws = pd.DataFrame(list(run(_replicate, tasks)), columns=names)
    rows = []
    for one, two in contrasts:
        difference = (draws[one] - draws[two]).dropna()
        low, high = np.quantile(difference, [0.025, 0.975]) if len(difference) else (np.nan, np.nan)
        rows.append(
            {
                "first": one,
                "second": two,
                "difference": original[one].loss - original[two].loss,
                "low": low,
                "high": high,
                "failed": replicates - len(difference),
            }
        )
    return pd.DataFrame(rows)


def prompt_folds(data: Comparisons, folds: int, seed: Seed) -> npt.NDArray[np.intp]:
    """Assign each prompt to a fold at random, as evenly as possible."""
    prompts = len(data.prompts)
    if not 2 <= folds <= prompts:
        raise DataError(
            f"folds={folds} needs at least 2 folds and as many prompts; there are {prompts}"
        )
    fold = np.empty(prompts, dtype=np.intp)
    fold[np.random.default_rng(seed).permutation(prompts)] = np.arange(prompts) % folds
    return fold


def log_loss(outcome: Floats, probability: Floats, weight: Floats | None = None) -> float:
    """Mean log loss of slot-A scores (E2)."""
    clipped = np.clip(probability, CLIP, 1 - CLIP)
    loss = -outcome * np.log(clipped) - (1 - outcome) * np.log1p(-clipped)
    return float(np.average(loss, weights=weight))


@dataclass(frozen=True)
class _OutOfFold:
    loss: float
    fits: tuple[OscarFit, ...]


@dataclass(frozen=True)
class _Replicate:
    data: Comparisons
    fold: npt.NDArray[np.intp]
    stream: np.random.SeedSequence
    specifications: dict[str, Specification]
    starts: dict[str, tuple[OscarFit, ...]]


def _out_of_fold(
    data: Comparisons,
    wanted: Specification,
    fold: npt.NDArray[np.intp],
    starts: Sequence[OscarFit | None] | None = None,
) -> _OutOfFold:
    held_out = fold[data.prompt]
    prediction = np.empty(len(data))
    fits = []
    for part in range(fold.max() + 1):
        train = data.subset(held_out != part)
        fit = fit_encoded(train, wanted, start=None if starts is None else starts[part])
        test = held_out == part
        prediction[test] = fit.predict_encoded(data.subset(test))
        fits.append(fit)
    return _OutOfFold(log_loss(data.outcome, prediction, data.weight), tuple(fits))


def _replicate(task: _Replicate) -> dict[str, float]:
    generator = np.random.default_rng(task.stream)
    resampled = task.data.reweighted(resampled_prompts(task.fold, generator))
    losses = {}
    for name, wanted in task.specifications.items():
        try:
            losses[name] = _out_of_fold(resampled, wanted, task.fold, task.starts[name]).loss
        except NotConverged:
            losses[name] = float("nan")
    return losses
