"""What is read from a ledger to go on with a campaign, or to run it again from the record."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, FromClause, Select, func, select

from benchtrial.adapters.judge import Reply
from benchtrial.errors import JudgeError
from benchtrial.orchestrator.budget import Amount
from benchtrial.orchestrator.ledger import records
from benchtrial.orchestrator.ledger.records import PlannedQuery
from benchtrial.orchestrator.ledger.schema import (
    attempts,
    bodies,
    looks,
    outcomes,
    queries,
    replies,
    rounds,
    texts,
    verdicts,
)

HASHES_PER_SELECT = 500
"""Texts looked up at once: below the 999 variables that the oldest SQLite takes in a statement."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts of what a ledger holds.

    Parameters
    ----------
    rounds, queries, looks
        Rounds and queries planned, looks taken.
    answered
        Queries with a reply, or given up.
    attempts, unknown
        Attempts begun, and those of them without an outcome: counted in full against the budget.
    replies, duplicates
        Replies kept, and those of them that do not count because their query had one already.
    """

    rounds: int
    queries: int
    answered: int
    attempts: int
    unknown: int
    replies: int
    duplicates: int
    looks: int


def query_ids(connection: Connection) -> dict[str, int]:
    """Read every query's id by key."""
    return _mapping(connection, select(queries.c.key, queries.c.id))


def answered_ids(connection: Connection) -> set[int]:
    """Find the queries that need not be asked again: those with a reply, and those given up."""
    given_up = select(verdicts.c.query).where(verdicts.c.reply.is_(None))
    return {
        *connection.scalars(select(replies.c.query).distinct()),
        *connection.scalars(given_up.distinct()),
    }


def unsettled(connection: Connection) -> dict[int, int]:
    """Find the attempts without an outcome, with the id of their query."""
    statement = (
        select(attempts.c.id, attempts.c.query)
        .select_from(attempts.outerjoin(outcomes))
        .where(outcomes.c.attempt.is_(None))
        .order_by(attempts.c.id)
    )
    return _mapping(connection, statement)


def planned(connection: Connection, number: int | None) -> tuple[PlannedQuery, ...]:
    """Read the queries of a round (or of all) with their texts, in the order of the schedule."""
    statement = select(queries).order_by(queries.c.id)
    if number is not None:
        statement = statement.where(queries.c.round == number)
    words: dict[str, str] = _mapping(connection, select(texts.c.hash, texts.c.text))
    return tuple(records.query_from(row, words) for row in connection.execute(statement))


def known_texts(connection: Connection, hashes: Iterable[str]) -> set[str]:
    """Find those of ``hashes`` whose text is kept already."""
    wanted = list(hashes)
    found: set[str] = set()
    for start in range(0, len(wanted), HASHES_PER_SELECT):
        some = wanted[start : start + HASHES_PER_SELECT]
        found.update(connection.scalars(select(texts.c.hash).where(texts.c.hash.in_(some))))
    return found


def attempt_counts(connection: Connection) -> dict[str, int]:
    """Count how often each query was attempted, unknown attempts included."""
    statement = (
        select(queries.c.key, func.count())
        .select_from(attempts.join(queries))
        .group_by(attempts.c.query)
    )
    return _mapping(connection, statement)


def recorded_outcomes(connection: Connection) -> dict[str, tuple[Reply | JudgeError, ...]]:
    """Read what each attempt at each query came to, in order (see ``Ledger.outcomes``)."""
    statement = (
        select(
            queries.c.key,
            attempts.c.id.label("attempt"),
            attempts.c.reserved_tokens,
            attempts.c.reserved_money,
            attempts.c.reserved_requests,
            outcomes.c.state,
            outcomes.c.error,
            outcomes.c.message,
            outcomes.c.details,
            replies,
            bodies.c.text,
            bodies.c.tokens,
            bodies.c.raw,
        )
        .select_from(
            attempts.join(queries).outerjoin(outcomes).outerjoin(replies).outerjoin(bodies)
        )
        .order_by(attempts.c.query, attempts.c.id)
    )
    found: dict[str, list[Reply | JudgeError]] = defaultdict(list)
    arrivals: dict[str, list[tuple[int, Reply]]] = defaultdict(list)
    for row in connection.execute(statement):
        if row.state == "withdrawn":
            continue
        if row.state == "replied":
            reply = records.reply_from(row)
            arrivals[row.key].append((row.id, reply))
            found[row.key].append(reply)
        elif row.state == "failed":
            found[row.key].append(records.error_from(row))
        else:
            reserved = Amount(row.reserved_tokens, row.reserved_money, row.reserved_requests)
            found[row.key].append(records.unknown_outcome(row.attempt, reserved))
    return {key: _in_order_of_arrival(some, arrivals[key]) for key, some in found.items()}


def input_bounds(connection: Connection) -> dict[str, int]:
    """Read the upper bound on the input tokens of each query, as it was reserved first."""
    statement = select(
        queries.c.key, queries.c.max_output_tokens, attempts.c.reserved_tokens
    ).select_from(attempts.join(queries))
    bounds: dict[str, int] = {}
    for key, cap, reserved in connection.execute(statement.order_by(attempts.c.id)):
        bounds.setdefault(key, max(reserved - cap, 0))
    return bounds


def summary(connection: Connection) -> Summary:
    """Count what the ledger holds."""

    def count(table: FromClause) -> int:
        return connection.scalar(select(func.count()).select_from(table)) or 0

    with_reply = connection.scalar(select(func.count(replies.c.query.distinct()))) or 0
    number = count(replies)
    return Summary(
        rounds=count(rounds),
        queries=count(queries),
        answered=len(answered_ids(connection)),
        attempts=count(attempts),
        unknown=len(unsettled(connection)),
        replies=number,
        duplicates=number - with_reply,
        looks=count(looks),
    )


def _mapping(connection: Connection, statement: Select[Any]) -> dict[Any, Any]:
    return dict(connection.execute(statement).all())


def _in_order_of_arrival(
    some: list[Reply | JudgeError], arrivals: list[tuple[int, Reply]]
) -> tuple[Reply | JudgeError, ...]:
    """Fill the places of replies in order of arrival: the first to arrive is what counts."""
    replies_in_order = iter([reply for _, reply in sorted(arrivals, key=itemgetter(0))])
    return tuple(next(replies_in_order) if isinstance(one, Reply) else one for one in some)
