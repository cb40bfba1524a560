import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchtrial.adapters.judge import Reply, Usage
from benchtrial.adapters.openai import read_reply, read_usage
from benchtrial.adapters.transport import HttpResponse
from benchtrial.errors import JudgeError

Completion = Callable[..., dict[str, Any]]


def read(body: dict[str, Any]) -> Reply:
    return read_reply(HttpResponse(200, {}, json.dumps(body), 0.25), who="judge 'x'", now=0.0)


@pytest.mark.parametrize(
    ("choice", "text", "stop"),
    [
        ({}, "B", "complete"),
        ({"finish_reason": "length"}, "B", "truncated"),
        ({"finish_reason": "content_filter"}, "B", "content_filter"),
        ({"finish_reason": "tool_calls"}, "B", "other"),
        ({"finish_reason": None}, "B", "other"),
        ({"finish_reason": "length", "message": {"content": None}}, "", "truncated"),
        ({"finish_reason": "content_filter", "message": {"content": None}}, "", "content_filter"),
        ({"message": {"content": None, "refusal": "I cannot help with that."}}, "", "refusal"),
        ({"message": {"content": ""}}, "", "complete"),
        ({"message": {"role": "assistant"}}, "", "complete"),
        (
            {
                "message": {
                    "content": [
                        {"type": "thinking", "thinking": "A?"},
                        {"type": "text", "text": "B"},
                        {"type": "text", "text": None},
                        "x",
                    ]
                }
            },
            "B",
            "complete",
        ),
        ({"message": {"content": "B", "reasoning_content": "A, no, B"}}, "B", "complete"),
        ({"message": {"content": 7}}, "", "complete"),
        ({"message": {"content": "\ud83d B \ud83d\ude00"}}, "\ufffd B \U0001f600", "complete"),
    ],
)
def test_text_and_stop_reason(
    completion: Completion, choice: dict[str, Any], text: str, stop: str
) -> None:
    reply = read(completion("B", **choice))
    assert (reply.text, reply.stop) == (text, stop)
    reply.text.encode()


def test_the_record_of_a_reply(completion: Completion) -> None:
    body = completion("B")
    body["usage"]["cost"] = 0.00014
    reply = read(body)
    assert reply.usage == Usage(input=100, output=7)
    assert (reply.served_model, reply.fingerprint) == ("judge-2026", "fp_1")
    assert (reply.request_id, reply.latency, reply.cost) == ("chatcmpl-1", 0.25, Decimal("0.00014"))
    assert json.loads(reply.raw) == body


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {
                "prompt_tokens": 1000,
                "completion_tokens": 50,
                "total_tokens": 1050,
                "prompt_tokens_details": {"cached_tokens": 900},
                "completion_tokens_details": {"reasoning_tokens": 30},
            },
            Usage(1000, 50, cached_input=900, reasoning=30),
        ),
        (
            {
                "prompt_tokens": 1000,
                "completion_tokens": 50,
                "prompt_tokens_details": {"cached_tokens": 900, "cache_write_tokens": 95},
            },
            Usage(1000, 50, cached_input=900, cache_writes=95),
        ),
        (
            # Reasoning left out of the completion, but not out of the total.
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "total_tokens": 115,
                "completion_tokens_details": {"reasoning_tokens": 100},
            },
            Usage(10, 105, reasoning=100),
        ),
        (
            # The same without a total.
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "completion_tokens_details": {"reasoning_tokens": 100},
            },
            Usage(10, 105, reasoning=100),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 4},
            Usage(10, 5, cached_input=4),
        ),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 99, "cache_write_tokens": 99},
            },
            Usage(10, 5, cached_input=10),
        ),
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 115}, Usage(10, 105)),
        ({"prompt_tokens": 10.0, "completion_tokens": 5}, Usage(10, 5)),
        (
            {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": None},
            Usage(10, 5),
        ),
        ({"prompt_tokens": 10}, None),
        ({"prompt_tokens": None, "completion_tokens": None}, None),
        ({"prompt_tokens": -1, "completion_tokens": 5}, None),
        ({"prompt_tokens": True, "completion_tokens": 5}, None),
        ({"prompt_tokens": 10**400, "completion_tokens": 5}, None),
        ({"prompt_tokens": "10", "completion_tokens": 5}, None),
        ({"prompt_tokens": float("inf"), "completion_tokens": 5}, None),
        ({}, None),
        (None, None),
        ([], None),
    ],
)
def test_case_c20_usage_has_one_inclusive_form_or_none(usage: Any, expected: Usage | None) -> None:
    assert read_usage(usage) == expected


def test_log_probabilities_of_tokens_and_their_alternatives(completion: Completion) -> None:
    top = [
        {"token": "A", "logprob": -0.1, "bytes": [65]},
        {"token": "B", "logprob": -2.5},
        {"token": "\ufffd", "logprob": -7.0},
        {"token": "\ufffd", "logprob": -6.0},
        {"token": "C", "logprob": None},
        {"token": "D", "logprob": -9999.0},
        {"token": None, "logprob": -1.0},
    ]
    content = [
        {"token": '{"', "logprob": 1e-9, "top_logprobs": []},
        {"token": "A", "logprob": -0.1, "top_logprobs": top},
        {"token": None},
        {"token": "}", "logprob": None, "top_logprobs": None},
        "nonsense",
    ]
    reply = read(completion("A", logprobs={"content": content}))
    assert [token.text for token in reply.tokens] == ['{"', "A", "}"]
    assert [token.logprob for token in reply.tokens] == [0.0, -0.1, -9999.0]
    assert reply.tokens[1].alternatives == {
        "A": -0.1,
        "B": -2.5,
        "\ufffd": -6.0,
        "C": -9999.0,
        "D": -9999.0,
    }


@pytest.mark.parametrize("logprobs", [None, {}, {"content": None}, {"content": {}}, [], 3])
def test_absent_log_probabilities_are_no_tokens(completion: Completion, logprobs: Any) -> None:
    assert read(completion("A", logprobs=logprobs)).tokens == ()


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(data=st.data())
def test_a_completion_with_any_part_replaced_is_a_reply_or_a_judge_error(
    data: st.DataObject,
) -> None:
    body: Any = {
        "id": "1",
        "model": "m",
        "choices": [
            {
                "finish_reason": "stop",
                "message": {"content": "A", "refusal": None},
                "logprobs": {"content": [{"token": "A", "logprob": -1, "top_logprobs": [{}]}]},
            }
        ],
        "usage": {
            "prompt_tokens": 1,
            "completion_tokens": 1,
            "total_tokens": 2,
            "prompt_tokens_details": {"cached_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
            "cost": 0.1,
        },
    }
    place = body
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        inner = place[key]
        if not isinstance(inner, (dict, list)) or not inner or data.draw(st.booleans()):
            place[key] = data.draw(ANYTHING)
            break
        place = inner
    try:
        reply = read(body)
    except JudgeError:
        return
    reply.text.encode()
    assert reply.usage is None or reply.usage.cached_input <= reply.usage.input
