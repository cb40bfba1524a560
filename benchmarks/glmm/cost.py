"""What a fit costs: large panels, the bootstrap, and the curve over the number of ratings.

    python benchmarks/glmm/cost.py            # about a minute

Every time is from the table of ratings to the standard errors (exact Hessian), the smallest of
several runs, in wall seconds and in CPU seconds of the process.
"""

import time
from collections.abc import Callable

import numpy as np
from panels import GEMINI, draw

from benchtrial.orchestrator.models import fit_glmm


def timed(work: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Return the smallest wall and CPU time."""
    wall, cpu = [], []
    for _ in range(repeats):
        start, used = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    return min(wall), min(cpu)


def fit_and_errors(table) -> Callable[[], object]:
    """Return the work of one fit with its covariance."""
    return lambda: fit_glmm(table).engine.inverse_information


def main() -> None:
    print("| case | ratings | wall s | CPU s |\n|---|---|---|---|")
    cases = [
        ("V=6, N=60", 6, 60, None, 20),
        ("V=30, N=200", 30, 200, None, 20),
        ("V=30, N=2000", 30, 2000, None, 10),
        ("V=500, N=1000, complete", 500, 1000, None, 3),
        ("V=500, N=10000, blocks of 25", 500, 10_000, 25, 3),
    ]
    for name, items, batches, size, repeats in cases:
        table = draw(items, batches, GEMINI, seed=items, size=size)
        wall, cpu = timed(fit_and_errors(table), repeats)
        print(f"| {name} | {len(table):,} | {wall:.4f} | {cpu:.4f} |", flush=True)
    table = draw(30, 200, GEMINI, seed=30)
    fit = fit_glmm(table)
    for name, one_step in (("200 full refits", False), ("200 one-step replicates", True)):
        wall, cpu = timed(lambda one=one_step: fit.bootstrap(200, seed=1, one_step=one), 3)
        print(f"| bootstrap, {name}, V=30, N=200 | | {wall:.4f} | {cpu:.4f} |", flush=True)
    print("\nCost over the number of ratings, V=30:\n")
    print("| ratings | wall s | CPU us per rating |\n|---|---|---|")
    sizes, seconds = [], []
    for batches in (34, 100, 334, 1000, 3334, 10_000, 33_334):
        table = draw(30, batches, GEMINI, seed=batches)
        wall, cpu = timed(fit_and_errors(table), 5 if batches < 5000 else 2)
        sizes.append(len(table))
        seconds.append(cpu)
        print(f"| {len(table):,} | {wall:.4f} | {cpu / len(table) * 1e6:.2f} |", flush=True)
    slope = np.polyfit(np.log(sizes[2:]), np.log(seconds[2:]), 1)[0]
    print(f"\nslope of log CPU time on log ratings from {sizes[2]:,} ratings on: {slope:.2f}")


if __name__ == "__main__":
    main()
