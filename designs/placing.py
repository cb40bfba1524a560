"""Orders within given batches, so that positions and predecessors come out even over the design.

Two tables are kept over all batches: how often each item stood in each position, and how often each
item followed each other one. An order is improved by exchanging two places at a time as long as the
sum of the squares of both tables falls; squares, because an even table has the smallest sum. After
all batches have an order, each is taken out and improved again against all the others.
"""

from collections.abc import Sequence

import numpy as np

from benchtrial.designs.schedule import IntArray

PREDECESSOR_LIMIT = 2048
"""Largest pool with a table of predecessors. In a larger one a given pair follows one another so
rarely that there is nothing to even out, and the table would take more than 16 MB."""

EXCHANGES_LIMIT = 60
"""Exchanges tried for one batch in one pass; a local optimum is usually reached in 10 to 30."""

REVISION_SHOWINGS = 40_000
"""Largest design (items shown in all) whose batches are revised; in a larger one the first pass
already has long averages to lean on, and revision would take more than some seconds."""

REVISIONS = 3
"""Passes over a small design after the first; later ones change next to nothing."""


def place(
    batches: Sequence[IntArray], pool: int, before: Sequence[IntArray], rng: np.random.Generator
) -> list[IntArray]:
    """Return the batches, each in an order chosen against the others and those ``before``.

    Parameters
    ----------
    batches
        Items of each batch, as numbers from 0 to ``pool`` - 1.
    pool
        Number of items.
    before
        Orders that stay as they are but count in both tables.
    rng
        Random generator; every search starts at a random order.
    """
    positions = max(len(batch) for batch in [*batches, *before])
    tables = _Tables(pool, positions)
    for order in before:
        tables.add(order, 1)
    orders = []
    for batch in batches:
        order = tables.improved(rng.permutation(batch))
        tables.add(order, 1)
        orders.append(order)
    if sum(map(len, batches)) <= REVISION_SHOWINGS:
        for number in [*range(len(orders))] * REVISIONS:
            tables.add(orders[number], -1)
            orders[number] = tables.improved(orders[number])
            tables.add(orders[number], 1)
    return orders


class _Tables:
    """Counts of item by position and of item by predecessor, over the orders added so far."""

    def __init__(self, pool: int, positions: int) -> None:
        self.position = np.zeros((pool, positions), dtype=np.int64)
        followed = pool if pool <= PREDECESSOR_LIMIT else 0
        self.follows = np.zeros((followed, followed), dtype=np.int64)

    def add(self, order: IntArray, times: int) -> None:
        self.position[order, np.arange(len(order))] += times
        if len(self.follows):
            self.follows[order[:-1], order[1:]] += times

    def improved(self, order: IntArray) -> IntArray:
        """Return an order that no exchange of two places makes more even.

        Adding an order raises the sum of squares by twice the counts that it meets, plus a
        constant; so the counts themselves are the cost.
        """
        order = order.copy()
        for _ in range(EXCHANGES_LIMIT):
            gain = self._gains(order)
            best = int(gain.argmin())
            one, other = divmod(best, len(order))
            if gain[one, other] >= 0:
                break
            order[[one, other]] = order[[other, one]]
        return order

    def _gains(self, order: IntArray) -> IntArray:
        """Return the change of cost by exchanging places p and q, for every p and q."""
        size = len(order)
        here = self.position[order, :size]
        stay = here.diagonal()
        gain: IntArray = here + here.T - stay[:, None] - stay
        if len(self.follows):
            gain = gain + self._follow_gains(order)
        return gain

    def _follow_gains(self, order: IntArray) -> IntArray:
        """Return the predecessor part of the change.

        ``f[p, q]`` is how often the item now in place q followed the one now in place p, with a
        border of zeros, so that places before the first and after the last cost nothing.
        """
        size = len(order)
        f = np.zeros((size + 2, size + 2), dtype=np.int64)
        f[1:-1, 1:-1] = self.follows[np.ix_(order, order)]
        entering = np.r_[0, f.diagonal(1)]
        leaving = np.r_[f.diagonal(1), 0]
        removed = (entering + leaving)[1:-1]
        p_takes_q = f[:-2, 1:-1] + f[1:-1, 2:].T
        q_takes_p = f[:-2, 1:-1].T + f[1:-1, 2:]
        apart = p_takes_q + q_takes_p - removed[:, None] - removed
        gain: IntArray = np.triu(apart, 2)
        p = np.arange(size - 1)
        gain[p, p + 1] = (
            f[p, p + 2]
            + f[p + 2, p + 1]
            + f[p + 1, p + 3]
            - entering[p + 1]
            - f[p + 1, p + 2]
            - leaving[p + 2]
        )
        return gain + gain.T
