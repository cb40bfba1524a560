"""The exact marginal likelihood of the Markov GLMM, its gradient and its Hessian.

Given the batch intercept ``sigma * z`` the ratings of a batch form a Markov chain, so the
likelihood of a batch is a one-dimensional integral over ``z ~ N(0, 1)``. Three observations make
it cheap and exact.

* The predictor without the intercept takes few values: one per *cell* (item, lags, first or not).
  Tables over cells and quadrature nodes hold every logarithm that is needed, and a batch is a row
  of counts over cells: ``log f = counts @ table``, plus a linear part in the canonical binary
  model.
* The trapezoidal rule on an equally spaced grid converges geometrically for an analytic integrand
  that decays at both ends. With a step of seven tenths of the narrowest posterior standard
  deviation its error is near 1e-15, so that one grid serves all batches and no mode is sought:
  there is no Laplace approximation to be wrong.
* Fisher's identity gives the gradient from the posterior weights of the nodes, and Louis's identity
  the Hessian: expected complete-data information minus the posterior variance of the complete-data
  score. The score is a smooth function of ``z``, so its variance is a rapidly converging sum of
  squares of its coefficients in the polynomials that are orthonormal under the posterior of the
  batch: two of them make a fast Newton step, a dozen give the Hessian to the last digits.

References
----------
Louis (1982), Finding the observed information matrix when using the EM algorithm, JRSS B 44;
Trefethen and Weideman (2014), The exponentially convergent trapezoidal rule, SIAM Review 56.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from benchtrial.orchestrator.models.glmm.families import Family, Tables
from benchtrial.orchestrator.models.glmm.matrices import beside, cross, gram, sampled_product

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]

REACH = 8.0
"""The grid spans +-8 prior standard deviations: the tail beyond is below 1e-14."""

EDGE_MASS = 1e-11
"""Posterior mass at an end of the grid above which it is widened: a batch far off the rest."""

WIDEN = 1.5
"""Factor by which the grid is widened."""

MOST_REACH = 48.0
"""Widest grid. A batch that lies further out is not described by a normal intercept at all."""

STEP = 0.7
"""Step of the grid in units of the narrowest posterior sd: error near exp(-2 pi^2 / 0.7^2)."""

WIDEST_STEP = 0.5
"""Step of the grid when the posterior is as wide as the prior."""

NEGLIGIBLE_NORM = 1e-12
"""Norm below which the next polynomial is rounding error: the posterior sits on too few nodes."""

MOST_DEGREE = 40
"""Longest polynomial series. The widest posterior (the prior itself) is done long before."""

LEAST_INFORMATION = 1e-6
"""Smallest information, relative to the largest, by which a contribution is measured: a parameter
that the data hardly touch would wait for rounding errors to vanish."""

SERIES_TOLERANCE = 1e-10
"""Relative contribution to the Hessian below which the polynomial series is cut."""


@dataclass(frozen=True, eq=False)
class Linear:
    """The part of a canonical log-likelihood that is linear in the predictors.

    Parameters
    ----------
    sums
        Sum of rating times design row over each path, shape ``(paths, fixed effects)``.
    total
        Sum of the ratings of each path.
    """

    sums: Any
    total: Floats


@dataclass(frozen=True, eq=False)
class Likelihood:
    """Counts and design of one data set; everything that does not change during a fit.

    Parameters
    ----------
    counts
        How often each path visits each outcome cell, shape ``(paths, cells)``, dense or sparse.
    designs
        One matrix ``(cells, fixed effects)`` per predictor of the family, dense or sparse.
    family
        The family, with what it must know about the cells.
    path_batch
        Batch of each path, never decreasing; None if every batch has one path.
    weights
        Weight of each batch.
    cell_judge, batch_judge
        Which standard deviation of the batch intercept applies (several in a joint fit).
    judges
        Number of these standard deviations.
    longest
        Largest number of ratings in a batch.
    linear
        Linear part of a canonical family; None for the others.
    """

    counts: Any
    designs: tuple[Any, ...]
    family: Family
    path_batch: Integers | None
    weights: Floats
    cell_judge: Integers
    batch_judge: Integers
    judges: int
    longest: int
    linear: Linear | None = None
    reach: float = REACH

    @property
    def effects(self) -> int:
        """Number of fixed effects."""
        return int(self.designs[0].shape[1])

    @property
    def parameters(self) -> int:
        """Number of fixed effects and standard deviations."""
        return self.effects + self.judges

    def weighted(self, weights: Floats) -> "Likelihood":
        """Return the same likelihood with other weights of the batches."""
        return replace(self, weights=weights)

    def posterior(self, parameters: Floats) -> "Posterior":
        """Evaluate the likelihood at ``parameters`` (fixed effects, then standard deviations)."""
        fixed, sds = parameters[: self.effects], parameters[self.effects :]
        nodes = _grid(np.abs(sds).max(initial=0.0), self.longest, self.family, self.reach)
        tables = self.family.tables(
            tuple(design @ fixed for design in self.designs), sds[self.cell_judge][:, None] * nodes
        )
        log_joint = self.counts @ tables.log
        if self.linear is not None:
            log_joint += (self.linear.sums @ fixed)[:, None]
            log_joint += (self.linear.total * sds[self.path_judge])[:, None] * nodes
        log_joint += _log_prior(nodes)
        peak = log_joint.max(axis=1)
        if self.path_batch is None:
            peaks = peak
        else:
            peaks = np.maximum.reduceat(peak, self._path_starts)
            peak = peaks[self.path_batch]
        weights = np.exp(log_joint - peak[:, None])
        mass = weights.sum(axis=1)
        if self.path_batch is not None:
            mass = np.add.reduceat(mass, self._path_starts)
        evidence = np.log(mass) + peaks
        weights /= (mass if self.path_batch is None else mass[self.path_batch])[:, None]
        if self.reach < MOST_REACH and weights[:, [0, -1]].max() > EDGE_MASS:
            return replace(self, reach=WIDEN * self.reach).posterior(parameters)
        return Posterior(self, nodes, tables, weights, evidence)

    @cached_property
    def path_judge(self) -> Integers:
        """Which standard deviation applies to each path."""
        return self.batch_judge if self.path_batch is None else self.batch_judge[self.path_batch]

    @cached_property
    def _path_starts(self) -> Integers:
        assert self.path_batch is not None  # noqa: S101  (only asked where there are paths)
        return np.searchsorted(self.path_batch, np.arange(len(self.weights)))


@dataclass(frozen=True, eq=False)
class Posterior:
    """The likelihood at one parameter vector.

    Parameters
    ----------
    likelihood
        Where it comes from.
    nodes
        Quadrature nodes of the standardised batch intercept.
    tables
        Log-probabilities of the cells and their derivatives at the nodes.
    weights
        Posterior probability of each node (and path) given the ratings of the batch, shape
        ``(paths, nodes)``; sums to one over the paths and nodes of a batch.
    evidence
        Log-likelihood of each batch, shape ``(batches,)``.
    """

    likelihood: Likelihood
    nodes: Floats
    tables: Tables
    weights: Floats
    evidence: Floats

    @property
    def loglik(self) -> float:
        """Weighted log-likelihood of all batches."""
        return float(self.likelihood.weights @ self.evidence)

    @cached_property
    def gradient(self) -> Floats:
        """Gradient of the log-likelihood (Fisher's identity), shape ``(parameters,)``."""
        like = self.likelihood
        gradient = np.zeros(like.parameters)
        for design, sign, first in zip(
            like.designs, like.family.signs, self.tables.first, strict=True
        ):
            expected = self._occupancy * first
            gradient[: like.effects] += design.T @ expected.sum(axis=1)
            gradient[like.effects :] += sign * self._by_judge(expected @ self.nodes)
        if like.linear is not None:
            gradient[: like.effects] += like.linear.sums.T @ (self._row_weights * self._row_mass)
            moments = self._row_weights * like.linear.total * (self.weights @ self.nodes)
            gradient[like.effects :] += np.bincount(
                like.path_judge, weights=moments, minlength=like.judges
            )
        return gradient

    def hessian(self, degree: int | None = None) -> Floats:
        """Hessian of the log-likelihood (Louis's identity), shape ``(parameters, parameters)``.

        Parameters
        ----------
        degree
            Number of polynomials in the posterior variance of the score; None sums the series until
            it has converged.
        """
        return self.score_variance(degree) - self.complete_information

    @cached_property
    def complete_information(self) -> Floats:
        """Expected information of ratings and intercepts together; positive semidefinite."""
        like, effects = self.likelihood, self.likelihood.effects
        total = np.zeros((like.parameters, like.parameters))
        for (i, j), second in self.tables.second.items():
            expected = -self._occupancy * second
            moments = [expected.sum(axis=1), expected @ self.nodes, expected @ self.nodes**2]
            left, right = like.designs[i], like.designs[j]
            sign_i, sign_j = like.family.signs[i], like.family.signs[j]
            block = np.zeros_like(total)
            block[:effects, :effects] = cross(left, moments[0], right)
            block[:effects, effects:] = left.T @ self._spread(sign_j * moments[1])
            block[effects:, :effects] = (right.T @ self._spread(sign_i * moments[1])).T
            block[effects:, effects:] = np.diag(self._by_judge(sign_i * sign_j * moments[2]))
            total += block if i == j else block + block.T
        return total

    def score_variance(self, degree: int | None = None) -> Floats:
        """Sum over batches of the posterior variance of the complete-data score.

        Parameters
        ----------
        degree
            Number of polynomials; None sums until the rest is below ``SERIES_TOLERANCE``.
        """
        scale = np.diag(self.complete_information)
        scale = np.maximum(scale, LEAST_INFORMATION * scale.max())
        mass, basis = self._row_mass, _Polynomials(self.nodes, self._within)
        row_weights = self._row_weights * mass
        total = np.zeros((self.likelihood.parameters,) * 2)
        if self.likelihood.path_batch is not None:
            mean = self._mean_scores
            total += gram(mean, row_weights) - gram(self.scores, self.likelihood.weights)
        most = min(len(self.nodes) - 1, MOST_DEGREE) if degree is None else degree
        for k in range(1, most + 1):
            term = gram(self._coefficients(basis.next()), row_weights)
            total += term
            if degree is None and (np.diag(term) < SERIES_TOLERANCE * scale).all() and k > 1:
                break
        return total

    @cached_property
    def scores(self) -> Any:
        """Score of each batch (unweighted), shape ``(batches, parameters)``, dense or sparse."""
        means = self._mean_scores
        if self.likelihood.path_batch is None:
            return means
        paths, batches = len(self._row_mass), len(self.likelihood.weights)
        gather = sparse.csr_array(
            (self._row_mass, (self.likelihood.path_batch, np.arange(paths))), (batches, paths)
        )
        return gather @ means

    @cached_property
    def _row_mass(self) -> Floats:
        """Posterior probability of each path."""
        if self.likelihood.path_batch is None:
            return np.ones(len(self.weights))
        return np.asarray(self.weights.sum(axis=1))

    @cached_property
    def _within(self) -> Floats:
        """Posterior of the nodes given the path."""
        if self.likelihood.path_batch is None:
            return self.weights
        return self.weights / np.maximum(self._row_mass, np.finfo(float).tiny)[:, None]

    @cached_property
    def _row_weights(self) -> Floats:
        like = self.likelihood
        return like.weights if like.path_batch is None else like.weights[like.path_batch]

    @cached_property
    def _occupancy(self) -> Floats:
        """Expected number of visits to each cell with the intercept at each node."""
        occupancy: Floats = self.likelihood.counts.T @ (self.weights * self._row_weights[:, None])
        return occupancy

    @cached_property
    def _sd_score(self) -> Floats:
        """Derivative of the log-likelihood of each path in its standard deviation, at each node."""
        slope: Floats = self.likelihood.counts @ sum(
            sign * first
            for sign, first in zip(self.likelihood.family.signs, self.tables.first, strict=True)
        )
        if self.likelihood.linear is not None:
            slope += self.likelihood.linear.total[:, None]
        return slope * self.nodes

    @cached_property
    def _mean_scores(self) -> Any:
        """Posterior mean of the complete-data score of each path."""
        linear = None if self.likelihood.linear is None else self.likelihood.linear.sums
        return self._coefficients(self._within, linear)

    def _coefficients(self, weights: Floats, linear: Any = None) -> Any:
        """Integrate the complete-data score of each path against ``weights`` over the nodes.

        ``linear`` is the linear part of the score, which weights that sum to zero cancel.
        """
        like = self.likelihood
        fixed = sum(
            sampled_product(like.counts, weights, first) @ design
            for design, first in zip(like.designs, self.tables.first, strict=True)
        )
        if linear is not None:
            fixed = fixed + linear
        by_sd = np.zeros((len(weights), like.judges))
        by_sd[np.arange(len(weights)), self.likelihood.path_judge] = np.einsum(
            "tq,tq->t", weights, self._sd_score
        )
        return beside(fixed, by_sd)

    def _by_judge(self, by_cell: Floats) -> Floats:
        like = self.likelihood
        sums = np.bincount(like.cell_judge, weights=by_cell, minlength=like.judges)
        return np.asarray(sums, dtype=np.float64)

    def _spread(self, by_cell: Floats) -> Floats:
        """Put a value per cell into the column of the cell's judge."""
        columns = np.zeros((len(by_cell), self.likelihood.judges))
        columns[np.arange(len(by_cell)), self.likelihood.cell_judge] = by_cell
        return columns


class _Polynomials:
    """Polynomials in the node, orthonormal under each row of ``weights``; one degree per call.

    The Stieltjes recurrence. A row whose weights sit on fewer nodes than the degree gives zeros.
    """

    def __init__(self, nodes: Floats, weights: Floats) -> None:
        self._nodes, self._weights = nodes, weights
        self._current, self._weighted = np.ones_like(weights), weights
        self._previous = np.zeros_like(weights)
        self._norm = np.zeros((len(weights), 1))

    def next(self) -> Floats:
        """Return weights times the next polynomial at the nodes, shape ``(rows, nodes)``."""
        following = self._nodes * self._current
        centre = np.einsum("tq,tq->t", self._weighted, following)
        self._previous *= self._norm
        following -= self._previous
        np.multiply(self._current, centre[:, None], out=self._previous)
        following -= self._previous
        weighted = self._weights * following
        norm = np.sqrt(np.einsum("tq,tq->t", weighted, following))[:, None]
        scale = 1.0 / np.where(norm > NEGLIGIBLE_NORM, norm, np.inf)
        following *= scale
        weighted *= scale
        self._previous, self._current = self._current, following
        self._weighted, self._norm = weighted, norm
        return weighted


def _grid(sd: float, longest: int, family: Family, reach: float) -> Floats:
    narrowest = 1.0 / np.sqrt(1.0 + sd**2 * longest * family.information)
    half = int(np.ceil(reach / min(WIDEST_STEP, STEP * narrowest)))
    return np.linspace(-reach, reach, 2 * half + 1)


def _log_prior(nodes: Floats) -> Floats:
    step = nodes[1] - nodes[0]
    return np.asarray(np.log(step / np.sqrt(2 * np.pi)) - nodes**2 / 2)
