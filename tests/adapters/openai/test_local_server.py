"""The adapter against a real language model behind llama.cpp's server, where it is installed."""

import asyncio
import importlib.util
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchtrial.adapters import (
    BatchCell,
    Message,
    OpenAICompatible,
    RatingsAnswer,
    Reply,
    Request,
    rating_keys,
)
from benchtrial.errors import JudgeUnavailable, RequestRefused

SCRIPT = Path(__file__).parents[3] / "examples" / "local_judge" / "serve.py"
MODEL = "SmolLM2-135M-Instruct"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    spec = importlib.util.spec_from_file_location("serve_local_judge", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pytest.importorskip("xllamacpp")
    try:
        weights = module.find_weights()
    except module.WeightsUnavailable as error:
        pytest.skip(str(error))
    with module.local_judge(weights=weights) as base_url:
        yield base_url


def ask(url: str, *requests: Request) -> list[Reply | BaseException]:
    async def main() -> list[Reply | BaseException]:
        judge = OpenAICompatible("local", MODEL, provider="llama.cpp", base_url=url)
        for request in requests:
            assert judge.input_tokens_at_most(request) > 0
        replies = await asyncio.gather(*map(judge.ask, requests), return_exceptions=True)
        await judge.close()
        for request, reply in zip(requests, replies, strict=True):
            if isinstance(reply, Reply):
                assert reply.usage is not None
                assert reply.usage.input <= judge.input_tokens_at_most(request)
                assert reply.usage.output <= request.max_output_tokens
        return replies

    return asyncio.run(main())


@pytest.fixture
def pair(request_for_pair: Request) -> Request:
    text = "What is 3 + 3?\n\nA: 6\nB: 7\n\nWhich is right? Answer as JSON."
    return replace(request_for_pair, messages=(Message("user", text),), logprobs=10)


def test_a_choice_comes_back_ready_to_parse_with_its_probability(url: str, pair: Request) -> None:
    (reply,) = ask(url, pair)
    assert isinstance(reply, Reply)
    verdict = json.loads(reply.text)
    assert json.dumps(verdict) == reply.text
    assert verdict["winner"] in {"A", "B", "tie"}
    assert (reply.stop, reply.served_model) == ("complete", MODEL)
    assert "".join(token.text for token in reply.tokens) == reply.text
    (label,) = [token for token in reply.tokens if token.text == verdict["winner"]]
    assert {"A", "B"} <= set(label.alternatives)
    assert sum(map(math.exp, label.alternatives.values())) < 1 + 1e-6


def test_ratings_come_back_ready_to_parse_in_displayed_order(url: str, pair: Request) -> None:
    cell = BatchCell("local", 0, ("a", "b", "c"), "quality")
    text = "Rate each item.\nItem 1: a poem\nItem 2: a song\nItem 3: a list"
    answers = [RatingsAnswer(3, ("reject", "accept")), RatingsAnswer(3, scale=(1, 10))]
    requests = [
        replace(
            pair,
            cell=cell,
            messages=(Message("user", text),),
            answer=answer,
            max_output_tokens=60,
            parameters={"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 5},
        )
        for answer in answers
    ]
    for answer, reply in zip(answers, ask(url, *requests), strict=True):
        assert isinstance(reply, Reply)
        ratings = json.loads(reply.text)
        assert list(ratings) == list(rating_keys(answer))
        legal = set(answer.labels) or set(range(1, 11))
        assert set(ratings.values()) <= legal


def test_what_the_server_refuses_is_understood(url: str, pair: Request) -> None:
    cut = replace(pair, max_output_tokens=2)
    long = replace(pair, messages=(Message("user", "word " * 3000),))
    hot = replace(pair, parameters={"temperature": "hot"})
    truncated, too_long, no_number = ask(url, cut, long, hot)
    assert isinstance(truncated, Reply)
    assert truncated.stop == "truncated"
    assert isinstance(too_long, RequestRefused)
    assert too_long.reason == "context_overflow"
    assert isinstance(no_number, JudgeUnavailable)
    assert "'temperature'" in str(no_number)
