"""The pair judge against the formula that it claims to draw from."""

import asyncio
import json
import math
from collections import Counter
from statistics import fmean
from typing import Any

import pytest

from benchtrial.adapters import (
    BatchCell,
    ChoiceAnswer,
    Message,
    PairCell,
    Reply,
    Request,
    SimulatedPairJudge,
)
from benchtrial.errors import InputError

SCORES = {"x": 0.8, "y": -0.3, "z": -0.5}
FAMILIES = {"x": "red", "y": "blue", "z": "red"}
LENGTHS = {"p": {"x": 1200, "y": 300, "z": 299}}
# Five standard errors: a correct simulator fails one such comparison in 1.7 million.
SIGMAS = 5.0
THREE = ChoiceAnswer(("A", "B", "tie"))
TWO = ChoiceAnswer(("A", "B"))


def expit(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def judge(**options: Any) -> SimulatedPairJudge:
    defaults: dict[str, Any] = {
        "sensitivity": 1.3,
        "position": 0.6,
        "length": 0.4,
        "family": -0.5,
        "lengths": LENGTHS,
        "length_scale": 0.9,
        "families": FAMILIES,
        "judge_family": "red",
    }
    return SimulatedPairJudge(SCORES, **(defaults | options))


def cell(first: str, second: str, replicate: int = 0, prompt: str = "p") -> PairCell:
    return PairCell("j", prompt, first, second, "quality", replicate)


def ask(
    asked: SimulatedPairJudge, at: PairCell, answer: ChoiceAnswer = THREE, logprobs: int = 0
) -> Reply:
    request = Request("k", at, (Message("user", "x" * 400),), answer, 100, {}, logprobs)
    return asyncio.run(asked.ask(request))


def winners(
    asked: SimulatedPairJudge, cells: list[PairCell], answer: ChoiceAnswer = THREE
) -> list[str]:
    async def main() -> list[str]:
        requests = [Request("k", at, (), answer, 100) for at in cells]
        return [json.loads((await asked.ask(request)).text)["winner"] for request in requests]

    return asyncio.run(main())


# Family contrasts of a "red" judge: x against y is own against other, x against z own against own.
@pytest.mark.parametrize(
    ("first", "second", "family"),
    [("x", "y", 1), ("y", "x", -1), ("x", "z", 0), ("z", "y", 1), ("y", "z", -1)],
)
def test_the_win_rate_is_that_of_the_formula(first: str, second: str, family: int) -> None:
    contrast = math.log((LENGTHS["p"][first] + 1) / (LENGTHS["p"][second] + 1)) / 0.9
    p = expit(1.3 * (SCORES[first] - SCORES[second]) + 0.6 + 0.4 * contrast - 0.5 * family)
    assert judge().win_probability(cell(first, second)) == pytest.approx(p)
    n = 3000
    won = winners(judge(seed=1), [cell(first, second, r) for r in range(n)], TWO).count("A")
    assert abs(won - n * p) <= SIGMAS * math.sqrt(n * p * (1 - p))


def test_ties_keep_the_mean_of_the_slot_a_score() -> None:
    tie, n = 0.3, 6000
    asked = judge(tie=tie, seed=2)
    counts = Counter(winners(asked, [cell("x", "y", r) for r in range(n)]))
    p = asked.win_probability(cell("x", "y"))
    ties = 4 * p * (1 - p) * tie
    for label, share in (("A", p - ties / 2), ("B", 1 - p - ties / 2), ("tie", ties)):
        assert abs(counts[label] - n * share) <= SIGMAS * math.sqrt(n * share * (1 - share)), label
    score = (counts["A"] + counts["tie"] / 2) / n
    assert score == pytest.approx(p, abs=SIGMAS * math.sqrt(p * (1 - p) / n))


@pytest.mark.parametrize("position", [-8.0, 0.0, 8.0])
def test_the_largest_tie_leaves_no_probability_negative(position: float) -> None:
    reply = ask(judge(tie=0.5, position=position), cell("x", "y"), logprobs=5)
    verdict = reply.tokens[1]
    assert sum(map(math.exp, verdict.alternatives.values())) == pytest.approx(1)
    assert all(logprob <= 0 for logprob in verdict.alternatives.values())


def test_no_tie_is_given_where_none_is_allowed() -> None:
    asked = judge(tie=0.5, position=0, length=0, family=0, sensitivity=0.01)
    given = winners(asked, [cell("x", "y", r) for r in range(200)], TWO)
    assert set(given) == {"A", "B"}


def test_the_log_probabilities_give_the_slot_a_score() -> None:
    asked = judge(tie=0.2)
    reply = ask(asked, cell("x", "y"), logprobs=5)
    assert "".join(token.text for token in reply.tokens) == reply.text
    odds = {label: math.exp(value) for label, value in reply.tokens[1].alternatives.items()}
    assert odds["A"] + odds["tie"] / 2 == pytest.approx(asked.win_probability(cell("x", "y")))
    assert ask(asked, cell("x", "y")).tokens == ()


def test_verdicts_on_one_prompt_share_their_noise_and_keep_their_probability() -> None:
    """With all noise shared, prompts are all won or all lost; the share won is still p."""
    shared = judge(prompt_correlation=1.0, seed=3, length=0)
    prompts = 1500
    cells = [cell("x", "y", r, f"prompt-{g}") for g in range(prompts) for r in range(2)]
    won = [w == "A" for w in winners(shared, cells, TWO)]
    assert won[0::2] == won[1::2]
    p = shared.win_probability(cell("x", "y"))
    assert fmean(won) == pytest.approx(p, abs=SIGMAS * math.sqrt(p * (1 - p) / prompts))
    partly = judge(prompt_correlation=0.6, seed=3, length=0)
    part = [w == "A" for w in winners(partly, cells, TWO)]
    agreement = fmean(a == b for a, b in zip(part[0::2], part[1::2], strict=True))
    independent = p * p + (1 - p) * (1 - p)
    assert independent + 0.05 < agreement < 1
    assert fmean(part) == pytest.approx(p, abs=SIGMAS * math.sqrt(p * (1 - p) / prompts))


def test_shared_noise_is_uniform_whatever_its_share() -> None:
    """20,000 prompts; one tenth of the draws lies below 0.1, and one tenth above 0.9."""
    for share in (0.0, 0.3, 0.6, 1.0):
        asked = judge(prompt_correlation=share, seed=6)
        draws = [asked._draw(cell("x", "y", prompt=f"{g}")) for g in range(20_000)]
        tolerance = SIGMAS * math.sqrt(0.1 * 0.9 / 20_000)
        assert fmean(u < 0.1 for u in draws) == pytest.approx(0.1, abs=tolerance), share
        assert fmean(u > 0.9 for u in draws) == pytest.approx(0.1, abs=tolerance), share


def test_a_verdict_depends_on_its_cell_and_on_nothing_else() -> None:
    cells = [cell("x", "y", r) for r in range(50)] + [cell("y", "x", r) for r in range(50)]
    forward = winners(judge(seed=4), cells)
    assert winners(judge(seed=4), cells[::-1]) == forward[::-1]
    assert winners(judge(seed=5), cells) != forward


@pytest.mark.parametrize(
    "wrong",
    [
        {"sensitivity": 0},
        {"length_scale": 0},
        {"tie": 0.6},
        {"tie": -0.1},
        {"prompt_correlation": 1.5},
        {"position": float("nan")},
        {"lengths": None},
        {"families": None},
        {"judge_family": None},
    ],
)
def test_impossible_parameters_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        judge(**wrong)


def test_questions_that_it_cannot_answer_are_refused_by_name() -> None:
    with pytest.raises(InputError, match="no score is given for 'w'"):
        ask(judge(), cell("x", "w"))
    with pytest.raises(InputError, match=r"no length is given for 'q' \(prompt 'q'"):
        ask(judge(), cell("x", "y", prompt="q"))
    batch = Request("k", BatchCell("j", 0, ("x",), "c"), (), THREE, 9)
    with pytest.raises(InputError, match="this is no pair"):
        asyncio.run(judge().ask(batch))
