"""What to report after a study has stopped: estimates that know about the stopping.

A study that stops when its estimate is large stops on a lucky streak more often than not, so that
the raw estimate exaggerates. Two honest companions stand beside it:

* the **repeated confidence interval** of each look holds at all looks together, whatever made the
  study stop, and is valid for every contrast;
* the **median-unbiased estimate** is as often above the truth as below it. It orders possible
  outcomes by when they stopped and then by the statistic (stage-wise ordering; Fairbanks and
  Madsen 1982, Tsiatis, Rosner and Mehta 1984), which also gives an interval and a p-value. It is
  exact if this contrast alone stopped the study, and an approximation where others had a say.

Both take the bounds as they were at the looks; reasons to stop without a claim are not bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from scipy.optimize import brentq

from benchtrial.errors import StoppingError
from benchtrial.orchestrator.sequential.canonical import beyond, exit_probabilities, has_grown
from benchtrial.orchestrator.sequential.plan import StoppingPlan
from benchtrial.orchestrator.sequential.records import Look
from benchtrial.orchestrator.sequential.trail import trails

#: Accuracy of the adjusted estimates in units of the last standard error.
PRECISION = 1e-5
#: How far from the raw estimate, in standard errors, the adjusted ones are looked for at first.
FIRST_BRACKET = 6.0


@dataclass(frozen=True, slots=True)
class StoppedEstimate:
    """A contrast after the study has stopped.

    Parameters
    ----------
    first, second
        Ids; the contrast is first minus second.
    value
        The raw estimate: exaggerated on average, because the study stopped on it.
    median_unbiased
        As often above the truth as below it.
    low, high
        Stage-wise interval at the plan's level, around the median-unbiased estimate.
    p
        Stage-wise two-sided p-value against the null.
    repeated_low, repeated_high
        The repeated confidence interval of the last test: valid at all looks together.
    """

    first: str
    second: str
    value: float
    median_unbiased: float
    low: float
    high: float
    p: float
    repeated_low: float
    repeated_high: float

    def __str__(self) -> str:
        """Say what each number means."""
        return (
            f"{self.first} - {self.second}: {self.value:+.3f} as estimated when the study stopped "
            f"(exaggerated on average); {self.median_unbiased:+.3f} allowing for the stopping, as "
            f"often too high as too low, interval {self.low:+.3f} to {self.high:+.3f}, "
            f"p = {self.p:.2g}; interval that holds at all looks together "
            f"{self.repeated_low:+.3f} to {self.repeated_high:+.3f}"
        )


def after_stopping(
    plan: StoppingPlan, history: Sequence[Look], pair: tuple[str, str]
) -> StoppedEstimate:
    """Adjust the estimate of a contrast for the looks that could have stopped it.

    Looks that had more information than the last one cannot be ordered before it and are left out.

    Parameters
    ----------
    plan
        The stopping plan.
    history
        All looks.
    pair
        The contrast, as the target names it.

    Returns
    -------
    StoppedEstimate

    Raises
    ------
    StoppingError
        If the target has no such contrast, or no look has tested it.
    """
    pairs = plan.target.pairs()
    if pair not in pairs:
        raise StoppingError(
            f"the target has no contrast {pair[0]} - {pair[1]}; it has "
            + ", ".join(f"{a} - {b}" for a, b in pairs)
        )
    trail = trails(history, len(pairs))[pairs.index(pair)]
    last = trail.last
    if last is None:
        raise StoppingError(
            f"no look has tested {pair[0]} - {pair[1]}, so that there is nothing to adjust"
        )
    looks = [
        (bound, information)
        for bound, information in zip(trail.bounds, trail.information, strict=True)
        if has_grown((information,), last.information)
    ]
    bounds = tuple(bound for bound, _ in looks)
    information = tuple(info for _, info in looks)
    null = plan.target.null

    def above(effect: float) -> float:
        """Chance of an outcome at least as high as the observed one, for a true value."""
        drift = effect - null
        upper, _ = exit_probabilities(bounds, information, drift)
        here, _ = beyond(bounds, information, last.information, last.z, last.z, drift)
        return float(upper.sum()) + here

    def effect_with(chance: float) -> float:
        """Find the true value for which the observed outcome has that chance."""
        reach = FIRST_BRACKET / sqrt(last.information)
        low, high = last.value - reach, last.value + reach
        while above(low) > chance:
            low -= reach
        while above(high) < chance:
            high += reach
        found: float = brentq(
            lambda effect: above(effect) - chance, low, high, xtol=PRECISION * last.se
        )
        return found

    chance = above(null)
    return StoppedEstimate(
        first=pair[0],
        second=pair[1],
        value=last.value,
        median_unbiased=effect_with(0.5),
        low=effect_with(plan.alpha / 2.0),
        high=effect_with(1.0 - plan.alpha / 2.0),
        p=min(1.0, 2.0 * min(chance, 1.0 - chance)),
        repeated_low=last.low,
        repeated_high=last.high,
    )
