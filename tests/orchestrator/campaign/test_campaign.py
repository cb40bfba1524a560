"""The loop end to end: ask, record, refit, look, stop; kill, resume, replay."""

import asyncio
import contextlib
from decimal import Decimal

import pytest

from benchtrial.adapters import PairCell, Reply, RetryPolicy, Usage
from benchtrial.errors import (
    InputError,
    Interrupted,
    JudgeUnavailable,
    LedgerDamaged,
    RateLimited,
    RequestRefused,
    StudyChanged,
    StudyError,
    TransientError,
)
from benchtrial.orchestrator.campaign import (
    Campaign,
    LookTaken,
    Panelist,
    Replied,
    RoundStarted,
)
from benchtrial.orchestrator.ledger import Ledger
from benchtrial.orchestrator.replay import replay

AT_ONCE = RetryPolicy(attempts=3, waits=False)


def decisions(result):
    return [look.to_json() for look in result.looks]


# -- to a decision -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["batch", "pairs"])
def test_a_clear_difference_is_decided_and_replays_look_by_look(
    kind, batch_study, pair_study, tmp_path
):
    study = batch_study() if kind == "batch" else pair_study()
    path = tmp_path / "study.ledger"
    with Campaign.open(study, ledger=path) as campaign:
        result = campaign.run()
    assert result.state == "decided"
    assert result.winner == ("good" if kind == "batch" else "strong")
    assert result.exit_code == 0
    assert str(result).startswith("result: decided: ")
    before = path.read_bytes()
    assert decisions(replay(path)) == decisions(result)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("target", "winner", "answer", "words"),
    [
        ({"kind": "top-k", "k": 2}, None, ("strong", "middle"), "the top 2 are strong and middle"),
        ({"kind": "ranking"}, "strong", ("strong", "middle", "weak"), "strong > middle > weak"),
        (
            {"kind": "ranking", "multiplicity": "max-z"},
            "strong",
            ("strong", "middle", "weak"),
            "strong > middle > weak",
        ),
        ({"kind": "screening", "keep": 0.25}, None, ("back",), "keep: back"),
    ],
)
def test_every_target_is_carried_to_its_decision(
    pair_study, tmp_path, target, winner, answer, words
):
    study = pair_study(
        design={"kind": "balanced-swaps", "repetitions": 12},
        stopping={"target": target, "rounds": 6},
    )
    path = tmp_path / "study.ledger"
    with Campaign.open(study, ledger=path) as campaign:
        result = campaign.run()
    assert result.state == "decided"
    assert (result.winner, result.looks[-1].decision.answer) == (winner, answer)
    assert words in result.sentence
    assert decisions(replay(path)) == decisions(result)


def test_running_a_finished_campaign_again_asks_nothing(pair_study, tmp_path, scripted, first_wins):
    path = tmp_path / "study.ledger"
    with Campaign.open(pair_study(), ledger=path) as campaign:
        result = campaign.run()
    judge, panel = scripted(first_wins, "front", "back")
    with Campaign.open(pair_study(), ledger=path, panel=panel) as campaign:
        again = campaign.run()
    assert judge.asked == []
    assert decisions(again) == decisions(result)
    assert again.spent == result.spent


def test_listeners_hear_rounds_replies_and_looks(batch_study, tmp_path):
    heard = []
    with Campaign.open(
        batch_study(), ledger=tmp_path / "a.ledger", listener=heard.append
    ) as campaign:
        result = campaign.run()
    assert [event.number for event in heard if isinstance(event, RoundStarted)] == list(
        range(len(result.looks))
    )
    assert sum(isinstance(event, Replied) for event in heard) == 10 * len(result.looks)
    assert [event.look for event in heard if isinstance(event, LookTaken)] == list(result.looks)


def test_runs_inside_a_running_event_loop(batch_study, tmp_path):
    async def notebook_cell():
        with Campaign.open(batch_study(), ledger=tmp_path / "a.ledger") as campaign:
            return campaign.run()

    assert asyncio.run(notebook_cell()).state == "decided"


# -- the budget ----------------------------------------------------------------------------------


def test_the_worst_case_is_reserved_before_anything_is_sent(batch_study, tmp_path, scripted):
    # 10,000 tokens, 1,500 in and at most 500 out reserved, 1,600 really used, 20 requests wanted:
    # five at first, one more when 8,000 are spent, then 400 are left and nothing fits.
    ratings = ", ".join(f'"item_{n}": "{"accept" if n % 2 else "reject"}"' for n in range(1, 9))

    def answer(request, attempt):
        return Reply(text="{" + ratings + "}", usage=Usage(1500, 100))

    study = batch_study(
        design={"kind": "shuffle", "batches": 20},
        stopping={"target": {"kind": "difference", "a": "good", "b": "poor"}, "rounds": 1},
        budget={"tokens": 10_000},
    )
    judge, panel = scripted(answer, "markov", input_bound=1500)
    study = study.model_copy(
        update={"judges": (study.judges[0].model_copy(update={"max_output_tokens": 500}),)}
    )
    with Campaign.open(study, ledger=tmp_path / "a.ledger", panel=panel) as campaign:
        result = campaign.run()
    assert len(judge.asked) == 6
    assert result.spent.tokens == 9_600
    assert result.state == "inconclusive-budget"
    with Ledger.open(tmp_path / "a.ledger", read_only=True) as ledger:
        assert ledger.summary().answered == 6
        assert ledger.summary().queries == 20


def test_a_judge_that_accepts_everything_is_saturated(batch_study, tmp_path, scripted):
    everything = ", ".join(f'"item_{n}": "accept"' for n in range(1, 9))
    _, panel = scripted(
        lambda request, attempt: Reply(text="{" + everything + "}", usage=Usage(9, 9)), "markov"
    )
    with Campaign.open(batch_study(), ledger=tmp_path / "a.ledger", panel=panel) as campaign:
        result = campaign.run()
    assert result.state == "saturated"
    assert "everything" in result.sentence


def test_missing_usage_is_charged_in_full_and_said_to_be_estimated(pair_study, tmp_path, scripted):
    judge, panel = scripted(lambda request, attempt: Reply(text='{"winner": "A"}'), "front", "back")
    study = pair_study(budget={"tokens": 30_000})
    with Campaign.open(study, ledger=tmp_path / "a.ledger", panel=panel) as campaign:
        result = campaign.run()
    assert result.spent.tokens == 522 * len(judge.asked) <= 30_000
    with Ledger.open(tmp_path / "a.ledger", read_only=True) as ledger:
        assert ledger.export("attempts")["estimated"].astype(bool).all()


def test_a_budget_of_requests_counts_failed_attempts(pair_study, tmp_path, scripted):
    def answer(request, attempt):
        if attempt == 1:
            raise TransientError("busy", status=503)
        return Reply(text='{"winner": "A"}', usage=Usage(5, 5))

    judge, panel = scripted(answer, "front", "back", concurrency=1)
    study = pair_study(budget={"requests": 50})
    with (
        Campaign.open(study, ledger=tmp_path / "a.ledger", panel=panel, policy=AT_ONCE) as campaign,
        contextlib.suppress(JudgeUnavailable),
    ):
        campaign.run()
    assert len(judge.asked) <= 50
    with Ledger.open(tmp_path / "a.ledger", read_only=True) as ledger:
        assert ledger.spent().requests == len(judge.asked)


def test_a_server_that_is_not_running_uses_up_no_budget(pair_study, tmp_path, scripted):
    def answer(request, attempt):
        raise TransientError("no connection", sent=False)

    _, panel = scripted(answer, "front", "back")
    study = pair_study(budget={"requests": 10})
    path = tmp_path / "a.ledger"
    for _ in range(2):
        with (
            Campaign.open(study, ledger=path, panel=panel, policy=AT_ONCE) as campaign,
            pytest.raises(JudgeUnavailable, match="no connection"),
        ):
            campaign.run()
        assert campaign._asker.budget.spent.requests == 0


# -- judges that fail ----------------------------------------------------------------------------


def test_exhausted_credit_stops_that_judge_lets_the_other_finish_and_can_be_resumed(
    pair_study, tmp_path, scripted, first_wins
):
    def answer(request, attempt):
        if request.cell.judge == "back":
            raise JudgeUnavailable("back: no credit left; check the billing page", status=429)
        return first_wins(request, attempt)

    judge, panel = scripted(answer, "front", "back")
    path = tmp_path / "a.ledger"
    with (
        Campaign.open(pair_study(), ledger=path, panel=panel, policy=AT_ONCE) as campaign,
        pytest.raises(JudgeUnavailable, match="billing") as stopped,
    ):
        campaign.run()
    assert stopped.value.exit_code == 5
    asked = [request.cell.judge for request in judge.asked]
    assert asked.count("front") == 60  # its whole round
    assert asked.count("back") <= 8  # those in flight, none of them twice
    assert len({request.key for request in judge.asked}) == len(judge.asked)
    with Campaign.open(pair_study(), ledger=path) as campaign:
        result = campaign.run()
    assert result.state != "continue"
    assert [look.decision.state for look in replay(path).looks] == [
        look.decision.state for look in result.looks
    ]


def test_one_retry_layer_asks_exactly_as_often_as_the_policy_says(pair_study, tmp_path, scripted):
    def answer(request, attempt):
        raise TransientError("always 503", status=503)

    judge, panel = scripted(answer, "front", "back", concurrency=1)
    with (
        Campaign.open(
            pair_study(), ledger=tmp_path / "a.ledger", panel=panel, policy=AT_ONCE
        ) as campaign,
        pytest.raises(JudgeUnavailable, match="always 503"),
    ):
        campaign.run()
    assert len(judge.asked) == 6  # three attempts for the first request of each judge, no storm
    with Ledger.open(tmp_path / "a.ledger", read_only=True) as ledger:
        assert ledger.summary().attempts == 6


def test_one_bad_request_is_given_up_and_the_campaign_goes_on(pair_study, tmp_path, scripted):
    def answer(request, attempt):
        if (request.cell.prompt, request.cell.first) == ("p3", "strong"):
            raise RequestRefused("too long", reason="context_overflow", status=413)
        return Reply(text='{"winner": "A"}', usage=Usage(5, 5))

    judge, panel = scripted(answer, "front", "back")
    path = tmp_path / "a.ledger"
    with Campaign.open(pair_study(), ledger=path, panel=panel) as campaign:
        result = campaign.run()
    assert set(result.missing["reason"]) == {"context_overflow"}
    assert set(result.missing["prompt"]) == {"p3"}
    refused = [r for r in judge.asked if (r.cell.prompt, r.cell.first) == ("p3", "strong")]
    assert len({r.key for r in refused}) == len(refused)
    assert decisions(replay(path)) == decisions(result)


def test_a_judge_that_rejects_everything_is_stopped_and_loses_no_question(
    pair_study, tmp_path, scripted
):
    def answer(request, attempt):
        raise RequestRefused("400: what is this", reason="rejected", status=400)

    judge, panel = scripted(answer, "front", "back", concurrency=1)
    path = tmp_path / "a.ledger"
    with (
        Campaign.open(pair_study(), ledger=path, panel=panel) as campaign,
        pytest.raises(JudgeUnavailable, match="what is this"),
    ):
        campaign.run()
    assert len(judge.asked) == 2
    with Ledger.open(path, read_only=True) as ledger:
        assert ledger.summary().answered == 0


def test_passing_faults_are_asked_again_and_every_query_counts_once(pair_study, tmp_path, scripted):
    def answer(request, attempt):
        if attempt == 1 and request.cell.replicate == 0:
            raise RateLimited("slow down", retry_after=400.0, status=429)
        if attempt == 2 and request.cell.first == "weak":
            raise TransientError("reset", may_be_billed=True)
        return Reply(text='{"winner": "B"}', usage=Usage(5, 5))

    _, panel = scripted(answer, "front", "back")
    path = tmp_path / "a.ledger"
    patient = RetryPolicy(attempts=4, hint_cap_s=1e6, waits=False)
    with Campaign.open(pair_study(), ledger=path, panel=panel, policy=patient) as campaign:
        result = campaign.run()
    with Ledger.open(path, read_only=True) as ledger:
        counts = ledger.summary()
        table = ledger.comparisons()
    assert counts.duplicates == counts.unknown == 0
    assert len(table) == counts.answered
    assert decisions(replay(path)) == decisions(result)
    assert replay(path).spent.tokens == result.spent.tokens
    assert replay(path).spent.requests == result.spent.requests


# -- interruptions -------------------------------------------------------------------------------


class Killed(BaseException):
    """Stands for a kill: nothing in the code catches it."""


@pytest.mark.parametrize("after", [0, 1, 37, 110])
def test_a_run_cut_off_anywhere_goes_on_to_the_same_decision(after, pair_study, tmp_path, scripted):
    with Campaign.open(pair_study(), ledger=tmp_path / "whole.ledger") as campaign:
        whole = campaign.run()
    simulated = Campaign.open(pair_study(), ledger=tmp_path / "other.ledger")
    judges = {name: one.judge for name, one in simulated._asker.panel.items()}
    simulated.close()

    served = []

    class Dying:
        def __init__(self, judge):
            self._judge = judge
            self.capabilities = judge.capabilities
            self.input_tokens_at_most = judge.input_tokens_at_most
            self.close = judge.close

        async def ask(self, request):
            if len(served) == after:
                raise Killed
            served.append(request.key)
            return await self._judge.ask(request)

    path = tmp_path / "cut.ledger"
    panel = {
        name: type(simulated._asker.panel[name])(Dying(judge), 4, None)
        for name, judge in judges.items()
    }
    campaign = Campaign.open(pair_study(), ledger=path, panel=panel)
    with pytest.raises(Killed):
        campaign.run()
    campaign.close()
    with Campaign.open(pair_study(), ledger=path) as campaign:
        resumed = campaign.run()
    assert resumed.state == whole.state
    assert resumed.winner == whole.winner
    with Ledger.open(path, read_only=True) as ledger:
        counts = ledger.summary()
    assert counts.duplicates == 0
    assert counts.unknown >= 1  # the attempt that was cut off stays counted
    assert decisions(replay(path)) == decisions(resumed)


def test_stop_ends_soon_keeps_everything_and_says_how_to_go_on(pair_study, tmp_path, scripted):
    path = tmp_path / "a.ledger"
    campaign = Campaign.open(pair_study(), ledger=path)
    heard = []

    def stop_after_ten(event):
        heard.append(event)
        if sum(isinstance(one, Replied) for one in heard) == 10:
            campaign.stop()

    campaign._listener = campaign._asker.listener = stop_after_ten
    with campaign, pytest.raises(Interrupted, match="Run the same command again"):
        campaign.run()
    with Ledger.open(path, read_only=True) as ledger:
        kept = ledger.summary().answered
    assert 10 <= kept < 120
    with Campaign.open(pair_study(), ledger=path) as campaign:
        assert campaign.run().state == "decided"


class Silent:
    """Never answers; counts who waits."""

    capabilities = None

    def __init__(self):
        self.waiting = 0

    def input_tokens_at_most(self, request):
        return 1

    async def ask(self, request):
        self.waiting += 1
        await asyncio.sleep(60)

    async def close(self):
        pass


async def cancelled_in_flight(campaign, judge, number):
    """Run the campaign, and cancel it when ``number`` requests are in flight."""
    run = asyncio.create_task(campaign.run_async())
    while judge.waiting < number:
        await asyncio.sleep(0.01)
    run.cancel()
    await run


def test_cancellation_propagates_and_is_never_retried(pair_study, tmp_path):
    judge, path = Silent(), tmp_path / "a.ledger"
    panel = {name: Panelist(judge, 4, None) for name in ("front", "back")}
    with (
        Campaign.open(pair_study(), ledger=path, panel=panel) as campaign,
        pytest.raises(asyncio.CancelledError),
    ):
        asyncio.run(cancelled_in_flight(campaign, judge, 8))
    with Ledger.open(path, read_only=True) as ledger:
        counts = ledger.summary()
    assert counts.attempts == counts.unknown == 8


# -- another study -------------------------------------------------------------------------------


def test_a_changed_study_is_refused_with_the_difference(pair_study, tmp_path):
    path = tmp_path / "a.ledger"
    with Campaign.open(pair_study(), ledger=path) as campaign:
        campaign.run()
    with pytest.raises(StudyChanged, match="seed"):
        Campaign.open(pair_study(seed=6), ledger=path)
    Ledger.open(path).close()  # the refusal gave up the lock


def test_transport_settings_may_change(pair_study, tmp_path):
    study = pair_study()
    path = tmp_path / "a.ledger"
    with Campaign.open(study, ledger=path) as campaign:
        result = campaign.run()
    judges = tuple(one.model_copy(update={"concurrency": 2}) for one in study.judges)
    with Campaign.open(study.model_copy(update={"judges": judges}), ledger=path) as campaign:
        assert decisions(campaign.result()) == decisions(result)


# -- bring your own judge ------------------------------------------------------------------------


def better(cell: PairCell) -> str:
    order = ["strong", "middle", "weak"]
    return min(cell.first, cell.second, key=order.index)


def test_ask_and_tell_reach_a_decision(pair_study, tmp_path):
    people = [{"id": name, "provider": "ask", "price": "free"} for name in ("ann", "ben")]
    study = pair_study(judges=people)
    with Campaign.open(study, ledger=tmp_path / "a.ledger") as campaign:
        seen = set()
        while questions := campaign.ask(7):
            assert len(questions) <= 7
            for question in questions:
                assert question.key not in seen
                seen.add(question.key)
                flip = question.cell.prompt in {"p1", "p2"}  # nobody is always right
                campaign.tell(question, "A" if flip else better(question.cell))
        result = campaign.result()
    assert result.state == "decided"
    assert result.winner == "strong"
    assert result.spent.tokens == 0
    assert decisions(replay(tmp_path / "a.ledger")) == decisions(result)


def test_tell_takes_ratings_by_item_or_in_displayed_order(batch_study, tmp_path):
    study = batch_study(judges=[{"id": "ann", "provider": "ask", "price": "free"}])
    with Campaign.open(study, ledger=tmp_path / "a.ledger") as campaign:
        first, second = campaign.ask(2)
        campaign.tell(first, dict.fromkeys(first.cell.items, "accept"))
        campaign.tell(second, ["reject"] * 8)
        ratings = campaign.ledger.ratings()
    assert ratings.groupby("batch")["rating"].mean().tolist() == [1.0, 0.0]


def test_what_is_told_must_be_open_and_legal(pair_study, tmp_path):
    people = [{"id": "ann", "provider": "ask", "price": "free"}]
    with Campaign.open(pair_study(judges=people), ledger=tmp_path / "a.ledger") as campaign:
        (question,) = campaign.ask()
        with pytest.raises(InputError, match="'C' is no verdict"):
            campaign.tell(question, "C")
        campaign.tell(question, "A")
        with pytest.raises(InputError, match="not open"):
            campaign.tell(question, "A")
        with pytest.raises(InputError, match="at least one"):
            campaign.ask(0)
        with pytest.raises(StudyError, match="ask"):
            campaign.run()


def test_an_unknown_price_is_never_zero(pair_study, tmp_path):
    study = pair_study()
    judges = tuple(one.model_copy(update={"price": None}) for one in study.judges)
    with Campaign.open(
        study.model_copy(update={"judges": judges}), ledger=tmp_path / "a.ledger"
    ) as campaign:
        assert campaign.run().spent.money is None


def test_money_is_charged_to_the_last_digit(pair_study, tmp_path):
    study = pair_study(budget={"money": "1.00"})
    price = {"input": Decimal("0.25"), "output": Decimal(2)}
    judges = tuple(
        one.model_copy(update={"price": type(study.judges[0].price)(**price)})
        for one in study.judges
    )
    with Campaign.open(
        study.model_copy(update={"judges": judges}), ledger=tmp_path / "a.ledger"
    ) as campaign:
        result = campaign.run()
        replies = campaign.ledger.export("replies")
    by_hand = (replies["input"].astype(int) * price["input"]).sum() + (
        replies["output"].astype(int) * price["output"]
    ).sum()
    assert result.spent.money == by_hand / 1_000_000
    assert result.spent.money <= 1


def test_a_cancelled_run_leaves_no_reservation_behind(pair_study, tmp_path):
    judge = Silent()
    panel = {name: Panelist(judge, 4, None) for name in ("front", "back")}
    with Campaign.open(pair_study(), ledger=tmp_path / "a.ledger", panel=panel) as campaign:
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(cancelled_in_flight(campaign, judge, 8))
        budget = campaign._asker.budget
        assert budget.reserved.tokens == 0
        assert budget.spent.tokens == campaign.ledger.spent().tokens == 8 * 513


def test_a_request_that_cannot_be_composed_costs_nothing(pair_study, tmp_path, scripted):
    def answer(request, attempt):
        raise InputError("no such parameter")

    _, panel = scripted(answer, "front", "back", concurrency=1)
    path = tmp_path / "a.ledger"
    with (
        Campaign.open(pair_study(), ledger=path, panel=panel) as campaign,
        pytest.raises(InputError, match="no such parameter"),
    ):
        campaign.run()
    with Ledger.open(path, read_only=True) as ledger:
        assert ledger.spent().tokens == 0
        assert ledger.summary().unknown == 0


def test_a_start_that_was_never_answered_does_not_freeze_the_study(pair_study, tmp_path, scripted):
    def answer(request, attempt):
        raise TransientError("no connection", sent=False)

    _, panel = scripted(answer, "front", "back", concurrency=1)
    path = tmp_path / "a.ledger"
    with (
        Campaign.open(pair_study(seed=1), ledger=path, panel=panel, policy=AT_ONCE) as campaign,
        pytest.raises(JudgeUnavailable),
    ):
        campaign.run()
    with Campaign.open(pair_study(seed=2), ledger=path) as campaign:
        assert campaign.run().state == "decided"
    with pytest.raises(StudyChanged, match="seed: 2 -> 1"):
        Campaign.open(pair_study(seed=1), ledger=path)


def test_a_budget_that_cannot_carry_one_question_is_an_error_and_says_what_it_needs(
    pair_study, tmp_path
):
    with (
        Campaign.open(pair_study(budget={"tokens": 100}), ledger=tmp_path / "a.ledger") as campaign,
        pytest.raises(InputError, match=r"may need up to [0-9,]+ tokens"),
    ):
        campaign.run()


def test_a_damaged_look_is_damage(pair_study, tmp_path):
    path = tmp_path / "a.ledger"
    with Campaign.open(pair_study(), ledger=path) as campaign:
        campaign.run()
    asyncio.run(_add_look(path, '{"number": 1'))
    with pytest.raises(LedgerDamaged, match="a look cannot be read"):
        Campaign.open(pair_study(), ledger=path)


async def _add_look(path, text):
    with Ledger.open(path) as ledger:
        await ledger.add_look(text)
