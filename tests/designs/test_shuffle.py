"""Random shuffle: uniform orders of whole pools, even dealing of parts of them."""

from itertools import permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchtrial import designs


@given(pool=st.integers(2, 12), batches=st.integers(1, 20), seed=st.integers(0, 2**32))
def test_every_batch_holds_the_whole_pool(pool, batches, seed):
    schedule = designs.random_shuffle(range(pool), batches, seed=seed)
    assert len(schedule) == batches
    assert all(sorted(order) == list(range(pool)) for order in schedule.orders)
    assert schedule.blocks == tuple(range(batches))


@given(data=st.data(), pool=st.integers(2, 25), seed=st.integers(0, 2**32))
def test_parts_of_a_pool_are_dealt_evenly(data, pool, seed):
    size = data.draw(st.integers(2, pool))
    batches = data.draw(st.integers(-(-pool // size), 30))
    schedule = designs.random_shuffle(range(pool), batches, seed=seed, size=size)
    assert {len(order) for order in schedule.orders} == {size}
    for stop in range(-(-pool // size), batches + 1):
        shown = np.bincount(
            [item for order in schedule.orders[:stop] for item in order], minlength=pool
        )
        assert np.ptp(shown) <= 1


def test_orders_are_uniform():
    # 24 orders, 2400 batches: 100 each; chi-square(23) exceeds 49.7 once in 1000.
    orders = designs.random_shuffle(range(4), 2400, seed=2).orders
    counts = np.array([orders.count(order) for order in permutations(range(4))])
    assert ((counts - 100) ** 2 / 100).sum() < 49.7


def test_orders_within_dealt_batches_are_uniform():
    # Also where a pass over the pool ends within a batch. 6 ordered pairs of 3 items are equally
    # likely in each of 3000 batches: 500 each; chi-square(5) exceeds 20.5 once in 1000.
    schedule = designs.random_shuffle(range(3), 3000, seed=3, size=2)
    counts = np.array([schedule.orders.count(pair) for pair in permutations(range(3), 2)])
    assert ((counts - 500) ** 2 / 500).sum() < 20.5


def test_a_longer_schedule_begins_with_the_shorter_one():
    for size in (None, 4):
        short = designs.random_shuffle(range(10), 7, seed=4, size=size)
        long = designs.random_shuffle(range(10), 20, seed=4, size=size)
        assert long.orders[:7] == short.orders


def test_what_is_left_of_a_pass_has_no_place_of_its_own():
    # The third item of each pass over 3 items opens half of the batches that it is held over to:
    # 1000 batches, binomial sd 16; 70 is over four of them.
    first = 0
    for seed in range(1000):
        opening, second = designs.random_shuffle(range(3), 2, seed=seed, size=2).orders
        (left,) = {0, 1, 2} - set(opening)
        first += second[0] == left
    assert abs(first - 500) < 70
