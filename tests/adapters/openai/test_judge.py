"""The OpenAI-compatible judge, from request to reply or error, with retries on a fake clock."""

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
import respx

from benchtrial.adapters import (
    DIALECTS,
    BatchCell,
    Capabilities,
    Message,
    OpenAICompatible,
    Provider,
    RatingsAnswer,
    Reply,
    Request,
    RetryPolicy,
    Secret,
    retrying,
)
from benchtrial.errors import InputError, JudgeError, JudgeUnavailable, RateLimited, TransientError

URL = "https://host.invalid/v1"
NOW = datetime(2026, 10, 21, 7, 28, tzinfo=UTC).timestamp()
CASE_POLICY = RetryPolicy(attempts=5, base_s=1, hint_cap_s=120)


def judge(provider: Provider = "openai-compatible", **options: Any) -> OpenAICompatible:
    return OpenAICompatible(
        "judge-1", "model-x", provider=provider, base_url=URL, clock=lambda: NOW, **options
    )


def ask_with_retries(
    request: Request, handler: Callable[[int], httpx.Response], policy: RetryPolicy = CASE_POLICY
) -> tuple[Reply | JudgeError, list[float], int]:
    """Ask under a policy; return the outcome, the waits in seconds, and the requests sent."""
    waits: list[float] = []
    sent = 0

    def respond(_: httpx.Request) -> httpx.Response:
        nonlocal sent
        sent += 1
        return handler(sent)

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def main() -> Reply | JudgeError:
        with respx.mock:
            respx.post(f"{URL}/chat/completions").mock(side_effect=respond)
            asked = judge(key=Secret("sk-test-SECRET123"))
            try:
                return await retrying(
                    lambda _: asked.ask(request), policy, sleep=sleep, chance=lambda: 0.5
                )
            except JudgeError as error:
                return error
            finally:
                await asked.close()

    return asyncio.run(main()), waits, sent


@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"Retry-After": "75"}, 75, 76),
        ({"Retry-After": "60"}, 60, 61),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT"}, 30, 31),
        ({"Retry-After": "Wed, 21 Oct 2026 07:27:00 GMT"}, 0.5, 1),
        ({"Retry-After": "-5"}, 0.5, 1),
        ([(b"Retry-After", "²".encode())], 0.5, 1),
        ([(b"Retry-After", "²".encode("latin-1"))], 0.5, 1),
        ({"Retry-After": "0"}, 0, 1),
        ({"retry-after-ms": "2500"}, 2.5, 3.5),
        ({"Retry-After": "soon"}, 0.5, 1),
        ({"Retry-After": "inf"}, 0.5, 1),
    ],
)
def test_case_c11_the_next_attempt_waits_as_asked(
    request_for_pair: Request,
    completion: Callable[..., dict[str, Any]],
    headers: Any,
    low: float,
    high: float,
) -> None:
    def handler(number: int) -> httpx.Response:
        if number == 1:
            return httpx.Response(429, headers=headers)
        return httpx.Response(200, json=completion())

    outcome, waits, sent = ask_with_retries(request_for_pair, handler)
    assert isinstance(outcome, Reply)
    assert sent == 2
    assert len(waits) == 1
    assert low <= waits[0] <= high


def test_case_c11_a_wait_beyond_the_cap_ends_the_unit_instead(request_for_pair: Request) -> None:
    outcome, waits, sent = ask_with_retries(
        request_for_pair, lambda _: httpx.Response(429, headers={"Retry-After": "1800"})
    )
    assert isinstance(outcome, RateLimited)
    assert outcome.retry_after == 1800
    assert (waits, sent) == ([], 1)


def test_case_c11_a_wait_in_the_body_is_read(
    request_for_pair: Request, completion: Callable[..., dict[str, Any]]
) -> None:
    detail = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "53s"}
    body = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [detail]}}

    def handler(number: int) -> httpx.Response:
        return httpx.Response(
            *((429,) if number == 1 else (200,)), json=body if number == 1 else completion()
        )

    _, waits, _ = ask_with_retries(request_for_pair, handler)
    assert 53 <= waits[0] <= 54


def test_case_c12_no_credit_is_asked_once(request_for_pair: Request) -> None:
    body = {"error": {"type": "insufficient_quota", "code": "insufficient_quota", "message": "no"}}
    outcome, waits, sent = ask_with_retries(
        request_for_pair, lambda _: httpx.Response(429, json=body)
    )
    assert isinstance(outcome, JudgeUnavailable)
    assert "billing" in str(outcome)
    assert (waits, sent) == ([], 1)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 0}}),
        (200, {"choices": None, "usage": None}),
        (200, "<html><body>bad gateway</body></html>"),
        (502, "<html><body>bad gateway</body></html>"),
        (200, '{"choices": [{"mess'),
        (200, ""),
        (204, ""),
        (200, "[1, 2]"),
        (200, {"choices": [{"finish_reason": "stop"}]}),
        (200, {"choices": [{"finish_reason": "stop", "message": None}]}),
        (200, {"choices": ["A"]}),
        (200, {"choices": [{"finish_reason": "error", "message": {"content": "A"}}]}),
    ],
)
def test_case_c14_a_success_without_an_answer_is_asked_again_a_bounded_number_of_times(
    request_for_pair: Request, status: int, body: Any
) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    outcome, waits, sent = ask_with_retries(
        request_for_pair, lambda _: httpx.Response(status, text=text), RetryPolicy(attempts=3)
    )
    assert type(outcome) is TransientError
    assert text[:40] in str(outcome).replace("\\'", "'")
    assert outcome.may_be_billed is (status < 300)
    assert (len(waits), sent) == (2, 3)


def test_case_c14_an_error_inside_a_choice_counts_as_one(request_for_pair: Request) -> None:
    choice = {"error": {"code": 402, "message": "pay"}, "message": {"content": ""}}
    outcome, _, sent = ask_with_retries(
        request_for_pair, lambda _: httpx.Response(200, json={"choices": [choice]})
    )
    assert type(outcome) is JudgeUnavailable
    assert sent == 1


def test_case_c16_a_filtered_prompt_is_an_outcome_and_not_an_error(
    request_for_pair: Request,
) -> None:
    body = {"error": {"code": "content_filter", "message": "prompt filtered", "status": 400}}
    outcome, _, sent = ask_with_retries(request_for_pair, lambda _: httpx.Response(400, json=body))
    assert isinstance(outcome, Reply)
    assert (outcome.text, outcome.stop, outcome.usage) == ("", "content_filter", None)
    assert "prompt filtered" in outcome.raw
    assert sent == 1


@pytest.mark.parametrize("parameter", ["temperature", "max_tokens"])
def test_case_c17_a_refused_parameter_is_named_after_one_request(
    request_for_pair: Request, parameter: str
) -> None:
    body = {"error": {"message": "not here", "type": "invalid_request_error", "param": parameter}}
    outcome, _, sent = ask_with_retries(request_for_pair, lambda _: httpx.Response(400, json=body))
    assert isinstance(outcome, JudgeUnavailable)
    assert f"'{parameter}'" in str(outcome)
    assert sent == 1


@pytest.mark.parametrize("attempts", [1, 3, 6])
def test_case_c23_exactly_as_many_requests_as_the_policy_allows(
    request_for_pair: Request, attempts: int
) -> None:
    _, _, sent = ask_with_retries(
        request_for_pair, lambda _: httpx.Response(503), RetryPolicy(attempts=attempts)
    )
    assert sent == attempts


def test_case_c26_the_key_stays_out_of_everything_that_is_kept(
    request_for_pair: Request, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    said = "bad key sk-test-SECRET123, Authorization: Bearer SECRET123SECRET123"
    for status in (200, 400, 401, 429, 500):
        outcome, _, _ = ask_with_retries(
            request_for_pair,
            lambda _, status=status: httpx.Response(status, json={"error": {"message": said}}),  # type: ignore[misc]
        )
        assert "SECRET123" not in repr(outcome) + str(outcome) + repr(vars(outcome))
    reply, _, _ = ask_with_retries(
        request_for_pair,
        lambda _: httpx.Response(200, json={"choices": [{"message": {"content": said[:25]}}]}),
    )
    assert isinstance(reply, Reply)
    assert "SECRET123" not in repr(reply)
    assert "[redacted]" in reply.text
    assert "[redacted]" in reply.raw
    # At DEBUG level httpx and httpcore log every step of a request.
    assert caplog.records
    assert "SECRET123" not in caplog.text
    asked = judge(key=Secret("sk-test-SECRET123"))
    assert "SECRET123" not in repr(vars(asked)) + repr(vars(asked._http))
    with pytest.raises(InputError) as caught:
        OpenAICompatible("j", "m", base_url="https://user:pw@host.invalid/v1?key=SECRET123")
    assert "SECRET123" not in str(caught.value)
    assert "pw@" not in str(caught.value)


@pytest.mark.parametrize(
    ("provider", "cap"),
    [
        ("openai", "max_completion_tokens"),
        ("vllm", "max_tokens"),
        ("llama.cpp", "max_tokens"),
        ("ollama", "max_tokens"),
        ("openrouter", "max_tokens"),
        ("openai-compatible", "max_tokens"),
    ],
)
def test_the_output_cap_has_each_provider_s_name(
    request_for_pair: Request, provider: Provider, cap: str
) -> None:
    body = judge(provider).body(request_for_pair)
    assert body[cap] == 50
    assert len({"max_tokens", "max_completion_tokens"} & set(body)) == 1
    assert body["messages"] == [
        {"role": "system", "content": "Judge."},
        {"role": "user", "content": "A or B?"},
    ]
    assert (body["model"], body["temperature"]) == ("model-x", 0)
    assert "logprobs" not in body


def test_the_answer_s_form_is_asked_for_in_each_provider_s_way(request_for_pair: Request) -> None:
    openai = judge("openai").body(request_for_pair)["response_format"]["json_schema"]
    assert openai["strict"] is True
    assert openai["schema"]["properties"]["winner"]["enum"] == ["A", "B", "tie"]
    assert "root ::=" in judge("llama.cpp").body(request_for_pair)["grammar"]
    choice = judge(
        "vllm", capabilities=Capabilities("choice", parameters=frozenset({"temperature"}))
    )
    assert choice.body(request_for_pair)["structured_outputs"] == {"choice": ["A", "B", "tie"]}
    ratings = replace(
        request_for_pair,
        cell=BatchCell("judge-1", 0, ("i", "j"), "quality"),
        answer=RatingsAnswer(2, ("no", "yes")),
    )
    assert "json" in choice.body(ratings)["structured_outputs"]
    plain = judge().body(request_for_pair)
    assert not {"response_format", "grammar", "structured_outputs"} & set(plain)


def test_openrouter_may_not_drop_a_parameter_and_the_study_s_routing_is_kept(
    request_for_pair: Request,
) -> None:
    assert judge("openrouter").body(request_for_pair)["provider"] == {"require_parameters": True}
    for routing, expected in (
        ({"only": ["x"]}, {"only": ["x"], "require_parameters": True}),
        ({"require_parameters": False}, {"require_parameters": False}),
    ):
        request = replace(request_for_pair, parameters={"provider": routing})
        assert judge("openrouter").body(request)["provider"] == expected


def test_log_probabilities_are_asked_for_only_when_wanted(request_for_pair: Request) -> None:
    body = judge("openai").body(replace(request_for_pair, logprobs=5))
    assert (body["logprobs"], body["top_logprobs"]) == (True, 5)


@pytest.mark.parametrize("parameter", ["model", "n", "stream", "response_format", "max_tokens"])
def test_a_parameter_cannot_replace_what_the_adapter_owns(
    request_for_pair: Request, parameter: str
) -> None:
    request = replace(request_for_pair, parameters={parameter: 1})
    with pytest.raises(InputError, match=parameter):
        judge().body(request)


def test_a_parameter_is_sent_as_given_or_refused_but_never_dropped(
    request_for_pair: Request,
) -> None:
    request = replace(request_for_pair, parameters={"top_k": 40})
    assert judge("vllm").body(request)["top_k"] == 40
    assert judge("openai-compatible").body(request)["top_k"] == 40
    for provider in ("openai", "ollama"):
        with pytest.raises(InputError, match="top_k"):
            judge(provider).body(request)  # type: ignore[arg-type]


def test_every_dialect_has_an_address_or_asks_for_one() -> None:
    for provider, dialect in DIALECTS.items():
        if dialect.base_url is None:
            with pytest.raises(InputError, match="needs a base_url"):
                OpenAICompatible("j", "m", provider=provider)
        else:
            assert OpenAICompatible("j", "m", provider=provider)._http.base_url == dialect.base_url
    with pytest.raises(InputError, match="is not one of"):
        OpenAICompatible("j", "m", provider="bard")  # type: ignore[arg-type]


def test_the_bound_on_input_tokens_counts_every_byte_and_the_schema(
    request_for_pair: Request,
) -> None:
    request = replace(request_for_pair, messages=(Message("user", "é" * 1000),))
    plain = judge().input_tokens_at_most(request)
    assert plain >= 2000
    assert judge("openai").input_tokens_at_most(request) > plain + 100


def test_the_whole_way_over_a_real_connection(
    request_for_pair: Request, serve: Any, completion: Callable[..., dict[str, Any]]
) -> None:
    async def behaviour(received: Any) -> None:
        await received.answer(completion(), headers="X-Request-Id: req-9\r\n")

    async def main() -> tuple[Reply, bytes]:
        async with serve(behaviour) as server:
            asked = OpenAICompatible("judge-1", "model-x", base_url=server.url)
            reply = await asked.ask(request_for_pair)
            await asked.close()
            return reply, server.exchanges[0].body

    reply, body = asyncio.run(main())
    assert reply.text == '{"winner": "A"}'
    assert (reply.served_model, reply.fingerprint, reply.request_id) == (
        "judge-2026",
        "fp_1",
        "req-9",
    )
    assert json.loads(body) == judge().body(request_for_pair)


def test_one_hanging_request_does_not_hold_up_the_others(
    request_for_pair: Request, serve: Any, completion: Callable[..., dict[str, Any]]
) -> None:
    async def behaviour(received: Any) -> None:
        if b"hang" in received.body:
            await asyncio.sleep(60)
        await received.answer(completion())

    async def main() -> list[Reply | BaseException]:
        async with serve(behaviour) as server:
            asked = OpenAICompatible("judge-1", "model-x", base_url=server.url, timeout_s=0.5)
            hanging = replace(request_for_pair, messages=(Message("user", "hang"),))
            requests = [hanging, *[request_for_pair] * 20]
            outcomes = await asyncio.gather(*map(asked.ask, requests), return_exceptions=True)
            await asked.close()
            return outcomes

    first, *others = asyncio.run(main())
    assert isinstance(first, TransientError)
    assert all(isinstance(outcome, Reply) for outcome in others)
