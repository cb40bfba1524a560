"""Run a study with the local judge, from starting the server to the decision, in one command.

    python examples/local_judge/run_study.py examples/answer_styles/study.toml

Every judge of the study is asked at the server that this program starts; where a server listens is
no part of what a study is, so the ledger is the same as if the study had named it. Run the command
again to go on after an interruption.
"""

import argparse
import sys
from pathlib import Path

from serve import LocalJudgeError, local_judge

from benchtrial import Campaign, Study
from benchtrial.errors import BenchtrialError


def at(study: Study, base_url: str) -> Study:
    """Return the study with every judge at ``base_url``."""
    judges = tuple(judge.model_copy(update={"base_url": base_url}) for judge in study.judges)
    return study.model_copy(update={"judges": judges})


def main() -> int:
    """Run the study named on the command line; return the exit code of its end state."""
    parser = argparse.ArgumentParser(description="Run a study with a small real judge.")
    parser.add_argument("study", type=Path)
    parser.add_argument("--ledger", type=Path, help="default: beside the study file")
    options = parser.parse_args()
    ledger = options.ledger or options.study.with_suffix(".ledger")
    try:
        study = Study.from_file(options.study)
        with local_judge() as base_url:
            print(f"asking {base_url}", flush=True)
            with Campaign.open(at(study, base_url), ledger=ledger) as campaign:
                result = campaign.run()
    except (BenchtrialError, LocalJudgeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return getattr(error, "exit_code", 1)
    print(result.table().to_string(index=False))
    print(result)
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
