"""What a campaign tells those who watch it: the command line, a notebook, a log."""

from collections.abc import Callable
from dataclasses import dataclass

from benchtrial.orchestrator.budget import Amount
from benchtrial.orchestrator.sequential import Look


@dataclass(frozen=True, slots=True)
class RoundStarted:
    """A round of ``queries`` requests begins; ``answered`` of them were answered earlier."""

    number: int
    rounds: int
    queries: int
    answered: int


@dataclass(frozen=True, slots=True)
class Replied:
    """One reply is in the ledger."""

    judge: str
    valid: bool
    spent: Amount


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """One attempt failed; ``message`` says why, ``again`` whether it may be tried again."""

    judge: str
    attempt: int
    message: str
    again: bool


@dataclass(frozen=True, slots=True)
class LookTaken:
    """The data were looked at after a round."""

    look: Look
    spent: Amount


Event = RoundStarted | Replied | AttemptFailed | LookTaken
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """Listen to nothing."""
    del event
