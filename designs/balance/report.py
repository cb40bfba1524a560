"""The result of counting: checks with a grade, and the tables behind them."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal

import pandas as pd

Grade = Literal["exact", "near", "uneven", "sound", "fault"]
"""Counts are exact (all equal), near (as even as whole numbers allow, or nearly) or uneven; a
property that holds or does not is sound or a fault."""


@dataclass(frozen=True)
class Check:
    """One property of a design.

    Parameters
    ----------
    name
        What was checked.
    grade
        How well it holds.
    detail
        The counts, in words.
    labels
        The ids that a reader would look up next: unevenly shown items, unconnected candidates.
    """

    name: str
    grade: Grade
    detail: str
    labels: tuple[Hashable, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the property holds: as exactly as can be, or nearly."""
        return self.grade not in ("uneven", "fault")

    def __str__(self) -> str:
        return f"{self.name}: {self.grade}, {self.detail}"


@dataclass(frozen=True, eq=False)
class Balance:
    """How balanced a schedule or a table of verdicts is.

    Parameters
    ----------
    title
        What was counted.
    checks
        One for each property, in the order of the text.
    position
        Showings by item and position (batches), or by candidate and slot (pairs: ``first``,
        ``second``).
    carryover
        Batches: how often the item of the column followed the item of the row. None for pairs, and
        for pools too large for a table; the checks count those all the same.
    second_carryover
        The same for the item before the previous one.
    swaps
        Pairs: by judge and pair, rows in either order and cells shown in one order only. None for
        batches.
    concurrence
        How often two items shared a batch, or two candidates were compared. The diagonal is how
        often each was shown. None for pools too large for a table.
    connectivity
        The groups of items or candidates that are linked by shared batches or comparisons, largest
        first; one group if everything can be compared with everything.
    """

    title: str
    checks: tuple[Check, ...]
    position: pd.DataFrame
    carryover: pd.DataFrame | None
    second_carryover: pd.DataFrame | None
    swaps: pd.DataFrame | None
    concurrence: pd.DataFrame | None
    connectivity: tuple[tuple[Hashable, ...], ...]

    @property
    def faults(self) -> tuple[Check, ...]:
        """What no design intends: lost or repeated rows, unlinked groups, one order only."""
        return tuple(check for check in self.checks if check.grade == "fault")

    @property
    def uneven(self) -> tuple[Check, ...]:
        """What is not balanced, by intent or by chance: a shuffle is uneven in most counts."""
        return tuple(check for check in self.checks if check.grade == "uneven")

    def __getitem__(self, name: str) -> Check:
        """Return the check of that name."""
        for check in self.checks:
            if check.name == name:
                return check
        known = ", ".join(check.name for check in self.checks)
        raise KeyError(f"no check {name!r}; there are {known}")

    def __str__(self) -> str:
        width = max((len(check.name) for check in self.checks), default=0)
        lines = [f"  {c.name:<{width}}  {c.grade:<6}  {c.detail}" for c in self.checks]
        return "\n".join([self.title, *lines])
