"""What a judge's verdict probabilities are worth, compared with verdicts drawn from them.

    python benchmarks/oscar/probabilities.py --ledger recording.ledger [--draws 200]

The ledger must be of a pair study whose judge gave log-probabilities. The probabilities enter as
fractional outcomes; the verdicts they are compared with are drawn from the same probabilities, as a
judge at temperature 1 would give them. Both fits have a position term and the prompt-cluster
covariance. The square of the ratio of standard errors is how many sampled verdicts one probability
replaces.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sections import table, write

from benchtrial.orchestrator.ledger import Ledger
from benchtrial.orchestrator.models import fit_oscar


def standard_errors(frame: pd.DataFrame) -> np.ndarray:
    fit = fit_oscar(frame, terms="position")
    return np.array([fit.log_odds(one, other).se for one, other in fit.pairs])


def read(ledger: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Verdicts and probabilities, from a copy: the ledger may still be growing."""
    with tempfile.TemporaryDirectory() as folder:
        for part in ledger.parent.glob(f"{ledger.name}*"):
            shutil.copy(part, folder)
        with Ledger.open(Path(folder) / ledger.name, read_only=True) as opened:
            return opened.comparisons(), opened.comparisons(outcome="probability")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=200)
    options = parser.parse_args()
    verdicts, probabilities = read(options.ledger)
    fit = fit_oscar(probabilities, terms="position")
    with_probabilities = standard_errors(probabilities)
    rng = np.random.default_rng(1)
    drawn = []
    for _ in range(options.draws):
        outcome = (rng.random(len(probabilities)) < probabilities["outcome"]).astype(float)
        drawn.append(standard_errors(probabilities.assign(outcome=outcome)))
    sampled = np.median(drawn, axis=0)
    rows = [
        [
            f"{one} - {other}",
            f"{fit.log_odds(one, other).value:+.3f}",
            f"{with_probabilities[n]:.4f}",
            f"{sampled[n]:.4f}",
            f"{(sampled[n] / with_probabilities[n]) ** 2:.0f}",
        ]
        for n, (one, other) in enumerate(fit.pairs)
    ]
    share = float(verdicts["outcome"].mean())
    body = (
        f"{len(probabilities)} answers of {', '.join(map(str, fit.data.judges))} on "
        f"{len(fit.data.prompts)} prompts; it chose the first slot in {100 * share:.0f} % of its "
        f"verdicts at temperature 0, its probabilities lie between "
        f"{probabilities['outcome'].min():.2f} and {probabilities['outcome'].max():.2f}, and "
        f"D = {fit.net_first_slot.iloc[0]:.2f}. Sampled verdicts: median of {options.draws} draws."
    )
    columns = ["contrast", "log-odds", "se, probabilities", "se, sampled verdicts"]
    columns.append("sampled verdicts that one probability replaces")
    command = f"python benchmarks/oscar/probabilities.py --ledger {options.ledger.name}"
    write("Probabilities against sampled verdicts", command, body + "\n\n" + table(columns, rows))


if __name__ == "__main__":
    main()
