"""What is read from a ledger: the tidy tables of the models, and every table for export.

The verdicts that *count* for a query are those of its first reply to arrive. Later replies (a slow
worker, a request asked again after a crash) are kept and exported but never counted, so a look that
was taken never changes because of them. Without a reply the ``failed`` verdicts count.
Rows come in the order of the schedule, not of arrival: the same replies give the same table.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Text,
    and_,
    case,
    func,
    literal,
    select,
    type_coerce,
)

from benchtrial.errors import InputError
from benchtrial.orchestrator.budget import Amount
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

Outcome = Literal["verdict", "probability"]


@dataclass(frozen=True, slots=True)
class Covariates:
    """What a study knows about those who are judged and those who judge.

    The ledger files who was shown where; these facts stand once in the study and are joined to the
    tables when they are read. A column whose mapping is empty is left out.

    Parameters
    ----------
    items
        Item id to its columns (``group`` and other covariates).
    lengths
        (prompt id, candidate id) to the length of the response in Unicode characters.
    families
        Candidate id to model family.
    judge_families
        Judge id to model family.
    judge_kinds
        Judge id to ``"model"`` or ``"human"``; ``"model"`` where nothing is said.
    rubrics
        Criterion id to the hash of its rubric.
    """

    items: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    lengths: Mapping[tuple[str, str], int] = field(default_factory=dict)
    families: Mapping[str, str | None] = field(default_factory=dict)
    judge_families: Mapping[str, str | None] = field(default_factory=dict)
    judge_kinds: Mapping[str, str] = field(default_factory=dict)
    rubrics: Mapping[str, str] = field(default_factory=dict)


NO_COVARIATES = Covariates()

_first_reply = (
    select(func.min(replies.c.id))
    .where(replies.c.query == queries.c.id)
    .correlate(queries)
    .scalar_subquery()
)
_counting = queries.join(
    verdicts,
    and_(verdicts.c.query == queries.c.id, verdicts.c.reply.is_not_distinct_from(_first_reply)),
).outerjoin(replies, replies.c.id == verdicts.c.reply)
_schedule_order = (queries.c.id, verdicts.c.position, verdicts.c.id)


def ratings(connection: Connection, covariates: Covariates) -> pd.DataFrame:
    """Read one row per rated item: judge, batch, position, item, rating and what goes with it."""
    table = _frame(
        connection,
        select(
            queries.c.judge,
            queries.c.batch,
            verdicts.c.position,
            verdicts.c.subject.label("item"),
            verdicts.c.value.label("rating"),
            queries.c.criterion,
            queries.c.replicate.label("repetition"),
            replies.c.served_model,
            verdicts.c.label.label("raw"),
            queries.c.answer.label("scale"),
        )
        .select_from(_counting)
        .where(queries.c.batch.is_not(None), verdicts.c.state.in_(("valid", "tie")))
        .order_by(*_schedule_order),
    ).astype({"batch": int, "position": int, "rating": float, "repetition": int})
    for name in dict.fromkeys(name for facts in covariates.items.values() for name in facts):
        values = {item: facts.get(name) for item, facts in covariates.items.items()}
        table[name] = table["item"].map(values)
    return _with_common_columns(table, covariates)


def comparisons(connection: Connection, covariates: Covariates, outcome: Outcome) -> pd.DataFrame:
    """Read one row per comparison: judge, prompt, first, second, outcome and what goes with it."""
    table = _frame(
        connection,
        select(
            queries.c.judge,
            queries.c.prompt,
            queries.c.first,
            queries.c.second,
            _score(outcome).label("outcome"),
            queries.c.replicate.label("repetition"),
            queries.c.criterion,
            replies.c.served_model,
            verdicts.c.label.label("raw"),
            queries.c.answer.label("scale"),
        )
        .select_from(_counting)
        .where(queries.c.prompt.is_not(None), verdicts.c.state.in_(("valid", "tie")))
        .order_by(*_schedule_order),
    ).astype({"outcome": float, "repetition": int})
    for slot in ("first", "second"):
        if covariates.lengths:
            shown = zip(table["prompt"], table[slot], strict=True)
            table[f"{slot}_length"] = [covariates.lengths.get(response) for response in shown]
        if covariates.families:
            table[f"{slot}_family"] = table[slot].map(covariates.families)
    if covariates.judge_families:
        table["judge_family"] = table["judge"].map(covariates.judge_families)
    return _with_common_columns(table, covariates)


def missing(connection: Connection) -> pd.DataFrame:
    """Read one row per verdict that enters no fit, with who was shown where and the reason.

    ``slot`` is the displayed position of the item (batches only), from 1; ``position`` the order of
    emission.
    """
    table = _frame(
        connection,
        select(
            queries.c.judge,
            queries.c.criterion,
            queries.c.replicate.label("repetition"),
            queries.c.batch,
            verdicts.c.position,
            verdicts.c.subject.label("item"),
            queries.c["items"].label("slot"),
            queries.c.prompt,
            queries.c.first,
            queries.c.second,
            verdicts.c.state,
            verdicts.c.reason,
            queries.c.key,
        )
        .select_from(_counting)
        .where(verdicts.c.state.in_(("invalid", "failed")))
        .order_by(*_schedule_order),
    )
    table["slot"] = [
        None if shown is None else _slot(json.loads(shown), item)
        for shown, item in zip(table["slot"], table["item"], strict=True)
    ]
    pairs = ["prompt", "first", "second"]
    batches = ["batch", "position", "item", "slot"]
    if not table["prompt"].notna().any():
        return table.drop(columns=pairs)
    return table if table["batch"].notna().any() else table.drop(columns=batches)


def spent(connection: Connection) -> Amount:
    """Sum what all attempts cost; one without an outcome counts its whole reservation."""
    known = outcomes.c.attempt.is_not(None)
    money = case(
        (known, type_coerce(outcomes.c.charged_money, Text)),
        else_=type_coerce(attempts.c.reserved_money, Text),
    )
    tokens = case((known, outcomes.c.charged_tokens), else_=attempts.c.reserved_tokens)
    requests = case((known, outcomes.c.charged_requests), else_=attempts.c.reserved_requests)
    # Money is text, which a database cannot add up exactly; there are few different amounts.
    statement = (
        select(
            type_coerce(money, attempts.c.reserved_money.type).label("money"),
            func.count().label("number"),
            func.sum(tokens).label("tokens"),
            func.sum(requests).label("requests"),
        )
        .select_from(attempts.outerjoin(outcomes))
        .group_by(money)
    )
    total = Amount()
    for row in connection.execute(statement):
        part = None if row.money is None else row.money * row.number
        total += Amount(int(row.tokens), part, int(row.requests))
    return total


def export(connection: Connection, name: str) -> pd.DataFrame:
    """Read one table as it is kept, ready for CSV or JSONL; money is exact decimal text."""
    if name not in EXPORTS:
        raise InputError(f"no table {name!r} to export: choose from {', '.join(EXPORTS)}")
    return _frame(connection, EXPORTS[name]())


def _queries() -> Select[Any]:
    columns = [column for column in queries.c if column.name != "id"]
    return select(*columns).order_by(queries.c.id)


def _attempts() -> Select[Any]:
    return (
        select(
            attempts.c.id.label("attempt"),
            queries.c.key,
            queries.c.judge,
            attempts.c.started,
            outcomes.c.ended,
            func.coalesce(outcomes.c.state, literal("unknown")).label("state"),
            attempts.c.reserved_tokens,
            type_coerce(attempts.c.reserved_money, Text).label("reserved_money"),
            attempts.c.reserved_requests,
            outcomes.c.charged_tokens,
            type_coerce(outcomes.c.charged_money, Text).label("charged_money"),
            outcomes.c.charged_requests,
            outcomes.c.estimated,
            outcomes.c.error,
            outcomes.c.message,
            outcomes.c.details,
        )
        .select_from(attempts.join(queries).outerjoin(outcomes))
        .order_by(attempts.c.id)
    )


def _replies() -> Select[Any]:
    columns = [
        column
        for column in replies.c
        if column.name not in {"id", "attempt", "query", "cost", "received"}
    ]
    return (
        select(
            replies.c.id.label("reply"),
            replies.c.attempt,
            queries.c.key,
            queries.c.judge,
            replies.c.received,
            _counts(replies.c.id).label("counts"),
            *columns,
            type_coerce(replies.c.cost, Text).label("cost"),
            bodies.c.text,
            bodies.c.tokens,
            bodies.c.raw,
        )
        .select_from(replies.join(queries).join(bodies))
        .order_by(replies.c.id)
    )


def _verdicts() -> Select[Any]:
    columns = [column for column in verdicts.c if column.name not in {"id", "query", "reply"}]
    cell = [
        queries.c[name]
        for name in ("judge", "criterion", "replicate", "batch", "prompt", "first", "second")
    ]
    return (
        select(
            queries.c.key,
            verdicts.c.reply,
            _counts(verdicts.c.reply).label("counts"),
            *cell,
            *columns,
        )
        .select_from(verdicts.join(queries))
        .order_by(queries.c.id, verdicts.c.id)
    )


EXPORTS: Mapping[str, Callable[[], Select[Any]]] = {
    "queries": _queries,
    "attempts": _attempts,
    "replies": _replies,
    "verdicts": _verdicts,
    "looks": lambda: select(looks).order_by(looks.c.number),
    "rounds": lambda: select(rounds).order_by(rounds.c.number),
    "texts": lambda: select(texts).order_by(texts.c.hash),
    "events": lambda: select(events).order_by(events.c.id),
}


def _counts(reply: ColumnElement[Any]) -> ColumnElement[Any]:
    return case((reply.is_not_distinct_from(_first_reply), 1), else_=0)


def _score(outcome: Outcome) -> ColumnElement[Any]:
    if outcome == "probability":  # a judge without log-probabilities still says who won
        return func.coalesce(verdicts.c.probability, verdicts.c.value)
    return verdicts.c.value


def _frame(connection: Connection, statement: Select[Any]) -> pd.DataFrame:
    result = connection.execute(statement)
    columns = list(result.keys())
    rows = [tuple(row) for row in result]  # pandas takes plain tuples three times as fast
    return pd.DataFrame(rows, columns=columns)


def _with_common_columns(table: pd.DataFrame, covariates: Covariates) -> pd.DataFrame:
    table["scale"] = table["scale"].map({text: _scale(text) for text in table["scale"].unique()})
    table["kind"] = [covariates.judge_kinds.get(judge, "model") for judge in table["judge"]]
    if covariates.rubrics:
        table["rubric"] = table["criterion"].map(covariates.rubrics)
    return table


def _scale(answer: str) -> str:
    """Name the scale of a raw score: its labels in the answer's order, or its bounds."""
    found = json.loads(answer)
    bounds = found.get("scale")
    return f"{bounds[0]:g}..{bounds[1]:g}" if bounds else "|".join(found["labels"])


def _slot(shown: list[str], item: str) -> int | None:
    return shown.index(item) + 1 if item in shown else None
