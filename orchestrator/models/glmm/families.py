"""How likely a rating is, given the linear predictor: the binary logit and the cumulative logit.

A family turns predictors into tables. Each row of a table is one *cell*, a combination of item,
lags and covariates (and, for ordinal ratings, the rating that was given); each column is one
quadrature node of the batch intercept. The number of cells does not grow with the number of
batches, so that the tables cost next to nothing and the likelihood becomes sums over them.

A family has one predictor (binary: ``eta``) or two (ordinal: the distances ``upper = tau_r - eta``
and ``lower = tau_(r-1) - eta`` to the thresholds around the rating). ``signs`` says how the batch
intercept enters each.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import expit

Floats = npt.NDArray[np.float64]

EDGE = 50.0
"""Stands for an infinite threshold: expit(50) is 1 to the last bit, and its derivatives vanish."""


IMPOSSIBLE = -1e9
"""Log-probability of a rating between thresholds that are out of order: finite, so that a cell
nobody visits adds nothing, and low enough that no search steps there."""


@dataclass(frozen=True, slots=True)
class Tables:
    """Log-probabilities of the outcome cells and their derivatives in the predictors.

    Parameters
    ----------
    log
        Shape ``(cells, nodes)``.
    first
        One array per predictor.
    second
        ``second[i, j]`` for ``i <= j``.
    """

    log: Floats
    first: tuple[Floats, ...]
    second: dict[tuple[int, int], Floats]


class Family(Protocol):
    """Log-probability of a rating as a function of one or two linear predictors."""

    @property
    def signs(self) -> tuple[float, ...]:
        """Sign with which the batch intercept enters each predictor."""

    @property
    def information(self) -> float:
        """Largest information about the predictor that one rating can carry."""

    def tables(self, fixed: tuple[Floats, ...], shift: Floats) -> Tables:
        """Return the tables at predictors ``fixed[i][:, None] + signs[i] * shift``."""


@dataclass(frozen=True, slots=True)
class Binary:
    """The Bernoulli logit in its canonical form: ``log P(y) = y eta - softplus(eta)``.

    The part linear in the ratings is summed per batch once and for all (``Linear``), so that a cell
    is a combination of item and lags whatever the rating was, and the tables hold ``-softplus``.
    """

    @property
    def signs(self) -> tuple[float, ...]:
        """The intercept is added to the predictor."""
        return (1.0,)

    @property
    def information(self) -> float:
        """Bound of p(1-p)."""
        return 0.25

    def tables(self, fixed: tuple[Floats, ...], shift: Floats) -> Tables:
        """Return -softplus(eta) and its derivatives, without overflow anywhere."""
        eta = fixed[0][:, None] + shift
        tail = np.exp(-np.abs(eta))
        negative = -np.where(eta >= 0, 1.0, tail) / (1.0 + tail)
        log = -np.maximum(eta, 0.0) - np.log1p(tail)
        return Tables(log, (negative,), {(0, 0): negative * (1.0 + negative)})


@dataclass(frozen=True, slots=True)
class CumulativeLogit:
    """The proportional-odds model: P(Y <= r) = expit(tau_r - eta).

    Parameters
    ----------
    lowest, highest
        Whether a cell's rating is the lowest or highest level; shape ``(cells,)``.
    """

    lowest: npt.NDArray[np.bool_]
    highest: npt.NDArray[np.bool_]

    @property
    def signs(self) -> tuple[float, ...]:
        """A higher intercept moves the predictor away from both thresholds."""
        return (-1.0, -1.0)

    @property
    def information(self) -> float:
        """Bound of the information about the location of a logistic variable."""
        return 1.0 / 3.0

    def tables(self, fixed: tuple[Floats, ...], shift: Floats) -> Tables:
        """Return log(F(upper) - F(lower)) and its derivatives.

        The difference is taken on the side where both values are small, so that a rating far in a
        tail keeps its digits. Thresholds out of order make a rating impossible.
        """
        upper = np.where(self.highest[:, None], EDGE, fixed[0][:, None] - shift)
        lower = np.where(self.lowest[:, None], -EDGE, fixed[1][:, None] - shift)
        flip = np.where(upper + lower > 0, -1.0, 1.0)
        low, high = (
            expit(np.minimum(flip * upper, flip * lower)),
            expit(np.maximum(flip * upper, flip * lower)),
        )
        possible = (upper > lower) & (high > low)
        mass = np.where(possible, high - low, 1.0)
        log = np.where(possible, np.log(mass), IMPOSSIBLE)
        up, down = expit(upper), expit(lower)
        dense_up, dense_down = up * expit(-upper), down * expit(-lower)
        dense_up = np.where(self.highest[:, None], 0.0, dense_up)
        dense_down = np.where(self.lowest[:, None], 0.0, dense_down)
        first_up, first_down = dense_up / mass, -dense_down / mass
        second = {
            (0, 0): first_up * (expit(-upper) - up) - first_up**2,
            (1, 1): first_down * (expit(-lower) - down) - first_down**2,
            (0, 1): -first_up * first_down,
        }
        return Tables(log, (first_up, first_down), second)
