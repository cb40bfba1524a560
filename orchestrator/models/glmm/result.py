"""What a fit of the Markov GLMM says: estimates, their covariance, contrasts and warnings.

The estimand is the quality of these items for this judge (items fixed). Every estimate carries a
label that names the estimand, the units and the kind of standard error, and every estimate that
the prior decides is marked.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchtrial.errors import DataError
from benchtrial.orchestrator.models.estimate import Estimate
from benchtrial.orchestrator.models.glmm.groups import (
    Groups,
    group_members,
    group_weights,
    weight_vector,
)
from benchtrial.orchestrator.models.glmm.model import Response
from benchtrial.orchestrator.models.glmm.table import name_some

if TYPE_CHECKING:
    from benchtrial.orchestrator.models.glmm.engine import Engine

Floats = npt.NDArray[np.float64]
Covariance = Literal["model", "sandwich"]

RIDGE_FACTORS = (0.25, 4.0)
"""A conclusion that leans on separated items must stand at these multiples of the ridge."""

SATURATED_ACCEPTANCE = (0.05, 0.95)
"""A judge that accepts less or more than this hardly tells items apart."""

SATURATED_SEPARATION = 0.5
"""Share of separated items from which on a comparison rests on the prior."""

SANDWICH_BATCHES = 90
"""Fewest batches for a batch sandwich: at 30 its test rejects a true null in about 9 %, at 60 in
7 %."""

SIGNIFICANCE = 0.05
"""Level at which conclusions under different ridges are compared."""


@dataclass(frozen=True, eq=False)
class GLMMFit:
    """A fitted Markov GLMM of one judge.

    Parameters
    ----------
    items
        Quality of each item in logits (Series by item id).
    lags
        Effect of the rating emitted 1, 2, … K earlier (Series by lag).
    cold_start
        Effect of being the first of a batch; NaN if the model has none.
    batch_sd
        Standard deviation of the batch intercept; exactly 0 if that is its estimate.
    loglik
        Log-likelihood (not penalised) at the estimates.
    covariance
        Inverse of the penalised observed information, labelled ``(part, label)`` on both axes,
        parts being item, lag, cold start, covariate, threshold and batch sd. A batch deviation of
        zero lies on the boundary and has NaN.
    converged, iterations, gradient_norm
        How Newton's method ended; ``gradient_norm`` is the largest entry of the gradient of the
        penalised log-likelihood, per rating. A fit that does not converge raises.
    warnings
        What a reader of the estimates must know, in sentences.
    judge
        The judge's id, if the table named one.
    response, ridge
        Settings of the fit.
    thresholds
        Thresholds between the levels of ordinal ratings (Series by the level below), summing to
        zero; empty for binary ratings.
    covariates
        Coefficients of covariates (Series by column name).
    residual_sd
        Standard deviation of the residual of real-valued ratings; NaN otherwise.
    acceptance
        Share of ratings that are 1; for ordinal ratings the mean rating as a share of the scale.
    separated
        Items whose ratings are all at one end of the scale: their estimates are the prior's.
    ratings, batches
        Numbers of readable ratings and of batches.
    """

    items: pd.Series
    lags: pd.Series
    cold_start: float
    batch_sd: float
    loglik: float
    covariance: pd.DataFrame
    converged: bool
    iterations: int
    gradient_norm: float
    warnings: tuple[str, ...]
    judge: Hashable | None
    response: Response
    ridge: float
    thresholds: pd.Series
    covariates: pd.Series
    residual_sd: float
    acceptance: float
    separated: tuple[Hashable, ...]
    ratings: int
    batches: int
    unit: str
    engine: "Engine | None" = field(repr=False, default=None)

    @cached_property
    def standard_errors(self) -> pd.Series:
        """Model-based standard errors, labelled ``(part, label)``."""
        return pd.Series(np.sqrt(np.diag(self.covariance)), index=self.covariance.index)

    @property
    def parameters(self) -> pd.Series:
        """All estimates, labelled ``(part, label)``, in the order of ``covariance``."""
        return self._engine.parameters

    @property
    def saturation(self) -> str | None:
        """Why this judge hardly tells items apart, or None if it does."""
        low, high = SATURATED_ACCEPTANCE
        if not (np.isnan(self.acceptance) or low <= self.acceptance <= high):
            return f"acceptance {self.acceptance:.3f} outside [{low}, {high}]"
        if len(self.separated) >= SATURATED_SEPARATION * len(self.items):
            return f"{len(self.separated)} of {len(self.items)} items never change their rating"
        return None

    @property
    def aic(self) -> float:
        """Akaike's information criterion, counting every free parameter."""
        return 2 * self._engine.free_parameters - 2 * self.loglik

    @property
    def bic(self) -> float:
        """Schwarz's criterion; batches, the independent units, are the sample size."""
        return float(np.log(self.batches)) * self._engine.free_parameters - 2 * self.loglik

    @cached_property
    def sandwich(self) -> pd.DataFrame:
        """Covariance robust to what happens inside a batch (or design block).

        The inverse information around the sum of squared batch scores, with the factor
        ``G/(G-1)`` for ``G`` units. Liberal below about ``SANDWICH_BATCHES`` batches; a
        robustness check, not the covariance of a stopping rule.
        """
        return self._engine.sandwich()

    def contrast(
        self, weights: Mapping[Hashable, float], *, covariance: Covariance = "model"
    ) -> Estimate:
        """Estimate a weighted sum of item qualities, such as ``{"a": 1, "b": -1}``.

        A contrast with a separated item is prior-driven: it has a value but no interval.

        Parameters
        ----------
        weights
            Weight of each item; the others have none.
        covariance
            ``"model"``, or ``"sandwich"`` for the batch-robust covariance.

        Raises
        ------
        DataError
            An item was never rated, or a weight is not finite.
        """
        vector = weight_vector(weights, self.items.index, self.judge)
        terms = " ".join(f"{weight:+g}·{item}" for item, weight in weights.items())
        label = f"{terms}: {self._scale}; {self._basis(covariance)}"
        value, se = self.linear(vector, covariance)
        leaning = [item for item in self.separated if weights.get(item, 0.0) != 0]
        if leaning:
            return Estimate(
                value,
                se,
                *(np.nan,) * 3,
                label=f"{label}; set by the prior: item {name_some(leaning)} is rated the same in "
                f"every batch",
                prior_driven=True,
            )
        return Estimate.wald(value, se, label=label)

    def group_difference(
        self,
        groups: Groups,
        a: Hashable,
        b: Hashable,
        *,
        covariance: Covariance = "model",
    ) -> Estimate:
        """Estimate the mean quality of group ``a`` minus that of group ``b``: items are fixed.

        Parameters
        ----------
        groups
            Group of each item (a mapping, or a Series indexed by item). Items of other groups, such
            as items shared by both methods, stay in the model and out of the comparison.
        a, b
            The two groups.
        covariance
            ``"model"``, or ``"sandwich"`` for the batch-robust covariance.

        Raises
        ------
        DataError
            A group is empty or equals the other, or one of its items was never rated.
        """
        members = {group: group_members(groups, group) for group in (a, b)}
        weights = group_weights(members, a, b)
        vector = weight_vector(weights, self.items.index, self.judge)
        value, se = self.linear(vector, covariance)
        label = (
            f"mean quality of {a!r} ({count_items(len(members[a]))}) minus {b!r} "
            f"({count_items(len(members[b]))}), these items fixed: {self._scale}; "
            f"{self._basis(covariance)}"
        )
        single = [group for group, items in members.items() if len(items) == 1]
        if single:
            label += f"; group {name_some(single)} is a single item, not a sample of items"
        estimate = Estimate.wald(value, se, label=label)
        leaning = [item for item in self.separated if item in weights]
        return self._guarded(estimate, vector, leaning) if leaning else estimate

    def _guarded(self, estimate: Estimate, vector: Floats, leaning: list[Hashable]) -> Estimate:
        """Mark a comparison that leans on separated items unless the ridge does not matter."""
        verdicts = {_verdict(estimate)}
        for factor in RIDGE_FACTORS:
            fit = self._engine.refit(ridge=self.ridge * factor)
            verdicts.add(_verdict(Estimate.wald(*fit.linear(vector))))
        driven = len(verdicts) > 1
        label = (
            f"{estimate.label}; leans on {count_items(len(leaning))} rated the same in every batch "
            f"({name_some(leaning)}); sign and significance "
            f"{'change' if driven else 'stand'} at a quarter and at four times the ridge"
        )
        return replace(estimate, label=label, prior_driven=driven)

    def linear(self, vector: Floats, covariance: Covariance = "model") -> tuple[float, float]:
        """Return value and standard error of a weighted sum of items, weights in their order."""
        matrix = self.covariance if covariance == "model" else self.sandwich
        size = len(self.items)
        variance = vector @ matrix.to_numpy()[:size, :size] @ vector
        return float(vector @ self.items.to_numpy()), float(np.sqrt(variance))

    @property
    def _scale(self) -> str:
        return "rating units" if self.response == "gaussian" else "logit scale"

    def _basis(self, covariance: Covariance) -> str:
        judge = "" if self.judge is None else f" of judge {self.judge}"
        kind = "model-based" if covariance == "model" else f"{self.unit}-robust"
        return f"{self.batches} batches{judge}, {kind} standard error"

    @property
    def _engine(self) -> "Engine":
        if self.engine is None:
            raise DataError("this fit was loaded without its data; fit it again")
        return self.engine


def _verdict(estimate: Estimate) -> int:
    """Return the sign of a significant estimate, 0 for one that is not significant."""
    return int(np.sign(estimate.value)) if estimate.p < SIGNIFICANCE else 0


def count_items(count: int) -> str:
    """Return ``1 item`` or ``n items``."""
    return "1 item" if count == 1 else f"{count} items"
