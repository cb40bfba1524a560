"""Screening: each way of being useless has its own name."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from benchtrial.orchestrator.models import fit_oscar, residual_correlations, screen_judges

Simulate = Callable[..., pd.DataFrame]
Recorded = Callable[[str], pd.DataFrame]


def test_planted_judges_are_found(simulate: Simulate) -> None:
    """A coin, a slot, and a twin among five honest judges; 800 prompts."""
    table = simulate(800, seed=1)
    rng = np.random.default_rng(2)
    one = table[table["judge"] == 0]
    coin = one.assign(judge=10, outcome=rng.integers(0, 2, len(one)).astype(float))
    slot = one.assign(judge=11, outcome=(rng.random(len(one)) < 0.99).astype(float))
    twin = table[table["judge"] == 3].assign(judge=12)
    flips = rng.random(len(twin)) < 0.01
    twin["outcome"] = np.where(flips, 1 - twin["outcome"], twin["outcome"])
    everyone = pd.concat([table, coin, slot, twin], ignore_index=True)
    screened = screen_judges(fit_oscar(everyone, terms="position")).set_index("judge")
    assert screened.loc[10, "status"] in {"indiscriminate", "open"}
    assert screened.loc[11, "status"] == "saturated"
    assert (screened.loc[[0, 1, 2, 3, 4], "status"] == "discriminates").all()
    assert screened.loc[12, "duplicates"] == (3,)
    assert screened.loc[3, "duplicates"] == (12,)
    assert screened.loc[0, "duplicates"] == ()


def test_a_judge_that_was_not_shown_enough_is_unidentified(simulate: Simulate) -> None:
    table = simulate(300, seed=2)
    one = (table["first"] == table["first"][0]) & (table["second"] == table["second"][0])
    keep = (table["judge"] != 4) | one
    screened = screen_judges(fit_oscar(table[keep], terms="position")).set_index("judge")
    assert screened.loc[4, "status"] == "unidentified"


def test_residuals_of_one_prompt_correlate(simulate: Simulate) -> None:
    """The simulation's latent correlation of 0.6 gives verdicts one of about 0.4; without, 0."""
    dependent = residual_correlations(fit_oscar(simulate(1500, seed=3)))
    independent = residual_correlations(fit_oscar(simulate(1500, seed=3, dependence=0.0)))
    assert dependent["correlation"].between(0.3, 0.5).all()
    assert independent["correlation"].abs().max() < 0.1
    assert (dependent["agreement"] > dependent["expected"]).all()


def test_the_bare_screen_would_drop_a_biased_judge(recorded: Recorded) -> None:
    """Four of the recorded judges are one model; Llama-4-Scout is last only without position."""
    screened = screen_judges(fit_oscar(recorded("xu_mtbench"), terms="position")).set_index("judge")
    one_model = {
        "kimi-k2-0905-preview",
        "kimi-k2-thinking-turbo",
        "moonshot-v1-128k",
        "moonshot-v1-32k",
    }
    for judge in one_model:
        assert set(screened.loc[judge, "duplicates"]) == one_model - {judge}
    assert not any(screened.drop(index=list(one_model))["duplicates"])
    scout = screened.loc["meta-llama/Llama-4-Scout-17B-16E-Instruct"]
    assert scout["unadjusted_rank"] == 20
    assert scout["rank"] == 14
    assert scout["status"] == "discriminates"
    assert screened.loc["zai-org/GLM-4.5-Air-FP8", "status"] == "saturated"
