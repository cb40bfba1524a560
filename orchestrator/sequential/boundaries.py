"""Group-sequential boundaries by alpha spending, for looks at times that nobody planned.

A study that is tested at 5 % after every round decides wrongly far more often than 5 %. Lan and
DeMets (1983) give every look a share of alpha instead: a spending function fixed in advance says
how much may be spent by the time a given fraction of the study is over, and the bound of each look
is whatever spends exactly the new part, given all earlier bounds.

Two clocks are at work and must not be confused. **Alpha is spent on the clock of the budget**
(spent / budget), which runs to one whatever the data say. **The bounds are integrated with the
observed information** (one over the squared standard error), which sets the correlation of the
looks. Using the budget for both is wrong as soon as information does not grow in proportion to it,
as under active querying.

All rules are two-sided and symmetric: each side spends half. That is the convention of rpact and
gsDesign; a study may then claim the direction that it crossed.
"""

from collections.abc import Callable, Mapping, Sequence
from math import e, isfinite, log1p, sqrt
from types import MappingProxyType
from typing import Literal, get_args

import numpy as np
from scipy.special import ndtr, ndtri

from benchtrial.errors import StoppingError
from benchtrial.orchestrator.sequential.canonical import has_grown, next_bound

SpendingRule = Literal["kim-demets", "obrien-fleming", "pocock"]

#: Exponent of Kim and DeMets' power family. With two, at most two points of power are lost to
#: O'Brien-Fleming while large effects stop far earlier.
KIM_DEMETS_POWER = 2


def boundaries(
    rule: SpendingRule,
    fractions: Sequence[float] | np.ndarray,
    *,
    alpha: float = 0.05,
    information: Sequence[float] | np.ndarray | None = None,
) -> np.ndarray:
    """Compute the critical value of ``|Z|`` at each look.

    Parameters
    ----------
    rule
        ``"kim-demets"`` (power 2), ``"obrien-fleming"`` or ``"pocock"``.
    fractions
        Spent / budget at each look, strictly increasing in (0, 1]. A last fraction below one leaves
        alpha unspent.
    alpha
        Two-sided level.
    information
        Observed information of each look, in any unit; the fractions themselves if omitted. A look
        whose information has not grown is tested on its own (see
        :mod:`benchtrial.orchestrator.sequential.canonical`).

    Returns
    -------
    ndarray, shape (looks,)
        Critical values, always finite.

    Raises
    ------
    StoppingError
        If the rule is unknown, alpha is not in (0, 1), the fractions do not increase within (0, 1],
        or an information is not positive and finite.

    References
    ----------
    Lan and DeMets (1983), Biometrika 70, 659-663; Kim and DeMets (1987), Biometrika 74, 149-154.
    """
    times = _increasing_fractions(fractions)
    informations = times if information is None else _positive(information, len(times))
    bounds: list[float] = []
    path: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    spent = 0.0
    for time, new in zip(times, informations, strict=True):
        now = spent_alpha(rule, time, alpha=alpha)
        bound = next_bound(*path, new, now - spent)
        if has_grown(path[1], new):
            path = ((*path[0], bound), (*path[1], new))
        bounds.append(bound)
        spent = now
    return np.array(bounds)


def spent_alpha(rule: SpendingRule, fraction: float, *, alpha: float) -> float:
    """Compute the two-sided alpha that a rule has spent at a fraction of the budget.

    ``"kim-demets"`` spends ``alpha t^2``, ``"pocock"`` ``alpha ln(1 + (e - 1) t)`` and
    ``"obrien-fleming"`` ``4 (1 - Phi(z / sqrt t))`` with ``z`` the upper ``alpha / 4`` quantile:
    on each side the one-sided function of Lan and DeMets at ``alpha / 2``.

    Parameters
    ----------
    rule
        Name of the rule.
    fraction
        Spent / budget; above one it counts as one, at or below zero nothing is spent.
    alpha
        Two-sided level.

    Returns
    -------
    float
        Cumulative alpha, from 0 to ``alpha``.

    Raises
    ------
    StoppingError
        If the rule is unknown or alpha is not in (0, 1).
    """
    if rule not in _SPENDING:
        known = ", ".join(get_args(SpendingRule))
        raise StoppingError(f"no spending rule is called {rule!r}; choose one of {known}")
    require_level(alpha)
    if fraction <= 0.0:
        return 0.0
    if fraction >= 1.0:
        return alpha
    return _SPENDING[rule](fraction, alpha)


def require_level(alpha: float) -> None:
    """Refuse a level that is not strictly between 0 and 1."""
    if not 0.0 < alpha < 1.0:
        raise StoppingError(
            f"alpha is {alpha!r}; a level lies strictly between 0 and 1, for example 0.05"
        )


def _kim_demets(fraction: float, alpha: float) -> float:
    return alpha * fraction**KIM_DEMETS_POWER


def _obrien_fleming(fraction: float, alpha: float) -> float:
    return 4.0 * float(ndtr(ndtri(alpha / 4.0) / sqrt(fraction)))


def _pocock(fraction: float, alpha: float) -> float:
    return alpha * log1p((e - 1.0) * fraction)


_SPENDING: Mapping[str, Callable[[float, float], float]] = MappingProxyType(
    {"kim-demets": _kim_demets, "obrien-fleming": _obrien_fleming, "pocock": _pocock}
)


def _increasing_fractions(fractions: Sequence[float] | np.ndarray) -> list[float]:
    """Check that the fractions of the looks can be spent on."""
    times = [float(fraction) for fraction in fractions]
    if not times:
        raise StoppingError("there are no looks; give at least one fraction, for example [1.0]")
    before = 0.0
    for number, time in enumerate(times, start=1):
        if not before < time <= 1.0:
            raise StoppingError(
                f"fraction {time!r} of look {number} is not above {before!r} and at most 1; "
                "fractions are spent / budget and increase from look to look"
            )
        before = time
    return times


def _positive(information: Sequence[float] | np.ndarray, looks: int) -> list[float]:
    """Check that there is one positive information for each look."""
    values = [float(value) for value in information]
    if len(values) != looks:
        raise StoppingError(
            f"{len(values)} informations for {looks} fractions; give one for each look"
        )
    for number, value in enumerate(values, start=1):
        if not (isfinite(value) and value > 0.0):
            raise StoppingError(
                f"information {value!r} of look {number} is not a positive number; "
                "information is 1 / se^2 (leave out looks without an estimate)"
            )
    return values
