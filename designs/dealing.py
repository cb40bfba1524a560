"""Which items share a batch: dealt out greedily, or developed from initial blocks around a ring.

Both ways show the items equally often and make every two of them meet about equally often. The
greedy way works for any size and number of batches and can continue a running schedule. The cyclic
way shifts an initial block around a ring of all items: two items then meet as often as their
distance occurs among the differences of the initial block, so that a block with even differences
makes an even design.
"""

from collections.abc import Sequence

import numpy as np

from benchtrial.designs.schedule import IntArray

BARRED = 2**60
"""Count of meetings that marks an item already in the batch; no real count comes near it."""

LOOK = 64
"""Cards at the top of the deck looked at first; in a large pool one of them has met nobody yet."""

INITIAL_BLOCKS = 20
"""Random initial blocks of which the best is improved; exchanges gain more than further draws."""

POLISH_POOL = 2048
"""Largest pool with a table of meetings; in a larger one the deal leaves hardly any two twice."""

POLISH_TRIES = 20_000
"""Pairs of batches tried for exchanges: about a second for batches of 10."""

EXCHANGES = 150
"""Exchanges tried to make an initial block, or its order, more even."""

SEARCHES = 4
"""Searches for an initial block, of which the most even is taken: with one, 1 in 60 designs of 30
batches of 10 from 30 has meetings 3 apart, with four none in 300 (measured)."""


def deal(
    strata: IntArray, quotas: IntArray, before: Sequence[IntArray], rng: np.random.Generator
) -> list[IntArray]:
    """Deal items into batches: the least used first, among them the one that met the others least.

    Each stratum has its own shuffled deck, which is dealt to the end before it is shuffled again.

    Parameters
    ----------
    strata
        Stratum of each item, from 0.
    quotas
        Items that each batch takes from each stratum, shape (batches, strata).
    before
        Batches of a running schedule, whose meetings count.
    rng
        Random generator.
    """
    pool = len(strata)
    batches = list(before)
    shared: list[list[int]] = [[] for _ in range(pool)]
    for number, batch in enumerate(batches):
        for item in batch.tolist():
            shared[item].append(number)
    decks = [rng.permutation(np.flatnonzero(strata == s)) for s in range(quotas.shape[1])]
    for quota in quotas:
        met = np.zeros(pool, dtype=np.int64)
        batch = np.empty(int(quota.sum()), dtype=np.int64)
        turns = rng.permutation(np.repeat(np.arange(len(quota)), quota))
        for place, stratum in enumerate(turns.tolist()):
            deck = decks[stratum]
            card = _least_met(met, deck)
            if card < 0:
                deck = np.concatenate([deck, rng.permutation(np.flatnonzero(strata == stratum))])
                card = _least_met(met, deck)
            item = int(deck[card])
            deck[card] = deck[-1]
            decks[stratum] = deck[:-1]
            batch[place] = item
            for number in shared[item]:
                met[batches[number]] += 1
            met[item] = BARRED
            shared[item].append(len(batches))
        batches.append(batch)
    return batches[len(before) :]


def _least_met(met: IntArray, deck: IntArray) -> int:
    """Return the place in the deck of the item that met the batch least; -1 if all are in it."""
    if not len(deck):
        return -1
    top = met[deck[:LOOK]]
    card = int(top.argmin())
    if top[card] == 0:
        return card
    if len(deck) > LOOK:
        top = met[deck]
        card = int(top.argmin())
    return card if top[card] < BARRED else -1


def quotas(sizes: IntArray, weights: IntArray, size: int, batches: int) -> IntArray:
    """Return how many items each batch takes from each stratum, in proportion to the weights.

    The rounding is carried on from batch to batch, so that each beginning of the schedule is within
    about one item of the proportion.

    Parameters
    ----------
    sizes
        Items in each stratum; no batch takes more.
    weights
        Showings that each stratum is to have, up to a common factor.
    size, batches
        Items in a batch, and batches.
    """
    total = int(weights.sum())
    given = np.zeros(len(sizes), dtype=np.int64)
    rows = np.empty((batches, len(sizes)), dtype=np.int64)
    for number in range(batches):
        owed = (number + 1) * size * weights - given * total
        row = np.clip(owed // total, 0, sizes)
        while (short := size - int(row.sum())) != 0:
            step = 1 if short > 0 else -1
            room = row < sizes if step > 0 else row > 0
            rest = np.where(room, step * (owed - row * total), np.iinfo(np.int64).min)
            row[int(rest.argmax())] += step
        rows[number] = row
        given += row
    return rows


def polish(
    batches: Sequence[IntArray],
    strata: IntArray,
    before: Sequence[IntArray],
    rng: np.random.Generator,
) -> list[IntArray]:
    """Exchange items between batches as long as that makes the meetings more even.

    Two batches are taken at random; of all exchanges of two items of one stratum that each batch
    lacks, the one that lowers the sum of squared meetings most is made. Replication stays as it is.
    """
    pool = len(strata)
    polished = [batch.copy() for batch in batches]
    if pool > POLISH_POOL or len(batches) < 2:
        return polished
    met = np.zeros((pool, pool), dtype=np.int64)
    for batch in (*before, *batches):
        met[np.ix_(batch, batch)] += 1
    np.fill_diagonal(met, 0)
    if met.max() <= 1:
        return polished
    inside = np.zeros((len(batches), pool), dtype=bool)
    for row, batch in zip(inside, batches, strict=True):
        row[batch] = True
    idle = 0
    for one, other in rng.integers(len(batches), size=(POLISH_TRIES, 2)).tolist():
        exchange = _best_exchange(inside[one], inside[other], strata, met)
        if exchange is None:
            idle += 1
            if idle > len(batches) ** 2:
                break
            continue
        idle = 0
        for number, gone, new in ((one, *exchange), (other, *exchange[::-1])):
            batch = polished[number]
            batch[batch == gone] = new
            inside[number, [gone, new]] = False, True
            for item, step in ((gone, -1), (new, 1)):
                stay = batch[batch != new]
                met[item, stay] += step
                met[stay, item] += step
    return polished


def _best_exchange(
    one: np.ndarray, other: np.ndarray, strata: IntArray, met: IntArray
) -> tuple[int, int] | None:
    """Return the items to exchange between two batches, or None if no exchange lowers the sum.

    With i leaving the first batch for the second and j the other way, i stops meeting what only the
    first batch holds and starts meeting what only the second holds, and j the reverse. A count c
    that rises adds 2 c + 1 to the sum of squares, one that falls adds 1 - 2 c.
    """
    leaving = np.flatnonzero(one & ~other)
    coming = np.flatnonzero(other & ~one)
    if not len(leaving):
        return None
    across = met[leaving[:, None], coming]
    change = (
        (across.sum(axis=1) - met[leaving[:, None], leaving].sum(axis=1))[:, None]
        + (across.sum(axis=0) - met[coming[:, None], coming].sum(axis=0))
        - 2 * across
        + (len(leaving) - 1)
        + (len(coming) - 1)
    )
    change[strata[leaving][:, None] != strata[coming]] = 0
    row, column = divmod(int(change.argmin()), len(coming))
    if change[row, column] >= 0:
        return None
    return int(leaving[row]), int(coming[column])


def turn_step(pool: int, size: int, batches: int) -> int | None:
    """Return by how much to shift an initial block, or None if no whole turn of the ring fits.

    A turn by single steps takes ``pool`` batches. If the size and the pool have a common divisor d,
    an initial block with equally many items of each residue modulo d can be shifted by d instead,
    which takes ``pool / d`` batches. The smallest divisor that fits is best.
    """
    divisors = (d for d in range(1, size + 1) if pool % d == 0 and size % d == 0)
    return next((d for d in divisors if pool // d <= batches), None)


def develop(
    pool: int, size: int, batches: int, step: int, rng: np.random.Generator
) -> list[IntArray]:
    """Return the batches of as many whole turns of the ring as fit, each turn of another block.

    By single steps every item takes every position once in a turn; the order of the initial block
    is chosen so that items also follow one another evenly.
    """
    ring = rng.permutation(pool)
    shifts = np.arange(0, pool, step)[:, None]
    counts = np.zeros((step, pool), dtype=np.int64)
    follows = np.zeros(pool, dtype=np.int64)
    developed: list[IntArray] = []
    for _ in range(batches * step // pool):
        block = _initial_block(pool, size, counts, rng)
        counts += _differences(block, pool, step)
        block = _evenly_ordered(block, follows, rng)
        follows += _steps(block, pool)
        developed.extend(ring[(block + shifts) % pool])
    return developed


def _initial_block(pool: int, size: int, counts: IntArray, rng: np.random.Generator) -> IntArray:
    """Return a block whose differences, added to the counts so far, are as even as found."""
    step = len(counts)
    classes = np.arange(pool).reshape(-1, step)

    def draw() -> IntArray:
        chosen = [rng.permutation(classes[:, c])[: size // step] for c in range(step)]
        return np.concatenate(chosen)

    def cost(block: IntArray) -> int:
        return int(((counts + _differences(block, pool, step)) ** 2).sum())

    def found() -> IntArray:
        block = min((draw() for _ in range(INITIAL_BLOCKS)), key=cost)
        best = cost(block)
        for _ in range(EXCHANGES if size < pool else 0):
            place = int(rng.integers(size))
            fresh = int(rng.choice(classes[:, block[place] % step]))
            if fresh in block:
                continue
            changed = block.copy()
            changed[place] = fresh
            if (cheaper := cost(changed)) <= best:
                block, best = changed, cheaper
        return block

    def spread(block: IntArray) -> tuple[int, int]:
        meetings = (counts + _differences(block, pool, step))[:, 1:]
        return int(meetings.max() - meetings.min()), cost(block)

    return min((found() for _ in range(SEARCHES)), key=spread)


def _evenly_ordered(block: IntArray, follows: IntArray, rng: np.random.Generator) -> IntArray:
    """Return the block in an order whose steps, with the counts so far, are as even as found."""

    def cost(order: IntArray) -> int:
        return int(((follows + _steps(order, len(follows))) ** 2).sum())

    order = rng.permutation(block)
    best = cost(order)
    for one, other in rng.integers(len(block), size=(EXCHANGES, 2)).tolist():
        changed = order.copy()
        changed[[one, other]] = changed[[other, one]]
        if (found := cost(changed)) <= best:
            order, best = changed, found
    return order


def _steps(order: IntArray, pool: int) -> IntArray:
    """Return how often each difference modulo the pool leads from one item to the next."""
    return np.bincount(np.diff(order) % pool, minlength=pool)


def _differences(block: IntArray, pool: int, step: int) -> IntArray:
    """Return how often each (residue of the first item, difference) occurs; 0 apart left out."""
    apart = (block[None, :] - block[:, None]) % pool
    keys = (block % step)[:, None] * pool + apart
    counts = np.bincount(keys.ravel(), minlength=step * pool).reshape(step, pool)
    counts[:, 0] = 0
    return counts
