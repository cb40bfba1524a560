"""The ledger of one campaign: what may be asked of it, and what it promises.

*Durable*: when ``begin``, ``reply``, ``fail``, ``give_up``, ``add_round`` or ``add_look`` returns,
what it recorded survives a kill and a power cut. *Atomic*: a reply is there with its outcome, its
charge and its verdicts, or not at all. *Never too low*: an attempt whose outcome is unknown is
charged its whole reservation.
"""

import asyncio
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, Engine, Table, func, select

from benchtrial import __version__
from benchtrial.adapters.judge import Reply
from benchtrial.errors import JudgeError, LedgerError
from benchtrial.orchestrator.budget import Amount
from benchtrial.orchestrator.ledger import founding, history, lock, records, sqlite
from benchtrial.orchestrator.ledger.reading import ReadableLedger
from benchtrial.orchestrator.ledger.records import PlannedQuery, VerdictLike
from benchtrial.orchestrator.ledger.schema import (
    attempts,
    bodies,
    events,
    looks,
    outcomes,
    queries,
    replies,
    rounds,
    texts,
    verdicts,
)
from benchtrial.orchestrator.ledger.writer import Writer


class Ledger(ReadableLedger):
    """The durable record of one campaign. Get one from ``create`` or ``open``, and close it.

    Attributes
    ----------
    path
        The file.
    study_json, study_hash, code_version, created
        The study as run, and by which version of Benchtrial it was begun, and when (UTC).
    notices
        What happened on opening that a user should know: a dead process's lock was taken over.
    """

    def __init__(
        self,
        path: Path,
        reader: sqlite.Reader,
        *,
        held: lock.Lock | None = None,
        engine: Engine | None = None,
    ) -> None:
        self._writer: Writer | None = None
        super().__init__(path, reader)
        self.notices: tuple[str, ...] = ()
        self._held = held
        self._engine = engine
        if engine is not None:
            self._prepare_to_write(engine)

    # -- opening and closing -----------------------------------------------------------------

    @classmethod
    def create(
        cls, path: str | Path, *, study_json: str, study_hash: str, code_version: str = __version__
    ) -> Self:
        """Start a ledger where there is none, and open it for writing.

        Raises
        ------
        LedgerError
            If something is at ``path`` already, or the folder is missing or cannot be written.
        LedgerLocked
            If another process is just doing the same.
        """
        path = Path(path)
        if not path.parent.is_dir():
            raise LedgerError(f"{path}: the folder {path.parent} does not exist. Make it first")

        with _locked(path) as held:
            if path.exists():
                raise LedgerError(f"{path}: exists already. Open it, or name another file")
            founding.found(path, study_json, study_hash, code_version)
            return cls._open_for_writing(path, held)

    @classmethod
    def open(cls, path: str | Path, *, read_only: bool = False) -> Self:
        """Open the ledger at ``path``.

        Parameters
        ----------
        path
            The file.
        read_only
            Only look: needs no lock, works beside a running campaign and in a folder that cannot
            be written, and never changes the file.

        Raises
        ------
        LedgerError
            If there is no ledger at ``path``, or it cannot be written.
        LedgerLocked
            If another process writes to it.
        LedgerTooNew
            If a later version of Benchtrial wrote it.
        LedgerDamaged
            If the file is not sound.
        """
        path = Path(path)
        sqlite.require_database(path)
        if read_only:
            return cls(path, founding.sound(sqlite.reader(path)))
        with _locked(path) as held:
            return cls._open_for_writing(path, held)

    @classmethod
    def _open_for_writing(cls, path: Path, held: lock.Lock) -> Self:
        founding.sound(sqlite.reader(path)).close()
        engine = sqlite.writing_engine(path)
        try:
            with sqlite.explained(path), engine.connect():
                pass  # from now on there is a writer, so that readers read beside it
            ledger = cls(path, sqlite.reader(path), held=held, engine=engine)
        except BaseException:
            engine.dispose()
            raise
        if held.notice is not None:
            ledger.notices = (held.notice,)
            ledger.add_event("lock taken over", {"notice": held.notice})
        return ledger

    def close(self) -> None:
        """Write what was handed in, move everything into the one file, and give up the lock.

        Safe to call twice. Afterwards the file alone is the whole ledger, unless somebody still
        reads it: until they are done its ``-wal`` file belongs to it.

        Raises
        ------
        LedgerError
            If the disk refuses; what was acknowledged before is kept in the ``-wal`` file.
        """
        if self._writer is not None and self._engine is not None and self._held is not None:
            self._writer.close()
            try:
                if self._writer.failure is None:
                    with sqlite.explained(self.path):
                        sqlite.checkpoint(self._engine)
            finally:
                self._reader.close()
                self._engine.dispose()
                self._held.release()
                self._writer = self._engine = self._held = None
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- writing -----------------------------------------------------------------------------

    def add_round(self, number: int, planned: Sequence[PlannedQuery]) -> None:
        """Record the queries of a round, all or none, before any of them is asked.

        Raises
        ------
        LedgerError
            If the round is there already, or a query was planned before.
        """
        writer = self._appender
        if number in self._rounds:
            raise LedgerError(f"{self.path}: round {number} is there already")
        ids: dict[str, int] = {}
        for query in planned:
            if query.round != number or query.key != query.request.key:
                raise ValueError(f"a query of round {query.round} with key {query.key} is misfiled")
            if query.key in ids or query.key in self._query_ids:
                raise LedgerError(
                    f"{self.path}: {query.request.cell} is planned twice (key {query.key}); "
                    "give repetitions different replicate numbers"
                )
            ids[query.key] = next(self._next_query)
        words = {
            records.text_hash(message.text): message.text
            for query in planned
            for message in query.request.messages
        }
        with self._reading() as connection:
            for hashed in history.known_texts(connection, words):
                del words[hashed]
        done = writer.hand_in(
            {
                rounds: [{"number": number, "created": records.now()}],
                texts: [{"hash": hashed, "text": text} for hashed, text in words.items()],
                queries: [records.query_row(ids[query.key], query) for query in planned],
            }
        )
        self._query_ids.update(ids)
        self._rounds.append(number)
        done.result()

    async def begin(self, key: str, reservation: Amount) -> int:
        """Record the intent to ask, with the most that it can cost; ask only after this returns.

        Cancelled while it waits, the attempt is withdrawn at no charge: nobody has sent it.

        Returns
        -------
        int
            The id of the attempt.

        Raises
        ------
        LedgerError
            If the query is not planned, or the disk refuses.
        """
        writer = self._appender
        query = self._query_id(key)
        attempt = next(self._next_attempt)
        row = records.attempt_row(attempt, query, reservation)
        try:
            await writer.append({attempts: [row]})
        except asyncio.CancelledError:
            writer.hand_in({outcomes: [records.outcome_row(attempt, "withdrawn", Amount())]})
            raise
        self._unsettled[attempt] = query
        return attempt

    async def reply(
        self,
        attempt: int,
        reply: Reply,
        found: Sequence[VerdictLike],
        charged: Amount,
        *,
        parser: str,
        estimated: bool = False,
    ) -> None:
        """Record what an attempt brought.

        Parameters
        ----------
        attempt
            From ``begin``; one of an earlier run that was cut off is welcome too.
        reply, found
            The reply, and the verdicts read from it.
        charged
            What the attempt used.
        estimated
            Whether the charge is a bound because the provider reported nothing.
        parser
            Version of the parser that read it.

        Raises
        ------
        LedgerError
            If the attempt has an outcome already, or the disk refuses.
        """
        writer = self._appender
        query = self._settle(attempt)
        identity = next(self._next_reply)
        lean, body = records.reply_rows(identity, attempt, query, reply)
        self._answered.add(query)
        await writer.append(
            {
                outcomes: [records.outcome_row(attempt, "replied", charged, estimated=estimated)],
                replies: [lean],
                bodies: [body],
                verdicts: records.verdict_rows(self._next_verdict, query, identity, found, parser),
            }
        )

    async def fail(
        self, attempt: int, error: JudgeError, charged: Amount, *, estimated: bool = False
    ) -> None:
        """Record that an attempt failed, and what is charged for it.

        Raises
        ------
        LedgerError
            If the attempt has an outcome already, or the disk refuses.
        """
        writer = self._appender
        self._settle(attempt)
        row = records.outcome_row(attempt, "failed", charged, estimated=estimated, error=error)
        await writer.append({outcomes: [row]})

    async def give_up(self, key: str, found: Sequence[VerdictLike]) -> None:
        """Record the ``failed`` verdicts of a query that no attempt could answer.

        Should a reply arrive later all the same, it counts instead.

        Raises
        ------
        LedgerError
            If the query is answered or given up already, or the disk refuses.
        """
        writer = self._appender
        query = self._query_id(key)
        if query in self._answered:
            raise LedgerError(f"{self.path}: query {key} has its verdicts already")
        self._answered.add(query)
        rows = records.verdict_rows(self._next_verdict, query, None, found, parser="")
        await writer.append({verdicts: rows})

    async def add_look(self, look: str) -> None:
        """Record a look as JSON, and up to which reply it could see."""
        writer = self._appender
        row = {
            "number": next(self._next_look),
            "last_reply": self._last_reply(),
            "look": look,
            "created": records.now(),
        }
        await writer.append({looks: [row]})

    def add_event(self, kind: str, detail: Mapping[str, Any]) -> None:
        """Record something else that happened to the campaign."""
        writer = self._appender
        row = {
            "id": next(self._next_event),
            "kind": kind,
            "detail": json.dumps(dict(detail)),
            "created": records.now(),
        }
        writer.hand_in({events: [row]}).result()

    @property
    def read_only(self) -> bool:
        """Whether this ledger can only be read."""
        return self._writer is None

    # -- private -----------------------------------------------------------------------------

    @property
    def _appender(self) -> Writer:
        if self._writer is None:
            raise LedgerError(f"{self.path}: opened only to read, or closed; nothing can be added")
        return self._writer

    def _prepare_to_write(self, engine: Engine) -> None:
        with self._reading() as connection:
            self._unsettled = history.unsettled(connection)
            self._next_query = _ids_after(connection, queries)
            self._next_attempt = _ids_after(connection, attempts)
            self._next_reply = _ids_after(connection, replies)
            self._next_verdict = _ids_after(connection, verdicts)
            self._next_event = _ids_after(connection, events)
            self._next_look = _ids_after(connection, looks, "number")
        self._writer = Writer(engine, self.path)

    def _flush(self) -> None:
        if self._writer is not None:
            self._writer.flush()

    def _query_id(self, key: str) -> int:
        try:
            return self._query_ids[key]
        except KeyError:
            raise LedgerError(
                f"{self.path}: query {key} is not planned; add_round comes first"
            ) from None

    def _settle(self, attempt: int) -> int:
        try:
            return self._unsettled.pop(attempt)
        except KeyError:
            raise LedgerError(
                f"{self.path}: attempt {attempt} does not exist or has its outcome already"
            ) from None

    def _last_reply(self) -> int:
        with self._reading() as connection:
            return connection.scalar(select(func.max(replies.c.id))) or 0


@contextmanager
def _locked(path: Path) -> Iterator[lock.Lock]:
    """Hold the lock; it stays held unless the block fails."""
    held = lock.acquire(path)
    try:
        yield held
    except BaseException:
        held.release()
        raise


def _ids_after(connection: Connection, table: Table, column: str = "id") -> Iterator[int]:
    return itertools.count((connection.scalar(select(func.max(table.c[column]))) or 0) + 1)
