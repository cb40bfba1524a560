"""When to give up: the answer is out of reach, or the judges no longer tell anything.

Giving up is advice. It is left out of the boundaries (non-binding), so that a user who goes on
regardless still holds the promised level; the price is a little power and nothing else.

The chance that is left is judged generously, for an effect one standard error further from the
null than the estimate: at face value, half of the promising studies would be given up early.
"""

from collections.abc import Sequence
from math import inf, isfinite, sqrt

from scipy.special import ndtr

from benchtrial.errors import StoppingError
from benchtrial.orchestrator.sequential.canonical import next_bound, own_bound
from benchtrial.orchestrator.sequential.confidence import mixture_bound
from benchtrial.orchestrator.sequential.multiplicity import optimal_information
from benchtrial.orchestrator.sequential.plan import Futility, StoppingPlan
from benchtrial.orchestrator.sequential.records import ContrastLook, Look
from benchtrial.orchestrator.sequential.trail import Trail


def conditional_power(
    z: float, fraction: float, final_bound: float, *, optimism: float = 1.0
) -> float:
    """Compute the chance of crossing the final bound, given the present statistic.

    Parameters
    ----------
    z
        Present statistic; its sign does not matter.
    fraction
        Present share of the final information, in (0, 1).
    final_bound
        Critical value of ``|Z|`` at the end.
    optimism
        The true effect is taken to be the estimate plus this many standard errors, away from zero.

    Returns
    -------
    float
        Probability of crossing on the side of the estimate.

    Raises
    ------
    StoppingError
        If the fraction is not in (0, 1).

    References
    ----------
    Lan and Wittes (1988), Biometrics 44, 579-585, in B-values.
    """
    if not 0.0 < fraction < 1.0:
        raise StoppingError(
            f"fraction is {fraction!r}; conditional power is for a look between start and end, "
            "strictly between 0 and 1"
        )
    left = 1.0 - fraction
    present = abs(z) * sqrt(fraction)
    gain = (abs(z) + optimism) / sqrt(fraction) * left
    return float(ndtr((present + gain - final_bound) / sqrt(left)))


def chance_left(
    plan: StoppingPlan, trail: Trail, contrast: ContrastLook, *, clock: float, level: float
) -> float:
    """Compute the chance that a contrast is still concluded by the end of the budget.

    Information is projected in proportion to the budget, and the final bound is the one that a
    single further look would have. A contrast that may end as equivalent, or that was not tested,
    keeps a chance of 1.

    Parameters
    ----------
    plan
        The stopping plan, with futility settings.
    trail
        The contrast's tests including the present look.
    contrast
        The present look.
    clock
        Spent / budget.
    level
        Alpha of the contrast.
    """
    if plan.futility is None or not contrast.tested or clock >= 1.0:
        return 1.0
    final_information = contrast.information / clock
    final_bound = _final_bound(plan, trail, final_information, level)
    if final_bound * contrast.se * sqrt(clock) <= plan.rope:
        return 1.0
    return conditional_power(contrast.z, clock, final_bound, optimism=plan.futility.optimism)


def stalled(
    settings: Futility, history: Sequence[Look], contrasts: Sequence[ContrastLook], clock: float
) -> str | None:
    """Say why the judges are saturated if the last rounds brought almost no information.

    Every contrast given must have stalled; ``contrasts`` are those on which the answer hangs.
    """
    if len(history) < settings.stall_rounds or not contrasts:
        return None
    before = history[-settings.stall_rounds]
    then = {contrast.pair: contrast.information for contrast in before.contrasts}
    shares = []
    for contrast in contrasts:
        expected = then[contrast.pair] / before.clock * (clock - before.clock)
        if not (isfinite(expected) and expected > 0.0 and contrast.information > 0.0):
            return None
        shares.append((contrast.information - then[contrast.pair]) / expected)
    if max(shares) >= settings.stall_share:
        return None
    return (
        f"the last {settings.stall_rounds} rounds brought {max(max(shares), 0.0):.0%} of the "
        f"information that their cost should have brought (less than {settings.stall_share:.0%})"
    )


def _final_bound(plan: StoppingPlan, trail: Trail, final_information: float, level: float) -> float:
    """Bound at the end of the budget if the next look were the last."""
    if plan.rule == "confidence-sequence":
        optimal = optimal_information(plan, trail, final_information, 1.0)
        return float(mixture_bound(final_information, alpha=level, optimal_information=optimal))
    if plan.rule == "unsafe-fixed":
        return own_bound(level)
    rest = level - trail.spent
    return next_bound(trail.bounds, trail.information, final_information, rest) if rest > 0 else inf
