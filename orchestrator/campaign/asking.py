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
from typing import Literal

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

# A request that failed this many times the policy's number of attempts, over all runs, is recorded
# as failed: one bad request must not hold up a study for ever, but an outage only ends a run.
ATTEMPTS_BEFORE_FAILED = 2
# Seconds that requests in flight get to finish after a stop was asked for.
GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class Panelist:
    """A judge with what the campaign needs to know to ask it."""

    judge: Judge
    concurrency: int
    price: Price | None


@dataclass(slots=True)
class _Standing:
    """How a judge is doing in this run."""

    slots: asyncio.Semaphore
    successes: int = 0
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
    _dry: bool = False

    def __post_init__(self) -> None:
        self._attempts = self.ledger.attempt_counts()
        self.begin_run()

    def begin_run(self) -> None:
        """Forget what an earlier run learned about judges and stops."""
        self.stop = asyncio.Event()
        self._standing = _fresh(self.panel)
        self._dry = False

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
        waiting = [open_ for open_ in map(self._open, questions) if open_]
        while waiting:
            wave = waiting[: self.affordable(waiting)]
            if not wave:
                return "budget"
            await self._together([self._one(request) for requests in wave for request in requests])
            if self.stop.is_set():
                return "interrupted"
            if self._dry:
                return "dry"
            waiting = waiting[len(wave) :]
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
        try:
            running = set(tasks)
            while running and not stopped.done():
                done, _ = await asyncio.wait(
                    {*running, stopped}, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done & running:
                    task.result()
                running -= done
            if running:
                await asyncio.wait(running, timeout=GRACE_S)
        finally:
            for task in [*tasks, stopped]:
                task.cancel()
            await asyncio.gather(*tasks, stopped, return_exceptions=True)

    async def _one(self, request: Request) -> None:
        name = request.cell.judge
        standing = self._standing[name]
        async with standing.slots:
            if standing.down or self._dry or self.stop.is_set():
                return
            answered_at_failure: list[int] = []
            try:
                await retrying(
                    self._attempt_at(request, answered_at_failure), self.policy, sleep=self._sleep
                )
            except RequestRefused as error:
                if error.reason == "rejected" and not self._known_to_answer(request):
                    standing.down = error
                else:
                    await self.ledger.give_up(request.key, failure(request.cell, error.reason))
            except JudgeUnavailable as error:
                standing.down = error
            except NotRecorded:
                self._dry = True
            except (RateLimited, TransientError) as error:
                # Others were answered between this request's last two failures.
                alive = [standing.successes] > answered_at_failure[-2:-1] != []
                await self._park(request, error, judge_is_alive=alive)
            except Interrupted:
                return

    def _known_to_answer(self, request: Request) -> bool:
        """Whether a rejection is about this request, rather than about how the judge is asked.

        It is if the judge answered others, or rejected the request in an earlier run already.
        """
        tried = self._attempts.get(request.key, 0)
        return self._standing[request.cell.judge].successes > 0 or tried >= ATTEMPTS_BEFORE_FAILED

    async def _park(self, request: Request, error: JudgeError, *, judge_is_alive: bool) -> None:
        tried = self._attempts.get(request.key, 0)
        if judge_is_alive or tried >= ATTEMPTS_BEFORE_FAILED * self.policy.attempts:
            await self.ledger.give_up(request.key, failure(request.cell, "transport"))
        else:
            self._standing[request.cell.judge].down = error

    def _attempt_at(
        self, request: Request, answered_at_failure: list[int]
    ) -> Callable[[int], Awaitable[None]]:
        async def attempt(number: int) -> None:
            reservation = self.worst_case(request)
            if not self.budget.try_reserve(reservation):
                raise Interrupted("the budget cannot carry another attempt")
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
                answered_at_failure.append(self._standing[request.cell.judge].successes)
                again = isinstance(error, RateLimited | TransientError)
                self.listener(AttemptFailed(request.cell.judge, number, str(error), again))
                raise
            except BaseException:  # cut off in flight: the ledger keeps it as unknown, at full cost
                self.budget.settle(reservation, reservation)
                raise
            await self._file(request, identity, reply, reservation)

        return attempt

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
