"""A schedule: what to ask, in the order of asking.

A design is a function of numbers and a seed; a schedule is its value. It can be cut (a campaign
asks it in rounds) and continued by another (a campaign grows), and never loses who was shown where.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchtrial.designs.checks import ItemId
from benchtrial.errors import DesignError

IntArray = npt.NDArray[np.int64]

JUDGE, PROMPT, FIRST, SECOND, REPETITION = range(5)
"""Columns of the codes of a PairSchedule."""


@dataclass(frozen=True)
class BatchSchedule:
    """Batches of items, each to be rated in one shared context.

    Parameters
    ----------
    items
        Ids of the whole pool, in the order that the user gave.
    orders
        For each batch, the ids in displayed order. An item occurs at most once in a batch.
    blocks
        For each batch, the number of its design block: the unit that a bootstrap resamples. It is
        the batch itself for a shuffle and the whole square for a Williams design.

    Raises
    ------
    DesignError
        If the orders hold an item twice in one batch or one that is not in the pool, or the blocks
        are not one per batch.
    """

    items: tuple[ItemId, ...]
    orders: tuple[tuple[ItemId, ...], ...]
    blocks: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.blocks) != len(self.orders):
            raise DesignError(f"{len(self.orders)} batches but {len(self.blocks)} block numbers")
        pool = set(self.items)
        for batch, order in enumerate(self.orders):
            shown = set(order)
            if len(shown) != len(order):
                raise DesignError(f"batch {batch} shows an item twice: {order!r}")
            if not shown <= pool:
                stray = next(item for item in order if item not in pool)
                raise DesignError(f"batch {batch} shows {stray!r}, which is not in the pool")

    def __len__(self) -> int:
        return len(self.orders)

    def slice(self, start: int, stop: int | None = None) -> "BatchSchedule":
        """Return batches ``start`` to ``stop`` (exclusive); pool and block numbers stay."""
        return BatchSchedule(self.items, self.orders[start:stop], self.blocks[start:stop])

    def then(self, later: "BatchSchedule") -> "BatchSchedule":
        """Return this schedule continued by another, whose items join the pool.

        The block numbers of the later one are raised above those of this one, so that the two never
        share a block.
        """
        shift = max(self.blocks, default=-1) + 1 - min(later.blocks, default=0)
        return BatchSchedule(
            tuple(dict.fromkeys(self.items + later.items)),
            self.orders + later.orders,
            self.blocks + tuple(block + shift for block in later.blocks),
        )

    def to_frame(self) -> pd.DataFrame:
        """Return one row per shown item: ``batch`` (from 0), ``position`` (from 1), ``item``."""
        sizes = np.array([len(order) for order in self.orders], dtype=np.int64)
        ends = np.cumsum(sizes)
        return pd.DataFrame(
            {
                "batch": np.repeat(np.arange(len(self.orders)), sizes),
                "position": np.arange(sizes.sum()) - np.repeat(ends - sizes, sizes) + 1,
                "item": [item for order in self.orders for item in order],
            }
        )


def batch_schedule(
    items: Sequence[ItemId], orders: Iterable[npt.ArrayLike], blocks: Iterable[int]
) -> BatchSchedule:
    """Return the schedule whose orders are given as places in ``items``."""
    return BatchSchedule(
        tuple(items),
        tuple(tuple(items[place] for place in np.asarray(order).tolist()) for order in orders),
        tuple(blocks),
    )


@dataclass(frozen=True, eq=False)
class PairSchedule:
    """Pairs of responses, each to be shown to a judge in both orders.

    The unit of asking is both orders of one judge, prompt, pair and repetition: they belong to one
    round and count once both are in. Rows ``2u`` and ``2u + 1`` of the frame are the two orders of
    unit ``u``, and the order of rows is the order of asking.

    Parameters
    ----------
    judges, prompts, candidates
        The ids, in the order that the user gave.
    codes
        Integers, shape (units, 5): places in ``judges``, in ``prompts``, and in ``candidates`` of
        the response shown first and second in the order that is asked first, and the repetition,
        from 0.
    """

    judges: tuple[ItemId, ...]
    prompts: tuple[ItemId, ...]
    candidates: tuple[ItemId, ...]
    codes: IntArray

    def __post_init__(self) -> None:
        codes = np.array(self.codes, dtype=np.int64).reshape(-1, 5)
        limits = [len(self.judges), len(self.prompts), len(self.candidates), len(self.candidates)]
        if (codes < 0).any() or (codes[:, :REPETITION] >= limits).any():
            raise DesignError("a unit of the pair schedule names a place outside the lists of ids")
        if (codes[:, FIRST] == codes[:, SECOND]).any():
            raise DesignError("a unit of the pair schedule shows a candidate against itself")
        codes.setflags(write=False)
        object.__setattr__(self, "codes", codes)

    def __len__(self) -> int:
        return 2 * self.units

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PairSchedule):
            return NotImplemented
        return (
            self.judges == other.judges
            and self.prompts == other.prompts
            and self.candidates == other.candidates
            and np.array_equal(self.codes, other.codes)
        )

    def __hash__(self) -> int:
        return hash((self.judges, self.prompts, self.candidates, self.codes.tobytes()))

    @property
    def units(self) -> int:
        """Number of units of asking; each is two requests."""
        return len(self.codes)

    def slice(self, start: int, stop: int | None = None) -> "PairSchedule":
        """Return units ``start`` to ``stop`` (exclusive), both orders of each."""
        return PairSchedule(self.judges, self.prompts, self.candidates, self.codes[start:stop])

    def to_frame(self) -> pd.DataFrame:
        """Return one row per request: ``judge, prompt, first, second, repetition``."""
        rows = np.repeat(self.codes, 2, axis=0)
        rows[1::2, [FIRST, SECOND]] = rows[1::2, [SECOND, FIRST]]
        return pd.DataFrame(
            {
                "judge": _named(self.judges, rows[:, JUDGE]),
                "prompt": _named(self.prompts, rows[:, PROMPT]),
                "first": _named(self.candidates, rows[:, FIRST]),
                "second": _named(self.candidates, rows[:, SECOND]),
                "repetition": rows[:, REPETITION],
            }
        )


def _named(ids: Sequence[ItemId], places: IntArray) -> list[ItemId]:
    return [ids[place] for place in places.tolist()]
