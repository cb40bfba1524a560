"""Error rates, power and speed of the stopping rules on canonical Gaussian processes.

    python benchmarks/sequential/canonical.py > tables.md

No model is fitted here: the statistics of the looks are drawn from the process on which the theory
rests, so that what is measured is the rules and their numerical integration. Rules with bounds that
depend on information only are applied to all paths at once; futility, ranking and the adjusted
estimates run whole studies through ``take_look``. Every number has its Monte Carlo error. Seeds are
fixed. About fifteen minutes on one core.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from benchtrial.orchestrator.models.estimate import Estimate
from benchtrial.orchestrator.sequential import (
    Best,
    Difference,
    Futility,
    Look,
    Ranking,
    StoppingPlan,
    after_stopping,
    boundaries,
    spent_alpha,
    take_look,
)
from benchtrial.orchestrator.sequential.canonical import own_bound
from benchtrial.orchestrator.sequential.confidence import mixture_bound
from benchtrial.orchestrator.sequential.maxz import max_z_quantile

LOOKS = 20
CLOCKS = np.arange(1, LOOKS + 1) / LOOKS
SPENDING = ("kim-demets", "obrien-fleming", "pocock")
#: Effects of a study whose fixed test at the end has power 60 %, 91 % and > 99.9 %, as the refitted
#: GLMM judge of 200 batches has at d = 0.2, 0.3 and 0.5; in units of 1 / sqrt(final information).
EFFECTS = {"d = 0.2": 2.213, "d = 0.3": 3.301, "d = 0.5": 5.5}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--scale", type=float, default=1.0, help="share of the replications")
    parser.add_argument("--only", default="", help="name of one part")
    arguments = parser.parse_args()
    for part in (
        two_clocks,
        confidence_sequences,
        families,
        best_and_top_k,
        holm,
        futility,
        adjusted_estimates,
        speed,
    ):
        if arguments.only in ("", part.__name__):
            part(arguments.scale)


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print one Markdown table."""
    print(f"\n## {title}\n")
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |", flush=True)


def percent(hits: np.ndarray | list[bool]) -> str:
    """Share of hits with its Monte Carlo standard error, in percent."""
    share = float(np.mean(hits))
    error = (share * (1 - share) / len(hits)) ** 0.5
    return f"{100 * share:.2f} ± {100 * error:.2f}"


def difference_paths(information: np.ndarray, drift: float, paths: int, seed: int) -> np.ndarray:
    """Statistics of one contrast, shape (paths, looks)."""
    increments = np.diff(information, prepend=0.0)
    steps = np.random.default_rng(seed).normal(size=(paths, len(information)))
    scores = (steps * np.sqrt(increments) + drift * increments).cumsum(axis=1)
    return scores / np.sqrt(information)


def pair_paths(
    truth: np.ndarray, paths: int, seed: int
) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Statistics of all pairs of candidates, shape (paths, looks, pairs); final information 1."""
    size = len(truth)
    pairs = list(combinations(range(size), 2))
    steps = np.random.default_rng(seed).normal(size=(paths, LOOKS, size)) / np.sqrt(2 * LOOKS)
    scores = (steps + truth / LOOKS).cumsum(axis=1)
    first, second = (list(side) for side in zip(*pairs, strict=True))
    return (scores[..., first] - scores[..., second]) / np.sqrt(CLOCKS)[:, None], pairs


def two_clocks(scale: float) -> None:
    """Spend on the budget, integrate with the information."""
    paths = int(400_000 * scale)
    rows = []
    for power in (1, 2, 3):
        information = CLOCKS**power
        z = np.abs(difference_paths(information, 0.0, paths, seed=power))
        for rule in SPENDING:
            observed = boundaries(rule, CLOCKS, information=information)
            budget = boundaries(rule, CLOCKS)
            rows.append(
                (
                    f"budget^{power}",
                    rule,
                    percent((z > observed).any(axis=1)),
                    percent((z > budget).any(axis=1)),
                )
            )
    table(
        f"Type I error (%), 20 looks, level 5 %, {paths:,} paths",
        ("information grows as", "rule", "observed information", "spent / budget for both (wrong)"),
        rows,
    )
    z = np.abs(difference_paths(CLOCKS, 0.0, paths, seed=9))
    print(f"\nunsafe-fixed, 20 looks: {percent((z > own_bound(0.05)).any(axis=1))} %")


def confidence_sequences(scale: float) -> None:
    """Crossings of the confidence sequence on long Brownian paths."""
    paths, steps, chunk = int(20_000 * scale), 10_000, 500
    information = np.arange(1, steps + 1, dtype=float)
    optimal = {"1 %": 0.01 * steps, "25 %": 0.25 * steps, "100 %": 1.0 * steps}
    bounds = {
        name: mixture_bound(information, alpha=0.05, optimal_information=value)
        for name, value in optimal.items()
    }
    crossed = dict.fromkeys(optimal, 0)
    rng = np.random.default_rng(11)
    for _ in range(paths // chunk):
        z = np.abs(rng.normal(size=(chunk, steps)).cumsum(axis=1))
        z /= np.sqrt(information)
        for name, bound in bounds.items():
            crossed[name] += int((z > bound).any(axis=1).sum())
    table(
        f"Confidence sequence at level 5 %: {paths:,} Brownian paths of {steps:,} steps",
        ("tightest at", "ever crossed (%)"),
        [(name, f"{100 * count / paths:.2f} ({count:,} paths)") for name, count in crossed.items()],
    )


def families(scale: float) -> None:
    """Ways to share alpha between the 28 pairs of 8 candidates."""
    paths, chunk = int(80_000 * scale), int(20_000 * scale)
    largest = np.concatenate(
        [
            np.abs(pair_paths(np.zeros(8), chunk, seed=200 + number)[0]).max(axis=2)
            for number in range(paths // chunk)
        ]
    )
    names = tuple("abcdefgh")
    pairs = tuple(combinations(names, 2))
    max_z: list[float] = []
    information: list[tuple[float, ...]] = []
    spent = [spent_alpha("obrien-fleming", clock, alpha=0.05) for clock in CLOCKS]
    bonferroni = boundaries("obrien-fleming", CLOCKS, alpha=0.05 / 28)
    for k, clock in enumerate(CLOCKS):
        information.append((float(clock),) * 28)
        found = max_z_quantile(pairs, tuple(max_z), tuple(information), float(spent[k]))
        max_z.append(found or float(bonferroni[k]))
    mixture = mixture_bound(CLOCKS, alpha=0.05 / 28, optimal_information=0.25)
    rows = [
        ("1.96 at every look", own_bound(0.05)),
        ("Bonferroni over pairs only", own_bound(0.05 / 28)),
        ("O'Brien-Fleming for each pair", boundaries("obrien-fleming", CLOCKS)),
        ("O'Brien-Fleming, Bonferroni (Holm's first step)", bonferroni),
        ("O'Brien-Fleming, max-Z", np.array(max_z)),
        ("mixture confidence sequence, Bonferroni", mixture),
    ]
    table(
        f"Family-wise error (%), 28 pairs of 8 equal candidates, 20 looks, {paths:,} paths",
        ("bounds", "any pair claimed", "last bound"),
        [
            (name, percent((largest > bound).any(axis=1)), f"{np.atleast_1d(bound)[-1]:.3f}")
            for name, bound in rows
        ],
    )


def best_and_top_k(scale: float) -> None:
    """Count false claims of a best candidate and of a top set under ties."""
    paths = int(20_000 * scale)
    fields = {
        "best of 7, two tied ahead": (np.array([30.0, 30, 0, 0, 0, 0, 0]), 1),
        "best of 7, two tied just ahead": (np.array([3.0, 3, 0, 0, 0, 0, 0]), 1),
        "best of 7, three tied ahead": (np.array([30.0, 30, 30, 0, 0, 0, 0]), 1),
        "best of 7, all equal": (np.zeros(7), 1),
        "top 3 of 7, two tied at the cut": (np.array([30.0, 30, 0, 0, -30, -30, -30]), 3),
        "top 3 of 7, four tied at the cut": (np.array([30.0, 0, 0, 0, 0, -30, -30]), 3),
        "top 3 of 7, all equal": (np.zeros(7), 3),
    }
    rules = {
        "kim-demets": boundaries("kim-demets", CLOCKS),
        "obrien-fleming": boundaries("obrien-fleming", CLOCKS),
        "pocock": boundaries("pocock", CLOCKS),
        "confidence-sequence": mixture_bound(CLOCKS, alpha=0.05, optimal_information=0.25),
    }
    rows = []
    for number, (name, (truth, k)) in enumerate(fields.items()):
        z, pairs = pair_paths(truth, paths, seed=30 + number)
        rows.append(
            (
                name,
                *(percent(_claims_top(z, pairs, bound, len(truth), k)) for bound in rules.values()),
            )
        )
    table(
        f"Any claim (%, all false), level 5 %, 20 looks, {paths:,} paths", ("field", *rules), rows
    )


def _claims_top(
    z: np.ndarray, pairs: list[tuple[int, int]], bound: np.ndarray, size: int, k: int
) -> np.ndarray:
    """Whether some look puts some k candidates ahead of all others."""
    wins = np.zeros((*z.shape[:2], size), dtype=np.int8)
    for number, (first, second) in enumerate(pairs):
        wins[..., first] += z[..., number] > bound
        wins[..., second] += z[..., number] < -bound
    # k candidates each ahead of the same M - k others: these have won at least M - k times, and
    # the others have lost to all k; counting wins against the others only needs the set, which
    # the k largest counts name.
    chosen = np.argsort(-wins, axis=2, kind="stable")[..., :k]
    inside = np.zeros(wins.shape, dtype=bool)
    np.put_along_axis(inside, chosen, values=True, axis=2)
    ahead = np.ones(z.shape[:2], dtype=bool)
    for number, (first, second) in enumerate(pairs):
        crossing = inside[..., first] != inside[..., second]
        sign = np.where(inside[..., first], 1.0, -1.0)
        ahead &= ~crossing | (sign * z[..., number] > bound)
    claimed: np.ndarray = ahead.any(axis=1)
    return claimed


def holm(scale: float) -> None:
    """Whole studies with a ranking: error under mixed truths, and the pairs that are decided."""
    studies = int(600 * scale)
    fields = {
        "all 5 equal": [0.0] * 5,
        "2 clusters (2 + 3)": [8.0, 8.0, 0.0, 0.0, 0.0],
        "4 apart, 2 of 5 equal": [24.0, 16.0, 8.0, 0.0, 0.0],
        "steps of 3": [12.0, 9.0, 6.0, 3.0, 0.0],
    }
    rows = []
    for number, (name, truth) in enumerate(fields.items()):
        plan = StoppingPlan(target=Ranking(tuple("abcde")), futility=None, rope=0.0)
        wrong, decided = [], []
        for scores in _score_paths(np.array(truth), studies, seed=40 + number):
            last = _study(plan, scores)[-1]
            gaps = [
                truth["abcde".index(c.first)] - truth["abcde".index(c.second)]
                for c in last.contrasts
            ]
            signs = [{"first": 1, "second": -1}.get(c.verdict, 0) for c in last.contrasts]
            wrong.append(any(s and s != np.sign(g) for s, g in zip(signs, gaps, strict=True)))
            decided.append(sum(map(abs, signs)))
        rows.append((name, percent(wrong), f"{np.mean(decided):.2f} of 10"))
    table(
        f"Ranking of 5 by Holm, kim-demets, 20 looks, {studies:,} studies through take_look",
        ("truth", "any wrong pair (%)", "pairs decided"),
        rows,
    )


def futility(scale: float) -> None:
    """Weigh what giving up saves without an effect against what it costs with one."""
    studies = int(2_000 * scale)
    never = StoppingPlan(target=Difference("a", "b"), futility=None, rope=0.0)
    common: dict[str, Futility | None] = {"never": None, "default": Futility(stall_share=0.0)}
    tenth = Futility(power=0.1, stall_share=0.0)
    fifth = Futility(power=0.2, stall_share=0.0)
    face_value = Futility(power=0.1, optimism=0.0, stall_share=0.0)
    for rule, others in (
        ("kim-demets", {"estimate + 1 se, 20 %": fifth, "estimate, 10 %": face_value}),
        ("obrien-fleming", {}),
        ("confidence-sequence", {"estimate + 1 se, 10 %": tenth}),
    ):
        rows = []
        for name, setting in {**common, **others}.items():
            plan = replace(never, rule=rule, futility=setting)
            row: list[object] = [name]
            for number, effect in enumerate((0.0, *EFFECTS.values())):
                z = difference_paths(CLOCKS, effect, studies, seed=50 + number)
                ends = [_difference_study(plan, path)[-1] for path in z]
                claimed = [look.decision.state == "decided" for look in ends]
                spent = 200 * np.mean([look.clock for look in ends])
                row.append(f"{percent(claimed)}; {spent:.0f}")
            rows.append(row)
        table(
            f"Futility under {rule}: claims (%) and expected batches of 200, {studies:,} studies",
            ("giving up", "no effect", *EFFECTS),
            rows,
        )


def adjusted_estimates(scale: float) -> None:
    """Median-unbiased estimates and their intervals after stopping."""
    studies = int(1_000 * scale)
    rows = []
    for rule in ("kim-demets", "pocock"):
        plan = StoppingPlan(target=Difference("a", "b"), rule=rule, futility=None, rope=0.0)
        for number, effect in enumerate((0.0, *EFFECTS.values())):
            z = difference_paths(CLOCKS, effect, studies, seed=60 + number)
            results = [
                after_stopping(plan, _difference_study(plan, path), ("a", "b")) for path in z
            ]
            rows.append(
                (
                    rule,
                    f"{effect:.2f}",
                    f"{np.mean([r.value for r in results]):.2f}",
                    percent([r.value > effect for r in results]),
                    percent([r.median_unbiased > effect for r in results]),
                    percent([r.low < effect < r.high for r in results]),
                    percent([r.repeated_low < effect < r.repeated_high for r in results]),
                )
            )
    table(
        f"After stopping, 20 looks, {studies:,} studies",
        (
            "rule",
            "effect",
            "mean raw estimate",
            "raw above truth (%)",
            "median-unbiased above truth (%)",
            "stage-wise interval covers (%)",
            "repeated interval covers (%)",
        ),
        rows,
    )


def speed(scale: float) -> None:
    """Time of one look, information noisy, no stopping."""
    del scale
    rows = []
    for name, target in (
        ("1 contrast", Difference("a", "b")),
        ("28 contrasts, best", Best(tuple("abcdefgh"))),
        ("28 contrasts, ranking (Holm)", Ranking(tuple("abcdefgh"))),
    ):
        for rule in ("kim-demets", "confidence-sequence"):
            plan = StoppingPlan(target=target, rule=rule, futility=Futility(power=0.0))
            totals = [_timed(lambda seed, plan=plan: _noisy_study(plan, seed), s) for s in range(4)]
            rows.append((name, rule, f"{1e3 * min(totals[1:]) / LOOKS:.2f} ms"))
    times = [
        _timed(lambda seed: boundaries("kim-demets", CLOCKS * (1 - 1e-6 * seed)), s)
        for s in range(9)
    ]
    rows.append(("boundaries, 20 looks at once", "kim-demets", f"{1e3 * min(times[1:]):.1f} ms"))
    table("Time of one look (mean of 20, CPU time, best of 3)", ("look", "rule", "time"), rows)


def _timed(work: Callable[[int], object], seed: int) -> float:
    start = time.process_time()
    work(seed)
    return time.process_time() - start


def _difference_study(plan: StoppingPlan, z: np.ndarray) -> list[Look]:
    """Run one study on the statistics of its looks; final information 1."""
    history: list[Look] = []
    for clock, statistic in zip(CLOCKS, z, strict=True):
        se = clock**-0.5
        estimates = {("a", "b"): Estimate.wald(statistic * se, se)}
        history.append(take_look(plan, history, estimates, clock=clock, final=bool(clock == 1.0)))
        if history[-1].decision.state != "continue":
            break
    return history


def _score_paths(truth: np.ndarray, paths: int, seed: int) -> np.ndarray:
    """Estimated scores, shape (paths, looks, candidates); a pair's final information is 1."""
    steps = np.random.default_rng(seed).normal(size=(paths, LOOKS, len(truth)))
    scores = (steps / np.sqrt(2 * LOOKS)).cumsum(axis=1) / CLOCKS[:, None]
    return scores + truth


def _study(plan: StoppingPlan, scores: np.ndarray) -> list[Look]:
    """Run one study on the estimated scores of its looks."""
    history: list[Look] = []
    names = sorted({name for pair in plan.target.pairs() for name in pair})
    for clock, row in zip(CLOCKS, scores, strict=True):
        values = dict(zip(names, row, strict=True))
        estimates = {
            (a, b): Estimate.wald(values[a] - values[b], clock**-0.5)
            for a, b in plan.target.pairs()
        }
        history.append(take_look(plan, history, estimates, clock=clock, final=bool(clock == 1.0)))
        if history[-1].decision.state != "continue":
            break
    return history


def _noisy_study(plan: StoppingPlan, seed: int) -> None:
    """Take 20 looks whose standard errors differ from contrast to contrast."""
    rng = np.random.default_rng(seed)
    history: list[Look] = []
    for clock in CLOCKS:
        estimates = {
            pair: Estimate.wald(0.0, (100 * clock) ** -0.5 * (1 + 0.01 * rng.normal()))
            for pair in plan.target.pairs()
        }
        look = take_look(plan, history, estimates, clock=clock, final=bool(clock == 1.0))
        history.append(look)


if __name__ == "__main__":
    main()
