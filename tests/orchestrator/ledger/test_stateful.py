"""Ledger and budget together under any interleaving of asking, failing, crashing and reopening.

The model is a few dictionaries. A crash is what SIGKILL or a power cut leaves: the file and its
WAL as they lie on the disk at that moment, opened somewhere else. With ``LEDGER_EXAMPLES=350`` it
is a soak of about 10,000 steps.
"""

import asyncio
import os
import shutil
import tempfile
from decimal import Decimal
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from benchtrial.adapters.judge import ChoiceAnswer, Message, PairCell, Reply, Request
from benchtrial.errors import TransientError
from benchtrial.orchestrator.budget import Amount, Budget, Limits
from benchtrial.orchestrator.ledger import Ledger, PlannedQuery
from benchtrial.orchestrator.verdicts import Verdict

NUMBER = 8
LIMITS = Limits(tokens=1500, money=Decimal("1.50"), requests=40)


def planned(number: int) -> PlannedQuery:
    request = Request(
        key=f"key-{number}",
        cell=PairCell("j", f"p{number}", "x", "y", "c"),
        messages=(Message("user", "x or y?"),),
        answer=ChoiceAnswer(),
        max_output_tokens=20,
    )
    return PlannedQuery(request.key, 0, number, request)


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.crashes = 0
        self.ledger = Ledger.create(self.folder / "0.ledger", study_json="{}", study_hash="0")
        self.ledger.add_round(0, [planned(number) for number in range(NUMBER)])
        self.budget = Budget(LIMITS)
        self.reserved: dict[int, Amount] = {}  # attempts under way in this run
        self.unknown: dict[int, Amount] = {}  # attempts of runs that were cut off
        self.charged: dict[int, Amount] = {}
        self.query_of: dict[int, int] = {}
        self.answers: dict[int, list[str]] = {}  # in order of arrival

    def teardown(self) -> None:
        self.ledger.close()
        shutil.rmtree(self.folder)

    @rule(number=st.integers(0, NUMBER - 1), tokens=st.integers(1, 300))
    def begin(self, number: int, tokens: int) -> None:
        worst = Amount(tokens, Decimal(tokens) / 1000, 1)
        if not self.budget.try_reserve(worst):
            return
        attempt = asyncio.run(self.ledger.begin(f"key-{number}", worst))
        assert attempt not in self.query_of
        self.reserved[attempt] = worst
        self.query_of[attempt] = number

    @precondition(lambda self: self.reserved)
    @rule(data=st.data(), label=st.sampled_from(["A", "B"]))
    def reply(self, data: st.DataObject, label: str) -> None:
        attempt = data.draw(st.sampled_from(sorted(self.reserved)))
        used = Amount(data.draw(st.integers(0, self.reserved[attempt].tokens)), Decimal("0.001"), 1)
        self._record_reply(attempt, label, used)
        self.budget.settle(self.reserved.pop(attempt), used)

    @precondition(lambda self: self.unknown)
    @rule(data=st.data(), label=st.sampled_from(["A", "B"]))
    def a_late_reply(self, data: st.DataObject, label: str) -> None:
        attempt = data.draw(st.sampled_from(sorted(self.unknown)))
        self._record_reply(attempt, label, self.unknown.pop(attempt))

    @precondition(lambda self: self.reserved)
    @rule(data=st.data(), billed=st.booleans())
    def fail(self, data: st.DataObject, billed: bool) -> None:
        attempt = data.draw(st.sampled_from(sorted(self.reserved)))
        worst = self.reserved.pop(attempt)
        used = worst if billed else Amount(requests=1)
        error = TransientError("lost", may_be_billed=billed)
        asyncio.run(self.ledger.fail(attempt, error, used))
        self.budget.settle(worst, used)
        self.charged[attempt] = used

    @rule(at_once=st.booleans())
    def crash_and_resume(self, at_once: bool) -> None:
        before = self.ledger
        self.crashes += 1
        after = self.folder / f"{self.crashes}.ledger"
        shutil.copyfile(before.path, after)
        wal = before.path.with_name(before.path.name + "-wal")
        shutil.copyfile(wal, after.with_name(after.name + "-wal"))
        before.close()
        if at_once:  # killed again before anything was asked
            Ledger.open(after).close()
        self._resume(after)

    @rule()
    def stop_and_resume(self) -> None:
        self.ledger.close()
        self._resume(self.ledger.path)

    @invariant()
    def the_books_agree(self) -> None:
        in_flight = [*self.reserved.values(), *self.unknown.values()]
        total = sum([*self.charged.values(), *in_flight], Amount())
        assert self.ledger.spent() == total
        assert self.budget.spent + self.budget.reserved == total
        assert LIMITS.exceeded_by(total) == ()

    @invariant()
    def every_answer_is_there_and_counts_once(self) -> None:
        for number in range(NUMBER):
            assert self.ledger.answered(f"key-{number}") is (number in self.answers)
        table = self.ledger.comparisons()
        counted = dict(zip(table["prompt"], table["raw"], strict=True))
        assert len(table) == len(counted)
        assert counted == {f"p{number}": texts[0] for number, texts in self.answers.items()}
        replies = sum(map(len, self.answers.values()))
        assert self.ledger.summary().duplicates == replies - len(self.answers)

    def _record_reply(self, attempt: int, label: str, used: Amount) -> None:
        verdict = Verdict(1, "", "valid", value=float(label == "A"), label=label)
        asyncio.run(self.ledger.reply(attempt, Reply(label), [verdict], used, parser="1"))
        self.charged[attempt] = used
        self.answers.setdefault(self.query_of[attempt], []).append(label)

    def _resume(self, path: Path) -> None:
        self.unknown |= self.reserved
        self.reserved = {}
        self.ledger = Ledger.open(path)
        self.budget = Budget(LIMITS, spent=self.ledger.spent())


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(
    max_examples=int(os.environ.get("LEDGER_EXAMPLES", "6")),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
