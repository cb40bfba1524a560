"""Several judges in one likelihood."""

import numpy as np
import pandas as pd
import pytest

from benchtrial.errors import DataError
from benchtrial.orchestrator.models import fit_glmm, fit_glmm_panel

QUALITIES = np.array([-1.0, -0.4, 0.0, 0.3, 0.8, 1.3])


@pytest.fixture
def ratings(simulate) -> pd.DataFrame:
    """Two judges, the second harsher by one logit and with the opposite memory."""
    first = simulate(QUALITIES, 80, lags=(-0.8,), batch_sd=0.6, seed=1)
    second = simulate(QUALITIES - 1.0, 80, lags=(0.6,), cold_start=0.9, batch_sd=1.0, seed=2)
    return pd.concat([first.assign(judge="first"), second.assign(judge="second")])


def test_joint_likelihood_is_the_sum_of_judges_at_shared_items(ratings, brute_force) -> None:
    panel = fit_glmm_panel(ratings, items="shared")
    for judge, fit in panel.items():
        rows = ratings[ratings["judge"] == judge]
        expected = brute_force(rows, dict(fit.items), fit.lags, fit.cold_start, fit.batch_sd)
        assert fit.loglik == pytest.approx(expected, abs=1e-8)
    shift = panel["second"].items - panel["first"].items
    assert np.ptp(shift) == pytest.approx(0, abs=1e-12)
    assert shift.iloc[0] == pytest.approx(-1.0, abs=0.4)
    assert panel["first"].lags[1] < 0 < panel["second"].lags[1]


def test_joint_likelihood_is_at_its_maximum(ratings) -> None:
    panel = fit_glmm_panel(ratings, items="shared")
    core = panel.joint.core
    assert np.abs(core.optimum.gradient).max() < 1e-8 * len(ratings)
    parameters, penalty = core.optimum.parameters, core.model.penalty
    best = core.optimum.posterior.loglik - penalty @ parameters**2 / 2
    for step in 1e-3 * np.eye(len(parameters)):
        for moved in (parameters + step, parameters - step):
            value = core.model.likelihood.posterior(moved).loglik
            assert value - penalty @ moved**2 / 2 < best


def test_sharing_items_gives_a_smaller_error_than_the_mean_of_judges(ratings) -> None:
    weights = {"item 00": 1, "item 05": -1}
    shared = fit_glmm_panel(ratings, items="shared").contrast(weights)
    separate = fit_glmm_panel(ratings).contrast(weights)
    assert shared.value == pytest.approx(separate.value, abs=2 * separate.se)
    assert shared.se < 1.02 * separate.se
    assert "items shared by 2 judges" in shared.label


def test_views_have_everything_that_a_fit_has(ratings) -> None:
    panel = fit_glmm_panel(ratings, items="shared")
    view = panel["second"]
    assert view.judge == "second"
    assert (np.linalg.eigvalsh(view.covariance) > -1e-12).all()
    assert view.contrast({"item 00": 1, "item 05": -1}, covariance="sandwich").se > 0
    draws = view.bootstrap(4, seed=1)
    assert draws.units == 80  # a batch is drawn with both of its judges
    assert (
        view.predictive_check(ratings[ratings["judge"] == "second"], draws=50, seed=1).draws == 50
    )
    groups = dict(zip(view.items.index, "aaabbb", strict=True))
    one = view.group_difference(groups, "a", "b")
    assert panel.group_difference(groups, "a", "b").value == pytest.approx(one.value)


def test_two_identical_judges_halve_the_variance(simulate) -> None:
    """Twice the same ratings: the joint fit equals one fit to batches of weight two."""
    alone = simulate(QUALITIES, 60, lags=(-0.5,), batch_sd=0.7, seed=9)
    both = pd.concat([alone.assign(judge="a"), alone.assign(judge="b")])
    weights = {"item 00": 1, "item 05": -1}
    joint = fit_glmm_panel(both, items="shared", ridge=1e-6).contrast(weights)
    single = fit_glmm(alone, ridge=1e-6).contrast(weights)
    assert joint.value == pytest.approx(single.value, abs=1e-5)
    # The level of the second judge costs nothing in a contrast, its own kernel a little.
    assert joint.se == pytest.approx(single.se / np.sqrt(2), rel=0.02)


def test_bad_input(ratings) -> None:
    with pytest.raises(DataError, match="at least two judges"):
        fit_glmm_panel(ratings[ratings["judge"] == "first"], items="shared")
