"""Simulated panels, and a likelihood written as slowly and plainly as possible."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import pytest

Simulate = Callable[..., pd.DataFrame]
BruteForce = Callable[..., float]


@pytest.fixture
def simulate() -> Simulate:
    """Return a simulator of binary batches with a known kernel."""

    def draw(
        qualities: Sequence[float],
        batches: int,
        *,
        lags: Sequence[float] = (),
        cold_start: float = 0.0,
        batch_sd: float = 0.0,
        size: int | None = None,
        seed: int = 0,
    ) -> pd.DataFrame:
        generator = np.random.default_rng(seed)
        rows = []
        for batch in range(batches):
            intercept = batch_sd * generator.normal()
            emitted: list[int] = []
            for place, item in enumerate(generator.permutation(len(qualities))[:size]):
                eta = qualities[item] + intercept + (cold_start if place == 0 else 0.0)
                eta += sum(
                    effect * emitted[-k] for k, effect in enumerate(lags, 1) if k <= len(emitted)
                )
                emitted.append(int(generator.random() < 1 / (1 + np.exp(-eta))))
                rows.append((batch, place + 1, f"item {item:02d}", emitted[-1]))
        return pd.DataFrame(rows, columns=["batch", "position", "item", "rating"])

    return draw


@pytest.fixture
def brute_force() -> BruteForce:
    """Return the marginal log-likelihood by a sum over completions and a very fine grid.

    Nothing is shared with the package: ratings are walked one by one, every unreadable rating is
    tried at every level, and the integral is a trapezoidal sum over 8001 points on +-24.
    """

    def log_sum(
        ratings: pd.DataFrame,
        qualities: dict[str, float],
        lags: Sequence[float],
        cold_start: float,
        batch_sd: float,
        thresholds: Sequence[float] = (0.0,),
    ) -> float:
        nodes = np.linspace(-24, 24, 8001)
        prior = np.exp(-(nodes**2) / 2) / np.sqrt(2 * np.pi) * (nodes[1] - nodes[0])
        top = len(thresholds)
        total = 0.0
        for _, batch in ratings.groupby("batch"):
            rows = batch.sort_values("position")
            choices = [
                range(top + 1) if np.isnan(value) else [int(value)]
                for value in rows["rating"].astype(float)
            ]
            likelihood = np.zeros_like(nodes)
            for path in itertools.product(*choices):
                chance = np.ones_like(nodes)
                for place, (item, rating) in enumerate(zip(rows["item"], path, strict=True)):
                    eta = qualities[item] + batch_sd * nodes
                    if place == 0:
                        eta = eta + cold_start
                    for k, effect in enumerate(lags, 1):
                        if place >= k:
                            eta = eta + effect * path[place - k] / top
                    below = [np.zeros_like(nodes)]
                    below += [1 / (1 + np.exp(-(cut - eta))) for cut in thresholds]
                    below += [np.ones_like(nodes)]
                    chance = chance * (below[rating + 1] - below[rating])
                likelihood += chance
            total += float(np.log((likelihood * prior).sum()))
        return total

    return log_sum
