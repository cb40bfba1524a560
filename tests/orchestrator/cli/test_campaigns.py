"""Run, status and replay: what is printed, in which form, and the exit codes."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchtrial.orchestrator.campaign import Campaign, Replied
from benchtrial.orchestrator.study import Study

COMMANDS_PAGE = Path(__file__).parents[3] / "docs" / "reference" / "json.md"
RESULT_KEYS = {"result", "winner", "sentence", "spent", "warnings", "missing", "looks"}
STATUS_KEYS = {
    "study",
    "rounds",
    "requests_planned",
    "requests_answered",
    "attempts_without_outcome",
    "open_for_writing",
}


def strict(text: str) -> Any:
    """Read JSON that any language can read: no NaN, no Infinity."""

    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_run_ends_in_the_result_and_again_asks_nothing(command, folder) -> None:
    first = command("run", "study.toml")
    assert first.code == 0
    assert first.err == ""
    assert first.last.startswith("result: decided: look ")
    assert "007 - naïve, ok: +" in first.out
    assert (folder / "study.ledger").exists()
    assert not list(folder.glob("study.ledger-*"))
    again = command("run", "study.toml", "--quiet")
    assert again.out.splitlines() == [first.last]


def test_run_json_is_strict_and_complete(command) -> None:
    ended = command("run", "study.toml", "--ledger", "a.ledger", "--json", "--quiet")
    found = strict(ended.out)
    assert found.keys() == RESULT_KEYS
    assert found["result"] == "decided"
    assert found["winner"] == "007"
    assert found["spent"].keys() == {"tokens", "requests", "money"}
    assert found["looks"][-1]["decision"]["state"] == "decided"
    assert found["missing"] == []


def test_what_nobody_knows_is_null(command, recording) -> None:
    looks = strict(command("replay", recording, "--json").out)["looks"]
    numbers = {name for name in looks[0]["contrasts"][0] if name not in {"first", "second"}}
    assert {"value", "se", "z", "bound", "low", "high"} <= numbers
    study = Study.from_file("study.toml")
    kept = {}

    def stop(event: object) -> None:
        if isinstance(event, Replied):
            kept["campaign"].stop()

    with Campaign.open(study, ledger="cut.ledger", listener=stop) as campaign:
        kept["campaign"] = campaign
        with pytest.raises(Exception, match="stopped"):
            campaign.run()
    ended = command("replay", "cut.ledger", "--json")
    assert ended.code == 4
    found = strict(ended.out)
    assert found["result"] == "exhausted"
    assert found["agreement"]["agrees"] is None
    assert found["looks"] == []
    assert found["winner"] is None


def test_replay_says_in_one_line_whether_it_agrees(command, recording) -> None:
    ended = command("replay", recording)
    assert ended.code == 0
    lines = [line for line in ended.out.splitlines() if "agrees with the recording" in line]
    assert len(lines) == 1
    assert ended.out.splitlines()[-2] == lines[0]
    found = strict(command("replay", recording, "--json").out)
    assert found.keys() == RESULT_KEYS | {"agreement"}
    assert found["agreement"]["agrees"] is True
    assert command("replay", recording, "-q").out.splitlines() == [ended.last]


def test_status_of_a_finished_campaign_asks_and_touches_nothing(command, recording) -> None:
    before = recording.read_bytes(), sorted(recording.parent.iterdir())
    ended = command("status", recording)
    assert ended.code == 0
    assert re.match(r"small: \d looks; \d+ of \d+ requests\n", ended.out)
    assert ended.last.startswith("result: decided")
    assert command("status", recording, "--quiet").out.splitlines() == [ended.last]
    found = strict(command("status", recording, "--json").out)
    assert found.keys() == RESULT_KEYS | STATUS_KEYS
    assert found["study"] == "small"
    assert found["open_for_writing"] is None
    assert found["requests_answered"] == found["spent"]["requests"]
    assert (recording.read_bytes(), sorted(recording.parent.iterdir())) == before


def test_status_while_the_campaign_runs(shell, folder) -> None:
    heard = []

    def look_at_it(event: object) -> None:
        if isinstance(event, Replied) and not heard:
            heard.append(shell("status", "study.ledger", "--json"))

    study = Study.from_file("study.toml")
    with Campaign.open(study, ledger="study.ledger", listener=look_at_it) as campaign:
        assert campaign.run().state == "decided"
    (ended,) = heard
    assert ended.code == 0, ended.err
    found = strict(ended.out)
    assert found["result"] == "continue"
    assert found["requests_answered"] >= 1
    assert found["open_for_writing"].startswith("process ")


def test_every_key_of_the_json_is_documented(command, recording) -> None:
    page = COMMANDS_PAGE.read_text(encoding="utf-8")
    table = "judge,prompt,first,second,outcome\n" + "".join(
        f"j,{n},{pair},{n % 2}\n" for n in range(6) for pair in ("x,y", "y,x")
    )
    Path("v.csv").write_text(table, encoding="utf-8")
    printed = [
        command("status", recording, "--json").out,
        command("replay", recording, "--json").out,
        command("replay", "v.csv", "--json").out,
    ]
    looks = strict(printed[0])["looks"]
    keys = {key for text in printed for key in strict(text)}
    keys |= {*looks[0], *looks[0]["contrasts"][0], *looks[0]["decision"]}
    assert [key for key in sorted(keys) if f"`{key}`" not in page] == []


def test_lines_are_at_most_80_characters_but_the_last(command, recording) -> None:
    for words in (("run", "study.toml"), ("replay", recording), ("status", recording)):
        lines = command(*words).out.splitlines()
        assert max(map(len, lines[:-1])) <= 80


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_console_that_knows_only_ascii_ends_no_run(form: str, shell, folder) -> None:
    """Case C44 d: read and written as UTF-8 whatever the locale."""
    plain = {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONIOENCODING": "", "FORCE_COLOR": ""}
    options = ["--json"] if form == "json" else []
    ended = shell("run", "study.toml", *options, env=plain)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.isascii()
    assert "007" in ended.out
    assert "\x1b" not in ended.out
    if form == "json":
        assert strict(ended.out)["looks"][0]["contrasts"][0]["second"] == "naïve, ok"
        return
    assert shell("export", "study.ledger", "tables", env=plain).code == 0
    assert "北京 p1" in (folder / "tables" / "texts.csv").read_text(encoding="utf-8")
    assert "naïve, ok" in (folder / "tables" / "comparisons.csv").read_text(encoding="utf-8")


def test_a_ledger_in_another_folder_and_a_path_with_spaces(command, folder) -> None:
    (folder / "my runs").mkdir()
    ended = command("run", "study.toml", "--ledger", "my runs/first run.ledger", "-q")
    assert ended.code == 0
    assert command("status", "my runs/first run.ledger", "-q").out == ended.out


def test_a_changed_study_is_refused_with_the_difference(command, folder, recording) -> None:
    shutil.copy(recording, folder / "study.ledger")
    text = (folder / "study.toml").read_text(encoding="utf-8")
    (folder / "study.toml").write_text(text.replace("rounds = 4", "rounds = 5"), encoding="utf-8")
    ended = command("run", "study.toml")
    assert ended.code == 6
    assert "stopping.rounds" in ended.err
