"""Show what a recorded table of pairwise verdicts would have decided.

Beside the decision stand the figures that say whether it can be believed: what was left out of the
table, how often judges agree with themselves when the order is swapped, how well the model predicts
prompts that it has not seen with and without position, and the warnings of the fit (an order that
is confounded with identity, for one). A figure that these data cannot carry is named with the
reason, and does not stand in the way of the others.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import pandas as pd

from benchtrial.errors import DataError, FitError, InputError
from benchtrial.orchestrator.campaign.result import EXIT_CODES
from benchtrial.orchestrator.cli import facts, show
from benchtrial.orchestrator.importers import Imported, read_comparisons
from benchtrial.orchestrator.models import OscarFit, fit_oscar, held_out_log_loss, swap_consistency
from benchtrial.orchestrator.replay import LOOKS, TableReplay, replay_comparisons
from benchtrial.orchestrator.sequential import Best, Difference
from benchtrial.orchestrator.study import AnalysisSpec, StoppingSpec, TargetSpec
from benchtrial.orchestrator.study.files import GZIPPED, ROW_FILES
from benchtrial.orchestrator.study.problems import listed

T = TypeVar("T")
# The model without position, which most leaderboards use, beside the one with it: name to terms.
MODELS_COMPARED = {"J": "", "J+P": "position"}


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says about a table; None and empty where it says nothing."""

    target: str | None = None
    looks: int | None = None
    seed: int | None = None
    column: tuple[str, ...] = ()
    where: tuple[str, ...] = ()

    def require_none(self, source: Path) -> None:
        """Refuse options that mean nothing for a ledger, whose study says it all.

        Raises
        ------
        InputError
            Naming them.
        """
        given = [f"--{field.name}" for field in fields(self) if getattr(self, field.name)]
        if given:
            raise InputError(
                f"{', '.join(given)}: for tables of verdicts ({', '.join(ROW_FILES)}); "
                f"{source} is taken for a ledger, whose study says how it is decided"
            )


def is_table(source: Path) -> bool:
    """Whether a file is a table of verdicts, by its name."""
    return source.name.lower().removesuffix(GZIPPED).endswith(ROW_FILES)


def replay_table(path: Path, options: Options, voice: show.Voice) -> int:
    """Replay the table at ``path``, print it, and return the exit code."""
    imported = read_comparisons(
        path,
        columns=_assignments("--column", options.column),
        where=_assignments("--where", options.where),
    )
    table = imported.comparisons
    _require_one_criterion(table)
    target = _target(options.target, table)
    seed = options.seed or 0
    replayed = replay_comparisons(
        table,
        target=target,
        stopping=StoppingSpec(
            target=_specification(target),
            rounds=options.looks or min(LOOKS, table["prompt"].nunique()),
        ),
        analysis=AnalysisSpec(),
        seed=seed,
    )
    decision = replayed.looks[-1].decision
    figures = _Figures(table, seed)
    voice.say(_lines(imported, replayed, figures))
    voice.end(
        [],
        f"result: {decision.state}: {decision.sentence}",
        lambda: _facts(imported, replayed, figures),
    )
    return EXIT_CODES[decision.state]


# What was asked for -----------------------------------------------------------------------------


def _assignments(option: str, given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise InputError(f"{option} {text!r}: write NAME=VALUE")
        found[name.strip()] = value
    return found


def _require_one_criterion(table: pd.DataFrame) -> None:
    names = list(table["criterion"].unique()) if "criterion" in table else []
    if len(names) > 1:
        raise InputError(
            f"the table holds several criteria: {listed(names)}; "
            f"take one (--where criterion={names[0]})"
        )


def _target(text: str | None, comparisons: pd.DataFrame) -> Best | Difference:
    """Read a target; ids may hold commas, as long as one reading only names two candidates."""
    candidates = sorted({*comparisons["first"], *comparisons["second"]})
    if text is None or text == "best":
        return Best(tuple(candidates))
    parts = text.split(",")
    readings = [
        (one, two)
        for cut in range(1, len(parts))
        for one, two in [(",".join(parts[:cut]).strip(), ",".join(parts[cut:]).strip())]
        if one in candidates and two in candidates and one != two
    ]
    if len(readings) != 1:
        raise InputError(
            f"--target {text!r}: write 'best', or two different candidates as a,b; "
            f"the candidates are {listed(candidates, at_most=20)}"
        )
    return Difference(*readings[0])


def _specification(target: Best | Difference) -> TargetSpec:
    if isinstance(target, Best):
        return TargetSpec(kind="best")
    return TargetSpec(kind="difference", a=target.a, b=target.b)


# Figures beside the decision --------------------------------------------------------------------


class _Figures:
    """Figures of the whole table; one that cannot be had is the reason why, as text."""

    def __init__(self, table: pd.DataFrame, seed: int) -> None:
        self._table = table
        self._seed = seed

    @cached_property
    def scores(self) -> pd.DataFrame | str:
        """Scores without and with position, best first by the latter."""
        return _or_reason(
            lambda: pd.DataFrame(
                {
                    name: fit_oscar(self._table, terms=terms).scores
                    for name, terms in MODELS_COMPARED.items()
                }
            ).sort_values("J+P", ascending=False)
        )

    @cached_property
    def held_out(self) -> "pd.Series[float] | str":
        """Mean log loss on prompts that the fit has not seen."""
        return _or_reason(lambda: held_out_log_loss(self._table, *MODELS_COMPARED, seed=self._seed))

    @cached_property
    def swaps(self) -> pd.DataFrame:
        """How often each judge agrees with itself when the order is swapped."""
        return swap_consistency(self._table)

    @cached_property
    def swaps_by_repetition(self) -> pd.DataFrame | None:
        """The same for each repetition, where there are several."""
        if "repetition" not in self._table or len(self._table["repetition"].unique()) == 1:
            return None
        return swap_consistency(self._table, "repetition")


def _or_reason(figure: Callable[[], T]) -> T | str:
    try:
        return figure()
    except (FitError, DataError) as error:
        return str(error)


def _lines(imported: Imported, replayed: TableReplay, figures: _Figures) -> Iterator[str]:
    table = imported.comparisons
    yield (
        f"{len(table)} of {imported.rows} rows hold a valid verdict: "
        f"{table['judge'].nunique()} judges, {table['prompt'].nunique()} prompts"
    )
    for why, count in imported.dropped.items():
        yield f"  left out: {count} rows: {why}"
    renamed = [
        f"{column} is the {name}" for name, column in imported.columns.items() if name != column
    ]
    if renamed:
        yield from show.paragraph(f"  columns: {', '.join(renamed)}")
    for name, why in imported.left_out.items():
        yield f"  column not used: {imported.columns[name]}: {why}"
    for look in replayed.looks:
        yield from show.look_lines(look)
    for text in (*imported.notes, *replayed.evidence.warnings):
        yield from show.paragraph(f"warning: {text}")
    yield from ("", "scores, whole table:")
    yield from _figure(figures.scores, "candidate")
    yield from ("", "held-out log loss, three folds of prompts:")
    yield from _figure(figures.held_out, "model", digits=4)
    if not figures.swaps.empty:
        yield from ("", "agreement with oneself when the order is swapped:")
        yield from show.frame_lines(figures.swaps)
    yield ""


def _figure(
    figure: "pd.DataFrame | pd.Series[float] | str", label: str, *, digits: int = 3
) -> list[str]:
    if isinstance(figure, str):
        return show.paragraph(f"  not to be had: {figure}")
    frame = figure.rename_axis(label).reset_index()
    return [f"  {line}" for line in show.frame_lines(frame, digits=digits)]


def _facts(imported: Imported, replayed: TableReplay, figures: _Figures) -> Mapping[str, object]:
    fit = replayed.evidence.fit
    decision = replayed.looks[-1].decision
    scores, held_out = figures.scores, figures.held_out
    return {
        "result": decision.state,
        "winner": decision.winner,
        "sentence": decision.sentence,
        "rows": imported.rows,
        "valid": len(imported.comparisons),
        "dropped": imported.dropped,
        "columns": imported.columns,
        "left_out": imported.left_out,
        "notes": imported.notes,
        "warnings": replayed.evidence.warnings,
        "scores": None
        if isinstance(scores, str)
        else {str(name): facts.of_series(scores[name]) for name in scores},
        "net_first_slot": facts.of_series(fit.net_first_slot)
        if isinstance(fit, OscarFit)
        else None,
        "held_out_log_loss": None if isinstance(held_out, str) else facts.of_series(held_out),
        "swap_consistency": facts.of_rows(figures.swaps),
        "swap_consistency_by_repetition": None
        if figures.swaps_by_repetition is None
        else facts.of_rows(figures.swaps_by_repetition),
        "looks": [facts.of_look(look) for look in replayed.looks],
    }
