"""Balanced swaps: every pair is shown to every judge in both orders equally often.

A judge that leans towards the response shown first favours each candidate equally often, and its
lean can be told apart from the candidates' merit. One unit of asking is therefore both orders of
one judge, prompt and pair; which order is asked first is drawn at random, in balance.

A campaign may stop anywhere, so every beginning of the schedule has to be a good design. Question
number q asks prompt ``q mod P`` about pair ``(q + q // lcm(P, E)) mod E``, with P prompts and E
pairs each in a random order: after P E questions every prompt has met every pair once, and after
any number of questions the prompts differ by at most one question and so do the pairs. Pairs are
ordered so that the candidates, too, come up evenly. Verdicts on one prompt are correlated, so that
this spread over prompts is also what makes the standard errors of an early look small.
"""

from collections.abc import Hashable, Iterable, Mapping
from math import lcm

import numpy as np

from benchtrial.designs.checks import ItemId, Seed, as_count, as_ids, generator
from benchtrial.designs.graphs import named_pairs, spread_pairs
from benchtrial.designs.schedule import (
    FIRST,
    JUDGE,
    PROMPT,
    REPETITION,
    SECOND,
    IntArray,
    PairSchedule,
)
from benchtrial.errors import DesignError

ANY_JUDGE = "judge"
"""Who is asked when no judges are named."""


def balanced_swaps(
    candidates: Iterable[Hashable],
    prompts: Iterable[Hashable],
    *,
    seed: Seed,
    judges: Iterable[Hashable] | Mapping[str, float] | Mapping[int, float] | None = None,
    pairs: str | Iterable[tuple[Hashable, Hashable]] = "all",
    repetitions: int = 1,
) -> PairSchedule:
    """Ask every judge about every pair of responses to every prompt, in both orders.

    Parameters
    ----------
    candidates, prompts
        Ids of what is compared (at least two) and of what they responded to (at least one).
    seed
        An integer, a numpy Generator or a SeedSequence.
    judges
        Ids of the judges, who are all asked each question before the next comes; or a mapping from
        id to the share of the questions, above 0 and up to 1, that the judge answers. A judge with
        a smaller share walks the same sequence of questions more slowly and does not reach its
        end, so that its own verdicts are as balanced as those of the others. One judge,
        ``"judge"``, if not given.
    pairs
        ``"all"``, ``"star:<candidate>"``, ``"circulant:<degree>"`` or a list of pairs.
    repetitions
        How often everything is asked.

    Returns
    -------
    PairSchedule
        Every beginning of it is nearly balanced over prompts, pairs and candidates.

    Raises
    ------
    DesignError
        For unusable ids, pairs, shares or counts.
    """
    pool = as_ids(candidates, "candidates", least=2)
    topics = as_ids(prompts, "prompts", least=1)
    panel, shares = _panel(judges)
    repetitions = as_count(repetitions, "repetitions", least=1)
    rng = generator(seed)
    place = {one: number for number, one in enumerate(pool)}
    edges = np.array([(place[a], place[b]) for a, b in named_pairs(pairs, pool, seed=rng)])
    questions = np.concatenate(
        [_questions(len(topics), edges, repetition, rng) for repetition in range(repetitions)]
    )
    return PairSchedule(panel, topics, pool, _lead(_walk(questions, shares, rng), rng))


def grow_swaps(
    schedule: PairSchedule,
    candidates: Iterable[Hashable],
    prompts: Iterable[Hashable],
    *,
    seed: Seed,
    judges: Iterable[Hashable] | Mapping[str, float] | Mapping[int, float] | None = None,
    pairs: str | Iterable[tuple[Hashable, Hashable]] = "all",
    repetitions: int = 1,
) -> PairSchedule:
    """Continue a running schedule towards a larger study.

    What was asked stays in its place. What the larger study asks beyond it follows: the balanced
    schedule of the larger study without the units that are already there. The whole is then exactly
    the larger study, and a candidate, prompt, judge or repetition that is new is asked about in the
    same even order as if it had been there alone.

    Parameters
    ----------
    schedule
        What was asked so far, or was going to be.
    candidates, prompts, judges, pairs, repetitions
        The larger study, as for :func:`balanced_swaps`. What was asked about ids that only the old
        schedule has is kept; they are not asked about again.
    seed
        An integer, a numpy Generator or a SeedSequence.

    Returns
    -------
    PairSchedule
        The old units, in their order, and then the new ones.

    Raises
    ------
    DesignError
        As for :func:`balanced_swaps`, and where an old and a new id are written alike.
    """
    larger = balanced_swaps(
        candidates, prompts, seed=seed, judges=judges, pairs=pairs, repetitions=repetitions
    )
    ids = tuple(
        as_ids(dict.fromkeys((*old, *new)), what, least=1)
        for what, old, new in (
            ("judges", schedule.judges, larger.judges),
            ("prompts", schedule.prompts, larger.prompts),
            ("candidates", schedule.candidates, larger.candidates),
        )
    )
    asked = _recoded(schedule, ids)
    wanted = _recoded(larger, ids)
    known = {tuple(unit) for unit in _unordered(asked).tolist()}
    fresh = [tuple(unit) not in known for unit in _unordered(wanted).tolist()]
    judge_ids, prompt_ids, candidate_ids = ids
    return PairSchedule(
        judge_ids, prompt_ids, candidate_ids, np.concatenate([asked, wanted[fresh]])
    )


def _panel(
    judges: Iterable[Hashable] | Mapping[str, float] | Mapping[int, float] | None,
) -> tuple[tuple[ItemId, ...], list[float]]:
    if judges is None:
        return (ANY_JUDGE,), [1.0]
    panel = as_ids(judges, "judges", least=1)
    if not isinstance(judges, Mapping):
        return panel, [1.0] * len(panel)
    for judge, share in judges.items():
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
            raise DesignError(
                f"judges: the share of {judge!r} is {share!r}; it is the part of the questions "
                "that the judge answers, above 0 and at most 1"
            )
    return panel, [float(share) for share in judges.values()]


def _questions(
    prompts: int, edges: IntArray, repetition: int, rng: np.random.Generator
) -> IntArray:
    """Return (prompt, candidate, candidate, repetition) for every question, in order of asking."""
    pairs = len(edges)
    number = np.arange(prompts * pairs)
    prompt = rng.permutation(prompts)[number % prompts]
    pair = spread_pairs(edges, rng)[(number + number // lcm(prompts, pairs)) % pairs]
    return np.column_stack([prompt, pair, np.full(len(number), repetition)])


def _walk(questions: IntArray, shares: list[float], rng: np.random.Generator) -> IntArray:
    """Return the units of asking: every judge walks the questions, at the pace of its share.

    A judge with n questions to answer has its i-th at time (i + 1/2) / n, so that all of them
    finish together; judges with equal shares meet at every question, in a random order.
    """
    judges, places, times = [], [], []
    for judge, share in enumerate(shares):
        count = max(1, round(share * len(questions)))
        judges.append(np.full(count, judge))
        places.append(np.arange(count))
        times.append((np.arange(count) + 0.5) / count)
    asked, place = np.concatenate(judges), np.concatenate(places)
    order = np.lexsort((rng.permutation(len(asked)), place, np.concatenate(times)))
    return np.column_stack([asked[order], questions[place[order]]])


def _lead(units: IntArray, rng: np.random.Generator) -> IntArray:
    """Draw which order is asked first, evenly for each judge and pair.

    Of every two visits of a judge to a pair, one at random leads with each order.
    """
    low, high = np.sort(units[:, [FIRST, SECOND]], axis=1).T
    wide = int(high.max()) + 1
    _, group = np.unique((units[:, JUDGE] * wide + low) * wide + high, return_inverse=True)
    sorted_units = np.argsort(group, kind="stable")
    sizes = np.bincount(group)
    visit = np.empty(len(units), dtype=np.int64)
    visit[sorted_units] = np.arange(len(units)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    coin = rng.integers(0, 2, size=(len(sizes), int(sizes.max()) // 2 + 1))
    turned = (coin[group, visit // 2] + visit) % 2 == 1
    led = units.copy()
    led[:, FIRST] = np.where(turned, high, low)
    led[:, SECOND] = np.where(turned, low, high)
    return led


def _recoded(schedule: PairSchedule, ids: tuple[tuple[ItemId, ...], ...]) -> IntArray:
    """Return the codes of a schedule as places in longer lists of judges, prompts, candidates."""
    places = [{one: number for number, one in enumerate(names)} for names in ids]
    judge, prompt, candidate = (
        np.array([new[one] for one in own], dtype=np.int64)
        for new, own in zip(
            places, (schedule.judges, schedule.prompts, schedule.candidates), strict=True
        )
    )
    codes = schedule.codes
    return np.column_stack(
        [
            judge[codes[:, JUDGE]],
            prompt[codes[:, PROMPT]],
            candidate[codes[:, FIRST]],
            candidate[codes[:, SECOND]],
            codes[:, REPETITION],
        ]
    )


def _unordered(codes: IntArray) -> IntArray:
    """Return units without the order that leads: what makes two of them the same question."""
    unordered = codes.copy()
    unordered[:, [FIRST, SECOND]] = np.sort(codes[:, [FIRST, SECOND]], axis=1)
    return unordered
