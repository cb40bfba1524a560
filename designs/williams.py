"""Williams squares: every item in every position, every item after every other, equally often.

The construction is cyclic: the zig-zag row 0, 1, v-1, 2, v-2, … has consecutive differences that
run through all residues 1 … v-1 once when v is even, so its v shifts hold every ordered neighbour
pair exactly once. When v is odd no single square can do that in general; the square together with
its mirror image (each row read backwards) holds every ordered pair, and every position, exactly
twice.

Balance is a property of complete squares. A design is therefore counted in blocks (v batches for
even v, 2 v for odd v), the items are assigned to the symbols anew for each block, and the block is
the unit that a bootstrap resamples. Under that randomization each single batch is a uniformly
random order, as in a shuffle.
"""

from collections.abc import Hashable, Iterable

import numpy as np
import numpy.typing as npt

from benchtrial.designs.checks import Seed, as_count, as_ids, generator
from benchtrial.designs.schedule import BatchSchedule, IntArray, batch_schedule
from benchtrial.errors import DesignError


def williams_square(v: int) -> IntArray:
    """Return the Williams square of v symbols, or the square and its mirror when v is odd.

    Parameters
    ----------
    v
        Number of symbols, at least 2.

    Returns
    -------
    ndarray of int, shape (v, v) for even v and (2 v, v) for odd v
        Symbols 0 … v-1; each row is one order. Every symbol is in every column equally often (once,
        or twice for odd v), and so is every ordered pair of neighbours.

    Raises
    ------
    DesignError
        If v is below 2: one item has no neighbour to be balanced against.

    References
    ----------
    E. J. Williams (1949), Experimental designs balanced for the estimation of residual effects of
    treatments, Australian Journal of Scientific Research A 2, 149-168.
    """
    v = as_count(v, "v (symbols of a Williams square)", least=2)
    places = np.arange(v)
    zigzag = np.where(places % 2 == 1, (places + 1) // 2, -(places // 2)) % v
    square: IntArray = (zigzag + places[:, None]) % v
    return square if v % 2 == 0 else np.concatenate([square, square[:, ::-1]])


def williams_row(v: int, index: int) -> IntArray:
    """Return one order of the Williams square of v symbols, for callers that count as they go.

    Row 0 is the first. After the last row (v of them, or 2 v for odd v) the first comes again: the
    row is ``index`` modulo the number of rows. Only whole multiples of that number are balanced.

    Raises
    ------
    DesignError
        If v is below 2 or the index is negative.
    """
    square = williams_square(v)
    index = as_count(index, "index (row of a Williams square)", least=0)
    row: IntArray = square[index % len(square)]
    return row


def williams_blocks(v: int, batches: int) -> int:
    """Return how many Williams blocks a number of batches makes.

    Raises
    ------
    DesignError
        If the batches are not a whole number of blocks; the message names the nearest numbers that
        are. A broken block is not balanced.
    """
    rows = len(williams_square(v))
    batches = as_count(batches, "batches", least=1)
    blocks, rest = divmod(batches, rows)
    if rest:
        nearest = [str(count * rows) for count in (blocks, blocks + 1) if count]
        raise DesignError(
            f"batches: {batches} are not whole Williams blocks of {rows} batches for {v} items; "
            f"the nearest valid choice is {' or '.join(nearest)}"
        )
    return blocks


def williams(
    items: Iterable[Hashable], blocks: int, *, seed: Seed, randomize_symbols: bool = True
) -> BatchSchedule:
    """Order the whole pool by complete Williams squares.

    Parameters
    ----------
    items
        Ids of the pool, at least two.
    blocks
        Number of blocks, each v batches for an even number v of items and 2 v for an odd one.
    seed
        An integer, a numpy Generator or a SeedSequence.
    randomize_symbols
        Assign the items to the symbols at random, anew for each block. Without it every block
        repeats the same square, with the items in the order given.

    Returns
    -------
    BatchSchedule
        The design block of a batch is its Williams block.

    Raises
    ------
    DesignError
        For fewer than two items, unusable ids or less than one block.
    """
    pool = as_ids(items, "items", least=2)
    blocks = as_count(blocks, "blocks (Williams squares)", least=1)
    square = williams_square(len(pool))
    if randomize_symbols:
        return relabelled(pool, square, blocks, seed=seed)
    return batch_schedule(
        pool, np.tile(square, (blocks, 1)), np.repeat(np.arange(blocks), len(square)).tolist()
    )


def relabelled(
    items: Iterable[Hashable], square: npt.ArrayLike, blocks: int, *, seed: Seed
) -> BatchSchedule:
    """Repeat any square of orders, with the items assigned to its symbols anew for each block.

    Parameters
    ----------
    items
        Ids of the pool.
    square
        Integers, shape (rows, positions): symbols 0 … v-1 for v items, one order in each row.
    blocks
        Number of blocks, each all the rows of the square.
    seed
        An integer, a numpy Generator or a SeedSequence.

    Returns
    -------
    BatchSchedule
        The design block of a batch is its copy of the square.

    Raises
    ------
    DesignError
        For unusable ids, less than one block or symbols that do not match the items.
    """
    pool = as_ids(items, "items", least=2)
    blocks = as_count(blocks, "blocks", least=1)
    symbols = np.asarray(square)
    if symbols.ndim != 2 or symbols.min() < 0 or symbols.max() >= len(pool):
        raise DesignError(
            f"square: its symbols must be a table of 0 … {len(pool) - 1} for {len(pool)} items"
        )
    rng = generator(seed)
    orders = np.concatenate([rng.permutation(len(pool))[symbols] for _ in range(blocks)])
    return batch_schedule(pool, orders, np.repeat(np.arange(blocks), len(symbols)).tolist())
