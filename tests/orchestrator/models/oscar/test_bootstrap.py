"""Prompt bootstrap: finite where a draw is one-sided, and the same wherever it runs."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd

from benchtrial.orchestrator.models import fit_oscar
from benchtrial.orchestrator.models.oscar import bootstrap_win_probability

Simulate = Callable[..., pd.DataFrame]
Wins = Callable[..., pd.DataFrame]


def test_percentiles_agree_with_the_sandwich(simulate: Simulate) -> None:
    """300 prompts, 200 draws: widths agree to some 15 %."""
    fit = fit_oscar(simulate(300, seed=1))
    drawn, delta = bootstrap_win_probability(fit, 200, seed=2), fit.win_probability()
    ratio = (drawn["high"] - drawn["low"]) / (delta["high"] - delta["low"])
    assert 0.85 < ratio.median() < 1.15
    assert (drawn["failed"] == 0).all()


def test_one_sided_draws_stay_finite(wins: Wins) -> None:
    """With 5 verdicts a draw often holds only wins: the ridge keeps scores in sight.

    A ridge of 0.05 and five wins put the log-odds near 4, never at thousands.
    """
    table = wins([("A", "B", 4), ("B", "A", 1), ("B", "C", 2), ("C", "B", 2)])
    fit = fit_oscar(table, terms="", sensitivities=False)
    drawn = bootstrap_win_probability(fit, 100, seed=3)
    assert np.isfinite(drawn[["low", "high"]]).all(axis=None)
    assert drawn["high"].max() < 0.9999


def test_draws_do_not_depend_on_where_they_run(simulate: Simulate) -> None:
    fit = fit_oscar(simulate(80, seed=4), terms="position")
    here = bootstrap_win_probability(fit, 10, seed=5)
    with ThreadPoolExecutor(3) as pool:
        there = bootstrap_win_probability(fit, 10, seed=5, executor=pool)
    pd.testing.assert_frame_equal(here, there)
