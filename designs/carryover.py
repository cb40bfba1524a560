"""Squares that also balance the item before the previous one: carryover of order two.

A Williams square repeats itself two places back: in its zig-zag row every second item is the next
one, so that an item meets only two others there. Judges with a longer memory need better squares.

* If v + 1 is a prime p, the multiplication table modulo p is one: row i reads i, 2 i, 3 i, …, and
  an ordered pair (a, b) occurs d places apart only in row (b - a) / d, hence at most once, for
  every distance d, and exactly once for neighbours. It has v rows.
* Otherwise a row is searched whose neighbours and second neighbours both run evenly through the
  differences modulo v, up to sign; its shifts and their mirror images are 2 v rows. Neighbours are
  exactly balanced. Second neighbours cannot be, because there are v - 2 of them for v - 1
  differences; the search reaches counts that differ by one up to v = 14, and by two to four above
  (``balance`` says what was reached).
* If v is a prime power, the affine maps x → a x + b of the field of v elements give v (v - 1)
  orders in which every ordered pair occurs equally often at every two positions: exact for all
  orders of carryover at once, at the price of a long block.
"""

from collections.abc import Hashable, Iterable
from functools import lru_cache
from itertools import product

import numpy as np

from benchtrial.designs.checks import Seed, as_count, as_ids
from benchtrial.designs.schedule import BatchSchedule, IntArray
from benchtrial.designs.williams import relabelled, williams_square
from benchtrial.errors import DesignError

LARGEST = 200
"""Largest square searched for: beyond it the search no longer balances the neighbours exactly."""

MOVES, MOVES_PER_SYMBOL = 40_000, 2_000
"""Moves of the search: under a second up to 40 symbols, some seconds for 200."""

HOT, COLD = 1.3, 0.2
"""First and last temperature of the search, in units of one unbalanced difference. It stays warm
enough to pass often through rows whose neighbours are exact, among which the best is kept."""

ATTEMPTS = 5
"""Searches for one row with exact neighbours; one is nearly always enough, the second suffices for
the rest up to 200 symbols (measured)."""

LEAST_UNEVEN = 1
"""Sum of squares of the best second neighbours: one difference is short by one."""

NEIGHBOUR_WEIGHT = 4
"""Unbalanced neighbours against unbalanced second neighbours; with 2, rows of 200 symbols never get
exact neighbours, and with 6 the second neighbours come out worse (measured)."""


def carryover(items: Iterable[Hashable], blocks: int, *, seed: Seed) -> BatchSchedule:
    """Order the whole pool by squares that balance predecessors of order one and two.

    Parameters
    ----------
    items
        Ids of the pool, from 2 to 200.
    blocks
        Number of blocks: each v batches if v + 1 is prime, and 2 v otherwise. Items are assigned to
        symbols at random, anew for each block.
    seed
        An integer, a numpy Generator or a SeedSequence.

    Returns
    -------
    BatchSchedule
        The design block of a batch is its square.

    Raises
    ------
    DesignError
        For fewer than two items or more than 200, unusable ids or less than one block.
    """
    pool = as_ids(items, "items", least=2)
    return relabelled(pool, carryover_square(len(pool)), blocks, seed=seed)


def carryover_square(v: int) -> IntArray:
    """Return a square of v symbols that is balanced for neighbours and nearly so two places back.

    Parameters
    ----------
    v
        Number of symbols, from 2 to 200.

    Returns
    -------
    ndarray of int, shape (v, v) if v + 1 is prime and (2 v, v) otherwise
        Every symbol is in every column equally often, and every ordered pair of neighbours occurs
        equally often (once or twice).

    References
    ----------
    S. W. Golomb and H. Taylor (1985), Tuscan squares: a new family of combinatorial designs, Ars
    Combinatoria 20-B, 115-132.
    """
    v = as_count(v, "v (symbols of a carryover square)", least=2, most=LARGEST)
    if _is_prime(v + 1):
        factors = np.arange(1, v + 1)
        table: IntArray = np.outer(factors, factors) % (v + 1) - 1
        return table
    shifted: IntArray = (np.array(_even_row(v)) + np.arange(v)[:, None]) % v
    return np.concatenate([shifted, shifted[:, ::-1]])


def affine_square(v: int) -> IntArray:
    """Return v (v - 1) orders in which every ordered pair is at every two positions equally often.

    Parameters
    ----------
    v
        Number of symbols: a prime or a power of one, up to 200.

    Returns
    -------
    ndarray of int, shape (v (v - 1), v)
        An orthogonal array of strength two: for any two columns, each ordered pair of different
        symbols occurs once.

    Raises
    ------
    DesignError
        If v is not a prime power; the message names the nearest that are.

    References
    ----------
    C. R. Rao (1961), Combinatorial arrangements analogous to orthogonal arrays, Sankhya A 23,
    283-286.
    """
    v = as_count(v, "v (symbols of an affine square)", least=2, most=LARGEST)
    if len(_prime_factors(v)) > 1:
        below = next(near for near in range(v, 1, -1) if len(_prime_factors(near)) == 1)
        above = next(near for near in range(v, 2 * v) if len(_prime_factors(near)) == 1)
        raise DesignError(
            f"v: there is no affine square of {v} symbols, which is not a power of a prime; "
            f"the nearest valid choice is {below} or {above}"
        )
    add, multiply = _field(v)
    return np.concatenate([add[multiply[a]].T for a in range(1, v)])


@lru_cache(maxsize=16)
def _even_row(v: int) -> tuple[int, ...]:
    """Return the best row found by annealing, starting from the zig-zag of Williams.

    A move reads a stretch of the row backwards. The differences inside the stretch only change
    sign, which the mirror image undoes, so that only those at its two ends have to be counted.
    Temperatures are turned into whole numbers beforehand, and so the search is the same everywhere.
    """
    rng = np.random.default_rng(v)
    moves = MOVES + MOVES_PER_SYMBOL * v
    cooling = HOT * (COLD / HOT) ** (np.arange(moves) / moves)
    start = williams_square(v)[0].tolist()
    best, row = _Search(start).uneven[1], tuple(start)
    for _ in range(ATTEMPTS if best > LEAST_UNEVEN else 0):
        search = _Search(list(start))
        ends = np.sort(rng.integers(0, v, size=(moves, 2)), axis=1).tolist()
        allowed = np.floor(rng.standard_exponential(moves) * cooling).astype(np.int64).tolist()
        for (first, last), worse in zip(ends, allowed, strict=True):
            search.reverse(first, last, worse)
            if not search.uneven[0] and search.uneven[1] < best:
                best, row = search.uneven[1], tuple(search.row)
                if best == LEAST_UNEVEN:
                    return row
        if row != tuple(start):
            break
    return row


class _Search:
    """A row and how unevenly its differences, up to sign, occur one and two places apart."""

    def __init__(self, row: list[int]) -> None:
        v = len(row)
        self.row = row
        self.group = [min(difference, v - difference) for difference in range(v)]
        wanted = [0, *(1 if 2 * group == v else 2 for group in range(1, v // 2 + 1))]
        self.surplus = [[-count for count in wanted] for _ in range(2)]
        for lag, surplus in enumerate(self.surplus, 1):
            for one, other in zip(row, row[lag:], strict=False):
                surplus[self.group[other - one]] += 1
        self.uneven = [sum(x * x for x in surplus) for surplus in self.surplus]

    def reverse(self, start: int, stop: int, worse: int) -> None:
        """Reverse places start to stop, unless that costs more than ``worse``."""
        row, group, last = self.row, self.group, len(self.row) - 1
        if start == stop or (start == 0 and stop == last):
            return
        lost, won = ([], []), ([], [])  # type: tuple[list[int], list[int]], tuple[list[int], list[int]]
        if start:
            before = row[start - 1]
            lost[0].append(group[row[start] - before])
            won[0].append(group[row[stop] - before])
            lost[1].append(group[row[start + 1] - before])
            won[1].append(group[row[stop - 1] - before])
            if start > 1:
                lost[1].append(group[row[start] - row[start - 2]])
                won[1].append(group[row[stop] - row[start - 2]])
        if stop < last:
            after = row[stop + 1]
            lost[0].append(group[after - row[stop]])
            won[0].append(group[after - row[start]])
            lost[1].append(group[after - row[stop - 1]])
            won[1].append(group[after - row[start + 1]])
            if stop + 1 < last:
                lost[1].append(group[row[stop + 2] - row[stop]])
                won[1].append(group[row[stop + 2] - row[start]])
        change = [self._count(lag, lost[lag], won[lag]) for lag in (0, 1)]
        if NEIGHBOUR_WEIGHT * change[0] + change[1] > worse:
            for lag in (0, 1):
                self._count(lag, won[lag], lost[lag])
            return
        row[start : stop + 1] = row[start : stop + 1][::-1]
        self.uneven = [old + more for old, more in zip(self.uneven, change, strict=True)]

    def _count(self, lag: int, lost: list[int], won: list[int]) -> int:
        """Count differences out and in, and return the change of the sum of squares."""
        surplus, change = self.surplus[lag], 0
        for group in lost:
            change -= 2 * surplus[group] - 1
            surplus[group] -= 1
        for group in won:
            change += 2 * surplus[group] + 1
            surplus[group] += 1
        return change


def _is_prime(number: int) -> bool:
    return _prime_factors(number) == {number}


def _prime_factors(number: int) -> set[int]:
    factors, divisor = set(), 2
    while number > 1:
        if number % divisor:
            divisor += 1
        else:
            factors.add(divisor)
            number //= divisor
    return factors


def _field(q: int) -> tuple[IntArray, IntArray]:
    """Return the addition and multiplication tables of the field of q = p^m elements.

    An element is the number whose digits in base p are the coefficients of a polynomial. Products
    are reduced by the first monic polynomial of degree m that leaves no divisors of zero.
    """
    (p,) = _prime_factors(q)
    m = next(power for power in range(1, q) if p**power == q)
    powers = p ** np.arange(m)
    digits = np.arange(q)[:, None] // powers % p
    add: IntArray = (digits[:, None] + digits) % p @ powers
    for tail in product(range(p), repeat=m):
        multiply = np.zeros((q, q), dtype=np.int64)
        shifted = digits.copy()
        for power in range(m):
            terms = digits[:, None, power, None] * shifted[None]
            multiply = add[multiply, terms % p @ powers]
            carried = shifted[:, -1:]
            shifted = np.roll(shifted, 1, axis=1)
            shifted[:, :1] = 0
            shifted = (shifted - carried * np.array(tail)) % p
        if (multiply[1:, 1:] != 0).all():
            return add, multiply
    raise AssertionError("every prime power has a field")  # pragma: no cover
