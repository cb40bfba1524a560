"""One writer per ledger, across processes.

The lock is a small file beside the ledger. The kernel's ``flock`` on it is what excludes others on
the same machine: it vanishes with its process, so a crash never leaves a ledger locked and a reused
process id never confuses anyone. What is written in the file says who holds it, and guards
against another machine on a shared folder, where ``flock`` may not reach: a lock that names another
host is never taken over, because nobody here can know whether its process is still alive.
"""

import contextlib
import errno
import fcntl
import json
import os
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchtrial.errors import LedgerError, LedgerLocked

SUFFIX = ".lock"
LARGEST_LOCK = 4096
"""Bytes read of a lock file: ours has about 100, and a foreign file must not fill the memory."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock: process id, host name, and since when (UTC)."""

    pid: int
    host: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} (since {self.since})"


class Lock:
    """The held lock of one ledger; ``notice`` says so if a dead process's lock was taken over."""

    def __init__(self, path: Path, descriptor: int, notice: str | None) -> None:
        self._path = path
        self._descriptor = descriptor
        self.notice = notice

    def release(self) -> None:
        """Give the lock up. Safe to call twice."""
        if self._descriptor < 0:
            return
        with contextlib.suppress(OSError):
            self._path.unlink()  # while still held, so that nobody's newer file is removed
        os.close(self._descriptor)
        self._descriptor = -1


def lock_path(ledger: Path) -> Path:
    """Where the lock of ``ledger`` lies."""
    return ledger.with_name(ledger.name + SUFFIX)


def acquire(ledger: Path) -> Lock:
    """Become the one writer of ``ledger``.

    Raises
    ------
    LedgerLocked
        If another process holds it, or a process of another host held it last.
    LedgerError
        If the folder cannot be written.
    """
    path = lock_path(ledger)
    descriptor = _open_locked(ledger, path)
    try:
        previous = _read_holder(descriptor)
        _require_this_host(ledger, previous)
        _write_holder(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    notice = None
    if previous is not None:
        notice = f"took over the lock of {previous}, which ended without closing the ledger"
    return Lock(path, descriptor, notice)


def holder(ledger: Path) -> Holder | None:
    """Who is writing to ``ledger`` now, as far as this machine can tell; None if nobody is."""
    try:
        descriptor = os.open(lock_path(ledger), os.O_RDONLY)
    except OSError:
        return None
    try:
        found = _read_holder(descriptor)
    finally:
        os.close(descriptor)
    # By process id: a flock, however short, could refuse a writer that starts just now.
    return None if found is not None and _is_dead(found) else found


def _open_locked(ledger: Path, path: Path) -> int:
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise LedgerError(
                f"{ledger}: cannot create its lock {path}: {error.strerror}. Choose a folder that "
                "can be written; a ledger in a read-only folder can still be replayed."
            ) from error
        try:
            _flock(ledger, descriptor)
            if _is_same_file(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its holder removed it between our open and our flock


def _flock(ledger: Path, descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        found = _read_holder(descriptor)
        who = str(found) if found else "another process"
        raise LedgerLocked(
            f"{ledger}: locked by {who}. One process at a time writes to a ledger: wait for it, "
            "stop it, or give this campaign another ledger. Reading needs no lock."
        ) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        _require_dead(ledger, _read_holder(descriptor))


def _require_this_host(ledger: Path, previous: Holder | None) -> None:
    if previous is not None and previous.host != socket.gethostname():
        raise LedgerLocked(
            f"{ledger}: locked by {previous}, another machine. If that process has ended, delete "
            f"{lock_path(ledger)} and start again; two writers would corrupt the ledger."
        )


def _require_dead(ledger: Path, previous: Holder | None) -> None:
    """On a file system without locks the process id is all there is to go by."""
    if previous is None or previous.host != socket.gethostname() or _is_dead(previous):
        return
    raise LedgerLocked(f"{ledger}: locked by {previous}, which is still running. Wait for it.")


def _is_dead(found: Holder) -> bool:
    """Whether the holder ran here and does no more; of another host nobody can tell."""
    if found.host != socket.gethostname():
        return False
    try:
        os.kill(found.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _is_same_file(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _read_holder(descriptor: int) -> Holder | None:
    """Whoever the lock names; an empty or torn file names nobody."""
    try:
        found = json.loads(os.pread(descriptor, LARGEST_LOCK, 0))
        return Holder(int(found["pid"]), str(found["host"]), str(found["since"]))
    except (ValueError, KeyError, TypeError):
        return None


def _write_holder(descriptor: int) -> None:
    since = datetime.now(UTC).isoformat(timespec="seconds")
    me = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(me).encode() + b"\n", 0)
    os.fsync(descriptor)
