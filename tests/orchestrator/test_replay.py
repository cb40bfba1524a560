"""Deciding again: the same decision, a recording that stays as it is, and differences in words."""

import dataclasses
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchtrial.errors import DataError, LedgerDamaged, LedgerError
from benchtrial.orchestrator.campaign import Campaign, Replied
from benchtrial.orchestrator.ledger import Ledger
from benchtrial.orchestrator.replay import agreement, recorded_looks, replay, replay_comparisons
from benchtrial.orchestrator.sequential import Best, Difference, Look
from benchtrial.orchestrator.study import AnalysisSpec, StoppingSpec, Study

NOBODY = 65534


@pytest.fixture(scope="module")
def study() -> Study:
    """Two candidates that are alike, so that the study takes all of its looks."""
    prompts = [f"p{n}" for n in range(12)]
    return Study.from_dict(
        {
            "name": "alike",
            "kind": "pairs",
            "seed": 3,
            "prompts": [{"id": prompt, "text": prompt} for prompt in prompts],
            "candidates": [
                {"id": name, "responses": dict.fromkeys(prompts, name)} for name in ("a", "b")
            ],
            "judges": [
                {
                    "id": "judge",
                    "provider": "simulated",
                    "simulated": {"scores": {"a": 0.1, "b": 0.0}, "position": 0.5},
                }
            ],
            "analysis": {"terms": ["position"]},
            "design": {"kind": "balanced-swaps", "pairs": "all", "repetitions": 2},
            "stopping": {
                "target": {"kind": "difference", "a": "a", "b": "b"},
                "rounds": 4,
                "first_look": {"prompts": 5},
                "rope": 0,
                "futility": False,
            },
            "budget": {"requests": 1000},
        }
    )


@pytest.fixture(scope="module")
def recording(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "study.ledger"
    with Campaign.open(study, ledger=path) as campaign:
        campaign.run()
    return path


@pytest.fixture
def cut_off(study: Study, tmp_path: Path) -> Callable[[int], Path]:
    """A ledger of a run that ended after so many replies, as a kill leaves it."""

    class Killed(BaseException):
        pass

    def make(replies: int) -> Path:
        path, heard = tmp_path / f"{replies}.ledger", [0]

        def kill(event: Any) -> None:
            heard[0] += isinstance(event, Replied)
            if heard[0] >= replies:
                raise Killed

        with Campaign.open(study, ledger=path, listener=kill) as campaign:
            if replies:
                with pytest.raises(Killed):
                    campaign.run()
        return path

    return make


# -- ledgers -------------------------------------------------------------------------------------


def test_a_whole_recording_is_decided_again_look_by_look(recording: Path) -> None:
    recorded = recorded_looks(recording)
    replayed = replay(recording)
    assert len(recorded) == 4
    assert recorded == replayed.looks
    found = agreement(recorded, replayed.looks)
    assert found.agrees is True
    assert str(found) == "the replay agrees with the recording in all its 4 looks"


def test_a_replay_changes_nothing_and_writes_nothing_beside_the_recording(
    recording: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copy(recording, tmp_path))
    before = (copy.read_bytes(), copy.stat().st_mtime_ns, sorted(tmp_path.iterdir()))
    replay(copy)
    assert (copy.read_bytes(), copy.stat().st_mtime_ns, sorted(tmp_path.iterdir())) == before


@pytest.fixture
def archive() -> Iterator[Path]:
    """A folder that everybody may read and only its owner may write (pytest's are private)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)


def test_a_replay_works_from_a_folder_that_cannot_be_written(
    recording: Path, archive: Path
) -> None:
    archive.chmod(0o755)
    copy = Path(shutil.copy(recording, archive))
    copy.chmod(0o444)
    archive.chmod(0o555)
    program = textwrap.dedent(
        f"""
        import os, sys
        from benchtrial.orchestrator.replay import replay
        replay(sys.argv[1])  # nothing is imported after setuid
        if os.getuid() == 0:
            os.setuid({NOBODY})
        try:
            open(os.path.join(os.path.dirname(sys.argv[1]), "x"), "w")
        except OSError:
            print(replay(sys.argv[1]))
        """
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(copy)], capture_output=True, text=True, check=False
    )
    assert ended.stderr == ""
    assert ended.stdout.startswith("result: ")


@pytest.mark.parametrize(
    ("replies", "looks", "agrees"), [(0, 0, None), (7, 0, None), (12, 0, None), (30, 2, True)]
)
def test_a_recording_cut_off_in_the_middle_says_so(
    replies: int, looks: int, agrees: bool | None, cut_off: Callable[[int], Path]
) -> None:
    path = cut_off(replies)
    recorded = recorded_looks(path)
    assert len(recorded) == looks
    result = replay(path)
    assert result.state == "exhausted"
    assert result.exit_code == 4
    assert "the recording holds no more answers" in result.sentence
    assert result.looks[:looks] == recorded
    assert all(
        not look.final for look in result.looks
    )  # no alpha is spent on a recording that stops
    found = agreement(recorded, result.looks)
    assert found.agrees is agrees


def test_a_look_that_was_due_when_the_run_died_is_new(recording: Path) -> None:
    looks = recorded_looks(recording)
    found = agreement(looks[:1], looks[:2])
    assert found.agrees is True
    assert "look 2 is new" in found.sentence


def _changed(look: Look, **changes: Any) -> Look:
    first, *others = look.contrasts
    return dataclasses.replace(look, contrasts=(dataclasses.replace(first, **changes), *others))


def test_the_first_difference_is_named(recording: Path) -> None:
    looks = recorded_looks(recording)
    moved = _changed(looks[1], value=looks[1].contrasts[0].value + 0.01)
    found = agreement(looks, (looks[0], moved, *looks[2:]))
    assert found.agrees is False
    assert "first at look 2: recorded is a - b = " in found.sentence

    decision = dataclasses.replace(looks[2].decision, state="decided", winner="a", answer=("a",))
    other = dataclasses.replace(looks[2], decision=decision)
    found = agreement(looks, (*looks[:2], other))
    assert found.agrees is False
    assert "look 3: recorded is 'continue' (a, b), replayed 'decided' (a)" in found.sentence

    assert agreement(looks, looks[:3]).agrees is False
    slow = dataclasses.replace(looks[0], clock=0.5)
    assert "its clock was 0.25 and is 0.5" in agreement(looks, (slow,)).sentence


def test_rounding_of_another_machine_is_no_difference(recording: Path) -> None:
    looks = recorded_looks(recording)
    nudged = _changed(looks[0], se=looks[0].contrasts[0].se * (1 + 1e-12))
    found = agreement(looks, (nudged, *looks[1:]))
    assert found.agrees is True
    assert "to within" in found.sentence
    assert agreement(looks, (_changed(looks[0], se=0.0), *looks[1:])).agrees is False


def test_what_is_no_ledger_is_one_ledger_error(recording: Path, tmp_path: Path) -> None:
    content = bytearray(recording.read_bytes())
    damaged = tmp_path / "damaged.ledger"
    damaged.write_bytes(content[:100] + b"\xff" * 8000 + content[8100:])
    (tmp_path / "text.ledger").write_text("judge,prompt\n", encoding="utf-8")
    for path, kind in (
        (tmp_path / "none.ledger", LedgerError),
        (tmp_path, LedgerError),
        (tmp_path / "text.ledger", LedgerError),
        (damaged, LedgerDamaged),
    ):
        with pytest.raises(kind) as refused:
            replay(path)
        assert refused.value.exit_code == 6


def test_a_replay_leaves_nothing_in_the_temporary_folder(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    replay(recording)
    assert list(tmp_path.iterdir()) == []


def test_the_recorded_judge_is_the_only_one_asked(recording: Path) -> None:
    with Ledger.open(recording, read_only=True) as ledger:
        spent = ledger.spent()
    assert replay(recording).spent == spent


# -- tables --------------------------------------------------------------------------------------


@pytest.fixture
def comparisons() -> pd.DataFrame:
    rng = np.random.default_rng(8)
    rows = [
        (judge, f"q{n}", first, second, float(rng.random() < chance))
        for n in range(40)
        for judge, slot in (("x", 0.1), ("y", -0.1))
        for first, second, chance in (("new", "old", 0.75 + slot), ("old", "new", 0.25 + slot))
    ]
    return pd.DataFrame(rows, columns=["judge", "prompt", "first", "second", "outcome"])


def _replay(table: pd.DataFrame, seed: int = 0, **stopping: Any) -> Any:
    return replay_comparisons(
        table,
        target=Difference("new", "old"),
        stopping=StoppingSpec(target={"kind": "difference", "a": "new", "b": "old"}, **stopping),
        analysis=AnalysisSpec(),
        seed=seed,
    )


def test_a_table_is_looked_at_prompt_by_prompt_until_it_decides(comparisons: pd.DataFrame) -> None:
    replayed = _replay(comparisons, rounds=8)
    last = replayed.looks[-1]
    assert last.decision.state == "decided"
    assert last.decision.winner == "new"
    assert [look.clock for look in replayed.looks] == [n / 8 for n in range(1, last.number + 1)]
    assert last.clock < 1
    assert replayed.evidence.fit is not None
    assert len(replayed.evidence.fit.scores) == 2


def test_the_order_of_the_rows_does_not_matter_and_the_seed_does(comparisons: pd.DataFrame) -> None:
    shuffled = comparisons.sample(frac=1, random_state=1)
    one, two = (_replay(table, rounds=8).looks for table in (comparisons, shuffled))
    assert agreement(one, two).agrees is True
    other = _replay(comparisons, seed=1, rounds=8).looks
    assert agreement(one, other).agrees is False


def test_a_table_without_a_conclusion_ends_exhausted(comparisons: pd.DataFrame) -> None:
    rng = np.random.default_rng(1)
    alike = comparisons.assign(outcome=rng.integers(0, 2, len(comparisons)))
    replayed = _replay(alike, rounds=3, rope=0, futility=False)
    assert replayed.looks[-1].decision.state == "exhausted"
    assert replayed.looks[-1].final
    assert len(replayed.looks) == 3


def test_giving_up_follows_the_study(comparisons: pd.DataFrame) -> None:
    rng = np.random.default_rng(1)
    alike = comparisons.assign(outcome=rng.integers(0, 2, len(comparisons)))
    assert _replay(alike, rounds=10, rope=0).looks[-1].decision.state == "inconclusive-futility"
    assert _replay(alike, rounds=10, rope=0, futility=False).looks[-1].decision.state == "exhausted"


def test_more_looks_than_prompts_are_refused(comparisons: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="40 prompts cannot be split over 41 looks"):
        _replay(comparisons, rounds=41)


def test_groups_that_never_met_are_unidentified(comparisons: pd.DataFrame) -> None:
    others = comparisons.replace({"new": "c", "old": "d"})
    replayed = replay_comparisons(
        pd.concat([comparisons, others], ignore_index=True),
        target=Best(("new", "old", "c", "d")),
        stopping=StoppingSpec(target={"kind": "best"}, rounds=2),
        analysis=AnalysisSpec(),
        seed=0,
    )
    assert replayed.looks[-1].decision.state == "unidentified"
    assert replayed.looks[-1].decision.winner is None
