import asyncio
from dataclasses import replace

import pytest

from benchtrial.adapters import BatchCell, Capabilities, RecordedJudge, Reply, Request
from benchtrial.errors import NotRecorded, RateLimited


def test_attempts_are_replayed_in_order_and_then_it_says_so(request_for_pair: Request) -> None:
    failure = RateLimited("too fast", retry_after=3)
    replies = [Reply("first"), Reply("second")]
    judge = RecordedJudge({request_for_pair.key: [failure, *replies]})

    async def main() -> None:
        with pytest.raises(RateLimited) as caught:
            await judge.ask(request_for_pair)
        assert caught.value is failure
        assert [await judge.ask(request_for_pair), await judge.ask(request_for_pair)] == replies
        with pytest.raises(NotRecorded, match=r"only 3 attempt\(s\)"):
            await judge.ask(request_for_pair)
        await judge.close()
        await judge.close()

    asyncio.run(main())


def test_what_was_never_recorded_is_named_by_its_cell(request_for_pair: Request) -> None:
    judge = RecordedJudge({"another": [Reply("x")]})
    with pytest.raises(NotRecorded) as caught:
        asyncio.run(judge.ask(request_for_pair))
    for word in ("judge-1", "prompt-1", "alpha", "beta", "quality", "qqqqqqqqqqqq"):
        assert word in str(caught.value)
    batch = replace(request_for_pair, cell=BatchCell("judge-1", 7, ("i", "j"), "quality"))
    with pytest.raises(NotRecorded, match="batch 7 of 2 items"):
        asyncio.run(judge.ask(batch))


def test_the_same_bound_is_reserved_as_when_it_was_recorded(request_for_pair: Request) -> None:
    judge = RecordedJudge({}, Capabilities("grammar"), reservations={request_for_pair.key: 77})
    assert judge.input_tokens_at_most(request_for_pair) == 77
    other = replace(request_for_pair, key="other")
    assert judge.input_tokens_at_most(other) > len("Judge.A or B?")
    assert judge.capabilities.structured == "grammar"
