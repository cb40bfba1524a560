"""Incomplete blocks: pools larger than one context, in batches that still compare everything.

Every item is shown equally often, and every two items meet in a batch about equally often: then
each contrast of items is estimated about equally well, and nearly as well as if every batch held
the whole pool. Within the batches, items take each position and follow one another about equally
often. Exactly balanced designs exist only for a few sizes; this one is found for any. Two ways of
choosing who shares a batch are tried, and the one with the more even meetings is kept.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from benchtrial.designs.checks import ItemId, Seed, as_count, as_ids, generator
from benchtrial.designs.dealing import deal, develop, polish, quotas, turn_step
from benchtrial.designs.placing import place
from benchtrial.designs.schedule import BatchSchedule, IntArray, batch_schedule
from benchtrial.designs.shuffle import as_block_size, require_cover
from benchtrial.errors import DesignError

EVEN_ENOUGH = 2
"""Spread of meetings up to which a developed design is kept for its exact positions: making it
smaller gains less than a tenth of a percent of the variance of a contrast (measured)."""


def incomplete_blocks(
    items: Iterable[Hashable], size: int, batches: int, *, seed: Seed
) -> BatchSchedule:
    """Split a pool over batches so that all items meet about equally often.

    Parameters
    ----------
    items
        Ids of the pool, at least two.
    size
        Items in one batch, from 2 to the pool.
    batches
        Number of batches, enough to show every item once.
    seed
        An integer, a numpy Generator or a SeedSequence.

    Returns
    -------
    BatchSchedule
        Each batch is its own design block. Items are shown equally often, up to one showing.

    Raises
    ------
    DesignError
        For fewer than two items, unusable ids, a size outside its limits or too few batches.
    """
    pool = as_ids(items, "items", least=2)
    size = as_block_size(size, len(pool))
    batches = as_count(batches, "batches", least=1)
    require_cover(len(pool), size, batches)
    rng = generator(seed)
    ordered, loose = _chosen(len(pool), size, batches, rng)
    orders = ordered + place(loose, len(pool), ordered, rng)
    return batch_schedule(pool, orders, range(batches))


def _chosen(
    pool: int, size: int, batches: int, rng: np.random.Generator
) -> tuple[list[IntArray], list[IntArray]]:
    """Return batches that have their order already, and batches that are yet to be ordered."""
    step = turn_step(pool, size, batches)
    if step is None:
        return [], _dealt(pool, size, batches, [], rng)
    turned = develop(pool, size, batches, step, rng)
    rest = _dealt(pool, size, batches - len(turned), turned, rng)
    developed = unevenness(turned + rest, pool)
    if developed[0] > EVEN_ENOUGH:
        dealt = _dealt(pool, size, batches, [], rng)
        if unevenness(dealt, pool) < developed:
            return [], dealt
    return (turned, rest) if step == 1 else ([], turned + rest)


def _dealt(
    pool: int, size: int, batches: int, before: Sequence[IntArray], rng: np.random.Generator
) -> list[IntArray]:
    alike = np.zeros(pool, dtype=np.int64)
    dealt = deal(alike, np.full((batches, 1), size), before, rng)
    return polish(dealt, alike, before, rng)


def mixed_blocks(
    groups: Mapping[ItemId, Hashable], size: int, batches: int, *, seed: Seed
) -> BatchSchedule:
    """Split a pool over batches that all hold the groups in the proportion of the pool.

    A batch's own leniency then cancels from the contrast of two groups, which is what makes a group
    comparison with incomplete blocks nearly as good as with whole pools.

    Parameters
    ----------
    groups
        Group of each item, by the item's id.
    size
        Items in one batch: at least one for each group.
    batches
        Number of batches, enough to show every item once.
    seed
        An integer, a numpy Generator or a SeedSequence.

    Returns
    -------
    BatchSchedule
        Each batch is its own design block.

    Raises
    ------
    DesignError
        As for :func:`incomplete_blocks`, and if the batches are smaller than the number of groups
        or some group is too small a part of the pool to be in every batch.
    """
    pool = as_ids(groups, "items", least=2)
    names = list(dict.fromkeys(groups.values()))
    size = as_block_size(size, len(pool))
    if size < len(names):
        raise DesignError(
            f"size: batches of {size} cannot hold all {len(names)} groups; "
            f"the nearest valid choice is {len(names)}"
        )
    batches = as_count(batches, "batches", least=1)
    require_cover(len(pool), size, batches)
    strata = np.array([names.index(group) for group in groups.values()])
    members = np.bincount(strata)
    smallest = int(members.min())
    if size * smallest < len(pool):
        raise DesignError(
            f"size: group {names[int(members.argmin())]!r} is {smallest} of {len(pool)} items and "
            f"would be missing from some batches of {size}; the nearest valid choice is "
            f"{-(-len(pool) // smallest)}"
        )
    rng = generator(seed)
    dealt = deal(strata, quotas(members, members, size, batches), [], rng)
    chosen = polish(dealt, strata, [], rng)
    return batch_schedule(pool, place(chosen, len(pool), [], rng), range(batches))


def grow_blocks(
    schedule: BatchSchedule, items: Iterable[Hashable], size: int, batches: int, *, seed: Seed
) -> BatchSchedule:
    """Continue a running schedule with more batches, and new items if there are any.

    What was asked stays and counts: items that were shown less often, new ones above all, are shown
    more often in the new batches, mixed with the others, until at the end all have been shown about
    equally often; meetings, positions and predecessors are evened out over old and new together.

    Parameters
    ----------
    schedule
        What was asked so far, or was going to be.
    items
        Ids that are to be shown from now on; those that only the old schedule has are dropped.
    size
        Items in one new batch.
    batches
        Number of new batches.
    seed
        An integer, a numpy Generator or a SeedSequence.

    Returns
    -------
    BatchSchedule
        The old batches, in their order, and then the new ones.

    Raises
    ------
    DesignError
        As for :func:`incomplete_blocks`, and where an old and a new id are written alike.
    """
    shown = as_ids(items, "items", least=2)
    pool = as_ids(dict.fromkeys((*shown, *schedule.items)), "items, old and new", least=2)
    size = as_block_size(size, len(shown))
    batches = as_count(batches, "batches", least=1)
    rng = generator(seed)
    number = {item: place for place, item in enumerate(pool)}
    before = [np.array([number[item] for item in order]) for order in schedule.orders]
    needs = _needs(before, len(shown), size, batches)
    levels, strata = np.unique(needs, return_inverse=True)
    strata = strata.reshape(-1)
    members = np.bincount(strata)
    retired = np.full(len(pool) - len(shown), len(levels))
    rows = quotas(members, members * levels, size, batches)
    strata = np.concatenate([strata, retired])
    chosen = polish(deal(strata, rows, before, rng), strata, before, rng)
    new = batch_schedule(pool, place(chosen, len(pool), before, rng), range(batches))
    return schedule.then(new)


def _needs(before: Sequence[IntArray], shown: int, size: int, batches: int) -> IntArray:
    """Return how often each item is to be shown in the new batches, so that all come out level.

    The common level is raised until the new showings are used up; an item that is far behind can be
    shown at most once in every batch.
    """
    used = np.zeros(shown, dtype=np.int64)
    for item, times in Counter(i for order in before for i in order.tolist()).items():
        if item < shown:
            used[item] = times
    wanted = size * batches
    low, high = 0, int(used.max()) + batches
    while low < high:
        level = (low + high) // 2
        if int(np.clip(level - used, 0, batches).sum()) < wanted:
            low = level + 1
        else:
            high = level
    return np.clip(low - used, 0, batches)


def unevenness(batches: Sequence[IntArray], pool: int) -> tuple[int, int]:
    """Return the spread of the concurrences (how often two items meet) and their sum of squares."""
    met = np.concatenate([_meetings(batch, pool) for batch in batches])
    _, times = np.unique(met, return_counts=True)
    fewest = int(times.min()) if 2 * len(times) == pool * (pool - 1) else 0
    return int(times.max()) - fewest, int(times @ times)


def _meetings(batch: IntArray, pool: int) -> IntArray:
    """Return one number for every two items of a batch."""
    one, other = np.triu_indices(len(batch), 1)
    ordered = np.sort(batch)
    met: IntArray = ordered[one] * pool + ordered[other]
    return met


def fitting_size(
    item_tokens: Iterable[int],
    *,
    context: int,
    output: int,
    overhead: int,
    answer_tokens: int,
) -> int:
    """Return the largest block that fits a judge whichever items it holds.

    A block of n items needs ``overhead`` + the tokens of its n longest items + n ``answer_tokens``
    in the context, and n ``answer_tokens`` in the output. Information per token grows with the size
    of a block, because the instructions are paid for once; so take the largest size that every
    judge of the panel can handle.

    Parameters
    ----------
    item_tokens
        Tokens of each item of the pool, as the judge counts them (or an upper bound).
    context, output
        Limits of the judge: tokens of request and answer together, and of the answer.
    overhead
        Tokens of the instructions, with what surrounds the items.
    answer_tokens
        Most tokens that the answer takes for one item.

    Returns
    -------
    int
        From 2 to the pool.

    Raises
    ------
    DesignError
        If not even two items fit; the message names what would have to be larger.
    """
    longest = np.sort(np.array(list(item_tokens), dtype=np.int64))[::-1]
    as_count(len(longest), "item_tokens (items of the pool)", least=2)
    as_count(int(longest[-1]), "item_tokens (tokens of an item)", least=0)
    overhead = as_count(overhead, "overhead (tokens)", least=0)
    answer_tokens = as_count(answer_tokens, "answer_tokens", least=1)
    needed = overhead + np.cumsum(longest + answer_tokens)
    as_count(context, "context (tokens for two items)", least=int(needed[1]))
    as_count(output, "output (tokens for two items)", least=2 * answer_tokens)
    return min(int((needed <= context).sum()), output // answer_tokens)
