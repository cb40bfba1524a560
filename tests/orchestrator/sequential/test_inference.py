"""Estimates that allow for the stopping."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from scipy.stats import binom, norm

from benchtrial.errors import StoppingError
from benchtrial.orchestrator.models.estimate import Estimate
from benchtrial.orchestrator.sequential import (
    Difference,
    Screening,
    StoppingPlan,
    after_stopping,
    take_look,
)

AB = ("A", "B")
PLAN = StoppingPlan(target=Difference("A", "B"), futility=None, rope=0.0)


def looks(values, information, clocks, plan=PLAN):
    history = []
    for value, info, clock in zip(values, information, clocks, strict=True):
        history.append(
            take_look(
                plan,
                history,
                {AB: Estimate.wald(value, info**-0.5)},
                clock=clock,
                final=clock == 1.0,
            )
        )
        if history[-1].decision.state != "continue":
            break
    return history


def test_it_equals_rpact():
    # rpact 3.3.4: getDesignGroupSequential(kMax = 3, informationRates = c(0.3, 0.7, 1), alpha =
    # 0.025, sided = 1, typeOfDesign = "asKD", gammaA = 2), getDataset(n = c(30, 40), means =
    # c(0.30, 0.38), stDevs such that the pooled one is 1), getAnalysisResults(normalApproximation
    # = TRUE): medianUnbiasedEstimates, finalConfidenceInterval, finalPValues (one-sided),
    # repeatedConfidenceIntervalLowerBounds.
    pooled = (30 * 0.30 + 40 * 0.38) / 70
    history = looks([0.30, pooled], [30, 70], [0.3, 0.7])
    assert history[-1].decision.state == "decided"
    result = after_stopping(PLAN, history, AB)
    assert result.value == pytest.approx(pooled)
    assert result.median_unbiased == pytest.approx(0.33970622, abs=2e-6)
    assert result.low == pytest.approx(0.0953440245, abs=2e-6)
    assert result.high == pytest.approx(0.576598864, abs=2e-6)
    assert result.p / 2 == pytest.approx(0.00384654652, abs=2e-8)
    assert result.repeated_low == pytest.approx(0.0713231834, abs=2e-6)
    assert "exaggerated on average" in str(result)


def test_a_study_of_one_look_has_nothing_to_adjust():
    result = after_stopping(PLAN, looks([0.5], [25], [1.0]), AB)
    assert result.median_unbiased == pytest.approx(0.5, abs=1e-5)
    assert result.low == pytest.approx(0.5 - norm.isf(0.025) / 5, abs=1e-5)
    assert result.high == pytest.approx(0.5 + norm.isf(0.025) / 5, abs=1e-5)
    assert result.p == pytest.approx(2 * norm.sf(2.5))


def test_median_unbiased_and_covering():
    # 200 studies of 5 looks at a true effect with power about 75 %; binomial bounds at 99.9 %.
    plan = replace(PLAN, rule="pocock")
    rng, effect, studies = np.random.default_rng(5), 2.6, 200
    information = np.arange(1, 6) / 5
    above, covered, raw = 0, 0, []
    for _ in range(studies):
        scores = np.cumsum(rng.normal(effect / 5, sqrt(1 / 5), size=5))
        history = looks(scores / information, information, information, plan)
        result = after_stopping(plan, history, AB)
        above += result.median_unbiased > effect
        raw.append(result.value)
        covered += result.low < effect < result.high
    low, high = binom.ppf([0.0005, 0.9995], studies, 0.5)
    assert low <= above <= high
    # The raw estimate exaggerates, by more than three standard errors of its mean.
    assert np.mean(raw) - effect > 3 * np.std(raw) / sqrt(studies)
    assert binom.ppf(0.0005, studies, 0.95) <= covered <= binom.ppf(0.9995, studies, 0.95)


def test_looks_with_more_information_than_the_last_are_left_out():
    history = looks([0.1, 0.1, 0.12], [40, 60, 50], [0.3, 0.6, 1.0])
    plain = looks([0.1, 0.12], [40, 50], [0.3, 1.0])
    result = after_stopping(PLAN, history, AB)
    assert result.value == 0.12
    assert result.median_unbiased == pytest.approx(
        after_stopping(PLAN, plain, AB).median_unbiased, abs=0.01
    )


def test_the_null_of_a_screening_is_its_threshold():
    target = Screening(("judge",), "reference", keep=0.5)
    plan = StoppingPlan(target=target, futility=None)
    estimates = {("judge", "reference"): Estimate.wald(target.null + 0.5, 0.2)}
    look = take_look(plan, [], estimates, clock=1.0, final=True)
    result = after_stopping(plan, [look], ("judge", "reference"))
    assert result.p == pytest.approx(2 * norm.sf(2.5))
    assert result.median_unbiased == pytest.approx(target.null + 0.5, abs=1e-5)


def test_errors():
    history = looks([0.1], [25], [0.5])
    with pytest.raises(StoppingError, match="no contrast A - C; it has A - B"):
        after_stopping(PLAN, history, ("A", "C"))
    with pytest.raises(StoppingError, match="no look has tested A - B"):
        after_stopping(PLAN, [], AB)
