"""The tables of a ledger, for SQLite and PostgreSQL alike.

Every table is append-only: what happened is never rewritten, so a crash can lose the end of a
ledger but never change its past. SQLite is told to refuse every UPDATE and DELETE. Ids are given
out by the one writer and grow with time: the order of ids is the order of events.

Bodies and texts stand in tables of their own, so that reading all verdicts of a long campaign does
not read every word that was said.
"""

import json
from decimal import Decimal
from typing import Any

from sqlalchemy import (
    DDL,
    CheckConstraint,
    Column,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    event,
)

SCHEMA_VERSION = 1

ESCAPED = "\x1ajson:"
"""Marks a text that is stored as JSON because a database cannot hold it as it is.

A control character (SUBSTITUTE) that no provider sends at the start of a text; if one did, the text
would be escaped as well, so that reading always gives back what was written.
"""


class ExactText(TypeDecorator[str]):
    """Text that comes back exactly: lone surrogates and NUL, which databases refuse, included."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Write."""
        if value is None or _is_plain(value):
            return value
        return ESCAPED + json.dumps(value)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Read."""
        if value is None:
            return None
        text = str(value)
        return str(json.loads(text.removeprefix(ESCAPED))) if text.startswith(ESCAPED) else text


class ExactDecimal(TypeDecorator[Decimal]):
    """Money as decimal text: no binary fraction ever touches it."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Decimal | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Write."""
        return None if value is None else str(value)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> Decimal | None:  # noqa: ARG002
        """Read."""
        return None if value is None else Decimal(value)


metadata = MetaData()

campaign = Table(
    "campaign",
    metadata,
    Column("revision", Integer, primary_key=True),  # the last one holds
    Column("schema_version", Integer, nullable=False),
    Column("study", ExactText, nullable=False),
    Column("study_hash", Text, nullable=False),
    Column("code_version", Text, nullable=False),
    Column("created", Text, nullable=False),
)

texts = Table(
    "texts",
    metadata,
    Column("hash", Text, primary_key=True),  # SHA-256 of the UTF-8 bytes
    Column("text", ExactText, nullable=False),
)

rounds = Table(
    "rounds",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("created", Text, nullable=False),
)

queries = Table(
    "queries",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", Text, nullable=False, unique=True),
    Column("round", ForeignKey(rounds.c.number), nullable=False),
    Column("unit", Integer, nullable=False),
    Column("judge", ExactText, nullable=False),
    Column("criterion", ExactText, nullable=False),
    Column("replicate", Integer, nullable=False),
    Column("batch", Integer),  # of a BatchCell
    Column("items", Text),  # JSON, of a BatchCell
    Column("prompt", ExactText),  # of a PairCell
    Column("first", ExactText),
    Column("second", ExactText),
    Column("messages", Text, nullable=False),  # JSON: [[role, hash of the text], ...]
    Column("answer", Text, nullable=False),  # JSON
    Column("max_output_tokens", Integer, nullable=False),
    Column("parameters", Text, nullable=False),  # JSON
    Column("logprobs", Integer, nullable=False),
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("query", ForeignKey(queries.c.id), nullable=False),
    Column("reserved_tokens", Integer, nullable=False),
    Column("reserved_money", ExactDecimal),  # NULL: the price is unknown
    Column("reserved_requests", Integer, nullable=False),
    Column("started", Text, nullable=False),
)

outcomes = Table(
    "outcomes",
    metadata,
    Column("attempt", ForeignKey(attempts.c.id), primary_key=True, autoincrement=False),
    Column("state", Text, nullable=False),
    Column("charged_tokens", Integer, nullable=False),
    Column("charged_money", ExactDecimal),  # NULL: the price is unknown
    Column("charged_requests", Integer, nullable=False),
    Column("estimated", Integer, nullable=False),  # 1: the charge is a bound, not a report
    Column("error", Text),  # class of benchtrial.errors
    Column("message", ExactText),
    Column("details", Text),  # JSON: status, request_id, may_be_billed, retry_after, reason
    Column("ended", Text, nullable=False),
    CheckConstraint("state IN ('replied', 'failed', 'withdrawn')", name="outcome_state"),
)

replies = Table(
    "replies",
    metadata,
    Column("id", Integer, primary_key=True),  # in order of arrival
    Column("attempt", ForeignKey(outcomes.c.attempt), nullable=False, unique=True),
    Column("query", ForeignKey(queries.c.id), nullable=False),
    Column("stop", Text, nullable=False),
    Column("input", Integer),
    Column("output", Integer),
    Column("cached_input", Integer),
    Column("cache_writes", Integer),
    Column("reasoning", Integer),
    Column("usage_estimated", Integer),
    Column("cost", ExactDecimal),
    Column("served_model", ExactText),
    Column("fingerprint", ExactText),
    Column("request_id", ExactText),
    Column("latency", Float, nullable=False),
    Column("received", Text, nullable=False),
)
Index("replies_by_query", replies.c.query)

bodies = Table(
    "bodies",
    metadata,
    Column("reply", ForeignKey(replies.c.id), primary_key=True, autoincrement=False),
    Column("text", ExactText, nullable=False),
    Column("tokens", Text),  # JSON: [[text, logprob, {alternative: logprob}], ...]
    Column("raw", ExactText, nullable=False),
)

verdicts = Table(
    "verdicts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("query", ForeignKey(queries.c.id), nullable=False),
    Column("reply", ForeignKey(replies.c.id)),  # none: no attempt brought a reply
    Column("position", Integer, nullable=False),
    Column("subject", ExactText, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text),
    Column("value", Float),
    Column("label", ExactText),
    Column("rule", Text, nullable=False),
    Column("probability", Float),
    Column("parser", Text, nullable=False),
    CheckConstraint("state IN ('valid', 'tie', 'invalid', 'failed')", name="verdict_state"),
)
Index("verdicts_by_query", verdicts.c.query)

looks = Table(
    "looks",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("last_reply", Integer, nullable=False),  # the replies that it could see; 0: none
    Column("look", ExactText, nullable=False),  # JSON
    Column("created", Text, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("detail", ExactText, nullable=False),  # JSON
    Column("created", Text, nullable=False),
)


def _is_plain(text: str) -> bool:
    if "\0" in text or text.startswith(ESCAPED):
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse_rewriting() -> None:
    for table in metadata.sorted_tables:
        for verb in ("UPDATE", "DELETE"):
            trigger = DDL(  # type: ignore[no-untyped-call]
                f"CREATE TRIGGER {table.name}_no_{verb.lower()} BEFORE {verb} ON {table.name} "
                "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
            )
            event.listen(table, "after_create", trigger.execute_if(dialect="sqlite"))


_refuse_rewriting()
