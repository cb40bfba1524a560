"""The "randomize and average" estimator: mean ratings of items, and differences of group means.

It estimates what it says: the *acceptance rate* of an item under this design, averaged over
orders, batches and the company that it keeps. That is not the item's quality. The map from
quality to acceptance is curved, so that two groups of equal mean quality and unequal spread have
different mean acceptance: as a comparison of quality the difference of group means is biased, the
bias does not shrink with more batches, and its test grows more certain of it. For the best single
item the ranking by acceptance is sound. Every estimate of this module carries a label that says
so.

Ratings of one batch share its intercept and its memory, so the unit of the covariance is the batch
(or the design block, where the table has a column ``block``).

References
----------
"Trustworthy Method Comparison with AI Judges: Estimation and Design under Order, Batch, and
Aggregation Effects", sections 3.1 and 4.1 (Theorem 2).
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchtrial.errors import NotIdentified
from benchtrial.orchestrator.models.estimate import Estimate
from benchtrial.orchestrator.models.glmm.groups import group_members, group_weights, weight_vector
from benchtrial.orchestrator.models.glmm.table import name_some, read_ratings

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MarginalFit:
    """Mean ratings with the covariance of whole batches.

    Parameters
    ----------
    items
        Mean rating of each item (Series by item id): an acceptance rate if ratings are 0 and 1.
    covariance
        Covariance of these means, robust to dependence within a batch or block.
    batches
        Number of batches.
    unit
        ``"batch"`` or ``"block"``.
    judge
        The judge's id, if the table named one.
    """

    items: pd.Series
    covariance: pd.DataFrame
    batches: int
    unit: str
    judge: Hashable | None

    def contrast(self, weights: Mapping[Hashable, float]) -> Estimate:
        """Estimate a weighted sum of mean ratings, such as ``{"a": 1, "b": -1}``."""
        terms = " ".join(f"{weight:+g}·{item}" for item, weight in weights.items())
        return self._wald(weights, f"mean rating of {terms}")

    def group_difference(
        self, groups: Mapping[Hashable, Hashable] | pd.Series, a: Hashable, b: Hashable
    ) -> Estimate:
        """Estimate the mean rating of group ``a`` minus that of group ``b``."""
        members = {group: group_members(groups, group) for group in (a, b)}
        return self._wald(
            group_weights(members, a, b),
            f"mean rating of {a!r} ({len(members[a])} items) minus {b!r} ({len(members[b])} items)",
        )

    def _wald(self, weights: Mapping[Hashable, float], what: str) -> Estimate:
        vector = weight_vector(weights, self.items.index, self.judge)
        variance = vector @ self.covariance.to_numpy() @ vector
        return Estimate.wald(
            float(vector @ self.items.to_numpy()),
            float(np.sqrt(variance)),
            label=f"{what}: acceptance under this design, not quality; {self.batches} batches, "
            f"{self.unit}-robust standard error",
        )


def fit_marginal(ratings: pd.DataFrame) -> MarginalFit:
    """Average the ratings of each item; unreadable ratings are left out of the averages.

    Parameters
    ----------
    ratings
        One judge's ratings, as for ``fit_glmm``.

    Raises
    ------
    DataError
        The table cannot be used.
    NotIdentified
        An item has no readable rating, or there is only one batch (or block).
    """
    table = read_ratings(ratings)
    units, size = int(table.blocks.max()) + 1, len(table.items)
    if units < 2:
        raise NotIdentified(
            "all ratings belong to one batch (or design block): averages need at least two for a "
            "standard error"
        )
    readable = ~np.isnan(table.value)
    item, value = table.item[readable], table.value[readable]
    unit = table.blocks[table.batch[readable]]
    count = np.bincount(item, minlength=size)
    if (count == 0).any():
        unrated = [table.items[v] for v in np.flatnonzero(count == 0)]
        raise NotIdentified(f"no rating of item {name_some(unrated)} could be read")
    mean = np.bincount(item, weights=value, minlength=size) / count
    residual = np.bincount(
        unit * size + item, weights=(value - mean[item]) / count[item], minlength=units * size
    ).reshape(units, size)
    covariance = residual.T @ residual * units / (units - 1)
    labels = pd.Index(table.items, name="item")
    return MarginalFit(
        items=pd.Series(mean, index=labels, name="mean rating"),
        covariance=pd.DataFrame(covariance, index=labels, columns=labels),
        batches=len(table.batches),
        unit=table.block_name,
        judge=table.judge,
    )
