"""Does the model predict new batches? Lagged transitions and conditional entropies.

The check freezes a fit, takes the orders of batches that it has not seen, simulates many data
sets of the same shape, and asks where the new ratings fall among them. Two families of quantities
are looked at: how often level ``b`` follows level ``a`` one, two or three ratings later, and how
uncertain a rating is when the one, two or three before it are known. The intervals condition on
the fitted parameters, so this is a predictive diagnostic and not a test of fit: on data that were
used for the fit they would be too wide.

References
----------
"Trustworthy Method Comparison with AI Judges", section 2.3 and supplement A.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchtrial.errors import DataError
from benchtrial.orchestrator.models.glmm.bootstrap import Seed
from benchtrial.orchestrator.models.glmm.scale import Scale
from benchtrial.orchestrator.models.glmm.table import Integers, RatingTable, name_some

Floats = npt.NDArray[np.float64]

ORDERS = (1, 2, 3)
"""Lags and orders that are looked at, as in the paper."""

LEVEL = 0.95
"""Level of the prediction intervals."""

CHUNK = 2_000_000
"""Simulated ratings held at once (16 MB)."""

ROW, WIDTH, LEFT = 18, 640, 200
"""Geometry of the plot in pixels: height of a row, width, room for labels."""


@dataclass(frozen=True)
class Process:
    """The parameters that simulate a judge.

    Parameters
    ----------
    items
        Quality of each item of the table to simulate.
    lags, cold_start, batch_sd
        The kernel, and the spread of batches.
    thresholds
        Thresholds between levels; a single 0 for binary ratings.
    """

    items: Floats
    lags: Floats
    cold_start: float
    batch_sd: float
    thresholds: Floats


@dataclass(frozen=True, eq=False)
class PredictiveCheck:
    """Quantities of new batches beside their prediction intervals.

    Parameters
    ----------
    table
        A row per quantity: ``quantity`` (transition or entropy), ``order``, ``given`` and ``then``
        (ratings; NaN for an entropy), ``observed``, ``low``, ``median``, ``high``, ``covered``.
    draws
        Number of simulated data sets.
    batches
        Number of new batches.
    """

    table: pd.DataFrame
    draws: int
    batches: int

    @property
    def coverage(self) -> float:
        """Share of quantities inside their interval."""
        return float(self.table["covered"].mean())

    def to_svg(self) -> str:
        """Draw the table: a line from ``low`` to ``high`` and a dot at ``observed``, a row each."""
        span = float(max(self.table["high"].max(), self.table["observed"].max(), 1.0))
        scale = (WIDTH - LEFT - 20) / span
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
            f'height="{ROW * (len(self.table) + 2)}" font-family="sans-serif" font-size="12">'
        ]
        for index, row in enumerate(self.table.to_dict("records"), start=1):
            y = ROW * index
            colour = "#333333" if row["covered"] else "#c0392b"
            low, high, at = (LEFT + scale * row[key] for key in ("low", "high", "observed"))
            parts.append(f'<text x="4" y="{y + 4}">{_name(row)}</text>')
            parts.append(
                f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}" stroke="#888888" '
                f'stroke-width="3"/><circle cx="{at:.1f}" cy="{y}" r="3.5" fill="{colour}"/>'
            )
        parts.append(
            f'<text x="4" y="{ROW * (len(self.table) + 1) + 4}">{self.coverage:.0%} of '
            f"{len(self.table)} inside their {LEVEL:.0%} prediction intervals</text></svg>"
        )
        return "\n".join(parts)


def check(
    process: Process, table: RatingTable, scale: Scale, *, draws: int, seed: Seed
) -> PredictiveCheck:
    """Compare the ratings of ``table`` with simulations of ``process`` under the same orders."""
    if draws < 2 / (1 - LEVEL):
        raise DataError(f"{draws} draws are too few for a {LEVEL:.0%} interval; use 500")
    unknown = set(table.value[~np.isnan(table.value)]) - set(scale.used)
    if unknown:
        raise DataError(
            f"the new ratings hold {name_some(sorted(unknown))}, which the fit has never seen"
        )
    observed = _quantities(scale.codes(table.value)[None, :], table, len(scale.used))
    generator = np.random.default_rng(seed)
    at_once = max(1, CHUNK // len(table.value))
    simulated = []
    for start in range(0, draws, at_once):
        levels = simulate(process, table, scale, min(at_once, draws - start), generator)
        levels[:, np.isnan(table.value)] = -1
        simulated.append(_quantities(levels, table, len(scale.used)))
    low, median, high = np.nanquantile(
        np.concatenate(simulated), [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2], axis=0
    )
    rows = _labels(scale)
    frame = pd.DataFrame(rows, columns=["quantity", "order", "given", "then"])
    frame = frame.assign(observed=observed[0], low=low, median=median, high=high)
    frame = frame[frame["observed"].notna() & frame["low"].notna()].reset_index(drop=True)
    frame["covered"] = (frame["observed"] >= frame["low"]) & (frame["observed"] <= frame["high"])
    return PredictiveCheck(frame, draws, len(table.batches))


def simulate(
    process: Process, table: RatingTable, scale: Scale, draws: int, generator: np.random.Generator
) -> Integers:
    """Draw levels for every row of a table, ``draws`` times; shape ``(draws, ratings)``."""
    starts = table.starts
    place = np.arange(len(table.batch)) - starts[table.batch]
    intercept = process.batch_sd * generator.normal(size=(draws, len(table.batches)))
    levels = np.zeros((draws, len(place)), dtype=np.intp)
    for at in range(int(place.max()) + 1):
        rows = np.flatnonzero(place == at)
        eta = process.items[table.item[rows]] + intercept[:, table.batch[rows]]
        if at == 0 and not np.isnan(process.cold_start):
            eta += process.cold_start
        for k, effect in enumerate(process.lags[:at], start=1):
            eta += effect * scale.scores[levels[:, rows - k]]
        # The latent variable: logistic noise around the predictor, cut at the thresholds.
        latent = eta + generator.logistic(size=eta.shape)
        levels[:, rows] = np.searchsorted(process.thresholds, latent)
    return levels


def _quantities(levels: Integers, table: RatingTable, count: int) -> Floats:
    """Return all quantities, shape ``(draws, quantities)``; NaN where one is not defined."""
    columns: list[Floats] = []
    for k in ORDERS:
        joint = _joint(levels[:, :-k], levels[:, k:], table.batch[:-k] == table.batch[k:], count)
        with np.errstate(invalid="ignore"):
            share = joint / joint.sum(axis=2, keepdims=True)
        columns += list(share.reshape(len(levels), -1).T)
    history = np.zeros_like(levels)
    for k in ORDERS:
        # Code of the last k levels: the history of the rows before, one digit longer.
        previous, before = levels[:, k - 1 : -1], history[:, k - 1 : -1]
        code = np.where((previous < 0) | (before < 0), -1, previous + count * before)
        history = np.full_like(levels, -1)
        history[:, k:] = code
        inside = table.batch[k:] == table.batch[:-k]
        joint = _joint(history[:, k:], levels[:, k:], inside, count, count**k)
        columns.append(_conditional_entropy(joint))
    return np.column_stack(columns)


def _joint(
    given: Integers,
    then: Integers,
    inside: npt.NDArray[np.bool_],
    count: int,
    histories: int | None = None,
) -> Floats:
    """Count pairs within batches, shape ``(draws, histories, count)``."""
    histories = histories or count
    draws = len(given)
    valid = inside & (given >= 0) & (then >= 0)
    code = (np.arange(draws)[:, None] * histories + given) * count + then
    counts = np.bincount(code[valid], minlength=draws * histories * count)
    return counts.reshape(draws, histories, count).astype(np.float64)


def _conditional_entropy(joint: Floats) -> Floats:
    """Entropy of the next level given the history, in bits."""
    total = joint.sum(axis=(1, 2))
    given = joint.sum(axis=2, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(joint > 0, joint * np.log2(joint / given), 0.0)
        return np.asarray(-terms.sum(axis=(1, 2)) / total)


def _labels(scale: Scale) -> list[tuple[str, int, float, float]]:
    transitions = [("transition", k, a, b) for k in ORDERS for a in scale.used for b in scale.used]
    return transitions + [("entropy", k, np.nan, np.nan) for k in ORDERS]


def _name(row: dict[Hashable, Any]) -> str:
    if row["quantity"] == "entropy":
        return f"entropy given the last {row['order']}"
    return f"{row['given']:g} to {row['then']:g}, {row['order']} later"
