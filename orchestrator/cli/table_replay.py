"""Show what a recorded table of pairwise verdicts would have decided.

Beside the decision stand the figures that say whether it can be believed: how often judges agree
with themselves when the order is swapped, how well the model predicts prompts that it has not seen
with and without position, and the warnings of the fit (an order that is confounded with identity,
for one).
"""

import json
from pathlib import Path

import pandas as pd
from rich.console import Console

from benchtrial.errors import InputError
from benchtrial.orchestrator.campaign.result import EXIT_CODES
from benchtrial.orchestrator.cli import show
from benchtrial.orchestrator.importers import Imported, read_comparisons
from benchtrial.orchestrator.models import OscarFit, fit_oscar, held_out_log_loss, swap_consistency
from benchtrial.orchestrator.replay import TableReplay, replay_comparisons
from benchtrial.orchestrator.sequential import Best, Difference
from benchtrial.orchestrator.study import AnalysisSpec, StoppingSpec, TargetSpec

# The model without position, which most leaderboards use, beside the one with it.
MODELS_COMPARED = ("J", "J+P")


def replay_table(
    path: Path,
    target: str | None,
    looks: int,
    seed: int,
    console: Console,
    *,
    as_json: bool,
    quiet: bool,
) -> int:
    """Replay the table at ``path``, print it, and return the exit code."""
    imported = read_comparisons(path)
    aim = _target(target, imported.comparisons)
    replayed = replay_comparisons(
        imported.comparisons,
        target=aim,
        stopping=StoppingSpec(target=_specification(aim), rounds=looks),
        analysis=AnalysisSpec(),
        seed=seed,
    )
    decision = replayed.looks[-1].decision
    last = f"result: {decision.state}: {decision.sentence}"
    if as_json:
        console.print_json(json.dumps(_facts(imported, replayed, seed)))
    elif quiet:
        console.print(last, markup=False, highlight=False)
    else:
        for line in [*_lines(imported, replayed, seed), last]:
            console.print(line, markup=False, highlight=False)
    return EXIT_CODES[decision.state]


def _target(text: str | None, comparisons: pd.DataFrame) -> Best | Difference:
    candidates = sorted({*comparisons["first"], *comparisons["second"]})
    if text is None or text == "best":
        return Best(tuple(candidates))
    named = [name.strip() for name in text.split(",")]
    unknown = [name for name in named if name not in candidates]
    if len(named) != 2 or unknown:
        raise InputError(
            f"--target {text!r}: write 'best' or two candidates as a,b; "
            f"the candidates are {', '.join(candidates)}"
        )
    return Difference(*named)


def _specification(target: Best | Difference) -> TargetSpec:
    if isinstance(target, Best):
        return TargetSpec(kind="best")
    return TargetSpec(kind="difference", a=target.a, b=target.b)


def _lines(imported: Imported, replayed: TableReplay, seed: int) -> list[str]:
    table = imported.comparisons
    lines = [
        f"{len(table)} of {imported.rows} rows hold a valid verdict: "
        f"{table['judge'].nunique()} judges, {table['prompt'].nunique()} prompts"
    ]
    lines += [f"  left out: {count} rows: {why}" for why, count in imported.dropped.items()]
    for look in replayed.looks:
        lines += show.look_lines(look)
    lines += [f"warning: {text}" for text in replayed.evidence.warnings]
    lines += ["", "scores, whole table:", *_leaderboard(table).to_string().splitlines()]
    losses = held_out_log_loss(table, *MODELS_COMPARED, seed=seed)
    lines += ["", "held-out log loss, three folds of prompts:"]
    lines += [f"  {name:<4} {value:.4f}" for name, value in losses.items()]
    swaps = swap_consistency(table)
    if not swaps.empty:
        lines += ["", "agreement with oneself when the order is swapped:"]
        lines += swaps.to_string(index=False).splitlines()
    return [*lines, ""]


def _leaderboard(table: pd.DataFrame) -> pd.DataFrame:
    """Scores without and with position, best first by the latter."""
    scores = {
        "J": fit_oscar(table, terms="").scores,
        "J+P": fit_oscar(table, terms="position").scores,
    }
    return pd.DataFrame(scores).sort_values("J+P", ascending=False).round(3)


def _facts(imported: Imported, replayed: TableReplay, seed: int) -> dict[str, object]:
    table = imported.comparisons
    fit = replayed.evidence.fit
    decision = replayed.looks[-1].decision
    return {
        "result": decision.state,
        "winner": decision.winner,
        "sentence": decision.sentence,
        "rows": imported.rows,
        "valid": len(table),
        "dropped": dict(imported.dropped),
        "columns": dict(imported.columns),
        "warnings": list(replayed.evidence.warnings),
        "scores": json.loads(_leaderboard(table).to_json()),
        "net_first_slot": json.loads(fit.net_first_slot.to_json())
        if isinstance(fit, OscarFit)
        else None,
        "held_out_log_loss": json.loads(
            held_out_log_loss(table, *MODELS_COMPARED, seed=seed).to_json()
        ),
        "swap_consistency": json.loads(swap_consistency(table).to_json(orient="records")),
        "looks": [json.loads(look.to_json()) for look in replayed.looks],
    }
