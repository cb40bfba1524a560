"""The canonical process: how the statistics of successive looks hang together.

Whatever is estimated, the standardized statistics of successive looks behave, for large samples,
like a Brownian motion seen at the information times of the looks (Jennison and Turnbull 2000,
section 3.1): ``Z_k`` is normal with mean ``theta sqrt(I_k)`` and variance 1, and the correlation of
``Z_j`` and ``Z_k`` is ``sqrt(I_j / I_k)``. Stopping at the first ``|Z_k| > b_k`` leaves, look after
look, a density on the interval ``(-b_k, b_k)``. It is carried forward by numerical integration
(Armitage, McPherson and Rowe 1969) on Gauss-Legendre panels, as many as the increments on both
sides of a look ask for. Everything here is smooth, so the error falls geometrically; the constants
below keep it under 1e-9 in every bound.

Two departures from the ideal process have a rule:

* **Information that has not grown** (a refit may return a larger standard error) says nothing
  about the dependence on the past. The alpha of such a look is tested on its own, which holds
  whatever the dependence (Bonferroni), and the look takes no part in later integrations.
* **Spends too small to matter**, the first looks of an O'Brien-Fleming rule, are tested on their
  own as well: integrating a tail of 1e-20 would only add rounding.

Densities are remembered, so that the k-th look costs one step of integration and not k.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

from benchtrial.errors import StoppingError

#: A look joins the process if its information exceeds the last by this share (100 even looks grow
#: by 1 % at least). Below it the integrand is too narrow for a quick grid, and nothing is new.
MIN_GROWTH = 1e-3
#: Spends below this are tested on their own; what that costs is smaller still.
NEGLIGIBLE_SPEND = 1e-15
#: Smaller spends count as this much, so that every bound is finite (37 at most). O'Brien-Fleming
#: spends less before 0.3 % of the budget; the difference is never seen.
SMALLEST_SPEND = 1e-300
#: Half-width, in standard deviations, of the part of the line that is integrated: beyond it lies
#: less than 2e-17.
REACH = 8.5
#: The line is cut into panels of a 16-point rule, each at most this many effective widths of the
#: integrand long. Half the length changes no bound by more than 1e-9.
PANEL_WIDTHS = 8.0
_ABSCISSAE, _WEIGHTS = np.polynomial.legendre.leggauss(16)
#: A Newton step this small leaves an error of about its square. 5 or 6 steps are usual.
LAST_STEP = 1e-7
MAX_STEPS = 100
_SQRT_2PI = float(np.sqrt(2.0 * np.pi))


@dataclass(frozen=True, slots=True, eq=False)
class _Front:
    """The statistic of the latest look on all paths that have not been stopped.

    ``mass`` is the density at ``nodes`` (standardized scale) times the weights of the quadrature.
    """

    nodes: np.ndarray
    mass: np.ndarray
    information: float


def has_grown(information: tuple[float, ...], new: float) -> bool:
    """Say whether a look with information ``new`` joins the process behind it."""
    return not information or new > information[-1] * (1.0 + MIN_GROWTH)


def own_bound(spend: float) -> float:
    """Compute the two-sided critical value of one look on its own.

    Read from the upper tail, so that it stays finite where ``1 - spend`` rounds to one.
    """
    return -float(ndtri(max(spend, SMALLEST_SPEND) / 2.0))


def next_bound(
    bounds: tuple[float, ...], information: tuple[float, ...], new: float, spend: float
) -> float:
    """Compute the bound that spends exactly ``spend`` at the next look.

    Parameters
    ----------
    bounds, information
        Bounds and information of the looks so far that belong to the process (see
        :func:`has_grown`).
    new
        Information of the next look.
    spend
        Two-sided probability, without any effect, of a first crossing at the next look.

    Returns
    -------
    float
        Critical value for ``|Z|``.

    Raises
    ------
    StoppingError
        If more is to be spent than the paths that are left can carry.
    """
    if not bounds or spend < NEGLIGIBLE_SPEND or not has_grown(information, new):
        return own_bound(spend)
    front = _front(bounds, information, new, 0.0)
    means, spread = _step(front, new, 0.0)
    # The upper tail is log-concave (Prekopa), so that Newton's method on its logarithm, started
    # above the root, comes down to it and never overshoots. Two values are never below the root:
    # the bound of the look on its own, and the one that would do if all paths lay at the last
    # bound (the tighter of the two when information has hardly grown).
    target = spend / 2.0
    edge = bounds[-1] * np.sqrt(information[-1] / new)
    bound = min(own_bound(spend), float(edge + spread * own_bound(spend)))
    for _ in range(MAX_STEPS):
        distance = (means - bound) / spread
        tail = float(front.mass @ ndtr(distance))
        density = float(front.mass @ np.exp(-0.5 * distance * distance)) / (spread * _SQRT_2PI)
        change = np.log(tail / target) * tail / density
        bound += change
        if abs(change) < LAST_STEP:
            return float(bound)
    raise StoppingError(
        f"no bound spends {spend:.3g} after looks that left {front.mass.sum():.3g}: spend less"
    )


def exit_probabilities(
    bounds: tuple[float, ...], information: tuple[float, ...], drift: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the probability of the first crossing at each look.

    Parameters
    ----------
    bounds, information
        Critical values and information, look by look; information grows.
    drift
        The true effect, in units of the estimate: ``Z_k`` has mean ``drift * sqrt(information)``.

    Returns
    -------
    upper, lower
        Probabilities of first crossing above and below, shape (looks,).
    """
    upper = np.empty(len(bounds))
    lower = np.empty(len(bounds))
    for k, (bound, new) in enumerate(zip(bounds, information, strict=True)):
        upper[k], lower[k] = beyond(bounds[:k], information[:k], new, bound, -bound, drift)
    return upper, lower


def beyond(
    bounds: tuple[float, ...],
    information: tuple[float, ...],
    new: float,
    upper: float,
    lower: float,
    drift: float = 0.0,
) -> tuple[float, float]:
    """Compute the chance of reaching the next look and then lying above or below two values.

    Parameters
    ----------
    bounds, information
        The looks so far, which were passed without crossing.
    new
        Information of the next look.
    upper, lower
        Values of the next look's statistic.
    drift
        The true effect, in units of the estimate.

    Returns
    -------
    above, below
        Probabilities that the next look is reached with ``Z > upper`` and with ``Z < lower``.
    """
    if not bounds:
        mean = drift * np.sqrt(new)
        return float(ndtr(mean - upper)), float(ndtr(lower - mean))
    front = _front(bounds, information, new, drift)
    means, spread = _step(front, new, drift)
    above = float(front.mass @ ndtr((means - upper) / spread))
    below = float(front.mass @ ndtr((lower - means) / spread))
    return above, below


def _step(front: _Front, new: float, drift: float) -> tuple[np.ndarray, float]:
    """Mean, for each node, and spread of the next statistic given the present one."""
    gain = new - front.information
    means = (front.nodes * np.sqrt(front.information) + drift * gain) / np.sqrt(new)
    return means, float(np.sqrt(gain / new))


@lru_cache(maxsize=4096)
def _front(
    bounds: tuple[float, ...], information: tuple[float, ...], new: float, drift: float
) -> _Front:
    """Integrate the unstopped density up to the last look, on a grid that fits the next step."""
    present = information[-1]
    past = information[-2] if len(information) > 1 else 0.0
    # Width of the integrand: this look's own increment times the next look's, both in units of
    # this look's statistic.
    width = 1.0 / np.sqrt(present / (present - past) + present / (new - present))
    centre = drift * np.sqrt(present)
    low = max(-bounds[-1], min(centre - REACH, bounds[-1] - REACH))
    high = min(bounds[-1], max(centre + REACH, REACH - bounds[-1]))
    panels = 1 + int((high - low) / (PANEL_WIDTHS * width))
    half = 0.5 * (high - low) / panels
    centres = low + half * (2.0 * np.arange(panels) + 1.0)
    nodes = (centres[:, None] + half * _ABSCISSAE).ravel()
    weights = half * np.broadcast_to(_WEIGHTS, (panels, len(_WEIGHTS))).ravel()
    if len(bounds) == 1:
        density = np.exp(-0.5 * (nodes - centre) ** 2) / _SQRT_2PI
    else:
        before = _front(bounds[:-1], information[:-1], present, drift)
        means, spread = _step(before, present, drift)
        scaled = (nodes[:, None] - means) / spread
        density = np.exp(-0.5 * scaled * scaled) @ before.mass / (spread * _SQRT_2PI)
    return _Front(nodes, weights * density, present)
