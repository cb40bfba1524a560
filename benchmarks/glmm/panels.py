"""Panels and judges that the benchmarks of the GLMM share, drawn fast."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Kernel:
    """How a judge rates: memory, cold start and spread of batches (logits)."""

    lags: tuple[float, ...]
    cold_start: float
    batch_sd: float


GEMINI = Kernel((-0.529,), -0.25, 0.446**0.5)
"""Gemini 2.5 Flash. The paper prints beta and sigma^2 and calls the profile nearly flat; a cold
start of -0.25 makes it so (half of the carryover)."""

CLAUDE = Kernel((-1.055,), 1.879, 0.418**0.5)
"""Claude Haiku 4.5, whose profile is uneven."""

GEMINI_DEEP = Kernel((-0.529, -0.090, -0.179), -0.25, 0.446**0.5)
CLAUDE_DEEP = Kernel((-1.055, -0.380, -0.311), 1.879, 0.418**0.5)


def shuffled_orders(items: int, batches: int, generator: np.random.Generator) -> npt.NDArray:
    """Return one random order per batch, shape ``(batches, items)``."""
    return generator.permuted(np.tile(np.arange(items), (batches, 1)), axis=1)


def rate(
    qualities: Floats, orders: npt.NDArray, judge: Kernel, generator: np.random.Generator
) -> npt.NDArray:
    """Draw the ratings of every batch, shape of ``orders``."""
    intercept = judge.batch_sd * generator.normal(size=len(orders))
    ratings = np.zeros(orders.shape)
    for place in range(orders.shape[1]):
        eta = qualities[orders[:, place]] + intercept + (judge.cold_start if place == 0 else 0.0)
        for k, effect in enumerate(judge.lags, start=1):
            if place >= k:
                eta = eta + effect * ratings[:, place - k]
        ratings[:, place] = generator.random(len(orders)) < 1 / (1 + np.exp(-eta))
    return ratings


def as_table(orders: npt.NDArray, ratings: npt.NDArray) -> pd.DataFrame:
    """Return the tidy table of ratings."""
    batches, size = orders.shape
    return pd.DataFrame(
        {
            "batch": np.repeat(np.arange(batches), size),
            "position": np.tile(np.arange(1, size + 1), batches),
            "item": orders.reshape(-1),
            "rating": ratings.reshape(-1).astype(np.int64),
        }
    )


def draw(
    items: int, batches: int, judge: Kernel, *, seed: int, size: int | None = None
) -> pd.DataFrame:
    """Return ratings of a panel with standard normal qualities."""
    generator = np.random.default_rng(seed)
    qualities = generator.normal(size=items)
    orders = shuffled_orders(items, batches, generator)[:, :size]
    return as_table(orders, rate(qualities, orders, judge, generator))
