"""What a look leaves behind: the record from which every later look, and a reader, can work.

A look is written into the ledger once and read back for ever, so the round trip through JSON is
exact: floats are written with all their digits, and the infinite ends of an interval that nobody
knows yet are written as words. Nothing is ever recomputed from a record but what the record says.
"""

import json
from dataclasses import asdict, dataclass
from math import inf, isfinite
from typing import Any, Literal, Self

State = Literal[
    "continue",
    "decided",
    "equivalent",
    "inconclusive-futility",
    "inconclusive-budget",
    "saturated",
    "unidentified",
    "exhausted",
]
Verdict = Literal["first", "second", "equivalent", "undecided", "prior-driven", "not-estimable"]


@dataclass(frozen=True, slots=True)
class ContrastLook:
    """One contrast at one look.

    Parameters
    ----------
    first, second
        Ids; the contrast is first minus second.
    value, se
        Estimate and standard error. A contrast that cannot be estimated (yet) has value 0 and an
        infinite standard error.
    information
        ``1 / se^2``; 0 if it cannot be estimated.
    z
        Distance of the value from the null value in standard errors.
    alpha_spent
        Alpha that this contrast has used up to and including this look; under max-|Z| its
        Bonferroni share. Under a confidence sequence, the level of the sequence; under
        ``unsafe-fixed``, the actual probability of a false claim so far.
    bound
        Critical value for ``|z|``; infinite if the look did not test this contrast.
    low, high
        Interval that holds at all looks together; infinite ends while nothing is known.
    verdict
        ``first`` or ``second`` (the larger one), ``equivalent``, ``undecided``, ``prior-driven``
        (set by the ridge and not by the data: never counts) or ``not-estimable``.
    """

    first: str
    second: str
    value: float
    se: float
    information: float
    z: float
    alpha_spent: float
    bound: float
    low: float
    high: float
    verdict: Verdict

    @property
    def pair(self) -> tuple[str, str]:
        """The ids as a key."""
        return self.first, self.second

    @property
    def tested(self) -> bool:
        """Whether this look spent alpha on this contrast."""
        return isfinite(self.bound)

    @property
    def winner(self) -> str | None:
        """Id of the larger one, if that is known."""
        return {"first": self.first, "second": self.second}.get(self.verdict)

    def seen_from(self, candidate: str) -> Self:
        """Turn the contrast so that it reads ``candidate`` minus the other."""
        if candidate == self.first:
            return self
        turned: dict[Verdict, Verdict] = {"first": "second", "second": "first"}
        return type(self)(
            first=self.second,
            second=self.first,
            value=-self.value,
            se=self.se,
            information=self.information,
            z=-self.z,
            alpha_spent=self.alpha_spent,
            bound=self.bound,
            low=-self.high,
            high=-self.low,
            verdict=turned.get(self.verdict, self.verdict),
        )

    def __str__(self) -> str:
        """Give the numbers behind a verdict in a few words."""
        if not isfinite(self.se):
            return f"{self.first} - {self.second} cannot be estimated yet"
        words = f"{self.first} - {self.second} = {self.value:+.3f} (se {self.se:.3f}"
        if isfinite(self.low) or isfinite(self.high):
            words += f", interval {self.low:+.3f} to {self.high:+.3f}"
        if self.verdict == "prior-driven":
            return words + ", set by the prior)"
        return words + (f", |z| {abs(self.z):.2f}, bound {self.bound:.2f})" if self.tested else ")")


@dataclass(frozen=True, slots=True)
class Decision:
    """What a look concludes.

    Parameters
    ----------
    state
        ``continue``, or the end state of the study.
    winner
        Id of the winner, where the target has one and it is decided.
    sentence
        The conclusion for a reader, with the numbers behind it.
    answer
        The answer as far as the data carry it: for a difference the winner, or both; for the best
        the set that may hold it; for the top k those that are surely in it; for a ranking all,
        best first; for a screening the judges to keep.
    """

    state: State
    winner: str | None
    sentence: str
    answer: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the data.

    Parameters
    ----------
    number
        From 1.
    clock
        Spent / budget, 1 on the final look.
    final
        Whether no data can follow.
    contrasts
        The target's contrasts, in its order.
    decision
        What follows from them.
    """

    number: int
    clock: float
    final: bool
    contrasts: tuple[ContrastLook, ...]
    decision: Decision

    def to_json(self) -> str:
        """Write the look as strict JSON that :meth:`from_json` reads back bit for bit."""
        return json.dumps(_finite(asdict(self)), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what :meth:`to_json` wrote."""
        fields = json.loads(text)
        return cls(
            number=fields["number"],
            clock=fields["clock"],
            final=fields["final"],
            contrasts=tuple(_contrast(contrast) for contrast in fields["contrasts"]),
            decision=Decision(
                **{**fields["decision"], "answer": tuple(fields["decision"]["answer"])}
            ),
        )


_NUMBERS = ("value", "se", "information", "z", "alpha_spent", "bound", "low", "high")
_INFINITE = {inf: "inf", -inf: "-inf"}


def _finite(value: Any) -> Any:
    """Replace infinite floats, which JSON does not know, by words."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return _INFINITE.get(value, value) if isinstance(value, float) else value


def _contrast(fields: dict[str, Any]) -> ContrastLook:
    """Read one contrast, turning the words back into infinite floats."""
    return ContrastLook(**{**fields, **{name: float(fields[name]) for name in _NUMBERS}})
