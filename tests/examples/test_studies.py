"""The shipped studies are whole: they load, and what their comments claim holds of their texts."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchtrial.adapters.judge import BatchCell, Cell, PairCell
from benchtrial.orchestrator.prompts import build_request
from benchtrial.orchestrator.study import Study

STYLES = ("plain", "padded", "astray")

LONGEST_TEXT = 250
"""In characters: about 60 tokens, so that one slow thread reads a question in seconds."""

LONGEST_REQUEST = 1300
"""In bytes, an upper bound of its tokens: a prompt fits a slot of the local server with room."""


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def load(examples: Path, name: str) -> Study:
    return Study.from_file(examples / name / "study.toml")


@pytest.mark.parametrize("name", ["answer_styles", "bug_reports"])
def test_a_study_reads_back_from_its_own_json(examples: Path, name: str) -> None:
    study = load(examples, name)
    assert Study.from_json(study.to_json()).hash == study.hash


@pytest.mark.parametrize("name", ["answer_styles", "bug_reports"])
def test_texts_are_short_single_lines_and_none_is_told_twice(examples: Path, name: str) -> None:
    texts = [row["text"] for path in (examples / name).glob("*.jsonl") for row in rows(path)]
    assert texts
    assert [text for text, times in Counter(texts).items() if times > 1] == []
    for text in texts:
        assert text == " ".join(text.split())
        assert 0 < len(text) <= LONGEST_TEXT


def test_every_question_is_answered_once_in_every_style(examples: Path) -> None:
    folder = examples / "answer_styles"
    prompts = [row["id"] for row in rows(folder / "prompts.jsonl")]
    assert len(prompts) == len(set(prompts)) == 24
    for style in STYLES:
        assert [row["prompt"] for row in rows(folder / f"{style}.jsonl")] == prompts


def test_padded_answers_are_longer_than_plain_ones_and_the_control_is_not(examples: Path) -> None:
    study = load(examples, "answer_styles")
    for prompt in study.prompts:
        length = {style: len(study.candidate(style).responses[prompt.id]) for style in STYLES}
        assert length["padded"] > 1.5 * length["plain"]
        assert length["astray"] < 1.5 * length["plain"]


def test_bug_reports_come_in_two_groups_of_equal_size(examples: Path) -> None:
    study = load(examples, "bug_reports")
    assert Counter(study.groups.values()) == {"specific": 6, "vague": 6}
    assert len(study.items) == 12


def test_requests_fit_a_slot_of_the_local_server(examples: Path, serve: Any) -> None:
    for study in (load(examples, "answer_styles"), load(examples, "bug_reports")):
        (judge,) = study.judges
        assert judge.model == serve.MODEL
        for cell in longest_cells(study):
            request = build_request(study, judge, cell)
            length = sum(len(message.text.encode()) for message in request.messages)
            assert length <= LONGEST_REQUEST
            assert length + request.max_output_tokens <= serve.SLOT_TOKENS


def longest_cells(study: Study) -> list[Cell]:
    """Cells that hold the longest texts of a study."""
    judge, criterion = study.judges[0].id, study.decided_criterion
    if study.kind == "pairs":
        return [
            PairCell(judge, prompt.id, "padded", second, criterion)
            for prompt in study.prompts
            for second in ("plain", "astray")
        ]
    longest = sorted(study.items, key=lambda item: len(item.text.encode()))
    size = study.design.size or len(study.items)
    return [BatchCell(judge, 0, tuple(item.id for item in longest[-size:]), criterion)]
