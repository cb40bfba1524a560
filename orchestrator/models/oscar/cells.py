"""Records grouped by judge and displayed pair, so that the work grows with cells, not records.

Everything in the linear predictor but the length contrast is constant in a *cell* (k, a, b). A
model without length therefore needs one row per cell, whatever the number of records; a model with
length needs the records themselves, sorted by cell once.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy import sparse

from benchtrial.orchestrator.models.oscar.arrays import Floats, Ints
from benchtrial.orchestrator.models.oscar.model import Model
from benchtrial.orchestrator.models.oscar.table import Comparisons

#: Up to this many counters, plus a few per record, counting beats sorting.
COUNTERS = 1_000_000
COUNTERS_PER_RECORD = 8
#: Rows worked on together: ten columns of this many doubles fit a core's own cache.
BLOCK = 16_384


@dataclass(frozen=True, eq=False)
class Cells:
    """Records grouped by (judge, first, second).

    ``judge, first, second, family`` have one entry per cell. ``rows`` of the kernel are cells
    (without length) or records sorted by cell (with length); ``start`` is where a cell's rows
    begin. ``count``, ``outcome`` and ``ties`` are per row; ``count`` is None for one each.
    """

    judge: Ints
    first: Ints
    second: Ints
    family: Floats
    start: Ints
    outcome: Floats
    count: Floats | None
    length: Floats | None
    ties: Floats | None
    candidates: int
    judges: int

    @cached_property
    def blocks(self) -> list[tuple[slice, slice, sparse.csr_array]]:
        """Runs of whole cells with about :data:`BLOCK` rows each.

        Each is its cells, its rows, and the (cells x rows) matrix that sums rows over cells.
        """
        total = len(self.outcome)
        starts = np.append(self.start, total)
        edges = np.searchsorted(self.start, np.arange(0, total, BLOCK))
        edges = np.append(np.unique(edges), len(self.start))
        runs = []
        for begin, end in pairwise(edges.tolist()):
            rows = slice(int(starts[begin]), int(starts[end]))
            pointer = (starts[begin : end + 1] - rows.start).astype(np.int32)
            columns = np.arange(pointer[-1], dtype=np.int32)
            shape = (end - begin, int(pointer[-1]))
            gather = sparse.csr_array((np.ones(len(columns)), columns, pointer), shape)
            runs.append((slice(begin, end), rows, gather))
        return runs

    @cached_property
    def rows_per_cell(self) -> Ints:
        """Count the rows of each cell."""
        return np.diff(np.append(self.start, len(self.outcome)))

    @cached_property
    def judge_start(self) -> Ints:
        """Say where each judge's cells begin."""
        return np.flatnonzero(np.diff(self.judge, prepend=-1))

    @cached_property
    def incidence(self) -> sparse.csc_array:
        """(K M x cells): +1 at (judge, first), -1 at (judge, second)."""
        base = self.judge * self.candidates
        rows = np.stack([base + self.first, base + self.second], axis=1).ravel()
        sign = np.tile([1.0, -1.0], len(base))
        pointer = np.arange(0, 2 * len(base) + 1, 2)
        shape = (self.judges * self.candidates, len(base))
        return sparse.csc_array((sign, rows, pointer), shape=shape)

    def total(self, values: Floats) -> Floats:
        """Sum over the rows of each cell."""
        if len(values) == len(self.start):
            return values
        sums: Floats = np.add.reduceat(values, self.start)
        return sums

    def by_judge(self, columns: list[Floats]) -> Floats:
        """Sum columns over the cells of each judge: (columns x K)."""
        sums = np.zeros((len(columns), self.judges))
        present = self.judge[self.judge_start]
        for row, column in zip(sums, columns, strict=True):
            row[present] = np.add.reduceat(column, self.judge_start)
        return sums

    def by_candidate(self, columns: list[Floats]) -> Floats:
        """Sum columns over a candidate's cells, first minus second: (columns x K x M)."""
        sums: Floats = (self.incidence @ np.stack(columns, axis=1)).T
        return sums.reshape(len(columns), self.judges, self.candidates)


def group(data: Comparisons, model: Model, length: Floats | None) -> Cells:
    """Group records into the cells of ``model``; ``length`` is the contrast L per record."""
    judges, candidates = len(data.judges), len(data.candidates)
    judge = data.judge if model.judged else np.zeros_like(data.judge)
    key = (judge * candidates + data.first) * candidates + data.second
    ties = (data.outcome == 0.5).astype(np.float64) if model.tie else None
    if "length" in model.terms:
        assert length is not None  # noqa: S101  (the caller checked the columns)
        order, start = counting_sort(key, judges * candidates * candidates)
        occupied = key[order[start]]
        count = None if data.weight is None else data.weight[order]
        outcome = data.outcome[order] if count is None else data.outcome[order] * count
        rows_length: Floats | None = length[order]
        if ties is not None:
            ties = ties[order] if count is None else ties[order] * count
    else:
        occupied, count, outcome, ties = _aggregate(data, key, ties, judges * candidates**2)
        start, rows_length = np.arange(len(occupied)), None
    judge, pair = np.divmod(occupied, candidates * candidates)
    first, second = np.divmod(pair, candidates)
    family = np.zeros(len(occupied))
    if "family" in model.terms:
        assert data.same_family is not None  # noqa: S101  (the caller checked the columns)
        same = data.same_family.astype(np.float64)
        family = same[judge, first] - same[judge, second]
    return Cells(
        judge=judge,
        first=first,
        second=second,
        family=family,
        start=start,
        outcome=outcome,
        count=count,
        length=rows_length,
        ties=ties,
        candidates=candidates,
        judges=judges,
    )


def counting_sort(key: Ints, keys: int) -> tuple[Ints, Ints]:
    """Order of records by key in linear time, and where each occupied key begins.

    Transposing a sparse matrix with one entry per column is a stable counting sort.
    """
    if keys > COUNTERS_PER_RECORD * len(key) + COUNTERS:
        order = np.argsort(key, kind="stable")
        return order, np.flatnonzero(np.diff(key[order], prepend=-1))
    records = len(key)
    column = sparse.csc_array(
        (np.ones(records, dtype=np.int8), key, np.arange(records + 1)), shape=(keys, records)
    )
    by_row = column.tocsr()
    start = by_row.indptr[:-1][np.diff(by_row.indptr) > 0]
    return by_row.indices.astype(np.intp), start.astype(np.intp)


def _aggregate(
    data: Comparisons, key: Ints, ties: Floats | None, keys: int
) -> tuple[Ints, Floats, Floats, Floats | None]:
    """Find the occupied keys with their number of records, sum of outcomes and number of ties."""
    occupied = None
    if keys > COUNTERS_PER_RECORD * len(key) + COUNTERS:
        occupied, key = np.unique(key, return_inverse=True)
        keys = len(occupied)

    def total(values: Floats | None) -> Floats:
        if data.weight is not None:
            values = data.weight if values is None else values * data.weight
        return np.bincount(key, values, keys).astype(np.float64)

    count = total(None)
    filled = np.flatnonzero(count)
    return (
        filled if occupied is None else occupied[filled],
        count[filled],
        total(data.outcome)[filled],
        None if ties is None else total(ties)[filled],
    )
