"""Taking a look: from estimates and the looks before to a decision.

A look is a pure function of the plan, the recorded looks and the new estimates, so that a replay
decides what the run decided. The answers are tried in a fixed order: a claim that the evidence
carries comes before any reason to stop without one.
"""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING

from benchtrial.errors import StoppingError
from benchtrial.orchestrator.sequential.futility import chance_left, stalled
from benchtrial.orchestrator.sequential.multiplicity import weigh_contrasts
from benchtrial.orchestrator.sequential.plan import StoppingPlan
from benchtrial.orchestrator.sequential.records import ContrastLook, Decision, Look, State
from benchtrial.orchestrator.sequential.targets.base import Resolution
from benchtrial.orchestrator.sequential.trail import Trail, trails

if TYPE_CHECKING:
    from benchtrial.orchestrator.models.estimate import Estimate

#: End states that more budget can reopen under a confidence sequence, whose level does not depend
#: on a planned end.
REOPENED_BY_BUDGET = ("inconclusive-budget", "inconclusive-futility", "exhausted")


def take_look(
    plan: StoppingPlan,
    history: Sequence[Look],
    estimates: "Mapping[tuple[str, str], Estimate]",
    *,
    clock: float,
    final: bool,
    saturated: str | None = None,
    unidentified: str | None = None,
    exhausted: bool = False,
) -> Look:
    """Look at the estimates and decide whether the study goes on.

    Parameters
    ----------
    plan
        The stopping plan, the same at every look.
    history
        The looks so far, as they were recorded.
    estimates
        An estimate for each pair of the target. One without a finite value or a positive, finite
        standard error counts as not estimable (yet): it spends no alpha and never stops a study.
        Nor does one that is marked ``prior_driven``.
    clock
        Spent / budget. Above 1 it counts as 1. A look at a clock that has not moved has no alpha
        to spend and reports only.
    final
        Whether no data can follow (no further round is affordable). The clock is then set to 1, so
        that the alpha that is left is spent.
    saturated
        Why the judges no longer discriminate, or None.
    unidentified
        Why the data can never carry the contrasts, or None.
    exhausted
        Whether a recorded pool has no more answers; the look is then final.

    Returns
    -------
    Look
        The record of this look with its decision.

    Raises
    ------
    StoppingError
        If the study has ended, the clock runs backwards or is not positive, an estimate is missing,
        or the history belongs to another target.
    """
    final = final or exhausted
    clock = _checked_clock(plan, history, clock, final=final)
    _require_estimates(plan, history, estimates)
    before = trails(history, len(plan.target.pairs()))
    contrasts = weigh_contrasts(plan, before, estimates, clock)
    decision = _Judgement(plan, history, before, contrasts, clock).decide(
        final=final, saturated=saturated, unidentified=unidentified, exhausted=exhausted
    )
    return Look(len(history) + 1, clock, final, contrasts, decision)


class _Judgement:
    """The order in which the possible ends of a study are tried."""

    def __init__(
        self,
        plan: StoppingPlan,
        history: Sequence[Look],
        before: Sequence[Trail],
        contrasts: tuple[ContrastLook, ...],
        clock: float,
    ) -> None:
        self.plan = plan
        self.target = plan.target
        self.history = history
        self.before = before
        self.contrasts = contrasts
        self.clock = clock
        self.number = len(history) + 1

    def decide(
        self, *, final: bool, saturated: str | None, unidentified: str | None, exhausted: bool
    ) -> Decision:
        """Try a claim, then reasons to stop without one, then the end of the means."""
        resolution = self.target.resolve(self.contrasts)
        if resolution is not None:
            return self._resolved(resolution)
        if unidentified:
            return self._ended("unidentified", f"these data cannot tell ({unidentified})")
        saturated = saturated or (None if final else self._stalled())
        if saturated:
            return self._ended("saturated", f"the judges no longer discriminate ({saturated})")
        out_of_reach = None if final else self._out_of_reach()
        if out_of_reach:
            return self._ended("inconclusive-futility", out_of_reach)
        if exhausted:
            return self._ended("exhausted", "no recorded answers are left and none is conclusive")
        if final:
            return self._ended(
                "inconclusive-budget", "the schedule or the budget is used up without a conclusion"
            )
        return self._ended("continue", "no conclusion yet")

    def _resolved(self, resolution: Resolution) -> Decision:
        """Phrase a claim; under an unsafe rule with the chance that it is false."""
        sentence = f"{self._when()}: {resolution.sentence}"
        if self.plan.rule == "unsafe-fixed":
            erred = max(contrast.alpha_spent for contrast in self.contrasts)
            sentence += (
                f"; UNSAFE: after {self.number} looks at the fixed level, each contrast claims a "
                f"difference that is not there with probability {erred:.1%}, "
                f"not {self.plan.alpha:.1%}"
            )
        answer = self.target.answer(self.contrasts)
        return Decision(resolution.state, resolution.winner, sentence, answer)

    def _ended(self, state: State, reason: str) -> Decision:
        """Phrase the lack of a claim with what is known all the same."""
        return Decision(
            state=state,
            winner=None,
            sentence=f"{self._when()}: {reason}; {self.target.standing(self.contrasts)}",
            answer=self.target.answer(self.contrasts),
        )

    def _when(self) -> str:
        return f"look {self.number}, {self.clock:.0%} of the study"

    def _stalled(self) -> str | None:
        """Why the last rounds brought too little information, if they did."""
        if self.plan.futility is None:
            return None
        open_contrasts = self.target.open(self.contrasts)
        return stalled(self.plan.futility, self.history, open_contrasts, self.clock)

    def _out_of_reach(self) -> str | None:
        """Why no contrast on which the answer hangs can still be concluded, if so."""
        settings = self.plan.futility
        if settings is None or self.number < settings.from_look:
            return None
        hanging = {contrast.pair for contrast in self.target.open(self.contrasts)}
        undecided = sum(contrast.winner is None for contrast in self.contrasts)
        level = self.plan.alpha / (1 if self.target.family == "each" else undecided)
        chances = []
        for trail, contrast in zip(self.before, self.contrasts, strict=True):
            if contrast.pair in hanging:
                now = trail.extended(contrast, self.clock)
                chance = chance_left(self.plan, now, contrast, clock=self.clock, level=level)
                if chance >= self.plan.gives_up_below:
                    return None
                chances.append(chance)
        if not chances:
            return None
        return (
            f"even for an effect {settings.optimism:g} standard error beyond the estimate, the "
            f"chance of a conclusion by the end of the budget is {max(chances):.1%} (below "
            f"{self.plan.gives_up_below:.0%})"
        )


def _checked_clock(
    plan: StoppingPlan, history: Sequence[Look], clock: float, *, final: bool
) -> float:
    """Check that a look may be taken now, and set its clock."""
    open_ended = plan.rule == "confidence-sequence"
    if history:
        last = history[-1]
        state = last.decision.state
        if state != "continue" and not (open_ended and state in REOPENED_BY_BUDGET):
            raise StoppingError(
                f"the study ended at look {last.number} ({state}); a look after the end has no "
                "level. Plan a new study, or use a confidence sequence if budget may be added"
            )
    if not (isfinite(clock) and clock > 0.0):
        raise StoppingError(
            f"the clock of look {len(history) + 1} is {clock!r}; it is spent / budget, above 0"
        )
    clock = 1.0 if final else min(float(clock), 1.0)
    if history and clock < history[-1].clock and not open_ended:
        raise StoppingError(
            f"the clock of look {len(history) + 1} is {clock!r}, behind {history[-1].clock!r} of "
            "the look before; budgets cannot be raised under a spending rule"
        )
    return clock


def _require_estimates(
    plan: StoppingPlan,
    history: Sequence[Look],
    estimates: "Mapping[tuple[str, str], Estimate]",
) -> None:
    """Check that estimates and history are those of the plan's target."""
    pairs = plan.target.pairs()
    missing = [pair for pair in pairs if pair not in estimates]
    if missing:
        known = sorted({str(name) for pair in estimates for name in pair})
        raise StoppingError(
            f"there is no estimate of {missing[0][0]} - {missing[0][1]} ({len(missing)} of "
            f"{len(pairs)} contrasts are missing); estimates name {', '.join(known) or 'nobody'}"
        )
    for look in history:
        if tuple(contrast.pair for contrast in look.contrasts) != pairs:
            raise StoppingError(
                f"look {look.number} of the history has other contrasts than the plan's target; "
                "the target is frozen at the first look"
            )
