"""Counting shared by batches and pairs: coded columns, spreads, pair counts, connected groups."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchtrial.designs.balance.report import Grade
from benchtrial.designs.schedule import IntArray
from benchtrial.errors import DataError

TABLE_LIMIT = 2048
"""Largest pool with tables of item by item; beyond it one table would take more than 32 MB."""

NAMED = 4
"""Ids named in a sentence before it says how many more there are."""


@dataclass(frozen=True)
class Spread:
    """The smallest and largest of many counts."""

    least: int
    most: int

    @property
    def width(self) -> int:
        """Return the largest count less the smallest."""
        return self.most - self.least

    def __str__(self) -> str:
        return times(self.most) if not self.width else f"{self.least} to {self.most} times"


def spread(counts: IntArray) -> Spread:
    """Return the spread of an array of counts."""
    return Spread(int(counts.min()), int(counts.max())) if counts.size else Spread(0, 0)


def evenness(spread: Spread, *, near: int = 1) -> Grade:
    """Return the grade of a spread, of which a width up to ``near`` still counts as near."""
    if spread.width == 0:
        return "exact"
    return "near" if spread.width <= near else "uneven"


def times(count: int) -> str:
    """Return a count as an adverb."""
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def coded(
    columns: Sequence[pd.Series], known: Iterable[Hashable] | None = None
) -> tuple[list[IntArray], tuple[Hashable, ...]]:
    """Return columns of ids as places in one list of labels, and the list.

    The list is ``known`` if it is given, and otherwise the ids found, sorted where they can be.

    Raises
    ------
    DataError
        If an id is missing, or two ids are written alike.
    """
    for column in columns:
        require_present(column)
    values = [value for column in columns for value in column.tolist()]
    found = dict.fromkeys(values)
    if known is None:
        alike = len({type(value) for value in found}) == 1
        labels = tuple(sorted(found)) if alike else tuple(found)
    else:
        labels = tuple(known)
    written: dict[str, Hashable] = {}
    for label in labels:
        earlier = written.setdefault(str(label), label)
        if earlier is not label:
            raise DataError(
                f"column {columns[0].name!r}: {earlier!r} and {label!r} are both written "
                f"{str(label)!r}; give each its own id"
            )
    place = {label: number for number, label in enumerate(labels)}
    codes = np.array([place[value] for value in values], dtype=np.int64)
    ends = np.cumsum([len(column) for column in columns])[:-1]
    return np.split(codes, ends), labels


def require_present(column: pd.Series) -> None:
    """Refuse a column with missing ids, and name the first row that has none."""
    missing = column.isna().to_numpy()
    if missing.any():
        raise DataError(
            f"column {column.name!r}, row {column.index[int(missing.argmax())]}: the id is "
            "missing; drop the row or fill it in"
        )


def group_numbers(frame: pd.DataFrame, keys: Sequence[str]) -> IntArray:
    """Return the number of the group of equal keys that each row belongs to, from 0."""
    if not keys:
        return np.zeros(len(frame), dtype=np.int64)
    numbers = frame.groupby(list(keys), sort=False, dropna=False, observed=True).ngroup()
    return np.asarray(numbers, dtype=np.int64)


def pair_spread(one: IntArray, other: IntArray, pool: int, possible: int) -> Spread:
    """Return the spread of how often each pair occurs, of which so many are possible."""
    _, counts = np.unique(one * pool + other, return_counts=True)
    if not counts.size:
        return Spread(0, 0)
    return Spread(int(counts.min()) if len(counts) == possible else 0, int(counts.max()))


def pair_table(one: IntArray, other: IntArray, labels: tuple[Hashable, ...]) -> pd.DataFrame | None:
    """Return how often each pair occurs, label by label; None for a pool too large for it."""
    if len(labels) > TABLE_LIMIT:
        return None
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(counts, (one, other), 1)
    return pd.DataFrame(counts, index=list(labels), columns=list(labels))


def connected(
    links: Iterable[tuple[int, int]], labels: tuple[Hashable, ...]
) -> tuple[tuple[Hashable, ...], ...]:
    """Return the groups of labels joined by links, largest first (union-find)."""
    parent = list(range(len(labels)))

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    for one, other in links:
        parent[root(one)] = root(other)
    groups: dict[int, list[Hashable]] = {}
    for place, label in enumerate(labels):
        groups.setdefault(root(place), []).append(label)
    return tuple(sorted(map(tuple, groups.values()), key=len, reverse=True))


def listed(labels: Sequence[object]) -> str:
    """Return the first few labels as words, and how many more there are."""
    shown = ", ".join(str(label) for label in labels[:NAMED])
    more = len(labels) - NAMED
    return f"{shown} and {more} more" if more > 0 else shown
