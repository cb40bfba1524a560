"""A small pair study in a ledger, for tests of what happens to the file around it."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pytest

from benchtrial.adapters.judge import ChoiceAnswer, Message, PairCell, Reply, Request
from benchtrial.orchestrator.budget import Amount
from benchtrial.orchestrator.ledger import Ledger, PlannedQuery
from benchtrial.orchestrator.verdicts import Verdict


@dataclass(frozen=True)
class SmallStudy:
    """Queries to plan, and a way to answer them."""

    queries: tuple[PlannedQuery, ...]
    reserved: Amount
    charged: Amount

    def plan(self, ledger: Ledger) -> None:
        ledger.add_round(0, self.queries)

    async def answer(self, ledger: Ledger, number: int) -> int:
        attempt = await ledger.begin(self.queries[number].key, self.reserved)
        await self.reply(ledger, attempt)
        return attempt

    async def reply(self, ledger: Ledger, attempt: int) -> None:
        verdict = Verdict(1, "", "valid", value=1.0, label="A", rule="json")
        await ledger.reply(attempt, Reply("A", raw="x" * 500), [verdict], self.charged, parser="1")

    def answer_all(self, ledger: Ledger, numbers: range) -> None:
        async def work() -> None:
            await asyncio.gather(*(self.answer(ledger, number) for number in numbers))

        asyncio.run(work())


@pytest.fixture(scope="session")
def study() -> SmallStudy:
    return SmallStudy(
        queries=tuple(_query(number) for number in range(200)),
        reserved=Amount(100, Decimal("0.01"), 1),
        charged=Amount(60, Decimal("0.006"), 1),
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "study.ledger"


@pytest.fixture
def create(path: Path) -> Callable[[], Ledger]:
    return lambda: Ledger.create(path, study_json="{}", study_hash="hash")


@pytest.fixture
def ledger(create: Callable[[], Ledger]) -> Iterator[Ledger]:
    with create() as made:
        yield made


def _query(number: int) -> PlannedQuery:
    request = Request(
        key=f"key-{number}",
        cell=PairCell("j", f"p{number}", "x", "y", "quality"),
        messages=(Message("user", "x or y?"),),
        answer=ChoiceAnswer(),
        max_output_tokens=20,
    )
    return PlannedQuery(request.key, 0, number, request)
