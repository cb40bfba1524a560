"""Two small studies with simulated judges, and a judge that does as it is told."""

from collections.abc import Callable
from typing import Any

import pytest

from benchtrial.adapters import Capabilities, Reply, Request, Usage
from benchtrial.orchestrator.campaign import Panelist
from benchtrial.orchestrator.study import Study

StudyMaker = Callable[..., Study]


@pytest.fixture
def batch_study() -> StudyMaker:
    """Eight items in two groups that lie far apart, rated by one simulated judge."""

    def make(**changes: Any) -> Study:
        good = {f"good-{n}": 1.2 for n in range(4)}
        poor = {f"poor-{n}": -0.8 for n in range(4)}
        content: dict[str, Any] = {
            "name": "batches",
            "kind": "batch",
            "seed": 11,
            "items": [
                {"id": item, "text": f"text of {item}", "group": item.split("-")[0]}
                for item in [*good, *poor]
            ],
            "judges": [
                {
                    "id": "markov",
                    "provider": "simulated",
                    "price": "free",
                    "simulated": {
                        "qualities": {**good, **poor},
                        "lags": [-0.5],
                        "cold_start": -0.25,
                        "batch_sd": 0.6,
                    },
                }
            ],
            "design": {"kind": "shuffle", "batches": 80},
            "stopping": {"target": {"kind": "difference", "a": "good", "b": "poor"}, "rounds": 8},
            "budget": {"tokens": 10_000_000},
        }
        return Study.from_dict(content | changes)

    return make


@pytest.fixture
def pair_study() -> StudyMaker:
    """Three candidates on twenty prompts, compared by two simulated judges with opposite slots."""

    def make(**changes: Any) -> Study:
        scores = {"strong": 1.0, "middle": 0.0, "weak": -1.0}
        content: dict[str, Any] = {
            "name": "pairs",
            "kind": "pairs",
            "seed": 5,
            "prompts": [{"id": f"p{n}", "text": f"question {n}"} for n in range(20)],
            "candidates": [
                {"id": name, "responses": {f"p{n}": f"{name} {n}" for n in range(20)}}
                for name in scores
            ],
            "judges": [
                {
                    "id": name,
                    "provider": "simulated",
                    "price": "free",
                    "simulated": {"scores": scores, "sensitivity": 1.5, "position": position},
                }
                for name, position in (("front", 0.8), ("back", -0.6))
            ],
            "design": {"kind": "balanced-swaps", "pairs": "all", "repetitions": 3},
            "analysis": {"terms": ["position"]},  # every candidate's texts have one length
            "stopping": {"target": {"kind": "best"}, "rounds": 6},
            "budget": {"tokens": 10_000_000},
        }
        return Study.from_dict(content | changes)

    return make


class ScriptedJudge:
    """Answers every request by calling ``script`` with the request and its attempt number."""

    capabilities = Capabilities()

    def __init__(self, script: Callable[[Request, int], Reply], *, input_bound: int = 10) -> None:
        self.script = script
        self.input_bound = input_bound
        self.asked: list[Request] = []

    def input_tokens_at_most(self, request: Request) -> int:
        return self.input_bound

    async def ask(self, request: Request) -> Reply:
        self.asked.append(request)
        return self.script(request, sum(one.key == request.key for one in self.asked))

    async def close(self) -> None:
        pass


@pytest.fixture
def scripted() -> Callable[..., tuple[ScriptedJudge, dict[str, Panelist]]]:
    """Build a scripted judge, and the panel in which it is every judge named."""

    def make(
        script: Callable[[Request, int], Reply],
        *names: str,
        input_bound: int = 10,
        concurrency: int = 8,
    ) -> tuple[ScriptedJudge, dict[str, Panelist]]:
        judge = ScriptedJudge(script, input_bound=input_bound)
        return judge, {name: Panelist(judge, concurrency, None) for name in names}

    return make


@pytest.fixture
def first_wins() -> Callable[[Request, int], Reply]:
    """Answer that the response in slot A is better, for ten tokens."""
    return lambda request, attempt: Reply(text='{"winner": "A"}', usage=Usage(5, 5))
