"""Between the objects of a campaign and the rows of its ledger, both ways.

JSON is written in ASCII, so that any text passes; a round trip gives back an equal object.
"""

import hashlib
import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from benchtrial import errors
from benchtrial.adapters.judge import (
    Answer,
    BatchCell,
    Cell,
    ChoiceAnswer,
    Message,
    PairCell,
    RatingsAnswer,
    Reply,
    Request,
    Token,
    Usage,
)
from benchtrial.errors import JudgeError, TransientError
from benchtrial.orchestrator.budget import Amount

Row = dict[str, Any]

SECRETS = re.compile(
    r"(?i)\b(bearer\s+|(?:api[-_ ]?key|authorization|token)[\"']?\s*[:=]\s*[\"']?|sk-)[\w.~+/-]{8,}"
)
"""What looks like a key in a provider's error message; the words before it stay readable."""


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A question that belongs to a round.

    Parameters
    ----------
    key
        The request's own key.
    round
        Number of the round that plans it.
    unit
        Number of the unit of asking (a batch, or a pair in both orders) in the whole schedule.
    request
        What is asked.
    """

    key: str
    round: int
    unit: int
    request: Request


class VerdictLike(Protocol):
    """What a ledger files of a verdict (see ``benchtrial.orchestrator.verdicts``)."""

    @property
    def position(self) -> int: ...  # noqa: D102
    @property
    def subject(self) -> str: ...  # noqa: D102
    @property
    def state(self) -> str: ...  # noqa: D102
    @property
    def reason(self) -> str | None: ...  # noqa: D102
    @property
    def value(self) -> float | None: ...  # noqa: D102
    @property
    def label(self) -> str | None: ...  # noqa: D102
    @property
    def rule(self) -> str: ...  # noqa: D102
    @property
    def probability(self) -> float | None: ...  # noqa: D102


def now() -> str:
    """Tell the time as the ledger writes it: UTC, ISO 8601, microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def text_hash(text: str) -> str:
    """SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def redacted(message: str) -> str:
    """Hide what looks like a key."""
    return SECRETS.sub(r"\1[redacted]", message)


def query_row(identity: int, query: PlannedQuery) -> Row:
    """Row of ``queries``; the texts themselves go to ``texts``."""
    request = query.request
    messages = [[message.role, text_hash(message.text)] for message in request.messages]
    return {
        "id": identity,
        "key": query.key,
        "round": query.round,
        "unit": query.unit,
        **_cell_columns(request.cell),
        "messages": _json(messages),
        "answer": _json(_answer_fields(request.answer)),
        "max_output_tokens": request.max_output_tokens,
        "parameters": _json(dict(request.parameters)),
        "logprobs": request.logprobs,
    }


def query_from(row: Any, texts: Mapping[str, str]) -> PlannedQuery:
    """Build the planned query of a row, given the texts by hash."""
    request = Request(
        key=row.key,
        cell=cell_from(row),
        messages=tuple(Message(role, texts[hashed]) for role, hashed in json.loads(row.messages)),
        answer=answer_from(row.answer),
        max_output_tokens=row.max_output_tokens,
        parameters=json.loads(row.parameters),
        logprobs=row.logprobs,
    )
    return PlannedQuery(row.key, row.round, row.unit, request)


def cell_from(row: Any) -> Cell:
    """Build the design cell of a row of ``queries``."""
    if row.batch is not None:
        items = tuple(json.loads(row.items))
        return BatchCell(row.judge, row.batch, items, row.criterion, row.replicate)
    return PairCell(row.judge, row.prompt, row.first, row.second, row.criterion, row.replicate)


def answer_from(text: str) -> Answer:
    """Build the answer of a column ``answer``."""
    found = json.loads(text)
    if found.pop("kind") == "choice":
        return ChoiceAnswer(tuple(found["labels"]))
    scale = found.pop("scale")
    labels = tuple(found.pop("labels"))
    return RatingsAnswer(labels=labels, scale=scale and (scale[0], scale[1]), **found)


def attempt_row(identity: int, query: int, reserved: Amount) -> Row:
    """Row of ``attempts``: the intent to ask."""
    return {
        "id": identity,
        "query": query,
        "reserved_tokens": reserved.tokens,
        "reserved_money": reserved.money,
        "reserved_requests": reserved.requests,
        "started": now(),
    }


def outcome_row(
    attempt: int,
    state: str,
    charged: Amount,
    *,
    estimated: bool = False,
    error: JudgeError | None = None,
) -> Row:
    """Row of ``outcomes``; ``estimated`` says that the charge is a bound."""
    kind = _recorded_class(error) if error else None
    return {
        "attempt": attempt,
        "state": state,
        "charged_tokens": charged.tokens,
        "charged_money": charged.money,
        "charged_requests": charged.requests,
        "estimated": int(estimated),
        "error": kind.__name__ if kind else None,
        "message": redacted(str(error)) if error else None,
        "details": _json(_details(error, kind)) if error and kind else None,
        "ended": now(),
    }


def error_from(row: Any) -> JudgeError:
    """Build the error of a failed attempt from its row of ``outcomes``."""
    kind: type[JudgeError] = getattr(errors, row.error)
    return kind(row.message, **json.loads(row.details))


def unknown_outcome(attempt: int, reserved: Amount) -> TransientError:
    """Build what an attempt without an outcome looks like to whoever replays it."""
    return TransientError(
        f"no outcome of attempt {attempt} was recorded (the run was cut off); "
        f"its reservation stays charged: {reserved}",
        may_be_billed=True,
    )


def reply_rows(identity: int, attempt: int, query: int, reply: Reply) -> tuple[Row, Row]:
    """Rows of ``replies`` and ``bodies``."""
    usage = reply.usage
    tokens = [[token.text, token.logprob, dict(token.alternatives)] for token in reply.tokens]
    lean = {
        "id": identity,
        "attempt": attempt,
        "query": query,
        "stop": reply.stop,
        "input": usage and usage.input,
        "output": usage and usage.output,
        "cached_input": usage and usage.cached_input,
        "cache_writes": usage and usage.cache_writes,
        "reasoning": usage and usage.reasoning,
        "usage_estimated": usage and int(usage.estimated),
        "cost": reply.cost,
        "served_model": reply.served_model,
        "fingerprint": reply.fingerprint,
        "request_id": reply.request_id,
        "latency": reply.latency,
        "received": now(),
    }
    body = {
        "reply": identity,
        "text": reply.text,
        "tokens": _json(tokens) if tokens else None,
        "raw": reply.raw,
    }
    return lean, body


def reply_from(row: Any) -> Reply:
    """Build the reply of a joined row of ``replies`` and ``bodies``."""
    usage = None
    if row.input is not None:
        usage = Usage(
            row.input,
            row.output,
            row.cached_input,
            row.cache_writes,
            row.reasoning,
            estimated=bool(row.usage_estimated),
        )
    tokens = json.loads(row.tokens) if row.tokens else ()
    return Reply(
        text=row.text,
        stop=row.stop,
        usage=usage,
        tokens=tuple(Token(text, logprob, others) for text, logprob, others in tokens),
        served_model=row.served_model,
        fingerprint=row.fingerprint,
        request_id=row.request_id,
        raw=row.raw,
        latency=row.latency,
        cost=row.cost,
    )


def verdict_rows(
    identities: Iterator[int],
    query: int,
    reply: int | None,
    verdicts: Sequence[VerdictLike],
    parser: str,
) -> list[Row]:
    """Rows of ``verdicts``."""
    return [
        {
            "id": next(identities),
            "query": query,
            "reply": reply,
            "position": verdict.position,
            "subject": verdict.subject,
            "state": verdict.state,
            "reason": verdict.reason,
            "value": verdict.value,
            "label": verdict.label,
            "rule": verdict.rule,
            "probability": verdict.probability,
            "parser": parser,
        }
        for verdict in verdicts
    ]


def _cell_columns(cell: Cell) -> Row:
    pair, batch = (cell, None) if isinstance(cell, PairCell) else (None, cell)
    return {
        "judge": cell.judge,
        "criterion": cell.criterion,
        "replicate": cell.replicate,
        "batch": batch and batch.batch,
        "items": batch and _json(batch.items),
        "prompt": pair and pair.prompt,
        "first": pair and pair.first,
        "second": pair and pair.second,
    }


def _answer_fields(answer: Answer) -> Row:
    if isinstance(answer, ChoiceAnswer):
        return {"kind": "choice", "labels": answer.labels}
    return {
        "kind": "ratings",
        "size": answer.size,
        "labels": answer.labels,
        "scale": answer.scale,
        "integer": answer.integer,
    }


def _recorded_class(error: JudgeError) -> type[JudgeError]:
    """Find the nearest class of the published error tree: an adapter's own may go away."""
    return next(kind for kind in type(error).__mro__ if kind.__module__ == errors.__name__)


def _details(error: JudgeError, kind: type[JudgeError]) -> Row:
    names = [name for name in inspect.signature(kind).parameters if name != "message"]
    return {name: getattr(error, name) for name in names}


_json = json.JSONEncoder(separators=(",", ":")).encode
