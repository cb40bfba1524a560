"""Turn events and results into text that reads well in a terminal and in a log file."""

import json
from collections.abc import Callable
from math import isfinite

import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchtrial.orchestrator.budget import Amount
from benchtrial.orchestrator.campaign import (
    AttemptFailed,
    Event,
    LookTaken,
    Replied,
    Result,
    RoundStarted,
)
from benchtrial.orchestrator.sequential import ContrastLook, Look

# A look shows this many contrasts at most: those nearest to a decision.
CONTRASTS_SHOWN = 6


class Watcher:
    """Shows a campaign as it runs: a progress bar on a terminal, lines in a log, a row per look."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[spent]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("", total=None, spent="")

    def __enter__(self) -> Callable[[Event], None]:
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
                self._console.print(
                    f"{event.judge}: attempt {event.attempt}: {event.message}{again}",
                    markup=False,
                    highlight=False,
                )
            case LookTaken():
                self._console.print(
                    "\n".join(look_lines(event.look, event.spent)), markup=False, highlight=False
                )


def look_lines(look: Look, spent: Amount | None = None) -> list[str]:
    """Describe a look: one line for itself and one for each contrast nearest to a decision."""
    head = f"look {look.number}  clock {look.clock:.2f}"
    if spent is not None:
        head += f"  {spending(spent)}"
    contrasts = sorted(look.contrasts, key=_distance)
    lines = [head, *(f"  {_contrast(one)}" for one in contrasts[:CONTRASTS_SHOWN])]
    if len(contrasts) > CONTRASTS_SHOWN:
        lines.append(
            f"  … and {len(contrasts) - CONTRASTS_SHOWN} contrasts further from a decision"
        )
    return lines


def looks_table(looks: tuple[Look, ...]) -> Table:
    """Lay out every look as a table: the contrast nearest to a decision in each."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("look", "clock", "contrast"):
        table.add_column(name)
    for name in ("estimate", "interval", "z", "bound"):
        table.add_column(name, justify="right")
    for look in looks:
        for one in sorted(look.contrasts, key=_distance)[:1]:
            table.add_row(
                str(look.number),
                f"{look.clock:.2f}",
                f"{one.first} - {one.second}",
                _number(one.value),
                f"[{_number(one.low)}, {_number(one.high)}]",
                _number(one.z),
                _number(one.bound),
            )
    return table


def spending(spent: Amount) -> str:
    """Say what was spent, in one phrase."""
    money = "" if spent.money is None or spent.money == 0 else f", {spent.money:.4f} in money"
    return f"{spent.tokens:,} tokens in {spent.requests:,} requests{money}"


def result_lines(result: Result) -> list[str]:
    """Describe a result: warnings, what is missing, what was spent, and the decision last."""
    lines = [f"warning: {warning}" for warning in result.warnings]
    if not result.missing.empty:
        lines.append(f"verdicts that do not count: {len(result.missing)}")
        table = missing_counts(result.missing).to_string(index=False)
        lines += [f"  {line}" for line in table.splitlines()]
    return [*lines, f"spent: {spending(result.spent)}", str(result)]


def missing_counts(missing: pd.DataFrame) -> pd.DataFrame:
    """Count missing verdicts by judge, who was shown, slot and reason; unequal loss shows here.

    A missing verdict on a pair counts for both of its candidates.
    """
    parts = []
    if "first" in missing:
        pairs = missing[missing["first"].notna()]
        parts += [
            pairs.assign(subject=pairs[column], slot=slot)
            for column, slot in (("first", "A"), ("second", "B"))
        ]
    if "item" in missing:
        parts.append(missing[missing["batch"].notna()].assign(subject=lambda rows: rows["item"]))
    shown = pd.concat(parts)
    by = ["judge", "subject", "slot", "state", "reason"]
    return shown.groupby(by, dropna=False).size().rename("count").reset_index()


def result_json(result: Result) -> str:
    """Describe a result for scripts, as one JSON object."""
    return json.dumps(
        {
            "result": result.state,
            "winner": result.winner,
            "sentence": result.sentence,
            "spent": {
                "tokens": result.spent.tokens,
                "requests": result.spent.requests,
                "money": None if result.spent.money is None else str(result.spent.money),
            },
            "warnings": list(result.warnings),
            "missing": []
            if result.missing.empty
            else json.loads(missing_counts(result.missing).to_json(orient="records")),
            "looks": [json.loads(look.to_json()) for look in result.looks],
        },
        indent=2,
    )


def _contrast(one: ContrastLook) -> str:
    if not isfinite(one.se):
        return f"{one.first} - {one.second}: not estimable yet"
    return (
        f"{one.first} - {one.second}: {one.value:+.3f}  [{one.low:+.3f}, {one.high:+.3f}]  "
        f"z {one.z:+.2f} of {one.bound:.2f}"
    )


def _distance(one: ContrastLook) -> float:
    """How far a contrast is from its bound; not estimable is furthest."""
    return one.bound - abs(one.z)


def _number(value: float) -> str:
    return f"{value:.3f}" if isfinite(value) else "-"


def _frame_lines(frame: pd.DataFrame) -> list[str]:
    return frame.to_string(index=False).splitlines()
