"""How far back does the judge remember? The order of the memory by three criteria.

AIC and BIC charge the log-likelihood for each parameter. Held-out batches need no such charge:
the model of each order is fitted to the other batches, and the log-likelihood of the batches left
out is added up. All orders are compared on the same ratings, because absent lags are zero and no
rating is lost. A difference in held-out log-likelihood comes with a standard error from the
batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchtrial.errors import DataError, NotIdentified
from benchtrial.orchestrator.models.glmm.bootstrap import Seed
from benchtrial.orchestrator.models.glmm.engine import fit_model
from benchtrial.orchestrator.models.glmm.fit import RIDGE
from benchtrial.orchestrator.models.glmm.model import Model, Response, build
from benchtrial.orchestrator.models.glmm.newton import REFIT_TOLERANCE, maximize
from benchtrial.orchestrator.models.glmm.scale import binary_scale, ordinal_scale
from benchtrial.orchestrator.models.glmm.table import RatingTable, read_ratings

Floats = npt.NDArray[np.float64]

FOLDS = 10
"""Parts into which the batches are split."""


@dataclass(frozen=True, eq=False)
class LagChoice:
    """Orders of memory compared.

    Parameters
    ----------
    table
        A row per order (index ``lags``): ``loglik``, ``parameters``, ``aic``, ``bic``, ``held_out``
        (log-likelihood of batches left out), ``behind`` (how far it is behind the best) and ``se``
        (standard error of ``behind`` over batches).
    batches, folds
        Number of batches, and of the parts that were left out in turn.
    """

    table: pd.DataFrame
    batches: int
    folds: int

    @property
    def by_aic(self) -> int:
        """Order with the smallest AIC."""
        return self._order(int(self.table["aic"].to_numpy().argmin()))

    @property
    def by_bic(self) -> int:
        """Order with the smallest BIC."""
        return self._order(int(self.table["bic"].to_numpy().argmin()))

    @property
    def by_held_out(self) -> int:
        """Order that predicts batches left out best."""
        return self._order(int(self.table["held_out"].to_numpy().argmax()))

    @property
    def smallest_adequate(self) -> int:
        """Smallest order that is within one standard error of the best prediction."""
        adequate = self.table["behind"] <= self.table["se"].fillna(0.0)
        return min(self._order(row) for row in np.flatnonzero(adequate))

    def _order(self, row: int | np.integer) -> int:
        return int(self.table.index.to_numpy()[row])


def choose_lags(
    ratings: pd.DataFrame,
    *,
    orders: Sequence[int] = (0, 1, 2, 3),
    folds: int = FOLDS,
    seed: Seed,
    ridge: float = RIDGE,
    response: Response = "binary",
    cold_start: bool = True,
    levels: Sequence[float] | None = None,
) -> LagChoice:
    """Compare orders of memory on one judge's ratings.

    Parameters
    ----------
    ratings, ridge, response, cold_start, levels
        As for ``fit_glmm``; ``response`` is ``"binary"`` or ``"ordinal"``.
    orders
        Orders to compare.
    folds
        Into how many parts the batches (or design blocks) are split at random.
    seed
        Seed of the split.

    Raises
    ------
    DataError
        There are more folds than batches, or the ratings are real-valued.
    """
    if response == "gaussian":
        raise DataError("lag orders are compared for binary and ordinal ratings only")
    table = read_ratings(ratings)
    units = int(table.blocks.max()) + 1
    if not 2 <= folds <= units:
        raise DataError(f"{folds} folds do not fit {units} batches (or blocks); use 2 to {units}")
    scale = binary_scale(table) if response == "binary" else ordinal_scale([table], levels)
    part = np.random.default_rng(seed).permutation(units) % folds
    fold = part[table.blocks]
    rows, held = {}, {}
    for order in orders:
        model = build(
            [table],
            scale,
            [np.ones(len(table.batches))],
            lags=order,
            ridge=ridge,
            cold_start=cold_start,
            response=response,
        )
        fit = fit_model(table, model, ridge, response)
        held[order] = _held_out(table, replace(model, start=fit.vector), fold, folds)
        rows[order] = {
            "loglik": fit.loglik,
            "parameters": fit.engine.free_parameters,
            "aic": fit.aic,
            "bic": fit.bic,
            "held_out": held[order].sum(),
        }
    best = max(held, key=lambda order: held[order].sum())
    for order in orders:
        lead = held[best] - held[order]
        rows[order]["behind"] = lead.sum()
        rows[order]["se"] = np.sqrt(len(lead)) * lead.std(ddof=1)
    frame = pd.DataFrame.from_dict(rows, orient="index").rename_axis("lags")
    return LagChoice(frame.astype({"parameters": int}), len(table.batches), folds)


def _held_out(table: RatingTable, model: Model, fold: npt.NDArray[np.intp], folds: int) -> Floats:
    """Return the log-likelihood of each batch under the fit to the batches of the other folds."""
    evidence = np.zeros(len(table.batches))
    start = model.start.copy()
    start[-1] = max(start[-1], model.free[-1] * 0.3)
    for left_out in range(folds):
        inside = fold == left_out
        rated = np.bincount(table.item[~inside[table.batch]], minlength=len(table.items))
        if (rated == 0).any():
            raise NotIdentified(
                f"item {table.items[int(rated.argmin())]!r} is rated in one fold only; use fewer "
                f"batches per fold (more folds)"
            )
        optimum = maximize(
            model.likelihood.weighted((~inside).astype(np.float64)),
            model.penalty,
            start,
            free=model.free,
            tolerance=REFIT_TOLERANCE,
        )
        evidence[inside] = optimum.posterior.evidence[inside]
    return evidence
