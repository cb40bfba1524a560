"""Opening what is missing, damaged, foreign, too new, or read-only; closing into one file."""

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchtrial.errors import LedgerDamaged, LedgerError, LedgerTooNew
from benchtrial.orchestrator.ledger import SCHEMA_VERSION, Ledger, lock

NOBODY = 65534

READ_IN_A_READ_ONLY_FOLDER = """
import os, sys
from benchtrial.orchestrator.ledger import Ledger
with Ledger.open(sys.argv[1], read_only=True) as warm:  # nothing is imported after setuid
    warm.comparisons()
if os.getuid() == 0:
    os.setuid(int(sys.argv[3]))
try:
    open(os.path.join(os.path.dirname(sys.argv[2]), "probe"), "w")
except OSError:
    pass
else:
    raise SystemExit("the folder can be written")
with Ledger.open(sys.argv[2], read_only=True) as ledger:
    print(len(ledger.comparisons()))
try:
    Ledger.open(sys.argv[2])
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may read (pytest's own are private)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


def fingerprint(path: Path) -> tuple[str, int]:
    return hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns


def test_a_missing_path_says_how_to_start(path: Path) -> None:
    with pytest.raises(LedgerError, match=r"no such ledger. `benchtrial run STUDY --ledger"):
        Ledger.open(path)
    assert not path.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b'{"u":1,"v":"A"}\n', "not a ledger"),
        (b"SQLite format 2\x00" + bytes(4096), "not a ledger"),
    ],
)
@pytest.mark.parametrize("read_only", [True, False])
def test_something_else_is_named(path: Path, content: bytes, message: str, read_only: bool) -> None:
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=message):
        Ledger.open(path, read_only=read_only)
    assert path.read_bytes() == content
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_another_database_is_not_a_ledger(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE users (name TEXT)")
    connection.close()
    with pytest.raises(LedgerError, match="a database, but not a ledger"):
        Ledger.open(path)


def test_a_folder_is_not_a_ledger(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="a folder"):
        Ledger.open(tmp_path)


def test_a_later_schema_is_refused_with_both_versions(path: Path, ledger: Ledger) -> None:
    ledger.close()
    connection = sqlite3.connect(path)
    connection.execute(
        "INSERT INTO campaign SELECT 2, ?, study, study_hash, '9.9', created FROM campaign",
        [SCHEMA_VERSION + 1],
    )
    connection.commit()
    connection.close()
    before = fingerprint(path)
    for read_only in (True, False):
        with pytest.raises(LedgerTooNew, match=r"Benchtrial 9\.9 \(schema 2\).*Upgrade"):
            Ledger.open(path, read_only=read_only)
    assert fingerprint(path) == before


def test_creating_never_overwrites(path: Path, create: Callable[[], Ledger]) -> None:
    path.write_text("precious")
    with pytest.raises(LedgerError, match="exists already"):
        create()
    assert path.read_text() == "precious"


def test_creating_in_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="does not exist"):
        Ledger.create(tmp_path / "none" / "l", study_json="{}", study_hash="")


def test_a_crash_while_creating_leaves_nothing_in_the_way(
    path: Path, create: Callable[[], Ledger]
) -> None:
    path.with_name(path.name + ".new").write_bytes(b"half a database")
    create().close()
    Ledger.open(path).close()


def test_closing_leaves_one_file_that_can_be_copied(
    path: Path, ledger: Ledger, study: Any, tmp_path: Path
) -> None:
    study.plan(ledger)
    study.answer_all(ledger, range(20))
    ledger.close()
    ledger.close()
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    copy = tmp_path / "a folder with spaces & #%?" / "北京 copy"
    copy.parent.mkdir()
    shutil.copyfile(path, copy)
    with Ledger.open(copy, read_only=True) as again:
        assert len(again.comparisons()) == 20
    with Ledger.open(copy) as again:
        study.answer_all(again, range(20, 25))
        assert len(again.comparisons()) == 25


def test_a_closed_ledger_takes_nothing(ledger: Ledger, study: Any) -> None:
    study.plan(ledger)
    ledger.close()
    with pytest.raises(LedgerError, match="nothing can be added"):
        study.answer_all(ledger, range(1))


def test_reading_never_changes_anything(path: Path, ledger: Ledger, study: Any) -> None:
    study.plan(ledger)
    study.answer_all(ledger, range(5))
    ledger.close()
    before = fingerprint(path)
    with Ledger.open(path, read_only=True) as reading:
        assert reading.read_only
        assert len(reading.comparisons()) == 5
        assert reading.spent().tokens == 5 * 60
        with pytest.raises(LedgerError, match="opened only to read"):
            study.answer_all(reading, range(5, 6))
    assert fingerprint(path) == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_reading_beside_a_running_campaign(path: Path, ledger: Ledger, study: Any) -> None:
    study.plan(ledger)
    study.answer_all(ledger, range(3))
    with Ledger.open(path, read_only=True) as reading:
        assert len(reading.comparisons()) == 3
        study.answer_all(ledger, range(3, 7))
        assert len(reading.comparisons()) == 7


def test_the_file_is_whole_even_if_somebody_still_reads_it(
    path: Path, ledger: Ledger, study: Any, tmp_path: Path
) -> None:
    study.plan(ledger)
    study.answer_all(ledger, range(9))
    with Ledger.open(path, read_only=True) as reading:
        assert len(reading.comparisons()) == 9
        ledger.close()
        copy = tmp_path / "copy.ledger"
        shutil.copyfile(path, copy)
        assert len(reading.comparisons()) == 9
    with Ledger.open(copy, read_only=True) as again:
        assert len(again.comparisons()) == 9


def test_a_reader_notices_that_a_campaign_has_begun(path: Path, ledger: Ledger, study: Any) -> None:
    study.plan(ledger)
    ledger.close()
    with Ledger.open(path, read_only=True) as reading, Ledger.open(path) as writing:
        study.answer_all(writing, range(3))
        writing.close()
        with pytest.raises(LedgerError, match="begun to write"):
            reading.comparisons()


@pytest.mark.parametrize("state", ["closed", "cut off", "locked elsewhere"])
def test_replay_from_a_read_only_folder(
    state: str, ledger: Ledger, path: Path, study: Any, open_folder: Path
) -> None:
    """A WAL-mode file usually needs helper files beside it, which cannot be made here."""
    study.plan(ledger)
    study.answer_all(ledger, range(4))
    if state != "cut off":
        ledger.close()
    target = open_folder / path.name
    for file in (path, path.with_name(path.name + "-wal")):
        if file.exists():
            shutil.copyfile(file, open_folder / file.name)
    if state == "locked elsewhere":
        holder = {"pid": 1, "host": "elsewhere.example", "since": "2026-01-01"}
        lock.lock_path(target).write_text(json.dumps(holder))
    ledger.close()
    before = {file.name: fingerprint(file) for file in open_folder.iterdir()}
    open_folder.chmod(0o555)
    done = subprocess.run(
        [sys.executable, "-c", READ_IN_A_READ_ONLY_FOLDER, path, target, str(NOBODY)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    number, refusal = done.stdout.splitlines()
    assert number == "4"
    assert refusal.startswith("LedgerError")
    assert "folder that can be written" in refusal or state == "locked elsewhere"
    assert {file.name: fingerprint(file) for file in open_folder.iterdir()} == before


@pytest.mark.parametrize("place", ["header", "schema", "middle", "end cut off"])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_damaged_file_is_called_damaged(
    place: str, read_only: bool, path: Path, ledger: Ledger, study: Any
) -> None:
    study.plan(ledger)
    study.answer_all(ledger, range(100))
    ledger.close()
    content = bytearray(path.read_bytes())
    if place == "header":
        content[16:100] = os.urandom(84)
    elif place == "schema":
        content[100:200] = b"\xff" * 100
    elif place == "middle":
        half = len(content) // 2 // 4096 * 4096
        content[half : half + 4096] = b"\xa5" * 4096
    else:
        del content[len(content) // 2 :]
    path.write_bytes(content)
    with pytest.raises(LedgerDamaged, match=str(path)):
        Ledger.open(path, read_only=read_only)
    assert path.read_bytes() == content


def test_a_lost_table_is_damage(path: Path, ledger: Ledger) -> None:
    ledger.close()
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE events")
    connection.commit()
    connection.close()
    with pytest.raises(LedgerDamaged, match="tables are missing: events"):
        Ledger.open(path)


def test_events_survive(path: Path, ledger: Ledger) -> None:
    ledger.add_event("note", {"why": "北京"})
    ledger.close()
    with Ledger.open(path, read_only=True) as again:
        row = again.export("events").iloc[0]
    assert (row["kind"], json.loads(row["detail"])) == ("note", {"why": "北京"})
