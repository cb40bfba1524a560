"""Error rates as error rates: small simulations of whole studies through ``take_look``.

Each is a fixed seed with a bound at the 99.9 % point of the binomial of its size; the large ones
are in ``benchmarks/sequential.py``.
"""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binom

from benchtrial.orchestrator.models.estimate import Estimate
from benchtrial.orchestrator.sequential import (
    Best,
    Difference,
    Ranking,
    StoppingPlan,
    boundaries,
    take_look,
)

AB = ("A", "B")


def study(plan, scores, information, clocks):
    """Run one study on scores of the candidates, shape (looks, candidates); return its last look.

    ``information`` is that of a contrast: twice the variance of a score over ``information``.
    """
    names = getattr(plan.target, "candidates", AB)
    history = []
    for row, info, clock in zip(scores, information, clocks, strict=True):
        values = dict(zip(names, row, strict=True))
        estimates = {
            (a, b): Estimate.wald(values[a] - values[b], info**-0.5)
            for a, b in combinations(names, 2)
        }
        history.append(take_look(plan, history, estimates, clock=clock, final=clock == 1.0))
        if history[-1].decision.state != "continue":
            break
    return history[-1]


def brownian_scores(rng, information, truth):
    """Estimates of the candidates' scores, look by look, with independent increments."""
    increments = np.diff(information, prepend=0.0)[:, None]
    steps = rng.normal(size=(len(information), len(truth))) * np.sqrt(increments / 2)
    return steps.cumsum(axis=0) / information[:, None] + np.array(truth)


def claims(plan, information, clocks, truth, studies, seed):
    rng = np.random.default_rng(seed)
    return [
        study(plan, brownian_scores(rng, information, truth), information, clocks).decision
        for _ in range(studies)
    ]


@pytest.mark.parametrize("rule", ["kim-demets", "obrien-fleming", "pocock", "confidence-sequence"])
@pytest.mark.parametrize("growth", [1, 2])
def test_level_of_a_difference_with_information_as_a_power_of_the_budget(rule, growth):
    plan = StoppingPlan(target=Difference(*AB), rule=rule, alpha=0.1, futility=None, rope=0.0)
    clocks = np.arange(1, 9) / 8
    decisions = claims(plan, 10.0 * clocks**growth, clocks, (0.0, 0.0), 250, seed=1)
    errors = sum(decision.state == "decided" for decision in decisions)
    assert errors <= binom.ppf(0.999, 250, 0.1)
    if rule != "confidence-sequence":
        assert errors >= binom.ppf(0.001, 250, 0.1)


def test_the_unsafe_rule_really_is():
    plan = StoppingPlan(target=Difference(*AB), rule="unsafe-fixed", futility=None, rope=0.0)
    clocks = np.arange(1, 9) / 8
    decisions = claims(plan, 10.0 * clocks, clocks, (0.0, 0.0), 250, seed=2)
    errors = sum(decision.state == "decided" for decision in decisions)
    assert errors > binom.ppf(0.9999, 250, 0.05)


def test_a_tie_for_the_best_is_broken_no_more_often_than_alpha():
    plan = StoppingPlan(target=Best(("a", "b", "c")), alpha=0.1, futility=None, rope=0.0)
    clocks = np.arange(1, 6) / 5
    decisions = claims(plan, 40.0 * clocks, clocks, (2.0, 2.0, 0.0), 200, seed=3)
    errors = sum(decision.state == "decided" for decision in decisions)
    assert 0 < errors <= binom.ppf(0.999, 200, 0.1)


def test_a_ranking_of_equals_claims_no_pair_more_often_than_alpha():
    plan = StoppingPlan(target=Ranking(tuple("abcd")), alpha=0.1, futility=None, rope=0.0)
    clocks = np.arange(1, 6) / 5
    rng, errors = np.random.default_rng(4), 0
    for _ in range(120):
        scores = brownian_scores(rng, clocks, [0.0] * 4)
        last = study(plan, scores, clocks, clocks)
        errors += any(contrast.winner for contrast in last.contrasts)
    assert errors <= binom.ppf(0.999, 120, 0.1)


def test_spending_on_the_budget_alone_would_be_wrong():
    # The pitfall that the two clocks avoid: bounds integrated with spent / budget although
    # information grows as its square.
    clocks = np.arange(1, 21) / 20
    information = clocks**2
    rng = np.random.default_rng(5)
    steps = rng.normal(size=(40_000, 20)) * np.sqrt(np.diff(information, prepend=0.0))
    z = np.abs(steps.cumsum(axis=1)) / np.sqrt(information)

    def error(bounds):
        return (z > bounds).any(axis=1).mean()

    # Binomial bounds at 99.9 % for 40,000 paths are 0.3 points wide.
    assert error(boundaries("kim-demets", clocks)) > 0.06
    right = error(boundaries("kim-demets", clocks, information=information))
    assert right == pytest.approx(0.05, abs=0.0036)
