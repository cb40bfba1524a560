"""Spent plus reserved never passes a limit, whatever the order of events."""

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from benchtrial.errors import InputError
from benchtrial.orchestrator.budget import Amount, Budget, Limits

money = st.decimals(min_value=0, max_value=100, places=4)
amounts = st.builds(Amount, st.integers(0, 1000), money, st.integers(0, 3))
limits = st.builds(
    Limits, st.integers(0, 5000), st.none() | money, st.none() | st.integers(0, 10)
) | st.builds(Limits, st.none(), money, st.none() | st.integers(0, 10))


def test_c22_reserving_before_sending_never_overshoots() -> None:
    """C22: 10,000 tokens, 8 at a time, worst case 2,000 each, 1,600 really used, 20 waiting."""
    budget = Budget(Limits(tokens=10_000))
    worst, used = Amount(2000, requests=1), Amount(1600, requests=1)
    in_flight = sum(budget.try_reserve(worst) for _ in range(8))
    assert in_flight == 5
    assert budget.free == Limits(tokens=0)

    verdicts = 0
    for answer in range(1, 6):
        budget.settle(worst, used)
        verdicts += 1
        assert budget.free == Limits(tokens=400 * answer)
        if answer < 5:
            assert not budget.try_reserve(worst)
    assert budget.spent.tokens == 8000
    assert budget.free == Limits(tokens=2000)

    assert [budget.try_reserve(worst) for _ in range(2)] == [True, False]
    budget.settle(worst, used)
    verdicts += 1
    assert budget.spent.tokens == 9600
    assert not budget.try_reserve(worst)
    assert budget.blocked_by(worst) == ("tokens",)
    assert budget.reserved == Amount()
    assert (verdicts, 20 - verdicts) == (6, 14)
    assert budget.fraction() == pytest.approx(0.96)


def test_a_released_reservation_is_free_again() -> None:
    budget = Budget(Limits(requests=1))
    assert budget.try_reserve(Amount(requests=1))
    assert not budget.fits(Amount(requests=1))
    budget.release(Amount(requests=1))
    assert budget.spent == Amount()
    assert budget.fits(Amount(requests=1))


def test_every_limit_holds_on_its_own() -> None:
    budget = Budget(Limits(tokens=100, money=Decimal("0.10"), requests=5))
    assert budget.blocked_by(Amount(101, Decimal("0.11"), 6)) == ("tokens", "money", "requests")
    assert budget.blocked_by(Amount(100, Decimal("0.11"), 5)) == ("money",)
    assert budget.fits(Amount(100, Decimal("0.10"), 5))


def test_money_is_exact() -> None:
    budget = Budget(Limits(money=Decimal("0.3")))
    for _ in range(3):
        assert budget.try_reserve(Amount(money=Decimal("0.1")))
    assert budget.free == Limits(money=Decimal(0))


def test_an_unknown_price_is_never_zero() -> None:
    unknown = Amount(10, None, 1)
    assert not Budget(Limits(money=Decimal(10**9))).try_reserve(unknown)
    free_of_money = Budget(Limits(tokens=15))
    assert free_of_money.try_reserve(unknown)
    free_of_money.settle(unknown, unknown)
    assert free_of_money.spent == unknown
    assert (Amount(1, Decimal(1), 1) + unknown).money is None
    assert Budget(Limits(money=Decimal(1)), spent=unknown).free == Limits(money=Decimal(0))
    assert Budget(Limits(money=Decimal(1)), spent=unknown).fraction() == 1.0


def test_an_earlier_run_counts() -> None:
    budget = Budget(Limits(tokens=100), spent=Amount(90))
    assert not budget.try_reserve(Amount(11))
    assert budget.try_reserve(Amount(10))


def test_a_report_beyond_the_worst_case_is_booked_and_shown() -> None:
    budget = Budget(Limits(tokens=100))
    assert budget.try_reserve(Amount(60))
    budget.settle(Amount(60), Amount(130))
    assert budget.spent == Amount(130)
    assert budget.overrun == Amount(70)
    assert budget.free == Limits(tokens=0)
    assert not budget.try_reserve(Amount(1))


def test_a_reservation_is_given_back_once() -> None:
    budget = Budget(Limits(tokens=100))
    budget.try_reserve(Amount(60))
    budget.release(Amount(60))
    with pytest.raises(ValueError, match="settled or released exactly once"):
        budget.settle(Amount(60), Amount(10))
    assert budget.spent == Amount()


@pytest.mark.parametrize(
    ("limits", "spent", "expected"),
    [
        (Limits(tokens=200, money=Decimal(4)), Amount(50, Decimal(3)), 0.75),
        (Limits(tokens=200, requests=10), Amount(50, requests=1), 0.25),
        (Limits(tokens=0), Amount(), 1.0),
    ],
)
def test_the_clock_is_the_largest_share(limits: Limits, spent: Amount, expected: float) -> None:
    assert Budget(limits, spent=spent).fraction() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Limits(), "without any limit"),
        (lambda: Limits(tokens=-1), "must not be negative"),
        (lambda: Limits(tokens=1.5), "whole number"),
        (lambda: Limits(money=0.1), "finite Decimal"),
        (lambda: Amount(money=Decimal("NaN")), "finite Decimal"),
        (lambda: Amount(tokens=True), "whole number"),
    ],
)
def test_what_is_not_exact_is_refused(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()  # type: ignore[operator]


def test_negative_amounts_cannot_make_room() -> None:
    budget = Budget(Limits(tokens=10))
    with pytest.raises(ValueError, match="must not be negative"):
        budget.try_reserve(Amount(-5))
    with pytest.raises(ValueError, match="must not be negative"):
        budget.settle(Amount(), Amount(-5))


@given(amounts, amounts)
def test_amounts_add_and_subtract(one: Amount, other: Amount) -> None:
    assert one + other - other == one
    assert one + other == other + one


class BudgetMachine(RuleBasedStateMachine):
    """A budget under any interleaving, beside a model that keeps every reservation in a list."""

    @initialize(limits=limits)
    def start(self, limits: Limits) -> None:
        self.limits = limits
        self.budget = Budget(limits)
        self.open: list[Amount] = []
        self.spent: list[Amount] = []

    @rule(amount=amounts)
    def reserve(self, amount: Amount) -> None:
        total = sum([*self.open, *self.spent, amount], Amount())
        fits = not self.limits.exceeded_by(total)
        assert self.budget.try_reserve(amount) is fits
        if fits:
            self.open.append(amount)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        reserved = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        used = Amount(
            data.draw(st.integers(0, reserved.tokens)),
            data.draw(st.decimals(0, reserved.money, places=4)),
            data.draw(st.integers(0, reserved.requests)),
        )
        self.budget.settle(reserved, used)
        self.spent.append(used)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        reserved = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        self.budget.release(reserved)

    @precondition(lambda self: self.open)
    @rule()
    def crash_and_resume(self) -> None:
        """Reservations under way turn into spending: nobody knows what became of them."""
        self.spent += self.open
        self.open = []
        self.budget = Budget(self.limits, spent=sum(self.spent, Amount()))

    @invariant()
    def agrees_with_the_model(self) -> None:
        if not hasattr(self, "budget"):
            return
        assert self.budget.spent == sum(self.spent, Amount())
        assert self.budget.reserved == sum(self.open, Amount())
        assert self.limits.exceeded_by(self.budget.spent + self.budget.reserved) == ()
        assert self.budget.overrun == Amount()
        assert 0.0 <= self.budget.fraction() <= 1.0


TestBudgetMachine = BudgetMachine.TestCase
# Enough to find each of five mistakes that were planted in the budget, and quick.
TestBudgetMachine.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
