"""Targets that put one candidate, or a set, ahead of the others."""

from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

from benchtrial.errors import StoppingError
from benchtrial.orchestrator.sequential.records import ContrastLook
from benchtrial.orchestrator.sequential.targets.base import (
    Contrasts,
    Family,
    Pair,
    Resolution,
    among,
    between,
    by_estimate,
    closest_race,
    contrasts_of,
    listed,
    loser,
    require_distinct,
    undecided,
)


@dataclass(frozen=True, slots=True)
class Difference:
    """Whether ``a`` is better than ``b``, worse, or practically the same."""

    a: str
    b: str
    family: ClassVar[Family] = "each"
    null: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        require_distinct((self.a, self.b), least=2)

    def pairs(self) -> tuple[Pair, ...]:
        """Name the contrasts (first minus second) that have to be estimated."""
        return ((self.a, self.b),)

    def resolve(self, contrasts: Contrasts) -> Resolution | None:
        """Read the answer from the one contrast."""
        (contrast,) = contrasts
        if contrast.winner:
            loser = self.b if contrast.winner == self.a else self.a
            return Resolution(
                "decided", contrast.winner, f"{contrast.winner} beats {loser}: {contrast}"
            )
        if contrast.verdict == "equivalent":
            return Resolution(
                "equivalent", None, f"{self.a} and {self.b} are practically the same: {contrast}"
            )
        return None

    def open(self, contrasts: Contrasts) -> tuple[ContrastLook, ...]:
        """Pick the contrasts on which the answer still hangs."""
        return undecided(contrasts)

    def answer(self, contrasts: Contrasts) -> tuple[str, ...]:
        """Give the winner, or both."""
        winner = contrasts[0].winner
        return (winner,) if winner else (self.a, self.b)

    def standing(self, contrasts: Contrasts) -> str:
        """Give the contrast as it stands."""
        return str(contrasts[0])


@dataclass(frozen=True, slots=True)
class Best:
    """Which candidate is better than every other."""

    candidates: tuple[str, ...]
    family: ClassVar[Family] = "each"
    null: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        require_distinct(self.candidates, least=2)

    def pairs(self) -> tuple[Pair, ...]:
        """Name all pairs: the leader is not known in advance."""
        return tuple(combinations(self.candidates, 2))

    def resolve(self, contrasts: Contrasts) -> Resolution | None:
        """Look for one candidate ahead of all, or a top set that is practically the same."""
        for candidate in self.candidates:
            own = contrasts_of(candidate, contrasts)
            if all(contrast.winner == candidate for contrast in own):
                closest = min(own, key=lambda contrast: abs(contrast.z) - contrast.bound)
                return Resolution(
                    "decided", candidate, f"{candidate} beats every other; closest: {closest}"
                )
        top = self.answer(contrasts)
        within = among(top, contrasts)
        if within and all(contrast.verdict == "equivalent" for contrast in within):
            widest = max(within, key=lambda contrast: max(-contrast.low, contrast.high))
            ahead = " beat the others and" if len(top) < len(self.candidates) else ""
            return Resolution(
                "equivalent",
                None,
                f"{listed(top)}{ahead} are practically the same; widest: {widest}",
            )
        return None

    def open(self, contrasts: Contrasts) -> tuple[ContrastLook, ...]:
        """Pick the undecided contrasts within the top set."""
        return undecided(among(self.answer(contrasts), contrasts))

    def answer(self, contrasts: Contrasts) -> tuple[str, ...]:
        """Give the top set: the candidates that none is known to beat."""
        beaten = {loser(contrast) for contrast in contrasts}
        return tuple(name for name in self.candidates if name not in beaten)

    def standing(self, contrasts: Contrasts) -> str:
        """Name the top set and the closest race in it."""
        top = self.answer(contrasts)
        return f"the best may be {listed(top, 'or')}{closest_race(self.open(contrasts))}"


@dataclass(frozen=True, slots=True)
class TopK:
    """Which ``k`` candidates are better than all the others."""

    candidates: tuple[str, ...]
    k: int
    family: ClassVar[Family] = "each"
    null: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        require_distinct(self.candidates, least=2)
        if not 1 <= self.k < len(self.candidates):
            raise StoppingError(
                f"the top {self.k} of {len(self.candidates)} candidates cannot be asked for; "
                f"k goes from 1 to {len(self.candidates) - 1}"
            )

    def pairs(self) -> tuple[Pair, ...]:
        """Name all pairs: who is in is not known in advance."""
        return tuple(combinations(self.candidates, 2))

    def resolve(self, contrasts: Contrasts) -> Resolution | None:
        """Look for k candidates that are all ahead of all others, or a tie at the cut."""
        top = by_estimate(self.candidates, contrasts)[: self.k]
        across = between(top, contrasts)
        if all(contrast.winner in top for contrast in across):
            closest = min(across, key=lambda contrast: abs(contrast.z) - contrast.bound)
            return Resolution(
                "decided",
                top[0] if self.k == 1 else None,
                f"the top {self.k} are {listed(top)}, each ahead of all others; closest: {closest}",
            )
        at_the_cut = self._at_the_cut(contrasts)
        within = among(at_the_cut, contrasts)
        if within and all(contrast.verdict == "equivalent" for contrast in within):
            return Resolution(
                "equivalent",
                None,
                f"{listed(self.answer(contrasts)) or 'none'} are in the top {self.k} for sure; "
                f"{listed(at_the_cut)}, at the cut, are practically the same",
            )
        return None

    def open(self, contrasts: Contrasts) -> tuple[ContrastLook, ...]:
        """Pick the undecided contrasts across the present cut."""
        top = by_estimate(self.candidates, contrasts)[: self.k]
        return undecided([c for c in contrasts if (c.first in top) != (c.second in top)])

    def answer(self, contrasts: Contrasts) -> tuple[str, ...]:
        """Give those that are in for sure: ahead of at least M - k others."""
        needed = len(self.candidates) - self.k
        return tuple(
            name
            for name in self.candidates
            if sum(contrast.winner == name for contrast in contrasts) >= needed
        )

    def standing(self, contrasts: Contrasts) -> str:
        """Name those that are in, those at the cut, and the closest race."""
        inside = listed(self.answer(contrasts)) or "none"
        return (
            f"in the top {self.k} for sure: {inside}; possibly: "
            f"{listed(self._at_the_cut(contrasts))}{closest_race(self.open(contrasts))}"
        )

    def _at_the_cut(self, contrasts: Contrasts) -> tuple[str, ...]:
        """Candidates neither in nor out for sure."""
        inside = self.answer(contrasts)
        losers = [loser(contrast) for contrast in contrasts]
        return tuple(
            name for name in self.candidates if name not in inside and losers.count(name) < self.k
        )
