"""Balanced swaps: both orders of everything, even at every beginning, and under growth."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchtrial import designs
from benchtrial.errors import DesignError


def spread(counts):
    return int(np.ptp(counts))


def asked_pairs(frame):
    return frame[["first", "second"]].apply(lambda row: "-".join(sorted(row)), axis=1)


@given(
    candidates=st.integers(2, 6),
    prompts=st.integers(1, 8),
    judges=st.integers(1, 3),
    repetitions=st.integers(1, 2),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=40, deadline=None)
def test_everything_is_asked_once_in_each_order(candidates, prompts, judges, repetitions, seed):
    schedule = designs.balanced_swaps(
        range(candidates), range(prompts), seed=seed, judges=range(judges), repetitions=repetitions
    )
    frame = schedule.to_frame()
    rows = candidates * (candidates - 1) * prompts * judges * repetitions
    assert len(frame) == len(frame.drop_duplicates()) == rows


@given(
    candidates=st.integers(2, 6),
    prompts=st.integers(1, 12),
    seed=st.integers(0, 2**32),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_every_beginning_is_even_over_prompts_and_pairs(candidates, prompts, seed, data):
    schedule = designs.balanced_swaps(range(candidates), range(prompts), seed=seed)
    stop = data.draw(st.integers(1, schedule.units))
    codes = schedule.slice(0, stop).codes
    pairs = np.sort(codes[:, 2:4], axis=1) @ [candidates, 1]
    possible = [a * candidates + b for a in range(candidates) for b in range(a + 1, candidates)]
    assert spread(np.bincount(codes[:, 1], minlength=prompts)) <= 1
    assert spread(np.bincount(pairs, minlength=max(possible) + 1)[possible]) <= 1


def test_judges_share_a_question_before_the_next_comes():
    schedule = designs.balanced_swaps(
        ["a", "b", "c"], ["p", "q"], seed=1, judges=["x", "y", "z"], repetitions=2
    )
    by_question = schedule.codes.reshape(-1, 3, 5)
    assert (np.sort(by_question[:, :, 0], axis=1) == [0, 1, 2]).all()
    questions = np.sort(by_question[:, :, 2:4], axis=2)
    assert (questions == questions[:, :1]).all()
    assert (by_question[:, :, [1, 4]] == by_question[:, :1, [1, 4]]).all()


def test_which_order_leads_is_even_and_random():
    schedule = designs.balanced_swaps(["a", "b", "c"], range(41), seed=1, judges=["x", "y"])
    leading = schedule.to_frame()[::2]
    forward = leading["first"] < leading["second"]
    counts = forward.groupby([leading["judge"], asked_pairs(leading)]).sum()
    assert counts.isin([20, 21]).all()
    # One visit to each of 45 pairs by 20 judges: 900 fair draws, sd 15.
    once = designs.balanced_swaps(range(10), ["p"], seed=1, judges=range(20)).codes
    assert abs((once[:, 2] < once[:, 3]).sum() - 450) < 60


def test_a_star_has_its_centre_in_every_pair():
    schedule = designs.balanced_swaps([1, 2, 3, 4], ["p"], seed=1, pairs="star:3")
    frame = schedule.to_frame()
    assert len(frame) == 6
    assert ((frame["first"] == 3) | (frame["second"] == 3)).all()


def test_pairs_can_be_listed():
    pairs = [("a", "c"), ("c", "b")]
    schedule = designs.balanced_swaps(["a", "b", "c"], ["p", "q"], seed=1, pairs=pairs)
    assert set(asked_pairs(schedule.to_frame())) == {"a-c", "b-c"}


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ("ring", r"'ring' is not known; write 'all', 'star:<candidate>'"),
        ("circulant:x", "is not known"),
        ("star:z", "'z' is not a candidate; choose one of 'a', 'b', 'c'"),
        ([("a", "z")], "pair 1: 'z' is not a candidate; choose from 'a', 'b', 'c'"),
        ([("a", "a")], "both written 'a'"),
        ([("a", "b", "c")], "pair 1: .* is not two candidates"),
        (["ab"], "pair 1: str is not a list"),
        ([("a", "b"), ("b", "a")], "pair 2: .* is listed before"),
        ([], "nearest valid choice is one pair"),
    ],
)
def test_impossible_pairs_are_refused(pairs, words):
    with pytest.raises(DesignError, match=words):
        designs.balanced_swaps(["a", "b", "c"], ["p"], seed=1, pairs=pairs)


def test_a_judge_with_a_smaller_share_is_as_balanced_as_the_others():
    schedule = designs.balanced_swaps(
        ["a", "b", "c"], range(8), seed=1, judges={"full": 1, "half": 0.5, "rare": 1 / 8}
    )
    units = schedule.to_frame()[::2]
    assert units["judge"].value_counts().to_dict() == {"full": 24, "half": 12, "rare": 3}
    for judge in ("full", "half", "rare"):
        own = units[units["judge"] == judge]
        assert spread(asked_pairs(own).value_counts()) == 0
        assert spread(np.bincount(own["prompt"], minlength=8)) <= 1
    halfway = schedule.slice(0, schedule.units // 2).to_frame()[::2]
    assert halfway["judge"].value_counts().sub([12, 6, 1.5]).abs().max() <= 1


@pytest.mark.parametrize("share", [0, -1, 1.5, True, "half"])
def test_impossible_shares_are_refused(share):
    with pytest.raises(DesignError, match="the share of 'x'"):
        designs.balanced_swaps(["a", "b"], ["p"], seed=1, judges={"x": share})


def test_growth_keeps_what_was_asked_and_completes_the_larger_study():
    running = designs.balanced_swaps(["a", "b", "c"], ["p", "q"], seed=1, judges=["x"])
    asked = running.slice(0, 4)
    larger = {"candidates": ["a", "b", "c", "d"], "prompts": ["p", "q", "r"], "judges": ["x", "y"]}
    grown = designs.grow_swaps(asked, **larger, repetitions=2, seed=2)
    assert grown.slice(0, 4).to_frame().equals(asked.to_frame())
    whole = designs.balanced_swaps(**larger, repetitions=2, seed=3).to_frame()
    columns = list(whole.columns)
    assert (
        grown.to_frame()
        .sort_values(columns)
        .reset_index(drop=True)
        .equals(whole.sort_values(columns).reset_index(drop=True))
    )
    assert not designs.balance(grown).faults
    assert designs.balance(grown)["swaps"].grade == "exact"


def test_growth_by_a_repetition_is_as_even_as_the_first():
    running = designs.balanced_swaps(range(4), range(5), seed=1)
    grown = designs.grow_swaps(running, range(4), range(5), repetitions=2, seed=2)
    for stop in range(30, 61):
        prompts = np.bincount(grown.slice(30, stop).codes[:, 1], minlength=5)
        assert spread(prompts) <= 1


def test_growth_never_asks_again_about_what_was_dropped():
    running = designs.balanced_swaps(["a", "b", "c"], ["p"], seed=1).slice(0, 1)
    grown = designs.grow_swaps(running, ["a", "b"], ["q"], seed=2)
    assert grown.units == 2
    assert set(grown.slice(1).to_frame()["prompt"]) == {"q"}
    with pytest.raises(DesignError, match="both written '1'"):
        designs.grow_swaps(designs.balanced_swaps([1, 2], ["p"], seed=1), ["1", "x"], ["p"], seed=1)


def test_a_large_study_takes_seconds():
    schedule = designs.balanced_swaps(range(60), range(80), seed=1, judges=range(5))
    assert schedule.units == 60 * 59 // 2 * 80 * 5
