"""Whatever is wrong, there is one readable error, the documented exit code, and no traceback."""

import shutil
from pathlib import Path

import pytest

TEN_PROBLEMS = """\
name = 5
kind = "pairs"
sede = 1
prompts = [{ id = "p1", text = "t" }]
candidates = [{ id = "a", responses = { p1 = "x" } }, { id = "b", responses = { p2 = "y" } }]
[[judges]]
id = "j"
provider = "provider"
concurrency = 0
api_key = "sk-secret"
[design]
kind = "shufle"
repetitions = -1
[stopping]
target = { kind = "difference", a = "a", b = "nobody" }
alpha = 2
rounds = 0
[budget]
tokens = -5
"""


@pytest.fixture
def broken(folder: Path, recording: Path) -> Path:
    """A folder of things that are not what they are taken for."""
    (folder / "folder.toml").mkdir()
    (folder / "empty.toml").write_bytes(b"")
    (folder / "torn.toml").write_text('name = "x\nkind = ', encoding="utf-8")
    (folder / "cp1252.toml").write_bytes('name = "café"'.encode("cp1252"))
    (folder / "ten.toml").write_text(TEN_PROBLEMS, encoding="utf-8")
    (folder / "kind.toml").write_text('kind = "triples"\n', encoding="utf-8")
    (folder / "text.ledger").write_text("judge,prompt", encoding="utf-8")
    (folder / "empty.ledger").write_bytes(b"")
    content = recording.read_bytes()
    (folder / "cut.ledger").write_bytes(content[: len(content) // 2])
    (folder / "damaged.ledger").write_bytes(content[:200] + b"\xff" * 9000 + content[9200:])
    (folder / "binary.csv").write_bytes(content)
    (folder / "empty.csv").write_bytes(b"")
    (folder / "header.csv").write_text("judge,prompt,first,second,outcome\n", encoding="utf-8")
    (folder / "torn.jsonl").write_text('{"judge": "j"\n', encoding="utf-8")
    rows = "judge,prompt,first,second,outcome\nj,1,x,y,A\nj,1,y,x,A\nj,2,x,y,B\nj,2,y,x,A\n"
    (folder / "good.csv").write_text(rows, encoding="utf-8")
    (folder / "bad.csv").write_text(rows + "j,3,x,y,7\n", encoding="utf-8")
    shutil.copy(recording, folder / "good.ledger")
    return folder


CASES = [
    # study files
    (("run", "none.toml"), 2, "none.toml"),
    (("run", "stdy.toml"), 2, "stdy.toml"),
    (("run", "folder.toml"), 2, "folder.toml"),
    (("run", "empty.toml"), 2, "empty.toml"),
    (("run", "torn.toml"), 2, "torn.toml: not TOML"),
    (("run", "cp1252.toml"), 2, "byte offset 11"),
    (("run", "kind.toml"), 2, "kind"),
    (("run", "binary.csv"), 2, "binary.csv"),
    (("run", "ten.toml"), 2, "sede"),
    # options
    (("run",), 2, "STUDY"),
    (("run", "study.toml", "--colour"), 2, "--colour"),
    (("init", "x.toml", "--kind", "triples"), 2, "triples"),
    (("export", "good.ledger", "out", "--format", "xml"), 2, "xml"),
    (("replay", "good.csv", "--looks", "0"), 2, "looks"),
    (("replay", "good.csv", "--looks", "many"), 2, "--looks"),
    (("replay", "good.csv", "--seed", "-1"), 2, "seed"),
    (("replay", "good.csv", "--target", "x,nobody"), 2, "the candidates are 'x', 'y'"),
    (("replay", "good.csv", "--target", "x,x"), 2, "two different candidates"),
    (("replay", "good.csv", "--target", ""), 2, "'best'"),
    (("replay", "good.csv", "--column", "judge"), 2, "NAME=VALUE"),
    (("replay", "good.csv", "--where", "prompt=9"), 2, "no row has prompt=9"),
    (("replay", "good.ledger", "--target", "best", "--looks", "3"), 2, "--target, --looks"),
    (("rnu", "study.toml"), 2, "rnu"),
    # tables
    (("replay", "none.csv"), 2, "no file 'none.csv'"),
    (("replay", "empty.csv"), 2, "empty.csv is empty"),
    (("replay", "header.csv"), 2, "no rows"),
    (("replay", "binary.csv"), 2, "not UTF-8"),
    (("replay", "torn.jsonl"), 2, "torn.jsonl, line 1: not JSON"),
    (("replay", "bad.csv"), 2, "bad.csv, line 6: outcome 7 is not in [0, 1]"),
    (("replay", "good.csv", "--looks", "3"), 2, "2 prompts cannot be split over 3 looks"),
    # ledgers
    (("replay", "none.ledger"), 6, "none.ledger: no such ledger"),
    (("status", "none.ledger"), 6, "none.ledger: no such ledger"),
    (("export", "none.ledger", "out"), 6, "none.ledger: no such ledger"),
    (("replay", "."), 6, "not a ledger but a folder"),
    (("replay", "text.ledger"), 6, "text.ledger: not a ledger"),
    (("status", "study.toml"), 6, "study.toml: not a ledger"),
    (("status", "empty.ledger"), 6, "empty.ledger: the file is empty"),
    (("replay", "cut.ledger"), 6, "cut.ledger"),
    (("status", "damaged.ledger"), 6, "damaged.ledger"),
    (("export", "damaged.ledger", "out"), 6, "damaged.ledger"),
    (("run", "study.toml", "--ledger", "nowhere/a.ledger"), 6, "nowhere does not exist"),
    (("run", "study.toml", "--ledger", "text.ledger"), 6, "text.ledger: not a ledger"),
    (("run", "study.toml", "--ledger", "folder.toml"), 6, "folder"),
    # places to write
    (("export", "good.ledger", "good.csv"), 2, "good.csv cannot be written"),
    (("init", "study.toml"), 2, "study.toml exists already"),
    (("init", "folder.toml"), 2, "folder.toml exists already"),
    (("init", "nowhere/study.toml"), 2, "nowhere/study.toml cannot be written"),
    (("init", ".", "--example", "answer_stiles"), 2, "did you mean 'answer_styles'"),
    (("init", "good.csv", "--example", "answer_styles"), 2, "cannot be written"),
]
# Starting a process for each would take minutes: one of a kind, the others in this process, where
# an error that is not Benchtrial's own fails the test by itself.
OF_ITS_OWN = {
    "run ten.toml",
    "run study.toml --colour",
    "init study.toml",
    "replay binary.csv",
    "status damaged.ledger",
}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    CASES,
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_bad_input_ends_in_one_readable_error(
    words: tuple[str, ...], code: int, said: str, broken: Path, command
) -> None:
    before = sorted(broken.rglob("*"))
    ended = command(*words)
    assert ended.code == code, ended.err
    assert said in " ".join(ended.err.replace("│", "").split())
    assert "Traceback" not in ended.err
    assert ended.out == ""
    assert sorted(broken.rglob("*")) == before  # nothing is left behind


@pytest.mark.parametrize("line", sorted(OF_ITS_OWN))
def test_no_traceback_reaches_the_shell(line: str, broken: Path, shell) -> None:
    (code,) = {code for words, code, _ in CASES if " ".join(words) == line}
    ended = shell(*line.split())
    assert ended.code == code, ended.err
    assert "Traceback" not in ended.err
    assert ended.err.strip()


def test_a_study_with_ten_problems_names_them_all_and_no_secret(broken: Path, command) -> None:
    ended = command("run", "ten.toml")
    assert ended.err.startswith("error: ten.toml:")
    lines = ended.err.splitlines()
    assert len(lines) >= 10
    for word in (
        "sede",
        "provider",
        "concurrency",
        "key_env",
        "[design] kind",
        "alpha",
        "rounds",
        "tokens",
    ):
        assert any(word in line for line in lines), word
    assert "sk-secret" not in ended.err


def test_a_folder_that_cannot_be_written_is_a_ledger_error(command, folder: Path) -> None:
    # A path below a file cannot be created by anybody, root included.
    ended = command("run", "study.toml", "--ledger", "/proc/self/study.ledger")
    assert ended.code == 6
    assert "Traceback" not in ended.err
    assert "study.ledger" in ended.err
