"""Williams squares: written out where they are small, counted where they are large."""

import time
from itertools import permutations

import numpy as np
import pytest

from benchtrial import designs
from benchtrial.designs.williams import williams_row
from benchtrial.errors import DesignError


def test_order_four_written_out():
    # Neighbours: 01 13 32 | 12 20 03 | 23 31 10 | 30 02 21: all 12 ordered pairs once.
    assert designs.williams_square(4).tolist() == [
        [0, 1, 3, 2],
        [1, 2, 0, 3],
        [2, 3, 1, 0],
        [3, 0, 2, 1],
    ]


def test_two_items_are_shown_both_ways_round():
    assert designs.williams_square(2).tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("v", [*range(2, 32), 64, 99, 150, 199, 200])
def test_every_square_is_balanced(v):
    square = designs.williams_square(v)
    each = 1 if v % 2 == 0 else 2
    assert square.shape == (each * v, v)
    positions = np.zeros((v, v), dtype=int)
    follows = np.zeros((v, v), dtype=int)
    np.add.at(positions, (square, np.arange(v)), 1)
    np.add.at(follows, (square[:, :-1], square[:, 1:]), 1)
    assert (positions == each).all()
    assert (follows == each * (1 - np.eye(v))).all()


def test_odd_square_is_followed_by_its_mirror():
    square = designs.williams_square(7)
    assert (square[7:] == square[:7, ::-1]).all()


@pytest.mark.parametrize("v", [1, 0, -3])
def test_one_item_has_no_square(v):
    with pytest.raises(DesignError, match="nearest valid choice is 2"):
        designs.williams_square(v)


def test_rows_wrap_and_never_count_from_the_end():
    square = designs.williams_square(5)
    for index, row in [(0, 0), (9, 9), (10, 0), (23, 3)]:
        assert williams_row(5, index).tolist() == square[row].tolist()
    with pytest.raises(DesignError, match="nearest valid choice is 0"):
        williams_row(5, -1)


@pytest.mark.parametrize("count", [2, 3, 6, 7])
def test_each_block_is_a_whole_square(count):
    items = [f"item {number}" for number in range(count)]
    schedule = designs.williams(items, 3, seed=1)
    rows = count * (1 + count % 2)
    assert schedule.blocks == tuple(np.repeat(range(3), rows).tolist())
    for block in range(3):
        balance = designs.balance(schedule.slice(block * rows, (block + 1) * rows))
        assert balance["position"].grade == balance["carryover"].grade == "exact"


def test_symbols_are_drawn_anew_for_each_block():
    orders = designs.williams(range(8), 2, seed=5).orders
    assert orders[:8] != orders[8:]
    assert set(orders[:8]) != set(orders[8:])


def test_without_randomization_every_block_is_the_square_itself():
    schedule = designs.williams(["a", "b", "c", "d"], 2, seed=1, randomize_symbols=False)
    named = tuple(tuple("abcd"[s] for s in row) for row in designs.williams_square(4))
    assert schedule.orders == named * 2


def test_each_batch_is_a_uniformly_random_order():
    # 24 orders, 4 batches of 600 blocks: 100 each; chi-square(23) exceeds 49.7 once in 1000.
    orders = designs.williams(range(4), 600, seed=11).orders
    counts = np.array([orders.count(order) for order in permutations(range(4))])
    assert counts.sum() == 2400
    assert ((counts - 100) ** 2 / 100).sum() < 49.7


def test_a_broken_block_is_refused_with_both_neighbours():
    assert designs.williams_blocks(3, 6) == 1
    with pytest.raises(
        DesignError, match=r"6 batches for 3 items.*nearest valid choice is 6 or 12"
    ):
        designs.williams_blocks(3, 7)
    with pytest.raises(DesignError, match=r"nearest valid choice is 30$"):
        designs.williams_blocks(30, 12)
    with pytest.raises(DesignError, match=r"nearest valid choice is 1$"):
        designs.williams(range(4), 0, seed=1)


def test_any_square_can_be_relabelled():
    cyclic = [[0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]]
    schedule = designs.relabelled(list("abcd"), cyclic, 2, seed=1)
    assert len(schedule) == 8
    with pytest.raises(DesignError, match="0 … 2 for 3 items"):
        designs.relabelled(list("abc"), cyclic, 1, seed=1)


def test_two_hundred_items_take_milliseconds():
    # 4 ms on a quiet core of 2 GHz; the best of five, because other work disturbs a busy machine.
    times = []
    for _ in range(5):
        start = time.perf_counter()
        designs.williams(range(200), 1, seed=1)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.05
