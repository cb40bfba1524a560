"""Averages of ratings: what they are, their covariance, and what they are called."""

import numpy as np
import pandas as pd
import pytest

from benchtrial.errors import DataError, NotIdentified
from benchtrial.orchestrator.models import fit_marginal


def batches(rates: dict[str, float], count: int, *, seed: int, batch_sd: float = 0.0):
    generator = np.random.default_rng(seed)
    rows = []
    for batch in range(count):
        shift = batch_sd * generator.normal()
        for position, item in enumerate(generator.permutation(list(rates)), 1):
            logit = np.log(rates[item] / (1 - rates[item])) + shift
            rating = int(generator.random() < 1 / (1 + np.exp(-logit)))
            rows.append((batch, position, item, rating))
    return pd.DataFrame(rows, columns=["batch", "position", "item", "rating"])


def test_means_and_covariance_by_hand() -> None:
    """a: 1, 0, 1 and b: 1, 0, 0 over three batches.

    Means 2/3 and 1/3. Residuals over 3: a (1, -2, 1)/9, b (2, -1, -1)/9. Sum of products times 3/2:
    aa 6/81 * 3/2 = 1/9, ab 3/81 * 3/2 = 1/18.
    """
    table = pd.DataFrame(
        {
            "batch": [0, 0, 1, 1, 2, 2],
            "position": [1, 2] * 3,
            "item": ["a", "b"] * 3,
            "rating": [1, 1, 0, 0, 1, 0],
        }
    )
    fit = fit_marginal(table)
    assert fit.items.to_dict() == pytest.approx({"a": 2 / 3, "b": 1 / 3})
    np.testing.assert_allclose(fit.covariance, [[1 / 9, 1 / 18], [1 / 18, 1 / 9]])
    estimate = fit.contrast({"a": 1, "b": -1})
    assert estimate.value == pytest.approx(1 / 3)
    assert estimate.se == pytest.approx(np.sqrt(1 / 9))
    assert "acceptance under this design, not quality" in estimate.label


def test_error_matches_repetition() -> None:
    """Standard error of a group difference against its spread over 400 independent studies.

    The spread of 400 draws is itself known to about 3.5 %; four of those are allowed.
    """
    rates = {"a": 0.5, "b": 0.7, "c": 0.3, "d": 0.6}
    groups = {"a": "x", "b": "x", "c": "y", "d": "y"}
    found = [
        fit_marginal(batches(rates, 30, seed=seed, batch_sd=1.0)).group_difference(groups, "x", "y")
        for seed in range(400)
    ]
    spread = np.std([estimate.value for estimate in found])
    assert np.mean([estimate.se for estimate in found]) == pytest.approx(spread, rel=0.14)


def test_blocks_are_the_unit_where_the_table_names_them() -> None:
    table = batches({"a": 0.5, "b": 0.7}, 12, seed=3)
    repeated = pd.concat([table.assign(batch=table["batch"] + 100 * copy) for copy in range(3)])
    blocked = fit_marginal(repeated.assign(block=repeated["batch"] % 100))
    plain = fit_marginal(table)
    # Three identical batches in a block say no more than one of them.
    np.testing.assert_allclose(blocked.covariance, plain.covariance)
    assert "block-robust" in blocked.contrast({"a": 1}).label


def test_bad_input() -> None:
    table = batches({"a": 0.5, "b": 0.7}, 4, seed=3)
    with pytest.raises(NotIdentified, match="one batch"):
        fit_marginal(table[table["batch"] == 0])
    with pytest.raises(NotIdentified, match="no rating of item 'a'"):
        fit_marginal(table.assign(rating=table["rating"].where(table["item"] != "a")))
    with pytest.raises(DataError, match="'z' was not rated"):
        fit_marginal(table).contrast({"z": 1})
