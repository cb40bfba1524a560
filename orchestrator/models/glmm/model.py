"""The linear predictor: items, judges, lags, cold start and covariates, as columns over cells.

``eta = theta_item + shift_judge + sum_k beta_k lag_k + gamma [first] + delta' covariates``, plus
the batch intercept. One judge has no shift. In a joint fit of several judges the item effects are
shared, the first judge has no shift, and every judge has lags, a cold start and a batch deviation
of its own.

For ordinal ratings the thresholds are further parameters that sum to zero, so that a scale with two
levels is the binary model and turning the scale round only changes signs.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from benchtrial.errors import DataError, NotIdentified
from benchtrial.orchestrator.models.glmm.families import Binary, CumulativeLogit, Family
from benchtrial.orchestrator.models.glmm.likelihood import Likelihood, Linear
from benchtrial.orchestrator.models.glmm.matrices import count_matrix, design_matrix
from benchtrial.orchestrator.models.glmm.newton import START_SD
from benchtrial.orchestrator.models.glmm.scale import Scale
from benchtrial.orchestrator.models.glmm.table import (
    Integers,
    Paths,
    RatingTable,
    complete,
    name_some,
)

Floats = npt.NDArray[np.float64]
Name = tuple[str, Hashable]
Response = Literal["binary", "ordinal", "gaussian"]

COLLINEAR = 1e-9
"""Share of a column's variation that must remain after the items are taken out; what remains below
this is rounding."""

COMPACT = 4
"""Cell codes are looked up in a table while there are at most this many codes per rating."""


@dataclass(frozen=True, eq=False)
class Model:
    """A likelihood whose parameters have names.

    Parameters
    ----------
    likelihood
        The data part.
    names
        ``(part, label)`` of each parameter, in the order of the parameter vector.
    scale
        Levels of the ratings.
    penalty, start, free
        Ridge, start value, and whether it is estimated, of each parameter.
    """

    likelihood: Likelihood
    names: tuple[Name, ...]
    scale: Scale
    penalty: Floats
    start: Floats
    free: npt.NDArray[np.bool_]


def build(
    tables: Sequence[RatingTable],
    scale: Scale,
    weights: Sequence[Floats],
    *,
    lags: int,
    ridge: float,
    cold_start: bool,
    response: Response,
) -> Model:
    """Lay out cells, counts, designs and parameters.

    Raises
    ------
    NotIdentified
        An item has no readable rating, all ratings are equal, or an effect cannot be told apart
        from the items.
    """
    _require_variety(tables)
    items = _shared_items(tables)
    paths = [complete(table, scale.codes(table.value), len(scale.used)) for table in tables]
    entry_level = np.concatenate([path.level for path in paths])
    outcome = np.zeros_like(entry_level) if response == "binary" else entry_level
    code, dims, covariates = _cell_codes(
        tables, paths, items, outcome, len(scale.used), lags, cold_start=cold_start
    )
    cells, entry_cell = _occupied(code, int(np.prod(dims)))
    decoded = np.unravel_index(cells, dims)
    judge, item, first, level = decoded[0], decoded[1], decoded[-3], decoded[-1]
    names, columns, values = _columns(
        tables, items, judge, item, decoded[2 : 2 + lags], first, covariates[decoded[-2]], scale
    )
    thresholds = len(scale.used) - 2
    names += [("threshold", scale.used[r]) for r in range(thresholds)]
    effects = len(names)
    designs, family = _designs(columns, values, effects, level, len(scale.used), response)
    batches = [len(table.batches) for table in tables]
    offsets = np.cumsum([0, *batches])
    path_batch = np.concatenate(
        [path.batch + offset for path, offset in zip(paths, offsets, strict=False)]
    )
    path_offsets = np.cumsum([0, *(len(path.batch) for path in paths)])
    entry_path = np.concatenate(
        [path.path + offset for path, offset in zip(paths, path_offsets, strict=False)]
    )
    shape = (int(path_offsets[-1]), len(cells))
    linear = None
    if response == "binary":
        one = entry_level == 1
        accepted = count_matrix(entry_path[one], entry_cell[one], shape)
        linear = Linear(accepted @ designs[0], accepted.sum(axis=1))
    single = len(path_batch) == offsets[-1]
    likelihood = Likelihood(
        counts=count_matrix(entry_path, entry_cell, shape),
        designs=designs,
        family=family,
        path_batch=None if single else path_batch,
        weights=np.concatenate(list(weights)),
        cell_judge=np.asarray(judge, dtype=np.intp),
        batch_judge=np.repeat(np.arange(len(tables)), batches),
        judges=len(tables),
        longest=max(int(path.place.max(initial=0)) + 1 for path in paths),
        linear=linear,
    )
    _require_identified(columns, values, names, likelihood, len(items))
    names += [("batch sd", _of_judge("", table, tables)) for table in tables]
    ridged = np.array([part not in {"threshold", "batch sd"} for part, _ in names])
    free = np.ones(len(names), dtype=bool)
    free[effects:] = [_sd_is_estimable(table) for table in tables]
    return Model(
        likelihood=likelihood,
        names=tuple(names),
        scale=scale,
        penalty=np.where(ridged, ridge, 0.0),
        start=_start(likelihood, item, level, len(items), names, free),
        free=free,
    )


def _require_variety(tables: Sequence[RatingTable]) -> None:
    for table in tables:
        readable = table.value[~np.isnan(table.value)]
        whose = "" if table.judge is None else f" of judge {table.judge!r}"
        if readable.size == 0:
            raise NotIdentified(f"no rating{whose} could be read; nothing can be estimated")
        if (readable == readable[0]).all():
            raise NotIdentified(
                f"all {readable.size} ratings{whose} are {readable[0]:g}; such ratings tell no "
                f"item from another: change the rubric or the judge, or collect more batches"
            )
        rated = np.bincount(table.item[~np.isnan(table.value)], minlength=len(table.items))
        unrated = [table.items[v] for v in np.flatnonzero(rated == 0)]
        if unrated and len(tables) == 1:
            raise NotIdentified(
                f"no rating of item {name_some(unrated)} could be read; leave the item out, or ask "
                f"more batches"
            )


def _shared_items(tables: Sequence[RatingTable]) -> tuple[Hashable, ...]:
    if len(tables) == 1:
        return tables[0].items
    seen = dict.fromkeys(item for table in tables for item in table.items)
    try:
        return tuple(sorted(seen))  # type: ignore[type-var]
    except TypeError:
        return tuple(sorted(seen, key=lambda item: (type(item).__name__, str(item))))


def _cell_codes(
    tables: Sequence[RatingTable],
    paths: Sequence[Paths],
    items: tuple[Hashable, ...],
    outcome: Integers,
    levels: int,
    lags: int,
    *,
    cold_start: bool,
) -> tuple[Integers, tuple[int, ...], Floats]:
    """Return the code of every entry's outcome cell, the dimensions of the code, and covariates."""
    place = {item: v for v, item in enumerate(items)}
    stacked = np.concatenate([table.covariates[path.row] for table, path in _pairs(tables, paths)])
    if stacked.shape[1]:
        patterns, pattern = np.unique(stacked, axis=0, return_inverse=True)
    else:
        patterns, pattern = np.zeros((1, 0)), np.zeros(len(stacked), dtype=np.intp)
    parts = []
    for j, (table, path) in enumerate(_pairs(tables, paths)):
        lookup = np.array([place[item] for item in table.items], dtype=np.intp)
        first = (path.place == 0) if cold_start else np.zeros(len(path.place), dtype=bool)
        parts.append(
            [
                np.full(len(path.row), j),
                lookup[table.item[path.row]],
                *(path.lag(k) for k in range(1, lags + 1)),
                first.astype(np.intp),
            ]
        )
    outcomes = int(outcome.max(initial=0)) + 1
    dims = (len(tables), len(items), *(levels,) * lags, 2, len(patterns), outcomes)
    if float(np.prod([float(d) for d in dims])) > np.iinfo(np.intp).max:
        raise DataError(f"{lags} lags of {levels} levels are too many; use fewer lags")
    joined = [np.concatenate(column) for column in zip(*parts, strict=True)]
    code = np.ravel_multi_index((*joined, pattern.reshape(-1), outcome), dims)
    return code, dims, patterns


def _pairs(
    tables: Sequence[RatingTable], paths: Sequence[Paths]
) -> list[tuple[RatingTable, Paths]]:
    return list(zip(tables, paths, strict=True))


def _occupied(code: Integers, space: int) -> tuple[Integers, Integers]:
    """Return the codes that occur, and the position of each entry's code among them."""
    if space > COMPACT * len(code) + 10_000:
        cells, entry = np.unique(code, return_inverse=True)
        return cells, entry.reshape(-1)
    seen = np.bincount(code, minlength=space) > 0
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[code]


def _of_judge(label: Hashable, table: RatingTable, tables: Sequence[RatingTable]) -> Hashable:
    if len(tables) == 1:
        return label
    return table.judge if label == "" else (table.judge, label)


def _columns(
    tables: Sequence[RatingTable],
    items: tuple[Hashable, ...],
    judge: Integers,
    item: Integers,
    lag_levels: Sequence[Integers],
    first: Integers,
    covariates: Floats,
    scale: Scale,
) -> tuple[list[Name], list[Integers], list[Floats]]:
    """Return parameter names and, per parameter column group, the column and value of each cell."""
    names: list[Name] = [("item", label) for label in items]
    columns, values = [np.asarray(item, dtype=np.intp)], [np.ones(len(item))]

    def add(part: str, label: Hashable, cell_values: Floats, *, own: bool = True) -> None:
        for j, table in enumerate(tables) if own else [(-1, tables[0])]:
            columns.append(np.full(len(item), len(names)))
            values.append(np.where((judge == j) | (j < 0), cell_values, 0.0))
            names.append((part, _of_judge(label, table, tables) if own else label))

    for j, table in enumerate(tables[1:], start=1):
        add("judge", table.judge, (judge == j).astype(np.float64), own=False)
    for k, level in enumerate(lag_levels, start=1):
        add("lag", k, scale.scores[level])
    if first.any():
        add("cold start", "", first.astype(np.float64))
    for name, column in zip(tables[0].covariate_names, covariates.T, strict=True):
        add("covariate", name, column, own=False)
    return names, columns, values


def _designs(
    columns: list[Integers],
    values: list[Floats],
    effects: int,
    level: Integers,
    levels: int,
    response: Response,
) -> tuple[tuple[object, ...], Family]:
    cells = len(level)
    rows = np.tile(np.arange(cells), len(columns))
    column, value = np.concatenate(columns), np.concatenate(values)
    kept = value != 0
    rows, column, value = rows[kept], column[kept], value[kept]
    if response == "binary":
        design = design_matrix(rows, column, value, (cells, effects))
        return (design,), Binary()
    thresholds = np.vstack([np.eye(levels - 2), -np.ones((1, levels - 2))])
    designs = []
    for above in (level, level - 1):  # the threshold above a level, then the one below it
        exists = (above >= 0) & (above < levels - 1)
        basis = np.where(exists[:, None], thresholds[np.clip(above, 0, levels - 2)], 0.0)
        r, c = np.nonzero(basis)
        inside = exists[rows]
        designs.append(
            design_matrix(
                np.concatenate([rows[inside], r]),
                np.concatenate([column[inside], effects - (levels - 2) + c]),
                np.concatenate([-value[inside], basis[r, c]]),
                (cells, effects),
            )
        )
    return tuple(designs), CumulativeLogit(lowest=level == 0, highest=level == levels - 1)


def _require_identified(
    columns: list[Integers],
    values: list[Floats],
    names: list[Name],
    likelihood: Likelihood,
    items: int,
) -> None:
    """Refuse a lag, cold start or covariate that the items (or other effects) already explain."""
    if len(columns) == 1:
        return
    visits = np.asarray(likelihood.counts.sum(axis=0)).reshape(-1)
    item = columns[0]
    effect = np.column_stack(values[1:])
    totals = np.bincount(item, weights=visits, minlength=items)
    means = (
        np.column_stack(
            [np.bincount(item, weights=visits * column, minlength=items) for column in effect.T]
        )
        / np.maximum(totals, 1.0)[:, None]
    )
    within = (effect - means[item]) * np.sqrt(visits)[:, None]
    size = np.sqrt((effect**2 * visits[:, None]).sum(axis=0))
    if (size == 0).any():
        lost = [names[columns[1:][m][0]] for m in np.flatnonzero(size == 0)]
        raise NotIdentified(
            f"{_say(lost)} never differs from zero in these ratings; use fewer lags, or longer "
            f"batches"
        )
    _, singular, directions = np.linalg.svd(within / size, full_matrices=False)
    if singular[-1] ** 2 < COLLINEAR:
        involved = np.flatnonzero(np.abs(directions[-1]) > 1e-3)
        lost = [names[columns[1:][m][0]] for m in involved]
        raise NotIdentified(
            f"{_say(lost)} cannot be told apart from the items: items and this effect go together "
            f"in every rating; shuffle the order of the items from batch to batch, collect more "
            f"batches, or leave the effect out (lags=…, cold_start=False)"
        )


def _say(names: list[Name]) -> str:
    return " and ".join(part if label == "" else f"{part} {label!r}" for part, label in names)


def _sd_is_estimable(table: RatingTable) -> bool:
    """Return whether at least two batches hold two ratings: one level per batch needs a second."""
    return int((np.bincount(table.batch[~np.isnan(table.value)]) >= 2).sum()) >= 2


def _start(
    likelihood: Likelihood,
    item: Integers,
    level: Integers,
    items: int,
    names: list[Name],
    free: npt.NDArray[np.bool_],
) -> Floats:
    """Start at the smoothed log-odds of each item, equal thresholds' odds and no other effect."""
    visits = np.asarray(likelihood.counts.sum(axis=0)).reshape(-1)
    start = np.zeros(len(names))
    if likelihood.linear is not None:
        total = np.bincount(item, weights=visits, minlength=items)
        upper = np.asarray(likelihood.linear.sums.sum(axis=0)).reshape(-1)[:items]
        start[:items] = np.log((upper + 0.5) / (total - upper + 0.5))
        sds = np.arange(likelihood.effects, len(names))
        start[sds] = np.where(free[sds], START_SD, 0.0)
        return start
    by_level = np.bincount(level, weights=visits)
    cut = np.cumsum(by_level)[:-1]
    thresholds = np.log((cut + 0.5) / (visits.sum() - cut + 0.5))
    positions = [i for i, (part, _) in enumerate(names) if part == "threshold"]
    start[positions] = (thresholds - thresholds.mean())[: len(positions)]
    half = (len(by_level)) // 2
    total = np.bincount(item, weights=visits, minlength=items)
    upper = np.bincount(item, weights=visits * (level >= half), minlength=items)
    start[:items] = np.log((upper + 0.5) / (total - upper + 0.5))
    if positions:
        start[:items] += (thresholds - thresholds.mean())[half - 1]
    sds = np.arange(likelihood.effects, len(names))
    start[sds] = np.where(free[sds], START_SD, 0.0)
    return start
