"""Weights of items: the arithmetic behind contrasts and comparisons of groups."""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchtrial.errors import DataError
from benchtrial.orchestrator.models.glmm.table import name_some

Floats = npt.NDArray[np.float64]
Groups = Mapping[Hashable, Hashable] | pd.Series


def group_members(groups: Groups, group: Hashable) -> list[Hashable]:
    """Return the items of a group.

    Raises
    ------
    DataError
        No item belongs to it, or an item is listed twice.
    """
    members = [item for item, label in groups.items() if label == group]
    if not members:
        found = list(dict.fromkeys(groups.values() if isinstance(groups, Mapping) else groups))
        raise DataError(f"no item belongs to group {group!r}; the groups are {name_some(found)}")
    if len(set(members)) < len(members):
        raise DataError(f"an item occurs twice in group {group!r}; give each item one group")
    return members


def group_weights(
    members: Mapping[Hashable, Sequence[Hashable]], a: Hashable, b: Hashable
) -> dict[Hashable, float]:
    """Return the item weights of the mean of ``a`` minus the mean of ``b``."""
    if a == b:
        raise DataError(f"a comparison needs two groups, not {a!r} twice")
    return {item: 1 / len(members[a]) for item in members[a]} | {
        item: -1 / len(members[b]) for item in members[b]
    }


def weight_vector(
    weights: Mapping[Hashable, float], items: pd.Index, judge: Hashable | None
) -> Floats:
    """Return the weights in the order of ``items``.

    Raises
    ------
    DataError
        An item was never rated, or the weights are not finite or all zero.
    """
    unknown = [item for item in weights if item not in items]
    if unknown:
        whom = "" if judge is None else f" by judge {judge!r}"
        raise DataError(
            f"item {name_some(unknown)} was not rated{whom}; the fit has the items "
            f"{name_some(list(items))}"
        )
    vector = np.zeros(len(items))
    vector[items.get_indexer(pd.Index(list(weights)))] = list(weights.values())
    if not np.isfinite(vector).all() or not vector.any():
        raise DataError("a contrast needs finite weights, at least one of them not zero")
    return vector
