"""The paper's simulations, run again with this package.

    python benchmarks/glmm/paper.py groups        # section 4.2, both settings; supplements C and
    D python benchmarks/glmm/paper.py ranking       # Table 1 and Table S2 python
    benchmarks/glmm/paper.py memory        # Table 2 python benchmarks/glmm/paper.py carryover
    # Figure 1 python benchmarks/glmm/paper.py design        # nu_R by exact enumeration, Williams
    against shuffle

"Trustworthy Method Comparison with AI Judges: Estimation and Design under Order, Batch, and
Aggregation Effects". The paper leaves some parameters out; what stands in for them is said at each
function. Rates are percentages with their Monte Carlo standard error.
"""

import itertools
import sys
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from panels import (
    CLAUDE,
    CLAUDE_DEEP,
    GEMINI,
    GEMINI_DEEP,
    Kernel,
    as_table,
    rate,
    shuffled_orders,
)
from scipy.stats import norm

from benchtrial.designs import williams_square
from benchtrial.errors import FitError
from benchtrial.orchestrator.models import fit_glmm

Floats = npt.NDArray[np.float64]
Z = norm.ppf(0.975)


def normal_scores(size: int, mean: float, sd: float) -> Floats:
    """Return qualities spread like a normal sample of exactly this mean and deviation."""
    scores = norm.ppf((np.arange(1, size + 1) - 0.5) / size)
    return mean + sd * scores / scores.std(ddof=1)


def percent(hits: Iterable[bool]) -> str:
    """Return a rate in percent with its Monte Carlo standard error."""
    hits = np.asarray(list(hits), dtype=float)
    share = hits.mean()
    return f"{100 * share:.1f} ({100 * np.sqrt(share * (1 - share) / len(hits)):.1f})"


def williams_orders(items: int, batches: int, generator: np.random.Generator) -> npt.NDArray:
    """Return stacked Williams squares, the symbols redrawn for each."""
    square = np.asarray(williams_square(items))
    blocks = [generator.permutation(items)[square] for _ in range(-(-batches // len(square)))]
    return np.concatenate(blocks)[:batches]


def group_study(
    qualities: Floats,
    judge: Kernel,
    budgets: tuple[int, ...],
    replicates: int,
    *,
    seed: int,
    lags: tuple[int, ...] = (1,),
    williams: bool = False,
) -> None:
    """Print sign and rejection rates of the naive and the model-based comparison of two halves."""
    size = len(qualities)
    half = size // 2
    groups = {item: "A" if item < half else "B" for item in range(size)}
    naive_sign, naive_reject = ({n: [] for n in budgets} for _ in range(2))
    keys = [(n, k) for n in budgets for k in lags]
    sign, reject, robust = ({key: [] for key in keys} for _ in range(3))
    failed = 0
    for stream in np.random.default_rng(seed).spawn(replicates):
        draw_orders = williams_orders if williams else shuffled_orders
        orders = draw_orders(size, max(budgets), stream)
        ratings = rate(qualities, orders, judge, stream)
        gap = np.where(orders < half, ratings, 0).sum(axis=1) / half
        gap -= np.where(orders >= half, ratings, 0).sum(axis=1) / (size - half)
        for n in budgets:
            naive_sign[n].append(gap[:n].mean() > 0)
            naive_reject[n].append(abs(gap[:n].mean()) > Z * gap[:n].std(ddof=1) / np.sqrt(n))
            table = as_table(orders[:n], ratings[:n])
            for k in lags:
                try:
                    fit = fit_glmm(table, lags=k)
                except FitError:
                    failed += 1
                    continue
                vector = np.where(np.arange(size) < half, 1 / half, -1 / (size - half))
                value, se = fit.linear(vector)
                sign[n, k].append(value > 0)
                reject[n, k].append(abs(value) > Z * se)
                robust[n, k].append(abs(value) > Z * fit.linear(vector, "sandwich")[1])
    del groups
    print("| N | naive: A ahead | naive rejects | lags | GLMM: A ahead | Wald rejects | sandwich |")
    print("|---|---|---|---|---|---|---|")
    for n in budgets:
        for k in lags:
            print(
                f"| {n} | {percent(naive_sign[n])} | {percent(naive_reject[n])} | {k} | "
                f"{percent(sign[n, k])} | {percent(reject[n, k])} | {percent(robust[n, k])} |"
            )
    print(f"\n{replicates} replicates, {failed} fits failed\n", flush=True)


NULL = np.append(normal_scores(15, -0.5, 1.27), normal_scores(15, -0.5, 0.11))
GAP = np.append(normal_scores(15, 0.2, 0.45), normal_scores(15, -0.2, 0.45))
SMALL_NULL = np.append(normal_scores(3, -0.5, 1.27), normal_scores(3, -0.5, 0.11))
BUDGETS = (30, 60, 90, 150)


def groups(replicates: int) -> None:
    """Section 4.2 and supplements C and D. The judge of the paper's section is Gemini's."""
    print("### Section 4.2, Setting 1 (null: equal means, unequal spread), Gemini\n")
    group_study(NULL, GEMINI, BUDGETS, replicates, seed=1)
    print("### Section 4.2, Setting 2 (alternative: a gap of 0.4), Gemini\n")
    group_study(GAP, GEMINI, BUDGETS, replicates // 2, seed=2)
    print("### Setting 1 under the judge with the uneven profile, Claude\n")
    group_study(NULL, CLAUDE, BUDGETS, replicates // 2, seed=3)
    print("### Supplement C: the null with V=6, Gemini\n")
    group_study(SMALL_NULL, GEMINI, (60, 150, 300), replicates // 2, seed=4)
    print("### Supplement D: the null under Williams squares, Gemini\n")
    group_study(NULL, GEMINI, BUDGETS, replicates // 2, seed=5, williams=True)


def memory(replicates: int) -> None:
    """Table 2: a judge that remembers three ratings, fitted with one lag and with three."""
    print("### Table 2: the null under a lag-3 judge (Claude), V=30\n")
    group_study(NULL, CLAUDE_DEEP, BUDGETS, replicates // 2, seed=6, lags=(1, 3))


def ranking(replicates: int) -> None:
    """Table 1 and Table S2: is the best of six items found? Flat qualities theta* = 0 otherwise."""
    for title, judges in (
        ("Table 1 (lag-1 judges)", (("1, Gemini", GEMINI), ("2, Claude", CLAUDE))),
        ("Table S2 (lag-3 judges)", (("1, Gemini", GEMINI_DEEP), ("2, Claude", CLAUDE_DEEP))),
    ):
        deep = judges[0][1] is GEMINI_DEEP
        print(f"### {title}: top-1 accuracy, V=6\n")
        print(
            "| setting | N | naive shuffle | naive Williams | gain | GLMM shuffle | GLMM Williams |"
        )
        print("|---|---|---|---|---|---|---|")
        for name, judge in judges:
            for n in (6, 12, 18):
                best = np.zeros(6)
                best[0] = 2.8 / np.sqrt(n)
                naive = [naive_hits(best, judge, n, 10_000, williams=w) for w in (False, True)]
                model = [
                    model_hits(best, judge, n, replicates, lags=3 if deep else 1, williams=w)
                    for w in (False, True)
                ]
                gain = 100 * (naive[1].mean() - naive[0].mean())
                error = 100 * np.sqrt(sum(hits.var() / len(hits) for hits in naive))
                print(
                    f"| {name} | {n} | {percent(naive[0])} | {percent(naive[1])} | {gain:+.1f} "
                    f"({error:.1f}) | {percent(model[0])} | {percent(model[1])} |",
                    flush=True,
                )
        print()


def naive_hits(
    qualities: Floats, judge: Kernel, batches: int, replicates: int, *, williams: bool
) -> npt.NDArray:
    """Return whether the average picks item 0, ties broken at random, for every replicate."""
    generator = np.random.default_rng([7, batches, williams])
    size = len(qualities)
    if williams:
        orders = np.concatenate(
            [williams_orders(size, batches, generator) for _ in range(replicates)]
        )
    else:
        orders = shuffled_orders(size, batches * replicates, generator)
    ratings = rate(qualities, orders, judge, generator)
    by_item = np.zeros_like(ratings)
    np.put_along_axis(by_item, orders, ratings, axis=1)
    totals = by_item.reshape(replicates, batches, size).sum(axis=1)
    return (totals + 1e-6 * generator.random(totals.shape)).argmax(axis=1) == 0


def model_hits(
    qualities: Floats, judge: Kernel, batches: int, replicates: int, *, lags: int, williams: bool
) -> npt.NDArray:
    """Return whether the fitted model puts item 0 first; a failed fit counts as a guess."""
    hits = np.zeros(replicates)
    size = len(qualities)
    for i, stream in enumerate(np.random.default_rng([8, batches, williams]).spawn(replicates)):
        draw_orders = williams_orders if williams else shuffled_orders
        orders = draw_orders(size, batches, stream)
        table = as_table(orders, rate(qualities, orders, judge, stream))
        try:
            items = fit_glmm(table, lags=lags).items.to_numpy()
        except FitError:
            items = np.zeros(size)
        hits[i] = (items + 1e-9 * stream.random(size)).argmax() == 0
    return hits


def carryover(replicates: int) -> None:
    """Figure 1: acceptance after a rejection and after an acceptance, by simulation.

    The paper's items are not published. Items spread normally, with mean and spread chosen so that
    acceptance is near the reported 0.686.
    """
    print("### Figure 1: the carryover gap of the Gemini preset, V=30, N=200\n")
    print("| item sd | acceptance | after rejection | after acceptance | gap | first position |")
    print("|---|---|---|---|---|---|")
    for sd, mean in ((0.5, 1.15), (1.0, 1.3), (1.5, 1.55)):
        rows = []
        for stream in np.random.default_rng(9).spawn(replicates):
            qualities = normal_scores(30, mean, sd)
            ratings = rate(qualities, shuffled_orders(30, 200, stream), GEMINI, stream)
            before, after = ratings[:, :-1], ratings[:, 1:]
            rejected, accepted = after[before == 0].mean(), after[before == 1].mean()
            first = ratings[:, 0].mean()
            rows.append((ratings.mean(), rejected, accepted, accepted - rejected, first))
        mean_row, spread = np.mean(rows, axis=0), np.std(rows, axis=0)
        cells = " | ".join(
            f"{100 * m:.1f} ({100 * s:.1f})" for m, s in zip(mean_row, spread, strict=True)
        )
        print(f"| {sd} | {cells} |", flush=True)
    print(f"\nmean and standard deviation over {replicates} data sets, in percent\n")


def design(replicates: int) -> None:
    """nu_R of the paper's Lemma 5 by enumeration of all 720 orders of six items."""
    del replicates
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    print("### nu_R by exact enumeration, V=6, beta = gamma = -0.5, sigma^2 = 0.45\n")
    print("| theta* | nu_R |\n|---|---|")
    for theta in (-1.352, -0.45, 0.0, 0.4):
        profile = slot_means(np.full(6, theta), -0.5, -0.5, 0.45**0.5, nodes, weights)
        means = np.array([profile[list(order)] for order in itertools.permutations(range(6))])
        print(f"| {theta} | {np.var(means[:, 0] - means[:, 1]):.3e} |")
    print("\n### Variance of a contrast of two equal items per batch, V=6\n")
    print("| setting | sampling | design term (shuffle) | removable share |\n|---|---|---|---|")
    for name, judge in (("1, Gemini", GEMINI), ("2, Claude", CLAUDE)):
        profile = slot_means(
            np.zeros(6), judge.lags[0], judge.cold_start, judge.batch_sd, nodes, weights
        )
        means = np.array([profile[list(order)] for order in itertools.permutations(range(6))])
        nu = np.var(means[:, 0] - means[:, 1])
        generator = np.random.default_rng(10)
        orders = shuffled_orders(6, 200_000, generator)
        by_item = np.zeros(orders.shape)
        np.put_along_axis(by_item, orders, rate(np.zeros(6), orders, judge, generator), axis=1)
        total = np.var(by_item[:, 0] - by_item[:, 1])
        print(f"| {name} | {total - nu:.4f} | {nu:.2e} | {100 * nu / total:.1f} % |")


def slot_means(
    qualities: Floats, beta: float, gamma: float, sd: float, nodes: Floats, weights: Floats
) -> Floats:
    """Return the expected rating in each slot, integrated over the batch intercept."""
    expit = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    means, last = [], np.zeros_like(nodes)
    for slot, quality in enumerate(qualities):
        base = quality + sd * nodes + (gamma if slot == 0 else 0.0)
        last = expit(base) * (1 - last) + expit(base + beta) * last
        means.append(weights @ last)
    return np.array(means)


if __name__ == "__main__":
    chosen = {f.__name__: f for f in (groups, ranking, memory, carryover, design)}[sys.argv[1]]
    chosen(int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
