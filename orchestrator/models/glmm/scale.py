"""The levels that ratings take, and which of them nobody used.

A level that no rating takes leaves the threshold beside it undetermined, so it is merged with its
neighbour and reported. Its rank still counts in the lag: a 5 after an unused 4 is still the best
of five.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchtrial.errors import DataError
from benchtrial.orchestrator.models.glmm.table import Integers, RatingTable, name_some, show

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scale:
    """The levels that ratings take.

    Parameters
    ----------
    used
        The ratings that occur, from worst to best.
    scores
        What each of them contributes to the lag of a later rating: its rank on the full scale,
        divided so that the worst level is 0 and the best is 1.
    unused
        Levels of the scale that no rating takes; they are merged into their neighbours.
    """

    used: tuple[float, ...]
    scores: Floats
    unused: tuple[float, ...] = ()

    def codes(self, value: Floats) -> Integers:
        """Return the level of each rating, -1 where it could not be read."""
        codes = np.searchsorted(np.asarray(self.used), value)
        return np.where(np.isnan(value), -1, codes)


def binary_scale(table: RatingTable) -> Scale:
    """Check that all ratings are 0, 1 or unreadable."""
    _refuse_levels(table, (0.0, 1.0), 'a binary rating is 0 or 1; use response="ordinal" for more')
    return Scale((0.0, 1.0), np.array([0.0, 1.0]))


def ordinal_scale(tables: Sequence[RatingTable], levels: Sequence[float] | None) -> Scale:
    """Return the levels of ordinal ratings, unused ones merged.

    Parameters
    ----------
    tables
        Tables that share the scale.
    levels
        All legal levels from worst to best; None takes the whole numbers from the lowest to the
        highest rating, or, if ratings are not whole, the ratings that occur.
    """
    found = np.unique(np.concatenate([table.value for table in tables]))
    found = found[~np.isnan(found)]
    if levels is None:
        whole = found.size and (found == np.round(found)).all()
        legal = np.arange(found[0], found[-1] + 1) if whole else found
    else:
        legal = np.asarray(levels, dtype=np.float64)
        if legal.ndim != 1 or len(legal) < 2 or (np.diff(legal) <= 0).any():
            raise DataError(f"levels must increase and be at least two, not {levels!r}")
        for table in tables:
            _refuse_levels(table, tuple(legal), f"the levels are {name_some(list(legal))}")
    used = np.isin(legal, found)
    scores = np.arange(len(legal)) / max(len(legal) - 1, 1)
    return Scale(
        tuple(float(v) for v in legal[used]), scores[used], tuple(float(v) for v in legal[~used])
    )


def _refuse_levels(table: RatingTable, legal: tuple[float, ...], rule: str) -> None:
    bad = np.flatnonzero(~np.isin(table.value, legal) & ~np.isnan(table.value))
    if bad.size:
        row = bad[0]
        more = f" (and {bad.size - 1} more)" if bad.size > 1 else ""
        raise DataError(
            f"rating {table.value[row]:g} of item {show(table.items[table.item[row]])} in "
            f"batch {show(table.batches[table.batch[row]])} is not on the scale{more}: {rule}"
        )
