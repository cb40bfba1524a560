"""What a plan can tell: balance, identification, and the errors that a study would then have."""

import numpy as np
import pandas as pd
import pytest

from benchtrial.designs import balanced_swaps, random_shuffle
from benchtrial.errors import DataError
from benchtrial.orchestrator.models import fit_oscar
from benchtrial.orchestrator.models.audit import NOMINAL_BATCH_SD, NOMINAL_SPREAD, audit


def test_a_balanced_plan_of_pairs_is_identified() -> None:
    plan = balanced_swaps(["a", "b", "c", "d"], range(40), seed=1, judges=["x", "y"])
    found = audit(plan, model="J+P")
    assert found.identified
    assert not found.faults
    assert len(found.expected) == 6
    assert "expected standard errors" in str(found)


def test_expected_errors_are_those_of_the_fit() -> None:
    """Draw verdicts at the nominal point; the fit's model-based errors are the expected ones.

    960 verdicts: the errors of the fit scatter by some 5 % around the expected ones.
    """
    plan = balanced_swaps(list("abcd"), range(40), seed=2, judges=["x", "y"])
    table = plan.to_frame()
    found = audit(plan, model="J+P")
    scores = np.array([0.0, 2.0, 1.0, 3.0])
    order = np.argsort(np.argsort((np.arange(4) * 0.6180339887498949) % 1))
    scores = (order - 1.5) * NOMINAL_SPREAD / np.sqrt(1.25)
    code = {label: i for i, label in enumerate("abcd")}
    eta = scores[table["first"].map(code)] - scores[table["second"].map(code)]
    table["outcome"] = (np.random.default_rng(0).random(len(table)) < 1 / (1 + np.exp(-eta))) * 1.0
    fit = fit_oscar(table, terms="position", ridge=0.0)
    se = [fit.log_odds(a, b, covariance="model").se for a, b in fit.pairs]
    np.testing.assert_allclose(found.expected["se"], se, rtol=0.15)


def test_groups_that_will_never_meet_are_told_before() -> None:
    plan = balanced_swaps(list("abcd"), range(20), seed=3, pairs=[("a", "b"), ("c", "d")])
    found = audit(plan, model="BT")
    assert not found.identified
    assert "connectivity" in {check.name for check in found.faults}
    se = found.expected.set_index(["first", "second"])["se"]
    assert np.isfinite(se["a", "b"])
    assert np.isnan(se["a", "c"])


def test_one_order_only_is_told_before() -> None:
    table = balanced_swaps(list("abc"), range(30), seed=4, judges=["x"]).to_frame()
    found = audit(table[table["first"] < table["second"]], model="J+P")
    assert "order" in {check.name for check in found.faults}


def test_two_families_are_told_before_with_the_remedy() -> None:
    table = balanced_swaps(list("abcd"), range(40), seed=5, judges=["x", "y"]).to_frame()
    family = {"a": "x", "b": "x", "c": "y", "d": "y"}
    table["first_family"] = table["first"].map(family)
    table["second_family"] = table["second"].map(family)
    table["judge_family"] = table["judge"]
    found = audit(table, model="position+family")
    fault = next(check for check in found.faults if check.name == "family")
    assert "add a judge" in fault.detail
    assert not found.identified


def test_a_plan_of_batches() -> None:
    plan = random_shuffle(range(8), 40, seed=6)
    found = audit(plan, model="glmm")
    assert found.identified
    # 40 independent ratings of each item at weight 1/4: se of a difference sqrt(2 / 10), a little
    # less certain for what lags and the cold start take away.
    assert found.expected["se"].median() == pytest.approx(np.sqrt(0.2), rel=0.03)


def test_items_that_never_share_a_batch_pay_for_the_batches() -> None:
    """One item per batch, 20 batches each: variance 2 (1 / w + sigma^2) / 20."""
    table = pd.DataFrame({"batch": range(40), "position": 1, "item": ["a", "b"] * 20})
    se = audit(table, model="glmm").expected["se"].iloc[0]
    assert se == pytest.approx(np.sqrt(2 * (4 + NOMINAL_BATCH_SD**2) / 20))


def test_the_model_must_be_of_the_plans_kind() -> None:
    with pytest.raises(DataError, match="is for pairs"):
        audit(random_shuffle(range(4), 3, seed=7), model="J+P")
    with pytest.raises(DataError, match="is for batches"):
        audit(balanced_swaps(list("ab"), range(4), seed=8), model="glmm")


def test_a_recorded_table_is_audited_without_its_lost_rows() -> None:
    table = balanced_swaps(list("abc"), range(20), seed=9, judges=["x"]).to_frame()
    table["outcome"] = np.where(table["first"] == "c", np.nan, 1.0)
    table.loc[table["second"] == "c", "outcome"] = np.nan
    found = audit(pd.DataFrame(table), model="J+P")
    assert len(found.expected) == 1
