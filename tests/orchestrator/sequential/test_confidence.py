"""The mixture confidence sequence: its formula, its tightest point, its level."""

from math import log, sqrt

import numpy as np
import pytest
from scipy.stats import binom

from benchtrial.errors import StoppingError
from benchtrial.orchestrator.sequential import confidence_sequence
from benchtrial.orchestrator.sequential.confidence import mixture_bound


def test_formula_by_hand():
    # alpha = e^-1: rho^2 = (2 + ln 3) / 50; I rho^2 = 2 (2 + ln 3) at I = 100.
    grown = 1 + 2 * (2 + log(3))
    half = 0.1 * sqrt(grown / (grown - 1) * (log(grown) + 2))
    low, high = confidence_sequence(0.3, 0.1, alpha=np.exp(-1), optimal_information=50)
    assert (low, high) == pytest.approx((0.3 - half, 0.3 + half), rel=1e-12)
    assert isinstance(low, float)
    assert isinstance(high, float)


def test_arrays_go_look_by_look():
    values, errors = np.array([0.3, 0.2, 0.25]), np.array([0.5, 0.3, 0.2])
    low, high = confidence_sequence(values, errors, alpha=0.05, optimal_information=20)
    for k in range(3):
        assert (low[k], high[k]) == pytest.approx(
            confidence_sequence(values[k], errors[k], alpha=0.05, optimal_information=20)
        )


def test_it_is_tightest_near_the_optimal_information():
    # The closed form is an approximation to the optimum: within 2 % of the width at the best.
    def bound_at_100(optimal):
        return float(mixture_bound(100.0, alpha=0.05, optimal_information=optimal))

    best = min(bound_at_100(optimal) for optimal in np.geomspace(5, 2000, 400))
    assert bound_at_100(100.0) == pytest.approx(best, rel=0.02)


def test_brownian_paths_cross_no_more_than_alpha():
    # 600 paths looked at 400 times, information growing 400-fold. The sequence may be crossed by
    # at most alpha = 20 % of infinitely long paths; the bound is the 99.99 % point of a binomial.
    paths, looks, alpha = 600, 400, 0.2
    rng = np.random.default_rng(7)
    information = np.arange(1, looks + 1, dtype=float)
    z = rng.normal(size=(paths, looks)).cumsum(axis=1) / np.sqrt(information)
    crossed = np.abs(z) > mixture_bound(information, alpha=alpha, optimal_information=40.0)
    crossings = int(crossed.any(axis=1).sum())
    assert 0 < crossings <= binom.ppf(0.9999, paths, alpha)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"se": 0.0}, "standard error 0.0 at position 0"),
        ({"se": float("nan")}, "one observation"),
        ({"se": np.array([0.1, 0.0])}, "standard error 0.0 at position 1"),
        ({"value": float("inf")}, "value inf"),
        ({"alpha": 0.0}, "alpha is 0.0"),
        ({"alpha": 1.0}, "alpha is 1.0"),
        ({"optimal_information": 0.0}, "optimal_information is 0.0"),
    ],
)
def test_bad_input_has_one_clear_error(arguments, message):
    call = {"value": 0.1, "se": 0.1, "alpha": 0.05, "optimal_information": 10.0, **arguments}
    value, se = call.pop("value"), call.pop("se")
    with pytest.raises(StoppingError, match=message):
        confidence_sequence(value, se, **call)


def test_next_to_no_information_gives_a_wide_and_finite_interval():
    low, high = confidence_sequence(0.0, 1e120, alpha=0.05, optimal_information=1e-60)
    assert np.isfinite(low)
    assert low == -high
    assert high > 1e120
