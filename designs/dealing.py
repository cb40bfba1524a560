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
"""Random initial blocks of which the best is improved; more gain next to nothing (measured)."""

INITIAL_EXCHANGES = 400
"""Exchanges tried in the best initial block."""


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
            decks[stratum] = np.delete(deck, card)
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


def develop(pool: int, size: int, batches: int, rng: np.random.Generator) -> list[IntArray] | None:
    """Return batches developed around a ring, or None if fewer are wanted than one full turn.

    A turn takes ``pool`` batches. If the size and the pool have a common divisor d, an initial
    block with equally many items of each residue modulo d can be shifted by d instead, which takes
    ``pool / d`` batches; the smallest divisor that fits is used. What is left over after whole
    turns is not developed: fewer batches than asked for come back.
    """
    step = next((d for d in range(1, size + 1) if _divides(d, pool, size, batches)), None)
    if step is None:
        return None
    ring = rng.permutation(pool)
    turn = pool // step
    counts = np.zeros(step * pool, dtype=np.int64)
    shifts = step * np.arange(turn)[:, None]
    developed: list[IntArray] = []
    for _ in range(batches // turn):
        block = _initial_block(pool, size, step, counts, rng)
        counts += _differences(block, pool, step)
        developed.extend(ring[(block + shifts) % pool])
    return developed


def _divides(d: int, pool: int, size: int, batches: int) -> bool:
    return pool % d == 0 and size % d == 0 and pool // d <= batches


def _initial_block(
    pool: int, size: int, step: int, counts: IntArray, rng: np.random.Generator
) -> IntArray:
    """Return a block whose differences, added to the counts so far, are as even as found."""

    def cost(block: IntArray) -> int:
        total = counts + _differences(block, pool, step)
        return int(total @ total)

    classes = np.arange(pool).reshape(-1, step)

    def draw() -> IntArray:
        return np.concatenate([rng.permutation(classes[:, c])[: size // step] for c in range(step)])

    block = min((draw() for _ in range(INITIAL_BLOCKS)), key=cost)
    best = cost(block)
    for _ in range(INITIAL_EXCHANGES if size < pool else 0):
        place = int(rng.integers(size))
        fresh = int(rng.choice(classes[:, block[place] % step]))
        if fresh in block:
            continue
        changed = block.copy()
        changed[place] = fresh
        if (found := cost(changed)) <= best:
            block, best = changed, found
    return block


def _differences(block: IntArray, pool: int, step: int) -> IntArray:
    """Return how often each (residue of the first item, difference) occurs; 0 apart left out."""
    apart = (block[None, :] - block[:, None]) % pool
    counts = np.bincount(((block % step)[:, None] * pool + apart).ravel(), minlength=step * pool)
    counts[np.arange(step) * pool] = 0
    return counts
