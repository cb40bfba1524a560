"""Turn events and results into text that reads well in a terminal and in a log file.

A line is at most 80 characters wide where the ids allow it; nothing is ever shortened, because two
ids may differ in the part that would be cut. The last line, which begins with ``result:``, and
errors are never broken.
"""

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal

import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchtrial.orchestrator.budget import Amount
from benchtrial.orchestrator.campaign import (
    AttemptFailed,
    Event,
    Listener,
    LookTaken,
    Replied,
    Result,
    RoundStarted,
)
from benchtrial.orchestrator.cli import facts
from benchtrial.orchestrator.cli.facts import missing_counts
from benchtrial.orchestrator.sequential import ContrastLook, Look

WIDTH = 80
# Tables may stand two characters in.
TABLE_WIDTH = WIDTH - 2
# A look shows the numbers of this many contrasts at most: those nearest to a decision.
CONTRASTS_SHOWN = 6
# Kinds of missing verdicts shown, the most frequent first; --json has them all.
MISSING_SHOWN = 12
# Further lines of a broken paragraph, and numbers that did not fit beside their names.
INDENT = "    "


@dataclass(frozen=True, slots=True)
class Voice:
    """Says on the console as much as was asked for: all lines, the last one, or JSON."""

    console: Console
    mode: Literal["lines", "quiet", "json"]

    def say(self, lines: Iterable[str]) -> None:
        """Print lines, unless only the end is wanted."""
        if self.mode == "lines":
            for line in lines:
                self.console.print(line)

    def end(
        self, lines: Iterable[str], last: str, found: Callable[[], Mapping[str, object]]
    ) -> None:
        """Print how it ended: ``lines`` and ``last``, or ``last`` alone, or ``found`` as JSON."""
        self.say(lines)
        self.console.print(facts.dumps(found()) if self.mode == "json" else last)


def voice(*, as_json: bool, quiet: bool) -> Voice:
    """Build the voice that the options ask for; JSON wins over quiet."""
    # Ids may look like markup, numbers or emoji codes; soft_wrap: the terminal breaks lines, not we
    console = Console(markup=False, highlight=False, emoji=False, soft_wrap=True)
    return Voice(console, "json" if as_json else "quiet" if quiet else "lines")


class Watcher:
    """Shows a campaign as it runs: a progress bar on a terminal, and lines for each look."""

    def __init__(self, voice: Voice) -> None:
        self._voice = voice
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[spent]}", markup=False),
            console=voice.console,
            transient=True,
            disable=voice.mode != "lines" or not voice.console.is_terminal,
        )
        self._task = self._progress.add_task("", total=None, spent="")

    def __enter__(self) -> Listener:
        self._progress.start()
        return self._hear

    def __exit__(self, *unused: object) -> None:
        self._progress.stop()

    def _hear(self, event: Event) -> None:
        match event:
            case RoundStarted():
                self._progress.reset(
                    self._task,
                    total=event.queries,
                    completed=event.answered,
                    description=f"round {event.number + 1} of {event.rounds}",
                )
            case Replied():
                self._progress.update(self._task, advance=1, spent=spending(event.spent))
            case AttemptFailed():
                again = "; trying again" if event.again else ""
                self._voice.say(
                    paragraph(f"{event.judge}: attempt {event.attempt}: {event.message}{again}")
                )
            case LookTaken():
                self._voice.say(look_lines(event.look, event.spent))


# Looks ------------------------------------------------------------------------------------------


def look_lines(look: Look, spent: Amount | None = None) -> list[str]:
    """Describe a look: its clock, the numbers of open contrasts, and what is conclusive.

    Of the open contrasts the nearest to a decision come first. Where all are conclusive, the
    numbers are those of the one that is so by least.
    """
    head = f"look {look.number}  clock {look.clock:.2f}"
    if spent is not None:
        head += f"  {spending(spent)}"
    estimable = [one for one in look.contrasts if isfinite(one.se)]
    unknown = len(look.contrasts) - len(estimable)
    nearest = sorted((one for one in estimable if not _conclusive(one)), key=_distance)
    conclusive = sorted((one for one in estimable if _conclusive(one)), key=_distance, reverse=True)
    if not nearest:
        nearest, conclusive = conclusive[:1], conclusive[1:]
    lines = [head]
    for one in nearest[:CONTRASTS_SHOWN]:
        lines += _beside_or_below(f"  {_names(one)}: ", _numbers(one))
    if len(nearest) > CONTRASTS_SHOWN:
        lines.append(f"  further from a decision: {_contrasts(len(nearest) - CONTRASTS_SHOWN)}")
    if unknown:
        lines.append(f"  not estimable yet: {_contrasts(unknown)}")
    if conclusive:
        lines.append(_conclusive_line(conclusive))
    return lines


def looks_lines(looks: Sequence[Look]) -> list[str]:
    """Lay out every look as a table: the contrast nearest to a decision in each."""
    if not looks:
        return []
    rows = []
    for look in looks:
        one = min(look.contrasts, key=lambda one: (_conclusive(one), abs(_distance(one))))
        rows.append(
            (
                str(look.number),
                f"{look.clock:.2f}",
                _names(one),
                _number(one.value) if isfinite(one.se) else "-",
                f"[{_number(one.low)}, {_number(one.high)}]",
                _number(one.z) if isfinite(one.se) else "-",
                _number(one.bound),
            )
        )
    return table_lines(("look", "clock", "contrast", "estimate", "interval", "z", "bound"), rows)


def _conclusive(one: ContrastLook) -> bool:
    return one.verdict in {"first", "second", "equivalent"}


def _distance(one: ContrastLook) -> float:
    """How far a contrast is from its bound, negative beyond it; infinite if it was not tested."""
    return one.bound - abs(one.z)


def _names(one: ContrastLook) -> str:
    return f"{one.first} - {one.second}"


def _numbers(one: ContrastLook) -> str:
    words = f"{one.value:+.3f}  [{one.low:+.3f}, {one.high:+.3f}]  z {one.z:+.2f}"
    if one.verdict == "prior-driven":
        return f"{words}, set by the prior"
    return f"{words} of {one.bound:.2f}" if one.tested else f"{words}, not tested"


def _conclusive_line(conclusive: Sequence[ContrastLook]) -> str:
    relations = {"first": "{0} > {1}", "second": "{1} > {0}", "equivalent": "{0} = {1}"}
    named = ", ".join(relations[one.verdict].format(one.first, one.second) for one in conclusive)
    line = f"  conclusive: {named}"
    return line if len(line) <= WIDTH else f"  conclusive: {_contrasts(len(conclusive))}"


def _contrasts(number: int) -> str:
    return f"{number} contrast" + ("s" if number > 1 else "")


# Results ----------------------------------------------------------------------------------------


def spending(spent: Amount) -> str:
    """Say what was spent, in one phrase."""
    money = "" if spent.money is None or spent.money == 0 else f", {spent.money:.4f} in money"
    return f"{spent.tokens:,} tokens in {spent.requests:,} requests{money}"


def result_lines(result: Result) -> list[str]:
    """Describe a result: warnings, what is missing, and what was spent."""
    lines = [line for warning in result.warnings for line in paragraph(f"warning: {warning}")]
    if not result.missing.empty:
        counts = missing_counts(result.missing)
        lines.append(f"verdicts that do not count: {len(result.missing)}")
        lines += [f"  {line}" for line in frame_lines(counts.head(MISSING_SHOWN))]
        if len(counts) > MISSING_SHOWN:
            lines.append(f"  and {len(counts) - MISSING_SHOWN} rarer kinds (--json has them all)")
    return [*lines, f"spent: {spending(result.spent)}"]


# Lines ------------------------------------------------------------------------------------------


def paragraph(text: str) -> list[str]:
    """Break a text into lines of the console's width, ids whole."""
    return textwrap.wrap(
        text,
        WIDTH,
        subsequent_indent=INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def frame_lines(frame: pd.DataFrame, *, digits: int = 3) -> list[str]:
    """Lay out a table, numbers with so many digits after the point."""
    return table_lines(
        [str(name) for name in frame.columns],
        [[_cell(value, digits) for value in row] for row in frame.astype(object).to_numpy()],
    )


def table_lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lay out a table, text to the left and numbers to the right.

    Where it is too wide, the numbers of a row stand on a line below its text.
    """
    columns = list(zip(header, *rows, strict=True))
    text = [any(cell[:1].isalpha() for cell in column[1:]) for column in columns]
    aligned = [
        [cell.ljust(width) if left else cell.rjust(width) for cell in column]
        for column, left in zip(columns, text, strict=True)
        for width in [max(map(len, column))]
    ]
    lines = ["  ".join(row).rstrip() for row in zip(*aligned, strict=True)]
    if max(map(len, lines)) <= TABLE_WIDTH:
        return lines
    words, numbers = (
        [column for column, left in zip(aligned, text, strict=True) if left is wanted]
        for wanted in (True, False)
    )
    return [
        line
        for above, below in zip(zip(*words, strict=True), zip(*numbers, strict=True), strict=True)
        for line in ("  ".join(above).rstrip(), INDENT + "  ".join(below).rstrip())
    ]


def _beside_or_below(name: str, numbers: str) -> list[str]:
    if len(name) + len(numbers) <= WIDTH:
        return [name + numbers]
    return [name.rstrip(), INDENT + numbers]


def _number(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}" if isfinite(value) else "-"


def _cell(value: object, digits: int) -> str:
    if isinstance(value, float):
        return _number(value, digits)
    return "" if value is None else str(value)
