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

from benchtrial.orchestrator.models.oscar.arrays import Floats, Ints
from benchtrial.orchestrator.models.oscar.table import Comparisons, encode

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
    swaps = matched_groups(decisive)
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
    swaps = matched_groups(data)
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
class MatchedGroups:
    """Records of one judge, prompt and pair that were seen in both orders.

    ``group`` is the group of each record (-1 for none), ``judge`` and ``prompt`` are those of each
    group, and ``forward`` says which records show the pair in the order of the candidate codes.
    """

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
        forward, backward = self._means(outcome)
        return forward + backward - 1

    def average(self, outcome: Floats) -> Floats:
        """Mean preference for the candidate of the lower code, each order counting one half."""
        forward, backward = self._means(outcome)
        return (forward + 1 - backward) / 2

    def _means(self, outcome: Floats) -> list[Floats]:
        means = []
        for order in (self.forward, ~self.forward):
            used = (self.group >= 0) & order
            count = np.bincount(self.group[used], minlength=len(self.judge))
            means.append(np.bincount(self.group[used], outcome[used], len(self.judge)) / count)
        return means


def matched_groups(data: Comparisons) -> MatchedGroups:
    """Find the matched swaps of a table (C.3)."""
    size = len(data.candidates)
    forward = data.first < data.second
    low, high = np.minimum(data.first, data.second), np.maximum(data.first, data.second)
    key = ((data.prompt * len(data.judges) + data.judge) * size + low) * size + high
    labels, group = np.unique(key, return_inverse=True)
    both = np.zeros(len(labels), dtype=bool)
    both[np.intersect1d(group[forward], group[~forward])] = True
    number = np.where(both, np.cumsum(both) - 1, -1)
    prompt_judge = labels[both] // size**2
    return MatchedGroups(
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
    weight: Floats

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


def _tables(data: Comparisons, swaps: MatchedGroups, judge: int) -> _Tables:
    groups, _ = swaps.of(judge)
    number = np.full(len(swaps.judge), -1)
    number[groups] = np.arange(len(groups))
    mine = (swaps.group >= 0) & (data.judge == judge)
    group, forward = number[swaps.group[mine]], swaps.forward[mine]
    won = np.where(forward, data.outcome[mine], 1 - data.outcome[mine]).astype(np.intp)
    size = len(groups)
    weight = np.ones(size)
    if data.weight is not None:
        weight[group] = data.weight[mine]  # one multiplicity per prompt, so per group
    return _Tables(
        first=np.bincount(group[forward], minlength=size),
        second=np.bincount(group[~forward], minlength=size),
        chosen=np.bincount(group, won, size).astype(np.intp),
        wins_first=np.bincount(group[forward], won[forward], size).astype(np.intp),
        weight=weight,
    )


def _jeffreys(tables: _Tables) -> tuple[float, float]:
    """Maximize l(beta) + log I(beta) / 2; return the maximum and I^-1/2 there."""
    keep = tables.informative
    if not keep.any():
        return np.nan, np.nan
    weight = tables.weight[keep]
    kinds, kind = np.unique(
        np.stack([tables.first[keep], tables.second[keep], tables.chosen[keep]]),
        axis=1,
        return_inverse=True,
    )
    observed = float(weight @ (2 * tables.wins_first[keep] - tables.chosen[keep]))

    conditional = _Conditional.of(kinds, np.bincount(kind, weight).astype(np.float64))

    def objective(beta: float) -> float:
        log_partition, information = conditional.at(beta)
        return log_partition - beta * observed - log(information) / 2

    found = optimize.minimize_scalar(
        objective,
        bounds=(-LARGEST_POSITION, LARGEST_POSITION),
        method="bounded",
        options={"xatol": POSITION_TOLERANCE, "maxiter": 500},
    )
    beta = float(found.x)
    return beta, float(conditional.at(beta)[1] ** -0.5)


@dataclass(frozen=True)
class _Conditional:
    """Distribution of S = sum o z given how often each response was chosen, for kinds of groups.

    With a of the n first-slot records chosen and T - a of the m others, S = 2 a - T has C(n, a)
    C(m, T - a) configurations: a noncentral hypergeometric distribution. Rows are kinds, columns
    values of a; impossible values have log weight -inf.
    """

    statistic: Floats
    log_weight: Floats
    count: Floats

    @classmethod
    def of(cls, kinds: Ints, count: Floats) -> "_Conditional":
        n, m, chosen = (kinds[row][:, None] for row in range(3))
        a = np.arange(int(n.max()) + 1)[None, :]
        possible = (a >= chosen - m) & (a <= np.minimum(n, chosen))
        taken = np.where(possible, a, 0)
        others = np.where(possible, chosen - a, 0)
        log_weight = np.where(possible, _log_choose(n, taken) + _log_choose(m, others), -np.inf)
        return cls((2.0 * a - chosen), log_weight, count)

    def at(self, beta: float) -> tuple[float, float]:
        """Log partition function and information, summed over groups."""
        weight = self.log_weight + beta * self.statistic
        total = special.logsumexp(weight, axis=1, keepdims=True)
        probability = np.exp(weight - total)
        mean = (probability * self.statistic).sum(axis=1, keepdims=True)
        variance = (probability * (self.statistic - mean) ** 2).sum(axis=1)
        return float(self.count @ total[:, 0]), float(self.count @ variance)


def _log_choose(n: Ints, k: Ints) -> Floats:
    log: Floats = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    return log
