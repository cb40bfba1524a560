"""Texts written for this project: what a careful reader would and would not take for a verdict.

``None`` means that the text gives no verdict that can be told with certainty. Such a text must come
out invalid; a label read out of it would bias a study.
"""

import pytest

from benchtrial.adapters.judge import ChoiceAnswer, PairCell, Reply
from benchtrial.orchestrator.verdicts import parse

AB = ("A", "B")
TIES = ("A", "B", "tie")
ABC = ("A", "B", "C")
DIGITS = ("1", "2", "3")
CASES = ("m", "M")
CORRECT = ("CORRECT", "INCORRECT")
SUCCESS = ("SUCCESS", "NOT SUCCESS")

CELL = PairCell("judge", "prompt", "x", "y", "quality")

GOOD = ("good", "good enough")
TEXTS = [
    ("The form is\nFinal verdict: A or B\n\nFinal verdict: A", AB, "A"),
    ("Final verdict: good enough", GOOD, "B"),
    ("Final verdict: good", GOOD, "A"),
    ("Answer B is better.", AB, "B"),
    ("answer_b is better", AB, "B"),
    ("B", AB, "B"),
    ("b.", AB, "B"),
    ("**B**", AB, "B"),
    ("(A)", AB, "A"),
    ("Answer A", AB, "A"),
    ('"A"', AB, "A"),
    ("The second answer", AB, "B"),
    ("A>B", AB, "A"),
    ("[[B>>A]]", AB, "B"),
    ("[[A=B]]", TIES, "tie"),
    ("[[A=B]]", AB, None),
    ("tie", TIES, "tie"),
    ("Tie.", TIES, "tie"),
    ("It's a tie.", TIES, "tie"),
    ("It's a tie.", AB, None),
    ("Final verdict: a draw", TIES, "tie"),
    ("Final verdict: tie", AB, None),
    ("Final verdict: B", AB, "B"),
    ("**Final Verdict:** **B**", AB, "B"),
    ("Final verdict: [[A]]", AB, "A"),
    ("### Final verdict\n\nB", AB, "B"),
    ("Verdict:\nAnswer B", AB, "B"),
    ("Some thoughts first. Answer A is short.\n\nFinal verdict: B\n", AB, "B"),
    ("Preliminary verdict: A\nHaving read again:\nFinal verdict: B", AB, "B"),
    ("Final verdict: A\nFinal verdict: B", AB, None),
    ("Final verdict: A\nFinal verdict: A", AB, "A"),
    ("Final verdict: A or B", AB, None),
    ("Final verdict: A/B", AB, None),
    ("Final verdict: not A", AB, None),
    ("Final verdict: neither", AB, None),
    ("Final verdict: A, because B invents a source.", AB, "A"),
    ("Final verdict: A (better than B)", AB, "A"),
    ("Final verdict: A, not B", AB, "A"),
    ("Final verdict: A over B", AB, "A"),
    ("Final verdict: A is not better than B", AB, None),
    ("Final verdict: A for style, but B for content", AB, None),
    ("Decision: A lot of detail is missing.", AB, None),
    ("Verdict: a tie", TIES, "tie"),
    ("I choose 2 examples to discuss: rivers and lakes.", DIGITS, None),
    ("Choice: 2 answers are wrong.", DIGITS, None),
    ("Choice: 2", DIGITS, "B"),
    ("Choice:2.", DIGITS, "B"),
    ("Winner = Answer 2", DIGITS, "B"),
    ("Answer 1: 3\nAnswer 2: 2", DIGITS, None),
    ("Answer A: 3\nAnswer B: 1", AB, "A"),
    ("Answer A: 2\nAnswer B: 1", AB, None),
    ("Errors found.\nAnswer A: 3\nAnswer B: 1", AB, None),
    ("7 9\nBoth are fine.", AB, "B"),
    ("1 2", AB, None),
    ("8 8", TIES, "tie"),
    ("Answer A: 8/10\nAnswer B: 6/10", AB, None),
    ("Answer A is not better than Answer B.", AB, None),
    ("Is Answer A better than Answer B?", AB, None),
    ("Overall, Answer A is better in style, but Answer B is better in substance.", AB, None),
    ("Therefore, Answer B is better. However, on reflection Answer A is stronger.", AB, None),
    ("I would choose neither.", AB, None),
    ("My choice is between A and B.", AB, None),
    ("I prefer Answer A's tone but Answer B's content.", AB, None),
    ("I prefer Answer A's tone.", AB, None),
    ("I would choose Answer B rather than Answer A.", AB, "B"),
    ("I consider Answer B the better one.", AB, "B"),
    ("I'd go with the first response.", AB, "A"),
    ("I do not think that Answer A is better.", AB, None),
    ("If style matters, Answer A is better.", AB, None),
    ("Answer A is better in style and Answer B in depth, so it is hard to say.", AB, None),
    ("Therefore, Plan A is better for the traveller.", AB, None),
    ("Therefore, option B is the best way to store it.", AB, None),
    ("Both texts name the river. So the winner is clear: B.", AB, "B"),
    ("The correct answer is B.", AB, None),
    ("Answer A's final answer: B. Answer B's final answer: C.", AB, None),
    ("So the correct option is (B), which Answer A gives.\n\n[[A]]", AB, "A"),
    ("My verdict: A\nWait, I misread the second text.", AB, None),
    ("My verdict: A\nCorrection: B", AB, None),
    ('End with "Final verdict: A" or "Final verdict: B".', AB, None),
    ('The text of Answer B says "Final verdict: B", which I ignore.\nFinal verdict: A', AB, "A"),
    ("<think>Final verdict: A</think>Final verdict: B", AB, "B"),
    ("<think>I lean to A", AB, None),
    ("<verdict>B</verdict>", AB, "B"),
    ("\\boxed{A}", AB, "A"),
    ("\\boxed{\\text{Answer B}}", AB, "B"),
    ("[[C]]", AB, None),
    ("[[C]]", ABC, "tie"),
    ("[[A]]\n\nOverall, Answer B is better.", AB, None),
    ('Output "[[A]]" if the first is better, "[[B]]" if the second is better.\n[[B]]', AB, "B"),
    ("Options: [[A]], [[B]] or [[C]]", ABC, None),
    ("I choose:\n\nB\n\nIt names its source.", AB, "B"),
    ("A\n\nIt is shorter and right.", AB, "A"),
    ("1. Answer A is short.\n2. Answer B is long.", DIGITS, None),
    ("INCORRECT", CORRECT, "B"),
    ("Verdict: NOT SUCCESS", SUCCESS, "B"),
    ("The form was not a SUCCESS", SUCCESS, None),
    ("m", CASES, "A"),
    ("M", CASES, "B"),
    ("Winner: M", CASES, "B"),
    ('{"winner": "B"}', AB, "B"),
    ('{"winner": "answer_b"}', AB, "B"),
    ("{'winner': 'B',}", AB, "B"),
    ('{"winner": "both"}', TIES, None),
    ('{"winner": null}', TIES, None),
    ('{"winner": "A", "winner": "B"}', AB, None),
    ('I think so.\n{"winner":"B"}\nFinal verdict: A', AB, None),
    ('{"why": "he wrote {"winner": "B"} there", "winner": "A"}', AB, None),
    ('{"why": "it says {\\"winner\\": \\"B\\"}", "winner": "A"}', AB, "A"),
    ('{"result": {"winner": "B"}}', AB, "B"),
    ('{"verdict": "B"}', AB, "B"),
    ('{"winner": "A"', AB, "A"),
    ('{"winner": "A", "why": "bec', AB, None),
    ("As the judge I find that Answer A is better because it answers.", AB, "A"),
    ("Answer B, though longer, wins.", AB, None),
    ("In summary, B is better.", AB, "B"),
    ("In summary, A is a better match.", AB, "A"),
    ("Therefore, Answer A is better than Answer B in clarity but worse in accuracy.", AB, None),
    ("Answer A is far worse than Answer B.", AB, None),
    ("I'm sorry, but I can't compare these.", AB, None),
    ("", AB, None),
    ("   \n", AB, None),
    ("Answer A seems better", AB, None),
    ("Overall, Answer A might be better.", AB, None),
    ("Neither answer is better.", TIES, "tie"),
    ("Neither answer is better.", AB, None),
    ("Verdict on Answer A: B", AB, None),
    ("Final verdict: 1/5", DIGITS, None),
    ("The answer is 1.5", DIGITS, None),
    ("The vote goes to Answer B.", AB, "B"),
    ("Judgement: B - it is complete", AB, "B"),
    ("Final verdict: A\n\nAnswer B is better written, though.", AB, "A"),
    ("Final verdict: A\n\nHowever, Answer B is better.", AB, None),
    ("Answer A wins on style. Answer B wins on facts.", AB, None),
    ("Winner: B's rival", AB, None),
    ("Winner: Answer A's rival, Answer B", AB, None),
    ("It would be wrong to say the winner is A.", AB, None),
    ("I can't say that my verdict is A.", AB, None),
    ("Some may say: Verdict: A. I disagree.", AB, None),
    ("Final verdict: A?", AB, None),
    ("Final verdict: A... no, B", AB, None),
    ("Final verdict: A. No, B.", AB, None),
    ("Final verdict: A - just kidding, B", AB, None),
    ("Final verdict: A\nFinal verdict, corrected: B", AB, None),
    ("The winner isn't A", AB, None),
    ("Final verdict: Answer A is worse", AB, None),
    ("Final verdict: A loses", AB, None),
    ("Final verdict: A is inferior to B", AB, None),
    ("Verdict: A is wrong", AB, None),
    ("Verdict: Answer A fails.", AB, None),
    ("Verdict: A was bad", AB, None),
    ("Worst answer: A", AB, None),
    ("The worse answer is A", AB, None),
    ("The losing answer: A", AB, None),
    ("Rejected answer: A", AB, None),
    ("Second choice: A\nFirst choice: B", AB, None),
    ("Bad choice: A", AB, None),
    ("Worst: [[A]]", AB, None),
    ("Answer I would reject:\n\nA", AB, None),
    ("Worse: [A]", AB, None),
    ("The one that is not good:\nA", AB, None),
    ("Based on the above, my final verdict is A.", AB, "A"),
    ("Having read both, my verdict: B", AB, "B"),
    ("I conclude that the winner is B.", AB, "B"),
    ("And the winner is... Answer B!", AB, None),
    ("Verdict: Answer B is slightly better.", AB, "B"),
    ("Verdict - B", AB, None),
    ("My vote: Answer A, for its clarity.", AB, "A"),
    ("Answer B says: Verdict: B", AB, None),
    ("Quote from B: 'Winner: B'. My verdict: A", AB, "A"),
    ("Answer A claims that the final verdict is A.", AB, None),
    ("Answer A asks me to write [[A]].\n\nI judge on merit: [[B]]", AB, None),
    ("Ignore this: the winner is B", AB, None),
    ("Therefore, the better answer is Answer A.", AB, "A"),
    ("Thus the worse answer is Answer A.", AB, None),
    ("Overall, Answer A loses.", AB, None),
    ("Overall, Answer A is the weaker one.", AB, None),
    ("Answer A is better, no: Answer B is.", AB, None),
    ("Answer B is better than Answer A.", AB, "B"),
    ("In the end, Answer A beats Answer B.", AB, None),
    ("My final verdict is B: Answer B is better.", AB, "B"),
    ("Both are good. Overall, the first answer wins.", AB, "A"),
    ("Overall verdict: Answer 2", AB, "B"),
    ("I pick B.", AB, "B"),
    ("I'd pick a shorter text.", AB, None),
    ("The verdict: B (confidence: 80%)", AB, "B"),
    ("Answer: B", AB, "B"),
    ("Answer: A or B?", AB, None),
    ("A: good\nB: better", AB, None),
    ("A wins.", AB, "A"),
    ("B wins because A is wrong.", AB, "B"),
    ("I believe A wins, but B has its merits.", AB, "A"),
    ("score A=3, B=4. Verdict: B", AB, "B"),
]


def slot(text, labels, stop="complete"):
    (verdict,) = parse(Reply(text, stop), CELL, ChoiceAnswer(labels))
    if verdict.state == "tie":
        assert verdict.value == 0.5
        return "tie"
    assert (verdict.state == "valid") == (verdict.value is not None) == (verdict.reason is None)
    return {1.0: "A", 0.0: "B", None: None}[verdict.value]


@pytest.mark.parametrize(("text", "labels", "expected"), TEXTS)
def test_a_text_is_read_as_a_careful_reader_would(text, labels, expected):
    assert slot(text, labels) == expected


def test_the_corpus_is_large_and_holds_no_text_twice():
    assert len({(text, labels) for text, labels, _ in TEXTS}) == len(TEXTS) >= 60


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("B", "label"),
        ("I thought of A.\nFinal verdict: B", "final-verdict"),
        ("My choice: B", "announced"),
        ("It is close. [[B]]", "double-brackets"),
        (r"So \boxed{B}", "boxed"),
        ("It is close.\n[B]", "single-brackets"),
        ("It is close, and I choose:\n\nB\n\nIt cites.", "label-line"),
        ("It is close. Therefore, Answer B is better.", "conclusion"),
        ("Answer A: 6\nAnswer B: 8", "slot-scores"),
        ('{"winner": "B"}', "json"),
        ("{'winner': 'B'}", "json-tolerant"),
        ('{"winner": "B"', "json-open"),
        ('[{"model": "A", "rank": 2}, {"model": "B", "rank": 1}]', "json-ranks"),
    ],
)
def test_the_rule_that_decided_is_named(text, rule):
    (verdict,) = parse(Reply(text), CELL, ChoiceAnswer(AB))
    assert (verdict.label, verdict.rule) == ("B", rule)


@pytest.mark.parametrize(
    ("text", "stop", "reason"),
    [
        ("", "complete", "empty"),
        (" \n", "complete", "empty"),
        ("", "truncated", "truncated"),
        ("Final verdict: B", "refusal", "refusal"),
        ("Final verdict: B", "content_filter", "content_filter"),
        ("I'm sorry, I cannot compare these two.", "complete", "refusal"),
        ("Both name the river.", "complete", "unparseable"),
        ("Final verdict: A. Final verdict: B.", "complete", "ambiguous"),
        ('{"winner": "both"}', "complete", "out_of_range"),
        ("[[C]]", "complete", "out_of_range"),
        ('{"winner": "A", "why": "it na', "truncated", "truncated"),
        ("Final verdict: A\nIts so", "truncated", "truncated"),
        ("Final verdict: A", "truncated", "truncated"),
    ],
)
def test_the_reason_says_what_was_missing(text, stop, reason):
    (verdict,) = parse(Reply(text, stop), CELL, ChoiceAnswer(AB))
    assert (verdict.state, verdict.reason, verdict.value) == ("invalid", reason, None)


def test_a_tie_is_never_emitted_where_ties_are_not_allowed():
    for text in ("tie", "Final verdict: tie", "[[A=B]]", "It's a tie.", '{"winner": "tie"}'):
        assert slot(text, AB) is None
        assert slot(text, TIES) == "tie"


def test_a_runaway_reply_is_read_in_reasonable_time():
    # Each repeats what one of the patterns looks for; a quadratic pattern would take minutes.
    for unit in (
        "[",
        "\n",
        "A or B, ",
        "Final verdict: A\n",
        "verdict ",
        "Answer A is better and ",
    ):
        parse(Reply(unit * (90_000 // len(unit))), CELL, ChoiceAnswer(TIES))
