"""Put the questions of a round to the judges, under the budget, and file every answer.

The order of events for one attempt is the promise of the ledger: reserve the worst case, write the
intent, send, write the reply with its verdicts, settle the budget from the usage. Whatever happens
in between, money that may have been spent stays counted.

Questions are admitted in *waves*: the longest run of them, in schedule order, whose worst case fits
in what is left of the budget. A wave is answered before the next is admitted, so what was asked
never depends on which reply came first, and a replay admits the same questions. Waves only appear
near the end of a budget; before that a round is one wave.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from benchtrial.adapters import Judge, Price, Reply, Request, RetryPolicy, Usage, retrying
from benchtrial.errors import (
    InputError,
    Interrupted,
    JudgeError,
    JudgeUnavailable,
    NotRecorded,
    RateLimited,
    RequestRefused,
    TerminalError,
    TransientError,
)
from benchtrial.orchestrator.budget import Amount, Budget
from benchtrial.orchestrator.campaign.events import AttemptFailed, Listener, Replied
from benchtrial.orchestrator.ledger import Ledger
from benchtrial.orchestrator.verdicts import PARSER_VERSION, failure, parse

RoundEnd = Literal["complete", "budget", "dry", "unavailable", "interrupted"]

# A request that failed in this many runs, each with all its attempts, and that is among the last
# few open ones of its judge, is recorded as failed: one bad request must not hold up a study for
# ever. An outage leaves many open, and then nothing is given up.
RUNS_BEFORE_FAILED = 3
LAST_FEW = 2
# Seconds that requests in flight get to finish after a stop was asked for.
GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class Panelist:
    """A judge with what the campaign needs to know to ask it."""

    judge: Judge
    concurrency: int
    price: Price | None


class _Unaffordable(Exception):
    """The budget cannot carry another attempt, even when nothing else is in flight."""


@dataclass(slots=True)
class _Standing:
    """How a judge is doing in this run."""

    slots: asyncio.Semaphore
    successes: int = 0
    open: int = 0
    down: JudgeError | None = None


def _fresh(panel: Mapping[str, Panelist]) -> dict[str, _Standing]:
    return {
        name: _Standing(asyncio.Semaphore(panelist.concurrency)) for name, panelist in panel.items()
    }


@dataclass(slots=True)
class Asker:
    """Asks the requests of one run.

    Parameters
    ----------
    ledger, budget
        Where everything is filed, and what may still be spent.
    panel
        The judges by id.
    policy
        How often and how patiently a request is tried again.
    listener
        Hears about every reply and failure.
    """

    ledger: Ledger
    budget: Budget
    panel: Mapping[str, Panelist]
    policy: RetryPolicy
    listener: Listener
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    _standing: dict[str, _Standing] = field(default_factory=dict)
    _attempts: dict[str, int] = field(default_factory=dict)
    _settled: asyncio.Condition = field(default_factory=asyncio.Condition)
    _in_flight: int = 0
    _not_recorded: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._attempts = self.ledger.attempt_counts()
        self.begin_run()

    def begin_run(self) -> None:
        """Forget what an earlier run learned about judges and stops."""
        self.stop = asyncio.Event()
        self._settled = asyncio.Condition()
        self._standing = _fresh(self.panel)
        self._in_flight = 0
        self._not_recorded = set()

    def worst_case(self, request: Request) -> Amount:
        """Most that one attempt at ``request`` can cost."""
        panelist = self.panel[request.cell.judge]
        tokens_in = panelist.judge.input_tokens_at_most(request)
        price = panelist.price
        return Amount(
            tokens=tokens_in + request.max_output_tokens,
            money=price.worst_case(tokens_in, request.max_output_tokens) if price else None,
            requests=1,
        )

    def affordable(self, questions: Iterable[Sequence[Request]]) -> int:
        """How many of the next questions fit in what is left of the budget, at their worst."""
        total, count = Amount(), 0
        for requests in questions:
            for request in requests:
                total += self.worst_case(request)
            if not self.budget.fits(total):
                break
            count += 1
        return count

    async def ask(self, questions: Sequence[Sequence[Request]]) -> RoundEnd:
        """Ask every request of ``questions`` that has no answer yet.

        Returns
        -------
        str
            ``complete``: every request is answered; ``budget``: the next question cannot be
            afforded; ``dry``: a recording holds no more; ``unavailable``: a judge cannot answer
            (the reasons are in ``problems``); ``interrupted``: a stop was asked for.
        """
        while waiting := [open_ for open_ in map(self._open, questions) if open_]:
            wave = waiting[: self.affordable(waiting)]
            if not wave:
                return "budget"
            for name, standing in self._standing.items():
                standing.open = sum(one.cell.judge == name for group in waiting for one in group)
            askable = [one for group in wave for one in group if one.key not in self._not_recorded]
            if not askable:
                return "dry"
            await self._together([self._one(request) for request in askable])
            if self.stop.is_set():
                return "interrupted"
            if self.problems:
                return "unavailable"
        return "complete"

    async def file(self, request: Request, reply: Reply) -> None:
        """File an answer that came from outside.

        Raises
        ------
        InputError
            If the budget cannot carry it.
        """
        reservation = self.worst_case(request)
        if not self.budget.try_reserve(reservation):
            raise InputError("the budget cannot carry another answer; the campaign is over")
        identity = await self._begin(request, reservation)
        await self._file(request, identity, reply, reservation)

    @property
    def problems(self) -> dict[str, JudgeError]:
        """Judges that cannot answer, with the reason."""
        return {name: state.down for name, state in self._standing.items() if state.down}

    def _open(self, requests: Sequence[Request]) -> list[Request]:
        return [request for request in requests if not self.ledger.answered(request.key)]

    async def _together(self, work: Sequence[Coroutine[None, None, None]]) -> None:
        """Run the coroutines side by side; end them all on the first error or soon after a stop."""
        tasks = [asyncio.create_task(one) for one in work]
        stopped = asyncio.create_task(self.stop.wait())
        finished = asyncio.ensure_future(asyncio.gather(*tasks))
        either: list[asyncio.Future[Any]] = [finished, stopped]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not finished.done():
                await asyncio.wait([finished], timeout=GRACE_S)
            if finished.done():
                finished.result()
        finally:
            for task in [*tasks, *either]:
                task.cancel()
            await asyncio.gather(*tasks, *either, return_exceptions=True)

    async def _one(self, request: Request) -> None:
        """Ask one request until it is answered, given up, or has to wait for another run."""
        standing = self._standing[request.cell.judge]
        async with standing.slots:
            if standing.down or self.stop.is_set():
                return
            failures: list[int] = []
            try:
                await retrying(self._attempt_at(request, failures), self.policy, sleep=self._sleep)
            except (JudgeUnavailable, RequestRefused, RateLimited, TransientError) as error:
                reason = self._hopeless(request, error, failures)
                if reason is None:
                    standing.down = error
                else:
                    await self.ledger.give_up(request.key, failure(request.cell, reason))
            except NotRecorded:
                self._not_recorded.add(request.key)
            except (Interrupted, _Unaffordable):
                return

    def _hopeless(self, request: Request, error: JudgeError, failures: Sequence[int]) -> str | None:
        """Why this request is given up; None if the fault is the judge's, who may be asked later.

        ``failures`` holds how many requests the judge had answered at each failure of this one.
        """
        if isinstance(error, JudgeUnavailable):
            return None
        standing = self._standing[request.cell.judge]
        tried = self._attempts[request.key]
        stubborn = standing.open <= LAST_FEW and tried >= RUNS_BEFORE_FAILED * self.policy.attempts
        if isinstance(error, RequestRefused):
            # A judge that rejects whatever it is asked is asked wrongly; the requests are sound.
            sound = error.reason == "rejected" and error.sent and standing.successes == 0
            return None if sound and not stubborn else error.reason
        others_were_answered = len(failures) > 1 and standing.successes > failures[-2]
        return "transport" if others_were_answered or stubborn else None

    def _attempt_at(
        self, request: Request, failures: list[int]
    ) -> Callable[[int], Awaitable[None]]:
        async def attempt(number: int) -> None:
            reservation = self.worst_case(request)
            await self._reserve(reservation)
            try:
                await self._attempt(request, number, reservation, failures)
            finally:
                self._in_flight -= 1
                async with self._settled:
                    self._settled.notify_all()

        return attempt

    async def _reserve(self, reservation: Amount) -> None:
        """Set the worst case aside, waiting for others to settle if that makes room."""
        while not self.budget.try_reserve(reservation):
            if self.stop.is_set():
                raise Interrupted("stopped while waiting for room in the budget")
            if self._in_flight == 0:
                raise _Unaffordable
            async with self._settled:
                await self._settled.wait()
        self._in_flight += 1

    async def _attempt(
        self, request: Request, number: int, reservation: Amount, failures: list[int]
    ) -> None:
        self._attempts[request.key] = self._attempts.get(request.key, 0) + 1
        identity = await self._begin(request, reservation)
        try:
            reply = await self.panel[request.cell.judge].judge.ask(request)
        except (NotRecorded, InputError) as error:  # nothing was sent
            await self.ledger.fail(identity, TerminalError(str(error)), Amount())
            self.budget.release(reservation)
            raise
        except JudgeError as error:
            charged = reservation if error.may_be_billed else Amount(requests=int(error.sent))
            await self.ledger.fail(identity, error, charged, estimated=error.may_be_billed)
            self.budget.settle(reservation, charged)
            failures.append(self._standing[request.cell.judge].successes)
            again = isinstance(error, RateLimited | TransientError)
            self.listener(AttemptFailed(request.cell.judge, number, str(error), again))
            raise
        except BaseException:  # cut off in flight: the ledger keeps it as unknown, at full cost
            self.budget.settle(reservation, reservation)
            raise
        await self._file(request, identity, reply, reservation)

    async def _begin(self, request: Request, reservation: Amount) -> int:
        try:
            return await self.ledger.begin(request.key, reservation)
        except BaseException:  # withdrawn before it was sent
            self.budget.release(reservation)
            raise

    async def _file(
        self, request: Request, identity: int, reply: Reply, reservation: Amount
    ) -> None:
        charged = self._charge(request, reply.usage, reply) if reply.usage else reservation
        found = parse(reply, request.cell, request.answer)
        await self.ledger.reply(
            identity,
            reply,
            found,
            charged,
            estimated=reply.usage is None,
            parser=PARSER_VERSION,
        )
        self.budget.settle(reservation, charged)
        name = request.cell.judge
        self._standing[name].successes += 1
        valid = all(verdict.state in {"valid", "tie"} for verdict in found)
        self.listener(Replied(name, valid, self.budget.spent))

    def _charge(self, request: Request, usage: Usage, reply: Reply) -> Amount:
        price = self.panel[request.cell.judge].price
        money = reply.cost if reply.cost is not None else price.cost(usage) if price else None
        return Amount(tokens=usage.total, money=money, requests=1)

    async def _sleep(self, seconds: float) -> None:
        """Wait before another attempt, unless a stop is asked for."""
        if seconds <= 0:
            return
        try:
            await asyncio.wait_for(self.stop.wait(), seconds)
        except TimeoutError:
            return
        raise Interrupted("stopped while waiting to try again")
