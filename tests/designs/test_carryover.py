"""Carryover of order two: exact where it can be, one count apart where the search succeeds."""

import numpy as np
import pytest

from benchtrial import designs
from benchtrial.errors import DesignError


def follows(square, lag):
    v = square.shape[1]
    table = np.zeros((v, v), dtype=int)
    np.add.at(table, (square[:, :-lag], square[:, lag:]), 1)
    return table[~np.eye(v, dtype=bool)]


def test_multiplication_table_modulo_five_written_out():
    # Rows i, 2 i, 3 i, 4 i modulo 5, less one.
    assert designs.carryover_square(4).tolist() == [
        [0, 1, 2, 3],
        [1, 3, 0, 2],
        [2, 0, 3, 1],
        [3, 2, 1, 0],
    ]


@pytest.mark.parametrize("v", [4, 6, 10, 12, 30, 100, 198])
def test_one_less_than_a_prime_is_balanced_at_every_distance(v):
    square = designs.carryover_square(v)
    assert square.shape == (v, v)
    assert (np.sort(square, axis=0) == np.arange(v)[:, None]).all()
    assert (follows(square, 1) == 1).all()
    assert all(follows(square, lag).max() <= 1 for lag in range(2, min(v, 8)))


@pytest.mark.parametrize(
    ("v", "spread"), [(3, 0), (5, 1), (7, 1), (8, 1), (9, 1), (14, 1), (20, 2), (25, 2), (50, 2)]
)
def test_other_sizes_balance_neighbours_exactly_and_second_ones_nearly(v, spread):
    square = designs.carryover_square(v)
    assert square.shape == (2 * v, v)
    assert (np.sort(square, axis=1) == np.arange(v)).all()
    positions = np.apply_along_axis(np.bincount, 0, square, minlength=v)
    assert (positions == 2).all()
    assert (follows(square, 1) == 2).all()
    assert np.ptp(follows(square, 2)) <= spread
    assert np.ptp(follows(designs.williams_square(v), 2)) >= spread


@pytest.mark.parametrize("v", [2, 3, 4, 5, 7, 8, 9, 16, 27])
def test_affine_squares_are_exact_at_every_two_positions(v):
    square = designs.affine_square(v)
    assert square.shape == (v * (v - 1), v)
    for one in range(v):
        for other in range(v):
            if one != other:
                assert len(np.unique(square[:, one] * v + square[:, other])) == v * (v - 1)


def test_affine_squares_exist_for_prime_powers_only():
    with pytest.raises(DesignError, match="nearest valid choice is 5 or 7"):
        designs.affine_square(6)
    with pytest.raises(DesignError, match="nearest valid choice is 32 or 37"):
        designs.affine_square(34)


def test_the_report_says_what_was_achieved():
    ten = designs.balance(designs.carryover(range(10), 2, seed=1))
    assert [check.grade for check in ten.checks if "carryover" in check.name] == ["exact", "near"]
    affine = designs.relabelled(range(8), designs.affine_square(8), 1, seed=1)
    assert designs.balance(affine)["carryover, order 2"].grade == "exact"
    williams = designs.balance(designs.williams(range(10), 2, seed=1))
    assert williams["carryover, order 2"].grade == "uneven"
