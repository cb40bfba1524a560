"""Agreement and speed of ``fit_glmm`` against lme4's ``glmer``, both in one run.

    apt-get install r-cran-lme4
    python benchmarks/glmm/against_lme4.py agreement     # nAGQ = 25, V=30 N=200 and V=6 N=60
    python benchmarks/glmm/against_lme4.py speed [200]   # nAGQ = 9, V=30 N=200 and N=2000 (minutes)

Both fit the same ratings by maximum likelihood without a ridge. ``fit_glmm`` is timed with its
covariance (exact Hessian), from the table to the standard errors, as the smallest of several runs;
``glmer`` is timed for the call alone, without the derivatives that it can compute afterwards.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from panels import GEMINI, draw

from benchtrial.orchestrator.models import GLMMFit, fit_glmm

SCRIPT = Path(__file__).with_name("glmer.R")
REPEATS = 15


def with_lags(table: pd.DataFrame) -> pd.DataFrame:
    """Add the columns that lme4 needs: the lagged rating and the first flag."""
    lagged = table.groupby("batch")["rating"].shift(1).fillna(0)
    return table.assign(lag1=lagged, first=(table["position"] == 1).astype(int))


def glmer(table: pd.DataFrame, *options: str) -> tuple[pd.Series, float, float, str]:
    """Return estimates, elapsed and CPU seconds of the call, and the version of lme4."""
    with tempfile.TemporaryDirectory() as folder:
        ratings, estimates = Path(folder, "ratings.csv"), Path(folder, "estimates.csv")
        with_lags(table).to_csv(ratings, index=False)
        done = subprocess.run(
            ["Rscript", str(SCRIPT), str(ratings), str(estimates), *options],
            check=True,
            capture_output=True,
            text=True,
        )
        elapsed, cpu, version = done.stdout.split()
        values = pd.read_csv(estimates, index_col="name")["value"]
    return values, float(elapsed), float(cpu), version


def ours(table: pd.DataFrame, repeats: int = REPEATS) -> tuple[GLMMFit, float, float]:
    """Return the fit and the smallest wall and CPU seconds of table to standard errors."""
    wall, cpu = [], []
    for _ in range(repeats):
        start, used = time.perf_counter(), time.process_time()
        fit = fit_glmm(table, ridge=0.0)
        fit.contrast({fit.items.index[0]: 1})
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    return fit, min(wall), min(cpu)


def agreement() -> None:
    """Print the largest difference of any parameter to glmer with 25 nodes."""
    for items, batches, seed in ((30, 200, 1), (6, 60, 2)):
        table = draw(items, batches, GEMINI, seed=seed)
        theirs, *_, version = glmer(table, "25", "tight")
        fit, *_ = ours(table, 1)
        values = np.array([*fit.items, fit.lags[1], fit.cold_start, fit.batch_sd])
        difference = np.abs(values - theirs.to_numpy()).max()
        print(
            f"V={items} N={batches}: largest difference {difference:.1e} in {len(values)} "
            f"parameters (glmer nAGQ=25, lme4 {version}); our gradient per rating "
            f"{fit.gradient_norm:.1e}; beta {fit.lags[1]:.7f} against {theirs['lag1']:.7f}, sd "
            f"{fit.batch_sd:.7f} against {theirs['batch_sd']:.7f}"
        )


def speed() -> None:
    """Print times and their ratio at equal accuracy (nAGQ = 9)."""
    for batches in [int(n) for n in sys.argv[2:]] or [200, 2000]:
        table = draw(30, batches, GEMINI, seed=batches)
        before = ours(table)
        _, elapsed, cpu, version = glmer(table, "9")
        after = ours(table)
        wall, mine = min(before[1], after[1]), min(before[2], after[2])
        print(
            f"V=30 N={batches}: ours {wall * 1e3:.2f} ms wall, {mine * 1e3:.2f} ms CPU; glmer "
            f"nAGQ=9 {elapsed:.1f} s wall, {cpu:.1f} s CPU (lme4 {version}): "
            f"{cpu / mine:,.0f} times by CPU, {elapsed / wall:,.0f} by the clock",
            flush=True,
        )


if __name__ == "__main__":
    {"agreement": agreement, "speed": speed}[sys.argv[1]]()
