"""Schedules: values that can be cut, continued and laid out as tables."""

import numpy as np
import pytest

from benchtrial import designs
from benchtrial.errors import DesignError


def test_batches_as_a_table():
    schedule = designs.BatchSchedule(("a", "b", "c"), (("b", "a"), ("c", "a", "b")), (0, 1))
    frame = schedule.to_frame()
    assert frame.to_dict("list") == {
        "batch": [0, 0, 1, 1, 1],
        "position": [1, 2, 1, 2, 3],
        "item": ["b", "a", "c", "a", "b"],
    }


@pytest.mark.parametrize(
    ("orders", "blocks", "words"),
    [
        ((("a", "a"),), (0,), "batch 0 shows an item twice"),
        ((("a", "b"), ("a", "z")), (0, 1), "batch 1 shows 'z', which is not in the pool"),
        ((("a", "b"),), (), "1 batches but 0 block numbers"),
    ],
)
def test_impossible_batches_are_refused(orders, blocks, words):
    with pytest.raises(DesignError, match=words):
        designs.BatchSchedule(("a", "b"), orders, blocks)


def test_a_schedule_is_cut_and_continued():
    first = designs.williams(["a", "b", "c"], 2, seed=1)
    later = designs.random_shuffle(["b", "c", "d"], 3, seed=2)
    joined = first.then(later)
    assert joined.items == ("a", "b", "c", "d")
    assert joined.slice(0, len(first)).orders == first.orders
    assert joined.slice(len(first)).orders == later.orders
    assert joined.blocks == (0,) * 6 + (1,) * 6 + (2, 3, 4)


def test_rows_of_a_unit_are_its_two_orders():
    schedule = designs.balanced_swaps(["a", "b", "c"], ["p", "q"], seed=1, judges=["x", "y"])
    frame = schedule.to_frame()
    assert len(frame) == len(schedule) == 2 * schedule.units == 24
    even, odd = frame[::2].reset_index(drop=True), frame[1::2].reset_index(drop=True)
    assert even["first"].equals(odd["second"].rename("first"))
    assert even["second"].equals(odd["first"].rename("second"))
    same = ["judge", "prompt", "repetition"]
    assert even[same].equals(odd[same])


def test_pairs_are_cut_by_unit():
    schedule = designs.balanced_swaps(["a", "b", "c"], ["p", "q"], seed=1)
    part = schedule.slice(1, 3)
    assert part.units == 2
    expected = schedule.to_frame().iloc[2:6].reset_index(drop=True)
    assert part.to_frame().equals(expected)
    assert part == schedule.slice(1, 3)
    assert hash(part) == hash(schedule.slice(1, 3))
    assert part != schedule
    assert part != "another thing"


def test_impossible_units_are_refused():
    with pytest.raises(DesignError, match="outside the lists"):
        designs.PairSchedule(("j",), ("p",), ("a", "b"), np.array([[0, 0, 0, 2, 0]]))
    with pytest.raises(DesignError, match="against itself"):
        designs.PairSchedule(("j",), ("p",), ("a", "b"), np.array([[0, 0, 1, 1, 0]]))
