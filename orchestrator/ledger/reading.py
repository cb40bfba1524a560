"""Everything that can be read from a ledger, whether or not one may write to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import pandas as pd
from sqlalchemy import Connection, select

from benchtrial.adapters.judge import Reply
from benchtrial.errors import BenchtrialError, JudgeError, LedgerDamaged
from benchtrial.orchestrator.budget import Amount
from benchtrial.orchestrator.ledger import history, sqlite, tables
from benchtrial.orchestrator.ledger.records import PlannedQuery
from benchtrial.orchestrator.ledger.schema import campaign, looks, rounds
from benchtrial.orchestrator.ledger.tables import NO_COVARIATES, Covariates, Outcome


class ReadableLedger:
    """The reading half of a ``Ledger``; each method reads one consistent view."""

    def __init__(self, path: Path, reader: sqlite.Reader) -> None:
        self.path = path
        self._reader = reader
        with self._reading() as connection:
            current = select(campaign).order_by(campaign.c.revision.desc()).limit(1)
            row = connection.execute(current).one()
        self.study_json: str = row.study
        self.study_hash: str = row.study_hash
        self.code_version: str = row.code_version
        self.created: str = row.created

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

    def _flush(self) -> None:
        """Wait for what this process has handed in and not yet written."""

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """Open a view of everything that was handed in so far.

        What was written by this program can be read by it; a row that cannot is damage.
        """
        self._flush()
        try:
            with self._reader.connect() as connection:
                yield connection
        except BenchtrialError:
            raise
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            raise LedgerDamaged(
                f"{self._reader.path}: a row cannot be read ({error}). Restore a copy, or export "
                "what can still be read"
            ) from error

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
