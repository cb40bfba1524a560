import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchtrial.adapters.judge import (
    BatchCell,
    ChoiceAnswer,
    PairCell,
    RatingsAnswer,
    Reply,
    Token,
)
from benchtrial.orchestrator.verdicts import failure, parse

PAIR = PairCell("judge", "prompt", "x", "y", "quality")
BATCH = BatchCell("judge", 0, ("x", "y", "z"), "quality")
CHOICES = [
    ChoiceAnswer(),
    ChoiceAnswer(("A", "B", "tie")),
    ChoiceAnswer(("1", "2", "3")),
    ChoiceAnswer(("m", "M")),
    ChoiceAnswer(("SUCCESS", "NOT SUCCESS")),
    ChoiceAnswer(("(a)", "(b)")),
]
RATINGS = [
    RatingsAnswer(3, labels=("reject", "accept")),
    RatingsAnswer(3, scale=(1, 10)),
    RatingsAnswer(1, scale=(0, 1), integer=False),
]
ANNOUNCEMENTS = [
    "{}",
    "Final verdict: {}",
    "**Final verdict:** {}.",
    "Both have merits.\n\nMy verdict is {}.",
    "Choice: {}",
    "<verdict>{}</verdict>",
    "It is close. [[{}]]",
    '{{"winner": "{}"}}',
    '```json\n{{"winner": "{}"}}\n```',
]
# Fragments that the rules look for, so that random texts come near them.
# fmt: off
FRAGMENTS = st.sampled_from(
    ["A", "B", "tie", "Answer A", " ", "\n", ". ", "Final verdict: ", "[[", "]]", "{", "}",
     '"winner"', ":", '"', "'", " is better", " than ", "not ", "Therefore, ", "I choose ",
     "item_1", "accept", "7", "/10", " or ", "```", "\\", "<think>", "</think>", "-", "1. ",
     "if ", "\ud800"]
)
# fmt: on
TEXTS = st.one_of(st.text(), st.lists(FRAGMENTS, max_size=40).map("".join))


@given(TEXTS, st.sampled_from(["complete", "truncated", "other"]))
def test_no_text_makes_the_parser_raise(text, stop):
    for answer in (*CHOICES, *RATINGS):
        cell = PAIR if isinstance(answer, ChoiceAnswer) else BATCH
        verdicts = parse(Reply(text, stop), cell, answer)
        for verdict in verdicts:
            assert (verdict.value is None) == (verdict.state == "invalid")
            assert (verdict.reason is None) == (verdict.state != "invalid")


@given(st.sampled_from(CHOICES), st.sampled_from(ANNOUNCEMENTS), st.data())
def test_an_announced_label_is_read_back(answer, announcement, data):
    label = data.draw(st.sampled_from(answer.labels))
    (verdict,) = parse(Reply(announcement.format(label)), PAIR, answer)
    assert verdict.label == label
    assert verdict.value == (1.0, 0.0, 0.5)[answer.labels.index(label)]


def test_a_failed_pair_has_no_value():
    (verdict,) = failure(PAIR, "context_overflow")
    assert (verdict.state, verdict.reason, verdict.value) == ("failed", "context_overflow", None)


def tokens(*pieces):
    """Tokens from (text, {alternative: probability})."""
    return tuple(
        Token(text, math.log(offers.get(text, 1.0)), {k: math.log(p) for k, p in offers.items()})
        for text, offers in pieces
    )


def probability(answer, *pieces):
    spoken = tokens(*pieces)
    (verdict,) = parse(Reply("".join(t.text for t in spoken), tokens=spoken), PAIR, answer)
    return verdict.probability


AB, TIES = ChoiceAnswer(), ChoiceAnswer(("A", "B", "tie"))


def test_the_token_of_the_verdict_gives_the_probability():
    # The first "A" is prose; the token of the verdict puts 0.3 on A and 0.6 on B.
    score = probability(
        AB,
        ("A", {"A": 0.9, "B": 0.1}),
        (" beginning.\n", {}),
        ("Final verdict:", {}),
        (" B", {" B": 0.5, "B": 0.1, " A": 0.3, " the": 0.1}),
    )
    assert score == pytest.approx(0.3 / 0.9)


def test_the_tie_counts_half():
    score = probability(TIES, ("A", {"A": 0.5, "B": 0.3, "tie": 0.2}))
    assert score == pytest.approx(0.5 + 0.1)


def test_a_label_behind_a_quote_is_found_in_json():
    score = probability(
        AB,
        ('{"', {}),
        ("winner", {}),
        ('":', {}),
        (' "', {}),
        ("B", {"A": 0.2, "B": 0.8}),
        ('"}', {}),
    )
    assert score == pytest.approx(0.2)
    score = probability(AB, ('{"winner":', {}), (' "B', {' "A': 0.2, ' "B': 0.8}), ('"}', {}))
    assert score == pytest.approx(0.2)


def test_labels_that_begin_alike_are_split_by_the_next_token():
    answer = ChoiceAnswer(("model_1", "model_2", "tie"))
    score = probability(
        answer,
        ("model", {"model": 0.8, "tie": 0.2}),
        ("_", {"_": 1.0}),
        ("2", {"1": 0.25, "2": 0.75}),
    )
    assert score == pytest.approx(0.8 * 0.25 + 0.1)


def test_an_absent_label_matters_only_if_it_could_have_mass():
    assert probability(AB, ("A", {"A": 0.9, "x": 0.099})) == pytest.approx(1.0, abs=0.005)
    assert probability(AB, ("A", {"A": 0.9})) is None
    assert probability(TIES, ("A", {"A": 0.5, "B": 0.3})) is None


def test_there_is_no_probability_without_log_probabilities_or_a_verdict():
    assert probability(AB) is None
    (verdict,) = parse(Reply("A"), PAIR, AB)
    assert (verdict.label, verdict.probability) == ("A", None)
    (verdict,) = parse(Reply("A", tokens=tokens(("B", {"B": 1.0}))), PAIR, AB)
    assert verdict.probability is None
