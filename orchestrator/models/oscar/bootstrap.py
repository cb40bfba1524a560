"""Prompt bootstrap of win probabilities, for those who trust resampling more than a delta method.

A draw is a vector of prompt multiplicities, never a copied table, and every draw is refitted with
the ridge of the fit, from its estimates: a draw in which a candidate happens to win or lose always
gives a large but finite score instead of one that runs away. Draws come from streams spawned per
replicate, so that the result does not depend on where or in which order they run; draws that cannot
be fitted are counted, not hidden.
"""

from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from benchtrial.errors import DataError, NotConverged
from benchtrial.orchestrator.models.oscar.arrays import Floats
from benchtrial.orchestrator.models.oscar.fit import Specification, fit_encoded
from benchtrial.orchestrator.models.oscar.result import OscarFit
from benchtrial.orchestrator.models.oscar.table import resampled_prompts


def bootstrap_win_probability(
    fit: OscarFit,
    replicates: int,
    *,
    seed: int | np.random.SeedSequence,
    level: float = 0.95,
    executor: Executor | None = None,
) -> pd.DataFrame:
    """Resample prompts, refit, and take percentiles of every win probability.

    Parameters
    ----------
    fit
        Any fit; its terms, ridge, reference, panel and length scale are kept.
    executor
        Where replicates run; here and now by default. The result is the same for any executor.

    Returns
    -------
    DataFrame with columns first, second, q, low, high (percentiles) and failed, the draws that
    could not be fitted. A pair that is not identified has NaN.
    """
    if replicates < 1:
        raise DataError(f"replicates={replicates} must be at least 1")
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    run = map if executor is None else executor.map
    drawn = list(run(_redraw, [_Draw(fit, stream) for stream in root.spawn(replicates)]))
    good = [draw for draw in drawn if draw is not None]
    table = fit.win_probability(level)
    ends = np.full((2, len(table)), np.nan)
    if good:
        tail = (1 - level) / 2
        ends = np.quantile(np.stack(good), [tail, 1 - tail], axis=0)
    known = table["q"].notna().to_numpy()
    table["low"], table["high"] = (np.where(known, special.expit(end), np.nan) for end in ends)
    table["failed"] = replicates - len(good)
    return table


@dataclass(frozen=True)
class _Draw:
    fit: OscarFit
    stream: np.random.SeedSequence


def _redraw(draw: _Draw) -> Floats | None:
    """Log-odds of every pair in one draw; None where the refit did not converge."""
    fit, model = draw.fit, draw.fit.model
    generator = np.random.default_rng(draw.stream)
    prompts = np.zeros(len(fit.data.prompts), dtype=np.intp)
    data = fit.data.reweighted(resampled_prompts(prompts, generator))
    wanted = Specification(
        terms=model.terms,
        sensitivities=model.sensitivities,
        tie=model.tie,
        ridge=fit.ridge,
        reference=fit.reference,
        panel=fit.panel,
        length_scale=fit.length_scale,
    )
    try:
        again = fit_encoded(data, wanted, start=fit)
    except NotConverged:
        return None
    i, j = np.triu_indices(model.candidates, k=1)
    scores = again.scores.to_numpy()
    log_odds: Floats = again.mean_sensitivity * (scores[i] - scores[j])
    return log_odds
