"""Human votes: calibration by hand, and a bootstrap that resamples both tables together."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy import special

from benchtrial.errors import DataError
from benchtrial.orchestrator.models import calibrate, human_agreement, human_scores
from benchtrial.orchestrator.models.oscar.calibration import _calibrate

Simulate = Callable[..., pd.DataFrame]
Recorded = Callable[[str], pd.DataFrame]


def votes(prompts: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = 6 * prompts
    first = rng.integers(0, 8, rows)
    second = (first + rng.integers(1, 8, rows)) % 8
    scores = np.linspace(-0.85, 0.85, 8)
    outcome = rng.random(rows) < special.expit(1.2 * (scores[first] - scores[second]))
    return pd.DataFrame(
        {
            "prompt": rng.integers(0, prompts, rows),
            "first": first,
            "second": second,
            "outcome": outcome.astype(float),
        }
    )


def test_calibration_in_closed_form() -> None:
    """One gap of either sign, 3 of 4 and 1 of 4 votes: intercept 0, slope log(3)."""
    table = pd.DataFrame(
        {
            "prompt": range(8),
            "first": list("aaaabbbb"),
            "second": list("bbbbaaaa"),
            "outcome": [1, 1, 1, 0, 0, 0, 0, 1.0],
        }
    )
    intercept, slope = calibrate(pd.Series({"a": 1.0, "b": 0.0}), table)
    assert intercept == pytest.approx(0, abs=1e-6)
    assert slope == pytest.approx(np.log(3), abs=1e-5)


def test_weights_of_votes_stand_for_copies() -> None:
    rng = np.random.default_rng(3)
    gap, outcome = rng.normal(size=40), rng.integers(0, 2, 40).astype(float)
    copies = rng.integers(0, 3, 40)
    weighted = _calibrate(gap, outcome, copies.astype(float))
    copied = _calibrate(
        np.repeat(gap, copies), np.repeat(outcome, copies), np.ones(int(copies.sum()))
    )
    assert weighted == pytest.approx(copied)


def test_human_scores_are_ranked() -> None:
    scores = human_scores(votes(300, seed=1))
    assert scores.is_monotonic_decreasing
    assert scores.index[0] in {6, 7}
    assert scores.sum() == pytest.approx(0, abs=1e-9)


def test_agreement_with_people(simulate: Simulate) -> None:
    table = human_agreement(
        simulate(150, seed=2), votes(150, seed=2), "J", "J+P", "OSCAR", seed=3, replicates=10
    ).set_index("model")
    # Verbosity hides quality from J in this design; OSCAR takes it out.
    assert table.loc["OSCAR", "gain"] > 0
    assert (table["low"] < table["high"]).all()
    assert table.loc["J", "gain"] == 0
    assert (table["failed"] == 0).all()
    again = human_agreement(
        simulate(150, seed=2), votes(150, seed=2), "J", "J+P", "OSCAR", seed=3, replicates=10
    )
    pd.testing.assert_frame_equal(again.set_index("model"), table)


def test_votes_on_other_candidates_are_named(simulate: Simulate) -> None:
    with pytest.raises(DataError, match="no human vote"):
        human_agreement(simulate(50, seed=4), votes(50, seed=4).assign(first="x"), seed=5)


def test_recorded_votes(recorded: Recorded) -> None:
    judged, people = recorded("prd_vicuna80"), recorded("prd_vicuna80_human")
    table = human_agreement(judged, people, "J", "J+P", seed=1, replicates=0).set_index("model")
    assert table.loc["J", "votes"] == 1760
    # Better than a coin (0.693) by a clear margin; the two models rank the five alike.
    assert (table["log_loss"] < 0.62).all()
    assert (table["spearman"] > 0.85).all()
