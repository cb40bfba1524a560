"""From these items to items like them: the estimand with items random.

A fit estimates the qualities of the items that were rated. Whether method ``a`` writes better
answers than method ``b`` *in general* is a question about items not rated yet; the items at hand
are a sample of them, and their own spread belongs in the standard error, however many batches are
asked for. The second level is a normal model for the estimated qualities,

    theta_hat ~ N(X delta, S + diag(tau^2)),

with ``S`` the covariance of the fit, known, and ``tau`` the spread of items around their
expectation (of its own for each group), by restricted maximum likelihood. ``X`` holds groups or
properties of items such as their length or family. It is a two-stage approximation: exact when
the qualities are estimated well, and separated items, which only the prior holds in place, are
refused.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import Bounds, minimize
from scipy.stats import t as student

from benchtrial.errors import DataError, NotIdentified
from benchtrial.orchestrator.models.estimate import Estimate
from benchtrial.orchestrator.models.glmm.groups import (
    Groups,
    group_members,
    group_weights,
    weight_vector,
)
from benchtrial.orchestrator.models.glmm.table import name_some

if TYPE_CHECKING:
    from benchtrial.orchestrator.models.glmm.result import GLMMFit

Floats = npt.NDArray[np.float64]

LEVEL = 0.95
"""Level of the intervals."""

FEWEST_ITEMS = 3
"""Fewest items of a group whose spread can be estimated at all."""

RANK = 1e-8
"""Relative singular value below which two properties of items say the same."""


@dataclass(frozen=True, eq=False)
class ItemRegression:
    """Qualities of items explained by their properties, items random.

    Parameters
    ----------
    coefficients
        Series by property; ``"intercept"`` is the expectation where all properties are zero.
    covariance
        Their covariance.
    item_sd
        Spread of items around their expectation, by group (a single entry without groups).
    degrees
        Degrees of freedom of intervals and tests.
    label
        What was estimated, from how many items.
    """

    coefficients: pd.Series
    covariance: pd.DataFrame
    item_sd: pd.Series
    degrees: float
    label: str

    def estimate(self, weights: dict[Hashable, float]) -> Estimate:
        """Return a weighted sum of coefficients with a t interval."""
        unknown = [name for name in weights if name not in self.coefficients.index]
        if unknown:
            raise DataError(
                f"no coefficient {name_some(unknown)}; there are "
                f"{name_some(list(self.coefficients.index))}"
            )
        vector = np.array([weights.get(name, 0.0) for name in self.coefficients.index])
        value = float(vector @ self.coefficients.to_numpy())
        se = float(np.sqrt(vector @ self.covariance.to_numpy() @ vector))
        reach = float(student.ppf((1 + LEVEL) / 2, self.degrees)) * se
        p = float(2 * student.sf(abs(value) / se, self.degrees))
        return Estimate(value, se, value - reach, value + reach, p, label=self.label)


def new_item_difference(fit: "GLMMFit", groups: Groups, a: Hashable, b: Hashable) -> Estimate:
    """Return ``GLMMFit.new_item_difference``."""
    members = {group: group_members(groups, group) for group in (a, b)}
    weight_vector(group_weights(members, a, b), fit.items.index, fit.judge)
    items = [*members[a], *members[b]]
    labels = [a] * len(members[a]) + [b] * len(members[b])
    design = pd.DataFrame({g: [float(label == g) for label in labels] for g in (a, b)}, items)
    label = (
        f"expected quality of a new item of {a!r} minus a new item of {b!r}, items random: "
        f"{len(members[a])} items against {len(members[b])}, {fit.units_of_quality}"
    )
    regression = _regress_fit(fit, design, labels, label)
    welch = welch_degrees(regression.covariance.to_numpy(), [len(members[g]) for g in (a, b)])
    return replace(regression, degrees=welch).estimate({a: 1.0, b: -1.0})


def item_regression(fit: "GLMMFit", properties: pd.DataFrame) -> ItemRegression:
    """Return ``GLMMFit.item_regression``."""
    missing = [item for item in fit.items.index if item not in properties.index]
    if missing:
        raise DataError(f"properties lack item {name_some(missing)}; give every item a row")
    design = properties.loc[list(fit.items.index)].astype(np.float64)
    if design.isna().any(axis=None):
        raise DataError("properties of items must not be missing; fill them in")
    design.insert(0, "intercept", 1.0)
    label = f"change of the expected quality of an item, items random, {fit.units_of_quality}"
    return _regress_fit(fit, design, ["all"] * len(design), label)


def _regress_fit(
    fit: "GLMMFit", design: pd.DataFrame, groups: Sequence[Hashable], label: str
) -> ItemRegression:
    items = list(design.index)
    leaning = [item for item in fit.separated if item in items]
    if leaning:
        raise NotIdentified(
            f"item {name_some(leaning)} is rated the same in every batch: its quality is set "
            f"by the prior, and says nothing about new items; leave it out of the groups"
        )
    rows = fit.items.index.get_indexer(pd.Index(items))
    chosen = np.flatnonzero([part == "item" for part, _ in fit.names])[rows]
    covariance = fit.engine.inverse_information[np.ix_(chosen, chosen)]
    return regress_items(fit.items.iloc[rows], covariance, design, groups, label=label)


def regress_items(
    qualities: pd.Series,
    covariance: Floats,
    properties: pd.DataFrame,
    groups: Sequence[Hashable],
    *,
    label: str,
) -> ItemRegression:
    """Regress estimated qualities on properties of items by restricted maximum likelihood.

    Parameters
    ----------
    qualities, covariance
        Estimates of the items and their covariance.
    properties
        Design, a row per item in the order of ``qualities``.
    groups
        Group of each item, for the spread.
    label
        What is estimated.

    Raises
    ------
    NotIdentified
        There are too few items, or two properties say the same.
    """
    design, theta = properties.to_numpy(dtype=np.float64), qualities.to_numpy()
    freedom = len(theta) - design.shape[1]
    names = list(dict.fromkeys(groups))
    member = np.array([[group == name for name in names] for group in groups], dtype=np.float64)
    few = [
        name for name, size in zip(names, member.sum(axis=0), strict=True) if size < FEWEST_ITEMS
    ]
    if few or freedom < 1:
        raise NotIdentified(
            f"too few items{f' in group {name_some(few)}' if few else ''} to estimate how items "
            f"vary; at least {FEWEST_ITEMS} per group are needed for an estimate about new items"
        )
    singular = np.linalg.svd(design / np.sqrt((design**2).sum(axis=0)), compute_uv=False)
    if singular[-1] < RANK * singular[0]:
        raise NotIdentified(
            f"the properties {name_some(list(properties.columns))} say the same of all items; "
            f"leave one out"
        )

    def pieces(sds: Floats) -> tuple[Floats, Floats, float]:
        factor = np.linalg.cholesky(covariance + np.diag(member @ sds**2))
        white_design, white = np.linalg.solve(factor, design), np.linalg.solve(factor, theta)
        information = white_design.T @ white_design
        found = np.linalg.solve(information, white_design.T @ white)
        residual = white - white_design @ found
        loss = (
            np.log(np.diag(factor)).sum()
            + np.linalg.slogdet(information)[1] / 2
            + residual @ residual / 2
        )
        return found, np.linalg.inv(information), float(loss)

    start = np.full(len(names), max(float(np.std(theta)), 0.1))

    def loss(sds: Floats) -> float:
        return pieces(sds)[2]

    limits = Bounds(np.zeros(len(names)), np.full(len(names), np.inf))
    optimum = minimize(loss, start, method="L-BFGS-B", bounds=limits)
    coefficients, spread, _ = pieces(optimum.x)
    return ItemRegression(
        coefficients=pd.Series(coefficients, index=properties.columns),
        covariance=pd.DataFrame(spread, properties.columns, properties.columns),
        item_sd=pd.Series(optimum.x, index=pd.Index(names, name="group")),
        degrees=float(freedom),
        label=label,
    )


def welch_degrees(covariance: Floats, sizes: Sequence[int]) -> float:
    """Return Satterthwaite's degrees of freedom of a difference of two means."""
    first, second = covariance[0, 0], covariance[1, 1]
    return float((first + second) ** 2 / (first**2 / (sizes[0] - 1) + second**2 / (sizes[1] - 1)))
