"""What a campaign came to."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from benchtrial.errors import LedgerDamaged
from benchtrial.orchestrator.budget import Amount
from benchtrial.orchestrator.ledger import Ledger
from benchtrial.orchestrator.models import GLMMPanel, OscarFit
from benchtrial.orchestrator.sequential import Look

# What the command line returns for each end state; docs/reference/exit-codes.md explains them.
EXIT_CODES = {
    "decided": 0,
    "equivalent": 0,
    "inconclusive-futility": 3,
    "saturated": 3,
    "unidentified": 3,
    "inconclusive-budget": 4,
    "exhausted": 4,
    "continue": 4,
}


def looks_of(ledger: Ledger) -> tuple[Look, ...]:
    """Read the looks that a ledger holds.

    Raises
    ------
    LedgerDamaged
        If one of them is not a look.
    """
    try:
        return tuple(Look.from_json(text) for text in ledger.looks())
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise LedgerDamaged(
            f"{ledger.path}: a look cannot be read ({error}). Restore a copy"
        ) from error


@dataclass(frozen=True, slots=True)
class Result:
    """The decision of a campaign, and what it rests on.

    Parameters
    ----------
    looks
        Every look, in order; the last one carries the decision.
    spent
        Tokens, money and requests, unknown attempts counted in full.
    fit
        The model fitted at the last look, None where the data do not carry one.
    warnings
        What the fit has to say about itself.
    missing
        Verdicts that do not enter the fit, counted by judge, candidate or item, slot and reason.
    ledger
        Where all of it is recorded.
    exhausted
        Whether a recording ran dry before the campaign came to an end of its own. Nothing is
        claimed then that the looks have not claimed: no alpha is spent on a recording that stops.
    """

    looks: tuple[Look, ...]
    spent: Amount
    fit: GLMMPanel | OscarFit | None
    warnings: tuple[str, ...]
    missing: pd.DataFrame
    ledger: Path
    exhausted: bool = False

    @property
    def state(self) -> str:
        """The end state, or ``"continue"`` while the campaign is not over."""
        state = self.looks[-1].decision.state if self.looks else "continue"
        return "exhausted" if state == "continue" and self.exhausted else state

    @property
    def winner(self) -> str | None:
        """Whoever was found better, if anyone was."""
        return self.looks[-1].decision.winner if self.looks else None

    @property
    def sentence(self) -> str:
        """The decision in one sentence, with the numbers behind it."""
        last = self.looks[-1].decision.sentence if self.looks else "no look was taken yet"
        return f"the recording holds no more answers; {last}" if self.state == "exhausted" else last

    @property
    def exit_code(self) -> int:
        """What the command line returns."""
        return EXIT_CODES[self.state]

    def table(self) -> pd.DataFrame:
        """Every contrast of every look: one row each, numbers as they were decided on."""
        return pd.DataFrame(
            [
                {
                    "look": look.number,
                    "clock": look.clock,
                    "contrast": f"{contrast.first} - {contrast.second}",
                    "estimate": contrast.value,
                    "se": contrast.se,
                    "z": contrast.z,
                    "bound": contrast.bound,
                    "low": contrast.low,
                    "high": contrast.high,
                    "alpha_spent": contrast.alpha_spent,
                    "state": look.decision.state,
                }
                for look in self.looks
                for contrast in look.contrasts
            ]
        )

    def __str__(self) -> str:
        return f"result: {self.state}: {self.sentence}"
