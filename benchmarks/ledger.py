"""How fast a ledger takes replies, opens again, and gives its tables.

    python benchmarks/ledger.py --replies 200000 --folder /some/disk

Appends through the public interface, as a campaign does: every reply is one ``begin`` and one
``reply``, each awaited by one of ``--concurrency`` tasks until it is on the disk. Prints one
Markdown table.
"""

import argparse
import asyncio
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

from benchtrial.adapters.judge import ChoiceAnswer, Message, PairCell, Reply, Request, Token, Usage
from benchtrial.orchestrator.budget import Amount
from benchtrial.orchestrator.ledger import Ledger, PlannedQuery
from benchtrial.orchestrator.verdicts import PARSER_VERSION, Verdict

QUERIES_PER_ROUND = 20_000
RESERVED = Amount(900, Decimal("0.0018"), 1)
CHARGED = Amount(612, Decimal("0.00073"), 1)
RAW_CHARACTERS = 900  # a chat completion's body around a short answer


def planned(number: int, round_number: int) -> PlannedQuery:
    request = Request(
        key=f"{number:064x}",
        cell=PairCell(f"judge-{number % 4}", f"prompt-{number // 8}", "left", "right", "quality"),
        messages=(
            Message("system", "You compare two answers."),
            Message("user", f"Question {number // 8}: which answer is better, A or B?"),
        ),
        answer=ChoiceAnswer(("A", "B", "tie")),
        max_output_tokens=100,
        parameters={"temperature": 0.0},
    )
    return PlannedQuery(request.key, round_number, number // 2, request)


def reply(number: int) -> Reply:
    return Reply(
        text='{"winner": "A"}',
        usage=Usage(600, 12),
        tokens=(Token("A", -0.1, {"B": -2.3, "tie": -5.0}),),
        served_model="model-2026-01-01",
        fingerprint="fp_1",
        request_id=f"req-{number}",
        raw="x" * RAW_CHARACTERS,
        latency=0.4,
    )


async def append(ledger: Ledger, keys: list[str], concurrency: int) -> None:
    waiting = iter(enumerate(keys))
    verdict = Verdict(1, "", "valid", value=1.0, label="A", rule="json")

    async def worker() -> None:
        for number, key in waiting:
            attempt = await ledger.begin(key, RESERVED)
            await ledger.reply(attempt, reply(number), [verdict], CHARGED, parser=PARSER_VERSION)

    await asyncio.gather(*(worker() for _ in range(concurrency)))


@contextmanager
def timed(rows: list[tuple[str, ...]], name: str, count: int = 0) -> Iterator[None]:
    wall, processor = time.perf_counter(), time.process_time()
    yield
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    rate = f"{count / wall:,.0f}" if count else ""
    rows.append((name, f"{wall:.2f} s", f"{processor:.2f} s", rate))


def measure(folder: Path, replies: int, concurrency: int) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    path = folder / "benchmark.ledger"
    keys: list[str] = []
    with Ledger.create(path, study_json="{}", study_hash="0") as ledger:
        with timed(rows, f"plan {replies:,} queries", replies):
            for number, start in enumerate(range(0, replies, QUERIES_PER_ROUND)):
                stop = min(start + QUERIES_PER_ROUND, replies)
                some = [planned(one, number) for one in range(start, stop)]
                ledger.add_round(number, some)
                keys += [query.key for query in some]
        with timed(rows, f"begin and reply, {concurrency} at a time", replies):
            asyncio.run(append(ledger, keys, concurrency))
        with timed(rows, "close"):
            ledger.close()
    with timed(rows, "open, spent, answered: ready to resume"):
        ledger = Ledger.open(path)
        ledger.spent()
        assert all(ledger.answered(key) for key in keys)
    with timed(rows, "comparisons table", replies):
        assert len(ledger.comparisons()) == replies
    with timed(rows, "missing table"):
        ledger.missing()
    with timed(rows, "summary"):
        ledger.summary()
    with timed(rows, "outcomes for a replay", replies):
        ledger.outcomes()
    ledger.close()
    with timed(rows, "open read-only"):
        Ledger.open(path, read_only=True).close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows.append(("size of the file", f"{path.stat().st_size / 2**20:,.0f} MiB", "", ""))
    rows.append(("peak memory, outcomes included", f"{peak:,.0f} MiB", "", ""))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--replies", type=int, default=200_000)
    parser.add_argument("--concurrency", type=int, default=256)
    parser.add_argument("--folder", type=Path, default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        rows = measure(Path(folder), arguments.replies, arguments.concurrency)
    print("| step | wall time | processor time | per second of wall time |\n|---|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
