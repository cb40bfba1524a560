"""The one place that asks again.

A judge makes one attempt; ``retrying`` decides whether another is worth making and how long to wait
before it. The arithmetic (``backoff_s``, ``wait_s``) is apart from the sleeping, and chance is
passed in as a number, so that both can be tested without a clock.

* RateLimited and TransientError are retried, everything else is raised at once, cancellation
  included.
* A wait that the server named is honoured in full. If it is longer than ``hint_cap_s`` the error is
  raised at once, so that the caller can park the question instead of blocking a slot.
* Without a hint the wait doubles from ``base_s`` to ``cap_s``, half of it random: after an outage
  the judges' clients do not all come back in the same instant.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeVar

from benchtrial.errors import InputError, RateLimited, TransientError

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")

# With waits of 1, 2, 4, 8 and 16 s, six attempts outlast the usual half minute of trouble.
DEFAULT_ATTEMPTS = 6

# 2**63 seconds is longer than any cap; beyond it the power itself would overflow a float.
_LARGEST_EXPONENT = 63


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often to ask and how long to wait in between.

    Parameters
    ----------
    attempts
        Number of attempts in all, the first included: exactly as many requests go out.
    base_s, cap_s
        First and longest wait in seconds where the server names none.
    hint_cap_s
        Longest wait named by a server that is slept through; beyond it the error is raised.
    waits
        False for a replay: the same decisions without the waiting.
    """

    attempts: int = DEFAULT_ATTEMPTS
    base_s: float = 1.0
    cap_s: float = 60.0
    hint_cap_s: float = 120.0
    waits: bool = True

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise InputError(f"attempts is {self.attempts}; at least 1 is needed to ask at all")
        if not 0 < self.base_s <= self.cap_s < float("inf"):
            raise InputError(
                f"base_s is {self.base_s} and cap_s is {self.cap_s}; "
                "they must be positive, finite, and base_s at most cap_s"
            )
        if not self.hint_cap_s >= 0:
            raise InputError(f"hint_cap_s is {self.hint_cap_s}; it cannot be negative")

    @classmethod
    def without_waiting(cls, attempts: int = DEFAULT_ATTEMPTS) -> Self:
        """Decide like the usual policy but never wait: for replaying a recording."""
        return cls(attempts, waits=False)


def backoff_s(attempt: int, policy: RetryPolicy, u: float) -> float:
    """Seconds to wait after failed attempt number ``attempt`` (from 1), without a hint.

    ``u`` in [0, 1) is the chance part: the wait lies between half and all of
    ``min(cap_s, base_s * 2**(attempt - 1))``.
    """
    whole = min(policy.cap_s, policy.base_s * 2.0 ** min(attempt - 1, _LARGEST_EXPONENT))
    return whole * (0.5 + 0.5 * u)


def wait_s(error: BaseException | None, attempt: int, policy: RetryPolicy, u: float) -> float:
    """Seconds to wait after ``error``: the server's hint plus up to ``base_s``, or the backoff."""
    hint = _hint(error)
    if hint is None:
        return backoff_s(attempt, policy, u)
    return hint + u * policy.base_s


async def retrying(
    attempt: Callable[[int], Awaitable[T]],
    policy: RetryPolicy,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    chance: Callable[[], float] = random.random,
) -> T:
    """Call ``attempt(1)``, ``attempt(2)``, … until one succeeds or asking again is pointless.

    Parameters
    ----------
    attempt
        Makes attempt number n, from 1.
    policy
        How often, and with which waits.
    sleep, chance
        The clock and the dice; replaced in tests.

    Raises
    ------
    JudgeError
        The last attempt's error, unchanged.
    """
    from tenacity import AsyncRetrying, retry_if_exception_type

    def stop(state: "RetryCallState") -> bool:
        hint = _hint(_error(state))
        return state.attempt_number >= policy.attempts or (
            hint is not None and hint > policy.hint_cap_s
        )

    def wait(state: "RetryCallState") -> float:
        if not policy.waits:
            return 0.0
        return wait_s(_error(state), state.attempt_number, policy, chance())

    retries = AsyncRetrying(
        sleep=sleep,
        stop=stop,
        wait=wait,
        retry=retry_if_exception_type((RateLimited, TransientError)),
        reraise=True,
    )
    made = 0

    async def next_attempt() -> T:
        nonlocal made
        made += 1
        return await attempt(made)

    return await retries(next_attempt)


def _error(state: "RetryCallState") -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None


def _hint(error: BaseException | None) -> float | None:
    """Read the hint of an error, if it is a number that can be slept."""
    hint = getattr(error, "retry_after", None)
    if isinstance(hint, (int, float)) and 0 <= hint < float("inf"):
        return float(hint)
    return None
