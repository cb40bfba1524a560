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
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pandas as pd
from sqlalchemy import Connection, Engine, Table, func, inspect, select

from benchtrial import __version__
from benchtrial.adapters.judge import Reply
from benchtrial.errors import JudgeError, LedgerDamaged, LedgerError, LedgerTooNew
from benchtrial.orchestrator.budget import Amount
from benchtrial.orchestrator.ledger import history, lock, records, sqlite, tables
from benchtrial.orchestrator.ledger.records import PlannedQuery, VerdictLike
from benchtrial.orchestrator.ledger.schema import (
    SCHEMA_VERSION,
    attempts,
    bodies,
    campaign,
    events,
    looks,
    metadata,
    outcomes,
    queries,
    replies,
    rounds,
    texts,
    verdicts,
)
from benchtrial.orchestrator.ledger.tables import NO_COVARIATES, Covariates, Outcome
from benchtrial.orchestrator.ledger.writer import Writer


class Ledger:
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
        self.path = path
        self.notices: tuple[str, ...] = ()
        self._reader = reader
        self._held = held
        self._engine = engine
        self._writer: Writer | None = None
        with self._reading() as connection:
            current = select(campaign).order_by(campaign.c.revision.desc()).limit(1)
            row = connection.execute(current).one()
        self.study_json: str = row.study
        self.study_hash: str = row.study_hash
        self.code_version: str = row.code_version
        self.created: str = row.created
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

        def fill(connection: Connection) -> None:
            metadata.create_all(connection)
            connection.execute(
                campaign.insert(),
                [
                    {
                        "revision": 1,
                        "schema_version": SCHEMA_VERSION,
                        "study": study_json,
                        "study_hash": study_hash,
                        "code_version": code_version,
                        "created": records.now(),
                    }
                ],
            )

        with _locked(path) as held:
            if path.exists():
                raise LedgerError(f"{path}: exists already. Open it, or name another file")
            sqlite.create_file(path, fill)
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
            return cls(path, _sound(sqlite.reader(path)))
        with _locked(path) as held:
            return cls._open_for_writing(path, held)

    @classmethod
    def _open_for_writing(cls, path: Path, held: lock.Lock) -> Self:
        _sound(sqlite.reader(path)).close()
        engine = sqlite.writing_engine(path)
        with sqlite.explained(path), engine.connect():
            pass  # from now on there is a writer, so that readers read beside it
        ledger = cls(path, sqlite.reader(path), held=held, engine=engine)
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
        known = set(self._query_ids)
        for query in planned:
            if query.round != number or query.key != query.request.key:
                raise ValueError(f"a query of round {query.round} with key {query.key} is misfiled")
            if query.key in known:
                raise LedgerError(
                    f"{self.path}: {query.request.cell} is planned twice (key {query.key}); "
                    "give repetitions different replicate numbers"
                )
            known.add(query.key)
        ids = {query.key: next(self._next_query) for query in planned}
        words = {
            records.text_hash(message.text): message.text
            for query in planned
            for message in query.request.messages
        }
        with self._reading() as connection:
            for hashed in history.known_texts(connection, words):
                del words[hashed]
        writer.append_and_block(
            {
                rounds: [{"number": number, "created": records.now()}],
                texts: [{"hash": hashed, "text": text} for hashed, text in words.items()],
                queries: [records.query_row(ids[query.key], query) for query in planned],
            }
        )
        self._query_ids.update(ids)
        self._rounds.append(number)

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
            writer.post({outcomes: [records.outcome_row(attempt, "withdrawn", Amount())]})
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
        writer.append_and_block({events: [row]})

    # -- reading -----------------------------------------------------------------------------

    @property
    def read_only(self) -> bool:
        """Whether this ledger can only be read."""
        return self._writer is None

    def rounds(self) -> tuple[int, ...]:
        """List the numbers of the rounds that were planned."""
        return tuple(self._rounds)

    def queries(self, number: int | None = None) -> tuple[PlannedQuery, ...]:
        """Read the queries of round ``number`` (or of all), in the order of the schedule."""
        with self._reading() as connection:
            return history.planned(connection, number)

    def answered(self, key: str) -> bool:
        """Whether a query needs no more asking: it has a reply, or was given up.

        A query that was never planned is not answered.
        """
        return self._query_ids.get(key) in self._answered

    def attempt_counts(self) -> dict[str, int]:
        """Count how often each query was attempted so far, unknown attempts included."""
        with self._reading() as connection:
            return history.attempt_counts(connection)

    def looks(self) -> tuple[str, ...]:
        """Read the looks taken so far, as they were handed in."""
        with self._reading() as connection:
            return tuple(connection.scalars(select(looks.c.look).order_by(looks.c.number)))

    def outcomes(self) -> dict[str, tuple[Reply | JudgeError, ...]]:
        """Read what each attempt at each query came to, for a recorded judge.

        Returns
        -------
        dict
            Query key to its attempts in order. A failed one is its error; one without an outcome
            is a ``TransientError`` that may be billed, so that a replay charges it in full as the
            run did. Replies stand in order of arrival: the first is the one that counts.
        """
        with self._reading() as connection:
            return history.recorded_outcomes(connection)

    def reservations(self) -> dict[str, int]:
        """Read the upper bound on the input tokens of each attempted query, as it was reserved."""
        with self._reading() as connection:
            return history.input_bounds(connection)

    def spent(self) -> Amount:
        """Sum what all attempts cost; one without an outcome counts its whole reservation."""
        with self._reading() as connection:
            return tables.spent(connection)

    def summary(self) -> history.Summary:
        """Count what the ledger holds."""
        with self._reading() as connection:
            return history.summary(connection)

    def ratings(self, covariates: Covariates = NO_COVARIATES) -> pd.DataFrame:
        """Read the tidy table of a batch study.

        Returns
        -------
        DataFrame
            ``judge, batch, position`` (order of emission, from 1)``, item, rating, criterion,
            repetition, served_model, raw`` (the label as given)``, scale``, the items' columns,
            ``kind``, and ``rubric`` if known. One row per verdict that counts.
        """
        with self._reading() as connection:
            return tables.ratings(connection, covariates)

    def comparisons(
        self, covariates: Covariates = NO_COVARIATES, *, outcome: Outcome = "verdict"
    ) -> pd.DataFrame:
        """Read the tidy table of a pair study.

        Parameters
        ----------
        covariates
            Lengths and families, which the study knows.
        outcome
            ``"verdict"``: 1, 0.5 or 0 for the first slot. ``"probability"``: the first slot's score
            from log-probabilities where the judge gave them, and the verdict elsewhere.

        Returns
        -------
        DataFrame
            ``judge, prompt, first, second, outcome, repetition, criterion, served_model, raw,
            scale``, the lengths and families that are known, ``kind``, and ``rubric`` if known.
        """
        with self._reading() as connection:
            return tables.comparisons(connection, covariates, outcome)

    def missing(self) -> pd.DataFrame:
        """Read the verdicts that enter no fit, one per row, with cell, state and reason."""
        with self._reading() as connection:
            return tables.missing(connection)

    def export(self, name: str) -> pd.DataFrame:
        """Read one table as it is kept; ``EXPORTS`` names them.

        Money is exact decimal text. ``counts`` is 0 for replies and verdicts that came too late.
        """
        with self._reading() as connection:
            return tables.export(connection, name)

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

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """Open a view of everything that was handed in so far."""
        if self._writer is not None:
            self._writer.flush()
        with self._reader.connect() as connection:
            yield connection

    @cached_property
    def _query_ids(self) -> dict[str, int]:
        with self._reading() as connection:
            return history.query_ids(connection)

    @cached_property
    def _answered(self) -> set[int | None]:
        with self._reading() as connection:
            return {*history.answered_ids(connection)}

    @cached_property
    def _rounds(self) -> list[int]:
        with self._reading() as connection:
            return list(connection.scalars(select(rounds.c.number).order_by(rounds.c.number)))

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


def _sound(reader: sqlite.Reader) -> sqlite.Reader:
    """Check that the file is a ledger that this version understands, and hand the reader back."""
    try:
        with reader.connect() as connection:
            _require_ledger(connection, reader.path)
    except BaseException:
        reader.close()
        raise
    return reader


def _require_ledger(connection: Connection, path: Path) -> None:
    found = set(inspect(connection).get_table_names())
    if campaign.name not in found:
        raise LedgerError(
            f"{path}: a database, but not a ledger. Name the file that `benchtrial run` wrote"
        )
    latest = select(campaign.c.schema_version, campaign.c.code_version)
    row = connection.execute(latest.order_by(campaign.c.revision.desc()).limit(1)).one_or_none()
    if row is None:
        raise LedgerDamaged(f"{path}: the ledger holds no study. Restore a copy")
    if row.schema_version > SCHEMA_VERSION:
        raise LedgerTooNew(
            f"{path}: written by Benchtrial {row.code_version} (schema {row.schema_version}); this "
            f"is {__version__} (schema {SCHEMA_VERSION}). Upgrade: pip install -U benchtrial"
        )
    lost = sorted(set(metadata.tables) - found)
    if lost:
        raise LedgerDamaged(f"{path}: tables are missing: {', '.join(lost)}. Restore a copy")
    sqlite.quick_check(connection, path)


def _ids_after(connection: Connection, table: Table, column: str = "id") -> Iterator[int]:
    return itertools.count((connection.scalar(select(func.max(table.c[column]))) or 0) + 1)
