"""The likelihood against a brute-force sum, its derivatives against finite differences."""

import numpy as np
import pandas as pd
import pytest

from benchtrial.orchestrator.models.glmm.model import Model, build
from benchtrial.orchestrator.models.glmm.scale import binary_scale, ordinal_scale
from benchtrial.orchestrator.models.glmm.table import read_ratings

LAG_CASES = [(), (-0.8,), (-0.8, 0.4, 0.3)]


def model_of(ratings, *, lags, response="binary", cold_start=True, weights=None) -> Model:
    table = read_ratings(ratings)
    scale = binary_scale(table) if response == "binary" else ordinal_scale([table], None)
    weights = np.ones(len(table.batches)) if weights is None else weights
    return build(
        [table],
        scale,
        [weights],
        lags=lags,
        ridge=0.0,
        cold_start=cold_start,
        response=response,
    )


def with_gaps(ratings: pd.DataFrame, *, omitted: float, unreadable: float) -> pd.DataFrame:
    generator = np.random.default_rng(3)
    kept = ratings[generator.random(len(ratings)) >= omitted].copy()
    kept["rating"] = kept["rating"].where(generator.random(len(kept)) >= unreadable)
    return kept


@pytest.fixture(params=LAG_CASES, ids=["no lag", "one lag", "three lags"])
def binary_case(request, simulate):
    """Batches of unequal size with unreadable ratings."""
    complete = simulate(
        [-1.0, -0.3, 0.2, 0.9, 1.4],
        12,
        lags=request.param,
        cold_start=0.5,
        batch_sd=0.9,
        seed=5,
    )
    return with_gaps(complete, omitted=0.1, unreadable=0.15), len(request.param)


def test_loglik_equals_the_brute_force_sum(binary_case, brute_force) -> None:
    ratings, lags = binary_case
    model = model_of(ratings, lags=lags)
    point = np.random.default_rng(1).normal(size=len(model.names))
    point[-1] = 1.3
    items = {
        label: value
        for (part, label), value in zip(model.names, point, strict=True)
        if part == "item"
    }
    expected = brute_force(ratings, items, point[5 : 5 + lags], point[5 + lags], 1.3)
    # Both are sums of about 12 logs; the grid's error is near 1e-13 per batch.
    assert model.likelihood.posterior(point).loglik == pytest.approx(expected, abs=1e-10)


def test_tiny_case_by_hand() -> None:
    """Two ratings, no intercept: 1 then 0 with theta = 0, beta = log 3, gamma = log 2.

    P(first = 1) = 2/3, P(second = 0 | first = 1) = 1/4: log-likelihood log(1/6) per batch.
    """
    ratings = pd.DataFrame(
        {
            "batch": [0, 0, 1, 1],
            "position": [1, 2, 1, 2],
            "item": list("abba"),
            "rating": [1, 0] * 2,
        }
    )
    table = read_ratings(ratings)
    model = build(
        [table],
        binary_scale(table),
        [np.ones(2)],
        lags=0,
        ridge=0.0,
        cold_start=True,
        response="binary",
    )
    assert model.likelihood.posterior(np.array([0, 0, np.log(2), 0])).loglik == pytest.approx(
        2 * np.log(2 / 3 * 1 / 2)
    )
    with_lag = pd.concat([ratings, ratings.assign(batch=ratings["batch"] + 2, rating=[0, 1, 0, 1])])
    model = model_of(with_lag, lags=1)
    point = np.array([0, 0, np.log(3), np.log(2), 0])
    # The other two batches are 0 then 1: (1/3) * (1/2).
    expected = 2 * np.log(1 / 6) + 2 * np.log(1 / 6)
    assert model.likelihood.posterior(point).loglik == pytest.approx(expected)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_derivatives_equal_finite_differences(binary_case, sparse, monkeypatch) -> None:
    if sparse:
        module = "benchtrial.orchestrator.models.glmm.matrices"
        monkeypatch.setattr(f"{module}.DENSE_CELLS", 0)
        monkeypatch.setattr(f"{module}.SMALL_DESIGN", 0)
    ratings, lags = binary_case
    weights = np.random.default_rng(2).exponential(size=ratings["batch"].nunique())
    likelihood = model_of(ratings, lags=lags, weights=weights).likelihood
    point = np.random.default_rng(1).normal(scale=0.7, size=likelihood.parameters)
    point[-1] = 0.8
    assert_derivatives(likelihood, point)


def test_ordinal_loglik_and_derivatives(simulate, brute_force) -> None:
    complete = simulate([-1.0, 0.0, 1.0], 14, lags=(0.5,), batch_sd=0.7, seed=8)
    complete["rating"] += simulate([-0.5, 0.5, 0.0], 14, seed=9)["rating"]
    complete["rating"] += simulate([-0.5, 0.5, 0.0], 14, seed=10)["rating"]
    ratings = with_gaps(complete, omitted=0.05, unreadable=0.1)
    model = model_of(ratings, lags=1, response="ordinal")
    point = np.array([-0.4, 0.1, 0.8, 0.6, -0.3, -1.1, 0.2, 0.9])
    assert [part for part, _ in model.names] == [
        *["item"] * 3,
        "lag",
        "cold start",
        *["threshold"] * 2,
        "batch sd",
    ]
    items = {f"item {v:02d}": value for v, value in enumerate(point[:3])}
    expected = brute_force(ratings, items, [0.6], -0.3, 0.9, thresholds=(-1.1, 0.2, 0.9))
    assert model.likelihood.posterior(point).loglik == pytest.approx(expected, abs=1e-10)
    assert_derivatives(model.likelihood, point)


def test_a_batch_far_from_the_rest_widens_the_grid(brute_force) -> None:
    """All of 60 accepted where a tenth would be: the posterior lies beyond 8 prior deviations."""
    rows = [(0, place, f"item {place:02d}", 1) for place in range(60)]
    rows += [(1, place, f"item {place:02d}", int(place == 7)) for place in range(60)]
    ratings = pd.DataFrame(rows, columns=["batch", "position", "item", "rating"])
    model = model_of(ratings, lags=0, cold_start=False)
    point = np.full(61, -7.0)
    point[-1] = 0.5
    items = {f"item {v:02d}": -7.0 for v in range(60)}
    posterior = model.likelihood.posterior(point)
    assert posterior.nodes[-1] > 8
    assert posterior.loglik == pytest.approx(brute_force(ratings, items, [], 0.0, 0.5), rel=1e-9)


def assert_derivatives(likelihood, point) -> None:
    """Compare with central differences; their own error is about 1e-9 of the largest entry."""
    posterior = likelihood.posterior(point)
    steps = 1e-4 * np.eye(len(point))
    # Richardson extrapolation of two central differences: error of order step^4.
    gradient = np.array(
        [
            (
                8 * (value(likelihood, point + s) - value(likelihood, point - s))
                - (value(likelihood, point + 2 * s) - value(likelihood, point - 2 * s))
            )
            / 12e-4
            for s in steps
        ]
    )
    np.testing.assert_allclose(posterior.gradient, gradient, atol=1e-7)
    hessian = np.array(
        [
            (
                8 * (slope(likelihood, point + s) - slope(likelihood, point - s))
                - (slope(likelihood, point + 2 * s) - slope(likelihood, point - 2 * s))
            )
            / 12e-4
            for s in steps
        ]
    )
    np.testing.assert_allclose(
        posterior.hessian(), hessian, rtol=1e-6, atol=1e-8 * np.abs(hessian).max()
    )


def value(likelihood, point):
    return likelihood.posterior(point).loglik


def slope(likelihood, point):
    return likelihood.posterior(point).gradient
