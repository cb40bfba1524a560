"""Taking looks: every end state, the alpha that is spent, and what may never stop a study."""

from dataclasses import replace
from math import inf, isfinite, isnan, log, nan, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from benchtrial.errors import StoppingError
from benchtrial.orchestrator.models.estimate import Estimate
from benchtrial.orchestrator.sequential import (
    Best,
    Difference,
    Futility,
    Look,
    StoppingPlan,
    boundaries,
    confidence_sequence,
    spent_alpha,
    take_look,
)

AB = ("A", "B")
PLAN = StoppingPlan(target=Difference("A", "B"), rope=0.1)
EAGER = replace(PLAN, futility=Futility(from_look=1))
NEVER_GIVES_UP = replace(PLAN, futility=None)
RULES = ("kim-demets", "obrien-fleming", "pocock", "confidence-sequence", "unsafe-fixed")


def estimate(value, se, **options):
    return Estimate.wald(value, se, **options)


def look_at(plan, history, value, se, clock, *, final=False, **reasons):
    return take_look(plan, history, {AB: estimate(value, se)}, clock=clock, final=final, **reasons)


def campaign(plan, values, errors, clocks):
    """Take looks until the study ends; the last clock is final."""
    history = []
    for value, se, clock in zip(values, errors, clocks, strict=True):
        history.append(look_at(plan, history, value, se, clock, final=clock == clocks[-1]))
        if history[-1].decision.state != "continue":
            break
    return history


class TestEndStates:
    def test_decided(self):
        look = look_at(PLAN, [], 2.0, 0.3, 0.4)
        assert look.decision.state == "decided"
        assert look.decision.winner == "A"
        assert look.decision.answer == ("A",)
        assert look.decision.sentence == (
            "look 1, 40% of the study: A beats B: A - B = +2.000 (se 0.300, interval +1.204 to "
            "+2.796, |z| 6.67, bound 2.65)"
        )
        assert look_at(PLAN, [], -2.0, 0.3, 0.4).decision.winner == "B"

    def test_equivalent(self):
        look = look_at(PLAN, [], 0.01, 0.02, 0.5)
        assert look.decision.state == "equivalent"
        assert look.decision.winner is None
        assert "A and B are practically the same" in look.decision.sentence

    def test_unidentified(self):
        look = look_at(PLAN, [], 0.2, 0.3, 0.5, unidentified="A and B share no judge")
        assert look.decision.state == "unidentified"
        assert "A and B share no judge" in look.decision.sentence

    def test_saturated(self):
        look = look_at(PLAN, [], 0.2, 0.3, 0.5, saturated="every judge accepts 99 %")
        assert look.decision.state == "saturated"
        assert "every judge accepts 99 %" in look.decision.sentence

    def test_saturated_because_rounds_bring_nothing(self):
        errors = [0.5, 0.499, 0.498, 0.497, 0.496]
        history = campaign(NEVER_GIVES_UP, [0.6] * 5, errors, [0.1, 0.2, 0.3, 0.4, 1.0])
        assert [look.decision.state for look in history][-1] == "inconclusive-budget"
        patient = replace(PLAN, futility=Futility(power=0.0))
        history = campaign(patient, [0.6] * 5, errors, [0.1, 0.2, 0.3, 0.4, 1.0])
        assert [look.decision.state for look in history] == ["continue"] * 3 + ["saturated"]
        assert "brought 0% of the information" in history[-1].decision.sentence

    def test_inconclusive_futility(self):
        look = look_at(EAGER, [], 0.0, 0.3, 0.6)
        assert look.decision.state == "inconclusive-futility"
        assert "(below 10%)" in look.decision.sentence
        assert look.decision.answer == ("A", "B")

    def test_inconclusive_budget(self):
        look = look_at(PLAN, [], 0.2, 0.3, 0.93, final=True)
        assert look.decision.state == "inconclusive-budget"
        assert look.clock == 1.0
        assert (
            "the schedule or the budget is used up without a conclusion; A - B = +0.200"
            in look.decision.sentence
        )

    def test_exhausted(self):
        look = look_at(PLAN, [], 0.2, 0.3, 0.5, exhausted=True)
        assert look.decision.state == "exhausted"
        assert look.final
        assert look.clock == 1.0

    def test_continue(self):
        look = look_at(PLAN, [], 0.2, 0.3, 0.1)
        assert look.decision.state == "continue"
        assert not look.final

    def test_a_claim_comes_before_every_reason_to_stop_without_one(self):
        reasons = {"saturated": "s", "unidentified": "u", "exhausted": True}
        assert look_at(PLAN, [], 2.0, 0.3, 0.4, **reasons).decision.state == "decided"
        assert look_at(PLAN, [], 0.0, 0.02, 0.4, **reasons).decision.state == "equivalent"
        assert look_at(PLAN, [], 0.2, 0.3, 0.4, **reasons).decision.state == "unidentified"
        del reasons["unidentified"]
        assert look_at(PLAN, [], 0.2, 0.3, 0.4, **reasons).decision.state == "saturated"


class TestAlpha:
    @pytest.mark.parametrize("rule", RULES[:3])
    def test_bounds_are_those_of_the_rule_with_the_observed_information(self, rule):
        plan = replace(NEVER_GIVES_UP, rule=rule)
        clocks = [0.1, 0.25, 0.4, 0.7, 1.0]
        errors = [0.9, 0.5, 0.45, 0.2, 0.18]
        history = campaign(plan, [0.15] * 5, errors, clocks)
        information = [1 / (se * se) for se in errors]
        expected = boundaries(rule, clocks, alpha=0.05, information=information)
        np.testing.assert_allclose([look.contrasts[0].bound for look in history], expected)
        spent = [look.contrasts[0].alpha_spent for look in history]
        np.testing.assert_allclose(spent, [spent_alpha(rule, t, alpha=0.05) for t in clocks])
        assert history[-1].decision.state == "inconclusive-budget"

    def test_spent_alpha_is_taken_from_the_record(self):
        first = look_at(PLAN, [], 0.2, 0.5, 0.2)
        contrast = replace(first.contrasts[0], alpha_spent=0.01)
        edited = replace(first, contrasts=(contrast,))
        second = look_at(PLAN, [edited], 0.2, 0.4, 0.5)
        plain = look_at(PLAN, [first], 0.2, 0.4, 0.5)
        assert second.contrasts[0].alpha_spent == plain.contrasts[0].alpha_spent == 0.05 * 0.25
        assert second.contrasts[0].bound > plain.contrasts[0].bound

    def test_under_running_spends_the_rest_on_the_final_look(self):
        first = look_at(PLAN, [], 0.2, 0.5, 0.3)
        last = look_at(PLAN, [first], 0.2, 0.4, 0.6, final=True)
        assert last.contrasts[0].alpha_spent == pytest.approx(0.05, rel=1e-12)

    def test_over_running_reports_only(self):
        first = look_at(NEVER_GIVES_UP, [], 0.2, 0.5, 0.3)
        full = look_at(NEVER_GIVES_UP, [first], 0.2, 0.4, 1.3)
        assert full.clock == 1.0
        over = look_at(NEVER_GIVES_UP, [first, full], 9.0, 0.3, 1.4)
        assert over.decision.state == "continue"
        assert not over.contrasts[0].tested
        assert over.contrasts[0].value == 9.0
        assert (over.contrasts[0].low, over.contrasts[0].high) == (
            full.contrasts[0].low,
            full.contrasts[0].high,
        )

    def test_a_clock_that_stands_still_reports_only(self):
        first = look_at(PLAN, [], 0.2, 0.5, 0.3)
        second = look_at(PLAN, [first], 9.0, 0.4, 0.3)
        assert second.decision.state == "continue"
        assert second.contrasts[0].alpha_spent == first.contrasts[0].alpha_spent

    def test_information_that_shrinks_is_tested_on_its_own(self):
        first = look_at(PLAN, [], 0.2, 0.4, 0.3)
        second = look_at(PLAN, [first], 0.2, 0.5, 0.6)
        third = look_at(PLAN, [first, second], 0.2, 0.3, 1.0)
        expected = boundaries(
            "kim-demets", [0.3, 0.6, 1.0], information=[1 / 0.4**2, 1 / 0.5**2, 1 / 0.3**2]
        )
        got = [look.contrasts[0].bound for look in (first, second, third)]
        np.testing.assert_allclose(got, expected)

    def test_a_look_survives_the_ledger(self):
        errors = [0.9, 0.5, 0.45, 0.2, 0.18]
        live = campaign(NEVER_GIVES_UP, [0.15] * 5, errors, [0.1, 0.25, 0.4, 0.7, 1.0])
        recorded = [Look.from_json(look.to_json()) for look in live[:3]]
        assert look_at(NEVER_GIVES_UP, recorded, 0.15, 0.2, 0.7) == live[3]


class TestConfidenceSequence:
    PLAN = replace(NEVER_GIVES_UP, rule="confidence-sequence", optimal_information=20.0)

    def test_intervals_are_intersected(self):
        values, errors = [1.2, -0.4, 0.2], [0.7, 0.5, 0.4]
        history = campaign(self.PLAN, values, errors, [0.2, 0.4, 0.6])
        low, high = confidence_sequence(
            np.array(values), np.array(errors), alpha=0.05, optimal_information=20.0
        )
        for k, look in enumerate(history):
            assert look.contrasts[0].low == pytest.approx(low[: k + 1].max())
            assert look.contrasts[0].high == pytest.approx(high[: k + 1].min())

    def test_an_empty_intersection_falls_back_on_the_present_interval(self):
        first = look_at(self.PLAN, [], 0.5, 0.2, 0.2)
        contrast = replace(first.contrasts[0], low=-9.0, high=-8.0)
        second = look_at(self.PLAN, [replace(first, contrasts=(contrast,))], 0.5, 0.19, 0.4)
        assert second.contrasts[0].low < 0.5 < second.contrasts[0].high

    def test_budget_may_be_added(self):
        first = look_at(self.PLAN, [], 0.2, 0.5, 0.9, final=True)
        assert first.decision.state == "inconclusive-budget"
        second = look_at(self.PLAN, [first], 1.9, 0.3, 0.5)
        assert second.decision.state == "decided"

    def test_the_tightest_point_is_frozen_by_the_first_look(self):
        plan = replace(self.PLAN, optimal_information=None)
        first = look_at(plan, [], 0.2, 0.5, 0.1)  # projects 4 / 0.1 = 40, a quarter of it is 10
        second = look_at(plan, [first], 0.2, 0.4, 0.2)
        third = look_at(plan, [first, second], 0.2, 0.2, 0.5)
        low, high = confidence_sequence(0.2, 0.2, alpha=0.05, optimal_information=10.0)
        assert third.contrasts[0].bound == pytest.approx((high - low) / 2 / 0.2)


class TestUnsafeFixed:
    def test_it_says_how_wrong_it_is(self):
        plan = replace(NEVER_GIVES_UP, rule="unsafe-fixed")
        history = campaign(
            plan,
            [0.1] * 9 + [1.0],
            [1 / sqrt(k) for k in range(1, 11)],
            [k / 10 for k in range(1, 11)],
        )
        # Ten looks at 5 %: 19.3 % (Armitage, McPherson and Rowe 1969, table 2).
        assert history[-1].contrasts[0].alpha_spent == pytest.approx(0.193, abs=5e-4)
        assert history[-1].decision.state == "decided"
        assert "UNSAFE" in history[-1].decision.sentence
        assert "probability 19.3%, not 5.0%" in history[-1].decision.sentence


class TestCaseC58:
    """Early looks: no infinite bound, no NaN, and nothing stops on almost nothing."""

    @pytest.mark.parametrize("rule", RULES)
    def test_a_obrien_fleming_at_almost_no_information(self, rule):
        plan = replace(NEVER_GIVES_UP, rule=rule)
        for clock in (1e-6, 0.001, 0.05, 1 / 6):
            contrast = look_at(plan, [], 0.2, 0.5, clock).contrasts[0]
            assert isfinite(contrast.bound)
            assert isfinite(contrast.low)
            assert isfinite(contrast.high)

    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.parametrize(
        ("value", "se"),
        [(nan, nan), (inf, inf), (1.5, nan), (1.5, 0.0), (8.0, inf), (1.1, 1.9), (0.5, 1e-170)],
    )
    def test_b_one_observation(self, rule, value, se):
        look = look_at(replace(PLAN, rule=rule), [], value, se, 0.01)
        assert look.decision.state == "continue"
        contrast = look.contrasts[0]
        assert 0.0 <= expit(contrast.low) <= expit(contrast.high) <= 1.0
        assert not any(
            isnan(number)
            for number in (contrast.value, contrast.z, contrast.bound, contrast.alpha_spent)
        )
        assert Look.from_json(look.to_json()) == look

    @pytest.mark.parametrize("rule", RULES[:4])
    def test_c_five_wins_of_five(self, rule):
        # Two-sided p = 2 / 32 = 0.0625. The log-odds of 5 of 5 with half a win added on each side
        # are log(11), se sqrt(1 / 5.5 + 1 / 0.5); the Wald se of the raw share is 0.
        plan = replace(PLAN, rule=rule)
        history = []
        for wins, clock in ((5, 0.25), (6, 0.30)):
            value = log((wins + 0.5) / 0.5)
            se = sqrt(1 / (wins + 0.5) + 1 / 0.5)
            assert look_at(plan, history, 1.0, 0.0, clock).decision.state == "continue"
            history.append(look_at(plan, history, value, se, clock))
            assert history[-1].decision.state == "continue"

    def test_d_only_ties(self):
        assert look_at(PLAN, [], 0.0, 0.0, 0.3).decision.state == "continue"
        assert look_at(PLAN, [], 0.0, 0.45, 0.3).decision.state == "continue"
        assert look_at(PLAN, [], 0.0, 0.01, 0.3).decision.state == "equivalent"

    def test_e_no_verdicts_yet(self):
        look = look_at(PLAN, [], nan, nan, 0.05)
        assert look.decision.state == "continue"
        assert look.contrasts[0].verdict == "not-estimable"
        assert "A - B cannot be estimated yet" in look.decision.sentence
        # No alpha was used: the next look spends all that its clock allows.
        second = look_at(PLAN, [look], 0.2, 0.5, 0.5)
        assert second.contrasts[0].alpha_spent == pytest.approx(0.0125)

    @pytest.mark.parametrize("final", [False, True])
    def test_an_estimate_set_by_the_prior_never_counts(self, final):
        estimates = {AB: estimate(9.0, 0.5, prior_driven=True)}
        look = take_look(PLAN, [], estimates, clock=0.5, final=final)
        assert look.decision.state == ("inconclusive-budget" if final else "continue")
        assert look.contrasts[0].verdict == "prior-driven"
        assert look.contrasts[0].low == -inf
        assert "set by the prior" in look.decision.sentence


class TestErrors:
    def test_a_look_after_the_end(self):
        for ended in (
            look_at(PLAN, [], 2.0, 0.3, 0.4),
            look_at(PLAN, [], 0.2, 0.3, 0.9, final=True),
            look_at(EAGER, [], 0.0, 0.3, 0.6),
        ):
            with pytest.raises(StoppingError, match="the study ended at look 1"):
                look_at(PLAN, [ended], 0.2, 0.3, 1.0)

    def test_a_decided_confidence_sequence_has_ended_too(self):
        plan = replace(PLAN, rule="confidence-sequence")
        ended = look_at(plan, [], 3.0, 0.3, 0.4)
        with pytest.raises(StoppingError, match="the study ended"):
            look_at(plan, [ended], 3.0, 0.3, 0.5)

    @pytest.mark.parametrize("clock", [0.0, -0.1, nan, inf])
    def test_an_impossible_clock(self, clock):
        with pytest.raises(StoppingError, match="the clock of look 1"):
            look_at(PLAN, [], 0.2, 0.3, clock)

    def test_a_clock_that_runs_backwards(self):
        first = look_at(PLAN, [], 0.2, 0.3, 0.3)
        with pytest.raises(StoppingError, match=r"the clock of look 2 is 0.2, behind 0.3"):
            look_at(PLAN, [first], 0.2, 0.25, 0.2)

    def test_a_missing_estimate(self):
        plan = replace(PLAN, target=Best(("A", "B", "C")))
        with pytest.raises(StoppingError, match=r"no estimate of A - C \(2 of 3"):
            take_look(plan, [], {AB: estimate(0.1, 0.1)}, clock=0.5, final=False)

    def test_a_history_of_another_target(self):
        first = look_at(PLAN, [], 0.2, 0.3, 0.3)
        plan = replace(PLAN, target=Difference("B", "A"))
        with pytest.raises(StoppingError, match="look 1 of the history has other contrasts"):
            take_look(plan, [first], {("B", "A"): estimate(0.1, 0.1)}, clock=0.5, final=False)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"alpha": 0.0}, "alpha is 0.0"),
            ({"alpha": 1.0}, "alpha is 1.0"),
            ({"rule": "naive"}, "no stopping rule is called 'naive'"),
            ({"rope": -0.1}, "rope is -0.1"),
            ({"rope": nan}, "rope is nan"),
            ({"optimal_information": 0.0}, "optimal_information is 0.0"),
        ],
    )
    def test_an_impossible_plan(self, options, message):
        with pytest.raises(StoppingError, match=message):
            replace(PLAN, **options)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"power": 1.0}, "power is 1.0"),
            ({"stall_share": -0.1}, "stall_share is -0.1"),
            ({"optimism": -1.0}, "optimism is -1.0"),
            ({"from_look": 0}, "from_look is 0"),
            ({"stall_rounds": 0}, "stall_rounds is 0"),
        ],
    )
    def test_impossible_futility(self, options, message):
        with pytest.raises(StoppingError, match=message):
            Futility(**options)


@given(
    rule=st.sampled_from(RULES),
    looks=st.lists(
        st.tuples(
            st.floats(allow_nan=True, allow_infinity=True),
            st.floats(allow_nan=True, allow_infinity=True),
            st.booleans(),
            st.floats(1e-9, 0.3),
        ),
        min_size=1,
        max_size=8,
    ),
)
@settings(max_examples=150, deadline=None)
def test_no_estimate_crashes_a_look_and_alpha_is_never_overspent(rule, looks):
    plan, history, clock = replace(PLAN, rule=rule), [], 0.0
    for value, se, prior_driven, step in looks:
        clock += step
        estimates = {AB: Estimate(value, se, nan, nan, nan, prior_driven=prior_driven)}
        look = take_look(plan, history, estimates, clock=clock, final=False)
        assert Look.from_json(look.to_json()) == look
        contrast = look.contrasts[0]
        if rule != "unsafe-fixed":
            assert contrast.alpha_spent <= 0.05 * (1 + 1e-12)
        if history:
            assert contrast.alpha_spent >= history[-1].contrasts[0].alpha_spent
        if look.decision.state == "decided":
            assert contrast.verdict in ("first", "second")
        history.append(look)
        if look.decision.state != "continue":
            break
