"""Group commit: many writers wait for one fsync.

A durable commit costs an fsync, milliseconds on any disk. Requests in flight do not each pay for
one: whatever was handed in while the last commit was on its way goes into the next, as one
transaction. So a ledger keeps up with thousands of replies per second, and nobody goes on before
what they handed in is on the disk.

A thread of its own does the writing. What was handed in is written whatever becomes of the task
that waits for it: cancelling a task, or Ctrl-C, loses nothing. Only a refusing disk does; then
everyone who waits is told, and the writer writes no more, because after a failed fsync nobody can
know what reached the disk until the file is opened again.
"""

import asyncio
import atexit
import contextlib
import queue
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, Table
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, InterfaceError, ProgrammingError

from benchtrial.errors import LedgerError
from benchtrial.orchestrator.ledger import sqlite
from benchtrial.orchestrator.ledger.schema import metadata

Rows = Mapping[Table, Sequence[Mapping[str, Any]]]

LARGEST_COMMIT = 5_000
"""Hand-ins in one transaction: bounds the memory and the time until the first of them is told."""


@dataclass(frozen=True, slots=True)
class _Job:
    rows: Rows
    waiter: asyncio.Future[None] | Future[None]


class Writer:
    """Appends rows durably, in the order in which they are handed in.

    Parameters
    ----------
    engine
        The one engine that writes to the database.
    path
        The ledger, for error messages.
    """

    def __init__(self, engine: Engine, path: Path) -> None:
        self._engine = engine
        self._path = path
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self.failure: LedgerError | None = None
        self._thread = threading.Thread(target=self._work, name="ledger writer", daemon=True)
        self._thread.start()
        # A daemon thread dies with the interpreter; what was handed in is written before.
        atexit.register(self.close)

    async def append(self, rows: Rows) -> None:
        """Hand rows in and wait until they are on the disk. Cancelling the wait loses nothing.

        Raises
        ------
        LedgerError
            If they could not be written.
        """
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._enqueue(_Job(rows, waiter))
        await waiter

    def hand_in(self, rows: Rows) -> Future[None]:
        """Hand rows in without waiting; the future's ``result`` waits, and raises as ``append``."""
        waiter: Future[None] = Future()
        self._enqueue(_Job(rows, waiter))
        return waiter

    def flush(self) -> None:
        """Wait until everything handed in so far is on the disk."""
        self.hand_in({}).result()

    def close(self) -> None:
        """Write what is left and end. Safe to call twice."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._jobs.put(None)
        self._thread.join()
        atexit.unregister(self.close)

    def _enqueue(self, job: _Job) -> None:
        with self._closing:
            if self._closed:
                raise LedgerError(f"{self._path}: the ledger is closed; open it again to write")
            self._jobs.put(job)

    # -- on the writer's thread --------------------------------------------------------------

    def _work(self) -> None:
        going_on = True
        while going_on:
            batch, going_on = self._next_batch()
            self._commit(batch)

    def _next_batch(self) -> tuple[list[_Job], bool]:
        """Wait for a job and take all that came with it; False once there will be no more."""
        batch: list[_Job] = []
        job = self._jobs.get()
        with contextlib.suppress(queue.Empty):
            while job is not None:
                batch.append(job)
                if len(batch) == LARGEST_COMMIT:
                    return batch, True
                job = self._jobs.get_nowait()
        return batch, job is not None

    def _commit(self, batch: Sequence[_Job]) -> None:
        if self.failure is not None:
            return _tell(batch, self.failure)
        try:
            self._insert(batch)
        except Exception as error:  # noqa: BLE001  (whatever it is, those who wait must hear of it)
            if not _is_fault_of_a_row(error):
                self.failure = sqlite.explanation(self._path, error)
                return _tell(batch, self.failure)
            if len(batch) == 1:
                return _tell(batch, sqlite.explanation(self._path, error))
            for job in batch:  # so that only the one at fault is refused
                self._commit([job])
            return None
        return _tell(batch, None)

    def _insert(self, batch: Sequence[_Job]) -> None:
        merged: dict[Table, list[Mapping[str, Any]]] = defaultdict(list)
        for job in batch:
            for table, rows in job.rows.items():
                if rows:
                    merged[table].extend(rows)
        if not merged:
            return
        with self._engine.begin() as connection:
            for table in metadata.sorted_tables:  # parents first
                if table in merged:
                    connection.execute(table.insert(), merged[table])


def _is_fault_of_a_row(error: Exception) -> bool:
    row_faults = (IntegrityError, DataError, ProgrammingError, InterfaceError)
    return isinstance(error, row_faults) or not isinstance(error, DBAPIError)


def _tell(batch: Sequence[_Job], error: LedgerError | None) -> None:
    """Wake everyone who waits, with one call into each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = defaultdict(list)
    for job in batch:
        if isinstance(job.waiter, Future):
            _resolve(job.waiter, error)
        else:
            by_loop[job.waiter.get_loop()].append(job.waiter)
    for loop, waiters in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_resolve_all, waiters, error)


def _resolve_all(waiters: Sequence[asyncio.Future[None]], error: LedgerError | None) -> None:
    for waiter in waiters:
        _resolve(waiter, error)


def _resolve(waiter: asyncio.Future[None] | Future[None], error: LedgerError | None) -> None:
    if waiter.done():  # cancelled
        return
    if error is None:
        waiter.set_result(None)
    else:
        # One object for each: a shared exception would collect every waiter's traceback.
        mine = type(error)(*error.args)
        mine.__cause__ = error.__cause__
        waiter.set_exception(mine)
