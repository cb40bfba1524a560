"""Newton's method for a loss with a ridge, and what it does where the loss is not convex.

The OSCAR loss is bilinear in scores and log-sensitivities. At the zero start its Hessian is always
indefinite (the residual term has a zero diagonal), so each step uses the exact Hessian where that
is positive definite and the expected information, which always is positive semi-definite,
elsewhere. An Armijo search guards every step. Log-sensitivities live in a box (appendix B.1); a
coordinate held at its bound by the gradient leaves the system until the gradient lets it go.

Convergence is quadratic at the end, so the tolerance is set where rounding begins and costs one
iteration. A search that can no longer improve the loss at that scale has arrived.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from benchtrial.errors import NotConverged
from benchtrial.orchestrator.models.oscar.arrays import Floats

#: Bound of a log-sensitivity (B.1): beyond e^15 a judge is a rule, not a scale.
BOUND = 15.0
#: Largest gradient entry per comparison at which the search ends; sums of 1e7 rows resolve it.
TOLERANCE = 1e-12
#: Largest gradient per comparison that still counts as stationary (B.3, check 1).
STATIONARY = 1e-7
#: Full data take 5 to 12 iterations from zero; a separated fit without ridge crawls outward for as
#: long as it may, so the limit only says when to stop waiting.
ITERATIONS = 200
#: Armijo's constant, and halvings before a direction is given up: 2^-40 moves nothing.
SUFFICIENT = 1e-4
HALVINGS = 40
#: Relative rounding of a loss summed over many rows.
ROUNDING = 1e-13
#: Pivots or eigenvalues below this share of the largest mark flat directions of a singular system.
FLAT = 1e-8


@dataclass(frozen=True, eq=False)
class Point:
    """Loss with ridge, its gradient, exact Hessian and expected information at ``theta``.

    The information is worked out when it is asked for: few steps need it.
    """

    theta: Floats
    loss: float
    gradient: Floats
    hessian: Floats
    expected: Callable[[], Floats]

    @cached_property
    def information(self) -> Floats:
        """Expected penalized information."""
        return self.expected()


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where the search ended: the point, the number of steps and whether it is stationary."""

    point: Point
    iterations: int
    gradient_per_comparison: float


def minimise(
    evaluate: Callable[[Floats], Point], start: Floats, bounded: slice, comparisons: float
) -> Minimum:
    """Minimise a smooth loss from ``start``.

    Parameters
    ----------
    evaluate
        Loss and derivatives at a parameter vector.
    bounded
        Coordinates that stay within +-:data:`BOUND`.
    comparisons
        Number of comparisons the loss sums over; tolerances are per comparison.

    Raises
    ------
    NotConverged
        If the gradient is not stationary after :data:`ITERATIONS` steps.
    """
    limit = np.full(len(start), np.inf)
    limit[bounded] = BOUND
    point = evaluate(np.clip(start, -limit, limit))
    iterations = 0
    while True:
        free = _released(point, limit)
        slope = float(np.abs(point.gradient[free]).max(initial=0.0)) / comparisons
        if slope <= TOLERANCE:
            break
        following = _search(evaluate, point, free, limit) if iterations < ITERATIONS else None
        if following is None:
            if slope > STATIONARY:
                raise NotConverged(
                    f"the OSCAR fit is not stationary after {iterations} steps: largest gradient "
                    f"{slope:.1e} per comparison; give a ridge above 0, or see its checks for a "
                    "candidate or judge that the records cannot place"
                )
            break
        point = following
        iterations += 1
    return Minimum(point, iterations, slope)


def _released(point: Point, limit: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Coordinates that are not pressed against their bound."""
    outward = -np.sign(point.gradient) * point.theta
    return ~((outward >= limit) & np.isfinite(limit))


def _search(
    evaluate: Callable[[Floats], Point],
    point: Point,
    free: np.ndarray[tuple[int], np.dtype[np.bool_]],
    limit: Floats,
) -> Point | None:
    """Take one guarded step, or none if nothing improves the loss beyond rounding."""
    direction = np.zeros_like(point.theta)
    direction[free] = _direction(point, free)
    scale = 1.0
    for _ in range(HALVINGS):
        theta = np.clip(point.theta + scale * direction, -limit, limit)
        trial = evaluate(theta)
        gain = SUFFICIENT * float(point.gradient @ (theta - point.theta))
        if trial.loss <= point.loss + gain:
            return trial
        level = ROUNDING * abs(point.loss)
        if trial.loss <= point.loss + level:
            steeper = np.abs(trial.gradient[free]).max() >= np.abs(point.gradient[free]).max()
            return None if steeper else trial
        scale /= 2
    return None


def _direction(point: Point, free: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Floats:
    gradient = point.gradient[free]
    for name in ("hessian", "information"):
        matrix: Floats = getattr(point, name)
        if not free.all():
            matrix = matrix[np.ix_(free, free)]
        factor, step, failed = lapack.dposv(matrix, gradient)
        pivots = np.diag(factor)
        if failed or pivots.min(initial=1.0) <= FLAT * pivots.max(initial=1.0):
            continue
        if np.isfinite(step).all():
            return -np.asarray(step)
    # Without a ridge a direction can be flat (two groups never compared): do not move along it.
    values, vectors = linalg.eigh(point.information[np.ix_(free, free)])
    curved = values > FLAT**2 * values[-1]
    flat_free: Floats = vectors[:, curved] @ ((vectors[:, curved].T @ gradient) / values[curved])
    return -flat_free
