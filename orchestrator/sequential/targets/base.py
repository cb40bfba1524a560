"""What every target is made of: the protocol, and the reading of verdicts."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, Protocol

from benchtrial.errors import StoppingError
from benchtrial.orchestrator.sequential.records import ContrastLook

Pair = tuple[str, str]
Family = Literal["each", "holm", "max-z"]
Contrasts = Sequence[ContrastLook]


@dataclass(frozen=True, slots=True)
class Resolution:
    """An answer, as read from the verdicts: a state, a winner where there is one, and the words."""

    state: Literal["decided", "equivalent"]
    winner: str | None
    sentence: str


class Target(Protocol):
    """What a stopping plan asks of its target."""

    @property
    def family(self) -> Family:
        """How the contrasts share alpha: each at the full level, by Holm, or by max-|Z|."""

    @property
    def null(self) -> float:
        """Value of a contrast that stands for "no difference"."""

    def pairs(self) -> tuple[Pair, ...]:
        """Name the contrasts (first minus second) that have to be estimated."""

    def resolve(self, contrasts: Contrasts) -> Resolution | None:
        """Read the answer from the verdicts, if they have one."""

    def open(self, contrasts: Contrasts) -> tuple[ContrastLook, ...]:
        """Pick the contrasts on which the answer still hangs."""

    def answer(self, contrasts: Contrasts) -> tuple[str, ...]:
        """Give the answer as far as the data carry it (see ``Decision.answer``)."""

    def standing(self, contrasts: Contrasts) -> str:
        """Say in words how far the data got, for a study that ends without a conclusion."""


def require_known(target: Target, known: Collection[str]) -> None:
    """Refuse a target that names somebody whom the study does not know.

    Raises
    ------
    StoppingError
        Naming the unknown id and its nearest known ones.
    """
    for name in dict.fromkeys(name for pair in target.pairs() for name in pair):
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {listed(sorted(known))}"
            raise StoppingError(f"the target names {name!r}, which the study does not know; {hint}")


def require_distinct(names: Sequence[str], *, least: int) -> None:
    """Refuse too few names, or one name twice."""
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise StoppingError(
            f"{listed(sorted(repeated))} cannot be compared with itself; name each id once"
        )
    if len(names) < least:
        raise StoppingError(f"a target needs at least {least} ids and has {len(names)}")


def undecided(contrasts: Contrasts) -> tuple[ContrastLook, ...]:
    """Contrasts that are neither decided nor known to be practically nothing."""
    return tuple(c for c in contrasts if not c.winner and c.verdict != "equivalent")


def loser(contrast: ContrastLook) -> str | None:
    """Id of the smaller one, if that is known."""
    return {"first": contrast.second, "second": contrast.first}.get(contrast.verdict)


def contrasts_of(candidate: str, contrasts: Contrasts) -> tuple[ContrastLook, ...]:
    """Contrasts of one candidate, read as the candidate minus the other."""
    return tuple(c.seen_from(candidate) for c in contrasts if candidate in c.pair)


def among(names: Collection[str], contrasts: Contrasts) -> tuple[ContrastLook, ...]:
    """Contrasts with both ends in a set."""
    return tuple(c for c in contrasts if c.first in names and c.second in names)


def between(names: Collection[str], contrasts: Contrasts) -> tuple[ContrastLook, ...]:
    """Contrasts with one end in a set, read as the one inside minus the one outside."""
    return tuple(
        c.seen_from(c.first if c.first in names else c.second)
        for c in contrasts
        if (c.first in names) != (c.second in names)
    )


def by_estimate(candidates: Sequence[str], contrasts: Contrasts) -> tuple[str, ...]:
    """Sort by mean contrast with all others, best first; ties keep the order of the study."""
    totals = dict.fromkeys(candidates, 0.0)
    for contrast in contrasts:
        totals[contrast.first] += contrast.value
        totals[contrast.second] -= contrast.value
    return tuple(sorted(candidates, key=lambda name: -totals[name]))


def closest_race(contrasts: Contrasts) -> str:
    """Name the contrast with the least evidence, as the tail of a sentence."""
    if not contrasts:
        return ""
    return f"; closest: {min(contrasts, key=lambda contrast: abs(contrast.z))}"


def listed(names: Sequence[str], word: str = "and") -> str:
    """Join names as in a sentence."""
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def pairs_listed(contrasts: Contrasts) -> str:
    """Join pairs that are practically the same."""
    return ", ".join(f"{c.first} = {c.second}" for c in contrasts)
