"""How fast the OSCAR models are fitted, and that speed costs no accuracy.

    pip install evalica
    OPENBLAS_NUM_THREADS=1 python benchmarks/oscar/speed.py [--largest 10000000]

Every figure is the smallest of several runs in one process on one core, once by the clock and once
by the processor time of the process, which is the fairer of the two on a machine that others use.
*fit* starts from codes that are checked once (``encode``), *from the table* includes the checks of
a table of integer ids. Plain Bradley-Terry is compared with evalica from the same arrays in the
same run; OSCAR with an L-BFGS-B fit of the same loss, written row by row, at its tightest
tolerance.
"""

import argparse
import os
import resource
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import evalica
import numpy as np
import pandas as pd
from scipy import optimize, special
from sections import table, write

from benchtrial.orchestrator.models import OscarFit, fit_oscar
from benchtrial.orchestrator.models.oscar import encode

T = TypeVar("T")
FAMILIES = 5


def draw(records: int, candidates: int, judges: int, prompts: int, seed: int = 0) -> pd.DataFrame:
    """OSCAR verdicts with every term, at random pairs."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 0.6, candidates)
    gamma, position = np.exp(rng.normal(0, 0.3, judges)), rng.normal(0, 0.6, judges)
    length, family = rng.normal(0.4, 0.1, judges), rng.normal(0, 0.15, judges)
    judge = rng.integers(0, judges, records)
    first = rng.integers(0, candidates, records)
    second = (first + rng.integers(1, candidates, records)) % candidates
    L = rng.normal(size=records)
    own = (first % FAMILIES == judge % FAMILIES).astype(float)
    own -= second % FAMILIES == judge % FAMILIES
    eta = gamma[judge] * (scores[first] - scores[second]) + position[judge]
    eta += length[judge] * L + family[judge] * own
    return pd.DataFrame(
        {
            "judge": judge,
            "prompt": rng.integers(0, prompts, records),
            "first": first,
            "second": second,
            "outcome": (rng.random(records) < special.expit(eta)).astype(float),
            "first_length": np.exp(7 + L / 2),
            "second_length": np.exp(7 - L / 2),
            "first_family": first % FAMILIES,
            "second_family": second % FAMILIES,
            "judge_family": judge % FAMILIES,
        }
    )


def best(run: Callable[[], T], repeats: int) -> tuple[float, float, T]:
    """Smallest clock and processor milliseconds of several runs, and the last result."""
    clock = processor = float("inf")
    for _ in range(repeats):
        started, spent = time.perf_counter(), time.process_time()
        result = run()
        processor = min(processor, time.process_time() - spent)
        clock = min(clock, time.perf_counter() - started)
    return 1e3 * clock, 1e3 * processor, result


def shown(timing: tuple[float, float, object]) -> str:
    return f"{timing[0]:.3g} / {timing[1]:.3g}"


def oscar(records: int, candidates: int, judges: int, prompts: int, repeats: int) -> list[str]:
    frame = draw(records, candidates, judges, prompts)
    data = encode(frame)
    before = fit_oscar(frame.iloc[: int(0.95 * records)])
    cold = best(lambda: fit_oscar(data), repeats)
    warm = best(lambda: fit_oscar(data, start=before), repeats)
    covered = best(lambda: fit_oscar(data).covariance, max(2, repeats // 2))
    whole = best(lambda: fit_oscar(frame), max(2, repeats // 2))
    fit = cold[2]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    return [
        f"{records:,}",
        f"{candidates}, {judges}",
        shown(cold),
        shown(warm),
        shown(covered),
        shown(whole),
        f"{fit.minimum.iterations}",
        f"{fit.minimum.gradient_per_comparison:.0e}",
        f"{peak:.2f}",
    ]


def curve(largest: int) -> str:
    rows, records = [], 1_000
    while records <= largest:
        frame = draw(records, 20, 8, max(200, records // 20))
        data = encode(frame)
        repeats = max(2, min(30, 1_000_000 // records))
        models = ("", "position", "position+length+family")
        cells = [shown(best(partial(fit_oscar, data, terms=terms), repeats)) for terms in models]
        covered = best(lambda data=data: fit_oscar(data, terms="position").covariance, 2)
        rows.append([f"{records:,}", *cells, shown(covered)])
        records *= 10
    return table(["N", "J", "J+P", "OSCAR", "J+P with cluster covariance"], rows)


def against_evalica(records: int, candidates: int, repeats: int) -> list[str]:
    """Bradley-Terry of both from the same arrays of ids and winners."""
    frame = draw(records, candidates, 1, records)
    first, second = frame["first"].to_numpy(), frame["second"].to_numpy()
    outcome = frame["outcome"].to_numpy()
    winners = np.where(outcome == 1, evalica.Winner.X, evalica.Winner.Y).tolist()
    one, other = first.tolist(), second.tolist()
    judge, prompt = np.zeros(records, dtype=np.int8), np.arange(records)

    def ours() -> OscarFit:
        columns = {"judge": judge, "prompt": prompt, "first": first, "second": second}
        mine = pd.DataFrame({**columns, "outcome": outcome}, copy=False)
        return fit_oscar(mine, terms="", sensitivities=False, ridge=0.0)

    def theirs(tolerance: float) -> evalica.BradleyTerryResult:
        return evalica.bradley_terry(one, other, winners, tolerance=tolerance, limit=10_000)

    mine = best(ours, repeats)
    default, tight = (best(lambda t=t: theirs(t), repeats) for t in (1e-6, 1e-12))
    scores = mine[2].scores

    def gap(result: evalica.BradleyTerryResult) -> str:
        logs = np.log(result.scores).reindex(scores.index)
        return f"{np.abs(scores - (logs - logs.mean())).max():.1e}"

    return [
        f"{records:,}",
        f"{candidates}",
        shown(mine),
        shown(default),
        f"{default[1] / mine[1]:.1f}",
        gap(default[2]),
        shown(tight),
        gap(tight[2]),
    ]


def against_lbfgs(records: int, candidates: int, judges: int) -> str:
    """Find the largest difference of any coordinate to a row-by-row L-BFGS-B fit."""
    frame = draw(records, candidates, judges, records // 5)
    data = encode(frame)
    clock, _, fit = best(lambda: fit_oscar(data), 5)
    model, length = fit.model, data.length_ratio / fit.length_scale
    own = data.same_family.astype(float)
    F = own[data.judge, data.first] - own[data.judge, data.second]
    k, a, b, y = data.judge, data.first, data.second, data.outcome
    v, pos, slope, fam = (model.block(n) for n in ("sensitivity", *model.terms))

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        x = model.natural(theta)
        gamma, gap = np.exp(x[v])[k], x[a] - x[b]
        eta = gamma * gap + x[pos][k] + x[slope][k] * length + x[fam][k] * F
        r = special.expit(eta) - y
        g = np.zeros_like(x)
        np.add.at(g, a, gamma * r)
        np.add.at(g, b, -gamma * r)
        for block, column in ((v, gamma * gap), (pos, 1.0), (slope, length), (fam, F)):
            g[block] = np.bincount(k, r * column, judges)
        value = np.logaddexp(0, eta).sum() - y @ eta + fit.ridge / 2 * theta @ theta
        return float(value), model.gradient(g) + fit.ridge * theta

    options = {"ftol": 0.0, "gtol": 1e-9, "maxiter": 10_000, "maxls": 50}
    spent = best(
        lambda: optimize.minimize(
            loss, np.zeros(model.size), jac=True, method="L-BFGS-B", options=options
        ),
        1,
    )
    other = spent[2]
    theta = fit.minimum.point.theta
    at_end = np.abs(loss(other.x)[1]).max() / records
    ours = np.abs(loss(theta)[1]).max() / records
    return (
        f"N={records:,}, M={candidates}, K={judges}: largest difference of a coordinate "
        f"{np.abs(other.x - theta).max():.1e}; gradient per comparison by the row-wise loss "
        f"{ours:.0e} here and {at_end:.0e} there; {clock:.3g} ms against {spent[0]:.4g} ms "
        f"({other.nfev} evaluations)."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--largest", type=int, default=10_000_000)
    largest = parser.parse_args().largest
    command = "OPENBLAS_NUM_THREADS=1 python benchmarks/oscar/speed.py"
    fits = [oscar(10_000, 8, 5, 2_000, 30), oscar(1_000_000, 100, 20, 10_000, 5)]
    columns = ["N", "M, K", "fit", "warm refit (5 % more records)", "fit and cluster covariance"]
    columns += ["from the table", "steps", "gradient/N", "peak memory (GB)"]
    bt = [against_evalica(10_000, 8, 10), against_evalica(1_000_000, 100, 3)]
    bt_columns = ["N", "M", "ours, from the arrays", "evalica 0.4.2", "times faster (processor)"]
    bt_columns += ["largest difference", "evalica at 1e-12", "largest difference"]
    body = "\n\n".join(
        [
            "Milliseconds by the clock / of the processor, smallest of several runs, one core. "
            f"Load average of the machine at the end of the run: {os.getloadavg()[0]:.1f}.",
            "OSCAR with every term:",
            table(columns, fits),
            "Agreement with L-BFGS-B on a row-by-row loss:",
            "* " + against_lbfgs(10_000, 8, 5) + "\n* " + against_lbfgs(100_000, 20, 8),
            "Plain Bradley-Terry, both from the same arrays in one run:",
            table(bt_columns, bt),
            "Cost curves, M=20, K=8 (codes checked beforehand):",
            curve(largest),
        ]
    )
    write("Speed", command, body)


if __name__ == "__main__":
    main()
