"""From the judges of a study to judges that answer."""

from dataclasses import replace
from typing import Any

from benchtrial.adapters import (
    DIALECTS,
    Capabilities,
    Judge,
    OpenAICompatible,
    Price,
    RecordedJudge,
    Reply,
    Request,
    SimulatedBatchJudge,
    SimulatedPairJudge,
    key_from_environment,
)
from benchtrial.errors import (
    JudgeError,
    RequestRefused,
    StudyError,
    TerminalError,
    TransientError,
)
from benchtrial.orchestrator.campaign.asking import Panelist
from benchtrial.orchestrator.ledger import Ledger
from benchtrial.orchestrator.study import JudgeSpec, Study


class AskedElsewhere:
    """A judge whose answers come through ``campaign.tell``: people, or a system of your own."""

    capabilities = Capabilities()

    def input_tokens_at_most(self, request: Request) -> int:
        """Nothing is read by a machine, so nothing is counted."""
        del request
        return 0

    async def ask(self, request: Request) -> Reply:
        """Refuse: there is nobody to send the request to."""
        raise StudyError(f"{request.cell.judge!r} answers through campaign.tell() only")

    async def close(self) -> None:
        """Nothing to release."""


def panel_of(study: Study) -> dict[str, Panelist]:
    """Build every judge of the study, reading keys from the environment.

    Raises
    ------
    StudyError
        If a key variable is named but not set.
    """
    return {spec.id: _panelist(spec, _live(study, spec)) for spec in study.judges}


def recorded_panel(study: Study, ledger: Ledger) -> dict[str, Panelist]:
    """Build judges that answer from the attempts that ``ledger`` holds."""
    judge = RecordedJudge(_outcomes(ledger), reservations=ledger.reservations())
    return {spec.id: _panelist(spec, judge) for spec in study.judges}


def most_attempts(ledger: Ledger) -> int:
    """How often the most stubborn query was asked, and once more to learn that no more is recorded.

    A replay must be as patient as all runs were together: only the recording ends it.
    """
    return max(map(len, _outcomes(ledger).values()), default=0) + 1


def _outcomes(ledger: Ledger) -> dict[str, tuple[Reply | JudgeError, ...]]:
    """Return what each attempt came to, as one run without interruptions would have met it.

    An error that ended a run or a question was followed by a later attempt, or by giving up: to a
    replay it is one more failed attempt at the same cost. A query that was given up ends in a
    refusal that costs nothing.
    """
    given_up = ledger.missing().query("state == 'failed'").drop_duplicates("key")
    reasons = dict(zip(given_up["key"], given_up["reason"], strict=True))
    outcomes = {
        key: tuple(_passing(outcome) for outcome in attempts)
        for key, attempts in ledger.outcomes().items()
    }
    return outcomes | {
        key: (
            *outcomes.get(key, ()),
            RequestRefused("given up when recorded", reason=reason, sent=False),
        )
        for key, reason in reasons.items()
    }


def _passing(outcome: Reply | JudgeError) -> Reply | JudgeError:
    if isinstance(outcome, TerminalError):
        return TransientError(
            str(outcome), status=outcome.status, request_id=outcome.request_id, sent=outcome.sent
        )
    return outcome


def _panelist(spec: JudgeSpec, judge: Judge) -> Panelist:
    price = None if spec.price is None else Price(**spec.price.model_dump())
    return Panelist(judge, spec.concurrency, price)


def _live(study: Study, spec: JudgeSpec) -> Judge:
    if spec.provider == "ask":
        return AskedElsewhere()
    if spec.provider == "recorded":
        raise StudyError(
            f'judge {spec.id!r} has provider "recorded": it answers in a replay only. '
            "Use: benchtrial replay LEDGER"
        )
    if spec.provider == "simulated":
        parameters: dict[str, Any] = dict(spec.simulated or {})
        try:
            if study.kind == "batch":
                return SimulatedBatchJudge(seed=study.seed, **parameters)
            return SimulatedPairJudge(seed=study.seed, **parameters)
        except (TypeError, OverflowError) as error:
            raise StudyError(f"judge {spec.id!r}: [judges.simulated]: {error}") from error
    return OpenAICompatible(
        name=spec.id,
        model=spec.model,
        base_url=spec.base_url,
        key=None if spec.key_env is None else key_from_environment(spec.key_env),
        provider=spec.provider,
        timeout_s=spec.timeout_s,
        # what the dialect can do, held to the structured form of the study
        capabilities=replace(DIALECTS[spec.provider].capabilities, structured=spec.structured_form),
        connections=spec.concurrency,
    )
