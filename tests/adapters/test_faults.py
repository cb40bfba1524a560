import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchtrial.adapters.faults import error_body, is_content_filter, judge_error
from benchtrial.adapters.transport import HttpResponse
from benchtrial.errors import (
    JudgeError,
    JudgeUnavailable,
    RateLimited,
    RequestRefused,
    TransientError,
)


def classify(status: int, body: Any, headers: dict[str, str] | None = None) -> JudgeError:
    text = body if isinstance(body, str) else json.dumps(body)
    return judge_error(HttpResponse(status, headers or {}, text), who="judge 'x'", now=0.0)


def openai(message: str = "said", **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": None, "param": None, "code": None, **fields}}


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, openai("no credit left", type="insufficient_quota", code="insufficient_quota")),
        (402, openai("payment needed")),
        (402, "<html>pay</html>"),
        (200, {"error": {"code": 402, "message": "payment needed"}}),
        (
            400,
            {
                "type": "error",
                "error": {"type": "invalid_request_error", "message": "credit balance too low"},
            },
        ),
        (403, {"error": {"type": "billing_error", "message": "see billing"}}),
        (402, openai("Insufficient Balance", type="unknown_error")),
        (429, openai("insufficient credits for this request")),
    ],
)
def test_an_empty_account_stops_the_judge_and_names_billing(status: int, body: Any) -> None:
    error = classify(status, body)
    assert type(error) is JudgeUnavailable
    assert "billing" in str(error)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (429, openai("too fast", type="requests", code="rate_limit_exceeded")),
        (429, ""),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        (200, {"id": None, "choices": None, "error": {"code": 429, "message": "upstream busy"}}),
        (200, {"error": {"type": "rate_limit_error", "message": "slow down"}}),
        # Google's limit per minute speaks of quota and billing too, and yet only time is needed.
        (
            429,
            {
                "error": {
                    "code": 429,
                    "status": "RESOURCE_EXHAUSTED",
                    "message": "You exceeded your current quota, please check your billing details",
                }
            },
        ),
    ],
)
def test_asked_too_fast(status: int, body: Any) -> None:
    assert type(classify(status, body)) is RateLimited


def test_the_wait_is_read_from_header_or_body() -> None:
    headers = {"retry-after": "75"}
    assert classify(429, "", headers).retry_after == 75  # type: ignore[attr-defined]
    assert classify(503, "<html>", headers).retry_after == 75  # type: ignore[attr-defined]
    body = {"error": {"code": 429, "details": [{"retryDelay": "53s"}]}}
    assert classify(429, body).retry_after == 53  # type: ignore[attr-defined]
    assert classify(200, body).retry_after == 53  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, openai("prompt longer than the window", code="context_length_exceeded")),
        (400, openai("x", type="exceed_context_size_error", code=400)),
        (
            400,
            {
                "type": "error",
                "error": {
                    "type": "invalid_request_error",
                    "message": "input length plus max_tokens is over the context limit: "
                    "174000 + 64000 > 200000",
                },
            },
        ),
        (400, openai("prompt is too long: 210000 tokens > 200000 maximum")),
        (
            400,
            {
                "object": "error",
                "message": "This model's maximum context length is 4096 tokens.",
                "type": "BadRequestError",
                "param": None,
                "code": 400,
            },
        ),
        (413, "<html>413</html>"),
        (413, openai("too large", type="request_too_large")),
    ],
)
def test_a_request_that_is_too_long_is_refused_alone(status: int, body: Any) -> None:
    error = classify(status, body)
    assert type(error) is RequestRefused
    assert error.reason == "context_overflow"


def test_the_sizes_of_a_request_that_is_too_long_are_kept() -> None:
    assert "174000 + 64000 > 200000" in str(
        classify(400, openai("over the context limit: 174000 + 64000 > 200000"))
    )


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (openai("not here", param="temperature", code="unsupported_value"), "'temperature'"),
        (openai("use the other", param="max_tokens", code="unsupported_parameter"), "'max_tokens'"),
        (openai("Unsupported parameter: 'top_k'"), "'top_k'"),
        (openai("Unrecognized request argument supplied: foo"), "foo"),
        (openai("Field 'temperature': type must be number, but is string"), "'temperature'"),
        (
            {"detail": [{"loc": ["body", "top_p"], "msg": "must be at most 1", "type": "x"}]},
            "'top_p'",
        ),
        ({"error": 'json: unknown field "min_p"'}, "min_p"),
    ],
)
@pytest.mark.parametrize("status", [400, 422])
def test_a_parameter_that_the_judge_refuses_stops_it_and_is_named(
    status: int, body: Any, name: str
) -> None:
    error = classify(status, body)
    assert type(error) is JudgeUnavailable
    assert name in str(error)


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "key"), (403, "permission"), (404, "model and base_url"), (405, "base_url")],
)
def test_what_only_the_user_can_mend_stops_the_judge(status: int, words: str) -> None:
    error = classify(status, openai("no"))
    assert type(error) is JudgeUnavailable
    assert words in str(error)


@pytest.mark.parametrize(
    "body",
    [
        openai("bad text", param="messages.0.content"),
        openai("bad text", type="invalid_request_error"),
        "nonsense",
    ],
)
def test_any_other_bad_request_is_refused_alone(body: Any) -> None:
    error = classify(400, body)
    assert type(error) is RequestRefused
    assert error.reason == "rejected"


@pytest.mark.parametrize("status", [408, 409, 425, 500, 502, 503, 504, 520, 524])
def test_a_passing_fault_is_asked_again(status: int) -> None:
    error = classify(status, "<html><body>bad gateway</body></html>")
    assert type(error) is TransientError
    assert "bad gateway" in str(error)
    assert error.may_be_billed is (status in {408, 504, 524})


def test_an_error_without_a_known_code_in_a_success_is_a_passing_fault() -> None:
    assert type(classify(200, {"error": "went wrong"})) is TransientError
    assert type(classify(200, {"error": {"message": "went wrong", "code": 200}})) is TransientError


def test_at_most_200_characters_of_a_body_are_kept_and_redacted_before_they_are_cut() -> None:
    error = str(classify(502, "x" * 190 + " sk-test-SECRET123SECRET123"))
    assert "sk-" not in error
    assert "SECRET" not in error
    assert len(error) < 260


@pytest.mark.parametrize(
    ("status", "error", "filtered"),
    [
        (400, {"code": "content_filter", "message": "prompt filtered", "status": 400}, True),
        (400, {"code": "content_policy_violation", "message": "no"}, True),
        (403, {"code": 403, "message": "flagged", "metadata": {"flagged_input": "x"}}, True),
        (200, {"code": 403, "message": "flagged", "metadata": {"flagged_input": "x"}}, True),
        (403, {"code": 403, "message": "no"}, False),
        (500, {"code": "content_filter", "message": "no"}, False),
    ],
)
def test_a_filtered_prompt_is_told_from_a_failure(status: int, error: Any, filtered: bool) -> None:
    response = HttpResponse(status, {}, json.dumps({"error": error}))
    assert is_content_filter(response, error_body(response.payload())) is filtered


@pytest.mark.parametrize(
    "payload", [{"error": None}, {"error": ""}, {"error": {}}, {}, [], 3, None]
)
def test_no_error_is_seen_where_there_is_none(payload: object) -> None:
    assert error_body(payload) is None


@given(
    status=st.integers(300, 599) | st.just(200),
    body=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "error",
                        "message",
                        "type",
                        "code",
                        "param",
                        "detail",
                        "loc",
                        "metadata",
                        "status",
                    ]
                ),
                inner,
                max_size=5,
            )
        ),
    ).map(json.dumps)
    | st.text(),
)
def test_whatever_a_server_sends_becomes_one_of_the_error_classes(status: int, body: str) -> None:
    error = judge_error(HttpResponse(status, {}, body), who="judge 'x'", now=0.0)
    assert type(error) in {RateLimited, TransientError, RequestRefused, JudgeUnavailable}
    assert str(error).startswith("judge 'x' answered")
