"""Decide again, offline, from what was recorded.

A replay of a ledger *is* a campaign: the same study, the same loop, a fresh ledger, and judges that
answer from the recording, failures included. Nothing is re-implemented, so a replay that agrees
with the recorded looks says something about the run. A replay of a plain table of verdicts takes
the looks that a campaign would have taken, prompt by prompt.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from math import inf, isclose
from pathlib import Path

import numpy as np
import pandas as pd

from benchtrial.adapters import RetryPolicy
from benchtrial.errors import DataError
from benchtrial.orchestrator.campaign import (
    Campaign,
    Evidence,
    Listener,
    Result,
    looks_of,
    recorded_panel,
)
from benchtrial.orchestrator.campaign.deciding import weigh_comparisons
from benchtrial.orchestrator.campaign.events import ignore
from benchtrial.orchestrator.campaign.judges import most_attempts
from benchtrial.orchestrator.ledger import Ledger
from benchtrial.orchestrator.sequential import (
    Best,
    ContrastLook,
    Difference,
    Futility,
    Look,
    StoppingPlan,
    take_look,
)
from benchtrial.orchestrator.study import AnalysisSpec, StoppingSpec, Study

# Numbers of another machine's arithmetic count as equal within this: far below what is printed or
# decided on, far above the rounding of a fit.
RELATIVE_TOLERANCE = 1e-6
ABSOLUTE_TOLERANCE = 1e-9
# Looks at a table if nobody says how many: as in a study file.
LOOKS = 10


@contextmanager
def replaying(recording: str | Path, *, listener: Listener = ignore) -> Iterator[Campaign]:
    """Open a campaign whose judges answer from the ledger ``recording``, in a ledger of its own.

    The recording is only read. The fresh ledger is deleted on leaving the context.
    """
    with Ledger.open(recording, read_only=True) as ledger, tempfile.TemporaryDirectory() as folder:
        study = Study.from_json(ledger.study_json)
        campaign = Campaign.open(
            study,
            ledger=Path(folder) / "replay.ledger",
            panel=recorded_panel(study, ledger),
            policy=RetryPolicy(attempts=most_attempts(ledger), hint_cap_s=inf, waits=False),
            listener=listener,
        )
        with campaign:
            yield campaign


def replay(recording: str | Path, *, listener: Listener = ignore) -> Result:
    """Decide again what the campaign in the ledger ``recording`` decided.

    Returns
    -------
    Result
        Its looks equal the recorded ones unless the recording is incomplete, the parser or a model
        has changed (:func:`agreement` tells); ``ledger`` names a file that no longer exists.
    """
    with replaying(recording, listener=listener) as campaign:
        return campaign.run()


def recorded_looks(recording: str | Path) -> tuple[Look, ...]:
    """Read the looks that the campaign in the ledger ``recording`` has taken."""
    with Ledger.open(recording, read_only=True) as ledger:
        return looks_of(ledger)


@dataclass(frozen=True, slots=True)
class Agreement:
    """Whether a replay came to what the run had come to.

    Parameters
    ----------
    agrees
        Whether every recorded look was taken again with the same decision and numbers; None if
        the recording holds no look.
    sentence
        The same in words, with the first difference if there is one.
    """

    agrees: bool | None
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def agreement(recorded: Sequence[Look], replayed: Sequence[Look]) -> Agreement:
    """Compare the looks of a replay with the recorded ones, in order.

    A recording that was cut off in the middle of a round ends there for the replay too: no look is
    taken at the answers of that round, and no alpha is spent on them.
    """
    for one, two in zip(recorded, replayed, strict=False):
        difference = _difference(one, two)
        if difference:
            return Agreement(
                agrees=False,
                sentence=f"the replay differs from the recording, first at look {one.number}: "
                f"{difference}",
            )
    if len(recorded) > len(replayed):
        return Agreement(
            agrees=False,
            sentence=f"the replay ends at look {len(replayed)}; the recording has {len(recorded)}",
        )
    if not recorded:
        beyond = f"; {_beyond(replayed)}" if replayed else ", and too few answers for one"
        return Agreement(agrees=None, sentence=f"the recording holds no look{beyond}")
    looks = "its one look" if len(recorded) == 1 else f"all its {len(recorded)} looks"
    sentence = f"the replay agrees with the recording in {looks}"
    if tuple(recorded) != tuple(replayed[: len(recorded)]):
        sentence += f" (numbers to within {RELATIVE_TOLERANCE:g})"
    if len(recorded) < len(replayed):
        sentence += f"; {_beyond(replayed)}"
    return Agreement(agrees=True, sentence=sentence)


@dataclass(frozen=True, slots=True)
class TableReplay:
    """What a recorded table would have decided, and when.

    Parameters
    ----------
    looks
        One look for each share of the prompts, up to the one that decided.
    evidence
        The fit to the whole table, looked at or not.
    """

    looks: tuple[Look, ...]
    evidence: Evidence


def replay_comparisons(
    comparisons: pd.DataFrame,
    *,
    target: Best | Difference,
    stopping: StoppingSpec,
    analysis: AnalysisSpec,
    seed: int,
) -> TableReplay:
    """Look at a recorded comparisons table as if its prompts had been asked round by round.

    Prompts are taken in an order drawn from ``seed`` and split evenly over ``stopping.rounds``
    looks; the replay ends at the first look that decides.

    Raises
    ------
    DataError
        If the table has fewer prompts than looks.
    """
    prompts = np.array(sorted(comparisons["prompt"].unique(), key=str), dtype=object)
    if len(prompts) < stopping.rounds:
        raise DataError(
            f"{len(prompts)} prompts cannot be split over {stopping.rounds} looks; "
            f"ask for at most {len(prompts)} looks"
        )
    order = np.random.default_rng(seed).permutation(len(prompts))
    plan = StoppingPlan(
        rule=stopping.rule,
        alpha=stopping.alpha,
        rope=stopping.rope,
        futility=Futility() if stopping.futility else None,
        optimal_information=stopping.optimal_information,
        target=target,
    )
    looks: list[Look] = []
    while not looks or looks[-1].decision.state == "continue":
        share = (len(looks) + 1) / stopping.rounds
        final = share == 1.0
        shown = set(prompts[order[: round(share * len(prompts))]])
        table = comparisons[comparisons["prompt"].isin(shown)]
        evidence = weigh_comparisons(table, analysis, stopping, target.pairs())
        seen = evidence.at_look(final=final)
        looks.append(
            take_look(
                plan,
                looks,
                seen.estimates,
                clock=share,
                final=final,
                saturated=seen.saturated,
                unidentified=seen.unidentified,
                exhausted=final,
            )
        )
    if not looks[-1].final:
        evidence = weigh_comparisons(comparisons, analysis, stopping, target.pairs())
    return TableReplay(tuple(looks), evidence)


def _difference(recorded: Look, replayed: Look) -> str:
    """Say in what two looks differ first; nothing if they are the same."""
    one, two = recorded.decision, replayed.decision
    if (one.state, one.winner, one.answer) != (two.state, two.winner, two.answer):
        return f"recorded is {_ending(recorded)}, replayed {_ending(replayed)}"
    if recorded.final != replayed.final or not _close(recorded.clock, replayed.clock):
        return f"its clock was {recorded.clock:.4g} and is {replayed.clock:.4g}"
    for before, after in zip(recorded.contrasts, replayed.contrasts, strict=False):
        if not _same(before, after):
            return f"recorded is {before}, replayed {after}"
    if len(recorded.contrasts) != len(replayed.contrasts):
        return f"it had {len(recorded.contrasts)} contrasts and has {len(replayed.contrasts)}"
    return ""


def _beyond(replayed: Sequence[Look]) -> str:
    """Say what the look is that only the replay has."""
    return f"look {len(replayed)} is new: the run had its answers and had not looked at them yet"


def _ending(look: Look) -> str:
    decision = look.decision
    return f"'{decision.state}'" + (f" ({', '.join(decision.answer)})" if decision.answer else "")


def _same(one: ContrastLook, two: ContrastLook) -> bool:
    pairs = [(getattr(one, field.name), getattr(two, field.name)) for field in fields(one)]
    return all(_close(a, b) if isinstance(a, float) else a == b for a, b in pairs)


def _close(one: float, two: float) -> bool:
    return isclose(one, two, rel_tol=RELATIVE_TOLERANCE, abs_tol=ABSOLUTE_TOLERANCE)
