"""What leaving position out does to sensitivity: predicted, and observed in several ways.

Averaged over both orders, a judge with position effect beta follows a flatter curve than sigma of
gamma x: near equal quality its slope is gamma (1 - D^2) with D = tanh(beta / 2). A sensitivity that
is fitted without position therefore comes out too small by about that factor, even under balanced
orders and even if the two orders are averaged first. A low fitted sensitivity alone says nothing
about how well a judge can tell responses apart.

* :func:`joint_attenuation` compares two joint fits of all records (table D1);
* :func:`held_out_attenuation` estimates scores and position on some prompts and refits each judge's
  sensitivity, with and without position, on others (table D2, figure 1c);
* :func:`swap_averaged` makes the table that swap-and-average fits, for comparison;
* :func:`omission_shift` gives the first-order shift of every parameter when a term is left out of
  a given design (theorem 1); balanced orders make it zero for position, unbalanced ones do not;
* :func:`population_sensitivity` is the exact population fit behind the introduction's 0.528 and
  figure 1b.

Source: OSCAR (arXiv 2609.24128), sections 4 and 6.2, appendices A.2-A.4, D.
"""

from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import optimize, special

from benchtrial.errors import DataError, NotConverged
from benchtrial.orchestrator.models.oscar.arrays import Floats
from benchtrial.orchestrator.models.oscar.cells import group
from benchtrial.orchestrator.models.oscar.covariance import logistic
from benchtrial.orchestrator.models.oscar.fit import Specification, fit_encoded
from benchtrial.orchestrator.models.oscar.likelihood import evaluate
from benchtrial.orchestrator.models.oscar.result import OscarFit
from benchtrial.orchestrator.models.oscar.table import (
    Comparisons,
    encode,
    encode_like,
    resampled_prompts,
)
from benchtrial.orchestrator.models.swaps import matched_groups, matched_swap_position

#: Shares of the prompts for calibration and refit in the paper's design; the rest is set aside.
CALIBRATION, REFIT = 0.6, 0.2
#: Ridge on a refitted sensitivity (D.3).
RIDGE = 0.05
#: A one-dimensional convex problem: Newton from zero takes fewer than ten steps.
STEPS = 50
#: A fitted population sensitivity lies between 0 and the true one; the search looks a little above.
LARGEST_RATIO = 1.5


def joint_attenuation(without: OscarFit, with_position: OscarFit) -> pd.DataFrame:
    """Compare the kappas of two joint fits with the prediction 1 - D^2 (D.4).

    Parameters
    ----------
    without, with_position
        Fits of the same records, such as J and J+P.

    Returns
    -------
    DataFrame by judge: ``observed`` = kappa ratio, ``predicted`` = 1 - D^2 from the fit with
    position, ``discrepancy`` = log observed - log predicted. The median absolute discrepancy is the
    paper's summary (table D1).
    """
    observed = without.kappa / with_position.kappa
    predicted = 1 - with_position.net_first_slot.to_numpy() ** 2
    with np.errstate(divide="ignore"):
        discrepancy = np.log(observed.to_numpy()) - np.log(predicted)
    return pd.DataFrame(
        {
            "judge": observed.index,
            "observed": observed.to_numpy(),
            "predicted": predicted,
            "discrepancy": discrepancy,
        }
    )


def fixed_score_sensitivity(
    comparisons: pd.DataFrame | Comparisons,
    scores: "pd.Series[float]",
    position: "pd.Series[float] | None" = None,
    *,
    ridge: float = RIDGE,
) -> "pd.Series[float]":
    """Refit each judge's sensitivity with scores (and position) held fixed (equation 11, D.3).

    Minimizes the summed log loss plus ridge gamma^2 / 2 over gamma >= 0.

    Parameters
    ----------
    scores
        By candidate; standardized here to mean zero and root mean square one.
    position
        Position coefficient by judge, held fixed; none by default.

    Returns
    -------
    Sensitivity by judge on the scale of the standardized scores; NaN for a judge without a
    position coefficient.
    """
    data = comparisons if isinstance(comparisons, Comparisons) else encode(comparisons)
    if missing := [label for label in data.candidates if label not in scores.index]:
        raise DataError(f"no score for candidate {missing[0]!r}")
    known = scores.loc[data.candidates].to_numpy(dtype=np.float64)
    standard: Floats = (known - known.mean()) / np.sqrt(np.mean((known - known.mean()) ** 2))
    offset = np.zeros(len(data.judges))
    if position is not None:
        offset[:] = position.reindex(data.judges)
    gap: Floats = standard[data.first] - standard[data.second]
    return pd.Series(_refit(data, gap, offset, ridge), index=data.judges, name="sensitivity")


def held_out_attenuation(
    comparisons: pd.DataFrame | Comparisons,
    *,
    seed: int | np.random.SeedSequence,
    replicates: int = 0,
    ridge: float = RIDGE,
    executor: Executor | None = None,
) -> pd.DataFrame:
    """Test the prediction 1 - D^2 on prompts that took no part in making it (section 6.2).

    Position comes from the matched swaps of the calibration prompts; scores from a joint fit there
    with position held fixed; sensitivities from the refit prompts, with and without position.

    Parameters
    ----------
    seed
        Decides the split of the prompts and the bootstrap draws.
    replicates
        Bootstrap replicates that resample prompts within each part and redo every step; 0 for none.
    executor
        Where replicates run; here and now by default. The result is the same for any executor.

    Returns
    -------
    DataFrame by judge: ``d``, ``naive`` and ``adjusted`` sensitivity, their ``difference`` with
    ``low`` and ``high``, ``observed`` ratio and ``predicted`` = 1 - d^2; ``failed`` counts the
    replicates that could not be fitted.
    """
    data = comparisons if isinstance(comparisons, Comparisons) else encode(comparisons)
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    split, *streams = root.spawn(replicates + 1)
    prompts = len(data.prompts)
    part = np.searchsorted(
        [CALIBRATION, CALIBRATION + REFIT],
        (np.random.default_rng(split).permutation(prompts) + 0.5) / prompts,
    )
    result = _split_refits(data, part, ridge)
    result["difference"] = result["adjusted"] - result["naive"]
    result["low"] = result["high"] = np.nan
    failed = 0
    if replicates:
        tasks = [_Draw(data, part, stream, ridge) for stream in streams]
        run = map if executor is None else executor.map
        draws = list(run(_redraw, tasks))
        good = [draw for draw in draws if draw is not None]
        failed = len(draws) - len(good)
        if good:
            ends = np.nanquantile(np.stack(good), [0.025, 0.975], axis=0)
            result["low"], result["high"] = ends
    result["observed"] = result["naive"] / result["adjusted"].where(result["adjusted"] > 0)
    result["predicted"] = 1 - result["d"] ** 2
    result["failed"] = failed
    return result


def swap_averaged(comparisons: pd.DataFrame) -> pd.DataFrame:
    """Average the two orders of every matched swap, as swap-and-average does (D.4).

    One row per judge, prompt and pair seen in both orders, the outcome aligned to ``first``. The
    result has lost what it would take to estimate position: fit J to it, for comparison only.
    """
    data = encode(comparisons)
    swaps = matched_groups(data)
    one = np.zeros(len(swaps.judge), dtype=np.intp)
    two = np.zeros(len(swaps.judge), dtype=np.intp)
    member = swaps.group >= 0
    one[swaps.group[member]] = np.minimum(data.first, data.second)[member]
    two[swaps.group[member]] = np.maximum(data.first, data.second)[member]
    return pd.DataFrame(
        {
            "judge": data.judges[swaps.judge],
            "prompt": data.prompts[swaps.prompt],
            "first": data.candidates[one],
            "second": data.candidates[two],
            "outcome": swaps.average(data.outcome),
        }
    )


def omission_shift(
    fit: OscarFit, terms: str | None = None, design: pd.DataFrame | None = None
) -> pd.DataFrame:
    """First-order shift of every remaining parameter when terms are left out (theorem 1).

    Parameters
    ----------
    fit
        Gives the parameters, including the coefficients of the terms to leave out.
    terms
        Which to leave out, joined by ``+``; all of the fit's by default (the model J).
    design
        Who would be shown where to whom; the fitted records by default.

    Returns
    -------
    DataFrame with columns kind, label, shift: the parameters of the smaller model, in natural
    coordinates, as that model's population fit minus their true values, to first order in the
    coefficients left out.
    """
    model = fit.model
    omitted = list(model.terms) if terms is None else [name.strip() for name in terms.split("+")]
    if unknown := [name for name in omitted if name not in model.terms]:
        raise DataError(f"terms={terms!r}: the fit has no {unknown[0]} term to leave out")
    data = fit.data if design is None else encode_like(design, fit.data)
    length = None if data.length_ratio is None else data.length_ratio / fit.length_scale
    at = fit.natural.copy()
    gone = np.concatenate([model.indices[name] for name in omitted])
    coefficients = at[gone].copy()
    at[gone] = 0.0
    natural = evaluate(group(data, model, length), model, at).information
    rows = model.gradient(natural @ np.eye(model.natural_size)[:, gone] @ coefficients)
    information = model.hessian(natural)
    stays = np.ones(model.size, dtype=bool)
    stays[model.candidates - 1 :] = ~np.isin(model.free, gone)
    shift = np.zeros(model.size)
    shift[stays] = np.linalg.lstsq(information[np.ix_(stays, stays)], rows[stays], rcond=None)[0]
    moved = model.shift(shift)
    kept = [name for name in model.blocks if name not in omitted]
    kinds = [("score", data.candidates), ("log_sensitivity", data.judges)]
    kinds += [(name, data.judges) for name in kept]
    labels = [(kind, label) for kind, members in kinds for label in members]
    where = [np.arange(model.candidates), model.indices["sensitivity"]]
    where += [model.indices[name] for name in kept]
    table = pd.DataFrame(labels, columns=["kind", "label"])
    table["shift"] = moved[np.concatenate(where)]
    return table


def population_sensitivity(
    gaps: npt.ArrayLike, position: float, *, first: float = 0.5, sensitivity: float = 1.0
) -> float:
    """Return the sensitivity that a fit without position would converge to (appendix A.3).

    Parameters
    ----------
    gaps
        Equally likely quality gaps of a response over the other.
    position
        True position effect beta.
    first
        Probability that this response is shown first.
    sensitivity
        True sensitivity.
    """
    x = np.asarray(gaps, dtype=np.float64)
    mean = first * special.expit(sensitivity * x + position)
    mean = mean + (1 - first) * special.expit(sensitivity * x - position)

    def slope(gamma: float) -> float:
        return float(np.mean(x * (special.expit(gamma * x) - mean)))

    if slope(0.0) >= 0:
        return 0.0
    high = sensitivity * LARGEST_RATIO
    while slope(high) < 0:
        high *= 2
    return float(optimize.brentq(slope, 0.0, high, xtol=1e-14))


# Private ---------------------------------------------------------------------------------------


def _refit(data: Comparisons, gap: Floats, offset: Floats, ridge: float) -> Floats:
    """Newton for every judge's own one-dimensional problem at once, projected on gamma >= 0."""
    judges = len(offset)
    weight = np.ones(len(data)) if data.weight is None else data.weight
    gamma = np.zeros(judges)
    for _ in range(STEPS):
        p = logistic(gamma[data.judge] * gap + offset[data.judge])
        slope = np.bincount(data.judge, weight * (p - data.outcome) * gap, judges) + ridge * gamma
        curve = np.bincount(data.judge, weight * p * (1 - p) * gap**2, judges) + ridge
        following = np.maximum(gamma - np.clip(slope / curve, -1.0, 1.0), 0.0)
        settled = np.nanmax(np.abs(following - gamma), initial=0.0) < 1e-13
        gamma = following
        if settled:
            break
    gamma[np.isnan(offset)] = np.nan
    return gamma


def _split_refits(data: Comparisons, part: npt.NDArray[np.intp], ridge: float) -> pd.DataFrame:
    calibration = data.subset(part[data.prompt] == 0)
    refit = data.subset(part[data.prompt] == 1)
    swaps = matched_swap_position(calibration).set_index("judge").reindex(data.judges)
    position = swaps["beta"]
    known = position.fillna(0.0).to_numpy(dtype=np.float64)
    fit = fit_encoded(
        calibration, Specification(terms=("position",), ridge=ridge, known_position=known)
    )
    naive = fixed_score_sensitivity(refit, fit.scores, ridge=ridge)
    adjusted = fixed_score_sensitivity(refit, fit.scores, position, ridge=ridge)
    return pd.DataFrame(
        {
            "judge": data.judges,
            "d": swaps["d"].to_numpy(),
            "naive": naive.to_numpy(),
            "adjusted": adjusted.to_numpy(),
        }
    )


@dataclass(frozen=True)
class _Draw:
    data: Comparisons
    part: npt.NDArray[np.intp]
    stream: np.random.SeedSequence
    ridge: float


def _redraw(draw: _Draw) -> Floats | None:
    """Differences of one bootstrap replicate; None where a fit did not converge."""
    generator = np.random.default_rng(draw.stream)
    multiplicity = resampled_prompts(draw.part, generator)
    try:
        table = _split_refits(draw.data.reweighted(multiplicity), draw.part, draw.ridge)
    except NotConverged:
        return None
    difference: Floats = (table["adjusted"] - table["naive"]).to_numpy(dtype=np.float64)
    return difference
