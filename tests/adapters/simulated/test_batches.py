"""The batch judge against the formula that it claims to draw from."""

import asyncio
import itertools
import json
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev

import pytest

from benchtrial.adapters import (
    PAPER_JUDGES,
    BatchCell,
    Message,
    PairCell,
    RatingsAnswer,
    Reply,
    Request,
    SimulatedBatchJudge,
)
from benchtrial.errors import InputError

ITEMS = ("a", "b", "c", "d")
THETA = {"a": -0.8, "b": 0.0, "c": 0.4, "d": 1.1}
LAGS = (-1.0, 0.6)
COLD = 0.7
BINARY = RatingsAnswer(4, ("reject", "accept"))
# Five standard errors: a correct simulator fails one such comparison in 1.7 million.
SIGMAS = 5.0


def expit(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def ask(
    judge: SimulatedBatchJudge,
    batch: int,
    *,
    items: Sequence[str] = ITEMS,
    answer: RatingsAnswer = BINARY,
    name: str = "j",
    logprobs: int = 0,
) -> Reply:
    cell = BatchCell(name, batch, tuple(items), "quality")
    request = Request(f"{batch}", cell, (Message("user", "x" * 400),), answer, 100, {}, logprobs)
    return asyncio.run(judge.ask(request))


def ratings_of(reply: Reply) -> tuple[int, ...]:
    return tuple(int(rating == "accept") for rating in json.loads(reply.text).values())


def within(count: int, n: int, p: float) -> bool:
    """Whether a binomial count lies within the tolerance of its expectation."""
    return abs(count - n * p) <= SIGMAS * math.sqrt(n * p * (1 - p)) + 1e-9


def sample(judge: SimulatedBatchJudge, batches: int) -> list[tuple[int, ...]]:
    """Ratings of many batches without the event loop's overhead."""

    async def main() -> list[tuple[int, ...]]:
        requests = (
            Request("k", BatchCell("j", t, ITEMS, "quality"), (), BINARY, 100)
            for t in range(batches)
        )
        return [ratings_of(await judge.ask(request)) for request in requests]

    return asyncio.run(main())


def test_every_transition_has_the_probability_of_the_formula() -> None:
    """All 15 histories of 4 items at order 2, without a batch effect; 6,000 batches."""
    judge = SimulatedBatchJudge(THETA, lags=LAGS, cold_start=COLD, seed=1)
    counts: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for ratings in sample(judge, 6000):
        for position in range(4):
            counts[ratings[:position]][ratings[position]] += 1
    checked = 0
    for position in range(4):
        for history in itertools.product((0, 1), repeat=position):
            eta = THETA[ITEMS[position]] + (COLD if position == 0 else 0.0)
            if position >= 1:
                eta += LAGS[0] * history[-1]
            if position >= 2:
                eta += LAGS[1] * history[-2]
            seen = counts[history]
            assert sum(seen.values()) > 30
            assert within(seen[1], sum(seen.values()), expit(eta)), history
            checked += 1
    assert checked == 15


def test_the_acceptance_of_a_batch_averages_over_its_random_intercept() -> None:
    """P(first accepted) = E expit(theta + gamma + sigma z), by the midpoint rule over 2,000 z."""
    sigma = 1.2
    judge = SimulatedBatchJudge(THETA, lags=LAGS, cold_start=COLD, batch_sd=sigma, seed=2)
    normal = NormalDist()
    quantiles = [normal.inv_cdf((i + 0.5) / 2000) for i in range(2000)]
    first = fmean(expit(THETA["a"] + COLD + sigma * z) for z in quantiles)
    # Both of the first two: the shared intercept makes them more alike than their product.
    both = fmean(
        expit(THETA["a"] + COLD + sigma * z) * expit(THETA["b"] + LAGS[0] + sigma * z)
        for z in quantiles
    )
    drawn = sample(judge, 6000)
    assert within(sum(r[0] for r in drawn), 6000, first)
    assert within(sum(r[0] * r[1] for r in drawn), 6000, both)


def test_the_random_intercept_belongs_to_judge_and_batch_and_is_normal() -> None:
    judge = SimulatedBatchJudge(THETA, batch_sd=0.5, seed=3)
    effects = [judge.batch_effect("j", batch) for batch in range(4000)]
    assert fmean(effects) == pytest.approx(0, abs=SIGMAS * 0.5 / 4000**0.5)
    assert stdev(effects) == pytest.approx(0.5, abs=SIGMAS * 0.5 / 8000**0.5)
    assert judge.batch_effect("other", 0) != effects[0]
    assert SimulatedBatchJudge(THETA, batch_sd=0.5, seed=4).batch_effect("j", 0) != effects[0]
    assert SimulatedBatchJudge(THETA, batch_sd=1.0, seed=3).batch_effect("j", 0) == 2 * effects[0]
    assert SimulatedBatchJudge(THETA, seed=3).batch_effect("j", 0) == 0


def test_ordinal_ratings_follow_the_cumulative_logit_with_scaled_lags() -> None:
    thresholds = (-1.0, 0.2, 1.3)
    judge = SimulatedBatchJudge(THETA, lags=(-1.5,), thresholds=thresholds, seed=5)
    answer = RatingsAnswer(2, scale=(1, 4))
    n = 4000
    pairs = [
        tuple(json.loads(ask(judge, t, items=("b", "c"), answer=answer).text).values())
        for t in range(n)
    ]
    for c in range(3):
        at_least = sum(first >= c + 2 for first, _ in pairs)
        assert within(at_least, n, expit(THETA["b"] - thresholds[c]))
        for first in range(1, 5):
            after = [second for before, second in pairs if before == first]
            p = expit(THETA["c"] - 1.5 * (first - 1) / 3 - thresholds[c])
            assert within(sum(second >= c + 2 for second in after), len(after), p)


def test_an_answer_depends_on_its_cell_and_on_nothing_else() -> None:
    judge = SimulatedBatchJudge(THETA, lags=LAGS, batch_sd=1, seed=6)
    forward = [ask(judge, batch).text for batch in range(30)]
    again = SimulatedBatchJudge(THETA, lags=LAGS, batch_sd=1, seed=6)
    assert [ask(again, batch).text for batch in reversed(range(30))] == forward[::-1]
    assert len(set(forward)) > 5
    assert [ask(judge, batch, name="k").text for batch in range(30)] != forward


def test_the_log_probabilities_are_those_of_the_draw() -> None:
    judge = SimulatedBatchJudge(THETA, lags=LAGS, cold_start=COLD, seed=7)
    reply = ask(judge, 0, logprobs=5)
    assert "".join(token.text for token in reply.tokens) == reply.text
    verdicts = [token for token in reply.tokens if token.text in BINARY.labels]
    ratings = ratings_of(reply)
    for position, token in enumerate(verdicts):
        assert set(token.alternatives) == {"reject", "accept"}
        assert sum(map(math.exp, token.alternatives.values())) == pytest.approx(1)
        p = expit(
            THETA[ITEMS[position]]
            + (COLD if position == 0 else 0)
            + sum(b * r for b, r in zip(LAGS, reversed(ratings[:position]), strict=False))
        )
        assert math.exp(token.alternatives["accept"]) == pytest.approx(p)
    assert ask(judge, 0).tokens == ()


def test_the_reply_looks_like_a_provider_s() -> None:
    reply = ask(SimulatedBatchJudge(THETA), 0)
    assert list(json.loads(reply.text)) == ["item_1", "item_2", "item_3", "item_4"]
    assert reply.stop == "complete"
    assert reply.usage is not None
    assert reply.usage.input == 100
    assert reply.usage.output == len(reply.text) // 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_sd": -1},
        {"lags": [float("nan")]},
        {"cold_start": float("inf")},
        {"thresholds": [1.0, 1.0]},
    ],
)
def test_impossible_parameters_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError):
        SimulatedBatchJudge(THETA, **wrong)  # type: ignore[arg-type]


def test_questions_that_it_cannot_answer_are_refused_by_name() -> None:
    judge = SimulatedBatchJudge(THETA)
    with pytest.raises(InputError, match="no quality is given for item 'z'"):
        ask(judge, 0, items=("a", "z"), answer=RatingsAnswer(2, ("no", "yes")))
    with pytest.raises(InputError, match="2 different ratings, but the answer allows 3"):
        ask(judge, 0, answer=RatingsAnswer(4, ("bad", "so-so", "good")))
    pair = Request("k", PairCell("j", "p", "a", "b", "c"), (), BINARY, 9)
    with pytest.raises(InputError, match="this is no batch"):
        asyncio.run(judge.ask(pair))


def test_the_judges_of_the_paper_have_the_printed_parameters() -> None:
    gemini, claude = PAPER_JUDGES["gemini-2.5-flash"], PAPER_JUDGES["claude-haiku-4.5"]
    assert (gemini.lags, round(gemini.batch_sd**2, 3)) == ((-0.529,), 0.446)
    assert (claude.lags, claude.cold_start, round(claude.batch_sd**2, 3)) == (
        (-1.055,),
        1.879,
        0.418,
    )
    for name in ("gemini-2.5-flash", "claude-haiku-4.5"):
        assert PAPER_JUDGES[f"{name} lag-3"].lags[:1] == PAPER_JUDGES[name].lags
