"""Verdicts from outside: what is legal, what it becomes, what is refused."""

import json

import pytest

from benchtrial.adapters import BatchCell, ChoiceAnswer, Message, PairCell, RatingsAnswer, Request
from benchtrial.errors import InputError
from benchtrial.orchestrator.campaign.answers import as_text


def pair(first="new", second="old", labels=("A", "B", "tie")):
    cell = PairCell("ann", "p1", first, second, "quality")
    return Request("k", cell, (Message("user", "?"),), ChoiceAnswer(labels), 10)


def batch(**answer):
    cell = BatchCell("ann", 0, ("x", "y", "z"), "quality")
    return Request("k", cell, (Message("user", "?"),), RatingsAnswer(3, **answer), 10)


@pytest.mark.parametrize(
    ("verdict", "winner"), [("A", "A"), ("B", "B"), ("tie", "tie"), ("new", "A"), ("old", "B")]
)
def test_a_pair_is_answered_by_a_label_or_by_the_better_candidate(verdict, winner):
    assert json.loads(as_text(pair(), verdict)) == {"winner": winner}


def test_a_word_that_is_a_label_and_the_candidate_in_the_other_slot_is_refused():
    with pytest.raises(InputError, match="disagree"):
        as_text(pair(first="B", second="A"), "A")
    assert json.loads(as_text(pair(first="A", second="B"), "A")) == {"winner": "A"}


@pytest.mark.parametrize("verdict", ["C", "", ["A"], 1.0, None])
def test_what_is_no_verdict_on_a_pair_is_refused_with_those_that_are(verdict):
    with pytest.raises(InputError, match="use one of A, B, tie"):
        as_text(pair(), verdict)


@pytest.mark.parametrize(
    "verdict", [["no", "yes", "no"], {"z": "no", "y": "yes", "x": "no"}, [0, 1, 0], (0, 1.0, False)]
)
def test_a_batch_is_answered_by_labels_or_their_ranks_in_order_or_by_item(verdict):
    told = json.loads(as_text(batch(labels=("no", "yes")), verdict))
    assert told == {"item_1": "no", "item_2": "yes", "item_3": "no"}


def test_numbers_stand_on_the_scale():
    assert json.loads(as_text(batch(scale=(1, 10)), [1, 10, 5])) == {
        "item_1": 1,
        "item_2": 10,
        "item_3": 5,
    }
    with pytest.raises(InputError, match="from 1 to 10"):
        as_text(batch(scale=(1, 10)), [0, 1, 2])


@pytest.mark.parametrize(
    ("verdict", "message"),
    [
        ("yes", "one rating per item"),
        (["yes"], "1 ratings for the 3 items"),
        ({"x": "yes"}, "no rating for y, z"),
        ({"x": 1, "y": 1, "z": 1, "w": 1}, "not shown: w"),
        (["yes", "maybe", "no"], "'maybe' is no rating"),
        ([2, 0, 1], "2 is no rating"),
    ],
)
def test_what_is_no_set_of_ratings_is_refused_with_the_reason(verdict, message):
    with pytest.raises(InputError, match=message):
        as_text(batch(labels=("no", "yes")), verdict)
