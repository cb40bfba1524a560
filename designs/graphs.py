"""Which pairs of candidates to compare: all, a star around a baseline, or a sparse circulant.

A graph of comparisons has to be connected, or scores in different parts cannot be compared; the
more evenly it is connected, the smaller the variance of a contrast for the same number of pairs.
All pairs are best when every contrast matters; a star spends everything on the contrasts with its
centre; a circulant of degree d touches every candidate d times with M d / 2 pairs, and its random
steps keep the distances short.
"""

from collections.abc import Hashable, Iterable
from itertools import combinations

import numpy as np

from benchtrial.designs.checks import ItemId, Seed, as_count, as_ids, generator
from benchtrial.errors import DesignError

Pair = tuple[ItemId, ItemId]

CIRCULANT_TRIES = 64
"""Random sets of steps tried; the second eigenvalue has a sharp maximum that 64 draws come near."""


def all_pairs(candidates: Iterable[Hashable]) -> tuple[Pair, ...]:
    """Return every pair of candidates."""
    return tuple(combinations(as_ids(candidates, "candidates", least=2), 2))


def star(candidates: Iterable[Hashable], centre: Hashable) -> tuple[Pair, ...]:
    """Return the pairs of a baseline with every other candidate.

    Raises
    ------
    DesignError
        If the centre is not one of the candidates.
    """
    pool = as_ids(candidates, "candidates", least=2)
    if centre not in pool:
        raise DesignError(f"star: {centre!r} is not a candidate; choose one of {_listed(pool)}")
    hub = pool[pool.index(centre)]
    return tuple((hub, other) for other in pool if other != hub)


def circulant(candidates: Iterable[Hashable], degree: int, *, seed: Seed) -> tuple[Pair, ...]:
    """Return a sparse connected set of pairs in which every candidate meets ``degree`` others.

    The candidates are placed on a ring at random and each is paired with those a few fixed steps
    away. Of several random sets of steps the one with the largest algebraic connectivity is taken:
    its worst-estimated contrast has the smallest variance.

    Parameters
    ----------
    candidates
        Ids, at least three.
    degree
        Pairs for each candidate, from 2 to one less than the number of candidates; even when that
        number is odd.
    seed
        An integer, a numpy Generator or a SeedSequence.

    Raises
    ------
    DesignError
        For unusable ids or a degree that no such graph has.

    References
    ----------
    M. Fiedler (1973), Algebraic connectivity of graphs, Czechoslovak Mathematical Journal 23,
    298-305.
    """
    pool = as_ids(candidates, "candidates", least=3)
    count = len(pool)
    degree = as_count(degree, "degree", least=2, most=count - 1)
    if degree % 2 and count % 2:
        raise DesignError(
            f"degree: {count} candidates cannot each meet {degree} others, because {count} x "
            f"{degree} is odd; the nearest valid choice is {degree - 1} or {degree + 1}"
        )
    rng = generator(seed)
    ring = rng.permutation(count)
    steps = _best_steps(count, degree, rng)
    return tuple(
        (pool[ring[place]], pool[ring[(place + step) % count]])
        for step in steps
        for place in range(count if 2 * step != count else count // 2)
    )


def named_pairs(
    pairs: str | Iterable[tuple[Hashable, Hashable]], candidates: tuple[ItemId, ...], *, seed: Seed
) -> tuple[Pair, ...]:
    """Return the pairs that a study asks for, by name or as a list.

    Parameters
    ----------
    pairs
        ``"all"``, ``"star:<candidate>"``, ``"circulant:<degree>"`` or a list of pairs.
    candidates
        Ids, checked before.
    seed
        For the circulant.

    Raises
    ------
    DesignError
        For an unknown name, an unknown candidate, a candidate paired with itself, a pair listed
        twice (in either order) or no pair at all.
    """
    if not isinstance(pairs, str):
        return _checked_pairs(pairs, candidates)
    kind, _, detail = pairs.partition(":")
    if pairs == "all":
        return all_pairs(candidates)
    if kind == "star":
        return star(candidates, {str(one): one for one in candidates}.get(detail, detail))
    if kind == "circulant" and detail.isdecimal():
        return circulant(candidates, int(detail), seed=seed)
    raise DesignError(
        f"pairs: {pairs!r} is not known; "
        "write 'all', 'star:<candidate>', 'circulant:<degree>' or a list of pairs"
    )


def spread_pairs(edges: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return pairs in a random order whose every stretch touches the candidates evenly.

    The pairs are cut into rounds in which no candidate occurs twice (a greedy edge colouring in
    random order, which needs less than twice as many rounds as the busiest candidate has pairs),
    and the rounds follow one another.

    Parameters
    ----------
    edges
        Places of candidates, shape (pairs, 2).
    rng
        Random generator.
    """
    shuffled = rng.permutation(edges)
    busy: dict[int, int] = {}
    rounds = np.empty(len(shuffled), dtype=np.int64)
    for row, (one, other) in enumerate(shuffled.tolist()):
        taken = busy.get(one, 0) | busy.get(other, 0)
        lowest_free = ~taken & (taken + 1)
        rounds[row] = lowest_free.bit_length()
        busy[one] = busy.get(one, 0) | lowest_free
        busy[other] = busy.get(other, 0) | lowest_free
    return shuffled[np.argsort(rounds, kind="stable")]


def _checked_pairs(
    pairs: Iterable[tuple[Hashable, Hashable]], candidates: tuple[ItemId, ...]
) -> tuple[Pair, ...]:
    checked: dict[frozenset[ItemId], Pair] = {}
    for number, listed in enumerate(pairs, 1):
        pair = as_ids(listed, f"pairs, pair {number}", least=2)
        if len(pair) != 2:
            raise DesignError(f"pairs, pair {number}: {pair!r} is not two candidates")
        for one in pair:
            if one not in candidates:
                raise DesignError(
                    f"pairs, pair {number}: {one!r} is not a candidate; "
                    f"choose from {_listed(candidates)}"
                )
        if frozenset(pair) in checked:
            raise DesignError(
                f"pairs, pair {number}: {pair!r} is listed before; a pair is asked in both orders "
                "anyway, and more often by repetitions"
            )
        checked[frozenset(pair)] = (pair[0], pair[1])
    if not checked:
        raise DesignError("pairs: none given; the nearest valid choice is one pair")
    return tuple(checked.values())


def _best_steps(count: int, degree: int, rng: np.random.Generator) -> list[int]:
    """Return the steps around a ring of ``count`` with the largest algebraic connectivity.

    The first set tried is 1, 2, 3, …, which is connected, and one that is not connected has a
    connectivity of zero, so that the result always is.
    """
    whole = np.arange(1, (count - 1) // 2 + 1)
    half = [count // 2] if degree % 2 else []
    angles = 2 * np.pi * np.outer(np.arange(1, count // 2 + 1), np.arange(count // 2 + 1)) / count
    gain = 2 * (1 - np.cos(angles))
    best, steps = 0.0, []
    for attempt in range(CIRCULANT_TRIES):
        drawn = np.sort(rng.choice(whole, degree // 2, replace=False))
        if attempt == 0:
            drawn = whole[: degree // 2]
        eigenvalues = gain[:, drawn].sum(axis=1) + sum(gain[:, step] / 2 for step in half)
        connectivity = round(float(eigenvalues.min()), 9)
        if connectivity > best:
            best, steps = connectivity, [*drawn.tolist(), *half]
    return steps


def _listed(ids: tuple[ItemId, ...]) -> str:
    shown = ", ".join(repr(one) for one in ids[:8])
    return shown if len(ids) <= 8 else f"{shown}, … ({len(ids)} in all)"
