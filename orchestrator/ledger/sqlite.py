"""Everything that is special about SQLite: how a file is opened, closed and diagnosed.

Writing goes through one connection in WAL mode with ``synchronous=FULL``: a commit returns when the
data is on the disk. Reading never changes the file. In WAL mode even a reader creates two helper
files, so a ledger that nobody writes to is opened as immutable, which needs none; one with an
unfinished WAL in a folder that cannot be written is read from a temporary copy.
"""

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event, text
from sqlalchemy.exc import DBAPIError

from benchtrial.errors import LedgerDamaged, LedgerError
from benchtrial.orchestrator.ledger import lock

MAGIC = b"SQLite format 3\x00"
BUSY_S = 30.0
"""Seconds to wait for a backup tool that holds the file; campaigns meet at the lock instead."""
CLOSING_BUSY_MS = 2000
"""Milliseconds that closing waits for somebody who reads; without them the WAL stays a while."""
QUICK_CHECK_BYTES = 64 * 1024 * 1024
"""A file up to this size is checked page by page on opening (a fraction of a second); a larger one
would make resuming slow, and SQLite finds its damage when it reads the page."""

REMEDIES = {
    "SQLITE_FULL": "the disk is full. Free some space and run the same command again",
    "SQLITE_READONLY": "it cannot be written. Make the file and its folder writable, or open it "
    "read-only",
    "SQLITE_IOERR": "the disk reported an error. Check the disk, copy the ledger (with its -wal "
    "file) to a sound one, and run the same command again",
    "SQLITE_BUSY": "another program holds the file. Close it and run the same command again",
    "SQLITE_CANTOPEN": "it cannot be opened. Check that the file and its folder are accessible",
    "SQLITE_CORRUPT": "the file is damaged. Restore a copy, or save what is readable with "
    "`sqlite3 FILE .recover`",
    "SQLITE_NOTADB": "the file is not a database, or its beginning is damaged. Restore a copy",
}
DAMAGE = ("SQLITE_CORRUPT", "SQLITE_NOTADB")


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what the database raises into a ``LedgerError`` that names ``path`` and a remedy."""
    try:
        yield
    except DBAPIError as error:
        raise explanation(path, error) from error


def explanation(path: Path, error: Exception) -> LedgerError:
    """Build the ``LedgerError`` for something that the database raised."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    name = getattr(cause, "sqlite_errorname", "") or ""
    for prefix, remedy in REMEDIES.items():
        if name.startswith(prefix):
            kind = LedgerDamaged if prefix in DAMAGE else LedgerError
            return kind(f"{path}: {remedy} ({cause})")
    return LedgerError(f"{path}: the database refused: {cause}")


def require_database(path: Path) -> None:
    """Check from outside that ``path`` is an SQLite file.

    Raises
    ------
    LedgerError
        If there is no file, or it is something else.
    """
    if not path.exists():
        raise LedgerError(
            f"{path}: no such ledger. `benchtrial run STUDY --ledger {path}` starts one"
        )
    if not path.is_file():
        raise LedgerError(f"{path}: not a ledger but a folder. Name the ledger file itself")
    try:
        with path.open("rb") as file:
            beginning = file.read(len(MAGIC))
    except OSError as error:
        raise LedgerError(f"{path}: cannot be read: {error.strerror}") from error
    if not beginning:
        raise LedgerError(f"{path}: the file is empty, not a ledger. Delete it, or name another")
    if beginning != MAGIC:
        raise LedgerError(
            f"{path}: not a ledger (a ledger is an SQLite file). Name the file that "
            "`benchtrial run` wrote"
        )


def writing_engine(path: Path) -> Engine:
    """Open an existing file for the one writer."""
    pragmas = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON")
    return _engine(_uri(path, "mode=rw"), pragmas)


def create_file(path: Path, fill: Callable[[Connection], None]) -> None:
    """Make a new database that exists either complete or not at all.

    It is built under another name and renamed: a crash leaves no half-made ledger behind.
    """
    building = path.with_name(path.name + ".new")
    building.unlink(missing_ok=True)
    engine = _engine(_uri(building, "mode=rwc"), ("synchronous=FULL",))
    try:
        with explained(path), engine.begin() as connection:
            fill(connection)
        building.rename(path)
    finally:
        engine.dispose()
        building.unlink(missing_ok=True)
    _sync_folder(path.parent)


def checkpoint(engine: Engine) -> bool:
    """Move the WAL into the file; False if a reader still needs it."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"PRAGMA busy_timeout = {CLOSING_BUSY_MS}"))
        busy = connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)")).scalar()
    return not busy


@dataclass(slots=True)
class Reader:
    """Reads a file without changing it; ``close`` when done."""

    path: Path
    engine: Engine
    unchanged: tuple[int, int] | None = None  # size and time of a file opened as immutable
    copy: tempfile.TemporaryDirectory[str] | None = field(default=None, repr=False)

    @contextlib.contextmanager
    def connect(self) -> Iterator[Connection]:
        """Open one consistent view of the file.

        Raises
        ------
        LedgerDamaged
            If SQLite finds damage.
        LedgerError
            If a file that nobody wrote to has been written to since it was opened.
        """
        with explained(self.path), self.engine.connect() as connection:
            yield connection
        if self.unchanged is not None and self.unchanged != _signature(self.path):
            raise LedgerError(
                f"{self.path}: another process has begun to write to it. Read it again"
            )

    def close(self) -> None:
        """Release the file. Safe to call twice."""
        self.engine.dispose()
        if self.copy is not None:
            self.copy.cleanup()
            self.copy = None


def reader(path: Path) -> Reader:
    """Open ``path`` for reading: beside its writer if there is one, else as it lies there."""
    if not _has_wal(path) and lock.holder(path) is None:
        return Reader(path, _engine(_uri(path, "immutable=1")), unchanged=_signature(path))
    shared = Reader(path, _engine(_uri(path, "mode=ro")))
    try:
        with shared.engine.connect() as connection:
            connection.execute(text("SELECT count(*) FROM sqlite_master"))
    except DBAPIError as error:
        shared.close()
        name = getattr(error.orig, "sqlite_errorname", "")
        if name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")):
            return _copied(path)
        raise explanation(path, error) from error
    return shared


def quick_check(connection: Connection, path: Path) -> None:
    """Check every page of a file of moderate size.

    Raises
    ------
    LedgerDamaged
        If a page is not sound.
    """
    if path.stat().st_size > QUICK_CHECK_BYTES:
        return
    finding = connection.execute(text("PRAGMA quick_check(1)")).scalar()
    if finding != "ok":
        raise LedgerDamaged(f"{path}: {REMEDIES['SQLITE_CORRUPT']} ({finding})")


def _copied(path: Path) -> Reader:
    """Read a copy: the WAL must be read, and nothing may be created beside it."""
    folder = tempfile.TemporaryDirectory(prefix="benchtrial-")
    target = Path(folder.name) / path.name
    for file in (path, _wal(path)):
        if file.exists():
            shutil.copyfile(file, target.with_name(file.name))
    return Reader(path, _engine(_uri(target, "mode=rw")), copy=folder)


def _engine(uri: str, pragmas: tuple[str, ...] = ()) -> Engine:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            uri, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )
        try:
            for pragma in pragmas:
                connection.execute(f"PRAGMA {pragma}")
        except BaseException:
            connection.close()
            raise
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool)
    # isolation_level=None: without it the driver would commit before every CREATE TABLE.
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


def _uri(path: Path, mode: str) -> str:
    return f"{path.absolute().as_uri()}?{mode}"


def _wal(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _has_wal(path: Path) -> bool:
    try:
        return _wal(path).stat().st_size > 0
    except FileNotFoundError:
        return False


def _signature(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
