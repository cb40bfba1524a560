"""Attenuation by 1 - D^2: the paper's exact numbers, and its prediction on simulated records."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special

from benchtrial.errors import DataError
from benchtrial.orchestrator.models import (
    fit_oscar,
    fixed_score_sensitivity,
    held_out_attenuation,
    joint_attenuation,
    omission_shift,
    population_sensitivity,
    swap_averaged,
)

Simulate = Callable[..., pd.DataFrame]


def both_orders(prompts: int, seed: int) -> pd.DataFrame:
    """Every prompt's pair in both orders; judges of D = 0, 0.46 and -0.76."""
    rng = np.random.default_rng(seed)
    scores, position = np.array([-0.6, -0.2, 0.2, 0.6]), np.array([0.0, 1.0, -2.0])
    first = rng.integers(0, 4, prompts)
    second = (first + rng.integers(1, 4, prompts)) % 4
    tables = []
    for judge in range(3):
        for a, b in ((first, second), (second, first)):
            p = special.expit(1.5 * (scores[a] - scores[b]) + position[judge])
            outcome = (rng.random(prompts) < p).astype(float)
            tables.append(
                pd.DataFrame(
                    {
                        "judge": judge,
                        "prompt": range(prompts),
                        "first": a,
                        "second": b,
                        "outcome": outcome,
                    }
                )
            )
    return pd.concat(tables, ignore_index=True)


def test_the_introductions_forty_sixty_example() -> None:
    """Appendix A.3 prints 0.528."""
    fitted = population_sensitivity(np.arange(1, 201) / 200, 1.0, first=0.4)
    assert fitted == pytest.approx(0.528, abs=5e-4)


def test_figure_1b() -> None:
    """Section 4.1 prints 0.077 at a position effect of 4, and 1 without one."""
    gaps = np.linspace(-1, 1, 401)
    assert population_sensitivity(gaps, 4.0) == pytest.approx(0.077, abs=5e-4)
    assert population_sensitivity(gaps, 0.0) == pytest.approx(1.0)


@settings(max_examples=30, deadline=None)
@given(position=st.floats(-3, 3), gamma=st.floats(0.1, 3))
def test_near_equal_quality_the_factor_is_exact(position: float, gamma: float) -> None:
    """Lemma A.3: the error is of second order in the gaps."""
    fitted = population_sensitivity([-0.01, 0.01], position, sensitivity=gamma)
    assert fitted / gamma == pytest.approx(1 - np.tanh(position / 2) ** 2, abs=1e-3)


def test_joint_fits_show_the_factor() -> None:
    table = both_orders(4000, seed=1)
    found = joint_attenuation(fit_oscar(table, terms=""), fit_oscar(table, terms="position"))
    # Gaps up to 1.8 logits flatten the curve less than the limit says; Monte Carlo error is 0.03.
    np.testing.assert_allclose(found["observed"], found["predicted"], atol=0.15)
    assert found["observed"].iloc[2] < 0.6


def test_fixed_score_refits_solve_their_own_equation() -> None:
    table = both_orders(200, seed=2)
    scores = pd.Series([-0.5, 0.0, 0.2, 0.3])
    position = pd.Series([0.1, 0.8, -1.5])
    fitted = fixed_score_sensitivity(table, scores, position)
    standard = (scores - scores.mean()) / np.sqrt(((scores - scores.mean()) ** 2).mean())
    for judge in range(3):
        mine = table[table["judge"] == judge]
        gap = (mine["first"].map(standard) - mine["second"].map(standard)).to_numpy()

        def loss(
            g: float, gap: np.ndarray = gap, mine: pd.DataFrame = mine, k: int = judge
        ) -> float:
            eta = g * gap + position[k]
            return float(np.sum(np.logaddexp(0, eta) - mine["outcome"] * eta) + 0.025 * g**2)

        best = optimize.minimize_scalar(
            loss, bounds=(0, 10), method="bounded", options={"xatol": 1e-9}
        )
        assert fitted[judge] == pytest.approx(best.x, abs=1e-5)


def test_a_contrary_judge_is_refitted_at_zero() -> None:
    table = both_orders(200, seed=3)
    fitted = fixed_score_sensitivity(table, pd.Series([0.6, 0.2, -0.2, -0.6]))
    assert (fitted == 0).all()


def test_missing_scores_are_named() -> None:
    with pytest.raises(DataError, match="no score for candidate"):
        fixed_score_sensitivity(both_orders(20, seed=4), pd.Series([0.0, 1.0]))


def test_held_out_attenuation_follows_the_prediction() -> None:
    found = held_out_attenuation(both_orders(6000, seed=5), seed=1).set_index("judge")
    np.testing.assert_allclose(found["d"], np.tanh(np.array([0, 1, -2]) / 2), atol=0.06)
    np.testing.assert_allclose(found["observed"], found["predicted"], atol=0.12)
    assert (found["adjusted"] > found["naive"]).iloc[1:].all()


def test_bootstrap_does_not_depend_on_where_it_runs() -> None:
    table = both_orders(150, seed=6)
    here = held_out_attenuation(table, seed=2, replicates=6)
    with ThreadPoolExecutor(2) as pool:
        there = held_out_attenuation(table, seed=2, replicates=6, executor=pool)
    pd.testing.assert_frame_equal(here, there)
    assert (here["low"] <= here["high"]).all()


def test_swap_and_average_keeps_the_attenuation() -> None:
    table = both_orders(4000, seed=7)
    averaged = swap_averaged(table)
    assert len(averaged) == 3 * 4000
    assert set(averaged["outcome"]) == {0.0, 0.5, 1.0}
    ratio = fit_oscar(averaged, terms="").kappa / fit_oscar(table, terms="position").kappa
    assert ratio[2] < 0.6
    assert ratio[0] == pytest.approx(1, abs=0.1)


def test_swap_and_average_aligns_by_hand() -> None:
    rows = [
        ("j", 0, "x", "y", 1.0),
        ("j", 0, "y", "x", 1.0),
        ("j", 1, "y", "x", 0.0),
        ("j", 1, "x", "y", 1.0),
        ("j", 2, "x", "y", 1.0),
    ]
    table = pd.DataFrame(rows, columns=["judge", "prompt", "first", "second", "outcome"])
    averaged = swap_averaged(table)
    assert averaged.set_index("prompt")["outcome"].to_dict() == {0: 0.5, 1: 1.0}
    assert set(averaged["first"]) == {"x"}


def test_balanced_orders_protect_to_first_order(simulate: Simulate) -> None:
    """Corollary 2: zero shift under balanced orders, a shift where order follows verbosity."""
    balanced = fit_oscar(both_orders(500, seed=8), terms="position")
    assert omission_shift(balanced)["shift"].abs().max() < 1e-10
    unbalanced = fit_oscar(simulate(1000, seed=8), terms="position")
    assert omission_shift(unbalanced)["shift"].abs().max() > 0.01


def test_the_shift_is_the_limit_of_refits(simulate: Simulate) -> None:
    """Theorem 1 against population refits: outcomes are exact means at small omitted effects."""
    table = simulate(2000, seed=9)
    fit = fit_oscar(table, terms="position", ridge=1e-9)
    small = 1e-3
    data = fit.data
    eta = fit.sensitivity.to_numpy()[data.judge] * (
        fit.scores.to_numpy()[data.first] - fit.scores.to_numpy()[data.second]
    )
    position = fit.position.to_numpy()[data.judge]
    table["outcome"] = special.expit(eta + small * position)
    moved = fit_oscar(table, terms="", ridge=1e-9)
    predicted = omission_shift(fit).set_index(["kind", "label"])["shift"]
    observed = (moved.scores - fit.scores) / small
    np.testing.assert_allclose(observed, predicted["score"], atol=2e-3)
    with pytest.raises(DataError, match="no length term"):
        omission_shift(fit, "length")
