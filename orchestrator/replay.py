"""Decide again, offline, from what was recorded.

A replay of a ledger *is* a campaign: the same study, the same loop, a fresh ledger, and judges that
answer from the recording, failures included. Nothing is re-implemented, so a replay that agrees
says something about the run. A replay of a plain table of verdicts takes the looks that a campaign
would have taken, prompt by prompt.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np
import pandas as pd

from benchtrial.adapters import RetryPolicy
from benchtrial.errors import DataError
from benchtrial.orchestrator.campaign import Campaign, Evidence, Listener, Result, recorded_panel
from benchtrial.orchestrator.campaign.deciding import weigh_comparisons
from benchtrial.orchestrator.campaign.events import ignore
from benchtrial.orchestrator.campaign.judges import most_attempts
from benchtrial.orchestrator.ledger import Ledger
from benchtrial.orchestrator.sequential import Best, Difference, Look, StoppingPlan, take_look
from benchtrial.orchestrator.study import AnalysisSpec, StoppingSpec, Study


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
        has changed; ``ledger`` names a file that no longer exists.
    """
    with replaying(recording, listener=listener) as campaign:
        return campaign.run()


@dataclass(frozen=True, slots=True)
class TableReplay:
    """What a recorded table would have decided, and when.

    Parameters
    ----------
    looks
        One look for each share of the prompts.
    evidence
        The fit to the whole table.
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
    plan = StoppingPlan(rule=stopping.rule, alpha=stopping.alpha, rope=stopping.rope, target=target)
    looks: list[Look] = []
    for number in range(1, stopping.rounds + 1):
        share = number / stopping.rounds
        shown = set(prompts[order[: round(share * len(prompts))]])
        table = comparisons[comparisons["prompt"].isin(shown)]
        evidence = weigh_comparisons(table, analysis, stopping, target.pairs())
        final = number == stopping.rounds
        looks.append(
            take_look(
                plan,
                looks,
                evidence.estimates,
                clock=share,
                final=final,
                saturated=evidence.saturated,
                unidentified=evidence.unidentified if final else None,
                exhausted=final,
            )
        )
        if looks[-1].decision.state != "continue":
            break
    whole = weigh_comparisons(comparisons, analysis, stopping, target.pairs())
    return TableReplay(tuple(looks), whole)
