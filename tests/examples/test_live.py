"""The whole way with a real model: a live run, then its offline replay, look by look.

The shipped studies are cut to the length of a test: fewer prompts or batches, the same judge,
words, model and rules. Skips only where the packages of the local judge cannot be installed.
"""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from benchtrial.orchestrator.campaign import Campaign
from benchtrial.orchestrator.ledger import Ledger
from benchtrial.orchestrator.replay import replay
from benchtrial.orchestrator.study import BudgetSpec, Study


@pytest.fixture(scope="module")
def base_url(serve: ModuleType):
    pytest.importorskip("xllamacpp")
    try:
        weights = serve.find_weights()
    except serve.WeightsUnavailable as error:
        pytest.skip(str(error))
    with serve.local_judge(weights=weights) as url:
        yield url


def shortened(source: Path, folder: Path, *, prompts: int, rounds: int) -> Path:
    """Copy a pair study, keeping its first prompts and their answers."""
    for name in ("prompts", "plain", "padded", "astray"):
        lines = (source / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()[:prompts]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    text = (source / "study.toml").read_text(encoding="utf-8")
    path = folder / "study.toml"
    path.write_text(text.replace("rounds = 6", f"rounds = {rounds}"), encoding="utf-8")
    return path


def at(study: Study, base_url: str, **changes) -> Study:
    judges = tuple(judge.model_copy(update={"base_url": base_url}) for judge in study.judges)
    return study.model_copy(update={"judges": judges, **changes})


def test_a_pair_study_with_log_probabilities_runs_live_and_replays(examples, base_url, tmp_path):
    study = Study.from_file(shortened(examples / "answer_styles", tmp_path, prompts=4, rounds=2))
    path = tmp_path / "live.ledger"
    with Campaign.open(at(study, base_url), ledger=path) as campaign:
        live = campaign.run()
    with Ledger.open(path, read_only=True) as ledger:
        counts = ledger.summary()
        verdicts = ledger.export("verdicts")
        replies = ledger.export("replies")
    assert counts.answered >= 12
    assert (verdicts["state"] == "valid").mean() > 0.9
    scores = verdicts["probability"].dropna()
    assert len(scores) == len(verdicts)
    assert scores.between(0, 1, inclusive="neither").all()
    assert replies["served_model"].str.contains("SmolLM2").all()
    assert live.spent.tokens == (replies["input"].astype(int) + replies["output"].astype(int)).sum()
    again = replay(path)
    assert [look.to_json() for look in again.looks] == [look.to_json() for look in live.looks]
    assert str(again) == str(live)


def test_a_batch_study_at_temperature_one_runs_live_and_replays(examples, base_url, tmp_path):
    study = Study.from_file(examples / "bug_reports" / "study.toml")
    study = at(
        study,
        base_url,
        budget=BudgetSpec(requests=4),
        stopping=study.stopping.model_copy(update={"rounds": 20}),
    )
    path = tmp_path / "live.ledger"
    with Campaign.open(study, ledger=path) as campaign:
        live = campaign.run()
    assert live.state == "inconclusive-budget"
    assert live.spent.requests == 4
    with Ledger.open(path, read_only=True) as ledger:
        ratings = ledger.ratings()
    assert ratings["position"].between(1, 8).all()
    assert set(ratings["rating"]) <= {0.0, 1.0}
    assert len(ratings) >= 24  # three batches of four at least are whole
    assert [look.to_json() for look in replay(path).looks] == [
        look.to_json() for look in live.looks
    ]


def test_one_command_starts_the_server_and_runs_the_study(examples, base_url, tmp_path):
    study = shortened(examples / "answer_styles", tmp_path, prompts=2, rounds=1)
    program = Path(examples) / "local_judge" / "run_study.py"
    ended = subprocess.run(
        [sys.executable, str(program), str(study)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.stdout, ended.stderr
    assert ended.stdout.splitlines()[-1].startswith("result: "), ended.stderr
    assert study.with_suffix(".ledger").exists()
