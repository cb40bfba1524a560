"""One writer: refused with pid and host, taken over from the dead, never stolen from afar (C36)."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from benchtrial.errors import LedgerError, LedgerLocked
from benchtrial.orchestrator.ledger import Ledger, lock

HOLD = """
import sys
from benchtrial.orchestrator.ledger import Ledger
ledger = Ledger.open(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def write_lock(path: Path, pid: int, host: str) -> Path:
    target = lock.lock_path(path)
    target.write_text(json.dumps({"pid": pid, "host": host, "since": "2026-01-01T00:00:00"}))
    return target


def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_second_process_is_refused_with_pid_and_host(path: Path, ledger: Ledger) -> None:
    ledger.close()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(LedgerLocked, match=f"process {process.pid} on {socket.gethostname()}"):
            Ledger.open(path)
        Ledger.open(path, read_only=True).close()
        process.kill()
        process.wait()
        with Ledger.open(path) as again:
            (notice,) = again.notices
            assert f"process {process.pid}" in notice
            assert again.export("events")["kind"].tolist() == ["lock taken over"]


def test_the_same_process_is_refused_too(path: Path, ledger: Ledger) -> None:
    with pytest.raises(LedgerLocked, match=f"process {os.getpid()}"):
        Ledger.open(path)
    ledger.close()
    Ledger.open(path).close()
    assert not lock.lock_path(path).exists()


def test_creating_is_locked_as_well(path: Path) -> None:
    held = lock.acquire(path)
    with pytest.raises(LedgerLocked):
        Ledger.create(path, study_json="{}", study_hash="")
    assert not path.exists()
    held.release()
    held.release()


def test_a_dead_process_of_this_host_is_taken_over_with_a_notice(
    path: Path, ledger: Ledger
) -> None:
    ledger.close()
    pid = dead_pid()
    write_lock(path, pid, socket.gethostname())
    with Ledger.open(path) as again:
        assert again.notices == (
            f"took over the lock of process {pid} on {socket.gethostname()} (since "
            "2026-01-01T00:00:00), which ended without closing the ledger",
        )


def test_a_foreign_hosts_lock_is_never_stolen(path: Path, ledger: Ledger) -> None:
    ledger.close()
    target = write_lock(path, dead_pid(), "elsewhere.example")
    before = target.read_bytes()
    for _ in range(2):
        with pytest.raises(LedgerLocked, match=r"elsewhere\.example.*another machine.*delete"):
            Ledger.open(path)
    assert target.read_bytes() == before
    Ledger.open(path, read_only=True).close()
    target.unlink()
    Ledger.open(path).close()


@pytest.mark.parametrize("content", [b"", b'{"pid": 12', b"[]", b"\xff\xfe"])
def test_a_torn_lock_file_is_no_obstacle(path: Path, ledger: Ledger, content: bytes) -> None:
    """Written by a process that was killed between creating and filling it."""
    ledger.close()
    lock.lock_path(path).write_bytes(content)
    Ledger.open(path).close()


def test_a_failed_opening_gives_the_lock_back(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\x00" + b"\xff" * 4096)
    for _ in range(2):
        with pytest.raises(LedgerError) as caught:
            Ledger.open(path)
        assert not isinstance(caught.value, LedgerLocked)
    assert not lock.lock_path(path).exists()


def test_without_flock_the_pid_decides(
    path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some network file systems have no locks."""
    ledger.close()

    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(lock.errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock.fcntl, "flock", no_locks)
    write_lock(path, os.getppid(), socket.gethostname())
    with pytest.raises(LedgerLocked, match="still running"):
        Ledger.open(path)
    write_lock(path, dead_pid(), socket.gethostname())
    Ledger.open(path).close()


def test_a_lock_file_removed_under_our_hands_is_not_a_lock(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its holder closes between our open and our flock: we would hold a file that nobody sees."""
    flock, removals = lock.fcntl.flock, iter([True])

    def removed_just_now(descriptor: int, operation: int) -> None:
        flock(descriptor, operation)
        if next(removals, False):
            lock.lock_path(path).unlink()

    monkeypatch.setattr(lock.fcntl, "flock", removed_just_now)
    held = lock.acquire(path)
    with pytest.raises(LedgerLocked):
        lock.acquire(path)
    held.release()
