"""Which judges to keep, and why: read off the position-adjusted fit, never off a bare sensitivity.

A judge can be useless in different ways, with different remedies. One is *saturated*: its slot
decides, whatever is shown (another prompt template may help). One is *indiscriminate*: its verdicts
hardly follow quality even with its biases accounted for. One is *unidentified*: it has not been
shown what it takes to tell. And two judges can be one: *duplicates*, whose residuals agree far
beyond what judges of the same prompts share, double the weight of one opinion.

A screen on sensitivity from a fit without position drops judges for their position bias, which the
model would have taken care of. Its ranks stand beside the others as the thing not to do.

Source: OSCAR (arXiv 2609.24128), section 6.4.
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from benchtrial.orchestrator.models.oscar.arrays import Floats
from benchtrial.orchestrator.models.oscar.fit import Specification, fit_encoded
from benchtrial.orchestrator.models.oscar.result import OscarFit
from benchtrial.orchestrator.models.oscar.table import Comparisons

#: Kappa below which a judge is of no use: over a typical gap it moves from 1/2 to 0.525.
FLOOR = 0.1
#: Correlation of residuals from which two judges count as one. Judges of one prompt share its
#: difficulty and correlate at 0.1 to 0.7, two versions of one model at 0.85; one model served under
#: several names lies above 0.92.
DUPLICATE = 0.9
#: Records in common below which a correlation says nothing.
FEWEST_SHARED = 30


def screen_judges(fit: OscarFit, *, floor: float = FLOOR) -> pd.DataFrame:
    """Judge the judges.

    Parameters
    ----------
    fit
        A fit with a position term and sensitivities.
    floor
        Kappa that a judge must exceed.

    Returns
    -------
    DataFrame, one row per judge, the most sensitive first: ``verdicts``; ``kappa`` with ``low`` and
    ``high``; ``net_first_slot``; ``status``, one of

    * ``unidentified``: its sensitivity cannot be told from these records;
    * ``saturated``: its slot decides next to everything;
    * ``indiscriminate``: kappa lies below the floor, whole interval and all;
    * ``open``: the interval of kappa holds the floor;
    * ``discriminates``: kappa lies above the floor;

    ``duplicates``, other judges that are this one again; ``rank`` by kappa, and beside it
    ``unadjusted_kappa`` and ``unadjusted_rank`` from the fit without position, which must not be
    used to drop a judge.
    """
    effects = fit.judge_effects()
    kappa = effects[effects["effect"] == "kappa"].set_index("judge")
    bare = _without_position(fit)
    twins = _duplicates(fit)
    counts = np.bincount(fit.data.judge, minlength=len(fit.data.judges))
    table = pd.DataFrame(
        {
            "judge": fit.data.judges,
            "verdicts": counts,
            "kappa": fit.kappa.to_numpy(),
            "low": kappa["low"].to_numpy(),
            "high": kappa["high"].to_numpy(),
            "net_first_slot": fit.net_first_slot.to_numpy(),
        }
    )
    table["status"] = [_status(fit, row, floor) for _, row in table.iterrows()]
    table["duplicates"] = pd.Series(
        [twins.get(judge, ()) for judge in fit.data.judges], dtype=object
    )
    table["rank"] = table["kappa"].rank(ascending=False).astype(int)
    table["unadjusted_kappa"] = bare.kappa.to_numpy()
    table["unadjusted_rank"] = table["unadjusted_kappa"].rank(ascending=False).astype(int)
    return table.sort_values("rank", kind="stable").reset_index(drop=True)


def residual_correlations(fit: OscarFit) -> pd.DataFrame:
    """Correlate what the fit leaves unexplained, judge by judge, over records in common.

    Two judges have a record in common if both judged the same prompt with the same responses in the
    same order; repeated verdicts are averaged first.

    Returns
    -------
    DataFrame with columns first, second, shared, agreement (share of shared records with the same
    verdict), expected (what the fit predicts for independent judges), correlation.
    """
    data = fit.data
    prediction = fit.predict_encoded(data)
    outcome, predicted = _by_display(data, data.outcome), _by_display(data, prediction)
    rows = []
    judges = len(data.judges)
    for k in range(judges):
        for other in range(k + 1, judges):
            both = ~np.isnan(outcome[k]) & ~np.isnan(outcome[other])
            if not both.any():
                continue
            y, z = outcome[k, both], outcome[other, both]
            p, q = predicted[k, both], predicted[other, both]
            scale = np.sqrt(((y - p) ** 2).sum() * ((z - q) ** 2).sum())
            rows.append(
                {
                    "first": data.judges[k],
                    "second": data.judges[other],
                    "shared": int(both.sum()),
                    "agreement": float(np.mean(y == z)),
                    "expected": float(np.mean(p * q + (1 - p) * (1 - q))),
                    "correlation": float(((y - p) * (z - q)).sum() / scale) if scale > 0 else 0.0,
                }
            )
    columns = ["first", "second", "shared", "agreement", "expected", "correlation"]
    return pd.DataFrame(rows, columns=columns)


def _without_position(fit: OscarFit) -> OscarFit:
    terms = tuple(name for name in fit.model.terms if name != "position")
    wanted = Specification(
        terms=terms,
        sensitivities=True,
        ridge=fit.ridge,
        reference=fit.reference,
        length_scale=fit.length_scale,
    )
    return fit_encoded(replace(fit.data, notes=()), wanted)


def _duplicates(fit: OscarFit) -> dict[object, tuple[object, ...]]:
    table = residual_correlations(fit)
    pairs = table[(table["correlation"] >= DUPLICATE) & (table["shared"] >= FEWEST_SHARED)]
    twins: dict[object, tuple[object, ...]] = {}
    for one, other in zip(pairs["first"], pairs["second"], strict=True):
        twins[one] = (*twins.get(one, ()), other)
        twins[other] = (*twins.get(other, ()), one)
    return twins


def _status(fit: OscarFit, row: "pd.Series[float]", floor: float) -> str:
    if np.isnan(row["low"]):
        return "unidentified"
    if row["judge"] in fit.saturated:
        return "saturated"
    if row["high"] < floor:
        return "indiscriminate"
    return "discriminates" if row["low"] > floor else "open"


def _by_display(data: Comparisons, values: Floats) -> Floats:
    """Mean value by judge (rows) and displayed pair of a prompt (columns); NaN where none."""
    size = len(data.candidates)
    _, display = np.unique(
        (data.prompt * size + data.first) * size + data.second, return_inverse=True
    )
    displays = int(display.max()) + 1
    cell = data.judge * displays + display
    cells = len(data.judges) * displays
    count = np.bincount(cell, minlength=cells)
    with np.errstate(invalid="ignore"):
        mean: Floats = (np.bincount(cell, values, cells) / count).reshape(-1, displays)
    return mean
