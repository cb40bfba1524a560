"""Bounds against rpact, against a multivariate normal integral, and at the edges of the floats."""

from math import exp, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, norm

from benchtrial.errors import StoppingError
from benchtrial.orchestrator.sequential import (
    boundaries,
    canonical,
    exit_probabilities,
    spent_alpha,
)
from benchtrial.orchestrator.sequential.canonical import MIN_GROWTH, own_bound

RULES = ("kim-demets", "obrien-fleming", "pocock")
EVEN_5 = tuple(k / 5 for k in range(1, 6))
EVEN_20 = tuple(k / 20 for k in range(1, 21))
UNEVEN = (0.1, 0.15, 0.4, 0.45, 0.9, 1.0)

# rpact 3.3.4 (R 4.2.2): getDesignGroupSequential(kMax, informationRates, alpha, sided = 2,
# typeOfDesign = "asKD" (gammaA = 2), "asOF", "asP", tolerance = 1e-10)$criticalValues.
# NaN where rpact gives Inf or loses digits, at the first spends of O'Brien-Fleming; those bounds
# are compared with the normal tail below.
RPACT = {
    ("kim-demets", EVEN_5, 0.05): "3.09023231 2.71411158 2.47277720 2.27986327 2.11402742",
    ("kim-demets", EVEN_20, 0.05): """
        3.83610693 3.54179503 3.36749715 3.23353093 3.12202149 3.02531776 2.93926493 2.86130368
        2.78972700 2.72333134 2.66123226 2.60275859 2.54738763 2.49470354 2.44436951 2.39610857
        2.34968987 2.30491879 2.26162960 2.21967983""",
    ("kim-demets", UNEVEN, 0.01): (
        "3.89059189 3.79310285 3.19323902 3.26118845 2.71400420 2.75821243"
    ),
    ("obrien-fleming", EVEN_5, 0.05): "4.87688495 3.35701192 2.68028006 2.28981677 2.03103204",
    ("obrien-fleming", EVEN_20, 0.05): """
        nan nan nan nan 4.33827357 3.94278035 3.63793661 3.39404950
        3.19331982 3.02441087 2.87973841 2.75402037 2.64345354 2.54522207 2.45719137 2.37771017
        2.30547849 2.23945718 2.17880429 2.12282944""",
    ("obrien-fleming", UNEVEN, 0.01): "nan nan nan 4.04874594 2.73944119 2.64257378",
    ("pocock", EVEN_5, 0.05): "2.43797669 2.42681386 2.41019384 2.39664540 2.38598457",
    ("pocock", EVEN_20, 0.05): """
        2.86873988 2.82932713 2.78731188 2.75140464 2.72117922 2.69551088 2.67344351 2.65424737
        2.63737277 2.62240206 2.60901338 2.59695489 2.58602671 2.57606806 2.56694803 2.55855888
        2.55081106 2.54362944 2.53695052 2.53072017""",
    ("pocock", UNEVEN, 0.01): "3.15853351 3.27618223 2.95038147 3.11579252 2.85112800 2.99946150",
}


@pytest.mark.parametrize(("rule", "fractions", "alpha"), RPACT)
def test_bounds_equal_those_of_rpact(rule, fractions, alpha):
    expected = np.array(RPACT[rule, fractions, alpha].split(), dtype=float)
    given_by_rpact = ~np.isnan(expected)
    bounds = boundaries(rule, fractions, alpha=alpha)
    # 1e-5 is what both programs promise; the largest difference found is 8e-6.
    np.testing.assert_allclose(bounds[given_by_rpact], expected[given_by_rpact], atol=1e-5)


@pytest.mark.parametrize("rule", RULES)
def test_staying_inside_has_the_probability_of_a_multivariate_normal(rule):
    fractions = (0.3, 0.5, 0.8, 1.0)
    information = np.array([4.0, 11.0, 12.5, 40.0])  # far from proportional to the budget
    bounds = boundaries(rule, fractions, alpha=0.05, information=information)
    correlation = np.sqrt(np.minimum.outer(information, information))
    correlation /= np.sqrt(np.maximum.outer(information, information))
    for looks in range(1, 5):
        inside = multivariate_normal(cov=correlation[:looks, :looks]).cdf(
            bounds[:looks], lower_limit=-bounds[:looks], rng=np.random.default_rng(1)
        )
        spent = spent_alpha(rule, fractions[looks - 1], alpha=0.05)
        assert 1.0 - inside == pytest.approx(spent, abs=5e-6)  # Genz' integrator: about 1e-6


@given(
    rule=st.sampled_from(RULES),
    alpha=st.floats(0.001, 0.3),
    steps=st.lists(st.floats(0.02, 1.0), min_size=1, max_size=12),
    growth=st.lists(st.floats(0.005, 3.0), min_size=12, max_size=12),
)
@settings(max_examples=60, deadline=None)
def test_every_look_spends_what_the_rule_says(rule, alpha, steps, growth):
    fractions = np.cumsum(steps) / np.sum(steps)
    fractions[-1] = 1.0
    information = np.cumprod(1.0 + np.array(growth))[: len(fractions)]
    bounds = boundaries(rule, fractions, alpha=alpha, information=information)
    upper, lower = exit_probabilities(tuple(bounds), tuple(information))
    spent = [spent_alpha(rule, fraction, alpha=alpha) for fraction in fractions]
    np.testing.assert_allclose(np.cumsum(upper + lower), spent, rtol=1e-7, atol=1e-14)
    np.testing.assert_allclose(upper, lower, rtol=1e-7, atol=1e-14)


@pytest.mark.parametrize("rule", RULES)
def test_one_look_is_the_fixed_test_and_information_has_no_unit(rule):
    assert boundaries(rule, [1.0])[0] == pytest.approx(norm.isf(0.025), abs=1e-12)
    one = boundaries(rule, EVEN_5, information=EVEN_5)
    other = boundaries(rule, EVEN_5, information=[1e6 * fraction for fraction in EVEN_5])
    np.testing.assert_allclose(one, other, atol=1e-9)


def test_a_hundred_looks_are_possible():
    for rule in RULES:
        bounds = boundaries(rule, np.arange(1, 101) / 100)
        assert np.isfinite(bounds).all()
        upper, lower = exit_probabilities(tuple(bounds), tuple(np.arange(1, 101) / 100))
        assert (upper + lower).sum() == pytest.approx(0.05, rel=1e-7)


def test_early_obrien_fleming_looks_stay_finite():
    # Case C58a. Its numbers are those of the one-sided function 2 - 2 Phi(z / sqrt t) with z =
    # 1.96, that is one side of a two-sided level of 10 %.
    times = (0.05, 1 / 6, 0.5, 1.0)
    spent = [spent_alpha("obrien-fleming", time, alpha=0.10) / 2 for time in times]
    np.testing.assert_allclose(spent, [1.86e-18, 1.58e-6, 0.00557, 0.05], rtol=4e-3)
    np.testing.assert_allclose(
        [own_bound(alpha) for alpha in spent], [8.7652, 4.8009, 2.7718, 1.9600], atol=5e-5
    )
    bounds = boundaries("obrien-fleming", [1e-6, 0.001, 0.01, 0.05, 1 / 6, 0.5, 1.0])
    assert np.isfinite(bounds).all()
    assert bounds.max() < 37.1
    assert (np.diff(bounds) <= 0).all()


@pytest.mark.parametrize(("fractions", "alpha"), [(EVEN_20, 0.05), (UNEVEN, 0.01)])
def test_first_obrien_fleming_bounds_are_those_of_the_normal_tail(fractions, alpha):
    # The alpha of the looks before is so small that it lowers a bound by 2e-5 at most.
    bounds = boundaries("obrien-fleming", fractions, alpha=alpha)
    spent = [spent_alpha("obrien-fleming", time, alpha=alpha) for time in fractions]
    own = norm.isf(np.diff(spent, prepend=0.0) / 2)
    np.testing.assert_allclose(bounds[:3], own[:3], atol=5e-5)


def test_spending_functions_by_hand():
    assert spent_alpha("kim-demets", 0.5, alpha=0.08) == pytest.approx(0.02)
    assert spent_alpha("pocock", 0.5, alpha=0.05) == pytest.approx(0.05 * np.log((1 + exp(1)) / 2))
    assert spent_alpha("obrien-fleming", 0.25, alpha=0.05) == pytest.approx(
        4 * norm.sf(norm.isf(0.0125) / sqrt(0.25))
    )
    for rule in RULES:
        assert spent_alpha(rule, 0.0, alpha=0.05) == 0.0
        assert spent_alpha(rule, 1.7, alpha=0.05) == 0.05


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("second", [0.9, 1.0, 1.0 + MIN_GROWTH / 2])
def test_information_that_does_not_grow_is_tested_on_its_own(rule, second):
    fractions = (0.3, 0.6, 1.0)
    bounds = boundaries(rule, fractions, information=[1.0, second, 2.0])
    spent = np.array([spent_alpha(rule, fraction, alpha=0.05) for fraction in fractions])
    assert bounds[1] == pytest.approx(norm.isf((spent[1] - spent[0]) / 2), abs=1e-9)
    # The last bound is that of a process of two looks, from which the second is absent.
    upper, lower = exit_probabilities((bounds[0], bounds[2]), (1.0, 2.0))
    np.testing.assert_allclose(upper + lower, [spent[0], spent[2] - spent[1]], rtol=1e-8)


def test_hardly_grown_information_has_a_bound():
    bounds = boundaries("kim-demets", [0.3, 0.30001, 1.0], information=[1.0, 1.0011, 2.0])
    assert bounds[0] - 0.05 < bounds[1] < 6.0


def test_a_finer_grid_changes_nothing(monkeypatch):
    # Long steps before short ones are the hard case: a smooth density, a narrow step.
    information = [1.0, 1.002, 5.0, 5.01, 40.0, 40.1, 400.0]
    fractions = [0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0]
    coarse = [boundaries(rule, fractions, information=information) for rule in RULES]
    monkeypatch.setattr(canonical, "PANEL_WIDTHS", canonical.PANEL_WIDTHS / 3)
    canonical._front.cache_clear()
    fine = [boundaries(rule, fractions, information=information) for rule in RULES]
    canonical._front.cache_clear()
    np.testing.assert_allclose(coarse, fine, atol=1e-9)


def test_drift_moves_the_exit_to_its_side():
    bounds = tuple(boundaries("kim-demets", EVEN_5))
    upper, lower = exit_probabilities(bounds, EVEN_5, drift=3.2)
    mirrored_upper, mirrored_lower = exit_probabilities(bounds, EVEN_5, drift=-3.2)
    np.testing.assert_allclose(upper, mirrored_lower, rtol=1e-9)
    np.testing.assert_allclose(lower, mirrored_upper, rtol=1e-9)
    # rpact 3.3.4, getPowerAndAverageSampleNumber of the same design at theta = 3.2, nMax = 1.
    assert (upper + lower).sum() == pytest.approx(0.87461256, abs=2e-6)
    np.testing.assert_allclose(
        (upper + lower)[:4], [0.048545979, 0.20378661, 0.26707822, 0.21855601], atol=2e-6
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 0.0}, "alpha is 0.0"),
        ({"alpha": 1.0}, "strictly between 0 and 1"),
        ({"alpha": float("nan")}, "alpha is nan"),
        ({"fractions": [0.5, 0.4, 1.0]}, "fraction 0.4 of look 2 is not above 0.5"),
        ({"fractions": [0.5, 0.5]}, "fraction 0.5 of look 2"),
        ({"fractions": [0.5, 1.2]}, "at most 1"),
        ({"fractions": [0.0, 1.0]}, "fraction 0.0 of look 1"),
        ({"fractions": []}, "there are no looks"),
        ({"information": [1.0]}, "1 informations for 2 fractions"),
        ({"information": [1.0, 0.0]}, "information 0.0 of look 2"),
        ({"information": [float("inf"), 1.0]}, "information inf of look 1"),
        ({"rule": "haybittle"}, "no spending rule is called 'haybittle'"),
        ({"rule": "confidence-sequence"}, "choose one of kim-demets"),
    ],
)
def test_bad_input_has_one_clear_error(arguments, message):
    call = {"rule": "kim-demets", "fractions": [0.5, 1.0], **arguments}
    rule, fractions = call.pop("rule"), call.pop("fractions")
    with pytest.raises(StoppingError, match=message):
        boundaries(rule, fractions, **call)
