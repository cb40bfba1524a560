"""What the ledger promises: durable, atomic, resumable, never too low, one verdict per query."""

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

import pytest

from benchtrial.adapters.judge import (
    BatchCell,
    ChoiceAnswer,
    Message,
    PairCell,
    RatingsAnswer,
    Reply,
    Request,
    Token,
    Usage,
)
from benchtrial.errors import (
    JudgeUnavailable,
    LedgerError,
    RateLimited,
    RequestRefused,
    TerminalError,
    TransientError,
)
from benchtrial.orchestrator.budget import Amount
from benchtrial.orchestrator.ledger import Covariates, Ledger, PlannedQuery

T = TypeVar("T")
RESERVED = Amount(tokens=120, money=Decimal("0.0012"), requests=1)
CHARGED = Amount(tokens=40, money=Decimal("0.00041"), requests=1)


@dataclass(frozen=True)
class Verdict:
    position: int = 1
    subject: str = ""
    state: str = "valid"
    reason: str | None = None
    value: float | None = 1.0
    label: str | None = "A"
    rule: str = "json"
    probability: float | None = None


def pair(
    number: int, *, first: str = "x", second: str = "y", replicate: int = 0, judge: str = "j"
) -> PlannedQuery:
    request = Request(
        key=f"key-{judge}-{number}-{first}-{replicate}",
        cell=PairCell(judge, f"p{number}", first, second, "quality", replicate),
        messages=(Message("system", "Judge fairly."), Message("user", f"{first} or {second}?")),
        answer=ChoiceAnswer(("A", "B", "tie")),
        max_output_tokens=20,
        parameters={"temperature": 0.7, "stop": ["\n"]},
        logprobs=5,
    )
    return PlannedQuery(request.key, 0, number, request)


def batch(number: int, items: tuple[str, ...] = ("a", "b", "c")) -> PlannedQuery:
    request = Request(
        key=f"batch-{number}",
        cell=BatchCell("j", number, items, "quality"),
        messages=(Message("user", f"Rate: {', '.join(items)}"),),
        answer=RatingsAnswer(len(items), labels=("reject", "accept")),
        max_output_tokens=50,
    )
    return PlannedQuery(request.key, 0, number, request)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "study.ledger"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with Ledger.create(path, study_json='{"name": "t"}', study_hash="abc") as made:
        yield made


def run(work: Awaitable[T]) -> T:
    async def inner() -> T:
        return await work

    return asyncio.run(inner())


async def answer(ledger: Ledger, query: PlannedQuery, reply: Reply, *verdicts: Verdict) -> int:
    attempt = await ledger.begin(query.key, RESERVED)
    await ledger.reply(attempt, reply, verdicts or (Verdict(),), CHARGED, parser="1")
    return attempt


def test_a_new_ledger_holds_the_study_as_it_was_given(ledger: Ledger, path: Path) -> None:
    assert (ledger.study_json, ledger.study_hash) == ('{"name": "t"}', "abc")
    assert ledger.path == path
    assert ledger.rounds() == ()
    assert ledger.spent() == Amount()
    assert ledger.looks() == ()


def test_queries_come_back_equal_in_scheduled_order(ledger: Ledger, path: Path) -> None:
    planned = [pair(2), pair(1), pair(1, first="y", second="x"), pair(1, replicate=1)]
    ledger.add_round(0, planned)
    assert ledger.queries() == tuple(planned)
    ledger.close()
    with Ledger.open(path) as again:
        assert again.queries(0) == tuple(planned)
        assert again.queries(1) == ()
        assert again.rounds() == (0,)


def test_numeric_and_label_batches_come_back_equal(ledger: Ledger) -> None:
    labels = batch(0)
    numbers = batch(1)
    request = replace(numbers.request, answer=RatingsAnswer(3, scale=(1.0, 10.0), integer=False))
    numbers = replace(numbers, request=request)
    ledger.add_round(0, [labels, numbers])
    assert ledger.queries() == (labels, numbers)


def test_each_text_is_stored_once(ledger: Ledger) -> None:
    ledger.add_round(0, [pair(1), pair(2)])
    ledger.add_round(1, [replace(pair(3), round=1)])
    texts = ledger.export("texts")["text"].tolist()
    assert sorted(texts) == ["Judge fairly.", "x or y?"]


def test_a_reply_comes_back_exactly(ledger: Ledger) -> None:
    reply = Reply(
        text="A\ud800\x00北京 🤗",  # a lone surrogate and NUL: some provider sends them one day
        stop="truncated",
        usage=Usage(10, 20, cached_input=3, cache_writes=2, reasoning=4, estimated=True),
        tokens=(Token("A", -0.1, {"B": -2.5, "\ud800": float("-inf")}), Token("", 0.0)),
        served_model="m-2026",
        fingerprint="fp",
        request_id="r1",
        raw='{"a": "\x1ajson:"}',
        latency=1.25,
        cost=Decimal("0.10000000000000000001"),
    )
    bare = Reply(text="\x1ajson:not really", raw="")
    ledger.add_round(0, [pair(1), pair(2)])
    run(answer(ledger, pair(1), reply))
    run(answer(ledger, pair(2), bare))
    assert ledger.outcomes() == {pair(1).key: (reply,), pair(2).key: (bare,)}


@pytest.mark.parametrize(
    "error",
    [
        RateLimited("slow down", retry_after=3.5, status=429, request_id="r"),
        TransientError("lost", may_be_billed=True),
        TransientError("busy", retry_after=1.0, status=503),
        TerminalError("no", status=400),
        RequestRefused("too long", reason="context_overflow", status=400),
        JudgeUnavailable("bad key", status=401, request_id="r2"),
    ],
)
def test_a_failure_comes_back_as_it_was(ledger: Ledger, error: TransientError) -> None:
    ledger.add_round(0, [pair(1)])

    async def work() -> None:
        attempt = await ledger.begin(pair(1).key, RESERVED)
        await ledger.fail(attempt, error, Amount(requests=1))

    run(work())
    (found,) = ledger.outcomes()[pair(1).key]
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert vars(found) == vars(error)


def test_an_adapters_own_error_is_kept_as_its_published_class(ledger: Ledger) -> None:
    class TimedOutError(TransientError):
        pass

    ledger.add_round(0, [pair(1)])

    async def work() -> None:
        attempt = await ledger.begin(pair(1).key, RESERVED)
        await ledger.fail(attempt, TimedOutError("after 120 s", may_be_billed=True), RESERVED)

    run(work())
    (found,) = ledger.outcomes()[pair(1).key]
    assert type(found) is TransientError
    assert found.may_be_billed


def test_keys_in_error_messages_are_hidden(ledger: Ledger, path: Path) -> None:
    looks_like_a_key = "sk-proj-AbCdEf0123456789"
    ledger.add_round(0, [pair(1)])

    async def work() -> None:
        for text in (
            f"Incorrect API key: {looks_like_a_key}",
            f"Authorization: Bearer {looks_like_a_key[3:]}",
        ):
            attempt = await ledger.begin(pair(1).key, RESERVED)
            await ledger.fail(attempt, JudgeUnavailable(text), Amount(requests=1))

    run(work())
    ledger.close()
    assert looks_like_a_key[8:].encode() not in path.read_bytes()


def test_unknown_attempts_are_charged_in_full_until_settled(ledger: Ledger, path: Path) -> None:
    ledger.add_round(0, [pair(1), pair(2)])

    async def work() -> int:
        await answer(ledger, pair(1), Reply("A"))
        return await ledger.begin(pair(2).key, RESERVED)

    unknown = run(work())
    ledger.close()
    with Ledger.open(path) as again:
        assert again.spent() == CHARGED + RESERVED
        assert again.summary().unknown == 1
        assert again.answered(pair(1).key)
        assert not again.answered(pair(2).key)
        (found,) = again.outcomes()[pair(2).key]
        assert isinstance(found, TransientError)
        assert found.may_be_billed
        assert "120 tokens" in str(found)
        run(again.fail(unknown, TransientError("not billed after all"), Amount(requests=1)))
        assert again.spent() == CHARGED + Amount(requests=1)


def test_money_adds_up_exactly_and_an_unknown_price_stays_unknown(ledger: Ledger) -> None:
    ledger.add_round(0, [pair(number) for number in range(4)])

    async def ask(number: int, money: Decimal | None) -> None:
        attempt = await ledger.begin(pair(number).key, RESERVED)
        await ledger.reply(attempt, Reply("A"), [Verdict()], Amount(1, money, 1), parser="1")

    for number in range(3):
        run(ask(number, Decimal("0.1")))
    assert ledger.spent() == Amount(3, Decimal("0.3"), 3)
    run(ask(3, None))
    assert ledger.spent() == Amount(4, None, 4)


def test_the_first_reply_to_arrive_counts_and_later_ones_are_kept(
    ledger: Ledger, path: Path
) -> None:
    """C38: u1 was claimed and cut off, is asked again, and its first answer arrives late."""
    ledger.add_round(0, [pair(1), pair(2)])

    async def cut_off() -> int:
        lost = await ledger.begin(pair(1).key, RESERVED)
        await answer(ledger, pair(2), Reply("B"), Verdict(value=0.0, label="B"))
        return lost

    lost = run(cut_off())
    ledger.close()
    with Ledger.open(path) as again:
        assert not again.answered(pair(1).key)
        assert again.answered(pair(2).key)
        run(answer(again, pair(1), Reply("B"), Verdict(value=0.0, label="B")))
        run(again.reply(lost, Reply("A"), [Verdict()], CHARGED, parser="1"))
        table = again.comparisons()
        assert table["outcome"].tolist() == [0.0, 0.0]
        assert again.summary().duplicates == 1
        assert again.spent() == CHARGED + CHARGED + CHARGED
        assert [reply.text for reply in again.outcomes()[pair(1).key]] == ["B", "A"]
        assert again.export("replies")["counts"].tolist() == [1, 1, 0]


def test_replicates_are_queries_of_their_own(ledger: Ledger) -> None:
    """C40: three repetitions of one question keep their three answers, in order."""
    planned = [pair(1, replicate=number) for number in range(3)]
    ledger.add_round(0, planned)
    for query, text in reversed(list(zip(planned, "ABA", strict=True))):
        value = {"A": 1.0, "B": 0.0}[text]
        run(answer(ledger, query, Reply(text), Verdict(value=value, label=text)))
    table = ledger.comparisons()
    assert table["repetition"].tolist() == [0, 1, 2]
    assert table["raw"].tolist() == ["A", "B", "A"]


def test_a_query_given_up_is_answered_and_missing_until_a_reply_comes(ledger: Ledger) -> None:
    ledger.add_round(0, [pair(1), pair(2)])
    failed = Verdict(state="failed", reason="transport", value=None, label=None, rule="transport")

    async def work() -> int:
        lost = await ledger.begin(pair(1).key, RESERVED)
        await ledger.give_up(pair(1).key, [failed])
        return lost

    lost = run(work())
    assert ledger.answered(pair(1).key)
    assert ledger.comparisons().empty
    row = ledger.missing().iloc[0]
    assert (row["prompt"], row["first"], row["second"]) == ("p1", "x", "y")
    assert (row["state"], row["reason"]) == ("failed", "transport")
    with pytest.raises(LedgerError, match="has its verdicts already"):
        run(ledger.give_up(pair(1).key, [failed]))
    with Ledger.open(ledger.path, read_only=True) as again:
        assert again.answered(pair(1).key)
        assert not again.answered(pair(2).key)
    run(ledger.reply(lost, Reply("A"), [Verdict()], CHARGED, parser="1"))
    assert ledger.missing().empty
    assert len(ledger.comparisons()) == 1


def test_ratings_are_tidy(ledger: Ledger) -> None:
    ledger.add_round(0, [batch(0), batch(1, ("c", "a", "b"))])
    run(
        answer(
            ledger,
            batch(1),
            Reply("", served_model="m"),
            Verdict(1, "c", value=1.0, label="accept"),
            Verdict(2, "a", value=0.0, label="reject"),
            Verdict(3, "b", state="invalid", reason="out_of_range", value=None, label="7"),
        )
    )
    run(answer(ledger, batch(0), Reply(""), Verdict(1, "a", value=1.0, label="accept")))
    covariates = Covariates(items={"a": {"group": "g"}, "c": {"group": "h", "year": 3}})
    table = ledger.ratings(covariates)
    assert table.columns.tolist() == [
        "judge", "batch", "position", "item", "rating", "criterion", "repetition",
        "served_model", "raw", "scale", "group", "year", "kind",
    ]  # fmt: skip
    assert table[["batch", "position", "item", "rating"]].to_numpy().tolist() == [
        [0, 1, "a", 1.0],
        [1, 1, "c", 1.0],
        [1, 2, "a", 0.0],
    ]
    assert table["group"].tolist() == ["g", "h", "g"]
    assert set(table["scale"]) == {"reject|accept"}
    assert set(table["kind"]) == {"model"}
    missing = ledger.missing()
    assert missing[["batch", "item", "slot", "reason"]].to_numpy().tolist() == [
        [1, "b", 3, "out_of_range"]
    ]


def test_comparisons_are_tidy(ledger: Ledger) -> None:
    ledger.add_round(0, [pair(1), pair(1, first="y", second="x")])
    run(answer(ledger, pair(1), Reply("tie"), Verdict(state="tie", value=0.5, label="tie")))
    run(answer(ledger, pair(1, first="y"), Reply("A"), Verdict(value=1.0, probability=0.75)))
    covariates = Covariates(
        lengths={("p1", "x"): 10, ("p1", "y"): 20},
        families={"x": "fx", "y": "fy"},
        judge_families={"j": "fx"},
        judge_kinds={"j": "human"},
        rubrics={"quality": "hash"},
    )
    table = ledger.comparisons(covariates)
    assert table.columns.tolist() == [
        "judge", "prompt", "first", "second", "outcome", "repetition", "criterion",
        "served_model", "raw", "scale", "first_length", "first_family", "second_length",
        "second_family", "judge_family", "kind", "rubric",
    ]  # fmt: skip
    assert table["outcome"].tolist() == [0.5, 1.0]
    assert table["first_length"].tolist() == [10, 20]
    assert table["second_family"].tolist() == ["fy", "fx"]
    assert ledger.comparisons(outcome="probability")["outcome"].tolist() == [0.5, 0.75]


def test_empty_tables_have_their_columns(ledger: Ledger) -> None:
    assert {"judge", "batch", "position", "item", "rating"} <= set(ledger.ratings())
    assert {"judge", "prompt", "first", "second", "outcome"} <= set(ledger.comparisons())
    assert {"judge", "state", "reason"} <= set(ledger.missing())


def test_looks_are_kept_with_the_replies_that_they_saw(ledger: Ledger) -> None:
    ledger.add_round(0, [pair(1), pair(2)])
    run(ledger.add_look('{"number": 1}'))
    run(answer(ledger, pair(1), Reply("A")))
    run(ledger.add_look('{"number": 2}'))
    assert [json.loads(look)["number"] for look in ledger.looks()] == [1, 2]
    assert ledger.export("looks")["last_reply"].tolist() == [0, 1]


def test_reservations_are_bounds_on_input_tokens(ledger: Ledger) -> None:
    ledger.add_round(0, [pair(1), pair(2)])
    run(answer(ledger, pair(1), Reply("A")))
    assert ledger.reservations() == {pair(1).key: RESERVED.tokens - 20}
    assert ledger.attempt_counts() == {pair(1).key: 1}


@pytest.mark.parametrize(
    "name", ["queries", "attempts", "replies", "verdicts", "looks", "rounds", "texts", "events"]
)
def test_every_table_can_be_exported(ledger: Ledger, name: str) -> None:
    ledger.add_round(0, [pair(1)])
    run(answer(ledger, pair(1), Reply("A", cost=Decimal("0.1"))))
    run(ledger.add_look("{}"))
    ledger.add_event("note", {"a": 1})
    table = ledger.export(name)
    assert len(table) >= 1
    assert table.to_csv()
    assert json.loads(table.iloc[[0]].to_json(orient="records"))


def test_misuse_is_refused_by_name(ledger: Ledger) -> None:
    ledger.add_round(0, [pair(1)])
    with pytest.raises(LedgerError, match="round 0 is there already"):
        ledger.add_round(0, [])
    with pytest.raises(LedgerError, match="planned twice"):
        ledger.add_round(1, [replace(pair(1), round=1)])
    with pytest.raises(LedgerError, match="not planned"):
        run(ledger.begin("nobody", RESERVED))
    attempt = run(answer(ledger, pair(1), Reply("A")))
    with pytest.raises(LedgerError, match="has its outcome already"):
        run(ledger.fail(attempt, TransientError("x"), RESERVED))


def test_nothing_can_be_rewritten(ledger: Ledger, path: Path) -> None:
    ledger.close()
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute("UPDATE campaign SET study_hash = 'other'")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute("DELETE FROM campaign")
    connection.close()
