"""How a fit is made from a laid-out model, and what it keeps of its data.

It keeps enough to refit and to resample. ``Core`` does both in the parameters of the likelihood,
whoever they belong to; ``JudgeEngine`` is the core of a fit of one judge.
"""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from benchtrial.errors import NotIdentified
from benchtrial.orchestrator.models.glmm.model import Model, Response
from benchtrial.orchestrator.models.glmm.newton import (
    REFIT_TOLERANCE,
    Optimum,
    maximize,
    negative_hessian,
)
from benchtrial.orchestrator.models.glmm.result import GLMMFit, count_items
from benchtrial.orchestrator.models.glmm.scale import Scale
from benchtrial.orchestrator.models.glmm.table import Integers, RatingTable, name_some

Floats = npt.NDArray[np.float64]

RESTART_SD = 0.3
"""Where a refit starts a batch deviation that the fit itself puts at zero."""


@dataclass(frozen=True, eq=False)
class Core:
    """An optimum with its data.

    Parameters
    ----------
    model, optimum
        The likelihood and where it is largest.
    blocks
        Resampling unit of each batch of the likelihood, a code from 0.
    """

    model: Model
    optimum: Optimum
    blocks: Integers

    @property
    def free_parameters(self) -> int:
        """Number of estimated parameters."""
        return int(self.optimum.free.sum())

    @cached_property
    def inverse_information(self) -> Floats:
        """Inverse penalised observed information; NaN for a deviation held at zero."""
        free = self.optimum.free
        inverse = np.full((len(free), len(free)), np.nan)
        inverse[np.ix_(free, free)] = np.linalg.inv(self.information)
        return inverse

    @cached_property
    def information(self) -> Floats:
        """Penalised observed information of the free parameters, from the exact Hessian."""
        return negative_hessian(self.optimum.posterior, self.model.penalty, self.optimum.free)

    @property
    def units(self) -> int:
        """Number of batches or blocks that a bootstrap draws from."""
        return int(self.blocks.max()) + 1

    @property
    def fresh_start(self) -> Floats:
        """The estimates, with a deviation at zero (stationary whatever the data) moved away."""
        start = self.optimum.parameters.copy()
        start[self.model.free & ~self.optimum.free] = RESTART_SD
        return start

    def replicate(self, drawn: Floats) -> Floats:
        """Refit with each unit counted as often as it was drawn, from the present estimates."""
        like, optimum = self.model.likelihood, self.optimum
        return maximize(
            like.weighted(like.weights * drawn[self.blocks]),
            self.model.penalty,
            self.fresh_start,
            free=self.model.free,
            tolerance=REFIT_TOLERANCE,
            information=self.information if (optimum.free == self.model.free).all() else None,
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
        np.add.at(units, self.blocks, like.weights[:, None] * dense)
        return units

    @cached_property
    def sandwich(self) -> Floats:
        """Covariance robust to dependence within units."""
        free = self.optimum.free
        return sandwich_of(self.inverse_information, self.unit_scores(), free)


@dataclass(frozen=True, eq=False)
class JudgeEngine(Core):
    """The core of a fit of one judge."""

    table: RatingTable
    response: Response

    def refit(self, *, ridge: float) -> GLMMFit:
        """Fit again from the present estimates with another ridge."""
        penalty = np.where(self.model.penalty > 0, ridge, 0.0)
        model = replace(self.model, penalty=penalty, start=self.fresh_start)
        return fit_model(self.table, model, ridge, self.response)


def fit_model(table: RatingTable, model: Model, ridge: float, response: Response) -> GLMMFit:
    """Maximise the likelihood of a laid-out model of one judge and describe what came out."""
    separated = separated_items([table], model.scale, model.likelihood.weights)
    require_ridge(separated, ridge)
    optimum = maximize(model.likelihood, model.penalty, model.start, free=model.free)
    engine = JudgeEngine(model, optimum, table.blocks, table, response)
    return describe(
        GLMMFit(
            names=model.names,
            vector=optimum.parameters,
            loglik=optimum.posterior.loglik,
            iterations=optimum.iterations,
            gradient_norm=gradient_norm(optimum, [table]),
            warnings=(),
            judge=table.judge,
            response=response,
            ridge=ridge,
            scale=model.scale,
            acceptance=float("nan"),
            separated=separated,
            ratings=0,
            batches=len(table.batches),
            unit=table.block_name,
            engine=engine,
        ),
        table,
        estimable=bool(model.free[-1]),
    )


def require_ridge(separated: tuple[Hashable, ...], ridge: float) -> None:
    """Refuse separated items without a ridge.

    Raises
    ------
    NotIdentified
        There is one.
    """
    if separated and ridge == 0:
        raise NotIdentified(
            f"item {name_some(separated)} is rated the same in every batch, so that its quality "
            f"has no finite estimate; use a positive ridge, or leave the item out"
        )


def gradient_norm(optimum: Optimum, tables: list[RatingTable]) -> float:
    """Return the largest entry of the gradient per readable rating."""
    ratings = sum(int((~np.isnan(table.value)).sum()) for table in tables)
    return float(np.abs(optimum.gradient).max() / ratings)


def describe(fit: GLMMFit, table: RatingTable, *, estimable: bool) -> GLMMFit:
    """Add to a fit what its table says: acceptance, counts and warnings.

    Parameters
    ----------
    fit
        A fit with a scale.
    table
        The ratings of its judge.
    estimable
        Whether its batch deviation was estimated at all.
    """
    readable = ~np.isnan(table.value)
    scores = fit.scale.scores[fit.scale.codes(table.value[readable])]
    fit = replace(fit, acceptance=float(scores.mean()), ratings=int(readable.sum()))
    return replace(fit, warnings=_warnings(fit, table, estimable=estimable))


def separated_items(
    tables: list[RatingTable], scale: Scale, weights: Floats
) -> tuple[Hashable, ...]:
    """Return the items whose readable ratings all lie at the same end of the scale."""
    ends: dict[Hashable, set[bool | None]] = {}
    offset, top = 0, len(scale.used) - 1
    for table in tables:
        codes = scale.codes(table.value)
        counted = (codes >= 0) & (weights[offset + table.batch] > 0)
        offset += len(table.batches)
        for end, at in ((False, codes == 0), (True, codes == top), (None, (codes % top) > 0)):
            for v in np.flatnonzero(np.bincount(table.item[counted & at])):
                ends.setdefault(table.items[v], set()).add(end)
    items = dict.fromkeys(item for table in tables for item in table.items)
    return tuple(item for item in items if ends.get(item) in ({False}, {True}))


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


def _warnings(fit: GLMMFit, table: RatingTable, *, estimable: bool) -> tuple[str, ...]:
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
    if fit.scale.unused:
        said.append(
            f"level {name_some(list(fit.scale.unused))} is never used and is merged with its "
            f"neighbour"
        )
    if not estimable:
        said.append(
            "fewer than two batches have two ratings: the batch effect cannot be estimated and is "
            "left out, so that intervals ignore it"
        )
    elif fit.batch_sd == 0:
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
