"""Confidence sequences: intervals that hold at every look, however many there are.

A group-sequential bound needs a budget that was fixed in advance. A confidence sequence does not:
its intervals cover the truth at all looks together with probability ``1 - alpha``, whenever one
looks, however the next comparison is chosen and whatever budget is added on the way. The price is
width: about 30 % more than a fixed interval where it is tightest.

The sequence mixes a normal prior over effects into a likelihood-ratio martingale (Robbins 1970).
Its one tuning constant is the information at which it is tightest, frozen in the plan; the choice
affects efficiency, never validity.
"""

from math import isfinite, log

import numpy as np

from benchtrial.errors import StoppingError
from benchtrial.orchestrator.sequential.boundaries import require_level

#: Next to no information: the bound is astronomical, and the division still finite.
LEAST_GAIN = 1e-300


def confidence_sequence(
    value: float | np.ndarray,
    se: float | np.ndarray,
    *,
    alpha: float = 0.05,
    optimal_information: float,
) -> tuple[float | np.ndarray, float | np.ndarray]:
    """Compute the intervals of a Gaussian-mixture confidence sequence, look by look.

    With information ``I = 1 / se^2`` the interval is ``value`` plus and minus ``se`` times
    ``sqrt((I r + 1) / (I r) * ln((I r + 1) / alpha^2))``, where ``r`` makes it tightest at
    ``optimal_information``.

    Parameters
    ----------
    value, se
        Estimate and standard error at each look; scalars or arrays that broadcast.
    alpha
        Two-sided level of the whole sequence.
    optimal_information
        Information at which the sequence is tightest, in units of ``1 / se^2``.

    Returns
    -------
    low, high
        Ends of the intervals, floats for scalars. Looks are not combined; since all intervals
        hold together, the running maximum of ``low`` and minimum of ``high`` hold as well.

    Raises
    ------
    StoppingError
        If alpha is not in (0, 1), a standard error or ``optimal_information`` is not positive and
        finite, or a value is not finite.

    References
    ----------
    Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024), Annals of Statistics 52, theorem 2.2,
    in units of information.
    """
    values, errors = np.broadcast_arrays(
        np.asarray(value, dtype=float), np.asarray(se, dtype=float)
    )
    for name, numbers, sound in (
        ("value", values, np.isfinite(values)),
        ("standard error", errors, np.isfinite(errors) & (errors > 0.0)),
    ):
        if not sound.all():
            where = int(np.flatnonzero(~sound.ravel())[0])
            raise StoppingError(
                f"{name} {numbers.ravel()[where]} at position {where} cannot be used: an interval "
                "needs a finite value and a positive, finite standard error (one observation, or "
                "outcomes that are all equal, give none)"
            )
    width = errors * mixture_bound(
        errors**-2.0, alpha=alpha, optimal_information=optimal_information
    )
    if values.ndim == 0:
        return float(values - width), float(values + width)
    return values - width, values + width


def mixture_bound(
    information: float | np.ndarray, *, alpha: float, optimal_information: float
) -> np.ndarray:
    """Compute the critical value of ``|Z|`` of the confidence sequence at each information."""
    require_level(alpha)
    if not (isfinite(optimal_information) and optimal_information > 0.0):
        raise StoppingError(
            f"optimal_information is {optimal_information!r}; it is an information 1 / se^2, "
            "positive and finite"
        )
    prior = (-2.0 * log(alpha) + log(1.0 - 2.0 * log(alpha))) / optimal_information
    gained = np.maximum(np.asarray(information) * prior, LEAST_GAIN)
    bound: np.ndarray = np.sqrt((gained + 1.0) / gained * np.log((gained + 1.0) / alpha**2))
    return bound
