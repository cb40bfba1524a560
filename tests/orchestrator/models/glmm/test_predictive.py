"""Predictive checks, the order of memory, and estimates about new items."""

import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest

from benchtrial.errors import DataError, NotIdentified
from benchtrial.orchestrator.models import fit_glmm
from benchtrial.orchestrator.models.glmm import choose_lags
from benchtrial.orchestrator.models.glmm.new_items import regress_items
from benchtrial.orchestrator.models.glmm.predictive import Process, _conditional_entropy, _joint
from benchtrial.orchestrator.models.glmm.predictive import simulate as simulate_levels
from benchtrial.orchestrator.models.glmm.scale import Scale
from benchtrial.orchestrator.models.glmm.table import read_ratings

QUALITIES = np.linspace(-1.0, 1.4, 8)


class TestPredictiveCheck:
    @pytest.fixture
    def ratings(self, simulate) -> pd.DataFrame:
        return simulate(QUALITIES, 150, lags=(-1.2,), cold_start=0.8, batch_sd=0.6, seed=1)

    def test_a_true_model_covers_and_a_wrong_one_does_not(self, simulate, ratings) -> None:
        new = simulate(QUALITIES, 100, lags=(-1.2,), cold_start=0.8, batch_sd=0.6, seed=2)
        check = fit_glmm(ratings).predictive_check(new, draws=300, seed=5)
        assert len(check.table) == 15  # 3 lags x 4 transitions, 3 entropies
        # 15 correlated intervals of 95 %, parameters estimated: four misses would be very many.
        assert check.table["covered"].sum() >= 12
        blind = fit_glmm(ratings, lags=0).predictive_check(new, draws=300, seed=5)
        first = blind.table[(blind.table["quantity"] == "transition") & (blind.table["order"] == 1)]
        assert not first["covered"].any()

    def test_observed_transitions_by_hand(self) -> None:
        """0 1 1 | 1 0: within batches 0>1, 1>1, 1>0."""
        levels = np.array([[0, 1, 1, 1, 0]])
        joint = _joint(levels[:, :-1], levels[:, 1:], np.array([True, True, False, True]), 2)
        assert joint[0].tolist() == [[0, 1], [1, 1]]
        # H(next | previous): 1/3 of pairs are certain, 2/3 carry one bit.
        assert _conditional_entropy(joint) == pytest.approx([2 / 3])

    def test_same_seed_same_table_and_a_plot(self, simulate, ratings) -> None:
        fit, new = fit_glmm(ratings), simulate(QUALITIES, 20, seed=3)
        check = fit.predictive_check(new, draws=50, seed=5)
        pd.testing.assert_frame_equal(
            check.table, fit.predictive_check(new, draws=50, seed=5).table
        )
        drawing = ET.fromstring(check.to_svg())  # noqa: S314  (our own text)
        assert len(list(drawing.iter("{http://www.w3.org/2000/svg}circle"))) == len(check.table)

    def test_bad_input(self, simulate, ratings) -> None:
        fit = fit_glmm(ratings)
        new = simulate(QUALITIES, 20, seed=3)
        with pytest.raises(DataError, match="too few"):
            fit.predictive_check(new, draws=10, seed=0)
        with pytest.raises(DataError, match="'other' was not part"):
            fit.predictive_check(new.assign(item="other", position=range(160)), draws=50, seed=0)
        with pytest.raises(DataError, match="never seen"):
            fit.predictive_check(new.assign(rating=3), draws=50, seed=0)


class TestLagOrder:
    def test_the_order_that_drew_the_ratings_wins(self, simulate) -> None:
        ratings = simulate(QUALITIES, 150, lags=(-1.0, -0.9), batch_sd=0.5, seed=7)
        choice = choose_lags(ratings, folds=5, seed=1)
        assert (choice.by_aic, choice.by_bic, choice.by_held_out) == (2, 2, 2)
        assert choice.smallest_adequate == 2
        assert choice.table.index.tolist() == [0, 1, 2, 3]
        assert choice.table.loc[2, "behind"] == 0

    def test_held_out_is_the_likelihood_of_the_batches_left_out(
        self, simulate, brute_force
    ) -> None:
        ratings = simulate([-0.5, 0.2, 0.9], 30, lags=(-0.7,), batch_sd=0.8, seed=2)
        choice = choose_lags(ratings, orders=[1], folds=2, seed=3)
        part = np.random.default_rng(3).permutation(30) % 2
        expected = 0.0
        for fold in (0, 1):
            inside = ratings["batch"].isin(np.flatnonzero(part == fold))
            fit = fit_glmm(ratings[~inside])
            expected += brute_force(
                ratings[inside], dict(fit.items), fit.lags, fit.cold_start, fit.batch_sd
            )
        assert choice.table.loc[1, "held_out"] == pytest.approx(expected, abs=1e-4)

    def test_bad_input(self, simulate) -> None:
        with pytest.raises(DataError, match="folds do not fit"):
            choose_lags(simulate(QUALITIES, 4, seed=0), folds=5, seed=0)


class TestNewItems:
    """Items random: the spread of items joins the error."""

    def test_more_batches_do_not_remove_the_spread_of_items(self, simulate) -> None:
        generator = np.random.default_rng(5)
        qualities = np.append(generator.normal(0.3, 1.0, 8), generator.normal(0.0, 0.3, 8))
        ratings = simulate(qualities, 400, batch_sd=0.5, seed=4)
        fit = fit_glmm(ratings)
        groups = {item: "a" if v < 8 else "b" for v, item in enumerate(fit.items.index)}
        fixed = fit.group_difference(groups, "a", "b")
        random = fit.new_item_difference(groups, "a", "b")
        # With qualities nearly known: sd of a mean of 8 is sqrt(var_a / 8 + var_b / 8).
        spread = np.sqrt(sum(np.var(part, ddof=1) for part in np.split(qualities, 2)) / 8)
        assert random.se == pytest.approx(spread, rel=0.1)
        assert random.se > 3 * fixed.se
        assert random.value == pytest.approx(fixed.value, abs=0.1)
        assert "items random" in random.label
        assert random.high - random.value > 2.1 * random.se  # a t interval of few items

    def test_properties_of_items(self, simulate) -> None:
        generator = np.random.default_rng(6)
        length = generator.normal(size=40)
        ratings = simulate(0.8 * length + generator.normal(0, 0.4, 40), 150, seed=5)
        fit = fit_glmm(ratings)
        regression = fit.item_regression(pd.DataFrame({"length": length}, index=fit.items.index))
        slope = regression.estimate({"length": 1.0})
        assert slope.low < 0.8 < slope.high
        assert slope.se == pytest.approx(0.45 / np.sqrt(40), rel=0.3)
        assert regression.item_sd["all"] == pytest.approx(0.4, abs=0.15)

    def test_refusals(self, simulate) -> None:
        fit = fit_glmm(simulate(QUALITIES, 40, seed=4))
        groups = dict(zip(fit.items.index, "aabbbbbb", strict=True))
        with pytest.raises(NotIdentified, match="group 'a'"):
            fit.new_item_difference(groups, "a", "b")
        same = pd.DataFrame({"x": 1.0, "y": range(8)}, index=fit.items.index)
        with pytest.raises(NotIdentified, match="say the same"):
            fit.item_regression(same)
        with pytest.raises(DataError, match="lack item"):
            fit.item_regression(same.iloc[:3])

    def test_equal_errors_give_the_textbook_spread(self) -> None:
        """Errors c I and one mean: tau^2 + c is the sample variance with divisor n - 1 (REML)."""
        values = pd.Series([0.1, 0.9, 1.7, -0.4, 2.2], index=list("abcde"))
        one = pd.DataFrame({"mean": 1.0}, index=values.index)
        found = regress_items(values, 0.2 * np.eye(5), one, ["all"] * 5, label="")
        assert found.item_sd["all"] ** 2 + 0.2 == pytest.approx(values.var(ddof=1), rel=1e-4)
        assert found.coefficients["mean"] == pytest.approx(values.mean())
        assert found.covariance.iloc[0, 0] == pytest.approx(values.var(ddof=1) / 5, rel=1e-4)


def test_simulated_batches_follow_the_kernel(simulate) -> None:
    """First ratings at expit(theta + gamma) without a spread of batches; 4 sd of 40 000 draws."""
    table = read_ratings(simulate([0.3, 0.3], 40, seed=1))
    process = Process(np.array([0.3, 0.3]), np.array([-1.0]), 0.8, 0.0, np.zeros(1))
    scale = Scale((0.0, 1.0), np.array([0.0, 1.0]))
    levels = simulate_levels(process, table, scale, 1000, np.random.default_rng(2))
    first = 1 / (1 + np.exp(-1.1))
    assert levels[:, ::2].mean() == pytest.approx(first, abs=0.01)
    second = first / (1 + np.exp(0.7)) + (1 - first) / (1 + np.exp(-0.3))
    assert levels[:, 1::2].mean() == pytest.approx(second, abs=0.01)
