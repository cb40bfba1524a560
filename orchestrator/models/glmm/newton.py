"""Newton's method for the penalised log-likelihood, with a variance that may be zero.

The likelihood is even in the standard deviation of the batch intercept, so zero is always
stationary: the search starts away from it, and a deviation that shrinks to nothing is set to
zero, held there, and accepted only if the score for the *variance* points downward. A variance at
zero is a result.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from benchtrial.errors import NotConverged, NotIdentified
from benchtrial.orchestrator.models.glmm.likelihood import Likelihood, Posterior

Floats = npt.NDArray[np.float64]
Solver = Callable[[Floats], Floats]

TOLERANCE = 1e-16
"""Newton decrement that a fit must reach: the estimates are then within 1e-8 standard errors of the
maximum. The last step is taken when its own decrement times the last fall promises this much."""

SETTLED = 1e-7
"""Newton decrement below which that promise is believed."""

FLOOR = 1e-16
"""Newton decrement that is small enough without any promise."""

REFIT_TOLERANCE = 1e-8
"""The same for a bootstrap refit: 1e-4 standard errors, far below the bootstrap's own noise."""

ITERATIONS = 100
"""A sound problem needs 4 to 8; separation without a ridge runs on for ever."""

START_SD = 0.6
"""Start of the standard deviation: away from zero, which is stationary, and below where the
likelihood of small batches is flat."""

SINGULAR_SD = 1e-3
"""Below this the deviation is tried at exactly zero: it moves no probability by more than 3e-4."""

RELEASE_SD = 0.05
"""Where the search resumes if the score says that the variance is not zero after all."""

LARGEST_SD = 25.0
"""A deviation in logits beyond which batches are all-or-nothing and the likelihood keeps rising."""

LONGEST_STEP = 4.0
"""Largest change of any parameter in one iteration, in logits: a longer step left the region where
the quadratic model means anything."""

SERIES_DEGREE = 2
"""Polynomials in the Hessian of an iteration: a third saves no iteration. The first step, rough for
other reasons, makes do with one."""

SLOW_FROM = 4
"""Iteration from which on a step with fresh information should have converged quadratically. If it
did not, the intercepts of the batches are so uncertain that the whole series is needed."""

CHORD = 0.1
"""Newton decrement below which the factored information serves again: it no longer changes enough
to slow convergence, and costs as much as the rest of the iteration."""

CHORD_FALL = 0.05
"""It must also have fallen to this share in the last step: otherwise the surface is no parabola."""

FLAT = 1e-6
"""Smallest eigenvalue, relative to the largest, of an information that had to be mended."""

ARMIJO = 1e-4
"""Share of the promised increase that a step must deliver."""

HALVINGS = 30
"""Halvings of a step before giving up: 1e-9 of it."""


@dataclass(frozen=True, eq=False)
class Optimum:
    """Where Newton's method ended.

    Parameters
    ----------
    parameters
        Fixed effects, then standard deviations (never negative).
    posterior
        The likelihood there.
    free
        Which parameters were estimated: a standard deviation at zero is not.
    iterations
        Number of Newton steps.
    gradient
        Gradient of the penalised log-likelihood there.
    """

    parameters: Floats
    posterior: Posterior
    free: npt.NDArray[np.bool_]
    iterations: int
    gradient: Floats


def maximize(
    likelihood: Likelihood,
    penalty: Floats,
    start: Floats,
    *,
    free: npt.NDArray[np.bool_],
    tolerance: float = TOLERANCE,
    information: Floats | None = None,
) -> Optimum:
    """Maximise the log-likelihood minus ``penalty @ parameters**2 / 2``.

    Parameters
    ----------
    likelihood, start
        The problem and where to start.
    penalty
        Ridge of each parameter.
    free
        Parameters to estimate; the others stay at their start.
    tolerance
        Newton decrement at which to stop.
    information
        Information matrix of the free parameters for the first step, where one is known already.

    Raises
    ------
    NotIdentified
        A batch deviation runs off to infinity.
    NotConverged
        After ``ITERATIONS`` steps, or if no step increases the likelihood.
    """
    may_vanish = free[likelihood.effects :].copy()
    free = free.copy()
    parameters, posterior = start.copy(), likelihood.posterior(start)
    decrement, fall = np.inf, 0.0
    fresh = slow = False
    solve = None if information is None else _solver(information, free)
    for iteration in range(ITERATIONS):
        gradient = posterior.gradient - penalty * parameters
        slow = slow or (fresh and iteration > SLOW_FROM and fall > CHORD_FALL)
        fresh = solve is None or CHORD < decrement < np.inf or fall > CHORD_FALL
        if solve is None or fresh:
            degree = 1 if iteration == 0 else None if slow else SERIES_DEGREE
            solve = _solver_at(posterior, penalty, free, degree)
        step, previous = solve(gradient), decrement
        decrement = float(gradient @ step)
        fall = decrement / previous
        if decrement < FLOOR or (decrement < SETTLED and decrement * min(fall, 1.0) < tolerance):
            again = _variances_to_release(posterior, free, may_vanish)
            if not again.size:
                return _finish(likelihood, parameters + step, penalty, free, iteration + 1)
            may_vanish[again - likelihood.effects] = False
            free[again] = True
            parameters[again] = RELEASE_SD
            posterior, solve = likelihood.posterior(parameters), None
            continue
        step *= min(1.0, LONGEST_STEP / np.abs(step).max())
        parameters, posterior = _search(likelihood, posterior, parameters, step, penalty, decrement)
        if np.abs(parameters[likelihood.effects :]).max() > LARGEST_SD:
            raise NotIdentified(
                "the batch deviation runs off to infinity: nearly every batch is rated all alike, "
                "so that items cannot be told from batches; collect more or longer batches"
            )
        held = _vanishing(parameters, free, may_vanish)
        if held.size:
            parameters[held], free[held] = 0.0, False
            posterior, solve = likelihood.posterior(parameters), None
    raise NotConverged(
        f"the fit did not converge in {ITERATIONS} iterations (Newton decrement {decrement:.2g}, "
        f"largest parameter {np.abs(parameters).max():.1f}): some effect runs off to infinity; "
        f"use a positive ridge"
    )


def negative_hessian(
    posterior: Posterior, penalty: Floats, free: npt.NDArray[np.bool_], degree: int | None = None
) -> Floats:
    """Return the penalised observed information of the free parameters."""
    information = np.diag(penalty) - posterior.hessian(degree)
    return information[np.ix_(free, free)]


def _solver_at(
    posterior: Posterior, penalty: Floats, free: npt.NDArray[np.bool_], degree: int | None
) -> Solver:
    """Factor the information at a point.

    Where the log-likelihood is not concave, as it can be around a batch deviation of zero, the
    signs of the offending eigenvalues are turned: a step along them leads uphill and away.
    """
    information = posterior.complete_information - posterior.score_variance(degree)
    information = (information + np.diag(penalty))[np.ix_(free, free)]
    try:
        return _solver(information, free)
    except LinAlgError:
        values, vectors = np.linalg.eigh(information)
        turned = np.maximum(np.abs(values), FLAT * np.abs(values).max())
        return _solver((vectors * turned) @ vectors.T, free)


def _solver(information: Floats, free: npt.NDArray[np.bool_]) -> Solver:
    """Return the map from a gradient to a step; ``information`` is that of the free parameters."""
    factor = cho_factor(information, check_finite=False)

    def solve(gradient: Floats) -> Floats:
        step = np.zeros_like(gradient)
        step[free] = cho_solve(factor, gradient[free], check_finite=False)
        return step

    return solve


def _search(
    likelihood: Likelihood,
    posterior: Posterior,
    parameters: Floats,
    step: Floats,
    penalty: Floats,
    decrement: float,
) -> tuple[Floats, Posterior]:
    value = posterior.loglik - penalty @ parameters**2 / 2
    rounding = 1e-13 * (1.0 + abs(value))
    for halving in range(HALVINGS):
        size = 0.5**halving
        trial = parameters + size * step
        candidate = likelihood.posterior(trial)
        gain = candidate.loglik - penalty @ trial**2 / 2 - value
        if gain >= ARMIJO * size * decrement - rounding:
            return trial, candidate
    raise NotConverged(
        f"no step along Newton's direction increases the likelihood (decrement {decrement:.2g}); "
        f"use a positive ridge"
    )


def _vanishing(
    parameters: Floats, free: npt.NDArray[np.bool_], may_vanish: npt.NDArray[np.bool_]
) -> npt.NDArray[np.intp]:
    """Return the standard deviations that have shrunk to nothing."""
    effects = len(parameters) - len(may_vanish)
    small = np.abs(parameters[effects:]) < SINGULAR_SD
    return np.flatnonzero(small & free[effects:] & may_vanish) + effects


def _variances_to_release(
    posterior: Posterior, free: npt.NDArray[np.bool_], may_vanish: npt.NDArray[np.bool_]
) -> npt.NDArray[np.intp]:
    """Return the held standard deviations whose variance the score wants larger than zero.

    At zero the score for the variance is half the second derivative in the deviation.
    """
    effects = posterior.likelihood.effects
    held = np.flatnonzero(~free[effects:] & may_vanish) + effects
    if not held.size:
        return held
    return held[np.diag(posterior.hessian(SERIES_DEGREE))[held] > 0]


def _finish(
    likelihood: Likelihood,
    parameters: Floats,
    penalty: Floats,
    free: npt.NDArray[np.bool_],
    iterations: int,
) -> Optimum:
    """Take the absolute value of the deviations: the likelihood is even in them."""
    parameters[likelihood.effects :] = np.abs(parameters[likelihood.effects :])
    posterior = likelihood.posterior(parameters)
    gradient = posterior.gradient - penalty * parameters
    return Optimum(parameters, posterior, free, iterations, np.where(free, gradient, 0.0))
