"""Random shuffle: the order of every batch is drawn uniformly and independently.

With a whole pool in each batch this is the complete random shuffle of the Markov-GLMM analysis of
LLM judges. Where a pool is larger than one context, the pool is shuffled and dealt out in blocks of
equal size, pass after pass: every item has been shown equally often after a pass, and never differs
from another by more than one showing in between. A longer schedule from the same seed begins with
the shorter one.
"""

from collections.abc import Hashable, Iterable

import numpy as np

from benchtrial.designs.checks import Seed, as_count, as_ids, generator
from benchtrial.designs.schedule import BatchSchedule, IntArray, batch_schedule
from benchtrial.errors import DesignError


def random_shuffle(
    items: Iterable[Hashable], batches: int, *, seed: Seed, size: int | None = None
) -> BatchSchedule:
    """Shuffle the pool anew for every batch, whole or in blocks of equal size.

    Parameters
    ----------
    items
        Ids of the pool, at least two.
    batches
        Number of batches.
    seed
        An integer, a numpy Generator or a SeedSequence.
    size
        Items in one batch; all of them if not given. Within a batch every order is equally likely.

    Returns
    -------
    BatchSchedule
        Each batch is its own design block.

    Raises
    ------
    DesignError
        For fewer than two items, unusable ids, a size below 2 or above the pool, or so few batches
        that some item would never be shown.
    """
    pool = as_ids(items, "items", least=2)
    batches = as_count(batches, "batches", least=1)
    size = len(pool) if size is None else as_block_size(size, len(pool))
    require_cover(len(pool), size, batches)
    rng = generator(seed)
    return batch_schedule(pool, _deal(len(pool), size, batches, rng), range(batches))


def as_block_size(size: int, pool: int) -> int:
    """Return the number of items in one batch: from 2 (one item has no company) to the pool."""
    return as_count(size, "size (items in one batch)", least=2, most=pool)


def require_cover(pool: int, size: int, batches: int) -> None:
    """Refuse so few batches that some item would never be shown and could not be estimated."""
    needed = -(-pool // size)
    if batches < needed:
        raise DesignError(
            f"batches: {batches} of {size} cannot show all {pool} items once; "
            f"the nearest valid choice is {needed}"
        )


def _deal(pool: int, size: int, batches: int, rng: np.random.Generator) -> list[IntArray]:
    """Deal shuffled passes over the pool into batches of equal size.

    Where a pass ends within a batch, the next pass begins with items that the batch does not hold
    yet; what it postpones for that stays in its shuffled order.
    """
    orders: list[IntArray] = []
    hand = rng.permutation(pool)
    for _ in range(batches):
        if len(hand) < size:
            fresh = rng.permutation(pool)
            held = np.isin(fresh, hand)
            wanted = size - len(hand)
            drawn = fresh[~held][:wanted]
            order = rng.permutation(np.concatenate([hand, drawn]))
            hand = fresh[~np.isin(fresh, drawn)]
        else:
            order, hand = hand[:size], hand[size:]
        orders.append(order)
    return orders
