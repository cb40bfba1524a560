"""The fit of one judge: maximum, invariances, contrasts, separation, and bad input."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from benchtrial.errors import DataError, NotIdentified
from benchtrial.orchestrator.models import fit_glmm, fit_glmm_panel

QUALITIES = np.array([-1.0, -0.4, 0.0, 0.3, 0.8, 1.3])


@pytest.fixture
def ratings(simulate) -> pd.DataFrame:
    return simulate(QUALITIES, 60, lags=(-0.8,), cold_start=0.6, batch_sd=0.7, seed=4)


def test_fit_is_the_maximum_of_the_brute_force_likelihood(simulate, brute_force) -> None:
    ratings = simulate([-0.5, 0.2, 0.9], 25, lags=(-0.7,), batch_sd=0.8, seed=2)
    ridge = 0.05
    fit = fit_glmm(ratings, ridge=ridge)

    def loss(point: np.ndarray) -> float:
        items = dict(zip(fit.items.index, point[:3], strict=True))
        value = brute_force(ratings, items, point[3:4], point[4], point[5])
        return ridge / 2 * float((point[:5] ** 2).sum()) - value

    start = np.array([*fit.items, *fit.lags, fit.cold_start, fit.batch_sd])
    found = minimize(loss, start + 0.1, method="BFGS", options={"gtol": 1e-7})
    # BFGS on numerical gradients stops at about 1e-5 of the maximum.
    np.testing.assert_allclose(start, found.x, atol=5e-5)
    assert fit.loglik == pytest.approx(
        brute_force(ratings, dict(fit.items), list(fit.lags), fit.cold_start, fit.batch_sd),
        abs=1e-9,
    )
    assert fit.gradient_norm < 1e-8


def test_truth_is_recovered(simulate) -> None:
    ratings = simulate(QUALITIES, 1500, lags=(-0.8, 0.3), cold_start=0.6, batch_sd=0.7, seed=11)
    fit = fit_glmm(ratings, lags=2)
    errors = fit.standard_errors
    truth = [*QUALITIES, -0.8, 0.3, 0.6, 0.7]
    # Ten parameters within 3.5 standard errors: misses a correct fit once in 200 seeds.
    assert (np.abs(fit.parameters.to_numpy() - truth) < 3.5 * errors.to_numpy()).all()
    assert fit.converged
    assert fit.warnings == ()


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_order_of_rows_and_names_of_items_do_not_matter(seed) -> None:
    generator = np.random.default_rng(seed)
    rows = [
        (batch, place, item, int(generator.random() < 0.5))
        for batch in range(8)
        for place, item in enumerate(generator.permutation(4))
    ]
    ratings = pd.DataFrame(rows, columns=["batch", "position", "item", "rating"])
    fit = fit_glmm(ratings)
    mixed = ratings.sample(frac=1, random_state=seed % 1000)
    assert fit_glmm(mixed).items.to_numpy().tolist() == fit.items.to_numpy().tolist()
    names = dict(enumerate(generator.permutation(["x", "a", "q", "m"])))
    renamed = fit_glmm(ratings.assign(item=ratings["item"].map(names)))
    for old, new in names.items():
        # Another order of summation: equal up to rounding.
        assert renamed.items[new] == pytest.approx(fit.items[old], abs=1e-9)
    assert renamed.batch_sd == pytest.approx(fit.batch_sd, abs=1e-9)


def test_weights_are_repetitions_of_batches(ratings) -> None:
    again = ratings[ratings["batch"] < 10].assign(batch=lambda rows: rows["batch"] + 1000)
    doubled = fit_glmm(pd.concat([ratings, again]))
    weights = pd.Series(1.0, index=ratings["batch"].unique())
    weights[:10] = 2.0
    weighted = fit_glmm(ratings, weights=weights)
    pd.testing.assert_series_equal(weighted.items, doubled.items, atol=1e-8)
    assert weighted.loglik == pytest.approx(doubled.loglik)
    np.testing.assert_allclose(weighted.covariance, doubled.covariance, atol=1e-8)


def test_an_omitted_item_is_no_zero(ratings) -> None:
    """Positions with a gap mean what the same order without a gap means."""
    kept = ratings.drop(ratings.index[(ratings["position"] == 3) & (ratings["batch"] < 20)])
    closed = kept.assign(position=kept.groupby("batch")["position"].rank())
    pd.testing.assert_series_equal(fit_glmm(kept).items, fit_glmm(closed).items)


def test_unreadable_ratings_are_summed_over_and_said(ratings) -> None:
    ratings["rating"] = ratings["rating"].astype(float)
    ratings.loc[ratings.index[[3, 20, 21]], "rating"] = np.nan
    fit = fit_glmm(ratings)
    assert any("3 of 360 ratings could not be read" in said for said in fit.warnings)
    last = ratings[ratings["position"] == 6].index[0]
    ratings.loc[last, "rating"] = np.nan
    np.testing.assert_allclose(fit_glmm(ratings).items, fit_glmm(ratings.drop(last)).items)


def test_contrasts_use_the_whole_covariance(ratings) -> None:
    fit = fit_glmm(ratings)
    estimate = fit.contrast({"item 05": 1, "item 00": -1})
    block = fit.covariance.loc["item", "item"]
    variance = (
        block.loc["item 05", "item 05"]
        + block.loc["item 00", "item 00"]
        - 2 * block.loc["item 05", "item 00"]
    )
    assert estimate.value == pytest.approx(fit.items["item 05"] - fit.items["item 00"])
    assert estimate.se == pytest.approx(np.sqrt(variance))
    groups = pd.Series(["a", "a", "a", "b", "b", "shared"], index=fit.items.index)
    difference = fit.group_difference(groups, "b", "a")
    expected = fit.items.iloc[3:5].mean() - fit.items.iloc[:3].mean()
    assert difference.value == pytest.approx(expected)
    assert "these items fixed" in difference.label
    assert "60 batches" in difference.label
    assert difference.low < difference.value < difference.high


def test_sandwich_is_the_spread_of_scores_between_batches(ratings) -> None:
    """H^-1 (sum of squared centred batch scores) H^-1 n/(n-1), scores by finite differences."""
    fit = fit_glmm(ratings, ridge=0.0)
    base = fit.parameters.to_numpy()
    likelihood = fit.engine.model.likelihood
    scores = np.column_stack(
        [
            (
                likelihood.posterior(base + step).evidence
                - likelihood.posterior(base - step).evidence
            )
            / 2e-5
            for step in 1e-5 * np.eye(len(base))
        ]
    )
    half = scores @ fit.covariance.to_numpy()
    np.testing.assert_allclose(fit.sandwich, half.T @ half * 60 / 59, rtol=1e-4, atol=1e-6)
    blocks = ratings.assign(block=ratings["batch"] // 6)
    assert "block-robust" in fit_glmm(blocks).contrast({"item 00": 1}, covariance="sandwich").label


class TestSeparation:
    """An item that is always accepted has no finite estimate of its own."""

    @pytest.fixture
    def separated(self, ratings) -> pd.DataFrame:
        return ratings.assign(rating=ratings["rating"].where(ratings["item"] != "item 05", 1))

    def test_it_is_named_and_its_contrast_has_no_interval(self, separated) -> None:
        fit = fit_glmm(separated)
        assert fit.separated == ("item 05",)
        assert any("'item 05'" in said for said in fit.warnings)
        estimate = fit.contrast({"item 05": 1, "item 00": -1})
        assert estimate.prior_driven
        assert np.isnan([estimate.low, estimate.high, estimate.p]).all()
        assert not fit.contrast({"item 04": 1, "item 00": -1}).prior_driven

    def test_a_group_is_prior_driven_only_if_the_ridge_decides(self, separated) -> None:
        fit = fit_glmm(separated)
        clear = fit.group_difference(
            dict.fromkeys(fit.items.index[3:], "b") | dict.fromkeys(fit.items.index[:3], "a"),
            "b",
            "a",
        )
        assert not clear.prior_driven
        assert "stand at a quarter" in clear.label
        close = fit.group_difference({"item 05": "b", "item 00": "b", "item 04": "a"}, "b", "a")
        assert close.prior_driven
        assert "change at a quarter" in close.label

    def test_without_a_ridge_it_is_refused(self, separated) -> None:
        with pytest.raises(NotIdentified, match=r"'item 05'.*positive ridge"):
            fit_glmm(separated, ridge=0.0)

    def test_half_of_the_items_separated_is_saturation(self, ratings) -> None:
        top = ratings["item"].isin(["item 03", "item 04", "item 05"])
        fit = fit_glmm(ratings.assign(rating=ratings["rating"].where(~top, 1)))
        assert fit.saturation == "3 of 6 items never change their rating"
        accepted = ratings["rating"].where(ratings["batch"] < 4, 1)
        assert "acceptance 0.9" in (fit_glmm(ratings.assign(rating=accepted)).saturation or "")

    def test_c48_complete_separation(self) -> None:
        """12 items x 3 systems, pass ~ system + (1 | item): A always, B half, C never."""
        rows = [
            (item, place, system, rating)
            for item in range(1, 13)
            for place, (system, rating) in enumerate([("A", 1), ("B", item % 2), ("C", 0)])
        ]
        ratings = pd.DataFrame(rows, columns=["batch", "position", "item", "rating"])
        fit = fit_glmm(ratings, lags=0, cold_start=False)
        assert fit.separated == ("A", "C")
        assert np.isnan(fit.contrast({"A": 1, "C": -1}).p)
        assert fit.items["B"] == pytest.approx(0, abs=1e-9)
        assert fit.items["A"] == pytest.approx(-fit.items["C"])


def test_no_spread_of_batches_is_a_result(simulate) -> None:
    """Independent ratings of a seed whose best variance is zero; equal to a plain logistic fit."""
    ratings = simulate(QUALITIES, 40, seed=0)
    fit = fit_glmm(ratings, lags=0, cold_start=False, ridge=0.0)
    assert fit.batch_sd == 0.0
    assert any("zero, the edge of its range" in said for said in fit.warnings)
    share = ratings.groupby("item")["rating"].mean()
    np.testing.assert_allclose(fit.items, np.log(share / (1 - share)), atol=1e-8)
    assert np.isnan(fit.standard_errors["batch sd", ""])
    expected = 1 / np.sqrt(40 * share * (1 - share))
    np.testing.assert_allclose(fit.standard_errors["item"], expected, rtol=1e-6)
    assert fit.contrast({"item 00": 1, "item 05": -1}).p < 1


class TestBadInput:
    """One clear error, naming the row and the remedy."""

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda t: t.assign(rating=t["rating"].replace(1, 2)), "rating 2 of item .*0 or 1"),
            (lambda t: t.assign(rating=np.inf), "rating inf is infinite"),
            (lambda t: t.assign(rating="yes"), "rating 'yes' is no number"),
            (lambda t: t.assign(position=1), "position 1 occurs twice in batch 0"),
            (lambda t: t.assign(position=np.nan), "position nan is missing"),
            (lambda t: t.assign(item=None), "item None is missing|item nan is missing"),
            (lambda t: t.drop(columns="item"), "lack the column 'item'"),
            (lambda t: t.iloc[:0], "is empty"),
            (lambda t: t.assign(judge=t["batch"] % 2), "2 values of 'judge'.*fit_glmm_panel"),
            (lambda t: t.assign(block=t["position"]), "lies in two design blocks"),
        ],
    )
    def test_tables(self, ratings, change, message) -> None:
        with pytest.raises(DataError, match=message):
            fit_glmm(change(ratings))

    @pytest.mark.parametrize(
        ("settings_", "message"),
        [
            ({"lags": -1}, "lags must be a whole number"),
            ({"ridge": -0.1}, "ridge must be"),
            ({"response": "poisson"}, "response must be"),
            ({"weights": pd.Series({0: 1.0})}, "weights lack batch 1, 2"),
            ({"weights": pd.Series(-1.0, index=range(60))}, "not negative"),
        ],
    )
    def test_arguments(self, ratings, settings_, message) -> None:
        with pytest.raises(DataError, match=message):
            fit_glmm(ratings, **settings_)

    def test_equal_ratings(self, ratings) -> None:
        with pytest.raises(NotIdentified, match="all 360 ratings are 1"):
            fit_glmm(ratings.assign(rating=1))

    def test_an_item_without_a_readable_rating(self, ratings) -> None:
        unread = ratings["rating"].where(ratings["item"] != "item 02")
        with pytest.raises(NotIdentified, match="no rating of item 'item 02'"):
            fit_glmm(ratings.assign(rating=unread))

    def test_one_fixed_order_does_not_identify_the_cold_start(self, ratings) -> None:
        ordered = ratings.sort_values(["batch", "item"])
        ordered["position"] = ordered.groupby("batch").cumcount() + 1
        with pytest.raises(NotIdentified, match="cold start cannot be told apart from the items"):
            fit_glmm(ordered, lags=0)

    def test_a_lag_that_no_batch_is_long_enough_for(self, ratings) -> None:
        with pytest.raises(NotIdentified, match="lag 6 never differs"):
            fit_glmm(ratings, lags=6)

    def test_a_batch_with_one_item_is_said(self, ratings) -> None:
        short = ratings[(ratings["batch"] != 7) | (ratings["position"] == 1)]
        assert any("batch 7 has a single rating" in said for said in fit_glmm(short).warnings)

    def test_one_batch_leaves_its_effect_out(self, simulate) -> None:
        fit = fit_glmm(simulate(np.zeros(30), 1, seed=1), lags=0, cold_start=False)
        assert fit.batch_sd == 0.0
        assert any("cannot be estimated" in said for said in fit.warnings)

    def test_groups(self, ratings) -> None:
        fit = fit_glmm(ratings)
        groups = {"item 00": "a", "item 01": "b"}
        with pytest.raises(
            DataError, match="no item belongs to group 'c'; the groups are 'a', 'b'"
        ):
            fit.group_difference(groups, "a", "c")
        with pytest.raises(DataError, match="two groups"):
            fit.group_difference(groups, "a", "a")
        with pytest.raises(DataError, match="'item 99' was not rated"):
            fit.contrast({"item 99": 1})
        assert "single item" in fit.group_difference(groups, "a", "b").label

    def test_too_many_unreadable_ratings_in_a_batch(self, simulate) -> None:
        ratings = simulate(np.zeros(20), 3, seed=0)
        ratings["rating"] = ratings["rating"].where(
            (ratings["batch"] > 0) | (ratings["position"] > 15)
        )
        with pytest.raises(DataError, match="batch 0 has 15 unreadable ratings"):
            fit_glmm(ratings)


class TestPanel:
    """Judges fitted separately, and their mean."""

    @pytest.fixture
    def panel(self, simulate):
        return fit_glmm_panel(
            pd.concat(
                simulate(QUALITIES, 50, lags=(-0.5,), batch_sd=0.5, seed=seed).assign(judge=judge)
                for seed, judge in enumerate(["one", "two", "three"])
            )
        )

    def test_it_maps_judges_to_fits(self, panel, simulate) -> None:
        assert list(panel) == ["one", "two", "three"]
        alone = fit_glmm(simulate(QUALITIES, 50, lags=(-0.5,), batch_sd=0.5, seed=1))
        pd.testing.assert_series_equal(panel["two"].items, alone.items)
        assert panel["two"].judge == "two"

    def test_a_contrast_is_the_mean_of_independent_ones(self, panel) -> None:
        weights = {"item 00": 1, "item 05": -1}
        parts = [fit.contrast(weights) for fit in panel.values()]
        mean = panel.contrast(weights)
        assert mean.value == pytest.approx(np.mean([part.value for part in parts]))
        assert mean.se == pytest.approx(np.sqrt(sum(part.se**2 for part in parts)) / 3)
        assert panel.contrast(weights, panel=["two"]) == parts[1]
        groups = {"item 00": "a", "item 05": "b"}
        assert panel.group_difference(groups, "a", "b").value == pytest.approx(mean.value)

    def test_bad_panels(self, panel, ratings) -> None:
        with pytest.raises(DataError, match="names judge 'four'; fitted are 'one'"):
            panel.contrast({"item 00": 1}, panel=["four"])
        with pytest.raises(DataError, match="empty"):
            panel.contrast({"item 00": 1}, panel=[])
        with pytest.raises(DataError, match="column 'judge'"):
            fit_glmm_panel(ratings)
