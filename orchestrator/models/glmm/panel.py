"""A panel of judges: one fit each, and what the panel says on average.

Judges see the same batch orders but have intercepts, kernels and levels of their own, so that
given the orders their ratings are independent and the fits are too. A contrast of the panel is
the mean of the judges' contrasts: what this panel says, not what judges in general would say.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pandas as pd

from benchtrial.errors import DataError
from benchtrial.orchestrator.models.estimate import Estimate
from benchtrial.orchestrator.models.glmm.fit import (
    RIDGE,
    batch_weights,
    check_settings,
    fit_glmm,
)
from benchtrial.orchestrator.models.glmm.groups import Groups
from benchtrial.orchestrator.models.glmm.joint import JointFit, fit_joint
from benchtrial.orchestrator.models.glmm.model import Response, build
from benchtrial.orchestrator.models.glmm.result import Covariance, GLMMFit
from benchtrial.orchestrator.models.glmm.scale import binary_scale, ordinal_scale
from benchtrial.orchestrator.models.glmm.table import name_some, read_ratings

Panel = Sequence[Hashable] | None


class GLMMPanel(Mapping[Hashable, GLMMFit]):
    """Fits by judge.

    Parameters
    ----------
    fits
        The fit of each judge, made separately.
    """

    def __init__(self, fits: Mapping[Hashable, GLMMFit]) -> None:
        self._fits = dict(fits)

    def __getitem__(self, judge: Hashable) -> GLMMFit:
        return self._fits[judge]

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._fits)

    def __len__(self) -> int:
        return len(self._fits)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(repr(judge) for judge in self)})"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of all fits, each with its judge."""
        return tuple(f"{judge}: {said}" for judge, fit in self.items() for said in fit.warnings)

    def contrast(
        self,
        weights: Mapping[Hashable, float],
        panel: Panel = None,
        *,
        covariance: Covariance = "model",
    ) -> Estimate:
        """Estimate a weighted sum of item qualities, averaged over the judges of ``panel``.

        Parameters
        ----------
        weights
            Weight of each item.
        panel
            Judges to average over; all by default.
        covariance
            ``"model"``, or ``"sandwich"`` for the batch-robust covariance.
        """
        judges = self._judges(panel)
        return _mean([self[j].contrast(weights, covariance=covariance) for j in judges], judges)

    def group_difference(
        self,
        groups: Groups,
        a: Hashable,
        b: Hashable,
        panel: Panel = None,
        *,
        covariance: Covariance = "model",
    ) -> Estimate:
        """Estimate mean quality of group ``a`` minus group ``b``, averaged over ``panel``."""
        judges = self._judges(panel)
        return _mean(
            [self[j].group_difference(groups, a, b, covariance=covariance) for j in judges], judges
        )

    def _judges(self, panel: Panel) -> list[Hashable]:
        judges = list(self) if panel is None else list(panel)
        unknown = [judge for judge in judges if judge not in self]
        if unknown or not judges:
            raise DataError(
                f"the panel names judge {name_some(unknown)}; fitted are {name_some(list(self))}"
                if unknown
                else "the panel is empty; name at least one judge"
            )
        if len(set(judges)) < len(judges):
            raise DataError("the panel names a judge twice; name each once")
        return judges


class SharedGLMMPanel(GLMMPanel):
    """Fits of judges that share their item effects, from one likelihood.

    A contrast of the panel is one estimate, not a mean of independent ones.

    Parameters
    ----------
    joint
        The joint fit.
    """

    def __init__(self, joint: JointFit) -> None:
        super().__init__({judge: joint.view(judge) for judge in joint.judges})
        self.joint = joint

    def contrast(
        self,
        weights: Mapping[Hashable, float],
        panel: Panel = None,
        *,
        covariance: Covariance = "model",
    ) -> Estimate:
        """Estimate a weighted sum of the shared item qualities."""
        view = self.joint.mean_view(self._judges(panel))
        return _shared(view.contrast(weights, covariance=covariance), self)

    def group_difference(
        self,
        groups: Groups,
        a: Hashable,
        b: Hashable,
        panel: Panel = None,
        *,
        covariance: Covariance = "model",
    ) -> Estimate:
        """Estimate mean shared quality of group ``a`` minus group ``b``."""
        view = self.joint.mean_view(self._judges(panel))
        return _shared(view.group_difference(groups, a, b, covariance=covariance), self)


def fit_glmm_panel(
    ratings: pd.DataFrame,
    *,
    lags: int = 1,
    ridge: float = RIDGE,
    response: Response = "binary",
    weights: pd.Series | None = None,
    cold_start: bool = True,
    covariates: Sequence[str] = (),
    levels: Sequence[float] | None = None,
    items: Literal["judge", "shared"] = "judge",
) -> GLMMPanel:
    """Fit every judge of a table, with its own lags, cold start and batch deviation.

    Parameters
    ----------
    ratings
        As for ``fit_glmm``, with a column ``judge``.
    lags, ridge, response, weights, cold_start, covariates, levels
        As for ``fit_glmm``; they hold for every judge.
    items
        ``"judge"`` fits every judge separately, with item effects of its own; ``"shared"`` fits all
        judges in one likelihood with common item effects and a level of each judge's own.

    Raises
    ------
    DataError, NotIdentified, NotConverged
        As ``fit_glmm``; the message names the judge.
    """
    if "judge" not in getattr(ratings, "columns", ()):
        raise DataError("a panel needs a column 'judge'; use fit_glmm for one judge")
    if ratings["judge"].isna().any():
        raise DataError("some ratings have no judge; fill in the column 'judge'")
    if items == "shared":
        return _fit_shared(
            ratings,
            weights,
            covariates,
            levels,
            lags=lags,
            ridge=ridge,
            response=response,
            cold_start=cold_start,
        )
    return GLMMPanel(
        {
            judge: fit_glmm(
                rows,
                lags=lags,
                ridge=ridge,
                response=response,
                weights=weights,
                cold_start=cold_start,
                covariates=covariates,
                levels=levels,
            )
            for judge, rows in ratings.groupby("judge", sort=False)
        }
    )


def _fit_shared(
    ratings: pd.DataFrame,
    weights: pd.Series | None,
    covariates: Sequence[str],
    levels: Sequence[float] | None,
    *,
    lags: int,
    ridge: float,
    response: Response,
    cold_start: bool,
) -> SharedGLMMPanel:
    check_settings(lags, ridge, response)
    if response == "gaussian":
        raise DataError('items="shared" is for binary and ordinal ratings')
    tables = [
        read_ratings(rows, covariates=covariates)
        for _, rows in ratings.groupby("judge", sort=False)
    ]
    if len(tables) == 1:
        raise DataError("a joint fit needs at least two judges; use fit_glmm for one")
    if response == "binary":
        scale = [binary_scale(table) for table in tables][-1]
    else:
        scale = ordinal_scale(tables, levels)
    model = build(
        tables,
        scale,
        [batch_weights(table, weights) for table in tables],
        lags=lags,
        ridge=ridge,
        cold_start=cold_start,
        response=response,
    )
    return SharedGLMMPanel(fit_joint(model, tables, ridge, response))


def _shared(estimate: Estimate, judges: Sequence[Hashable] | GLMMPanel) -> Estimate:
    return replace(estimate, label=f"{estimate.label}; items shared by {len(judges)} judges")


def _mean(estimates: Sequence[Estimate], judges: Sequence[Hashable]) -> Estimate:
    """Average independent estimates; one that the prior drives makes the mean prior-driven."""
    value = float(np.mean([estimate.value for estimate in estimates]))
    se = float(np.sqrt(np.sum([estimate.se**2 for estimate in estimates]))) / len(estimates)
    if len(estimates) == 1:
        return estimates[0]
    label = f"mean of {len(judges)} judges ({name_some(list(judges))}); {estimates[0].label}"
    driven = [j for j, e in zip(judges, estimates, strict=True) if e.prior_driven]
    if not driven:
        return Estimate.wald(value, se, label=label)
    label += f"; set by the prior for judge {name_some(driven)}"
    if any(np.isnan(estimate.p) for estimate in estimates):
        return Estimate(value, se, np.nan, np.nan, np.nan, label=label, prior_driven=True)
    return Estimate.wald(value, se, label=label, prior_driven=True)
