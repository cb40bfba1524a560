"""One round of tests: each contrast against its bound, alpha shared as the target asks.

Alpha is spent per contrast, and what is spent is recorded and never recomputed. Under Holm's
procedure a decided pair passes its share on, so that the level of the others rises; they then
spend, from that look on, the increments of their new level and nothing for the past. Fewer paths
were stopped than under a plan that had the new level from the start, so that no bound is below
that plan's: look by look the procedure claims no more than the closed test of Maurer and Bretz
(2013), and it keeps the family-wise level. Intervals do not profit from recycling. They stay at
the level of the first look, at which they hold for all pairs together; equivalence is read from
them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, isfinite
from typing import TYPE_CHECKING

from benchtrial.orchestrator.sequential.boundaries import SpendingRule, spent_alpha
from benchtrial.orchestrator.sequential.canonical import beyond, has_grown, next_bound, own_bound
from benchtrial.orchestrator.sequential.confidence import mixture_bound
from benchtrial.orchestrator.sequential.maxz import max_z_quantile
from benchtrial.orchestrator.sequential.plan import StoppingPlan
from benchtrial.orchestrator.sequential.records import ContrastLook, Verdict
from benchtrial.orchestrator.sequential.trail import Trail

if TYPE_CHECKING:
    from benchtrial.orchestrator.models.estimate import Estimate

#: Share of the projected information at which a confidence sequence is tightest by default. A
#: quarter favours early stops; between a quarter and a tenth the expected cost differs by < 5 %.
OPTIMAL_SHARE = 0.25


def weigh_contrasts(
    plan: StoppingPlan,
    trails: Sequence[Trail],
    estimates: "Mapping[tuple[str, str], Estimate]",
    clock: float,
) -> tuple[ContrastLook, ...]:
    """Test every contrast of the plan's target at one look.

    Parameters
    ----------
    plan
        The stopping plan.
    trails
        The contrasts' tests so far, in the order of the target's pairs.
    estimates
        One estimate for each pair.
    clock
        Spent / budget.

    Returns
    -------
    tuple of ContrastLook
        In the order of the target's pairs.
    """
    measured = [
        _measured(pair, estimates[pair], plan.target.null, trail.spent)
        for pair, trail in zip(plan.target.pairs(), trails, strict=True)
    ]
    if plan.target.family == "holm":
        return _by_holm(plan, trails, measured, clock)
    if plan.target.family == "max-z":
        return _by_max_z(plan, trails, measured, clock)
    return tuple(
        _tested(plan, trail, contrast, clock, level=plan.alpha, base=plan.alpha)
        for trail, contrast in zip(trails, measured, strict=True)
    )


def optimal_information(
    plan: StoppingPlan, trail: Trail, information: float, clock: float
) -> float:
    """Find where a confidence sequence is tightest: as planned, or as its first look projects."""
    return plan.optimal_information or OPTIMAL_SHARE * (trail.projected or information / clock)


def _by_holm(
    plan: StoppingPlan, trails: Sequence[Trail], measured: Sequence[ContrastLook], clock: float
) -> tuple[ContrastLook, ...]:
    """Divide alpha by the number of pairs that are not yet decided, until no more are decided."""
    results = [_settled(trail, contrast) for trail, contrast in zip(trails, measured, strict=True)]
    base = plan.alpha / len(results)
    waiting = [k for k, contrast in enumerate(results) if contrast.verdict not in _SETTLED]
    while waiting:
        level = plan.alpha / sum(contrast.winner is None for contrast in results)
        for k in waiting:
            results[k] = _tested(plan, trails[k], measured[k], clock, level=level, base=base)
        undecided = [k for k in waiting if results[k].winner is None]
        if len(undecided) == len(waiting):
            break
        waiting = undecided
    return tuple(results)


def _by_max_z(
    plan: StoppingPlan, trails: Sequence[Trail], measured: Sequence[ContrastLook], clock: float
) -> tuple[ContrastLook, ...]:
    """Test all contrasts against one simulated bound, or by Bonferroni where there is none.

    Joint paths need a common past: all contrasts tested at the same looks, information growing.
    Decided pairs stay decided; their statistics go on belonging to the joint paths.
    """
    share = plan.alpha / len(measured)
    first = trails[0]
    bound = None
    if plan.spending is not None and all(
        trail.bounds == first.bounds
        and contrast.verdict == "undecided"
        and has_grown(trail.information, contrast.information)
        for trail, contrast in zip(trails, measured, strict=True)
    ):
        past = tuple(zip(*(trail.information for trail in trails), strict=True))
        present = tuple(contrast.information for contrast in measured)
        spent = spent_alpha(plan.spending, clock, alpha=plan.alpha)
        bound = max_z_quantile(plan.target.pairs(), first.bounds, (*past, present), spent)
    results = []
    for trail, contrast in zip(trails, measured, strict=True):
        result = _tested(plan, trail, contrast, clock, level=share, base=share)
        if bound is not None and result.tested:
            result = _judged(plan, replace(result, bound=bound), bound, None)
        settled = _settled(trail, contrast)
        if settled.verdict in _SETTLED:
            result = replace(result, verdict=settled.verdict)
        results.append(result)
    return tuple(results)


def _measured(
    pair: tuple[str, str], estimate: "Estimate", null: float, spent: float
) -> ContrastLook:
    """Enter an estimate, not yet tested, into the record of a look."""
    value, se = float(estimate.value), float(estimate.se)
    variance = se * se
    estimable = isfinite(value) and se > 0.0 and 0.0 < variance < inf and isfinite(1.0 / variance)
    verdict: Verdict = "not-estimable"
    if estimable:
        verdict = "prior-driven" if estimate.prior_driven else "undecided"
    return ContrastLook(
        first=pair[0],
        second=pair[1],
        value=value if estimable else 0.0,
        se=se if estimable else inf,
        information=1.0 / variance if estimable else 0.0,
        z=(value - null) / se if estimable else 0.0,
        alpha_spent=spent,
        bound=inf,
        low=-inf,
        high=inf,
        verdict=verdict,
    )


_SETTLED = ("first", "second", "equivalent")


def _settled(trail: Trail, contrast: ContrastLook) -> ContrastLook:
    """Keep the verdict and interval of a contrast that an earlier look has settled."""
    last = trail.last
    if last is None or last.verdict not in _SETTLED:
        return contrast
    return replace(contrast, low=last.low, high=last.high, verdict=last.verdict)


def _tested(
    plan: StoppingPlan,
    trail: Trail,
    contrast: ContrastLook,
    clock: float,
    *,
    level: float,
    base: float,
) -> ContrastLook:
    """Test one contrast at ``level`` and give it the interval of level ``base``."""
    if contrast.verdict in ("prior-driven", "not-estimable"):
        return contrast
    information, last = contrast.information, trail.last
    if plan.rule == "confidence-sequence":
        optimal = optimal_information(plan, trail, information, clock)
        bound, width = (
            float(mixture_bound(information, alpha=a, optimal_information=optimal))
            for a in (level, base)
        )
        return _judged(plan, replace(contrast, alpha_spent=level, bound=bound), width, last)
    if plan.rule == "unsafe-fixed":
        bound = own_bound(plan.alpha)
        erred = trail.spent + _first_crossing(trail, information, bound)
        return _judged(plan, replace(contrast, alpha_spent=erred, bound=bound), bound, None)
    rule = plan.rule
    if clock <= trail.clock or trail.spent >= level:
        # Over-running: no alpha is left. The last interval goes on holding.
        return replace(contrast, low=last.low, high=last.high) if last else contrast
    spend = _increment(rule, trail, clock, level)
    bound = width = next_bound(trail.bounds, trail.information, information, spend)
    if level > base:
        # Testing the base level's own increment by itself holds whatever the bounds before it.
        width = own_bound(
            spent_alpha(rule, clock, alpha=base) - spent_alpha(rule, trail.clock, alpha=base)
        )
    return _judged(
        plan, replace(contrast, alpha_spent=trail.spent + spend, bound=bound), width, None
    )


def _increment(rule: SpendingRule, trail: Trail, clock: float, level: float) -> float:
    """Alpha for this look: what the level adds since the last test, within what is left of it."""
    now = spent_alpha(rule, clock, alpha=level)
    return max(0.0, now - max(spent_alpha(rule, trail.clock, alpha=level), trail.spent))


def _first_crossing(trail: Trail, information: float, bound: float) -> float:
    """Probability, without any effect, that this look is the first to cross a bound."""
    if not has_grown(trail.information, information):
        return 0.0
    return sum(beyond(trail.bounds, trail.information, information, bound, -bound))


def _judged(
    plan: StoppingPlan, contrast: ContrastLook, width: float, before: ContrastLook | None
) -> ContrastLook:
    """Give a tested contrast its interval and its verdict.

    ``before`` is the record whose interval goes on holding and is intersected with the new one; an
    empty intersection, which has probability alpha at most, is not used.
    """
    low, high = contrast.value - width * contrast.se, contrast.value + width * contrast.se
    if before is not None and max(low, before.low) <= min(high, before.high):
        low, high = max(low, before.low), min(high, before.high)
    null = plan.target.null
    verdict: Verdict = "undecided"
    if contrast.z > contrast.bound or low > null:
        verdict = "first"
    elif contrast.z < -contrast.bound or high < null:
        verdict = "second"
    elif null - plan.rope < low and high < null + plan.rope:
        verdict = "equivalent"
    return replace(contrast, low=low, high=high, verdict=verdict)
