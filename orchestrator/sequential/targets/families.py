"""Targets that make several claims at once, whose errors are controlled together."""

from dataclasses import dataclass
from itertools import combinations
from math import isfinite, log
from typing import ClassVar, Literal

from benchtrial.errors import StoppingError
from benchtrial.orchestrator.sequential.records import ContrastLook
from benchtrial.orchestrator.sequential.targets.base import (
    Contrasts,
    Family,
    Pair,
    Resolution,
    by_estimate,
    closest_race,
    listed,
    loser,
    pairs_listed,
    require_distinct,
    undecided,
)


@dataclass(frozen=True, slots=True)
class Ranking:
    """The order of all candidates.

    Parameters
    ----------
    candidates
        Ids.
    family
        ``"holm"``: alpha divided by the number of undecided pairs, so that a decided pair passes
        its share on; or ``"max-z"``: one simulated bound for all pairs, worth its time only where
        contrasts are highly correlated.
    """

    candidates: tuple[str, ...]
    family: Literal["holm", "max-z"] = "holm"
    null: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        require_distinct(self.candidates, least=2)
        if self.family not in ("holm", "max-z"):
            raise StoppingError(
                f"a ranking cannot share alpha by {self.family!r}; choose 'holm' or 'max-z'"
            )

    def pairs(self) -> tuple[Pair, ...]:
        """Name all pairs."""
        return tuple(combinations(self.candidates, 2))

    def resolve(self, contrasts: Contrasts) -> Resolution | None:
        """Ask that every pair has an order or is practically the same."""
        order = self.answer(contrasts)
        if all(contrast.winner for contrast in contrasts):
            return Resolution(
                "decided", order[0], f"the order is {' > '.join(order)}{closest_race(contrasts)}"
            )
        if all(contrast.winner or contrast.verdict == "equivalent" for contrast in contrasts):
            same = [contrast for contrast in contrasts if contrast.verdict == "equivalent"]
            return Resolution(
                "equivalent",
                None,
                f"the order is {' > '.join(order)}, where {len(same)} of {len(contrasts)} pairs "
                f"are practically the same: {pairs_listed(same)}",
            )
        return None

    def open(self, contrasts: Contrasts) -> tuple[ContrastLook, ...]:
        """Pick the undecided pairs."""
        return undecided(contrasts)

    def answer(self, contrasts: Contrasts) -> tuple[str, ...]:
        """Give all candidates, best first by their estimates."""
        return by_estimate(self.candidates, contrasts)

    def standing(self, contrasts: Contrasts) -> str:
        """Give the order by estimate, the ranks that each may have, and what is undecided."""
        undecided = self.open(contrasts)
        ranks = ", ".join(
            f"{name} {low}-{high}" if low < high else f"{name} {low}"
            for name, (low, high) in self.ranks(contrasts).items()
        )
        return (
            f"{len(undecided)} of {len(contrasts)} pairs are undecided; ranks: {ranks}"
            f"{closest_race(undecided)}"
        )

    def ranks(self, contrasts: Contrasts) -> dict[str, tuple[int, int]]:
        """Compute the ranks that each candidate may have, best first by estimate.

        One more than the number known to beat it, to the number of candidates less those that it
        is known to beat. All intervals hold together with the level of the family.
        """
        beaten_by = [loser(contrast) for contrast in contrasts]
        beats = [contrast.winner for contrast in contrasts]
        return {
            name: (1 + beaten_by.count(name), len(self.candidates) - beats.count(name))
            for name in self.answer(contrasts)
        }


@dataclass(frozen=True, slots=True)
class Screening:
    """Which judges are sensitive enough to keep.

    The contrast of a judge is the logarithm of its sensitivity minus that of the reference judge,
    from a fit that adjusts for position; a judge is kept if it lies above ``log(keep)``.

    Parameters
    ----------
    judges
        Ids of the judges to screen, without the reference.
    reference
        Id of the reference judge.
    keep
        Share of the reference's sensitivity that a judge needs to be kept.
    """

    judges: tuple[str, ...]
    reference: str
    keep: float = 0.5
    family: ClassVar[Family] = "holm"

    def __post_init__(self) -> None:
        require_distinct((*self.judges, self.reference), least=2)
        if not (isfinite(self.keep) and self.keep > 0.0):
            raise StoppingError(
                f"keep is {self.keep!r}; it is a share of the reference's sensitivity, for "
                "example 0.5"
            )

    @property
    def null(self) -> float:
        """The threshold, on the scale of the logarithm of sensitivity."""
        return log(self.keep)

    def pairs(self) -> tuple[Pair, ...]:
        """Name each judge against the reference."""
        return tuple((judge, self.reference) for judge in self.judges)

    def resolve(self, contrasts: Contrasts) -> Resolution | None:
        """Ask that every judge is above the threshold, below it, or practically on it."""
        if all(contrast.winner or contrast.verdict == "equivalent" for contrast in contrasts):
            clear = all(contrast.winner for contrast in contrasts)
            return Resolution("decided" if clear else "equivalent", None, self._groups(contrasts))
        return None

    def open(self, contrasts: Contrasts) -> tuple[ContrastLook, ...]:
        """Pick the judges that are neither kept nor dropped."""
        return undecided(contrasts)

    def answer(self, contrasts: Contrasts) -> tuple[str, ...]:
        """Give the judges to keep."""
        return tuple(contrast.first for contrast in contrasts if contrast.verdict == "first")

    def standing(self, contrasts: Contrasts) -> str:
        """Say who is kept, dropped and undecided."""
        return self._groups(contrasts) + closest_race(self.open(contrasts))

    def _groups(self, contrasts: Contrasts) -> str:
        """Name the judges by what is known about them."""
        groups = (
            ("keep", ("first",)),
            ("drop", ("second",)),
            ("on the threshold", ("equivalent",)),
            ("undecided", ("undecided", "prior-driven", "not-estimable")),
        )
        parts = (
            (label, [contrast.first for contrast in contrasts if contrast.verdict in verdicts])
            for label, verdicts in groups
        )
        named = "; ".join(f"{label}: {listed(names)}" for label, names in parts if names)
        return f"at {self.keep:.0%} of the sensitivity of {self.reference}: {named}"
