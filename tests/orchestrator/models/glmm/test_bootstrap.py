"""The bootstrap over batches: what it draws, what it gives, and that workers do not matter."""

import numpy as np
import pandas as pd
import pytest

from benchtrial.errors import DataError
from benchtrial.orchestrator.models import fit_glmm

QUALITIES = [-1.0, -0.3, 0.2, 0.9]


@pytest.fixture
def ratings(simulate) -> pd.DataFrame:
    return simulate(QUALITIES, 120, lags=(-0.6,), cold_start=0.4, batch_sd=0.7, seed=21)


def test_a_replicate_is_the_fit_of_the_repeated_batches(ratings) -> None:
    fit = fit_glmm(ratings)
    drawn = np.random.default_rng(1).multinomial(120, np.ones(120) / 120).astype(float)
    copies = [
        ratings[ratings["batch"] == batch].assign(batch=1000 * batch + copy)
        for batch, count in enumerate(drawn)
        for copy in range(int(count))
    ]
    direct = fit_glmm(pd.concat(copies))
    # Replicates stop at a decrement of 1e-8: within 1e-4 standard errors.
    np.testing.assert_allclose(fit.engine.replicate(drawn), direct.vector, atol=5e-5)
    one_step = fit.engine.one_step(drawn)
    errors = direct.standard_errors.to_numpy()
    # One step leaves a second-order error: well below the shift itself.
    assert (np.abs(one_step - direct.vector) < 0.35 * errors).all()


def test_workers_and_repetition_do_not_matter(ratings) -> None:
    fit = fit_glmm(ratings)
    once = fit.bootstrap(12, seed=7)
    again = fit.bootstrap(12, seed=7, workers=3)
    pd.testing.assert_frame_equal(once.draws, again.draws)
    assert not once.draws.equals(fit.bootstrap(12, seed=8).draws)
    assert once.failed == 0


@pytest.mark.parametrize("one_step", [False, True])
def test_errors_are_near_the_model_based_ones(ratings, one_step) -> None:
    """The model is true here: 300 replicates know an error to 4 %, 120 batches to about 7 %."""
    fit = fit_glmm(ratings)
    bootstrap = fit.bootstrap(300, seed=3, one_step=one_step)
    ratio = bootstrap.standard_errors / fit.standard_errors
    assert ((ratio > 0.7) & (ratio < 1.4)).all()
    groups = dict(zip(fit.items.index, "aabb", strict=True))
    estimate = bootstrap.group_difference(groups, "a", "b")
    assert estimate.value == fit.group_difference(groups, "a", "b").value
    assert "bootstrap replicates of 120 batches" in estimate.label
    bounds = bootstrap.interval()
    assert (bounds["low"] < fit.parameters).all()
    assert (bounds["high"] > fit.parameters).all()


def test_williams_blocks_are_drawn_as_blocks(ratings) -> None:
    blocked = fit_glmm(ratings.assign(block=ratings["batch"] // 4))
    bootstrap = blocked.bootstrap(5, seed=1)
    assert bootstrap.units == 30
    assert "30 blocks" in bootstrap.contrast({"item 00": 1, "item 01": -1}).label


def test_bad_arguments(ratings) -> None:
    with pytest.raises(DataError, match="two replicates"):
        fit_glmm(ratings).bootstrap(1, seed=0)
    single = fit_glmm(ratings[ratings["batch"] < 40].assign(block=0))
    with pytest.raises(DataError, match="two batches"):
        single.bootstrap(10, seed=0)
