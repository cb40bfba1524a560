"""Position from matched swaps: hand fractions, separation, and records that keep their order."""

import numpy as np
import pandas as pd
import pytest

from benchtrial.orchestrator.models.swaps import (
    matched_swap_position,
    position_summary,
    swap_consistency,
)


def swaps(verdicts: list[tuple[float, float]], judge: str = "j") -> pd.DataFrame:
    """One prompt per pair of verdicts: the slot-A scores of (x, y) and of (y, x)."""
    rows = []
    for prompt, (one, two) in enumerate(verdicts):
        rows.append((judge, prompt, "x", "y", one))
        rows.append((judge, prompt, "y", "x", two))
    return pd.DataFrame(rows, columns=["judge", "prompt", "first", "second", "outcome"])


def test_conditional_estimate_in_closed_form() -> None:
    """With one record per order, 3 swaps to the first slot and 1 to the second are binomial.

    P(first) = sigma(2 beta), and Jeffreys' penalty adds one half to each count.
    """
    table = swaps([(1, 1)] * 3 + [(0, 0)] + [(1, 0)] * 5 + [(0, 1)] * 2)
    row = matched_swap_position(table).iloc[0]
    assert row["beta"] == pytest.approx(np.log(3.5 / 1.5) / 2, abs=1e-6)
    assert row["d"] == pytest.approx(np.tanh(row["beta"] / 2))
    assert (row["groups"], row["informative"], row["separated"]) == (11, 4, False)


def test_separation_has_a_finite_estimate() -> None:
    """A judge that always takes the first slot: log((n + 1/2) / (1/2)) / 2."""
    row = matched_swap_position(swaps([(1, 1)] * 10)).iloc[0]
    assert row["separated"]
    assert row["beta"] == pytest.approx(np.log(10.5 / 0.5) / 2, abs=1e-6)


def test_no_informative_group_gives_no_estimate() -> None:
    row = matched_swap_position(swaps([(1, 0)] * 4)).iloc[0]
    assert np.isnan(row["beta"])
    assert row["informative"] == 0


def test_repeated_records_follow_the_noncentral_hypergeometric() -> None:
    """Two records per order, two choices of x: S has weights 1, 4, 1 at -2, 0, 2.

    All five groups at S = 2: maximize 5 (2 b - log(e^2b + 4 + e^-2b)) + log I / 2 on a grid.
    """
    rows = []
    for prompt in range(5):
        for copy in range(2):
            rows.append(("j", prompt, "x", "y", 1.0, copy))
            rows.append(("j", prompt, "y", "x", 1.0, copy))
    columns = ["judge", "prompt", "first", "second", "outcome", "repetition"]
    beta = matched_swap_position(pd.DataFrame(rows, columns=columns))["beta"][0]
    grid = np.linspace(0, 4, 400_001)
    z = np.exp(2 * grid) + 4 + np.exp(-2 * grid)
    p_up, p_down = np.exp(2 * grid) / z, np.exp(-2 * grid) / z
    information = 5 * (4 * (p_up + p_down) - (2 * p_up - 2 * p_down) ** 2)
    objective = 5 * (2 * grid - np.log(z)) + np.log(information) / 2
    assert beta == pytest.approx(grid[objective.argmax()], abs=2e-5)


def test_judges_do_not_mix() -> None:
    both = pd.concat([swaps([(1, 1)] * 4, "a"), swaps([(0, 0)] * 4, "b")])
    table = matched_swap_position(both).set_index("judge")
    assert table.loc["a", "beta"] == pytest.approx(-table.loc["b", "beta"])


def test_position_book_keeping() -> None:
    """Case C08: an order-inconsistent pair is not two ties; slot 1 was chosen in 3 of 4 rows."""
    table = swaps([(1, 1), (1, 0)])
    row = swap_consistency(table).iloc[0]
    assert row["pairs"] == 2
    assert row["consistency"] == 0.5
    assert row["first_slot"] == 0.5
    assert table["outcome"].tolist() == [1, 1, 1, 0]
    assert table["outcome"].mean() == 3 / 4
    assert 0.5 not in set(table["outcome"])


def test_ties_in_both_orders_are_consistent() -> None:
    row = swap_consistency(swaps([(0.5, 0.5), (0.5, 1.0)])).iloc[0]
    assert row["consistency"] == 0.5


def test_consistency_is_counted_within_a_repetition() -> None:
    one = swaps([(1, 0), (1, 0)]).assign(repetition=0)
    two = swaps([(1, 1), (1, 0)]).assign(repetition=1)
    table = swap_consistency(pd.concat([one, two]), "repetition")
    assert table["consistency"].tolist() == [1.0, 0.5]
    assert swap_consistency(pd.concat([one, two]))["consistency"].tolist() == [0.75]


def test_position_summary_by_hand() -> None:
    """C.4 on two prompts: d = 1 and 0, all-response rate 2 * 3/4 - 1; one unmatched row."""
    table = pd.concat([swaps([(1, 1), (1, 0)]), swaps([(0, 0)]).iloc[:1].assign(prompt=9)])
    row = position_summary(table).iloc[0]
    assert row["matched"] == pytest.approx(0.5)
    assert row["all_responses"] == pytest.approx(2 * 3 / 5 - 1)
    assert (row["groups"], row["records"], row["prompts"], row["matched_prompts"]) == (2, 5, 3, 2)
    # Two clusters with residuals +-1/2: se = sqrt(2 / 1 * 1/2) / 2, on one degree of freedom.
    assert row["matched_high"] - row["matched"] == pytest.approx(12.7062047 * 0.5, rel=1e-6)
