"""Real list-wise scores: carryover and position effects of a judge that scores ten items at a time.

    python benchmarks/glmm/real_scores.py [path of batcheval.csv.gz]

Reads the recorded scores of gpt-4 on batches of ten dialogues (five rounds, the batches composed
anew each time), which are not part of this project, and fits them as ordinal ratings (rounded to
whole points), as accepted or not (above the median) and as real-valued scores.
"""

import sys
from pathlib import Path

import pandas as pd

from benchtrial.orchestrator.models import fit_glmm
from benchtrial.orchestrator.models.estimate import Estimate

SOURCE = Path("../shared/data/batcheval.csv.gz")


def ratings_of(table: pd.DataFrame) -> pd.DataFrame:
    """Return the tidy table: one batch per round and prompt."""
    batch = table["round"].astype(str) + "/" + table["batch_id"].astype(str)
    score = table["score"].where(table["valid"] == 1)
    return pd.DataFrame(
        {
            "batch": batch,
            "position": table["position"] + 1,
            "item": table["item_id"],
            "rating": score,
        }
    )


def main() -> None:
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE
    if not source.exists():
        sys.exit(f"{source} is not there; give the path of batcheval.csv.gz")
    recorded = pd.read_csv(source)
    print(
        "| data | criterion | fit | lag 1 (95 %) | first position (95 %) | batch sd | separated |"
    )
    print("|---|---|---|---|---|---|---|")
    for (dataset, judge, criterion), table in recorded.groupby(["dataset", "judge", "criterion"]):
        if judge != "gpt-4" or criterion != "overall":
            continue
        scores = ratings_of(table)
        rounded = scores.assign(rating=scores["rating"].round())
        middle = scores["rating"].median()
        accepted = (scores["rating"] > middle).where(scores["rating"].notna()).astype(float)
        fits = {
            "ordinal": fit_glmm(rounded, response="ordinal"),
            f"above {middle:g}": fit_glmm(scores.assign(rating=accepted)),
            "real-valued": fit_glmm(scores.dropna(), response="gaussian"),
        }
        for name, fit in fits.items():
            errors = fit.standard_errors
            lag = Estimate.wald(fit.lags[1], errors["lag", 1])
            first = Estimate.wald(fit.cold_start, errors["cold start", ""])
            print(
                f"| {dataset} | {criterion} | {name} | {lag.value:.2f} ({lag.low:.2f}, "
                f"{lag.high:.2f}) | {first.value:.2f} ({first.low:.2f}, {first.high:.2f}) | "
                f"{fit.batch_sd:.2f} | {len(fit.separated)} of {len(fit.items)} |"
            )


if __name__ == "__main__":
    main()
