"""The bootstrap over whole batches.

A batch (or, for a Williams design, a block: its rows are balanced together) is the unit that was
drawn independently, so it is the unit that is drawn again. A replicate is a vector of weights,
how often each unit was drawn, and a refit under these weights that starts from the estimates: a
*full* replicate runs Newton to its end, a *one-step* replicate takes one step with the
information at hand, which costs next to nothing and is good enough to watch a running study.

Every replicate has a random stream of its own, so that the result is the same for any number of
workers. Replicates that cannot be fitted are counted, not hidden.
"""

from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchtrial.errors import DataError, FitError
from benchtrial.orchestrator.models.estimate import Estimate
from benchtrial.orchestrator.models.glmm.groups import (
    Groups,
    group_members,
    group_weights,
    weight_vector,
)

Floats = npt.NDArray[np.float64]
Seed = int | np.random.Generator | np.random.SeedSequence

FEWEST_REPLICATES = 2
"""A standard deviation needs two; a hundred are a sensible least."""


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Replicates of a fit.

    Parameters
    ----------
    draws
        A row per successful replicate, a column per parameter ``(part, label)``.
    estimates
        The estimates of the fit itself, in the same order.
    failed
        Number of replicates that could not be fitted; they are missing from ``draws``.
    unit, units
        What was resampled (batch or block), and how many there are.
    one_step
        Whether replicates are one Newton step instead of full refits.
    judge
        The judge's id, if the table named one.
    """

    draws: pd.DataFrame
    estimates: pd.Series
    failed: int
    unit: str
    units: int
    one_step: bool
    judge: Hashable | None

    @property
    def covariance(self) -> pd.DataFrame:
        """Covariance of the parameters over replicates."""
        return self.draws.cov()

    @property
    def standard_errors(self) -> pd.Series:
        """Standard deviation of the parameters over replicates."""
        return self.draws.std()

    def interval(self, level: float = 0.95) -> pd.DataFrame:
        """Return percentile intervals of all parameters, columns ``low`` and ``high``."""
        tails = [(1 - level) / 2, (1 + level) / 2]
        return self.draws.quantile(tails).T.set_axis(["low", "high"], axis=1)

    def contrast(self, weights: Mapping[Hashable, float]) -> Estimate:
        """Return a weighted sum of item qualities with its bootstrap standard error."""
        terms = " ".join(f"{weight:+g}·{item}" for item, weight in weights.items())
        return self._wald(weights, terms)

    def group_difference(self, groups: Groups, a: Hashable, b: Hashable) -> Estimate:
        """Return mean quality of group ``a`` minus ``b`` with its bootstrap standard error."""
        members = {group: group_members(groups, group) for group in (a, b)}
        what = f"mean quality of {a!r} minus {b!r}, these items fixed"
        return self._wald(group_weights(members, a, b), what)

    def _wald(self, weights: Mapping[Hashable, float], what: str) -> Estimate:
        items = self.estimates["item"]
        vector = weight_vector(weights, items.index, self.judge)
        spread = np.std(self.draws["item"].to_numpy() @ vector, ddof=1)
        kind = "one-step" if self.one_step else "full"
        return Estimate.wald(
            float(vector @ items.to_numpy()),
            float(spread),
            label=f"{what}: standard error of {len(self.draws)} {kind} bootstrap replicates of "
            f"{self.units} {'batches' if self.unit == 'batch' else 'blocks'}",
        )


def resample(
    refit: Callable[[Floats], Floats], units: int, replicates: int, *, seed: Seed, workers: int
) -> tuple[Floats, int]:
    """Draw units with replacement and refit, ``replicates`` times.

    Parameters
    ----------
    refit
        Map from the number of times that each unit was drawn to the parameter vector.
    units
        Number of units.
    replicates, seed, workers
        As in ``GLMMFit.bootstrap``.

    Returns
    -------
    tuple
        Parameter vectors of the successful replicates, and the number of failed ones.
    """
    if replicates < FEWEST_REPLICATES:
        raise DataError(f"a bootstrap needs at least two replicates, not {replicates}")
    if units < FEWEST_REPLICATES:
        raise DataError("a bootstrap needs at least two batches (or design blocks) to draw from")
    streams = np.random.default_rng(seed).spawn(replicates)

    def replicate(stream: np.random.Generator) -> Floats | None:
        drawn = np.bincount(stream.integers(units, size=units), minlength=units)
        try:
            return refit(drawn.astype(np.float64))
        except FitError:
            return None

    if workers == 1:
        found = [replicate(stream) for stream in streams]
    else:
        with ThreadPoolExecutor(workers) as pool:
            found = list(pool.map(replicate, streams))
    kept = [values for values in found if values is not None]
    if len(kept) < FEWEST_REPLICATES:
        raise FitError(f"{replicates - len(kept)} of {replicates} bootstrap replicates failed")
    return np.array(kept), replicates - len(kept)
