"""What an unhappy response means: wait, try again, give up on this request, or on this judge.

Providers agree on little more than the status codes, gateways pass on each other's bodies, and some
put an error into HTTP 200. So one table reads them all: the status (or the code in the body, if the
status claims success), the error's ``type``, ``code`` and ``param``, and, where those say nothing,
its words. The order matters: no credit is not a rate limit although both are 429, and a prompt that
is too long is not a bad parameter although both are 400.

================================  ==================  =========================================
the account has no credit         JudgeUnavailable    names billing
the prompt is too long, 413       RequestRefused      reason ``context_overflow``
429, 529                          RateLimited         with the server's wait
408, 409, 425, 5xx                TransientError      with the server's wait
401, 403, 404, 405                JudgeUnavailable    names key, permission, or model and address
400, 422 about a parameter        JudgeUnavailable    names the parameter
any other 4xx                     RequestRefused      reason ``rejected``
no error, but no answer either    TransientError      may have been billed
================================  ==================  =========================================

Sources: the error objects of the OpenAI, Anthropic and Google APIs, of vLLM, llama.cpp, Ollama and
OpenRouter as their documentation and SDK types give them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from benchtrial.adapters.keys import scrub
from benchtrial.adapters.transport.client import EXCERPT, HttpResponse
from benchtrial.adapters.transport.hints import wait_hint
from benchtrial.errors import (
    JudgeError,
    JudgeUnavailable,
    RateLimited,
    RequestRefused,
    TransientError,
)

_PAYMENT_REQUIRED = 402
_TOO_LARGE = 413
_ASKED_TOO_FAST = frozenset({429, 529})
_PASSING = frozenset({408, 409, 425})
_BAD_REQUEST = frozenset({400, 422})
# The gateway gave up waiting for a server that was still at work: that work may be billed.
_GATEWAY_TIMEOUTS = frozenset({408, 504, 524})

_NO_CREDIT = frozenset(
    {
        "insufficient_quota",
        "insufficient_balance",
        "insufficient_credits",
        "billing_hard_limit_reached",
        "billing_not_active",
        "billing_error",
    }
)
# Only wordings that cannot mean "too many per minute": Google's rate limit also speaks of billing.
_NO_CREDIT_WORDS = re.compile(
    r"credit balance|(?:insufficient|not enough|no) (?:credit|balance|funds)", re.IGNORECASE
)

_TOO_LONG = frozenset(
    {
        "context_length_exceeded",
        "exceed_context_size_error",
        "string_above_max_length",
        "request_too_large",
        "model_context_window_exceeded",
    }
)
_TOO_LONG_WORDS = re.compile(
    r"context (?:length|window|limit|size)|maximum (?:context|prompt) length|prompt is too long"
    r"|input (?:is )?too long|too many (?:input )?tokens|exceeds? the (?:available )?context",
    re.IGNORECASE,
)

_FILTERED = frozenset(
    {"content_filter", "content_policy_violation", "responsibleaipolicyviolation"}
)

_PARAMETER_CODES = frozenset(
    {"unsupported_parameter", "unsupported_value", "unknown_parameter", "invalid_parameter"}
)
_PARAMETER_WORDS = re.compile(
    r"(?:unsupported|unrecognized|unknown|unexpected|extra|not supported|not permitted|not allowed"
    r"|does not support)\b.{0,80}?(?:parameter|argument|field|value|input)s?|"
    r"(?:parameter|argument|field|value|input)s?\b.{0,80}?"
    r"(?:not supported|not permitted|unsupported)",
    re.IGNORECASE | re.DOTALL,
)
# "Field 'temperature': …", "unsupported parameter: `top_k`": the name stands in quotes right after.
_PARAMETER_NAME = re.compile(
    r"(?:parameter|argument|field)s?(?: supplied)?:? *[\"'`](?P<name>[A-Za-z_][\w.]*)[\"'`]",
    re.IGNORECASE,
)
# A complaint about one of these is about what this one request says, not about how the judge is set
# up.
_CONTENT_PARAMETERS = ("messages", "prompt", "input", "contents", "system")

# The codes that stand in the place of a status inside HTTP 200.
_STATUS_OF_CODE = {
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "resource_exhausted": 429,
    "too_many_requests": 429,
    "overloaded_error": 529,
    "overloaded": 529,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "invalid_request_error": 400,
    "invalid_prompt": 400,
}
_SERVER_ERROR = 500


class _Place(TypedDict):
    """Where an error came from."""

    status: int
    request_id: str | None


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """The error object of a body, whatever its dialect; missing parts are empty."""

    message: str = ""
    kind: str = ""
    code: str = ""
    param: str = ""
    flagged: bool = False

    @property
    def names(self) -> frozenset[str]:
        """Type and code in lower case, for looking up."""
        return frozenset({self.kind.lower(), self.code.lower()} - {""})


def error_body(payload: object) -> ErrorBody | None:
    """Find the error object in a decoded body, or None if the body reports no error."""
    if isinstance(payload, list) and payload:
        return error_body(payload[0])
    if not isinstance(payload, Mapping):
        return None
    error = payload.get("error")
    if isinstance(error, str) and error:
        return ErrorBody(message=error)
    if isinstance(error, Mapping) and error:
        return _from_object(error)
    if payload.get("object") == "error" or payload.get("type") == "error":
        return _from_object(payload)
    if "detail" in payload and "choices" not in payload:
        return _from_validation(payload["detail"])
    return None


def status_of(response: HttpResponse, body: ErrorBody | None) -> int:
    """Status of the response, or the one that the error inside a successful response stands for."""
    if response.status >= 400 or body is None:
        return response.status
    if re.fullmatch(r"[45][0-9]{2}", body.code, re.ASCII):
        return int(body.code)
    known = [_STATUS_OF_CODE[name] for name in sorted(body.names) if name in _STATUS_OF_CODE]
    return known[0] if known else _SERVER_ERROR


def is_content_filter(response: HttpResponse, body: ErrorBody | None) -> bool:
    """Whether a safety filter stopped the prompt: an outcome of this request, not a failure."""
    if body is None or status_of(response, body) not in _BAD_REQUEST | {403}:
        return False
    return body.flagged or not body.names.isdisjoint(_FILTERED)


def judge_error(response: HttpResponse, *, who: str, now: float) -> JudgeError:
    """Classify a response that carries an error.

    Parameters
    ----------
    response
        The response; its known secrets are already redacted.
    who
        How messages name the judge.
    now
        Seconds since the epoch, for waits that are given as a date.
    """
    payload = _payload(response)
    body = error_body(payload)
    status = status_of(response, body)
    said = scrub(body.message)[:EXCERPT] if body and body.message else response.excerpt
    body = body or ErrorBody(message=response.text[:EXCERPT])
    place: _Place = {"status": status, "request_id": response.request_id}
    hint = wait_hint(response.headers, payload, now=now)
    answered = f"{who} answered {status}"

    if _without_credit(status, body):
        return JudgeUnavailable(
            f"{answered}: billing: the account has no credit or quota left ({said}); add credit or "
            "raise its limit, then run the same command again",
            **place,
        )
    if _too_long(status, body):
        return RequestRefused(
            f"{answered}: the request is too long for the judge ({said}); use smaller batches, "
            "shorter texts or a judge with a larger context",
            reason="context_overflow",
            **place,
        )
    if status in _ASKED_TOO_FAST:
        return RateLimited(f"{answered}: asked too fast ({said})", retry_after=hint, **place)
    if status >= _SERVER_ERROR or status in _PASSING:
        return TransientError(
            f"{answered}: {said}",
            retry_after=hint,
            may_be_billed=status in _GATEWAY_TIMEOUTS,
            **place,
        )
    return _refused(status, body, answered=answered, said=said, place=place)


def no_answer(response: HttpResponse, what: str, *, who: str) -> TransientError:
    """Report a successful response without an answer; its work may have been billed."""
    return TransientError(
        f"{who} answered {response.status} but {what}: {response.excerpt!r}",
        status=response.status,
        request_id=response.request_id,
        may_be_billed=True,
    )


def _refused(
    status: int, body: ErrorBody, *, answered: str, said: str, place: _Place
) -> JudgeError:
    if status == 401:
        return JudgeUnavailable(
            f"{answered}: the key is missing, wrong or revoked ({said}); check the environment "
            "variable named as key_env",
            **place,
        )
    if status == 403:
        return JudgeUnavailable(
            f"{answered}: this key may not use this model ({said}); check the permissions of the "
            "account",
            **place,
        )
    if status in {404, 405}:
        return JudgeUnavailable(
            f"{answered}: no such model or address ({said}); check model and base_url", **place
        )
    if status in _BAD_REQUEST and _about_setting(body):
        param = _parameter(body)
        name = f"parameter {param!r}" if param else "a parameter"
        if param == "max_tokens":
            name += ' (provider = "openai" sends max_completion_tokens instead)'
        return JudgeUnavailable(
            f"{answered}: the judge does not accept {name} as it is set ({said}); change or remove "
            "it in the study, because dropping it silently would ask a different question",
            **place,
        )
    return RequestRefused(
        f"{answered}: the request was rejected ({said})", reason="rejected", **place
    )


def _without_credit(status: int, body: ErrorBody) -> bool:
    if status == _PAYMENT_REQUIRED or not body.names.isdisjoint(_NO_CREDIT):
        return True
    return status < _SERVER_ERROR and _NO_CREDIT_WORDS.search(body.message) is not None


def _too_long(status: int, body: ErrorBody) -> bool:
    if status == _TOO_LARGE or not body.names.isdisjoint(_TOO_LONG):
        return True
    return status in _BAD_REQUEST and _TOO_LONG_WORDS.search(body.message) is not None


def _parameter(body: ErrorBody) -> str:
    """Name of the parameter that the error is about, or an empty string."""
    named = _PARAMETER_NAME.search(body.message)
    return body.param or (named["name"] if named else "")


def _about_setting(body: ErrorBody) -> bool:
    param = _parameter(body)
    if param:
        return not param.lower().startswith(_CONTENT_PARAMETERS)
    if not body.names.isdisjoint(_PARAMETER_CODES):
        return True
    return _PARAMETER_WORDS.search(body.message) is not None


def _payload(response: HttpResponse) -> object:
    try:
        return response.payload()
    except ValueError:
        return None


def _from_object(error: Mapping[str, Any]) -> ErrorBody:
    metadata = error.get("metadata")
    code = error.get("code")
    return ErrorBody(
        message=_word(error.get("message")),
        kind=_word(error.get("type")) or _word(error.get("status")),
        code=_word(code),
        param=_word(error.get("param")),
        flagged=isinstance(metadata, Mapping) and "flagged_input" in metadata,
    )


def _from_validation(detail: object) -> ErrorBody | None:
    """Read FastAPI's list of validation errors, or its plain message."""
    if isinstance(detail, str):
        return ErrorBody(message=detail)
    if isinstance(detail, list) and detail and isinstance(detail[0], Mapping):
        location = detail[0].get("loc")
        names = [str(part) for part in location] if isinstance(location, list) else []
        names = [name for name in names if name != "body"]
        return ErrorBody(message=_word(detail[0].get("msg")), param=".".join(names))
    return None


def _word(value: object) -> str:
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
