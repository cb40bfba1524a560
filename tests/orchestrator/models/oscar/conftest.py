"""Tables for the OSCAR tests: the paper's simulation, and recorded data where they are at hand."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import special

#: Recorded verdicts for checks lie beside the repository and are never part of it.
DATA = Path(__file__).parents[4].parent / "shared" / "data"

#: Generating parameters of the paper's simulations (table G1).
SCORES = np.linspace(-0.85, 0.85, 8)
SENSITIVITIES = np.exp([0.0, 0.2, -0.3, 0.35, -0.15])
POSITION = np.array([0.9, -0.7, 0.5, 1.0, -0.4])
LENGTH = np.array([0.3, 0.5, 0.4, 0.35, 0.55])
FAMILY = np.array([0.18, -0.12, 0.22, 0.1, -0.15])
#: Divisor of the simulated log length ratio; a ratio of lengths e^(1.5 L) comes back as L.
LENGTH_SCALE = 1.5


@pytest.fixture
def recorded() -> Callable[[str], pd.DataFrame]:
    """Read one file of recorded verdicts as a comparisons table, or skip."""

    def read(name: str) -> pd.DataFrame:
        path = DATA / f"{name}.csv.gz"
        if not path.exists():
            pytest.skip(f"recorded verdicts {path.name} are not beside the repository")
        table = pd.read_csv(path).rename(
            columns={
                "prompt_id": "prompt",
                "candidate_a": "first",
                "candidate_b": "second",
                "len_a": "first_length",
                "len_b": "second_length",
            }
        )
        table["outcome"] = table["verdict"].map({"A": 1.0, "B": 0.0, "tie": 0.5})
        return table

    return read


@pytest.fixture
def simulate() -> Callable[..., pd.DataFrame]:
    """Draw from the design of appendix G.1."""

    def draw(
        prompts: int, seed: int, *, bias: float = 1.0, dependence: float = 0.6
    ) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        first = rng.integers(0, 8, prompts)
        second = (first + rng.integers(1, 8, prompts)) % 8
        verbosity = np.where(np.arange(8) % 2 == 0, 0.8, -0.8) + 0.25 * SCORES
        swap = (verbosity[first] < verbosity[second]) & (rng.random(prompts) < 0.7)
        first, second = np.where(swap, second, first), np.where(swap, first, second)
        length = (verbosity[first] - verbosity[second] + rng.normal(0, 0.8, prompts)) / 1.5
        shared = rng.normal(size=prompts)
        tables = []
        for k in range(5):
            family = (first % 3 == k % 3).astype(float) - (second % 3 == k % 3)
            eta = SENSITIVITIES[k] * (SCORES[first] - SCORES[second])
            eta = eta + bias * (POSITION[k] + LENGTH[k] * length + FAMILY[k] * family)
            noise = np.sqrt(dependence) * shared
            noise = noise + np.sqrt(1 - dependence) * rng.normal(size=prompts)
            outcome = (special.ndtr(noise) < special.expit(eta)).astype(float)
            tables.append(
                pd.DataFrame(
                    {
                        "judge": k,
                        "prompt": np.arange(prompts),
                        "first": first,
                        "second": second,
                        "outcome": outcome,
                        # Lengths whose log ratio of (length + 1) is 1.5 L exactly.
                        "first_length": np.exp(10 + 0.75 * length) - 1,
                        "second_length": np.exp(10 - 0.75 * length) - 1,
                        "first_family": first % 3,
                        "second_family": second % 3,
                        "judge_family": k % 3,
                    }
                )
            )
        return pd.concat(tables, ignore_index=True)

    return draw


@pytest.fixture
def wins() -> Callable[..., pd.DataFrame]:
    """Turn (winner, loser, times) into a table with one judge and one prompt per row.

    The winner is shown first in every other row, so that order says nothing.
    """

    def expand(counts: list[tuple[str, str, int]]) -> pd.DataFrame:
        rows = []
        for winner, loser, times in counts:
            for copy in range(times):
                shown = (winner, loser, 1.0) if copy % 2 == 0 else (loser, winner, 0.0)
                rows.append(("judge", len(rows), *shown))
        return pd.DataFrame(rows, columns=["judge", "prompt", "first", "second", "outcome"])

    return expand
