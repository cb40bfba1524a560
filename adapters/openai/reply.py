"""Reading a chat completion: the answer, why it ended, its tokens, its usage, or its error.

Nothing in a body is believed to be there or to have its type: every field is looked at through a
reader that gives a harmless value for what is missing or malformed.

Source: the OpenAI API reference (chat completion object); the servers' documentation for the rest.
"""

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from benchtrial.adapters.faults import error_body, is_content_filter, judge_error, no_answer
from benchtrial.adapters.judge import Reply, StopReason, Token, Usage
from benchtrial.adapters.transport.client import HttpResponse

# What OpenAI itself reports for a token outside the listed alternatives; also used for servers that
# write such a log-probability as null.
NEGLIGIBLE_LOGPROB = -9999.0

_STOP_REASONS: Mapping[str, StopReason] = {
    "stop": "complete",
    "eos": "complete",
    "length": "truncated",
    "max_tokens": "truncated",
    "content_filter": "content_filter",
    "refusal": "refusal",
}
# No provider counts this many tokens, and no database column holds many more.
LARGEST_NUMBER = 2**53

# The server broke off by itself; what came until then is not the judge's answer.
_BROKEN_OFF = frozenset({"error", "abort"})

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def read_reply(response: HttpResponse, *, who: str, now: float) -> Reply:
    """Read a chat completion, or raise what the response means instead.

    Raises
    ------
    RateLimited, TransientError, RequestRefused, JudgeUnavailable
        See ``benchtrial.adapters.faults``.
    """
    try:
        payload = response.payload()
    except ValueError:
        payload = None
    error = error_body(payload)
    if is_content_filter(response, error):
        return _reply(response, {}, text="", stop="content_filter")
    if error is not None or not response.status < 300:
        raise judge_error(response, who=who, now=now)
    if not isinstance(payload, Mapping):
        raise no_answer(response, "the body is not a JSON object", who=who)
    choices = payload.get("choices")
    if not (isinstance(choices, list) and choices and isinstance(choices[0], Mapping)):
        raise no_answer(response, "without any choice", who=who)
    choice = choices[0]
    if error_body(choice) is not None:
        raise judge_error(_inner(response, choice), who=who, now=now)
    reason = str(choice.get("finish_reason"))
    if reason in _BROKEN_OFF:
        raise no_answer(response, "the server broke off", who=who)
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise no_answer(response, "the choice has no message", who=who)
    refused = bool(message.get("refusal"))
    return _reply(
        response,
        payload,
        text=_text(message.get("content")),
        stop="refusal" if refused else _STOP_REASONS.get(reason, "other"),
        tokens=_tokens(choice.get("logprobs")),
    )


def read_usage(value: object) -> Usage | None:
    """Bring a ``usage`` object into the inclusive form, or None if it does not count tokens.

    Some servers leave hidden reasoning out of ``completion_tokens`` but not out of
    ``total_tokens``; the larger account is believed, so that a budget never learns of tokens too
    late.
    """
    if not isinstance(value, Mapping):
        return None
    prompt, completion = _count(value.get("prompt_tokens")), _count(value.get("completion_tokens"))
    if prompt is None or completion is None:
        return None
    prompt_details = _mapping(value.get("prompt_tokens_details"))
    completion_details = _mapping(value.get("completion_tokens_details"))
    total = _count(value.get("total_tokens")) or 0
    reasoning = _count(completion_details.get("reasoning_tokens")) or 0
    output = max(completion, total - prompt)
    if reasoning > output:
        output += reasoning
    cached = _count(prompt_details.get("cached_tokens"))
    if cached is None:
        cached = _count(value.get("prompt_cache_hit_tokens")) or 0
    cached = min(cached, prompt)
    written = _count(prompt_details.get("cache_write_tokens")) or 0
    return Usage(
        input=prompt,
        output=output,
        cached_input=cached,
        cache_writes=min(written, prompt - cached),
        reasoning=reasoning,
    )


def _reply(
    response: HttpResponse,
    payload: Mapping[str, Any],
    *,
    text: str,
    stop: StopReason,
    tokens: tuple[Token, ...] = (),
) -> Reply:
    usage = payload.get("usage")
    return Reply(
        text=text,
        stop=stop,
        usage=read_usage(usage),
        tokens=tokens,
        served_model=_name(payload.get("model")),
        fingerprint=_name(payload.get("system_fingerprint")),
        request_id=response.request_id or _name(payload.get("id")),
        raw=response.text,
        latency=response.latency,
        cost=_money(_mapping(usage).get("cost")),
    )


def _inner(response: HttpResponse, choice: Mapping[str, Any]) -> HttpResponse:
    """Return the response as if the error of its choice were its own."""
    return HttpResponse(response.status, response.headers, json.dumps(choice), response.latency)


def _text(content: object) -> str:
    """Visible text of a message: a string, or the text parts of a list of parts."""
    if isinstance(content, list):
        parts = [_mapping(part) for part in content]
        content = "".join(
            part["text"]
            for part in parts
            if part.get("type") == "text" and isinstance(part.get("text"), str)
        )
    return _clean(content) if isinstance(content, str) else ""


def _tokens(logprobs: object) -> tuple[Token, ...]:
    content = _mapping(logprobs).get("content")
    entries = [_mapping(entry) for entry in content] if isinstance(content, list) else []
    return tuple(
        Token(
            text=_clean(entry["token"]),
            logprob=_logprob(entry.get("logprob")),
            alternatives=_alternatives(entry.get("top_logprobs")),
        )
        for entry in entries
        if isinstance(entry.get("token"), str)
    )


def _alternatives(entries: object) -> dict[str, float]:
    alternatives: dict[str, float] = {}
    for entry in entries if isinstance(entries, Sequence) else ():
        token = _mapping(entry).get("token")
        if isinstance(token, str):
            text, logprob = _clean(token), _logprob(entry.get("logprob"))
            alternatives[text] = max(logprob, alternatives.get(text, logprob))
    return alternatives


def _logprob(value: object) -> float:
    number = _number(value)
    return NEGLIGIBLE_LOGPROB if number is None else min(float(number), 0.0)


def _count(value: object) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number >= 0 and number == int(number) else None


def _money(value: object) -> Decimal | None:
    number = _number(value)
    return Decimal(str(number)) if number is not None and number >= 0 else None


def _number(value: object) -> int | float | None:
    """Return a number of credible size; not a truth value, not infinite, not a string."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if -LARGEST_NUMBER < value < LARGEST_NUMBER else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _name(value: object) -> str | None:
    return _clean(value) if isinstance(value, str) and value else None


def _clean(text: str) -> str:
    """Replace lone surrogates, which JSON can carry and no database can store."""
    return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)
