"""A budget that cannot be overrun: the worst case is set aside before anything is asked.

Concurrent requests that each look at what has been *spent* all see the same remainder and overshoot
it together. So an attempt first reserves the most that it can cost (input tokens from an upper
bound, output tokens from the cap), and only then is it sent; when its usage is known the
reservation is exchanged for it, and the difference is free again. At every moment

    spent + reserved <= limits,

in each dimension that has a limit, whatever the order of events. The one way past a limit is a
provider that reports more than the worst case of its own request. That is not hidden: the report
is booked as it is, the excess is kept in ``overrun``, and nothing more can be reserved beyond the
limit.

Money is ``Decimal`` throughout: a float cannot hold a cent. An unknown price is ``None`` and never
zero: a sum with an unknown part is unknown, and no limit on money lets it pass.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from decimal import Decimal

from benchtrial.errors import InputError

ZERO_MONEY = Decimal(0)
DIMENSIONS = ("tokens", "money", "requests")


@dataclass(frozen=True, slots=True)
class Amount:
    """What an attempt costs, or may cost.

    Parameters
    ----------
    tokens
        Input plus output tokens, in the inclusive form of ``Usage``.
    money
        In the currency of the study's prices; None if a price is unknown.
    requests
        Attempts sent; 1 for one attempt.

    Raises
    ------
    InputError
        If ``money`` is not a finite ``Decimal``, or a count is not an ``int``.
    """

    tokens: int = 0
    money: Decimal | None = ZERO_MONEY
    requests: int = 0

    def __post_init__(self) -> None:
        _require_exact(self)

    def __add__(self, other: Amount) -> Amount:
        money = None if self.money is None or other.money is None else self.money + other.money
        return Amount(self.tokens + other.tokens, money, self.requests + other.requests)

    def __sub__(self, other: Amount) -> Amount:
        money = None if self.money is None or other.money is None else self.money - other.money
        return Amount(self.tokens - other.tokens, money, self.requests - other.requests)

    def __str__(self) -> str:
        parts = [f"{self.tokens:,} tokens"]
        if self.money is None:
            parts.append("unknown money")
        elif self.money:
            parts.append(f"{self.money} in money")
        parts.append(f"{self.requests:,} request" + ("" if self.requests == 1 else "s"))
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a campaign may use; ``None`` where a dimension has no limit.

    Raises
    ------
    InputError
        If a limit is negative, not exact, or if there is none at all.
    """

    tokens: int | None = None
    money: Decimal | None = None
    requests: int | None = None

    def __post_init__(self) -> None:
        _require_exact(self)
        if all(getattr(self, name) is None for name in DIMENSIONS):
            raise InputError(
                "a budget without any limit: set at least one of tokens, money, requests"
            )
        for name in DIMENSIONS:
            limit = getattr(self, name)
            if limit is not None and limit < 0:
                raise InputError(f"budget {name} = {limit}: a limit must not be negative")

    def exceeded_by(self, amount: Amount) -> tuple[str, ...]:
        """Names of the dimensions in which ``amount`` is above its limit, or unknown."""
        return tuple(
            name
            for name in DIMENSIONS
            if (limit := getattr(self, name)) is not None
            and ((value := getattr(amount, name)) is None or value > limit)
        )


class Budget:
    """Reservations and spending under limits. Belongs to one event loop; not for threads.

    Parameters
    ----------
    limits
        The most that may be used.
    spent
        What earlier runs of the same campaign have used, unknown attempts counted in full.
    """

    def __init__(self, limits: Limits, spent: Amount | None = None) -> None:
        spent = spent if spent is not None else Amount()
        _require_not_negative(spent, "spent")
        self._limits = limits
        self._spent = spent
        self._reserved = Amount()
        self._overrun = Amount()

    @property
    def limits(self) -> Limits:
        """The most that may be used."""
        return self._limits

    @property
    def spent(self) -> Amount:
        """What settled attempts have used."""
        return self._spent

    @property
    def reserved(self) -> Amount:
        """What attempts under way may still use at most."""
        return self._reserved

    @property
    def overrun(self) -> Amount:
        """What providers have reported beyond the worst case of their own requests, in sum."""
        return self._overrun

    @property
    def free(self) -> Limits:
        """What can still be reserved in each limited dimension; never below zero."""
        used = self._spent + self._reserved
        limits = self._limits
        return Limits(
            tokens=None if limits.tokens is None else max(limits.tokens - used.tokens, 0),
            money=None
            if limits.money is None
            else ZERO_MONEY
            if used.money is None
            else max(limits.money - used.money, ZERO_MONEY),
            requests=None if limits.requests is None else max(limits.requests - used.requests, 0),
        )

    def try_reserve(self, amount: Amount) -> bool:
        """Set ``amount`` aside if the limits allow it; say whether they did."""
        _require_not_negative(amount, "a reservation")
        if not self.fits(amount):
            return False
        self._reserved += amount
        return True

    def fits(self, amount: Amount) -> bool:
        """Whether ``amount`` could be reserved now."""
        return not self.blocked_by(amount)

    def blocked_by(self, amount: Amount) -> tuple[str, ...]:
        """Names of the limits that forbid reserving ``amount`` now; empty if none does."""
        return self._limits.exceeded_by(self._spent + self._reserved + amount)

    def settle(self, reserved: Amount, used: Amount) -> None:
        """Exchange a reservation for what the attempt really used."""
        _require_not_negative(used, "what was used")
        self._give_back(reserved)
        self._spent += used
        excess = used - reserved
        self._overrun += Amount(
            max(excess.tokens, 0),
            max(excess.money or ZERO_MONEY, ZERO_MONEY),
            max(excess.requests, 0),
        )

    def release(self, reserved: Amount) -> None:
        """Give back the reservation of an attempt that certainly cost nothing."""
        self._give_back(reserved)

    def fraction(self) -> float:
        """Share of the budget that is spent, in the dimension where most is: the clock of looks.

        A limit of zero counts as wholly spent.
        """
        return max(
            _share(getattr(self._spent, name), limit)
            for name in DIMENSIONS
            if (limit := getattr(self._limits, name)) is not None
        )

    def _give_back(self, reserved: Amount) -> None:
        _require_not_negative(reserved, "a reservation")
        left = self._reserved - reserved
        if _is_negative(left):
            raise ValueError(
                f"more is given back ({reserved}) than is reserved ({self._reserved}): "
                "each reservation is settled or released exactly once"
            )
        self._reserved = left


def _require_exact(amounts: Amount | Limits) -> None:
    for entry in fields(amounts):
        value = getattr(amounts, entry.name)
        if value is None:
            continue
        if entry.name == "money":
            if not isinstance(value, Decimal) or not value.is_finite():
                raise InputError(
                    f"money = {value!r}: give a finite Decimal, such as Decimal('2.50')"
                )
        elif isinstance(value, bool) or not isinstance(value, int):
            raise InputError(f"{entry.name} = {value!r}: give a whole number")


def _share(spent: int | Decimal | None, limit: int | Decimal) -> float:
    if spent is None or not limit:
        return 1.0
    return float(Decimal(spent) / Decimal(limit))


def _is_negative(amount: Amount) -> bool:
    return any((getattr(amount, name) or 0) < 0 for name in DIMENSIONS)


def _require_not_negative(amount: Amount, what: str) -> None:
    if _is_negative(amount):
        raise ValueError(f"{what} must not be negative: {amount}")
