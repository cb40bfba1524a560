"""What is exported reads back equal: ids as text, numbers with all digits, nothing rounded."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from benchtrial.orchestrator.campaign import covariates
from benchtrial.orchestrator.cli.exporting import write_csv, write_jsonl
from benchtrial.orchestrator.ledger import EXPORTS, Ledger
from benchtrial.orchestrator.study import Study


@pytest.fixture
def tables(recording: Path) -> dict[str, pd.DataFrame]:
    with Ledger.open(recording, read_only=True) as ledger:
        known = covariates(Study.from_json(ledger.study_json))
        found = {name: ledger.export(name) for name in EXPORTS}
        return found | {
            "ratings": ledger.ratings(known),
            "comparisons": ledger.comparisons(known),
        }


def rows(table: pd.DataFrame) -> Iterator[list[Any]]:
    for row in table.astype(object).where(table.notna(), None).to_numpy():
        yield list(row)


def test_jsonl_reads_back_equal(command, recording: Path, tables: dict[str, pd.DataFrame]) -> None:
    ended = command("export", recording, "out", "--format", "jsonl")
    assert ended.code == 0
    for name, table in tables.items():
        assert f"out/{name}.jsonl: {len(table)} rows" in ended.out
        lines = Path("out", f"{name}.jsonl").read_text(encoding="utf-8").split("\n")
        assert lines.pop() == ""
        read = [json.loads(line) for line in lines]
        assert all(list(row) == list(table.columns) for row in read)
        assert [list(row.values()) for row in read] == list(rows(table))


def test_csv_reads_back_equal(command, recording: Path, tables: dict[str, pd.DataFrame]) -> None:
    assert command("export", recording, "out").code == 0
    for name, table in tables.items():
        read = pd.read_csv(f"out/{name}.csv", dtype=str, keep_default_na=False)
        assert list(read.columns) == list(table.columns)
        for ours, theirs in zip(rows(table), rows(read), strict=True):
            for value, text in zip(ours, theirs, strict=True):
                if isinstance(value, float):
                    assert float(text) == value
                else:
                    assert text == ("" if value is None else str(value))


def test_ids_stay_text(command, recording: Path) -> None:
    command("export", recording, "out", "--format", "jsonl")
    first = json.loads(Path("out/comparisons.jsonl").read_text(encoding="utf-8").split("\n")[0])
    assert {first["first"], first["second"]} == {"007", "naïve, ok"}
    command("export", recording, "out")
    assert ",007," in Path("out/comparisons.csv").read_text(encoding="utf-8")


def test_the_exported_comparisons_can_be_replayed(command, recording: Path) -> None:
    command("export", recording, "out")
    ended = command("replay", "out/comparisons.csv", "--target", "007,naïve, ok", "--looks", "2")
    assert ended.code == 0
    assert ended.last.startswith("result: decided: ")
    assert "007 beats naïve, ok" in ended.last


def test_an_export_replaces_an_older_one_and_leaves_nothing_else(
    command, recording: Path, folder: Path
) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "looks.csv").write_text("old", encoding="utf-8")
    command("export", recording, "out")
    assert "old" not in (folder / "out" / "looks.csv").read_text(encoding="utf-8")
    assert not list((folder / "out").glob("*.new"))


HARD = pd.DataFrame(
    {
        "id": ["007", "1e5", "a,b", 'say "x"', "two\r\nlines", "\u2028", "=1+1"],
        "number": [0.1 + 0.2, 1e-17, 1 / 3, -0.0, 1e300, 12345678.9, None],
        "count": [1, 2**53 + 1, 3, 4, 5, 6, 7],
        "text": ["", None, "北京 🤗", "null", "NaN", " x ", "\t"],
    }
)


def test_hard_values_survive_both_forms(tmp_path: Path) -> None:
    write_jsonl(HARD, tmp_path / "hard.jsonl")
    lines = (tmp_path / "hard.jsonl").read_bytes().decode("utf-8").split("\n")[:-1]
    assert [list(json.loads(line).values()) for line in lines] == list(rows(HARD))
    write_csv(HARD, tmp_path / "hard.csv")
    read = pd.read_csv(tmp_path / "hard.csv", dtype=str, keep_default_na=False)
    assert list(read["id"]) == list(HARD["id"])
    assert list(read["text"]) == ["" if text is None else text for text in rows_of("text")]
    assert [float(number) for number in read["number"][:-1]] == list(HARD["number"][:-1])
    assert list(read["count"]) == [str(count) for count in HARD["count"]]


def test_a_missing_value_does_not_turn_whole_numbers_into_others(
    command, recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pd.DataFrame({"reply": [1, None, 3], "share": [0.5, None, 1.0]})
    monkeypatch.setattr("benchtrial.orchestrator.cli.exporting._tables", lambda path: {"t": table})
    command("export", recording, "out")
    assert Path("out/t.csv").read_bytes() == b"reply,share\n1,0.5\n,\n3,1.0\n"
    command("export", recording, "out", "--format", "jsonl")
    assert Path("out/t.jsonl").read_bytes() == (
        b'{"reply": 1, "share": 0.5}\n{"reply": null, "share": null}\n{"reply": 3, "share": 1.0}\n'
    )


def rows_of(column: str) -> list[Any]:
    return [row[list(HARD.columns).index(column)] for row in rows(HARD)]
