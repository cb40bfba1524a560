"""Run a campaign, look at one, replay one."""

from pathlib import Path

from benchtrial.orchestrator.campaign import Campaign, Result, looks_of
from benchtrial.orchestrator.cli import facts, show
from benchtrial.orchestrator.ledger import Ledger
from benchtrial.orchestrator.ledger.lock import holder
from benchtrial.orchestrator.replay import agreement, recorded_looks, replaying
from benchtrial.orchestrator.study import Study


def run(path: Path, ledger: Path | None, voice: show.Voice) -> int:
    """Run the study at ``path``, and return the exit code."""
    study = Study.from_file(path)
    if ledger is None:
        ledger = path.with_suffix(".ledger")
    with (
        show.Watcher(voice) as listener,
        Campaign.open(study, ledger=ledger, listener=listener) as campaign,
    ):
        voice.say(campaign.ledger.notices)
        result = campaign.run()
    return _finish(result, voice, [])


def replay(recording: Path, voice: show.Voice) -> int:
    """Decide again what a ledger holds, compare with what was decided, and return the exit code."""
    recorded = recorded_looks(recording)
    with show.Watcher(voice) as listener, replaying(recording, listener=listener) as campaign:
        result = campaign.run()
    found = agreement(recorded, result.looks)
    return _finish(
        result,
        voice,
        show.paragraph(str(found)),
        agreement={"agrees": found.agrees, "sentence": found.sentence},
    )


def status(path: Path, voice: show.Voice) -> None:
    """Show how far the campaign in the ledger at ``path`` has come."""
    with Ledger.open(path, read_only=True) as record:
        result = Result(
            looks=looks_of(record),
            spent=record.spent(),
            fit=None,
            warnings=(),
            missing=record.missing(),
            ledger=path,
        )
        study = Study.from_json(record.study_json)
        counts = record.summary()
    by = holder(path)
    voice.say(
        [
            f"{study.name}: {len(result.looks)} looks; "
            f"{counts.answered} of {counts.queries} requests"
            + (f"; {counts.unknown} without an outcome" if counts.unknown else "")
        ]
    )
    if by is not None:
        voice.say([f"open for writing: {by}"])
    voice.say(show.looks_lines(result.looks))
    _finish(
        result,
        voice,
        [],
        study=study.name,
        rounds=counts.rounds,
        requests_planned=counts.queries,
        requests_answered=counts.answered,
        attempts_without_outcome=counts.unknown,
        open_for_writing=None if by is None else str(by),
    )


def _finish(result: Result, voice: show.Voice, lines: list[str], **more: object) -> int:
    voice.end(
        [*show.result_lines(result), *lines], str(result), lambda: facts.of_result(result) | more
    )
    return result.exit_code
