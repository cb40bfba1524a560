"""Position effects read off matched swaps, without any model of quality.

A matched swap is one judge's verdicts on the same two responses to the same prompt in both orders.
Whatever makes one response better is the same in both, so what differs is position. Three readings
of it, from the plainest to the sharpest:

* how often the two orders agree (:func:`swap_consistency`);
* by how much the first slot is favoured on average (:func:`position_summary`, appendix C.4);
* the position coefficient itself (:func:`matched_swap_position`, appendix D.2): conditional
  logistic regression given how often each response was chosen, so that quality drops out.
  A judge that always takes one slot has no finite conditional maximum; Jeffreys' penalty gives one.

The verdicts themselves are never merged: averaging the two orders keeps the attenuation of
sensitivity by 1 - D^2 and throws away the record that shows it.

Source: OSCAR (arXiv 2609.24128), appendices C.3, C.4 and D.2; Firth (1993).
"""

from dataclasses import dataclass
from math import log

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import optimize, special, stats

from benchtrial.orchestrator.models.oscar.table import Comparisons, Floats, Ints, encode

#: Where the Jeffreys-penalized maximum is looked for. With n decisive swaps all in one slot it lies
#: at log(2 n + 1) / 2, so this covers any number of verdicts there will ever be.
LARGEST_POSITION = 20.0
#: Width to which the one-dimensional search is carried.
POSITION_TOLERANCE = 1e-10


def matched_swap_position(comparisons: pd.DataFrame | Comparisons) -> pd.DataFrame:
    """Estimate each judge's position coefficient from its matched swaps.

    Ties and probabilities carry no term in the conditional likelihood and are left out.

    Returns
    -------
    DataFrame, one row per judge: ``judge``; ``beta``, the position coefficient (log-odds, positive
    favours the first slot); ``d = tanh(beta / 2)``; ``se`` of beta from the conditional
    information; ``groups`` and ``informative``, the matched groups and those in which neither
    response was always chosen; ``separated``, whether every informative group points to one slot.
    beta is NaN for a judge without an informative group.
    """
    data = comparisons if isinstance(comparisons, Comparisons) else encode(comparisons)
    decisive = data.subset((data.outcome == 0) | (data.outcome == 1))
    swaps = _match(decisive)
    rows = []
    for judge, label in enumerate(data.judges):
        table = _tables(decisive, swaps, judge)
        beta, se = _jeffreys(table)
        rows.append(
            {
                "judge": label,
                "beta": beta,
                "d": float(np.tanh(beta / 2)),
                "se": se,
                "groups": len(table.chosen),
                "informative": int(table.informative.sum()),
                "separated": table.separated,
            }
        )
    return pd.DataFrame(rows)


def position_summary(comparisons: pd.DataFrame | Comparisons, level: float = 0.95) -> pd.DataFrame:
    """Summarize first-slot preference over all records and over matched swaps (C.4).

    Returns
    -------
    DataFrame, one row per judge: ``all_responses`` = 2 mean(Y) - 1 over all records and
    ``matched`` = mean over matched groups of mean(Y in one order) + mean(Y in the other) - 1, each
    with prompt-cluster t intervals (``_low``, ``_high``), and the numbers of ``records``,
    ``prompts``, ``groups`` and ``matched_prompts`` behind them.
    """
    data = comparisons if isinstance(comparisons, Comparisons) else encode(comparisons)
    swaps = _match(data)
    rows = []
    for judge, label in enumerate(data.judges):
        mine = data.judge == judge
        everything = _cluster_mean(2 * data.outcome[mine] - 1, data.prompt[mine], level)
        groups, where = swaps.of(judge)
        matched = _cluster_mean(swaps.difference(data.outcome)[groups], where, level)
        rows.append(
            {
                "judge": label,
                "all_responses": everything[0],
                "all_responses_low": everything[1],
                "all_responses_high": everything[2],
                "records": int(mine.sum()),
                "prompts": len(np.unique(data.prompt[mine])),
                "matched": matched[0],
                "matched_low": matched[1],
                "matched_high": matched[2],
                "groups": len(groups),
                "matched_prompts": len(np.unique(where)),
            }
        )
    return pd.DataFrame(rows)


def swap_consistency(comparisons: pd.DataFrame, *by: str) -> pd.DataFrame:
    """Count how often a judge's verdict survives the swap of the two responses.

    A pair of records counts once: same judge, prompt, responses and repetition, both orders. It is
    consistent if the same response won both times, or both verdicts were ties.

    Parameters
    ----------
    comparisons
        As for :func:`fit_oscar`. Without a ``repetition`` column, repeated records are paired in
        the order of the table.
    *by
        Further columns to split by, such as ``"repetition"``.

    Returns
    -------
    DataFrame with columns judge, *by, pairs, consistency, first_slot and second_slot: the shares of
    pairs with one and the same slot winning twice.
    """
    encode(comparisons)
    table = comparisons.loc[comparisons["outcome"].notna()].copy()
    low = np.minimum(*_ranks(table))
    table["_flipped"] = _ranks(table)[0] != low
    table["_pair"] = _pair_codes(table)
    unit = ["judge", "prompt", "_pair"]
    if "repetition" in table.columns:
        unit.append("repetition")
    table["_copy"] = table.groupby([*unit, "_flipped"], observed=True, dropna=False).cumcount()
    unit = list(dict.fromkeys([*unit, *by, "_copy"]))
    columns = list(dict.fromkeys([*unit, "outcome"]))
    one, two = (table.loc[table["_flipped"] == side, columns] for side in (False, True))
    both = one.merge(two, on=unit, suffixes=("_one", "_two"))
    first_one, first_two = (np.sign(both[f"outcome_{side}"] - 0.5) for side in ("one", "two"))
    both["consistency"] = (first_one == -first_two).astype(float)
    both["first_slot"] = ((first_one == 1) & (first_two == 1)).astype(float)
    both["second_slot"] = ((first_one == -1) & (first_two == -1)).astype(float)
    grouped = both.groupby(["judge", *by], observed=True)
    summary = grouped[["consistency", "first_slot", "second_slot"]].mean()
    summary.insert(0, "pairs", grouped.size())
    return summary.reset_index()


# Matching --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Swaps:
    """Matched groups: the group of each record (-1 for none), and each group's judge and prompt."""

    group: Ints
    judge: Ints
    prompt: Ints
    forward: npt.NDArray[np.bool_]

    def of(self, judge: int) -> tuple[Ints, Ints]:
        """Return the groups of one judge, and their prompts."""
        groups = np.flatnonzero(self.judge == judge)
        return groups, self.prompt[groups]

    def difference(self, outcome: Floats) -> Floats:
        """d_m = mean slot-A score in one order + mean in the other - 1, per group."""
        means = []
        for order in (self.forward, ~self.forward):
            used = (self.group >= 0) & order
            count = np.bincount(self.group[used], minlength=len(self.judge))
            means.append(np.bincount(self.group[used], outcome[used], len(self.judge)) / count)
        difference: Floats = means[0] + means[1] - 1
        return difference


def _match(data: Comparisons) -> _Swaps:
    size = len(data.candidates)
    forward = data.first < data.second
    low, high = np.minimum(data.first, data.second), np.maximum(data.first, data.second)
    key = ((data.prompt * len(data.judges) + data.judge) * size + low) * size + high
    labels, group = np.unique(key, return_inverse=True)
    both = np.zeros(len(labels), dtype=bool)
    both[np.intersect1d(group[forward], group[~forward])] = True
    number = np.where(both, np.cumsum(both) - 1, -1)
    prompt_judge = labels[both] // size**2
    return _Swaps(
        group=number[group],
        judge=prompt_judge % len(data.judges),
        prompt=prompt_judge // len(data.judges),
        forward=forward,
    )


def _ranks(table: pd.DataFrame) -> tuple[Ints, Ints]:
    codes, _ = pd.factorize(pd.concat([table["first"], table["second"]], ignore_index=True))
    return codes[: len(table)], codes[len(table) :]


def _pair_codes(table: pd.DataFrame) -> Ints:
    first, second = _ranks(table)
    size = int(max(first.max(), second.max())) + 1
    pair: Ints = np.minimum(first, second) * size + np.maximum(first, second)
    return pair


def _cluster_mean(values: Floats, cluster: Ints, level: float) -> tuple[float, float, float]:
    """Mean with a cluster-robust t interval on (clusters - 1) degrees of freedom."""
    if not len(values):
        return np.nan, np.nan, np.nan
    mean = float(values.mean())
    _, cluster = np.unique(cluster, return_inverse=True)
    sums = np.bincount(cluster, values - mean)
    clusters = len(sums)
    if clusters == 1:
        return mean, np.nan, np.nan
    se = float(np.sqrt(clusters / (clusters - 1) * (sums**2).sum())) / len(values)
    half = float(stats.t.ppf((1 + level) / 2, clusters - 1)) * se
    return mean, mean - half, mean + half


# Conditional logistic regression ---------------------------------------------------------------


@dataclass(frozen=True)
class _Tables:
    """Per matched group: records with the chosen response first and second, and its wins there."""

    first: Ints
    second: Ints
    chosen: Ints
    wins_first: Ints

    @property
    def informative(self) -> npt.NDArray[np.bool_]:
        return (self.chosen > 0) & (self.chosen < self.first + self.second)

    @property
    def separated(self) -> bool:
        """Whether every informative group lies at the same end of its range."""
        keep = self.informative
        low = np.maximum(0, self.chosen - self.second)[keep]
        high = np.minimum(self.first, self.chosen)[keep]
        wins = self.wins_first[keep]
        return bool(keep.any() and ((wins == high).all() or (wins == low).all()))


def _tables(data: Comparisons, swaps: _Swaps, judge: int) -> _Tables:
    groups, _ = swaps.of(judge)
    number = np.full(len(swaps.judge), -1)
    number[groups] = np.arange(len(groups))
    mine = (swaps.group >= 0) & (data.judge == judge)
    group, forward = number[swaps.group[mine]], swaps.forward[mine]
    won = np.where(forward, data.outcome[mine], 1 - data.outcome[mine]).astype(np.intp)
    size = len(groups)
    return _Tables(
        first=np.bincount(group[forward], minlength=size),
        second=np.bincount(group[~forward], minlength=size),
        chosen=np.bincount(group, won, size).astype(np.intp),
        wins_first=np.bincount(group[forward], won[forward], size).astype(np.intp),
    )


def _jeffreys(tables: _Tables) -> tuple[float, float]:
    """Maximize l(beta) + log I(beta) / 2; return the maximum and I^-1/2 there."""
    keep = tables.informative
    if not keep.any():
        return np.nan, np.nan
    kinds, count = np.unique(
        np.stack([tables.first[keep], tables.second[keep], tables.chosen[keep]]),
        axis=1,
        return_counts=True,
    )
    observed = float((2 * tables.wins_first[keep] - tables.chosen[keep]).sum())

    def objective(beta: float) -> float:
        log_partition, information = _conditional(kinds, count, beta)
        return log_partition - beta * observed - log(information) / 2

    found = optimize.minimize_scalar(
        objective,
        bounds=(-LARGEST_POSITION, LARGEST_POSITION),
        method="bounded",
        options={"xatol": POSITION_TOLERANCE, "maxiter": 500},
    )
    beta = float(found.x)
    return beta, float(_conditional(kinds, count, beta)[1] ** -0.5)


def _conditional(kinds: Ints, count: Ints, beta: float) -> tuple[float, float]:
    """Log partition function and information of S = sum o z given how often each was chosen.

    With a of the n first-slot records chosen and T - a of the others, S = 2 a - T has C(n, a)
    C(m, T - a) configurations: a noncentral hypergeometric distribution.
    """
    log_partition = information = 0.0
    for (n, m, chosen), times in zip(kinds.T, count, strict=True):
        a = np.arange(max(0, chosen - m), min(n, chosen) + 1)
        statistic = 2 * a - chosen
        weight = _log_choose(n, a) + _log_choose(m, chosen - a) + beta * statistic
        total = float(special.logsumexp(weight))
        probability = np.exp(weight - total)
        mean = probability @ statistic
        log_partition += times * total
        information += times * float(probability @ (statistic - mean) ** 2)
    return log_partition, information


def _log_choose(n: int, k: Ints) -> Floats:
    log: Floats = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    return log
