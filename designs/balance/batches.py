"""Balance of batches: positions, predecessors, meetings, what was lost.

A context is one batch shown to one judge for one criterion. The predecessor of an item is the item
emitted before it in its context, whatever was lost between them.
"""

from collections.abc import Hashable, Iterator
from typing import TypeVar

import numpy as np
import pandas as pd

from benchtrial.designs.balance.counting import (
    Spread,
    coded,
    connected,
    evenness,
    group_numbers,
    listed,
    pair_spread,
    pair_table,
    require_present,
    spread,
    times,
)
from benchtrial.designs.balance.report import Balance, Check
from benchtrial.designs.schedule import IntArray
from benchtrial.errors import DataError

CONTEXT = ("judge", "criterion", "batch", "replicate", "repetition")
"""Columns that say which context a row belongs to, where a table has them."""

T = TypeVar("T")

NEAR_CONCURRENCE = 2
"""Meetings within 2 of each other cost under 1 % of the variance of a contrast already at 30
batches of 10 from 30 (measured); designs whose meetings differ by at most 1 rarely exist."""


def balance_of_batches(frame: pd.DataFrame, items: tuple[Hashable, ...] | None = None) -> Balance:
    """Count a table of batches; ``items`` is the pool where it is known."""
    if frame.empty:
        raise DataError("the table has no rows, so that there is nothing to count")
    for key in ("judge", "batch"):
        if key in frame.columns:
            require_present(frame[key])
    rated = frame[frame["rating"].notna()] if "rating" in frame.columns else frame
    if rated.empty:
        raise DataError("no row of the table has a rating, so that there is nothing to count")
    _require_positions(rated["position"])
    rows = _Rows(rated, items)
    judges = rows.judges()
    checks = [
        _lost(frame, rated),
        _duplicates(rows),
        _shown(rows),
        _positions(judges, rows.labels),
        _carryover(judges, rows.labels, 1),
        _carryover(judges, rows.labels, 2),
        _concurrence(judges, rows.labels),
    ]
    groups = connected(rows.links(), rows.labels)
    checks.append(_connectivity(groups))
    one, other = rows.meetings()
    follows = [pair_table(*rows.neighbours(lag), rows.labels) for lag in (1, 2)]
    together = pair_table(np.r_[one, other, rows.item], np.r_[other, one, rows.item], rows.labels)
    contexts = int(rows.context.max()) + 1
    return Balance(
        title=f"Balance of {contexts} batches from {len(rows.labels)} items"
        + (f", {len(judges)} judges" if len(judges) > 1 else ""),
        checks=tuple(check for check in checks if check is not None),
        position=rows.positions(),
        carryover=follows[0],
        second_carryover=follows[1],
        swaps=None,
        concurrence=together,
        connectivity=groups,
    )


class _Rows:
    """A table of batches as integers, sorted by context and position."""

    def __init__(self, frame: pd.DataFrame, items: tuple[Hashable, ...] | None) -> None:
        (item,), self.labels = coded([frame["item"]], items)
        keys = [key for key in CONTEXT if key in frame.columns]
        context = group_numbers(frame, keys)
        position = frame["position"].to_numpy(dtype=np.int64)
        order = np.lexsort((position, context))
        self.frame = frame.iloc[order]
        self.item, self.context, self.position = item[order], context[order], position[order]

    def judges(self) -> "list[tuple[str, _Rows]]":
        """Return the rows of each judge, by name."""
        if "judge" not in self.frame.columns:
            return [("", self)]
        return [
            (str(judge), _Rows(rows, self.labels))
            for judge, rows in self.frame.groupby("judge", sort=True, observed=True)
        ]

    def positions(self) -> pd.DataFrame:
        table = np.zeros((len(self.labels), int(self.position.max())), dtype=np.int64)
        np.add.at(table, (self.item, self.position - 1), 1)
        return pd.DataFrame(table, index=list(self.labels), columns=range(1, table.shape[1] + 1))

    def neighbours(self, lag: int) -> tuple[IntArray, IntArray]:
        """Return the earlier and the later item of every two that are ``lag`` rows apart."""
        same = self.context[lag:] == self.context[:-lag]
        return self.item[:-lag][same], self.item[lag:][same]

    def batches(self) -> Iterator[IntArray]:
        yield from np.split(self.item, np.flatnonzero(np.diff(self.context)) + 1)

    def links(self) -> Iterator[tuple[int, int]]:
        for batch in self.batches():
            yield from zip(batch[:-1].tolist(), batch[1:].tolist(), strict=True)

    def meetings(self) -> tuple[IntArray, IntArray]:
        """Return the smaller and the larger item number of every two that share a batch."""
        ones, others = [], []
        for batch in self.batches():
            one, other = np.triu_indices(len(batch), 1)
            ordered = np.sort(batch)
            ones.append(ordered[one])
            others.append(ordered[other])
        return np.concatenate(ones), np.concatenate(others)


def _require_positions(position: pd.Series) -> None:
    """Refuse positions that are not whole numbers from 1, and name the first."""
    numbers = pd.to_numeric(position, errors="coerce").to_numpy(dtype=float)
    wrong = ~((numbers >= 1) & (numbers == np.floor(numbers)))
    if wrong.any():
        place = int(wrong.argmax())
        raise DataError(
            f"column 'position', row {position.index[place]}: {position.iloc[place]!r} is not a "
            "position; they are whole numbers from 1, in the order of emission"
        )


def _lost(frame: pd.DataFrame, rated: pd.DataFrame) -> Check | None:
    """Compare the rows with what must have been asked: gaps in batches and in positions."""
    found = []
    if len(rated) < len(frame):
        found.append(f"{len(frame) - len(rated)} of {len(frame)} rows have no rating")
    keys = [key for key in CONTEXT if key in frame.columns]
    sizes = rated.groupby(keys, dropna=False, observed=True)["position"].agg(["size", "max"])
    short = sizes[sizes["size"] < sizes["max"]]
    if len(short):
        found.append(f"{len(short)} batches have gaps in their positions")
    wanted = set(frame["batch"])
    if pd.api.types.is_integer_dtype(frame["batch"]):
        wanted |= set(range(int(frame["batch"].min()), int(frame["batch"].max()) + 1))
    absent: list[object] = []
    judges = rated.groupby("judge", observed=True) if "judge" in rated.columns else [("", rated)]
    for judge, rows in judges:
        gone = sorted(wanted - set(rows["batch"]))
        absent += gone
        if gone:
            whose = f" of judge {judge}" if str(judge) else ""
            found.append(f"no row of batch {listed(gone)}{whose}")
    if not found:
        return None
    return Check("lost", "fault", "; ".join(found), tuple(dict.fromkeys(absent)))


def _duplicates(rows: _Rows) -> Check:
    twice = _again(rows.context, rows.item)
    place_twice = _again(rows.context, rows.position)
    if not twice.any() and not place_twice.any():
        return Check("duplicates", "sound", "no item or position occurs twice in a batch")
    names = tuple(rows.labels[item] for item in np.unique(rows.item[twice]).tolist())
    said = []
    if twice.any():
        said.append(f"{int(twice.sum())} rows repeat an item of their batch ({listed(names)})")
    if place_twice.any():
        said.append(f"{int(place_twice.sum())} rows repeat a position of their batch")
    return Check("duplicates", "fault", "; ".join(said), names)


def _again(context: IntArray, value: IntArray) -> np.ndarray:
    return pd.DataFrame({"context": context, "value": value}).duplicated().to_numpy()


def _shown(rows: _Rows) -> Check:
    counts = np.bincount(rows.item, minlength=len(rows.labels))
    span = spread(counts)
    rare = tuple(rows.labels[item] for item in np.flatnonzero(counts == span.least).tolist())
    detail = f"every item is shown {span}"
    if span.width:
        detail = f"items are shown {span}; least {listed(rare)}"
    return Check("replication", evenness(span), detail, rare if span.width else ())


def _positions(judges: list[tuple[str, _Rows]], labels: tuple[Hashable, ...]) -> Check:
    judge, table, span = _worst(
        [
            (name, table, spread(table.to_numpy()))
            for name, rows in judges
            for table in [rows.positions()]
        ]
    )
    if not span.width:
        return Check("position", "exact", f"every item is in every position {span}")
    uneven = tuple(
        label
        for label, row in zip(labels, table.to_numpy(), strict=True)
        if int(row.max() - row.min()) == span.width
    )
    return Check(
        "position",
        evenness(span),
        f"items are in a position {span}{judge}; most uneven {listed(uneven)}",
        uneven,
    )


def _carryover(judges: list[tuple[str, _Rows]], labels: tuple[Hashable, ...], lag: int) -> Check:
    name = "carryover" if lag == 1 else "carryover, order 2"
    back = "" if lag == 1 else " two places back"
    pool = len(labels)
    judge, (one, other), span = _worst(
        [
            (who, pairs, pair_spread(*pairs, pool, pool * (pool - 1)))
            for who, rows in judges
            for pairs in [rows.neighbours(lag)]
        ]
    )
    if not span.most:
        return Check(name, "sound", f"no item has another{back} before it")
    if not span.width:
        return Check(name, "exact", f"every item follows every other{back} {span}")
    keys, counts = np.unique(one * pool + other, return_counts=True)
    often = keys[counts == span.most].tolist()
    pairs = tuple((labels[key // pool], labels[key % pool]) for key in often)
    never = pool * (pool - 1) - len(keys)
    shown = listed([f"{a}-{b}" for a, b in pairs])
    return Check(
        name,
        evenness(span),
        f"items follow one another{back} {span}{judge}; {shown} {times(span.most)}"
        + (f", {never} ordered pairs never" if never else ""),
        pairs,
    )


def _concurrence(judges: list[tuple[str, _Rows]], labels: tuple[Hashable, ...]) -> Check:
    pool = len(labels)
    judge, _, span = _worst(
        [
            (name, None, pair_spread(*rows.meetings(), pool, pool * (pool - 1) // 2))
            for name, rows in judges
        ]
    )
    return Check(
        "concurrence",
        evenness(span, near=NEAR_CONCURRENCE),
        f"two items share a batch {span}{judge}",
    )


def _connectivity(groups: tuple[tuple[Hashable, ...], ...]) -> Check:
    if len(groups) == 1:
        return Check("connectivity", "sound", "all items are linked by shared batches")
    return Check(
        "connectivity",
        "fault",
        f"{len(groups)} groups of items share no batch; the smallest holds {listed(groups[-1])}",
        groups[-1],
    )


def _worst(found: list[tuple[str, T, Spread]]) -> tuple[str, T, Spread]:
    """Return the most uneven judge, named in words where there are several."""
    judge, what, span = max(found, key=lambda one: one[2].width)
    named = f" (judge {judge})" if len(found) > 1 and span.width else ""
    return named, what, span
