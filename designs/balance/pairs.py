"""Balance of comparisons: both orders, slots, links between candidates, what was lost.

A cell is one judge, prompt, pair, repetition and criterion. Where a pair was only ever shown one
way round, the lean of the judge towards a slot and the merit of the candidates rest on the same
rows, and only the model tells them apart.
"""

from collections.abc import Hashable

import numpy as np
import pandas as pd

from benchtrial.designs.balance.counting import (
    coded,
    connected,
    evenness,
    group_numbers,
    listed,
    pair_spread,
    pair_table,
    require_present,
    spread,
)
from benchtrial.designs.balance.report import Balance, Check
from benchtrial.errors import DataError

CELL = ("judge", "criterion", "prompt", "repetition")
"""Columns that, with the pair, say which cell a row belongs to, where a table has them."""

TABLE_KEYS = ["judge", "one", "other"]


def balance_of_pairs(
    frame: pd.DataFrame, candidates: tuple[Hashable, ...] | None = None
) -> Balance:
    """Count a table of comparisons; ``candidates`` are all of them where they are known."""
    if frame.empty:
        raise DataError("the table has no rows, so that there is nothing to count")
    counted = frame[frame["outcome"].notna()] if "outcome" in frame.columns else frame
    if counted.empty:
        raise DataError("no row of the table has an outcome, so that there is nothing to count")
    (first, second), labels = coded([counted["first"], counted["second"]], candidates)
    selves = np.flatnonzero(first == second)
    if len(selves):
        raise DataError(
            f"row {counted.index[selves[0]]}: {labels[first[selves[0]]]!r} is compared with "
            "itself; drop the row"
        )
    keys = [key for key in CELL if key in counted.columns]
    for key in ("judge", "prompt"):
        if key in keys:
            require_present(counted[key])
    rows = counted[keys].copy()
    rows["one"], rows["other"] = np.minimum(first, second), np.maximum(first, second)
    rows["turned"] = first > second
    rows["first"], rows["second"] = first, second
    if "judge" not in rows.columns:
        rows["judge"] = "all"
    cells = group_numbers(rows, [*keys, "one", "other"])
    swaps = _swaps(rows, cells)
    groups = connected(zip(first.tolist(), second.tolist(), strict=True), labels)
    one, other = rows["one"].to_numpy(), rows["other"].to_numpy()
    checks = [
        _lost(frame, counted),
        _duplicates(rows, keys, labels),
        _swapped(rows, cells, labels),
        _order(swaps, labels),
        _slots(rows, labels),
        _evenly("prompts", "prompt", rows),
        _evenly("judges", "judge", rows),
        Check(
            "concurrence",
            evenness(span := pair_spread(one, other, len(labels), _possible(one, other, labels))),
            f"pairs that are compared at all are compared {span}",
        ),
        _connectivity(groups, rows, labels),
    ]
    slots = [np.bincount(column, minlength=len(labels)) for column in (first, second)]
    return Balance(
        title=f"Balance of {len(counted)} comparisons of {len(labels)} candidates"
        + (f", {counted['judge'].nunique()} judges" if "judge" in counted.columns else ""),
        checks=tuple(check for check in checks if check is not None),
        position=pd.DataFrame({"first": slots[0], "second": slots[1]}, index=list(labels)),
        carryover=None,
        second_carryover=None,
        swaps=_labelled(swaps, labels),
        concurrence=pair_table(np.r_[one, other], np.r_[other, one], labels),
        connectivity=groups,
    )


def _swaps(rows: pd.DataFrame, cells: np.ndarray) -> pd.DataFrame:
    """Return, by judge and pair, the rows in either order and the cells in one order only."""
    by_cell = (
        rows.assign(cell=cells)
        .groupby([*TABLE_KEYS, "cell"], observed=True)["turned"]
        .agg(["size", "sum"])
    )
    by_cell["forward"] = by_cell["size"] - by_cell["sum"]
    by_cell["one_sided"] = (by_cell["sum"] == 0) | (by_cell["forward"] == 0)
    return (
        by_cell.rename(columns={"sum": "backward"})
        .groupby(TABLE_KEYS, observed=True)[["forward", "backward", "one_sided"]]
        .sum()
        .astype(np.int64)
    )


def _labelled(swaps: pd.DataFrame, labels: tuple[Hashable, ...]) -> pd.DataFrame:
    table = swaps.reset_index()
    for column in ("one", "other"):
        table[column] = [labels[place] for place in table[column].tolist()]
    return table


def _lost(frame: pd.DataFrame, counted: pd.DataFrame) -> Check | None:
    lost = len(frame) - len(counted)
    if not lost:
        return None
    gone = frame.drop(counted.index)
    where = "; ".join(
        f"{column} {counts.index[0]} {counts.iloc[0]}"
        for column in ("judge", "first", "second")
        if column in gone.columns
        for counts in [gone[column].value_counts()]
    )
    return Check("lost", "fault", f"{lost} of {len(frame)} rows have no outcome; most: {where}")


def _duplicates(rows: pd.DataFrame, keys: list[str], labels: tuple[Hashable, ...]) -> Check:
    twice = rows.duplicated([*keys, "first", "second"])
    if not twice.any():
        return Check("duplicates", "sound", "no row says the same as another")
    pairs = rows.loc[twice, ["first", "second"]].drop_duplicates().to_numpy().tolist()
    named = tuple((labels[a], labels[b]) for a, b in pairs)
    same = ", ".join([*(key for key in keys), "order"])
    return Check(
        "duplicates",
        "fault",
        f"{int(twice.sum())} of {len(rows)} rows repeat another ({same}); number real repetitions "
        "in a column 'repetition'",
        named,
    )


def _swapped(rows: pd.DataFrame, cells: np.ndarray, labels: tuple[Hashable, ...]) -> Check:
    count = int(cells.max()) + 1
    turned = np.bincount(cells, weights=rows["turned"].to_numpy(), minlength=count)
    uneven = 2 * turned != np.bincount(cells, minlength=count)
    if not uneven.any():
        return Check("swaps", "exact", f"each of {count} cells is shown in both orders evenly")
    pairs = rows.loc[uneven[cells], ["one", "other"]].drop_duplicates().to_numpy().tolist()
    return Check(
        "swaps",
        "uneven",
        f"{int(uneven.sum())} of {count} cells (judge, prompt, pair) are not shown in both orders "
        "evenly",
        tuple((labels[a], labels[b]) for a, b in pairs),
    )


def _order(swaps: pd.DataFrame, labels: tuple[Hashable, ...]) -> Check:
    """Find pairs that a judge only ever saw one way round, and the rule behind that."""
    fixed = (swaps["forward"] == 0) | (swaps["backward"] == 0)
    if not fixed.any():
        return Check("order", "sound", "every judge saw every pair both ways round")
    judges = fixed.groupby(level="judge", observed=True).all()
    confounded = tuple(judges.index[judges])
    if not confounded:
        some = swaps[fixed].reset_index()[["one", "other"]].drop_duplicates().to_numpy().tolist()
        return Check(
            "order",
            "uneven",
            f"{int(fixed.sum())} of {len(fixed)} pairs of a judge were shown one way round only",
            tuple((labels[a], labels[b]) for a, b in some),
        )
    line = _line(swaps, labels)
    rule = f"; candidates always stand in the order {', '.join(map(str, line))}" if line else ""
    whose = "any judge" if len(confounded) == len(judges) else f"judge {listed(confounded)}"
    return Check(
        "order",
        "fault",
        f"order is confounded with identity: {whose} never saw a pair the other way round{rule}; "
        "only the model can tell a lean towards a slot from merit",
        confounded,
    )


def _line(swaps: pd.DataFrame, labels: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    """Return the one order of all candidates that every row follows; empty if there is none."""
    totals = swaps.groupby(level=["one", "other"])[["forward", "backward"]].sum()
    ahead = np.zeros((len(labels), len(labels)), dtype=bool)
    for (one, other), (forward, backward) in zip(
        totals.index, totals.to_numpy().tolist(), strict=True
    ):
        ahead[one, other], ahead[other, one] = forward > 0, backward > 0
    order = np.argsort(-ahead.sum(axis=1), kind="stable")
    sorted_ahead = ahead[np.ix_(order, order)]
    if sorted_ahead[np.tril_indices(len(labels))].any() or not sorted_ahead.diagonal(1).all():
        return ()
    return tuple(labels[place] for place in order.tolist())


def _slots(rows: pd.DataFrame, labels: tuple[Hashable, ...]) -> Check:
    """Compare, within each judge, how often each candidate was shown first and second."""
    worst, who, labelled = 0, "", ()  # type: int, str, tuple[Hashable, ...]
    judges = rows.groupby("judge", observed=True)
    for judge, own in judges:
        lean = np.bincount(own["first"], minlength=len(labels)) - np.bincount(
            own["second"], minlength=len(labels)
        )
        if int(np.abs(lean).max()) > worst:
            worst = int(np.abs(lean).max())
            most = np.flatnonzero(np.abs(lean) == worst).tolist()
            labelled = tuple(labels[place] for place in most)
            who = f" (judge {judge})" if judges.ngroups > 1 else ""
    if not worst:
        return Check("position", "exact", "every candidate is first as often as second")
    return Check(
        "position",
        "near" if worst == 1 else "uneven",
        f"showings in the first and the second slot differ by up to {worst}{who}; "
        f"most {listed(labelled)}",
        labelled,
    )


def _evenly(name: str, column: str, rows: pd.DataFrame) -> Check | None:
    if column not in rows.columns or rows[column].nunique() < 2:
        return None
    counts = rows[column].value_counts()
    span = spread(np.asarray(counts, dtype=np.int64))
    return Check(name, evenness(span), f"rows for each {column}: {span.least} to {span.most}")


def _possible(one: np.ndarray, other: np.ndarray, labels: tuple[Hashable, ...]) -> int:
    return len(np.unique(one * len(labels) + other))


def _connectivity(
    groups: tuple[tuple[Hashable, ...], ...], rows: pd.DataFrame, labels: tuple[Hashable, ...]
) -> Check:
    if len(groups) > 1:
        return Check(
            "connectivity",
            "fault",
            f"{len(groups)} groups of candidates are never compared with each other; the smallest "
            f"holds {listed(groups[-1])}",
            groups[-1],
        )
    apart = tuple(
        judge
        for judge, own in rows.groupby("judge", observed=True)
        if len(connected(zip(own["one"].tolist(), own["other"].tolist(), strict=True), labels)) > 1
    )
    if apart:
        return Check(
            "connectivity",
            "uneven",
            f"all candidates are linked, but not within judge {listed(apart)}",
            apart,
        )
    return Check("connectivity", "sound", "all candidates are linked, within every judge")
