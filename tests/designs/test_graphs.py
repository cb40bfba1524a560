"""Graphs of comparisons: connected, regular, well spread."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchtrial import designs
from benchtrial.designs.graphs import spread_pairs
from benchtrial.errors import DesignError


def laplacian_eigenvalues(pairs, count):
    laplacian = np.zeros((count, count))
    for a, b in pairs:
        laplacian[[a, b], [a, b]] += 1
        laplacian[[a, b], [b, a]] -= 1
    return np.linalg.eigvalsh(laplacian)


@given(count=st.integers(3, 40), data=st.data(), seed=st.integers(0, 2**32))
def test_circulants_are_regular_and_connected(count, data, seed):
    even = count % 2 == 1
    degree = data.draw(
        st.integers(1, (count - 1) // 2).map(lambda half: 2 * half)
        if even
        else st.integers(2, count - 1)
    )
    pairs = designs.circulant(range(count), degree, seed=seed)
    assert len({frozenset(pair) for pair in pairs}) == len(pairs) == count * degree // 2
    assert set(np.bincount(np.array(pairs).ravel(), minlength=count)) == {degree}
    assert laplacian_eigenvalues(pairs, count)[1] > 1e-9


def test_circulant_steps_beat_the_plain_ring():
    # Steps 1 and 2 around 40 candidates have algebraic connectivity 0.12; a random set of two steps
    # reaches 0.4 and more, so that the worst contrast has less than a third of the variance.
    pairs = designs.circulant(range(40), 4, seed=1)
    assert laplacian_eigenvalues(pairs, 40)[1] > 0.36


def test_impossible_degrees_name_the_nearest():
    with pytest.raises(DesignError, match="nearest valid choice is 2 or 4"):
        designs.circulant(range(7), 3, seed=1)
    with pytest.raises(DesignError, match=r"degree: 9 .* choice is 6"):
        designs.circulant(range(7), 9, seed=1)
    with pytest.raises(DesignError, match=r"degree: 1 .* choice is 2"):
        designs.circulant(range(7), 1, seed=1)


def test_stars_and_all_pairs():
    assert designs.all_pairs(["a", "b", "c"]) == (
        ("a", "b"),
        ("a", "c"),
        ("b", "c"),
    )
    assert designs.star(["a", "b", "c"], "b") == (("b", "a"), ("b", "c"))


def test_pairs_come_in_rounds_without_repeats():
    edges = np.array(designs.all_pairs(range(20)))
    spread = spread_pairs(edges, np.random.default_rng(1))
    assert {frozenset(pair) for pair in spread.tolist()} == {
        frozenset(pair) for pair in edges.tolist()
    }
    for stop in range(10, len(edges), 10):
        degrees = np.bincount(spread[:stop].ravel(), minlength=20)
        assert np.ptp(degrees) <= 4
