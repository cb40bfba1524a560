"""A verdict: what one reply says about one subject, and by which rule we read it so."""

from dataclasses import dataclass
from typing import Literal

State = Literal["valid", "tie", "invalid", "failed"]

# Raised whenever a change of the rules could read an old reply differently.
PARSER_VERSION = "1"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge decided about one subject.

    Parameters
    ----------
    position
        Batch: order of emission from 1 (items that were not rated follow those that were, in
        displayed order). Pair: 1.
    subject
        Batch: the item's id. Pair: empty.
    state
        Only ``valid`` and ``tie`` enter a fit; ``failed`` means that no reply arrived.
    reason
        Why there is no verdict: ``refusal``, ``content_filter``, ``truncated``, ``empty``,
        ``unparseable``, ``ambiguous``, ``out_of_range``, ``omitted`` (a batch went on without this
        item), ``context_overflow``, ``transport`` …; None if there is one.
    value
        Batch: the rating (rank of the label from 0, or the number). Pair: the slot-A score, 1 for
        slot A, 0 for slot B, 0.5 for a tie.
    label
        The label as the study spells it; None for numbers and where there is no verdict.
    rule
        Name of the rule that decided, for replay and audit; empty where none was needed.
    probability
        Pair: the slot-A score that the judge's own log-probabilities give, tie mass counted half.
    """

    position: int
    subject: str
    state: State
    reason: str | None = None
    value: float | None = None
    label: str | None = None
    rule: str = ""
    probability: float | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A label or number found in a text, with its place and the rule that found it.

    ``start`` and ``end`` are character offsets into the reply's text. ``value`` is None if the text
    is decisive about being no verdict, for ``reason``.
    """

    value: str | float | None
    start: int
    end: int
    rule: str
    reason: str | None = None


def nothing(reason: str, rule: str = "") -> Found:
    """Return a finding that there is no verdict, for ``reason``."""
    return Found(None, 0, 0, rule, reason)
