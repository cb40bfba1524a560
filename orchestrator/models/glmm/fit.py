"""The Markov generalized linear mixed model of one judge's ratings.

A judge that rates a batch of items in one shared context does not rate them independently: what it
said about one item changes what it says about the next, the first item of a batch meets a different
standard, and some batches are judged more harshly than others. The model says so:

    logit P(Y_tj = 1) = theta_v(t,j) + sum_k beta_k Y_t,j-k + gamma [j = 1] + sigma z_t

with ``z_t ~ N(0, 1)``, for rating ``j`` of batch ``t``. The *estimand* is the quality ``theta``
of these items for this judge on the logit scale, and the difference of means of groups of them:
items are fixed. (What such items would give in general is a different question, with a wider
interval: ``GLMMFit.new_item_difference``.)

What the prior does. A normal prior, the ``ridge``, acts on items, lags and cold start, not on the
batch deviation. It matters only where the data have no finite answer: an item accepted always, or
never, is *separated*, its estimate is set by the prior, and it is named. A contrast of such an item
has no interval. A comparison of groups that contain one is refitted at a quarter and at four times
the ridge, and is called prior-driven unless sign and significance agree at all three.

References
----------
"Trustworthy Method Comparison with AI Judges: Estimation and Design under Order, Batch, and
Aggregation Effects", equations (1)-(2) and section 4.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchtrial.errors import DataError
from benchtrial.orchestrator.models.glmm.engine import fit_model
from benchtrial.orchestrator.models.glmm.gaussian import fit_gaussian
from benchtrial.orchestrator.models.glmm.model import Response, build
from benchtrial.orchestrator.models.glmm.result import GLMMFit
from benchtrial.orchestrator.models.glmm.scale import binary_scale, ordinal_scale
from benchtrial.orchestrator.models.glmm.table import RatingTable, name_some, read_ratings

Floats = npt.NDArray[np.float64]

RIDGE = 0.05
"""Default prior precision: a standard deviation of 4.5 logits, vague for any item that is neither
always nor never accepted."""


def fit_glmm(
    ratings: pd.DataFrame,
    *,
    lags: int = 1,
    ridge: float = RIDGE,
    response: Response = "binary",
    weights: pd.Series | None = None,
    cold_start: bool = True,
    covariates: Sequence[str] = (),
    levels: Sequence[float] | None = None,
) -> GLMMFit:
    """Fit the Markov GLMM to the ratings of one judge by exact (penalised) maximum likelihood.

    Parameters
    ----------
    ratings
        A row per emitted rating: ``batch``, ``position`` (order of emission in the batch),
        ``item``, ``rating`` (NaN if it could not be read); optionally ``judge``, and ``block``
        for the design block of a batch.
    lags
        Order K of the memory: how many earlier ratings a rating may lean on.
    ridge
        Prior precision of items, lags and cold start; 0 is plain maximum likelihood, and refuses
        separated items.
    response
        ``"binary"`` (0 or 1), ``"ordinal"`` (levels, cumulative logit) or ``"gaussian"``
        (real-valued scores, linear mixed model by REML; no ridge is needed or used).
    weights
        Weight of each batch (Series by batch label), 1 by default.
    cold_start
        Whether the first rating of a batch has an effect of its own.
    covariates
        Columns that enter the predictor. They must vary within items; for properties of items see
        ``GLMMFit.item_regression``.
    levels
        Legal levels of ordinal ratings from worst to best; by default the whole numbers between the
        lowest and the highest rating found.

    Raises
    ------
    DataError
        The table or an argument cannot be used.
    NotIdentified
        The data say nothing about some parameter: ratings that are all equal, an item without a
        readable rating, a lag that no batch is long enough for, a separated item without a ridge.
    NotConverged
        Newton's method ran out of iterations.
    """
    check_settings(lags, ridge, response)
    table = read_ratings(ratings, covariates=covariates)
    if response == "gaussian":
        return fit_gaussian(table, batch_weights(table, weights), lags=lags, cold_start=cold_start)
    scale = binary_scale(table) if response == "binary" else ordinal_scale([table], levels)
    model = build(
        [table],
        scale,
        [batch_weights(table, weights)],
        lags=lags,
        ridge=ridge,
        cold_start=cold_start,
        response=response,
    )
    return fit_model(table, model, ridge, response)


def batch_weights(table: RatingTable, weights: pd.Series | None) -> Floats:
    """Return the weight of each batch of a table, checked."""
    if weights is None:
        return np.ones(len(table.batches))
    missing = [batch for batch in table.batches if batch not in weights.index]
    if missing:
        raise DataError(f"weights lack batch {name_some(missing)}; give every batch a weight")
    values = weights.reindex(list(table.batches)).to_numpy(dtype=np.float64)
    if not np.isfinite(values).all() or (values < 0).any() or not values.any():
        raise DataError("weights of batches must be finite, not negative, and not all zero")
    return values


def check_settings(lags: int, ridge: float, response: str) -> None:
    """Refuse impossible settings of a fit."""
    if isinstance(lags, bool) or not isinstance(lags, int | np.integer) or lags < 0:
        raise DataError(f"lags must be a whole number of at least 0, not {lags!r}")
    if not (np.isfinite(ridge) and ridge >= 0):
        raise DataError(f"ridge must be a finite number of at least 0, not {ridge!r}")
    if response not in {"binary", "ordinal", "gaussian"}:
        raise DataError(f'response must be "binary", "ordinal" or "gaussian", not {response!r}')
