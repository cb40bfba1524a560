"""Incomplete blocks: even replication, meetings, positions and predecessors, at every size."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchtrial import designs
from benchtrial.designs.dealing import quotas
from benchtrial.errors import DesignError

BATCH_VARIANCE, WEIGHT = 0.446, 0.235
"""Variance of the random intercept and p (1 - p) of the judge in the reference experiment."""


def counts(schedule):
    """Return items by batches (0 or 1), items by positions, items by predecessors."""
    pool = len(schedule.items)
    place = {item: number for number, item in enumerate(schedule.items)}
    inside = np.zeros((pool, len(schedule)), dtype=int)
    position = np.zeros((pool, max(map(len, schedule.orders))), dtype=int)
    follows = np.zeros((pool, pool), dtype=int)
    for batch, order in enumerate(schedule.orders):
        numbers = [place[item] for item in order]
        inside[numbers, batch] += 1
        position[numbers, range(len(numbers))] += 1
        np.add.at(follows, (numbers[:-1], numbers[1:]), 1)
    return inside, position, follows


def contrast_variance_ratio(schedule):
    """Return the mean variance of a contrast, over that of complete blocks with as many ratings.

    Information of the items in the mixed model with a random intercept per batch, linearized: the
    weight of each showing, less what the intercept of its batch takes away.
    """
    inside, _, _ = counts(schedule)
    size = len(schedule.orders[0])
    taken = WEIGHT**2 * BATCH_VARIANCE / (1 + size * WEIGHT * BATCH_VARIANCE)
    met = inside @ inside.T
    information = WEIGHT * np.diag(met.diagonal()) - taken * met
    information -= information.mean()  # the direction that no contrast has
    eigenvalues = np.linalg.eigvalsh(information)[1:]
    return (1 / eigenvalues).mean() * WEIGHT * met.diagonal().mean()


@pytest.mark.parametrize("seed", range(5))
def test_the_reference_design(seed):
    schedule = designs.incomplete_blocks(range(30), 10, 30, seed=seed)
    inside, position, follows = counts(schedule)
    met = inside @ inside.T
    apart = met[~np.eye(30, dtype=bool)]
    assert (met.diagonal() == 10).all()
    assert np.ptp(apart) <= 2
    assert (position == 1).all()
    assert follows.max() <= 1
    assert contrast_variance_ratio(schedule) < 1.04


@given(data=st.data(), pool=st.integers(2, 16), seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_any_size_is_shown_evenly(data, pool, seed):
    size = data.draw(st.integers(2, pool))
    batches = data.draw(st.integers(-(-pool // size), 20))
    schedule = designs.incomplete_blocks(range(pool), size, batches, seed=seed)
    inside, position, _ = counts(schedule)
    assert len(schedule) == batches
    assert (inside.sum(axis=0) == size).all()
    assert np.ptp(inside.sum(axis=1)) <= 1
    assert np.ptp(position) <= 3


@pytest.mark.parametrize(
    ("pool", "size", "batches", "meet"), [(7, 3, 7, 1), (13, 4, 13, 1), (31, 6, 31, 1)]
)
def test_finds_difference_sets(pool, size, batches, meet):
    # {0, 1, 3} mod 7, {0, 1, 3, 9} mod 13 and Singer's {1, 5, 11, 24, 25, 27} mod 31 meet once;
    # the search finds the first two, and comes within one meeting of the third.
    schedule = designs.incomplete_blocks(range(pool), size, batches, seed=0)
    met = (lambda inside: inside @ inside.T)(counts(schedule)[0])
    apart = met[~np.eye(pool, dtype=bool)]
    assert apart.max() - meet <= (pool == 31)


def test_every_two_items_meet_before_any_meets_twice_in_a_large_pool():
    schedule = designs.incomplete_blocks(range(400), 10, 120, seed=1)
    inside, _, _ = counts(schedule)
    met = inside @ inside.T
    assert met[~np.eye(400, dtype=bool)].max() == 1


def test_ten_thousand_items_take_seconds():
    # 0.9 s on a quiet core of 2 GHz; the limit leaves room for a busy machine.
    start = time.process_time()
    schedule = designs.incomplete_blocks(range(10_000), 10, 3_000, seed=1)
    assert time.process_time() - start < 10
    shown = np.bincount([item for order in schedule.orders for item in order])
    assert (shown == 3).all()


def test_groups_share_every_batch():
    groups = {f"i{number}": "old" if number < 12 else "new" for number in range(30)}
    schedule = designs.mixed_blocks(groups, 10, 30, seed=3)
    old = [sum(groups[item] == "old" for item in order) for order in schedule.orders]
    assert set(old) == {4}
    inside, _, _ = counts(schedule)
    assert (inside.sum(axis=1) == 10).all()


@given(
    sizes=st.lists(st.integers(4, 12), min_size=2, max_size=4),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=25, deadline=None)
def test_any_groups_are_in_every_batch(sizes, seed):
    groups = {
        f"{group}-{number}": group for group, size in enumerate(sizes) for number in range(size)
    }
    pool = len(groups)
    size = -(-pool // min(sizes))
    schedule = designs.mixed_blocks(groups, size, 12, seed=seed)
    for order in schedule.orders:
        held = np.bincount([groups[item] for item in order], minlength=len(sizes))
        assert (np.abs(held - size * np.array(sizes) / pool) < 1.5).all()
    inside, _, _ = counts(schedule)
    assert np.ptp(inside.sum(axis=1)) <= 2


def test_groups_that_cannot_be_in_every_batch_are_refused():
    groups = dict.fromkeys(range(29), "many") | {29: "one"}
    with pytest.raises(DesignError, match=r"'one' is 1 of 30 .* the nearest valid choice is 30"):
        designs.mixed_blocks(groups, 10, 30, seed=1)
    with pytest.raises(DesignError, match=r"2 cannot hold all 3 groups; .* is 3"):
        designs.mixed_blocks({"a": 1, "b": 2, "c": 3}, 2, 9, seed=1)


def test_quotas_carry_their_rounding_on():
    rows = quotas(np.array([10, 20]), np.array([10, 20]), 4, 6)
    assert (rows.sum(axis=1) == 4).all()
    assert rows.sum(axis=0).tolist() == [8, 16]
    assert (np.abs(rows.cumsum(axis=0)[:, 0] - 4 / 3 * np.arange(1, 7)) < 1).all()


def test_growth_keeps_what_was_asked_and_catches_up():
    running = designs.incomplete_blocks(range(30), 10, 30, seed=1)
    grown = designs.grow_blocks(running, range(36), 10, 30, seed=2)
    assert grown.slice(0, 30).orders == running.orders
    assert len(set(grown.blocks)) == 60
    inside, position, _ = counts(grown)
    assert np.ptp(inside.sum(axis=1)) <= 1
    assert np.ptp(position) <= 2
    new = [sum(item >= 30 for item in order) for order in grown.orders[30:]]
    assert set(new) == {3, 4}


def test_growth_alone_continues_the_balance():
    running = designs.incomplete_blocks(range(30), 10, 13, seed=1)
    grown = designs.grow_blocks(running, range(30), 10, 17, seed=2)
    inside, _, _ = counts(grown)
    met = inside @ inside.T
    assert (met.diagonal() == 10).all()
    assert np.ptp(met[~np.eye(30, dtype=bool)]) <= 5


def test_growth_drops_items_and_refuses_ids_written_alike():
    running = designs.incomplete_blocks(range(8), 4, 6, seed=1)
    grown = designs.grow_blocks(running, range(2, 10), 4, 6, seed=2)
    later = {item for order in grown.orders[6:] for item in order}
    assert later == set(range(2, 10))
    with pytest.raises(DesignError, match="both written '3'"):
        designs.grow_blocks(running, ["3", "x"], 2, 6, seed=2)


def test_the_largest_block_that_fits():
    limits = {"overhead": 3000, "answer_tokens": 20}
    tokens = [100] * 30
    assert designs.fitting_size(tokens, context=8000, output=4000, **limits) == 30
    assert designs.fitting_size(tokens, context=8000, output=500, **limits) == 25
    assert designs.fitting_size(tokens, context=4200, output=500, **limits) == 10
    assert designs.fitting_size([900, *tokens], context=4200, output=500, **limits) == 3
    with pytest.raises(DesignError, match=r"context .* choice is 3240"):
        designs.fitting_size(tokens, context=3200, output=500, **limits)
    with pytest.raises(DesignError, match=r"output .* choice is 40"):
        designs.fitting_size(tokens, context=8000, output=30, **limits)
