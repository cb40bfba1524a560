"""The stopping plan: everything about stopping that is fixed before the first look."""

from dataclasses import dataclass, field
from math import isfinite
from typing import Literal, get_args

from benchtrial.errors import StoppingError
from benchtrial.orchestrator.sequential.boundaries import SpendingRule, require_level
from benchtrial.orchestrator.sequential.targets import Target

Rule = Literal["kim-demets", "obrien-fleming", "pocock", "confidence-sequence", "unsafe-fixed"]

#: Chance of a conclusion at the end of the budget below which a study gives up. A confidence
#: sequence often crosses before the end and falls back, so that the chance at the end understates
#: it: at 10 % it would lose 5 points of power, at 5 % it loses 3 and still saves half of the budget
#: where there is no effect.
GIVE_UP_BELOW = 0.10
GIVE_UP_BELOW_IN_A_SEQUENCE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Futility:
    """When to give up because the answer is out of reach. Advice only: it never costs alpha.

    Parameters
    ----------
    power
        Give up if the power that is left is below this; by default 10 %, and 5 % under a
        confidence sequence.
    optimism
        The power is computed for the estimate plus this many standard errors, away from the null.
    from_look
        First look that may give up; earlier estimates are too rough.
    stall_rounds, stall_share
        A contrast is saturated if the last ``stall_rounds`` rounds brought less than
        ``stall_share`` of the information that their share of the budget should have brought.
    """

    power: float | None = None
    optimism: float = 1.0
    from_look: int = 4
    stall_rounds: int = 3
    stall_share: float = 0.20

    def __post_init__(self) -> None:
        for name in ("power", "stall_share"):
            share = getattr(self, name)
            if share is not None and not 0.0 <= share < 1.0:
                raise StoppingError(
                    f"futility: {name} is {share!r}; it is a share from 0 (never "
                    "give up) to below 1"
                )
        if not (isfinite(self.optimism) and self.optimism >= 0.0):
            raise StoppingError(
                f"futility: optimism is {self.optimism!r}; it is a number of standard errors, "
                "0 or more"
            )
        for name in ("from_look", "stall_rounds"):
            if getattr(self, name) < 1:
                raise StoppingError(
                    f"futility: {name} is {getattr(self, name)!r}; it counts from 1"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppingPlan:
    """How a study stops.

    Parameters
    ----------
    target
        What is to be concluded.
    rule
        ``kim-demets`` (default for a fixed budget), ``obrien-fleming``, ``pocock``,
        ``confidence-sequence`` (default for active querying and open budgets), or
        ``unsafe-fixed``, which tests at the fixed level at every look and says how wrong that is.
    alpha
        Two-sided level of the study's claim.
    rope
        Half-width of the region of practical equivalence, on the scale of the contrasts; 0 if no
        difference is negligible.
    futility
        When to give up; None for never.
    optimal_information
        For a confidence sequence, where it is tightest; None for a quarter of the information
        that the first look projects for the whole budget (then fixed).
    """

    target: Target
    rule: Rule = "kim-demets"
    alpha: float = 0.05
    rope: float = 0.1
    futility: Futility | None = field(default_factory=Futility)
    optimal_information: float | None = None

    def __post_init__(self) -> None:
        if self.rule not in get_args(Rule):
            raise StoppingError(
                f"no stopping rule is called {self.rule!r}; choose one of "
                + ", ".join(get_args(Rule))
            )
        require_level(self.alpha)
        if not (isfinite(self.rope) and self.rope >= 0.0):
            raise StoppingError(
                f"rope is {self.rope!r}; it is a half-width in log-odds, 0 or more, for example 0.1"
            )
        optimal = self.optimal_information
        if optimal is not None and not (isfinite(optimal) and optimal > 0.0):
            raise StoppingError(
                f"optimal_information is {optimal!r}; it is an information 1 / se^2, positive "
                "and finite, or None to derive it from the first look"
            )
        if self.target.family == "max-z" and self.spending is None:
            raise StoppingError(
                f"rule {self.rule!r} cannot be combined with max-z, which spends alpha on the "
                "budget; choose one of " + ", ".join(get_args(SpendingRule)) + ", or Holm"
            )

    @property
    def gives_up_below(self) -> float:
        """The chance of a conclusion below which the study gives up; 0 for never."""
        if self.futility is None:
            return 0.0
        if self.futility.power is not None:
            return self.futility.power
        sequence = self.rule == "confidence-sequence"
        return GIVE_UP_BELOW_IN_A_SEQUENCE if sequence else GIVE_UP_BELOW

    @property
    def spending(self) -> SpendingRule | None:
        """The spending rule, or None for a rule that spends nothing by the clock."""
        if self.rule == "confidence-sequence" or self.rule == "unsafe-fixed":
            return None
        return self.rule
