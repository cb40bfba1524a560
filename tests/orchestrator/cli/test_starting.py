"""A study to edit, or an example to look at; nothing is overwritten."""

from pathlib import Path

import pytest

from benchtrial.orchestrator.ledger import Ledger
from benchtrial.orchestrator.study import Study


@pytest.mark.parametrize("kind", ["pairs", "batch"])
def test_the_study_written_loads(kind: str, command) -> None:
    ended = command("init", "new.toml", "--kind", kind)
    assert ended.code == 0
    assert ended.out == "wrote new.toml: edit it, then start it with: benchtrial run new.toml\n"
    assert Study.from_file("new.toml").kind == kind


def test_pairs_are_the_default(command) -> None:
    command("init", "new.toml")
    assert Study.from_file("new.toml").kind == "pairs"


def test_what_is_there_stays(command, folder: Path) -> None:
    before = (folder / "study.toml").read_bytes()
    ended = command("init", "study.toml")
    assert ended.code == 2
    assert "exists already; choose another name" in ended.err
    assert (folder / "study.toml").read_bytes() == before


@pytest.mark.parametrize("name", ["answer_styles", "bug_reports"])
def test_a_shipped_example_is_laid_out_whole(name: str, command, folder: Path) -> None:
    ended = command("init", "new/folder", "--example", name)
    assert (ended.code, ended.out) == (0, f"laid out new/folder/{name}\n")
    laid_out = folder / "new" / "folder" / name
    study = Study.from_file(laid_out / "study.toml")
    if (laid_out / "recording.ledger").exists():
        with Ledger.open(laid_out / "recording.ledger", read_only=True) as recorded:
            assert Study.from_json(recorded.study_json).hash == study.hash
    again = command("init", "new/folder", "--example", name)
    assert again.code == 2
    assert "exists already" in again.err


def test_no_leavings_of_python_are_laid_out(command, folder: Path) -> None:
    assert command("init", ".", "--example", "local_judge").code == 0
    assert not list((folder / "local_judge").rglob("__pycache__"))


def test_an_unknown_example_names_those_that_there_are(command) -> None:
    ended = command("init", ".", "--example", "nothing")
    assert ended.code == 2
    assert "'answer_styles', 'bug_reports'" in ended.err
    assert "__pycache__" not in ended.err
