"""Group commit: one fsync for many, nothing lost by cancelling, no silent failure."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import OperationalError

from benchtrial.errors import LedgerError
from benchtrial.orchestrator.budget import Amount
from benchtrial.orchestrator.ledger import Ledger
from benchtrial.orchestrator.ledger.schema import attempts, rounds
from benchtrial.orchestrator.ledger.writer import Writer


def writer_of(ledger: Ledger) -> Writer:
    assert ledger._writer is not None
    return ledger._writer


def on_the_writers_connection(ledger: Ledger, pragma: str) -> None:
    assert ledger._engine is not None
    with ledger._engine.connect() as connection:
        connection.execute(text(f"PRAGMA {pragma}"))


def test_commits_wait_for_the_disk(ledger: Ledger) -> None:
    """WAL with synchronous=FULL (2): no kill can show it, only a power cut."""
    assert ledger._engine is not None
    with ledger._engine.connect() as connection:
        assert connection.scalar(text("PRAGMA journal_mode")) == "wal"
        assert connection.scalar(text("PRAGMA synchronous")) == 2
        assert connection.scalar(text("PRAGMA foreign_keys")) == 1


def count_commits(ledger: Ledger) -> list[object]:
    commits: list[object] = []
    event.listen(ledger._engine, "commit", commits.append)
    return commits


def test_many_who_wait_share_few_commits(ledger: Ledger, study: Any) -> None:
    study.plan(ledger)
    commits = count_commits(ledger)
    study.answer_all(ledger, range(200))
    assert ledger.summary().replies == 200
    # 400 hand-ins. While one commit is on its way all other tasks queue for the next; the bound
    # leaves room for a scheduler that wakes them in small groups.
    assert len(commits) <= 40


def test_what_is_acknowledged_is_in_the_file(ledger: Ledger, path: Path, study: Any) -> None:
    """Seen through a connection of its own: committed, not merely queued."""
    study.plan(ledger)

    async def work() -> None:
        attempt = await ledger.begin(study.queries[0].key, study.reserved)
        other = sqlite3.connect(path)
        assert other.execute("SELECT id FROM attempts").fetchall() == [(attempt,)]
        await study.reply(ledger, attempt)
        assert other.execute("SELECT count(*) FROM verdicts").fetchall() == [(1,)]
        other.close()

    asyncio.run(work())


def slow_down(ledger: Ledger) -> threading.Event:
    """Let no commit finish before the returned event is set."""
    go = threading.Event()
    event.listen(ledger._engine, "commit", lambda _: go.wait(10))
    return go


def test_a_cancelled_reply_is_kept(ledger: Ledger, path: Path, study: Any) -> None:
    study.plan(ledger)

    async def work() -> None:
        attempt = await ledger.begin(study.queries[0].key, study.reserved)
        go = slow_down(ledger)
        task = asyncio.create_task(study.reply(ledger, attempt))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()

    asyncio.run(work())
    ledger.close()
    with Ledger.open(path) as again:
        assert again.summary().replies == 1
        assert again.spent() == study.charged


def test_a_cancelled_intent_is_withdrawn_and_costs_nothing(
    ledger: Ledger, path: Path, study: Any
) -> None:
    study.plan(ledger)

    async def work() -> None:
        go = slow_down(ledger)
        task = asyncio.create_task(ledger.begin(study.queries[0].key, study.reserved))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()

    asyncio.run(work())
    ledger.close()
    with Ledger.open(path) as again:
        assert again.summary().attempts == 1
        assert again.summary().unknown == 0
        assert again.spent() == Amount()
        assert again.outcomes() == {}


def test_reading_sees_what_was_handed_in_even_if_nobody_waits(ledger: Ledger, study: Any) -> None:
    study.plan(ledger)

    async def work() -> None:
        attempt = await ledger.begin(study.queries[0].key, study.reserved)
        task = asyncio.create_task(study.reply(ledger, attempt))
        await asyncio.sleep(0)
        task.cancel()
        assert len(ledger.comparisons()) == 1

    asyncio.run(work())


def test_a_bad_row_harms_nobody_else(ledger: Ledger, study: Any) -> None:
    study.plan(ledger)
    writer = writer_of(ledger)
    nonsense = {"id": 999, "query": 999, "started": "now"}
    bad = {attempts: [{**nonsense, "reserved_tokens": 1, "reserved_money": None,
                       "reserved_requests": 1}]}  # fmt: skip

    async def work() -> list[BaseException | None]:
        go = slow_down(ledger)
        first = asyncio.create_task(ledger.begin(study.queries[0].key, study.reserved))
        await asyncio.sleep(0.05)  # the next three share a commit
        tasks = [
            asyncio.create_task(ledger.begin(study.queries[1].key, study.reserved)),
            asyncio.create_task(writer.append(bad)),
            asyncio.create_task(ledger.begin(study.queries[2].key, study.reserved)),
        ]
        await asyncio.sleep(0.05)
        go.set()
        await first
        return await asyncio.gather(*tasks, return_exceptions=True)  # type: ignore[return-value]

    one, refused, other = asyncio.run(work())
    assert isinstance(one, int)
    assert isinstance(refused, LedgerError)
    assert "FOREIGN KEY" in str(refused)
    assert isinstance(other, int)
    assert ledger.summary().attempts == 3


def fill_the_disk(ledger: Ledger) -> None:
    on_the_writers_connection(ledger, "max_page_count = 1")  # SQLite: not below what there is


def forbid_writing(ledger: Ledger) -> None:
    on_the_writers_connection(ledger, "query_only = ON")


def fail_the_fsync(ledger: Ledger) -> None:
    def refuse(_: object) -> None:
        cause = sqlite3.OperationalError("disk I/O error")
        cause.sqlite_errorname = "SQLITE_IOERR_FSYNC"
        raise OperationalError("COMMIT", {}, cause)

    event.listen(ledger._engine, "commit", refuse)


@pytest.mark.parametrize(
    ("break_it", "remedy"),
    [
        (fill_the_disk, "Free some space"),
        (forbid_writing, "Make the file and its folder writable"),
        (fail_the_fsync, "Check the disk"),
    ],
)
def test_a_refusing_disk_is_an_error_for_everyone_who_waits(
    break_it: Callable[[Ledger], None],
    remedy: str,
    ledger: Ledger,
    path: Path,
    study: Any,
) -> None:
    study.plan(ledger)
    study.answer_all(ledger, range(50))
    break_it(ledger)

    async def work() -> list[BaseException | int]:
        return await asyncio.gather(
            *(study.answer(ledger, number) for number in range(50, 150)), return_exceptions=True
        )

    results = asyncio.run(work())
    errors = [one for one in results if isinstance(one, BaseException)]
    assert errors
    assert all(isinstance(one, LedgerError) for one in errors)
    assert all(str(path) in str(one) and remedy in str(one) for one in errors)
    with pytest.raises(LedgerError, match=remedy):  # nothing is taken any more, and nobody hangs
        study.answer_all(ledger, range(150, 151))
    with pytest.raises(LedgerError, match=remedy):
        ledger.comparisons()
    ledger.close()

    acknowledged = [one for one in results if isinstance(one, int)]
    with Ledger.open(path) as again:
        assert again.summary().replies >= 50 + len(acknowledged)
        kept = set(again.export("replies")["attempt"])
        assert set(acknowledged) <= kept
        study.answer_all(again, range(150, 200))


def test_the_writer_ends_with_what_was_handed_in(ledger: Ledger) -> None:
    writer = writer_of(ledger)
    for number in range(100):
        writer.hand_in({rounds: [{"number": number, "created": "now"}]})
    ledger.close()
    with Ledger.open(ledger.path, read_only=True) as again:
        assert again.rounds() == tuple(range(100))
    with pytest.raises(LedgerError, match="is closed"):
        writer.hand_in({})
    writer.close()
