"""How well a fit knows its parameters and contrasts, and which of them it does not know at all.

Two covariances are kept apart. The *cluster* one is the sandwich over prompts and holds whatever
the dependence within a prompt; the *model* one takes records as independent and verdicts as
Bernoulli. A *flat direction* is one in which the unpenalized information vanishes: the records say
nothing along it, whatever number the ridge has put there, so a contrast that leans on it is not
identified.

Source: OSCAR (arXiv 2609.24128), equations (9) and (10), appendices A.8 and B.3.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import special

from benchtrial.errors import DataError, FitError
from benchtrial.orchestrator.models.oscar.arrays import Floats, Ints
from benchtrial.orchestrator.models.oscar.covariance import inverse, prompt_variance
from benchtrial.orchestrator.models.oscar.identification import flat_directions
from benchtrial.orchestrator.models.oscar.model import Model
from benchtrial.orchestrator.models.oscar.newton import Point
from benchtrial.orchestrator.models.oscar.table import Comparisons

Covariance = Literal["cluster", "model"]

#: A contrast is not identified if more than this share of its gradient lies in flat directions.
FLAT_SHARE = 1e-6


@dataclass(frozen=True)
class Contrasts:
    """Values h_ij, standard errors and whether each is identified."""

    value: Floats
    se: Floats
    identified: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Covariances and flat directions at one optimum."""

    data: Comparisons
    model: Model
    natural: Floats
    point: Point
    ridge: float
    length: Floats | None

    @cached_property
    def flat(self) -> Floats:
        """Flat directions of the unpenalized information, in free coordinates."""
        return flat_directions(self.point.information - self.ridge * np.eye(self.model.size))

    def flat_share(self, gradient: Floats) -> Floats:
        """Largest share of each gradient (rows, natural coordinates) along flat directions."""
        free = self.model.gradient(gradient)
        norm = np.linalg.norm(free, axis=1)
        along = np.linalg.norm(free @ self.flat, axis=1)
        share: Floats = along / np.where(norm > 0, norm, 1.0)
        return share

    @property
    def determined(self) -> Floats:
        """Basis of the directions that the penalized loss determines.

        With a ridge that is all of them. Without one, flat directions (two groups never compared)
        are left out, so that contrasts within a group keep their errors.
        """
        if self.ridge > 0 or not self.flat.shape[1]:
            return np.eye(self.model.size)
        everything, _ = np.linalg.qr(self.flat, mode="complete")
        basis: Floats = everything[:, self.flat.shape[1] :]
        return basis

    def covariance(self, kind: Covariance) -> Floats:
        """Covariance of the natural coordinates.

        NaN where the loss is not curved, and for the cluster covariance with no more prompts than
        parameters: its scores then sum to zero in too many directions, and it would promise far
        too much.

        Raises
        ------
        FitError
            If a model-based covariance is asked for outcomes that are probabilities.
        """
        if kind == "cluster":
            return self._cluster
        if kind == "model":
            return self._model_based
        raise DataError(f"covariance={kind!r}: choose 'cluster' or 'model'")

    @cached_property
    def _cluster(self) -> Floats:
        basis = self.determined
        curved = basis.T @ self.point.hessian @ basis
        if self.data.clusters <= self.model.size or not _positive(curved):
            return self._unknown
        scores = prompt_variance(self.data, self.model, self.natural, self.length)
        half = np.linalg.solve(curved, basis.T @ scores @ basis)
        middle = np.linalg.solve(curved, half.T)
        return self.model.spread(basis @ ((middle + middle.T) / 2) @ basis.T)

    @cached_property
    def _model_based(self) -> Floats:
        if self.data.fractional:
            raise FitError(
                "a table of probabilities has no model-based covariance: a probability varies "
                "less than a verdict; use covariance='cluster'"
            )
        basis = self.determined
        curved = basis.T @ self.point.information @ basis
        if not _positive(curved):
            return self._unknown
        return self.model.spread(basis @ inverse(curved) @ basis.T)

    @property
    def _unknown(self) -> Floats:
        return np.full((self.model.natural_size, self.model.natural_size), np.nan)

    def standard_errors(self, gradient: Floats, kind: Covariance) -> Floats:
        """Delta-method standard errors of the rows of ``gradient``; NaN if not identified."""
        spread = self.covariance(kind)
        variance = np.einsum("ij,jk,ik->i", gradient, spread, gradient, optimize=True)
        se: Floats = np.sqrt(np.maximum(variance, 0.0))
        se[self.flat_share(gradient) > FLAT_SHARE] = np.nan
        return se

    def contrasts(self, i: Ints, j: Ints, weights: Floats, kind: Covariance) -> Contrasts:
        """Estimate h_ij = mean(gamma) (s_i - s_j) for arrays of pairs.

        ``weights`` are the derivatives of mean(gamma) by v_k; they sum to mean(gamma). The gradient
        of h_ij (A.8) is mean(gamma) on s_i, minus that on s_j, and the gap times ``weights`` on v,
        so each variance is a form in three pieces and no matrix of gradients is built.
        """
        scores = self.natural[: self.model.candidates]
        sensitivities = self.model.block("sensitivity")
        mean, gap = weights.sum(), scores[i] - scores[j]
        spread = self.covariance(kind)
        shared = spread[: len(scores), sensitivities] @ weights
        average = weights @ spread[sensitivities, sensitivities] @ weights
        variance = (
            mean**2 * (spread[i, i] + spread[j, j] - 2 * spread[i, j])
            + 2 * mean * gap * (shared[i] - shared[j])
            + gap**2 * average
        )
        flat = (
            np.stack([self.model.shift(column) for column in self.flat.T], axis=1)
            if (self.flat.shape[1])
            else np.zeros((self.model.natural_size, 0))
        )
        along = mean * (flat[i] - flat[j]) + gap[:, None] * (weights @ flat[sensitivities])
        norm = np.sqrt(2 * mean**2 + gap**2 * (weights @ weights))
        return Contrasts(
            value=mean * gap,
            se=np.sqrt(np.maximum(variance, 0.0)),
            identified=np.linalg.norm(along, axis=1) <= FLAT_SHARE * norm,
        )


def quantile(level: float) -> float:
    """Return the normal quantile of a two-sided interval."""
    if not 0 < level < 1:
        raise DataError(f"level={level!r} must lie between 0 and 1, such as 0.95")
    return float(special.ndtri((1 + level) / 2))


def _positive(matrix: Floats) -> bool:
    return not len(matrix) or bool(np.linalg.eigvalsh(matrix)[0] > 0)
