"""Placing: the change by an exchange, counted against brute force."""

import numpy as np

from benchtrial.designs.placing import PREDECESSOR_LIMIT, _Tables, place


def met(tables, order):
    """Return what an order costs: the counts that it meets."""
    return int(
        tables.position[order, range(len(order))].sum()
        + (tables.follows[order[:-1], order[1:]].sum() if len(tables.follows) else 0)
    )


def test_gains_are_changes_of_the_cost():
    rng = np.random.default_rng(1)
    for size in (2, 3, 6):
        tables = _Tables(8, size)
        for _ in range(40):
            tables.add(rng.permutation(8)[:size], 1)
        order = rng.permutation(8)[:size]
        gains = tables._gains(order)
        for p in range(size):
            for q in range(size):
                exchanged = order.copy()
                exchanged[[p, q]] = exchanged[[q, p]]
                assert gains[p, q] == met(tables, exchanged) - met(tables, order)


def test_improving_never_costs():
    rng = np.random.default_rng(2)
    tables = _Tables(10, 6)
    for _ in range(30):
        order = rng.permutation(10)[:6]
        better = tables.improved(order)
        assert sorted(better.tolist()) == sorted(order.tolist())
        assert met(tables, better) <= met(tables, order)
        tables.add(better, 1)


def test_complete_batches_come_out_like_squares():
    # 12 batches of all 12 items: every item once or twice or never in a position, and the same for
    # predecessors; random orders reach 4 or 5.
    orders = place([np.arange(12)] * 12, 12, [], np.random.default_rng(3))
    tables = _Tables(12, 12)
    for order in orders:
        tables.add(order, 1)
    assert tables.position.max() <= 2
    assert tables.follows.max() <= 3


def test_earlier_orders_count_and_stay():
    before = [np.array([0, 1, 2, 3])] * 5
    (order,) = place([np.arange(4)], 4, before, np.random.default_rng(4))
    assert not (order == np.arange(4)).any()


def test_a_large_pool_evens_out_positions_alone():
    pool = PREDECESSOR_LIMIT + 1
    batches = [np.arange(5)] * 5
    tables = _Tables(pool, 5)
    for order in place(batches, pool, [], np.random.default_rng(5)):
        tables.add(order, 1)
    assert len(tables.follows) == 0
    assert tables.position.max() <= 2
