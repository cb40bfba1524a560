"""Giving up: the chance that is left, and rounds that bring nothing."""

from dataclasses import replace
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from benchtrial.errors import StoppingError
from benchtrial.orchestrator.models.estimate import Estimate
from benchtrial.orchestrator.sequential import (
    Best,
    Difference,
    Futility,
    Ranking,
    StoppingPlan,
    boundaries,
    conditional_power,
    take_look,
)

AB = ("A", "B")
PLAN = StoppingPlan(target=Difference("A", "B"), futility=Futility(from_look=1), rope=0.0)


def look_at(plan, history, value, se, clock, *, final=False):
    return take_look(plan, history, {AB: Estimate.wald(value, se)}, clock=clock, final=final)


def test_conditional_power_by_hand():
    # Half way with z = 1, so that B = 0.7071 and the drift per unit is 2 / 0.7071 = 2.8284 one
    # standard error beyond it: (0.7071 + 1.4142 - 2) / 0.7071 = 0.1716.
    assert conditional_power(1.0, 0.5, 2.0) == pytest.approx(norm.cdf(0.17157), abs=1e-5)
    assert conditional_power(-1.0, 0.5, 2.0) == conditional_power(1.0, 0.5, 2.0)
    at_face_value = conditional_power(1.0, 0.5, 2.0, optimism=0.0)
    assert at_face_value == pytest.approx(norm.cdf((sqrt(2) - 2) / sqrt(0.5)))


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.5])
def test_conditional_power_is_for_a_look_on_the_way(fraction):
    with pytest.raises(StoppingError, match="strictly between 0 and 1"):
        conditional_power(1.0, fraction, 2.0)


@given(
    z=st.floats(-5, 5),
    fraction=st.floats(0.01, 0.99),
    bound=st.floats(1.5, 5),
    more=st.floats(0, 2),
)
def test_more_optimism_gives_more_power(z, fraction, bound, more):
    assert conditional_power(z, fraction, bound, optimism=1 + more) >= conditional_power(
        z, fraction, bound
    )


def test_the_final_bound_is_that_of_one_more_look():
    look = look_at(PLAN, [], 0.0, 0.5, 0.5)
    final_bound = boundaries("kim-demets", [0.5, 1.0])[1]
    chance = conditional_power(0.0, 0.5, final_bound)
    assert chance < 0.10
    assert f"is {chance:.1%} (below 10%)" in look.decision.sentence


def test_it_waits_for_its_first_look():
    patient = replace(PLAN, futility=Futility(from_look=2))
    first = look_at(patient, [], 0.0, 0.5, 0.5)
    assert first.decision.state == "continue"
    second = look_at(patient, [first], 0.0, 0.45, 0.6)
    assert second.decision.state == "inconclusive-futility"


def test_it_does_not_give_up_where_equivalence_is_still_in_reach():
    # At the end se is 0.05 sqrt(0.5) = 0.035 and the interval about 0.075 to each side.
    assert look_at(PLAN, [], 0.0, 0.05, 0.5).decision.state == "inconclusive-futility"
    wide = replace(PLAN, rope=0.1)
    assert look_at(wide, [], 0.0, 0.05, 0.5).decision.state == "continue"


def test_none_never_gives_up_and_bounds_are_the_same():
    never = replace(PLAN, futility=None)
    assert look_at(never, [], 0.0, 0.5, 0.9).decision.state == "continue"
    assert look_at(never, [], 0.0, 0.5, 0.9).contrasts == look_at(PLAN, [], 0.0, 0.5, 0.9).contrasts


@pytest.mark.parametrize("rule", ["confidence-sequence", "unsafe-fixed", "pocock"])
def test_every_rule_can_give_up(rule):
    assert look_at(replace(PLAN, rule=rule), [], 0.0, 0.5, 0.7).decision.state == (
        "inconclusive-futility"
    )


@pytest.mark.parametrize("target", [Best(("A", "B", "C")), Ranking(("A", "B", "C"))])
def test_a_family_gives_up_only_when_nothing_can_be_concluded_any_more(target):
    def state(values):
        estimates = {
            pair: Estimate.wald(value, 0.5)
            for pair, value in zip(target.pairs(), values, strict=True)
        }
        plan = replace(PLAN, target=target)
        return take_look(plan, [], estimates, clock=0.7, final=False).decision.state

    assert state([0.0, 0.0, 0.0]) == "inconclusive-futility"
    assert state([0.0, 1.1, 1.1]) == "continue"


def test_a_stall_needs_every_open_contrast():
    plan = replace(PLAN, target=Best(("A", "B", "C")), futility=Futility(power=0.0))

    def last_state(errors_of_c):
        history = []
        for k, se in enumerate(errors_of_c, start=1):
            estimates = {
                ("A", "B"): Estimate.wald(0.3, 0.5 - 0.001 * k),
                ("A", "C"): Estimate.wald(0.3, se),
                ("B", "C"): Estimate.wald(0.0, se),
            }
            history.append(take_look(plan, history, estimates, clock=k / 10, final=False))
        return history[-1].decision.state

    assert last_state([0.5, 0.4, 0.33, 0.28]) == "continue"
    assert last_state([0.5, 0.499, 0.498, 0.497]) == "saturated"


def test_a_sequence_is_given_up_later_because_it_may_cross_before_the_end():
    # At half of the budget |z| = 1 leaves 7.7 % under the sequence: below 10 %, above 5 %.
    sequence = replace(PLAN, rule="confidence-sequence", optimal_information=25.0)
    assert sequence.gives_up_below == 0.05
    assert PLAN.gives_up_below == 0.10
    assert replace(PLAN, futility=None).gives_up_below == 0.0
    for power, state in ((None, "continue"), (0.10, "inconclusive-futility")):
        plan = replace(sequence, futility=Futility(from_look=1, power=power))
        assert look_at(plan, [], 50**-0.5, 50**-0.5, 0.5).decision.state == state
