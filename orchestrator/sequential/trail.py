"""What the looks so far say about one contrast: all that its next test has to know."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchtrial.orchestrator.sequential.canonical import has_grown
from benchtrial.orchestrator.sequential.records import ContrastLook, Look


@dataclass(frozen=True, slots=True)
class Trail:
    """The tests of one contrast so far.

    Parameters
    ----------
    bounds, information
        The tested looks that belong to the canonical process (whose information has grown).
    spent
        Alpha spent so far, as it was recorded.
    clock
        Clock of the last test; 0 before the first.
    projected
        Information for the whole budget as the first test projected it; None before that.
    last
        The record of the last test.
    """

    bounds: tuple[float, ...] = ()
    information: tuple[float, ...] = ()
    spent: float = 0.0
    clock: float = 0.0
    projected: float | None = None
    last: ContrastLook | None = None

    def extended(self, contrast: ContrastLook, clock: float) -> "Trail":
        """Add one look; a look that did not test the contrast leaves no trace."""
        if not contrast.tested:
            return self
        joins = has_grown(self.information, contrast.information)
        return Trail(
            bounds=(*self.bounds, contrast.bound) if joins else self.bounds,
            information=(*self.information, contrast.information) if joins else self.information,
            spent=contrast.alpha_spent,
            clock=clock,
            projected=self.projected or contrast.information / clock,
            last=contrast,
        )


def trails(history: Sequence[Look], contrasts: int) -> tuple[Trail, ...]:
    """Follow every contrast through the looks so far."""
    found = [Trail()] * contrasts
    for look in history:
        found = [
            trail.extended(contrast, look.clock)
            for trail, contrast in zip(found, look.contrasts, strict=True)
        ]
    return tuple(found)
