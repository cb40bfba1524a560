import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchtrial.adapters.transport import RetryPolicy, backoff_s, retrying, wait_s
from benchtrial.errors import (
    InputError,
    JudgeUnavailable,
    RateLimited,
    RequestRefused,
    TransientError,
)


class Clock:
    """Sleeps without time passing, and remembers how long."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)


def run(
    outcome: Callable[[int], object], policy: RetryPolicy, u: float = 0.5
) -> tuple[object, Clock]:
    clock = Clock()

    async def attempt(number: int) -> object:
        result = outcome(number)
        if isinstance(result, BaseException):
            raise result
        return result

    async def main() -> object:
        try:
            return await retrying(attempt, policy, sleep=clock.sleep, chance=lambda: u)
        except (RateLimited, TransientError, JudgeUnavailable, RequestRefused) as error:
            return error

    return asyncio.run(main()), clock


def test_success_at_first_waits_for_nothing() -> None:
    assert run(lambda number: number, RetryPolicy())[0] == 1


def test_attempts_are_numbered_and_exactly_as_many_as_the_policy_says() -> None:
    numbers: list[int] = []

    def outcome(number: int) -> object:
        numbers.append(number)
        return TransientError(f"attempt {number}")

    result, clock = run(outcome, RetryPolicy(attempts=3))
    assert numbers == [1, 2, 3]
    assert str(result) == "attempt 3"
    assert clock.waits == [0.75, 1.5]


@pytest.mark.parametrize(
    "error", [JudgeUnavailable("no key"), RequestRefused("long", reason="context_overflow")]
)
def test_a_terminal_error_is_raised_at_once(error: Exception) -> None:
    result, clock = run(lambda _: error, RetryPolicy())
    assert result is error
    assert clock.waits == []


def test_a_wait_longer_than_the_cap_is_neither_slept_nor_shortened() -> None:
    error = RateLimited("later", retry_after=1800)
    result, clock = run(lambda _: error, RetryPolicy(hint_cap_s=120))
    assert result is error
    assert clock.waits == []
    _, patient = run(lambda n: error if n == 1 else n, RetryPolicy(hint_cap_s=3600))
    assert patient.waits == [pytest.approx(1800.5)]


def test_without_waiting_decides_alike_and_never_sleeps_long() -> None:
    policy = RetryPolicy.without_waiting()
    result, clock = run(lambda n: RateLimited("fast", retry_after=60) if n < 4 else n, policy)
    assert result == 4
    assert clock.waits == [0, 0, 0]
    parked = RateLimited("later", retry_after=1800)
    assert run(lambda _: parked, policy)[0] is parked


def test_cancellation_is_never_retried() -> None:
    calls = 0

    async def attempt(number: int) -> None:
        nonlocal calls
        calls += 1
        await asyncio.sleep(3600)

    async def main() -> None:
        task = asyncio.create_task(retrying(attempt, RetryPolicy()))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert calls == 1


@given(
    attempt=st.integers(1, 10**6),
    u=st.floats(0, 1, exclude_max=True),
    base=st.floats(0.01, 60),
)
def test_backoff_is_always_positive_and_never_above_its_cap(
    attempt: int, u: float, base: float
) -> None:
    policy = RetryPolicy(base_s=base, cap_s=60)
    assert base / 2 <= backoff_s(attempt, policy, u) <= 60


@given(hint=st.floats() | st.none() | st.just("soon"), u=st.floats(0, 1, exclude_max=True))
def test_the_wait_after_any_hint_is_finite_and_at_least_a_credible_hint(
    hint: float | None, u: float
) -> None:
    wait = wait_s(TransientError("x", retry_after=hint), 1, RetryPolicy(), u)
    assert 0 <= wait < float("inf")
    if isinstance(hint, float) and 0 <= hint < float("inf"):
        assert hint <= wait <= hint + 1.0
    else:
        assert wait >= 0.5


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"base_s": 0},
        {"base_s": -1},
        {"base_s": 2, "cap_s": 1},
        {"cap_s": float("inf")},
        {"hint_cap_s": -1},
        {"hint_cap_s": float("nan")},
    ],
)
def test_an_impossible_policy_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        RetryPolicy(**wrong)  # type: ignore[arg-type]
