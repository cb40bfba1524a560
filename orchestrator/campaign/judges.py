"""From the judges of a study to judges that answer."""

import os
from collections.abc import Mapping, Sequence

from benchtrial.adapters import (
    Capabilities,
    Judge,
    OpenAICompatible,
    Price,
    RecordedJudge,
    Reply,
    Request,
    Secret,
    SimulatedBatchJudge,
    SimulatedPairJudge,
)
from benchtrial.errors import JudgeError, StudyError
from benchtrial.orchestrator.campaign.asking import Panelist
from benchtrial.orchestrator.ledger import Ledger
from benchtrial.orchestrator.study import JudgeSpec, Study


class AskedElsewhere:
    """A judge whose answers come through ``campaign.tell``: people, or a system of your own."""

    capabilities = Capabilities()

    def __init__(self, name: str) -> None:
        self._name = name

    def input_tokens_at_most(self, request: Request) -> int:
        """Nothing is read by a machine, so nothing is counted."""
        del request
        return 0

    async def ask(self, request: Request) -> Reply:
        """Refuse: there is nobody to send the request to."""
        raise StudyError(
            f"judge {self._name!r} has provider \"ask\": its answers come from outside. "
            "Use campaign.ask() and campaign.tell() instead of run()"
        )

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
    outcomes: Mapping[str, Sequence[Reply | JudgeError]] = ledger.outcomes()
    judge = RecordedJudge(outcomes, reservations=ledger.reservations())
    return {spec.id: _panelist(spec, judge) for spec in study.judges}


def _panelist(spec: JudgeSpec, judge: Judge) -> Panelist:
    price = None if spec.price is None else Price(**spec.price.model_dump())
    return Panelist(judge, spec.concurrency, price)


def _live(study: Study, spec: JudgeSpec) -> Judge:
    if spec.provider == "ask":
        return AskedElsewhere(spec.id)
    if spec.provider == "simulated":
        parameters = dict(spec.simulated or {})
        kind = SimulatedBatchJudge if study.kind == "batch" else SimulatedPairJudge
        return kind(seed=study.seed, **parameters)
    return OpenAICompatible(
        name=spec.id,
        model=spec.model,
        base_url=spec.base_url,
        key=_key(spec),
        provider=spec.provider,
        timeout_s=spec.timeout_s,
    )


def _key(spec: JudgeSpec) -> Secret | None:
    if spec.key_env is None:
        return None
    value = os.environ.get(spec.key_env, "").strip()
    if not value:
        raise StudyError(
            f"judge {spec.id!r}: the environment variable {spec.key_env} is not set; "
            f"export {spec.key_env}=… and run again"
        )
    return Secret(value)
