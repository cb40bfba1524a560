import pytest

from benchtrial.adapters.judge import BatchCell, RatingsAnswer, Reply
from benchtrial.orchestrator.verdicts import failure, parse

CELL = BatchCell("judge", 0, ("x", "y", "z"), "clarity")
LABELS = RatingsAnswer(3, labels=("reject", "accept"))
SCALE = RatingsAnswer(3, scale=(1, 10))


def ratings(text, answer=LABELS, stop="complete"):
    """Map subject to value or reason, in order of emission."""
    verdicts = parse(Reply(text, stop), CELL, answer)
    assert [v.position for v in verdicts] == [1, 2, 3]
    return {v.subject: v.reason if v.value is None else v.value for v in verdicts}


@pytest.mark.parametrize(
    "text",
    [
        '{"item_1": "accept", "item_2": "reject", "item_3": "accept"}',
        '```json\n{"item_1": "Accept", "item_2": "reject", "item_3": "accept"}\n```',
        '{"ratings": {"1": "accept", "2": "reject", "3": "accept"}}',
        '{"item_1": "accept"}\n{"item_2": "reject"}\n{"item_3": "accept"}',
        "{'item_1': 'accept', 'item_2': 'reject', 'item_3': 'accept',}",
        "item_1: accept\nitem_2: reject\nitem_3: accept",
        "- **Item 1:** accept\n- **Item 2:** reject (too vague)\n- **Item 3:** accept",
        "1. accept\n2. reject\n3. accept",
        "1) accept, it is clear\n2) reject, it is vague\n3) accept",
        "| 1 | accept |\n| 2 | reject |\n| 3 | accept |",
        "Item 1: The first is clear.\nItem 2: It is not.\nItem 3: It is.\n\n"
        "Verdicts: [Item1: accept, Item2: reject, Item3: accept]",
        "accept\nreject\naccept",
        '["accept", "reject", "accept"]',
        "Ratings: accept, reject, accept",
    ],
)
def test_labels_are_read_in_every_common_form(text):
    assert ratings(text) == {"x": 1.0, "y": 0.0, "z": 1.0}


def test_positions_are_those_of_emission():
    read = ratings('{"item_3": "reject", "item_1": "accept", "item_2": "accept"}')
    assert list(read.items()) == [("z", 0.0), ("x", 1.0), ("y", 1.0)]


def test_an_omitted_item_follows_the_emitted_ones_and_is_no_zero():
    read = ratings("item_1: accept\nitem_3: reject")
    assert list(read.items()) == [("x", 1.0), ("z", 0.0), ("y", "omitted")]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("item_1: accept\nitem_2: accept or reject\nitem_3: reject", "ambiguous"),
        ("item_1: accept\nitem_2: perhaps\nitem_3: reject", "unparseable"),
        ("item_1: accept\nitem_2: accept\nitem_2: reject\nitem_3: reject", "ambiguous"),
        ('{"item_1": "accept", "item_2": "maybe", "item_3": "reject"}', "out_of_range"),
        ('{"item_1": "accept", "item_2": null, "item_3": "reject"}', "out_of_range"),
    ],
)
def test_one_bad_rating_leaves_the_others_standing(text, reason):
    read = ratings(text)
    assert (read["x"], read["y"], read["z"]) == (1.0, reason, 0.0)


def test_a_cut_reply_keeps_what_was_complete():
    read = ratings('{"item_1": "accept", "item_2": "rej', stop="truncated")
    assert read == {"x": 1.0, "y": "truncated", "z": "truncated"}
    read = ratings("item_1: 7\nitem_2: 1", SCALE, stop="truncated")  # 1, or the beginning of 10
    assert read == {"x": 7.0, "y": "truncated", "z": "truncated"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("I'm sorry, I cannot rate these.", "refusal"),
        ("All three are fine.", "unparseable"),
        ("accept\nreject", "unparseable"),
        ("1. accept\n2. accept\n3. accept\n4. reject", "ambiguous"),
        ("0: accept\n1: accept\n2: reject", "ambiguous"),
    ],
)
def test_a_reply_without_a_usable_count_is_invalid_as_a_whole(text, reason):
    assert set(ratings(text).values()) == {reason}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("item_1: 7\nitem_2: 10\nitem_3: 1", [7.0, 10.0, 1.0]),
        ('{"item_1": 7, "item_2": 10.0, "item_3": "1"}', [7.0, 10.0, 1.0]),
        ("1. 7/10\n2. 10 out of 10\n3. 1", [7.0, 10.0, 1.0]),
        ("item_1: 7.5\nitem_2: 11\nitem_3: 70/100", ["out_of_range"] * 3),
        ("item_1: 7-8\nitem_2: 10\nitem_3: 7 or 8", ["ambiguous", 10.0, "ambiguous"]),
    ],
)
def test_numbers_are_never_clamped_rounded_or_rescaled(text, expected):
    read = ratings(text, SCALE)
    assert [read[item] for item in "xyz"] == expected


@pytest.mark.parametrize(
    ("text", "scale", "integer", "expected"),
    [
        ("Ich gebe 8.", (1, 10), True, "unparseable"),
        ("I would rate this a 7 out of 10.", (1, 10), True, 7.0),
        ("Rating: [[6]]", (1, 10), True, 6.0),
        ("Score: **4**", (1, 5), True, 4.0),
        ("3.5", (1, 5), True, "out_of_range"),
        ("3.5", (1, 5), False, 3.5),
        ("It names 3 towns; my score is 9.", (1, 10), True, 9.0),
        ("Tone: 42", (0, 10), True, "out_of_range"),
        (".25", (0, 1), False, 0.25),
        ("\u22120.75", (-1, 1), False, -0.75),
        ("Score: 6/10", (0, 100), True, "out_of_range"),
        ("Score: 6. No, score: 7.", (1, 10), True, "ambiguous"),
        ("1,000", (0, 2000), True, "unparseable"),
    ],
)
def test_a_single_number_is_the_one_that_is_announced(text, scale, integer, expected):
    answer = RatingsAnswer(1, scale=scale, integer=integer)
    (verdict,) = parse(Reply(text), BatchCell("judge", 0, ("x",), "clarity"), answer)
    assert (verdict.reason if verdict.value is None else verdict.value) == expected


def test_a_failure_gives_every_item_the_reason():
    verdicts = failure(CELL, "transport")
    assert [(v.position, v.subject, v.state, v.reason) for v in verdicts] == [
        (1, "x", "failed", "transport"),
        (2, "y", "failed", "transport"),
        (3, "z", "failed", "transport"),
    ]
