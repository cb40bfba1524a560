"""What cannot be told is refused by name, and the rest is still reported."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from benchtrial.errors import NotIdentified
from benchtrial.orchestrator.models import Check, fit_oscar
from benchtrial.orchestrator.models.oscar import OscarFit

Simulate = Callable[..., pd.DataFrame]
Wins = Callable[..., pd.DataFrame]
Recorded = Callable[[str], pd.DataFrame]


def check(fit: OscarFit, name: str) -> Check:
    return next(c for c in fit.checks if c.name == name)


@pytest.mark.parametrize("ridge", [0.0, 0.05])
def test_groups_that_never_met(wins: Wins, ridge: float) -> None:
    """Case C51: contrasts within a group stand, across groups they are refused."""
    table = wins([("A", "B", 5), ("B", "A", 3), ("C", "D", 2), ("D", "C", 6)])
    fit = fit_oscar(table, terms="", sensitivities=False, ridge=ridge)
    tolerance = 1e-9 if ridge == 0 else 0.05
    assert fit.log_odds("A", "B").value == pytest.approx(np.log(5 / 3), abs=tolerance)
    assert fit.log_odds("C", "D").value == pytest.approx(np.log(2 / 6), abs=tolerance)
    # Error of a log ratio of counts: sqrt(1/5 + 1/3).
    within = fit.log_odds("A", "B", covariance="model").se
    assert within == pytest.approx(np.sqrt(1 / 5 + 1 / 3), abs=tolerance)
    assert not fit.identified
    assert not check(fit, "connectivity").passed
    assert "{A, B} | {C, D}" in check(fit, "connectivity").detail
    with pytest.raises(NotIdentified, match="no chain of comparisons"):
        fit.log_odds("A", "C")
    q = fit.win_probability().set_index(["first", "second"])["q"]
    assert q.notna().to_dict() == {
        ("A", "B"): True, ("A", "C"): False, ("A", "D"): False,
        ("B", "C"): False, ("B", "D"): False, ("C", "D"): True,
    }  # fmt: skip
    assert fit.rank_intervals()["rank"].isna().all()
    # Each group has a zero of its own.
    assert fit.scores[["A", "B"]].sum() == pytest.approx(0, abs=1e-9)


def two_families(judge_families: list[str], rows: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    family = {0: "x", 1: "x", 2: "y", 3: "y"}
    judge = rng.integers(0, len(judge_families), rows)
    first = rng.integers(0, 4, rows)
    second = (first + rng.integers(1, 4, rows)) % 4
    return pd.DataFrame(
        {
            "judge": judge,
            "prompt": np.arange(rows),
            "first": first,
            "second": second,
            "outcome": rng.integers(0, 2, rows).astype(float),
            "first_family": [family[i] for i in first],
            "second_family": [family[i] for i in second],
            "judge_family": [judge_families[k] for k in judge],
        }
    )


def test_two_families_cannot_be_told_from_their_judges_favour() -> None:
    """Proposition 3: contrasts across the two families are refused, within them they stand."""
    fit = fit_oscar(two_families(["x", "y", "x"]))
    assert not check(fit, "family").passed
    assert "add a judge from a family with no candidate" in check(fit, "family").detail
    assert np.isfinite(fit.log_odds(0, 1).se)
    assert np.isfinite(fit.log_odds(2, 3).se)
    with pytest.raises(NotIdentified, match="families"):
        fit.log_odds(0, 2)


def test_the_remedy_of_proposition_3_works() -> None:
    fit = fit_oscar(two_families(["x", "y", "z"]))
    assert check(fit, "family").passed
    assert fit.identified
    assert np.isfinite(fit.log_odds(0, 2).se)


def test_order_that_follows_identity_is_named(simulate: Simulate, recorded: Recorded) -> None:
    table = simulate(300, seed=1)
    swap = table["first"] > table["second"]
    ordered = table.drop(columns=["first_family", "second_family"])
    ordered.loc[swap, ["first", "second"]] = table.loc[swap, ["second", "first"]].to_numpy()
    ordered.loc[swap, "outcome"] = 1 - table.loc[swap, "outcome"]
    assert check(fit_oscar(table, terms="position"), "order").passed
    failed = check(fit_oscar(ordered, terms="position"), "order")
    assert not failed.passed
    assert failed.labels == (0, 1, 2, 3, 4)
    assert not check(fit_oscar(recorded("xu_mtbench"), terms="position"), "order").passed


def test_a_judge_with_one_gap_has_no_sensitivity_of_its_own(simulate: Simulate) -> None:
    """One judge saw one pair in one order: its slope and its habit are one number."""
    table = simulate(300, seed=2)
    one = (table["first"] == table["first"][0]) & (table["second"] == table["second"][0])
    keep = (table["judge"] != 4) | one
    fit = fit_oscar(table[keep], terms="position")
    failed = check(fit, "gaps")
    assert not failed.passed
    assert failed.labels == (4,)
    assert fit.panel == (0, 1, 2, 3)
    assert np.isfinite(fit.log_odds(7, 0).se)
    effects = fit.judge_effects().set_index(["judge", "effect"])
    assert np.isnan(effects.loc[(4, "kappa"), "low"])
    assert np.isfinite(effects.loc[(0, "kappa"), "low"])
    frozen = fit_oscar(table[keep], terms="position", panel=[0, 4])
    with pytest.raises(NotIdentified, match="gaps"):
        frozen.log_odds(7, 0)


def test_a_saturated_judge_is_named(simulate: Simulate) -> None:
    table = simulate(300, seed=3)
    table.loc[table["judge"] == 2, "outcome"] = 1.0
    fit = fit_oscar(table, terms="position")
    assert list(fit.saturated) == [2]
    assert "first-slot" in fit.saturated[2]


def test_every_check_of_the_paper_is_there(simulate: Simulate) -> None:
    fit = fit_oscar(simulate(200, seed=4))
    assert {c.name for c in fit.checks} >= {
        "stationarity", "identification", "curvature", "cluster_count",
        "connectivity", "strong_connectivity", "order", "family", "gaps",
    }  # fmt: skip
    assert all(c.passed for c in fit.checks)
    assert fit.identified
