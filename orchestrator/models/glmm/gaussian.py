"""Real-valued ratings: a linear mixed model with the same kernel, by restricted maximum likelihood.

    Y_tj = theta_v(t,j) + sum_k beta_k (Y_t,j-k - m) + gamma [j = 1] + u_t + e_tj

with ``u_t ~ N(0, sigma_b^2)``, ``e ~ N(0, sigma_e^2)``. Scores have no natural zero, so a lag
enters as its deviation from the mean ``m`` of all ratings, and an absent lag as no deviation.
Given the ratio ``rho = sigma_b^2 / sigma_e^2`` everything is least squares: a batch of ``n``
ratings has the inverse covariance ``I - 1 1' rho / (1 + n rho)``, so that sums over batches
suffice and the restricted likelihood is a function of ``rho`` alone. It is maximised over ``rho
>= 0``; zero is a result. There is no separation, so there is no ridge.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from benchtrial.errors import DataError, NotConverged, NotIdentified
from benchtrial.orchestrator.models.glmm.engine import sandwich_of
from benchtrial.orchestrator.models.glmm.model import Name
from benchtrial.orchestrator.models.glmm.result import GLMMFit
from benchtrial.orchestrator.models.glmm.scale import Scale
from benchtrial.orchestrator.models.glmm.table import Integers, RatingTable

Floats = npt.NDArray[np.float64]

RANK = 1e-10
"""Relative eigenvalue of the least-squares system below which a column is a sum of others."""

INVOLVED = 1e-3
"""Share in a dependent combination from which on a column is named."""

LARGEST_LOG_RATIO = 14.0
"""The ratio is sought up to exp(14), about a million: batches a thousand times as spread as
ratings."""

LOG_TOLERANCE = 1e-10
"""Accuracy of the logarithm of the ratio."""


@dataclass(frozen=True, eq=False)
class Sums:
    """Sufficient statistics: cross products within batches, and sums of batches.

    Parameters
    ----------
    columns
        Design ``(ratings, effects)`` with the ratings themselves as the last column.
    batch
        Batch of each rating.
    weights
        Weight of each batch.
    """

    columns: Floats
    batch: Integers
    weights: Floats

    @cached_property
    def products(self) -> Floats:
        """Weighted cross products of all columns."""
        return np.asarray(self.columns.T @ (self.weights[self.batch][:, None] * self.columns))

    @cached_property
    def sizes(self) -> Floats:
        """Ratings per batch."""
        return np.bincount(self.batch, minlength=len(self.weights)).astype(np.float64)

    @cached_property
    def totals(self) -> Floats:
        """Sum of each column over each batch."""
        totals = np.zeros((len(self.weights), self.columns.shape[1]))
        np.add.at(totals, self.batch, self.columns)
        return totals

    def at(self, ratio: float) -> Floats:
        """Return the cross products under the inverse covariance at ``ratio``."""
        shrink = self.weights * ratio / (1.0 + self.sizes * ratio)
        return np.asarray(self.products - self.totals.T @ (shrink[:, None] * self.totals))


@dataclass(frozen=True, eq=False)
class Solution:
    """Least squares at one ratio, or at the best."""

    ratio: float
    effects: Floats
    covariance: Floats
    residual_variance: float
    loglik: float


@dataclass(frozen=True, eq=False)
class GaussianEngine:
    """What a Gaussian fit keeps of its data."""

    sums: Sums
    solution: Solution
    blocks: Integers

    @property
    def free_parameters(self) -> int:
        """Effects, the residual variance, and the batch variance if it is not zero."""
        return len(self.solution.effects) + 1 + (self.solution.ratio > 0)

    @cached_property
    def inverse_information(self) -> Floats:
        """Covariance of effects; NaN for the two deviations, which REML profiles out."""
        size = len(self.solution.effects)
        full = np.full((size + 2, size + 2), np.nan)
        full[:size, :size] = self.solution.covariance
        return full

    @property
    def units(self) -> int:
        """Number of batches or blocks that a bootstrap draws from."""
        return int(self.blocks.max()) + 1

    def replicate(self, drawn: Floats) -> Floats:
        """Refit with each unit counted as often as it was drawn."""
        weights = self.sums.weights * drawn[self.blocks]
        return parameters_of(solve(Sums(self.sums.columns, self.sums.batch, weights)))

    def one_step(self, drawn: Floats) -> Floats:
        """Take one least-squares step at the ratio of the fit."""
        weights = self.sums.weights * drawn[self.blocks]
        sums = Sums(self.sums.columns, self.sums.batch, weights)
        return parameters_of(at_ratio(sums, self.solution.ratio))

    @cached_property
    def sandwich(self) -> Floats:
        """Covariance of effects robust to dependence within units."""
        size, ratio = len(self.solution.effects), self.solution.ratio
        sums = self.sums
        residual = sums.columns[:, -1] - sums.columns[:, :-1] @ self.solution.effects
        by_batch = np.bincount(sums.batch, weights=residual, minlength=len(sums.weights))
        adjusted = residual - (ratio * by_batch / (1.0 + sums.sizes * ratio))[sums.batch]
        adjusted *= sums.weights[sums.batch] / self.solution.residual_variance
        scores = np.zeros((self.units, size + 2))
        np.add.at(
            scores[:, :size], self.blocks[sums.batch], adjusted[:, None] * sums.columns[:, :-1]
        )
        free = np.append(np.ones(size, dtype=bool), [False, False])
        return sandwich_of(self.inverse_information, scores, free)

    def refit(self, *, ridge: float) -> GLMMFit:
        """Refuse: there is no ridge, and nothing that would ask for another."""
        raise DataError(f"a Gaussian fit has no ridge to set to {ridge:g}")


def fit_gaussian(table: RatingTable, weights: Floats, *, lags: int, cold_start: bool) -> GLMMFit:
    """Fit the linear mixed model to one judge's real-valued ratings.

    Raises
    ------
    DataError
        A rating could not be read: what it was is not summed over for real-valued ratings.
    NotIdentified
        All ratings are equal, there are no more ratings than effects, or an effect cannot be told
        apart from the items.
    """
    if table.unreadable:
        row = int(np.flatnonzero(np.isnan(table.value))[0])
        raise DataError(
            f"{table.unreadable} ratings could not be read (first in batch "
            f"{table.batches[table.batch[row]]!r}); a real-valued rating cannot be summed over: "
            f"ask these batches again, or round the scores and fit them as ordinal"
        )
    if np.ptp(table.value) == 0:
        raise NotIdentified(
            f"all {len(table.value)} ratings are {table.value[0]:g}; such ratings tell no "
            f"item from another"
        )
    names, columns = _columns(table, lags, cold_start=cold_start)
    sums = Sums(columns, table.batch, weights)
    _require_rank(sums.products[:-1, :-1], names, len(table.value))
    solution = solve(sums)
    values = parameters_of(solution)
    engine = GaussianEngine(sums, solution, table.blocks)
    said = []
    if solution.ratio == 0:
        said.append(
            "the batch deviation is estimated as zero, the edge of its range: intervals ignore a "
            "spread of batches that could not be estimated"
        )
    return GLMMFit(
        names=(*names, ("batch sd", ""), ("residual sd", "")),
        vector=values,
        loglik=solution.loglik,
        iterations=0,
        gradient_norm=0.0,
        warnings=tuple(said),
        judge=table.judge,
        response="gaussian",
        ridge=0.0,
        scale=Scale((), np.zeros(0)),
        acceptance=float("nan"),
        separated=(),
        ratings=len(table.value),
        batches=len(table.batches),
        unit=table.block_name,
        engine=engine,
    )


def solve(sums: Sums) -> Solution:
    """Maximise the restricted likelihood over the ratio of variances."""
    at_zero = at_ratio(sums, 0.0)
    found = minimize_scalar(
        lambda log_ratio: -at_ratio(sums, float(np.exp(log_ratio))).loglik,
        bounds=(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO),
        method="bounded",
        options={"xatol": LOG_TOLERANCE},
    )
    best = at_ratio(sums, float(np.exp(found.x)))
    if not np.isfinite(best.loglik):
        raise NotConverged("the restricted likelihood is not finite; are the scores constant?")
    return best if best.loglik > at_zero.loglik + LOG_TOLERANCE else at_zero


def at_ratio(sums: Sums, ratio: float) -> Solution:
    """Solve for effects and residual variance at a fixed ratio."""
    products = sums.at(ratio)
    information, right = products[:-1, :-1], products[:-1, -1]
    size = len(right)
    inverse = np.linalg.inv(information)
    effects = inverse @ right
    count = float(sums.weights @ sums.sizes)
    freedom = count - size
    residual = max(float(products[-1, -1] - right @ effects), np.finfo(float).tiny)
    variance = residual / freedom
    loglik = -0.5 * (
        freedom * (np.log(2 * np.pi * variance) + 1.0)
        + float(sums.weights @ np.log1p(sums.sizes * ratio))
        + float(np.linalg.slogdet(information)[1])
    )
    return Solution(ratio, effects, np.asarray(variance * inverse), variance, loglik)


def parameters_of(solution: Solution) -> Floats:
    """Return effects, batch deviation and residual deviation."""
    residual = np.sqrt(solution.residual_variance)
    return np.append(solution.effects, [np.sqrt(solution.ratio) * residual, residual])


def _columns(table: RatingTable, lags: int, *, cold_start: bool) -> tuple[list[Name], Floats]:
    """Return names of the effects, and the design with the ratings as its last column."""
    place = np.arange(len(table.batch)) - table.starts[table.batch]
    names: list[Name] = [("item", item) for item in table.items]
    columns = [np.eye(len(table.items))[table.item]]
    deviation = table.value - table.value.mean()
    for k in range(1, lags + 1):
        lagged = np.zeros_like(deviation)
        lagged[k:] = deviation[:-k]
        names.append(("lag", k))
        columns.append(np.where(place >= k, lagged, 0.0)[:, None])
    if cold_start:
        names.append(("cold start", ""))
        columns.append((place == 0).astype(np.float64)[:, None])
    if table.covariate_names:
        names += [("covariate", name) for name in table.covariate_names]
        columns.append(table.covariates)
    columns.append(table.value[:, None])
    return names, np.hstack(columns)


def _require_rank(products: Floats, names: Sequence[tuple[str, Hashable]], count: int) -> None:
    if count <= len(names):
        raise NotIdentified(
            f"{count} ratings cannot determine {len(names)} effects; collect more batches"
        )
    labels = [part if label == "" else f"{part} {label!r}" for part, label in names]
    size = np.sqrt(np.diag(products))
    if (size == 0).any():
        lost = [labels[int(i)] for i in np.flatnonzero(size == 0)]
        raise NotIdentified(f"{' and '.join(lost)} never differs from zero; use fewer lags")
    values, vectors = np.linalg.eigh(products / np.outer(size, size))
    if values[0] < RANK:
        involved = np.abs(vectors[:, 0]) > INVOLVED
        lost = [
            label
            for label, (part, _), yes in zip(labels, names, involved, strict=True)
            if yes and part != "item"
        ]
        raise NotIdentified(
            f"{' and '.join(lost)} cannot be told apart from the items; shuffle the order of the "
            f"items from batch to batch, or leave the effect out (lags=…, cold_start=False)"
        )
