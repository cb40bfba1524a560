from itertools import pairwise
from statistics import fmean, pvariance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchtrial.adapters.simulated import uniforms


def test_the_draws_are_the_same_for_ever() -> None:
    """Golden numbers: a change here changes every simulated study that anyone has published."""
    assert uniforms(5, 7, "x", 1, ["a", "b"]) == (
        0.7422040507081245,
        0.6707020673908344,
        0.25621857516364027,
        0.16676609912369894,
        0.5863379185892379,
    )


@given(count=st.integers(0, 40), seed=st.integers(), name=st.text())
def test_draws_lie_strictly_between_0_and_1_and_a_longer_run_begins_alike(
    count: int, seed: int, name: str
) -> None:
    draws = uniforms(count, seed, name)
    assert len(draws) == count
    assert all(0 < u < 1 for u in draws)
    assert uniforms(count + 3, seed, name)[:count] == draws


def test_names_that_only_look_alike_have_different_draws() -> None:
    streams = {
        uniforms(1, seed, *parts)
        for seed, parts in [
            (1, ("a", "b")),
            (1, ("ab",)),
            (1, ("a", "b", 0)),
            (1, (["a", "b"],)),
            (11, ("a",)),
            (1, (1, "a")),
            (1, ("1", "a")),
        ]
    }
    assert len(streams) == 7


def test_the_draws_are_uniform() -> None:
    """20,000 draws: the mean is within 5 standard errors (0.0102) of 1/2, the variance of 1/12."""
    draws = [u for batch in range(2000) for u in uniforms(10, 3, "uniform", batch)]
    assert fmean(draws) == pytest.approx(1 / 2, abs=0.0102)
    # The variance of u**2 around 1/12 is 1/180: 5 * sqrt(1 / 180 / 20000) = 0.0026.
    assert pvariance(draws) == pytest.approx(1 / 12, abs=0.0026)
    neighbours = fmean((a - 0.5) * (b - 0.5) for a, b in pairwise(draws))
    assert neighbours == pytest.approx(0, abs=5 / 12 / 20000**0.5)
