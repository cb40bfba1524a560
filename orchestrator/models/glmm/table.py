"""From a tidy table of ratings to the arrays that the likelihood needs.

A batch is one shared context: the judge emits one rating after another, and each rating may lean on
those emitted before it. What counts as the predecessor follows three rules.

* The lag of a rating is the last rating *emitted* before it. An item that the judge left out has no
  row and is no zero: the rating before the gap is the predecessor.
* A rating that was emitted but cannot be read (a NaN) still influenced its successors. It is summed
  over its possible values: the batch is expanded into *paths*, one per possible completion, and the
  likelihood of the batch is the sum over its paths. Unreadable ratings that no readable one follows
  sum to one and are left out.
* Before the first rating there is nothing: absent lags are zero, and the first rating has its own
  cold-start effect.

Ratings are kept as levels 0 .. C-1; level ``r`` enters the lag of a later rating as ``r / (C -
1)``, so a binary rating enters as itself.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchtrial.errors import DataError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]

REQUIRED = ("batch", "position", "item", "rating")
"""Columns without which a table is no table of ratings."""

MOST_PATHS = 4096
"""Most completions of one batch that are summed (12 unreadable binary ratings); more would make one
damaged batch dominate the cost of the whole fit."""

NAMED = 5
"""How many offending labels an error message names before it counts the rest."""


@dataclass(frozen=True)
class RatingTable:
    """Ratings of one judge, sorted by batch and position.

    Parameters
    ----------
    judge
        The judge's id, or None if the table has no such column.
    items, batches
        Labels, sorted; ``item`` and ``batch`` are positions in them.
    blocks
        Resampling unit of each batch: a code per batch (shape ``(batches,)``).
    block_labels
        The label behind each code of ``blocks``.
    block_name
        ``"block"`` if the table says which batches belong together, else ``"batch"``.
    item, batch
        Shape ``(ratings,)``; ``batch`` never decreases.
    value
        Ratings as they stand in the table, NaN where one could not be read.
    covariates
        Shape ``(ratings, covariates)``; ``covariate_names`` are the columns.
    """

    judge: Hashable | None
    items: tuple[Hashable, ...]
    batches: tuple[Hashable, ...]
    blocks: Integers
    block_labels: tuple[Hashable, ...]
    block_name: str
    item: Integers
    batch: Integers
    value: Floats
    covariate_names: tuple[str, ...]
    covariates: Floats

    @property
    def starts(self) -> Integers:
        """Row at which each batch begins."""
        return np.searchsorted(self.batch, np.arange(len(self.batches)))

    @property
    def unreadable(self) -> int:
        """Number of ratings that were emitted but could not be read."""
        return int(np.isnan(self.value).sum())


def read_ratings(ratings: pd.DataFrame, *, covariates: Sequence[str] = ()) -> RatingTable:
    """Check a table of one judge's ratings and sort it by batch and position.

    Raises
    ------
    DataError
        A column is missing, the table is empty, holds several judges or criteria, a label is
        missing, a rating is no number, or a position occurs twice in a batch.
    """
    _require_columns(ratings, (*REQUIRED, *covariates))
    judge = _single(ratings, "judge", "fit one judge at a time, or use fit_glmm_panel")
    _single(ratings, "criterion", "fit one criterion at a time")
    item, items = _codes(ratings, "item")
    batch, batches = _codes(ratings, "batch")
    position = _numbers(ratings, "position")
    _refuse_rows(
        ratings, np.isnan(position), "position", "is missing", "give the order of emission"
    )
    value = _numbers(ratings, "rating")
    _refuse_rows(
        ratings, np.isinf(value), "rating", "is infinite", "write NaN for a rating without a value"
    )
    order = np.lexsort((position, batch))
    item, batch, position, value = item[order], batch[order], position[order], value[order]
    twice = np.flatnonzero((batch[1:] == batch[:-1]) & (position[1:] == position[:-1]))
    if twice.size:
        row = twice[0]
        raise DataError(
            f"position {position[row]:g} occurs twice in batch {show(batches[batch[row]])} "
            f"(items {show(items[item[row]])} and {show(items[item[row + 1]])}); a batch emits "
            f"one rating at a time: number its ratings 1, 2, 3 … in the order of emission"
        )
    extra = np.zeros((len(ratings), len(covariates)))
    for column, name in enumerate(covariates):
        extra[:, column] = _numbers(ratings, name)
        bad = ~np.isfinite(extra[:, column])
        _refuse_rows(ratings, bad, name, "is missing or infinite", "fill it in")
    blocks, block_labels, block_name = _blocks(ratings, order, batch, batches)
    return RatingTable(
        judge=judge,
        items=items,
        batches=batches,
        blocks=blocks,
        block_labels=block_labels,
        block_name=block_name,
        item=item,
        batch=batch,
        value=value,
        covariate_names=tuple(covariates),
        covariates=extra[order],
    )


@dataclass(frozen=True)
class Paths:
    """Completed sequences of ratings: one path per batch, or one per possible completion.

    Parameters
    ----------
    batch
        Batch of each path (shape ``(paths,)``), never decreasing.
    row
        Row of the table behind each entry (shape ``(entries,)``).
    path
        Path of each entry; entries of one path are consecutive, in order of emission.
    place
        0-based place of each entry in its path.
    level
        Level of each entry, 0 .. C-1.
    """

    batch: Integers
    row: Integers
    path: Integers
    place: Integers
    level: Integers

    def lag(self, k: int) -> Integers:
        """Return the level emitted ``k >= 1`` ratings earlier in the path, 0 if there is none."""
        lagged = np.zeros_like(self.level)
        lagged[k:] = self.level[:-k]
        return np.where(self.place >= k, lagged, 0)


def complete(table: RatingTable, levels: Integers, count: int) -> Paths:
    """Expand the batches of a table into paths without unreadable ratings.

    Parameters
    ----------
    table
        The checked table.
    levels
        Level of each rating, -1 where it could not be read.
    count
        Number of levels, C.

    Raises
    ------
    DataError
        A batch has more completions than ``MOST_PATHS``.
    """
    starts = np.append(table.starts, len(table.batch))
    unreadable = levels < 0
    if not unreadable.any():
        rows = np.arange(len(levels))
        return Paths(
            batch=np.arange(len(table.batches)),
            row=rows,
            path=table.batch,
            place=rows - starts[table.batch],
            level=levels,
        )
    batches: list[int] = []
    pieces: list[tuple[Integers, Integers]] = []
    for t in range(len(table.batches)):
        rows = np.arange(starts[t], starts[t + 1])
        readable = np.flatnonzero(~unreadable[rows])
        rows = rows[: readable[-1] + 1] if readable.size else rows[:0]
        gaps = np.flatnonzero(unreadable[rows])
        if count ** len(gaps) > MOST_PATHS:
            raise DataError(
                f"batch {show(table.batches[t])} has {len(gaps)} unreadable ratings before its "
                f"last readable one, more than can be summed over ({count}^{len(gaps)} "
                f"completions); ask this batch again, or leave its rows out"
            )
        for completion in np.ndindex(*(count,) * len(gaps)):
            filled = levels[rows]
            filled[gaps] = completion
            batches.append(t)
            pieces.append((rows, filled))
    lengths = np.array([len(rows) for rows, _ in pieces], dtype=np.intp)
    path_starts = np.cumsum(lengths) - lengths
    path = np.repeat(np.arange(len(pieces)), lengths)
    return Paths(
        batch=np.array(batches, dtype=np.intp),
        row=np.concatenate([rows for rows, _ in pieces]),
        path=path,
        place=np.arange(len(path)) - path_starts[path],
        level=np.concatenate([filled for _, filled in pieces]),
    )


def name_some(labels: Sequence[Any]) -> str:
    """Return up to ``NAMED`` labels as text, and how many more there are."""
    text = ", ".join(map(show, labels[:NAMED]))
    rest = len(labels) - NAMED
    return f"{text} and {rest} more" if rest > 0 else text


def show(label: Any) -> str:
    """Return a label as the user wrote it: ``7``, not ``np.int64(7)``."""
    return repr(label.item() if isinstance(label, np.generic) else label)


def _require_columns(ratings: pd.DataFrame, names: Sequence[str]) -> None:
    if not isinstance(ratings, pd.DataFrame):
        raise DataError(f"ratings must be a pandas DataFrame, not {type(ratings).__name__}")
    missing = [name for name in names if name not in ratings.columns]
    if missing:
        raise DataError(
            f"the ratings lack the column {name_some(missing)} (they have "
            f"{name_some(list(ratings.columns))}); a table of ratings has {', '.join(REQUIRED)}"
        )
    if ratings.empty:
        raise DataError("the table of ratings is empty; collect at least two batches before a fit")


def _single(ratings: pd.DataFrame, column: str, remedy: str) -> Hashable | None:
    if column not in ratings.columns:
        return None
    values = pd.unique(ratings[column])
    if len(values) > 1:
        raise DataError(
            f"the ratings hold {len(values)} values of {column!r} ({name_some(list(values))}); "
            f"{remedy}"
        )
    label: Hashable = values[0]
    return label


def _codes(ratings: pd.DataFrame, column: str) -> tuple[Integers, tuple[Hashable, ...]]:
    """Return codes and sorted labels, so that no estimate depends on the order of rows."""
    codes, labels = pd.factorize(ratings[column])
    _refuse_rows(ratings, codes < 0, column, "is missing", "every rating needs one")
    names = list(labels)
    try:
        ranks = sorted(range(len(names)), key=names.__getitem__)
    except TypeError:
        ranks = sorted(range(len(names)), key=lambda i: (type(names[i]).__name__, str(names[i])))
    position = np.empty(len(names), dtype=np.intp)
    position[ranks] = np.arange(len(names))
    return position[codes], tuple(names[i] for i in ranks)


def _numbers(ratings: pd.DataFrame, column: str) -> Floats:
    series = ratings[column]
    if series.dtype.kind in "biuf":
        return series.to_numpy(dtype=np.float64)
    numbers = pd.to_numeric(series, errors="coerce")
    _refuse_rows(
        ratings, (numbers.isna() & series.notna()).to_numpy(), column, "is no number", "mend it"
    )
    return numbers.to_numpy(dtype=np.float64, na_value=np.nan)


def _refuse_rows(
    ratings: pd.DataFrame, bad: npt.NDArray[np.bool_], column: str, fault: str, remedy: str
) -> None:
    where = np.flatnonzero(bad)
    if where.size:
        row = ratings.iloc[where[0]]
        more = f" (and {where.size - 1} more rows)" if where.size > 1 else ""
        raise DataError(
            f"row {show(ratings.index[where[0]])} (batch {show(row['batch'])}, item "
            f"{show(row['item'])}): {column} {show(row[column])} {fault}{more}; {remedy}"
        )


def _blocks(
    ratings: pd.DataFrame, order: Integers, batch: Integers, batches: tuple[Hashable, ...]
) -> tuple[Integers, tuple[Hashable, ...], str]:
    if "block" not in ratings.columns:
        return np.arange(len(batches)), batches, "batch"
    block, labels = _codes(ratings, "block")
    block = block[order]
    starts = np.searchsorted(batch, np.arange(len(batches)))
    split = np.flatnonzero(block != block[starts][batch])
    if split.size:
        raise DataError(
            f"batch {show(batches[batch[split[0]]])} lies in two design blocks; "
            f"give all its rows the same block"
        )
    return block[starts], labels, "block"
