"""Killed or cut off at any moment: whatever was acknowledged is there, whole, and once."""

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchtrial.orchestrator.ledger import Ledger

KILLS = 4
QUERIES = 1200
# A writer says on its standard output what the ledger has acknowledged, and nothing else.
CAMPAIGN = """
import asyncio, os, sys
from decimal import Decimal
from benchtrial.adapters.judge import ChoiceAnswer, Message, PairCell, Reply, Request
from benchtrial.orchestrator.budget import Amount
from benchtrial.orchestrator.ledger import Ledger, PlannedQuery
from benchtrial.orchestrator.verdicts import Verdict

path, number = sys.argv[1], int(sys.argv[2])
RESERVED, CHARGED = Amount(100, Decimal("0.01"), 1), Amount(60, Decimal("0.006"), 1)

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def planned(i):
    request = Request(f"key-{i}", PairCell("j", f"p{i}", "x", "y", "c"),
                      (Message("user", f"text {i}"),), ChoiceAnswer(), 20)
    return PlannedQuery(request.key, 0, i, request)

async def main(ledger):
    if 0 not in ledger.rounds():
        ledger.add_round(0, [planned(i) for i in range(number)])
        say("planned")
    waiting = iter([i for i in range(number) if not ledger.answered(f"key-{i}")])
    async def worker():
        for i in waiting:
            attempt = await ledger.begin(f"key-{i}", RESERVED)
            say("began", attempt)
            await asyncio.sleep(0.001)
            verdict = Verdict(1, "", "valid", value=1.0, label="A")
            await ledger.reply(attempt, Reply("A", raw="x" * 300), [verdict], CHARGED, parser="1")
            say("replied", attempt)
    await asyncio.gather(*(worker() for _ in range(16)))
    await ledger.add_look("{}")
    say("finished")

try:
    ledger = Ledger.open(path)
except Exception:
    ledger = Ledger.create(path, study_json="{}", study_hash="0")
with ledger:
    asyncio.run(main(ledger))
"""


def start(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CAMPAIGN, path, str(QUERIES)], stdout=subprocess.PIPE, text=True
    )


def acknowledged(lines: list[str], word: str) -> set[int]:
    return {int(line.split()[1]) for line in lines if line.startswith(f"{word} ")}


def test_killed_at_random_moments_nothing_acknowledged_is_lost(path: Path) -> None:
    """C31: kill, resume, kill again …, until done: every query is answered exactly once."""
    draw = random.Random(20260101)  # noqa: S311
    began: set[int] = set()
    replied: set[int] = set()
    for _ in range(KILLS):
        process = start(path)
        assert process.stdout is not None
        lines = [process.stdout.readline()]  # the work has begun
        time.sleep(draw.uniform(0.0, 0.25))
        process.send_signal(signal.SIGKILL)
        lines += [
            line for line in process.stdout.read().splitlines(keepends=True) if line[-1] == "\n"
        ]
        process.wait()
        process.stdout.close()
        began |= acknowledged(lines, "began")
        replied |= acknowledged(lines, "replied")
        with Ledger.open(path, read_only=True) as ledger:
            attempts = ledger.export("attempts").set_index("attempt")
            assert began <= set(attempts.index)
            assert replied <= set(attempts.index[attempts["state"] == "replied"])
            assert_whole(ledger)
    process = start(path)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert out.endswith("finished\n")
    with Ledger.open(path, read_only=True) as ledger:
        summary = ledger.summary()
        assert summary.answered == summary.replies == QUERIES
        assert summary.duplicates == 0
        assert len(ledger.comparisons()) == QUERIES
        assert summary.unknown <= 16 * KILLS  # at most what was in flight
        assert summary.attempts == QUERIES + summary.unknown
        assert ledger.looks() == ("{}",)
        assert_whole(ledger)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def assert_whole(ledger: Ledger) -> None:
    """No reply without its outcome, body and verdict; the books agree with the rows."""
    summary = ledger.summary()
    attempts = ledger.export("attempts")
    states = attempts["state"].value_counts()
    assert states.get("replied", 0) == summary.replies
    assert len(ledger.export("replies")) == summary.replies
    assert len(ledger.export("verdicts")) == summary.replies
    tokens = 60 * summary.replies + 100 * summary.unknown
    assert ledger.spent().tokens == tokens
    assert summary.attempts == summary.replies + summary.unknown


def test_a_wal_torn_at_any_byte_leaves_whole_transactions(
    ledger: Ledger, path: Path, study: Any, tmp_path: Path
) -> None:
    """What a power cut leaves of data that was not yet on the disk (C32: a torn last record)."""
    study.plan(ledger)
    for start_number in range(0, 60, 10):
        study.answer_all(ledger, range(start_number, start_number + 10))
    wal = path.with_name(path.name + "-wal")
    content, size = path.read_bytes(), wal.stat().st_size
    words = wal.read_bytes()
    draw = random.Random(7)  # noqa: S311
    seen = []
    for cut in sorted([0, size, *(draw.randrange(size) for _ in range(30))]):
        torn = tmp_path / "torn"
        torn.mkdir()
        copy = torn / "copy.ledger"
        copy.write_bytes(content)
        tail = draw.randbytes(4096) if draw.random() < 0.5 else b""
        copy.with_name(copy.name + "-wal").write_bytes(words[:cut] + tail)
        with Ledger.open(copy) as again:
            assert_whole(again)
            seen.append(again.summary().replies)
            if again.rounds():
                open_ones = [
                    number
                    for number, query in enumerate(study.queries)
                    if not again.answered(query.key)
                ]
                asyncio.run(study.answer(again, open_ones[0]))
                assert_whole(again)
        shutil.rmtree(torn)
    assert seen == sorted(seen)  # more of the file never means less of the campaign
    assert seen[0] == 0
    assert seen[-1] == 60


FAILING_FSYNC = """
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
static int broken(void) { return access(getenv("BREAK_FSYNC"), F_OK) == 0; }
int fsync(int fd) { (void)fd; if (broken()) { errno = EIO; return -1; } return 0; }
int fdatasync(int fd) { return fsync(fd); }
"""
WRITE_UNTIL_REFUSED = """
import asyncio, os, pathlib, sys
from benchtrial.errors import LedgerError
from benchtrial.orchestrator.budget import Amount
from benchtrial.orchestrator.ledger import Ledger
async def main(ledger):
    print(await ledger.begin("key-0", Amount(1)))
    pathlib.Path(os.environ["BREAK_FSYNC"]).touch()
    try:
        await ledger.begin("key-1", Amount(1))
    except LedgerError as error:
        print(error)
with Ledger.open(sys.argv[1]) as ledger:
    asyncio.run(main(ledger))
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_failing_fsync_is_never_silent(
    ledger: Ledger, path: Path, study: Any, tmp_path: Path
) -> None:
    study.plan(ledger)
    ledger.close()
    source, library = tmp_path / "fsync.c", tmp_path / "fsync.so"
    source.write_text(FAILING_FSYNC)
    compiler = shutil.which("cc")
    assert compiler is not None
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "BREAK_FSYNC": str(tmp_path / "broken"),
    }
    done = subprocess.run(
        [sys.executable, "-c", WRITE_UNTIL_REFUSED, path],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    first, refusal = done.stdout.splitlines()
    assert str(path) in refusal
    assert "Check the disk" in refusal
    with Ledger.open(path) as again:
        assert int(first) in set(again.export("attempts")["attempt"])
        assert again.spent().tokens >= 1
