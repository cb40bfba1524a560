"""How the contrasts of a family share alpha."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from benchtrial.errors import StoppingError
from benchtrial.orchestrator.models.estimate import Estimate
from benchtrial.orchestrator.sequential import (
    Best,
    Difference,
    Look,
    Ranking,
    StoppingPlan,
    boundaries,
    spent_alpha,
    take_look,
)
from benchtrial.orchestrator.sequential.maxz import max_z_quantile, score_covariance

NAMES = ("a", "b", "c")
HOLM = StoppingPlan(target=Ranking(NAMES), futility=None, rope=0.0)


def look_at(plan, history, values, se, clock, *, final=False):
    estimates = {
        pair: Estimate.wald(value, se)
        for pair, value in zip(plan.target.pairs(), values, strict=True)
    }
    return take_look(plan, history, estimates, clock=clock, final=final)


class TestHolm:
    def test_it_starts_as_bonferroni(self):
        look = look_at(HOLM, [], [0.1, 0.1, 0.1], 0.5, 0.4)
        expected = boundaries("kim-demets", [0.4, 1.0], alpha=0.05 / 3)[0]
        assert [contrast.bound for contrast in look.contrasts] == [pytest.approx(expected)] * 3

    def test_a_decided_pair_passes_its_alpha_on_at_once(self):
        z = [norm.isf(0.05 / 3 * 0.16 / 2) + 0.01, norm.isf(0.05 / 2 * 0.16 / 2) + 0.01, 0.0]
        look = look_at(HOLM, [], [0.5 * value for value in z], 0.5, 0.4)
        assert [contrast.verdict for contrast in look.contrasts] == ["first", "first", "undecided"]
        assert look.contrasts[1].bound == pytest.approx(norm.isf(0.05 / 2 * 0.16 / 2))
        assert look.contrasts[2].bound == pytest.approx(norm.isf(0.05 * 0.16 / 2))
        # Alone, the second would not have done.
        alone = look_at(HOLM, [], [0.0, 0.5 * z[1], 0.0], 0.5, 0.4)
        assert alone.contrasts[1].verdict == "undecided"

    def test_intervals_stay_at_the_level_at_which_they_hold_together(self):
        look = look_at(HOLM, [], [9.0, 9.0, 0.1], 0.5, 0.4)
        width = 0.5 * norm.isf(0.05 / 3 * 0.16 / 2)
        assert look.contrasts[2].low == pytest.approx(0.1 - width)

    def test_raised_levels_spend_increments_and_nothing_for_the_past(self):
        first = look_at(HOLM, [], [0.0, 0.0, 0.0], 0.5, 0.4)
        second = look_at(HOLM, [first], [9.0, 0.0, 0.0], 0.4, 0.7)
        third = look_at(HOLM, [first, second], [0.0, 0.0, 0.0], 0.3, 1.0, final=True)
        spent = [look.contrasts[2].alpha_spent for look in (first, second, third)]
        base, raised = 0.05 / 3, 0.05 / 2
        assert spent == pytest.approx(
            [base * 0.16, base * 0.16 + raised * (0.49 - 0.16), base * 0.16 + raised * 0.84]
        )
        # Never below the bounds of a plan that had the raised level from the start.
        information = [1 / 0.25, 1 / 0.16, 1 / 0.09]
        constant = boundaries("kim-demets", [0.4, 0.7, 1.0], alpha=raised, information=information)
        bounds = np.array([look.contrasts[2].bound for look in (first, second, third)])
        assert (bounds >= constant - 1e-9).all()
        assert Look.from_json(third.to_json()) == third

    def test_under_a_confidence_sequence_the_level_rises_too(self):
        plan = replace(HOLM, rule="confidence-sequence", optimal_information=10.0)
        look = look_at(plan, [], [9.0, 9.0, 0.1], 0.5, 0.4)
        assert [contrast.alpha_spent for contrast in look.contrasts] == pytest.approx(
            [0.05 / 3, 0.05 / 3, 0.05]
        )

    def test_a_pair_that_cannot_be_estimated_keeps_its_share(self):
        look = look_at(HOLM, [], [9.0, np.nan, 0.1], 0.5, 0.4)
        assert look.contrasts[2].bound == pytest.approx(norm.isf(0.05 / 2 * 0.16 / 2))


class TestMaxZ:
    PLAN = StoppingPlan(target=Ranking(NAMES, family="max-z"), futility=None, rope=0.0)

    def test_covariance_of_pairs_from_their_variances(self):
        # Scores with variances 1, 2, 4: a - b, a - c, b - c.
        pairs = (("a", "b"), ("a", "c"), ("b", "c"))
        information = (1 / 3, 1 / 5, 1 / 6)
        covariance = score_covariance(pairs, information)
        expected = np.array([[3, 1, -2], [1, 5, 4], [-2, 4, 6]])
        np.testing.assert_allclose(covariance, expected * np.outer(information, information))

    def test_one_bound_for_all_below_bonferroni(self):
        look = look_at(self.PLAN, [], [0.1, 0.1, 0.1], 0.5, 0.5)
        bounds = {contrast.bound for contrast in look.contrasts}
        assert len(bounds) == 1
        # Three pairs of three equal scores at level a: Tukey's range, q / sqrt 2. At 1.25 % this
        # is 2.82 (scipy.stats.studentized_range.isf(0.0125, 3, 1e5) / sqrt 2); 500 crossings
        # place it within 0.05.
        assert bounds.pop() == pytest.approx(2.82, abs=0.05)
        assert look.contrasts[0].bound < norm.isf(0.0125 / 3 / 2)

    def test_paths_spend_what_the_rule_says(self):
        pairs = self.PLAN.target.pairs()
        history = []
        for k in range(1, 5):
            look = look_at(self.PLAN, history, [0.1, 0.1, 0.1], k**-0.5, k / 4)
            history.append(look)
        rng = np.random.default_rng(3)
        draws = 20_000
        scores, crossed = np.zeros((draws, 3)), np.zeros(draws, dtype=bool)
        for k, look in enumerate(history, start=1):
            scores += rng.normal(size=(draws, 3)) / np.sqrt(2)
            z = np.abs([scores[:, NAMES.index(a)] - scores[:, NAMES.index(b)] for a, b in pairs])
            crossed |= (z / np.sqrt(k)).max(axis=0) > look.contrasts[0].bound
            # Four standard errors of this simulation and of the one that placed the bounds.
            level = spent_alpha("kim-demets", k / 4, alpha=0.05)
            assert crossed.mean() == pytest.approx(level, abs=4 * (level * 1.5 / draws) ** 0.5)

    def test_without_a_common_past_it_is_bonferroni(self):
        first = look_at(self.PLAN, [], [0.1, np.nan, 0.1], 0.5, 0.4)
        assert not first.contrasts[1].tested
        assert first.contrasts[0].bound == pytest.approx(norm.isf(0.05 / 3 * 0.16 / 2))
        second = look_at(self.PLAN, [first], [0.1, 0.1, 0.1], 0.4, 0.8)
        assert second.contrasts[1].bound == pytest.approx(norm.isf(0.05 / 3 * 0.64 / 2))

    def test_spends_too_small_to_simulate_are_bonferroni_s(self):
        pairs = self.PLAN.target.pairs()
        assert max_z_quantile(pairs, (), ((1.0, 1.0, 1.0),), 1e-6) is None
        look = look_at(replace(self.PLAN, rule="obrien-fleming"), [], [0.1, 0.1, 0.1], 0.5, 0.1)
        assert 5.0 < look.contrasts[0].bound < 10.0

    def test_decided_pairs_stay_decided_and_in_the_family(self):
        first = look_at(self.PLAN, [], [3.0, 3.0, 0.1], 0.5, 0.4)
        second = look_at(self.PLAN, [first], [0.0, 0.0, 0.1], 0.4, 0.7)
        assert [contrast.verdict for contrast in second.contrasts] == [
            "first",
            "first",
            "undecided",
        ]
        assert len({contrast.bound for contrast in second.contrasts}) == 1

    @pytest.mark.parametrize("rule", ["confidence-sequence", "unsafe-fixed"])
    def test_it_needs_a_spending_rule(self, rule):
        with pytest.raises(StoppingError, match="cannot be combined with max-z"):
            replace(self.PLAN, rule=rule)


def test_best_tests_every_contrast_at_the_full_level():
    plan = StoppingPlan(target=Best(NAMES), futility=None)
    look = look_at(plan, [], [0.1, 0.1, 0.1], 0.5, 0.4)
    one = look_at(replace(plan, target=Difference("a", "b")), [], [0.1], 0.5, 0.4)
    assert {contrast.bound for contrast in look.contrasts} == {one.contrasts[0].bound}
