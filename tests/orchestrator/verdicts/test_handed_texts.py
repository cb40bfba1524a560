"""Recorded replies of real judges, adjudicated by hand, read from the folder of shared cases.

The texts belong to others and are not part of this repository: where the folder is absent, the
tests say so and skip.
"""

import json
from pathlib import Path

import pytest

from benchtrial.adapters.judge import BatchCell, ChoiceAnswer, PairCell, RatingsAnswer, Reply
from benchtrial.orchestrator.verdicts import parse

TEXTS = Path(__file__).parents[4] / "shared" / "cases" / "verdict_texts.jsonl"
if not TEXTS.is_file():
    pytest.skip("the shared verdict texts are not beside this checkout", allow_module_level=True)

ROWS = [json.loads(line) for line in TEXTS.read_text(encoding="utf-8").splitlines() if line]

# The beginning of each expected format, and the answer that it stands for.
ANSWERS = {
    "last line is 1, 2 or 3": ChoiceAnswer(("1", "2", "3")),
    "first line: two scores": ChoiceAnswer(("A", "B", "tie")),
    "[[A]], [[B]] or [[C]]": ChoiceAnswer(("A", "B", "C")),
    'line "Choice': ChoiceAnswer(("A", "B")),
    '"Output (a)"': ChoiceAnswer(("a", "b")),
    "one of [[A>>B]]": ChoiceAnswer(("A", "B", "tie")),
    "JSON with ordered_models": ChoiceAnswer(("m", "M", "tie")),
    "Python-style list": ChoiceAnswer(("model_1", "model_2", "tie")),
    "single token m or M": ChoiceAnswer(("m", "M")),
    '"Scores: [Sample1': RatingsAnswer(5, scale=(1, 5), integer=False),
}


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_a_recorded_reply_is_read_as_adjudicated(row):
    answer = next(a for start, a in ANSWERS.items() if row["expected_format"].startswith(start))
    adjudicated = row["adjudicated"]
    if isinstance(answer, RatingsAnswer):
        cell = BatchCell("judge", 0, tuple("abcde"), "quality")
        ratings = [verdict.value for verdict in parse(Reply(row["text"]), cell, answer)]
        assert ratings == json.loads(adjudicated)
        return
    for stop in ("complete", "truncated") if "truncated" in row["tags"] else ("complete",):
        (verdict,) = parse(
            Reply(row["text"], stop), PairCell("judge", "prompt", "x", "y", "quality"), answer
        )
        read = {1.0: "A", 0.5: "tie", 0.0: "B", None: "invalid"}[verdict.value]
        assert read == ("invalid" if adjudicated == "ambiguous" else adjudicated)
