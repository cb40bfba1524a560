"""What a fit of the Markov GLMM says: estimates, their covariance, contrasts and warnings.

The estimand is the quality of these items for this judge (items fixed). Every estimate carries a
label that names the estimand, the units and the kind of standard error, and every estimate that
the prior decides is marked.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchtrial.errors import DataError
from benchtrial.orchestrator.models.estimate import Estimate
from benchtrial.orchestrator.models.glmm.bootstrap import Bootstrap, Seed, resample
from benchtrial.orchestrator.models.glmm.groups import (
    Groups,
    group_members,
    group_weights,
    weight_vector,
)
from benchtrial.orchestrator.models.glmm.model import Name, Response
from benchtrial.orchestrator.models.glmm.new_items import (
    ItemRegression,
    item_regression,
    new_item_difference,
)
from benchtrial.orchestrator.models.glmm.predictive import PredictiveCheck, Process, check
from benchtrial.orchestrator.models.glmm.scale import Scale
from benchtrial.orchestrator.models.glmm.table import name_some, read_ratings

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

PART_INDEX = {"threshold": "level"}
"""Name of the index of a part, where it is not the part's own name."""

SIGNIFICANCE = 0.05
"""Level at which conclusions under different ridges are compared."""


class Engine(Protocol):
    """What a result asks of whoever made it."""

    @property
    def inverse_information(self) -> Floats:
        """Covariance of all parameters; NaN for a deviation that is held at zero."""

    @property
    def sandwich(self) -> Floats:
        """Covariance robust to dependence within batches or blocks."""

    @property
    def free_parameters(self) -> int:
        """Number of estimated parameters."""

    @property
    def units(self) -> int:
        """Number of batches or blocks that a bootstrap draws from."""

    def replicate(self, drawn: Floats) -> Floats:
        """Refit with each unit counted as often as it was drawn."""

    def one_step(self, drawn: Floats) -> Floats:
        """Take one Newton step towards ``replicate``."""

    def refit(self, *, ridge: float) -> "GLMMFit":
        """Fit the same data with another ridge."""


@dataclass(frozen=True, eq=False)
class GLMMFit:
    """A fitted Markov GLMM of one judge.

    Parameters
    ----------
    names, vector
        ``(part, label)`` of each parameter, and its estimate. Parts are item, lag, cold start,
        covariate, threshold, batch sd and residual sd.
    loglik
        Log-likelihood (not penalised; restricted for real-valued ratings) at the estimates.
    iterations, gradient_norm
        How the optimiser ended; ``gradient_norm`` is the largest entry of the gradient of the
        penalised log-likelihood, per rating.
    warnings
        What a reader of the estimates must know, in sentences.
    judge
        The judge's id, if the table named one.
    response, ridge
        Settings of the fit.
    scale
        Levels of the ratings; without any for real-valued ratings.
    acceptance
        Share of ratings that are 1; for ordinal ratings the mean rating as a share of the scale.
    separated
        Items whose ratings are all at one end of the scale: their estimates are the prior's.
    ratings, batches
        Numbers of readable ratings and of batches.
    unit
        Unit of resampling: ``"batch"``, or ``"block"`` where the table names design blocks.
    engine
        The data, for refits and resampling.
    """

    names: tuple[Name, ...]
    vector: Floats
    loglik: float
    iterations: int
    gradient_norm: float
    warnings: tuple[str, ...]
    judge: Hashable | None
    response: Response
    ridge: float
    scale: Scale
    acceptance: float
    separated: tuple[Hashable, ...]
    ratings: int
    batches: int
    unit: str
    engine: Engine

    def __repr__(self) -> str:
        judge = "" if self.judge is None else f" of judge {self.judge!r}"
        return (
            f"<GLMMFit{judge}: {len(self.items)} items, {self.batches} batches, {self.ratings} "
            f"{self.response} ratings, {len(self.lags)} lags, batch sd {self.batch_sd:.3g}>"
        )

    @cached_property
    def items(self) -> pd.Series:
        """Quality of each item in logits (rating units for real-valued ratings), by item id."""
        return self._part("item")

    @cached_property
    def lags(self) -> pd.Series:
        """Effect of the rating emitted 1, 2, … K earlier, by lag."""
        return self._part("lag")

    @cached_property
    def covariates(self) -> pd.Series:
        """Coefficients of covariates, by column name."""
        return self._part("covariate")

    @cached_property
    def thresholds(self) -> pd.Series:
        """Thresholds between ordinal levels, by the level below; they sum to zero."""
        free = self._part("threshold")
        if free.empty:
            return free
        labels = pd.Index(self.scale.used[:-1], name="level")
        return pd.Series([*free, -free.sum()], index=labels, name="threshold")

    @property
    def cold_start(self) -> float:
        """Effect of being the first of a batch; NaN if the model has none."""
        return self._single("cold start")

    @property
    def batch_sd(self) -> float:
        """Standard deviation of the batch intercept; exactly 0 if that is its estimate."""
        return self._single("batch sd")

    @property
    def residual_sd(self) -> float:
        """Standard deviation of the residual of real-valued ratings; NaN otherwise."""
        return self._single("residual sd")

    @property
    def converged(self) -> bool:
        """Always true: a fit that does not converge raises ``NotConverged``."""
        return True

    @cached_property
    def parameters(self) -> pd.Series:
        """All estimates, labelled ``(part, label)``."""
        return pd.Series(self.vector, index=self._index)

    @cached_property
    def covariance(self) -> pd.DataFrame:
        """Inverse of the penalised observed information, labelled ``(part, label)``.

        A deviation that is estimated as zero lies on the boundary and has NaN.
        """
        return pd.DataFrame(self.engine.inverse_information, self._index, self._index)

    @cached_property
    def standard_errors(self) -> pd.Series:
        """Model-based standard errors, labelled ``(part, label)``."""
        return pd.Series(np.sqrt(np.diag(self.engine.inverse_information)), index=self._index)

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
        return 2 * self.engine.free_parameters - 2 * self.loglik

    @property
    def bic(self) -> float:
        """Schwarz's criterion; batches, the independent units, are the sample size."""
        return float(np.log(self.batches)) * self.engine.free_parameters - 2 * self.loglik

    @cached_property
    def sandwich(self) -> pd.DataFrame:
        """Covariance robust to what happens inside a batch (or design block).

        The inverse information around the sum of squared batch scores, with the factor
        ``G/(G-1)`` for ``G`` units. Liberal below about ``SANDWICH_BATCHES`` batches; a
        robustness check, not the covariance of a stopping rule.
        """
        return pd.DataFrame(self.engine.sandwich, self._index, self._index)

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
        label = f"{terms}: {self.units_of_quality}; {self._basis(covariance)}"
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
            f"({count_items(len(members[b]))}), these items fixed: {self.units_of_quality}; "
            f"{self._basis(covariance)}"
        )
        single = [group for group, items in members.items() if len(items) == 1]
        if single:
            label += f"; group {name_some(single)} is a single item, not a sample of items"
        estimate = Estimate.wald(value, se, label=label)
        leaning = [item for item in self.separated if item in weights]
        return self._guarded(estimate, vector, leaning) if leaning else estimate

    def new_item_difference(self, groups: Groups, a: Hashable, b: Hashable) -> Estimate:
        """Estimate the expected quality of new items like those of ``a`` minus new ones like ``b``.

        Items are random here: their spread within each group, estimated by restricted maximum
        likelihood, is part of the standard error. Compare ``group_difference``, which is about the
        items that were rated.

        Raises
        ------
        NotIdentified
            A group has fewer than three items, or a separated one.
        """
        return new_item_difference(self, groups, a, b)

    def item_regression(self, properties: pd.DataFrame) -> ItemRegression:
        """Explain qualities by properties of items (length, family …), items random.

        Parameters
        ----------
        properties
            Numeric columns, a row per item (index: item id); an intercept is added.

        Raises
        ------
        DataError
            An item has no row, or a value is missing.
        NotIdentified
            Two properties say the same, there are too few items, or one is separated.
        """
        return item_regression(self, properties)

    def predictive_check(
        self, ratings: pd.DataFrame, *, draws: int = 500, seed: Seed
    ) -> PredictiveCheck:
        """Compare new batches with simulations of this fit under the same orders.

        Parameters
        ----------
        ratings
            Batches that were not used for the fit, of items that were.
        draws
            Number of simulated data sets.
        seed
            Seed of the simulation.

        Raises
        ------
        DataError
            An item is new, a rating is not on the scale, or the ratings are real-valued.
        """
        if self.response == "gaussian" or self.covariates.size:
            raise DataError(
                "predictive checks are for binary and ordinal ratings without covariates"
            )
        table = read_ratings(ratings)
        unknown = [item for item in table.items if item not in self.items.index]
        if unknown:
            raise DataError(
                f"item {name_some(unknown)} was not part of the fit; check batches of rated items"
            )
        process = Process(
            items=self.items.reindex(list(table.items)).to_numpy(),
            lags=self.lags.to_numpy(),
            cold_start=self.cold_start,
            batch_sd=self.batch_sd,
            thresholds=self.thresholds.to_numpy() if self.thresholds.size else np.zeros(1),
        )
        return check(process, table, self.scale, draws=draws, seed=seed)

    def bootstrap(
        self, replicates: int, *, seed: Seed, one_step: bool = False, workers: int = 1
    ) -> Bootstrap:
        """Resample whole batches (or design blocks) and refit.

        Parameters
        ----------
        replicates
            How many; 200 give a standard error to within 5 %.
        seed
            Every replicate has its own stream: the result does not depend on ``workers``.
        one_step
            Take one Newton step per replicate instead of a full refit.
        workers
            Threads to use.

        Raises
        ------
        DataError
            There are fewer than two replicates or fewer than two units.
        """
        draws, failed = resample(
            self.engine.one_step if one_step else self.engine.replicate,
            self.engine.units,
            replicates,
            seed=seed,
            workers=workers,
        )
        return Bootstrap(
            draws=pd.DataFrame(draws, columns=self._index),
            estimates=self.parameters,
            failed=failed,
            unit=self.unit,
            units=self.engine.units,
            one_step=one_step,
            judge=self.judge,
        )

    def _guarded(self, estimate: Estimate, vector: Floats, leaning: list[Hashable]) -> Estimate:
        """Mark a comparison that leans on separated items unless the ridge does not matter."""
        verdicts = {_verdict(estimate)}
        for factor in RIDGE_FACTORS:
            fit = self.engine.refit(ridge=self.ridge * factor)
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
        matrix = self.engine.inverse_information if covariance == "model" else self.engine.sandwich
        size = len(self.items)
        variance = vector @ matrix[:size, :size] @ vector
        return float(vector @ self.items.to_numpy()), float(np.sqrt(variance))

    @property
    def units_of_quality(self) -> str:
        """What qualities are measured in, in words."""
        return "rating units" if self.response == "gaussian" else "logit scale"

    def _basis(self, covariance: Covariance) -> str:
        judge = "" if self.judge is None else f" of judge {self.judge}"
        kind = "model-based" if covariance == "model" else f"{self.unit}-robust"
        return f"{self.batches} batches{judge}, {kind} standard error"

    @cached_property
    def _index(self) -> pd.MultiIndex:
        return pd.MultiIndex.from_tuples(self.names, names=["part", "label"])

    def _part(self, part: str) -> pd.Series:
        where = [i for i, (name, _) in enumerate(self.names) if name == part]
        labels = pd.Index([self.names[i][1] for i in where], name=PART_INDEX.get(part, part))
        return pd.Series(self.vector[where], index=labels, name=part)

    def _single(self, part: str) -> float:
        where = [i for i, (name, _) in enumerate(self.names) if name == part]
        return float(self.vector[where[0]]) if where else float("nan")


def _verdict(estimate: Estimate) -> int:
    """Return the sign of a significant estimate, 0 for one that is not significant."""
    return int(np.sign(estimate.value)) if estimate.p < SIGNIFICANCE else 0


def count_items(count: int) -> str:
    """Return ``1 item`` or ``n items``."""
    return "1 item" if count == 1 else f"{count} items"
