"""Small, odd and broken data: a fit, or an error that says why, and never anything else."""

import numpy as np
import pandas as pd
import pytest

from benchtrial.errors import DataError, FitError, NotConverged, NotIdentified
from benchtrial.orchestrator.models import fit_glmm


@pytest.mark.parametrize("seed", range(25))
def test_every_small_study_is_fitted_or_refused(simulate, seed) -> None:
    """Few items, few batches, strong effects, gaps and unreadable ratings, two or more levels."""
    generator = np.random.default_rng(seed)
    items, batches = int(generator.integers(2, 9)), int(generator.integers(2, 25))
    ratings = simulate(
        generator.normal(0, generator.choice([0.3, 1.0, 3.0]), items),
        batches,
        lags=generator.normal(0, 1, int(generator.integers(0, 3))),
        cold_start=generator.normal(),
        batch_sd=abs(generator.normal()),
        size=int(generator.integers(2, items + 1)),
        seed=seed,
    )
    response = "ordinal" if seed % 3 == 0 else "binary"
    if response == "ordinal":
        ratings["rating"] += generator.integers(0, 3, len(ratings))
    ratings["rating"] = ratings["rating"].where(generator.random(len(ratings)) > 0.08)
    ratings = ratings[generator.random(len(ratings)) > 0.05]
    try:
        fit = fit_glmm(ratings, lags=int(generator.integers(0, 3)), response=response)
    except NotConverged:
        raise
    except (FitError, DataError) as error:
        assert len(str(error)) > 40  # noqa: PT017  (a sentence, not a code)
        return
    assert fit.gradient_norm < 1e-8
    assert fit.iterations <= 20
    assert np.isfinite(fit.items).all()
    block = fit.covariance.loc["item", "item"].to_numpy()
    assert np.linalg.eigvalsh(block).min() > 0
    first, last = fit.items.index[[0, -1]]
    assert fit.contrast({first: 1, last: -1}).se > 0
    assert fit.group_difference({first: "a", last: "b"}, "a", "b").se > 0


def test_unanimous_batches_are_refused_in_words() -> None:
    """Each batch all accepted or all rejected: the deviation of batches has no finite estimate."""
    rows = [
        (batch, position, item, int(batch % 2))
        for batch in range(12)
        for position, item in enumerate(np.random.default_rng(batch).permutation(list("abc")))
    ]
    ratings = pd.DataFrame(rows, columns=["batch", "position", "item", "rating"])
    with pytest.raises(NotIdentified, match="batch deviation runs off"):
        fit_glmm(ratings, lags=0)


def test_many_fixed_effects_take_no_more_iterations(simulate) -> None:
    """Derivative-free optimisers slow down with the number of effects; Newton does not."""
    fit = fit_glmm(simulate(np.linspace(-1.5, 1.5, 120), 60, lags=(-0.5,), batch_sd=0.7, seed=1))
    assert fit.iterations <= 10
    assert fit.gradient_norm < 1e-8


def test_one_normalised_log_likelihood_whatever_the_model(simulate) -> None:
    """A batch deviation of zero gives the plain logistic log-likelihood, on the same scale."""
    ratings = simulate([-0.5, 0.5], 30, seed=5)
    fit = fit_glmm(ratings, lags=0, cold_start=False, ridge=0.0)
    counts = ratings.groupby("item")["rating"].agg(["sum", "count"])
    share = counts["sum"] / counts["count"]
    plain = (
        counts["sum"] * np.log(share) + (counts["count"] - counts["sum"]) * np.log(1 - share)
    ).sum()
    assert fit.loglik == pytest.approx(plain, abs=0.5)
    if fit.batch_sd == 0:
        assert fit.loglik == pytest.approx(plain, abs=1e-9)
