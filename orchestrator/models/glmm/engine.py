"""How a fit is made from a laid-out model, and what it keeps of its data.

It keeps enough to refit, resample and check it.
"""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchtrial.errors import DataError, NotIdentified
from benchtrial.orchestrator.models.glmm.bootstrap import Seed
from benchtrial.orchestrator.models.glmm.model import Model, Response, Scale
from benchtrial.orchestrator.models.glmm.newton import (
    REFIT_TOLERANCE,
    Optimum,
    maximize,
    negative_hessian,
)
from benchtrial.orchestrator.models.glmm.predictive import PredictiveCheck, Process, check
from benchtrial.orchestrator.models.glmm.result import GLMMFit, count_items
from benchtrial.orchestrator.models.glmm.table import RatingTable, name_some, read_ratings

Floats = npt.NDArray[np.float64]

REPLICATE_SD = 0.3
"""Where a replicate starts a batch deviation that the fit itself puts at zero."""


@dataclass(frozen=True, eq=False)
class LikelihoodEngine:
    """What a fit keeps of its data: enough to refit, resample and check it."""

    table: RatingTable
    model: Model
    optimum: Optimum
    cold_start: bool
    response: Response

    @property
    def free_parameters(self) -> int:
        """Number of estimated parameters."""
        return int(self.optimum.free.sum())

    def refit(self, *, ridge: float) -> GLMMFit:
        """Fit again from the present estimates with another ridge."""
        penalty = np.where(self.model.penalty > 0, ridge, 0.0)
        model = replace(self.model, penalty=penalty, start=self.optimum.parameters)
        return fit_model(
            self.table, model, ridge, cold_start=self.cold_start, response=self.response
        )

    @cached_property
    def inverse_information(self) -> Floats:
        """Inverse penalised observed information; NaN for a deviation held at zero."""
        free = self.optimum.free
        information = negative_hessian(self.optimum.posterior, self.model.penalty, free)
        inverse = np.full((len(free), len(free)), np.nan)
        inverse[np.ix_(free, free)] = np.linalg.inv(information)
        return inverse

    def predictive_check(
        self, fit: GLMMFit, ratings: pd.DataFrame, *, draws: int, seed: Seed
    ) -> PredictiveCheck:
        """Compare new batches with simulations of ``fit``, which must be this engine's."""
        table = read_ratings(ratings)
        if fit.covariates.size:
            raise DataError("a fit with covariates cannot simulate new batches yet")
        unknown = [item for item in table.items if item not in fit.items.index]
        if unknown:
            raise DataError(
                f"item {name_some(unknown)} was not part of the fit; check batches of rated items"
            )
        process = Process(
            items=fit.items.reindex(list(table.items)).to_numpy(),
            lags=fit.lags.to_numpy(),
            cold_start=fit.cold_start,
            batch_sd=fit.batch_sd,
            thresholds=fit.thresholds.to_numpy() if fit.thresholds.size else np.zeros(1),
        )
        return check(process, table, self.model.scale, draws=draws, seed=seed)

    @property
    def units(self) -> int:
        """Number of batches or blocks that a bootstrap draws from."""
        return int(self.table.blocks.max()) + 1

    def replicate(self, drawn: Floats) -> Floats:
        """Refit with each unit counted as often as it was drawn, from the present estimates."""
        like, optimum = self.model.likelihood, self.optimum
        start = optimum.parameters.copy()
        vanished = self.model.free & ~optimum.free
        start[vanished] = REPLICATE_SD
        return maximize(
            like.weighted(like.weights * drawn[self.table.blocks]),
            self.model.penalty,
            start,
            free=self.model.free,
            tolerance=REFIT_TOLERANCE,
        ).parameters

    def one_step(self, drawn: Floats) -> Floats:
        """Take one Newton step from the estimates towards those of ``replicate``."""
        free = self.optimum.free
        gradient = (drawn - 1.0) @ self._free_scores
        step = np.zeros(len(free))
        step[free] = self.inverse_information[np.ix_(free, free)] @ gradient
        return self.optimum.parameters + step

    @cached_property
    def _free_scores(self) -> Floats:
        return self.unit_scores()[:, self.optimum.free]

    def unit_scores(self) -> Floats:
        """Weighted score of each unit (batch or block), shape ``(units, parameters)``."""
        like = self.model.likelihood
        scores = self.optimum.posterior.scores
        dense = np.asarray(scores.todense() if hasattr(scores, "todense") else scores)
        units = np.zeros((self.units, dense.shape[1]))
        np.add.at(units, self.table.blocks, like.weights[:, None] * dense)
        return units

    @cached_property
    def sandwich(self) -> Floats:
        """Covariance robust to dependence within units."""
        free = self.optimum.free
        return sandwich_of(self.inverse_information, self.unit_scores(), free)


def sandwich_of(inverse: Floats, scores: Floats, free: npt.NDArray[np.bool_]) -> Floats:
    """Return inverse information around the spread of unit scores, with the factor G/(G-1).

    Raises
    ------
    NotIdentified
        There is only one unit.
    """
    units = len(scores)
    if units < 2:
        raise NotIdentified("a sandwich needs at least two batches (or design blocks)")
    scores = scores[:, free]
    half = (scores - scores.mean(axis=0)) @ inverse[np.ix_(free, free)]
    robust = np.full(inverse.shape, np.nan)
    robust[np.ix_(free, free)] = half.T @ half * units / (units - 1)
    return robust


def fit_model(
    table: RatingTable, model: Model, ridge: float, *, cold_start: bool, response: Response
) -> GLMMFit:
    """Maximise the likelihood of a laid-out model and describe what came out."""
    separated = separated_items(table, model.scale, model.likelihood.weights)
    if separated and ridge == 0:
        raise NotIdentified(
            f"item {name_some(separated)} is rated the same in every batch, so that its quality "
            f"has no finite estimate; use a positive ridge, or leave the item out"
        )
    optimum = maximize(model.likelihood, model.penalty, model.start, free=model.free)
    engine = LikelihoodEngine(table, model, optimum, cold_start, response)
    readable = ~np.isnan(table.value)
    ratings = int(readable.sum())
    scores = model.scale.scores[model.scale.codes(table.value[readable])]
    fit = GLMMFit(
        names=model.names,
        vector=optimum.parameters,
        loglik=optimum.posterior.loglik,
        iterations=optimum.iterations,
        gradient_norm=float(np.abs(optimum.gradient).max() / ratings),
        warnings=(),
        judge=table.judge,
        response=response,
        ridge=ridge,
        levels=model.scale.used,
        acceptance=float(scores.mean()),
        separated=separated,
        ratings=ratings,
        batches=len(table.batches),
        unit=table.block_name,
        engine=engine,
    )
    return replace(fit, warnings=_warnings(fit, table, model, optimum))


def separated_items(table: RatingTable, scale: Scale, weights: Floats) -> tuple[Hashable, ...]:
    """Return the items whose readable ratings all lie at the same end of the scale."""
    codes = scale.codes(table.value)
    counted = (codes >= 0) & (weights[table.batch] > 0)
    rated = np.bincount(table.item[counted], minlength=len(table.items))
    separated = np.zeros(len(table.items), dtype=bool)
    for end in (0, len(scale.used) - 1):
        at_end = counted & (codes == end)
        separated |= np.bincount(table.item[at_end], minlength=len(table.items)) == rated
    return tuple(table.items[v] for v in np.flatnonzero(separated))


def _warnings(fit: GLMMFit, table: RatingTable, model: Model, optimum: Optimum) -> tuple[str, ...]:
    said = []
    if table.unreadable:
        said.append(
            f"{table.unreadable} of {len(table.value)} ratings could not be read: they are summed "
            f"over their possible values"
        )
    alone = np.flatnonzero(np.bincount(table.batch, minlength=len(table.batches)) == 1)
    if alone.size:
        said.append(
            f"batch {name_some([table.batches[t] for t in alone])} has a single rating: it says "
            f"nothing about lags or the batch effect"
        )
    if model.scale.unused:
        said.append(
            f"level {name_some(list(model.scale.unused))} is never used and is merged with its "
            f"neighbour"
        )
    if not model.free[-1]:
        said.append(
            "fewer than two batches have two ratings: the batch effect cannot be estimated and is "
            "left out, so that intervals ignore it"
        )
    elif not optimum.free[-1]:
        said.append(
            "the batch deviation is estimated as zero, the edge of its range: intervals ignore a "
            "spread of batches that could not be estimated"
        )
    if fit.separated:
        said.append(
            f"{count_items(len(fit.separated))} of {len(table.items)} rated the same in every "
            f"batch ({name_some(list(fit.separated))}): their estimates are set by the prior "
            f"(ridge {fit.ridge:g})"
        )
    if fit.saturation is not None:
        said.append(f"the judge is saturated: {fit.saturation}")
    return tuple(said)
