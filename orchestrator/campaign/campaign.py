"""The loop: plan a round, ask, record, refit, look, stop.

Everything that happened is in the ledger, and the loop is a function of the study and the ledger:
run it again after a kill and it goes on where it was; run it against recorded judges and it reaches
the same decision.
"""

import asyncio
import hashlib
import re
import signal
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import pandas as pd

from benchtrial.adapters import PairCell, Reply, Request, RetryPolicy, Usage
from benchtrial.errors import (
    InputError,
    Interrupted,
    JudgeUnavailable,
    StudyChanged,
    StudyError,
)
from benchtrial.orchestrator.budget import Amount, Budget, Limits
from benchtrial.orchestrator.campaign.answers import Answer, as_text
from benchtrial.orchestrator.campaign.asking import Asker, Panelist, RoundEnd
from benchtrial.orchestrator.campaign.deciding import (
    Evidence,
    as_emitted,
    covariates,
    stopping_plan,
    weigh,
)
from benchtrial.orchestrator.campaign.events import Listener, LookTaken, RoundStarted, ignore
from benchtrial.orchestrator.campaign.judges import AskedElsewhere, panel_of
from benchtrial.orchestrator.campaign.planning import Question, rounds
from benchtrial.orchestrator.campaign.result import Result, looks_of
from benchtrial.orchestrator.campaign.signals import hearing_signals
from benchtrial.orchestrator.ledger import Covariates, Ledger, PlannedQuery
from benchtrial.orchestrator.prompts import build_request
from benchtrial.orchestrator.sequential import take_look
from benchtrial.orchestrator.study import Study

T = TypeVar("T")
# Names of devices, which Windows does not give to files whatever their suffix.
RESERVED_NAMES = {
    "CON",
    "PRN",
    "AUX",
    "NUL",
    *(f"{port}{n}" for port in ("COM", "LPT") for n in range(10)),
}


class Campaign:
    """A study in progress: its questions, its judges, its ledger.

    Use it as a context manager, or call ``close`` when done. Open one with ``Campaign.open``.
    """

    def __init__(
        self,
        study: Study,
        ledger: Ledger,
        panel: Mapping[str, Panelist],
        *,
        policy: RetryPolicy | None = None,
        listener: Listener = ignore,
    ) -> None:
        self.study = study
        self.ledger = ledger
        self._listener = listener
        self._plan = stopping_plan(study)
        self._specs = {spec.id: spec for spec in study.judges}
        limits = study.budget
        self._asker = Asker(
            ledger,
            Budget(Limits(limits.tokens, limits.money, limits.requests), spent=ledger.spent()),
            panel,
            policy or RetryPolicy(),
            listener,
        )
        self._looks = [*looks_of(ledger)]
        self._evidence: Evidence | None = None
        self._exhausted = False
        self._handed_out: set[str] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped_by = signal.SIGINT

    @classmethod
    def open(
        cls,
        study: Study | str | Path,
        *,
        ledger: str | Path | None = None,
        panel: Mapping[str, Panelist] | None = None,
        policy: RetryPolicy | None = None,
        listener: Listener = ignore,
    ) -> Self:
        """Start the study's campaign, or go on with the one that ``ledger`` holds.

        Parameters
        ----------
        study
            What is asked, of whom, and when to stop; or the path of a study file.
        ledger
            Path of the ledger; by default the study's name with suffix ``.ledger``, here.
        panel
            Judges to use instead of those that the study describes.
        policy
            How patiently a failed request is tried again.
        listener
            Called with every event.

        Raises
        ------
        StudyChanged
            If the ledger holds another study; the message lists the differences.
        LedgerError
            If the ledger cannot be opened, or another process is running it.
        StudyError
            If a judge's key is not in the environment.
        """
        study = study if isinstance(study, Study) else Study.from_file(study)
        path = Path(ledger) if ledger is not None else Path(_file_name(study.name))
        panel = panel if panel is not None else panel_of(study)
        record = _same_study(study, path) if path.exists() else None
        if record is None:
            record = Ledger.create(path, study_json=study.to_json(), study_hash=study.hash)
        return cls(study, record, panel, policy=policy, listener=listener)

    def run(self) -> Result:
        """Ask, look and repeat until the campaign ends. Works inside a running event loop too.

        Raises
        ------
        Interrupted
            On Ctrl-C or SIGTERM: what was answered is kept, and the same call goes on later.
        JudgeUnavailable
            If a judge cannot answer; the other judges finish the round first.
        """
        work = self._run_with_signals()
        if not _inside_a_loop():
            return asyncio.run(work)
        with ThreadPoolExecutor(max_workers=1) as pool:
            running = pool.submit(asyncio.run, work)
            try:
                return running.result()
            except KeyboardInterrupt:
                self.stop()
                return running.result()

    async def run_async(self) -> Result:
        """``run`` as a coroutine. Cancelling it keeps everything that was answered."""
        outside = [
            name for name, one in self._asker.panel.items() if isinstance(one.judge, AskedElsewhere)
        ]
        if outside:
            raise StudyError(
                f'judges with provider "ask" ({", ".join(outside)}) answer from outside: '
                "use campaign.ask() and campaign.tell() instead of run()"
            )
        self._require_affordable_start()
        self._asker.begin_run()
        self._exhausted = False
        self._loop = asyncio.get_running_loop()
        try:
            while not (self.over or self._exhausted):
                await self._round()
        finally:
            await self._close_judges()
        return self.result()

    def stop(self) -> None:
        """Ask no more; requests in flight get a few seconds to finish. ``run`` then raises.

        May be called from any thread.
        """
        if self._loop is not None and self._loop.is_running():
            self._loop.call_soon_threadsafe(self._asker.stop.set)

    def ask(self, n: int = 1) -> list[Request]:
        """Hand out up to ``n`` questions that nobody has answered, in scheduled order.

        For people who bring their own judge: show ``request.messages`` to it, then call ``tell``.
        Questions handed out and not told yet come again once the round has no others. An empty
        list means that the campaign is over (see ``result``).
        """
        if n < 1:
            raise InputError(f"ask: n is {n}; ask for at least one question")
        self._require_affordable_start()
        while not self.over:
            waiting = self._open_affordable()
            if waiting:
                fresh = [one for one in waiting if one.key not in self._handed_out] or waiting
                self._handed_out.update(one.key for one in fresh[:n])
                return fresh[:n]
            _complete(self._close_round("complete" if not self._open() else "budget"))
        return []

    def tell(self, request: Request, verdict: Answer, *, usage: Usage | None = None) -> None:
        """File the verdict on a question from ``ask``; the last one of a round brings a look.

        Parameters
        ----------
        request
            The question, as ``ask`` returned it.
        verdict
            For a pair: the label, or the id of the candidate that is better. For a batch: a
            label or number for each item, in displayed order or by item id.
        usage
            Tokens spent. Without it a judge with provider ``"ask"`` costs nothing, any other the
            worst case that was reserved.

        Raises
        ------
        InputError
            If the question was not open, or the verdict is not one that it allows.
        """
        if self.over or request.key not in {one.key for one in self._open()}:
            raise InputError(
                f"tell: the question {request.cell} is not open in this round; "
                "tell the answers to questions that ask() returned, once each"
            )
        free = self._specs[request.cell.judge].provider == "ask"
        reply = Reply(
            text=as_text(request, verdict),
            usage=usage or (Usage(input=0, output=0) if free else None),
        )
        _complete(self._asker.file(request, reply))
        if not self._open():
            _complete(self._close_round("complete"))

    @property
    def over(self) -> bool:
        """Whether the campaign has come to an end state."""
        return bool(self._looks) and self._looks[-1].decision.state != "continue"

    def result(self) -> Result:
        """Return what the campaign has come to so far."""
        if self._evidence is None and self._looks:
            self._evidence = self._weigh()
        return Result(
            looks=tuple(self._looks),
            spent=self._asker.budget.spent,
            fit=self._evidence.fit if self._evidence else None,
            warnings=self._evidence.warnings if self._evidence else (),
            missing=self.ledger.missing(),
            ledger=self.ledger.path,
            exhausted=self._exhausted,
        )

    def close(self) -> None:
        """Release the ledger and the judges' connections."""
        _complete(self._close_judges())
        self.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- one round ---------------------------------------------------------------------------

    async def _round(self) -> None:
        requests = self._requests
        answered = sum(self.ledger.answered(one.key) for group in requests for one in group)
        self._listener(
            RoundStarted(
                number=self._number,
                rounds=len(self._rounds),
                queries=sum(map(len, requests)),
                answered=answered,
            )
        )
        self._record_round()
        end = await self._asker.ask(requests)
        if end == "interrupted":
            raise self._interrupted()
        if end == "unavailable":
            raise self._unavailable()
        if end == "dry":
            self._exhausted = True
        else:
            await self._close_round(end)

    async def _close_round(self, end: RoundEnd) -> None:
        final = end == "budget" or self._last_round or not self._next_affordable()
        self._evidence = self._weigh()
        evidence = self._evidence.at_look(final=final)
        budget = self._asker.budget
        look = take_look(
            self._plan,
            self._looks,
            evidence.estimates,
            clock=1.0 if final else max(budget.fraction(), self._number_done / len(self._rounds)),
            final=final,
            saturated=evidence.saturated,
            unidentified=evidence.unidentified,
        )
        await self.ledger.add_look(look.to_json())
        self._looks.append(look)
        self.__dict__.pop("_requests", None)
        self._listener(LookTaken(look, budget.spent))

    def _weigh(self) -> Evidence:
        study = self.study
        if study.kind == "batch":
            table = as_emitted(self.ledger.ratings(self._covariates), self.ledger.missing())
        else:
            table = self.ledger.comparisons(self._covariates, outcome=study.analysis.outcomes)
            table = table[~self._half_asked(table)]
        return weigh(study, table[table["criterion"] == study.decided_criterion], self._plan)

    def _half_asked(self, comparisons: pd.DataFrame) -> pd.Series:
        """Whether the other displayed order of a comparison was never answered.

        Only the last round that was planned can have been cut short.
        """
        planned = self.ledger.rounds()
        waiting = {
            (cell.judge, cell.prompt, cell.second, cell.first, cell.criterion, cell.replicate)
            for query in self.ledger.queries(planned[-1])
            if isinstance(cell := query.request.cell, PairCell)
            and not self.ledger.answered(query.key)
        }
        columns = ["judge", "prompt", "first", "second", "criterion", "repetition"]
        rows = comparisons[columns].itertuples(index=False, name=None)
        return pd.Series([row in waiting for row in rows], index=comparisons.index, dtype=bool)

    # -- the schedule ------------------------------------------------------------------------

    @cached_property
    def _covariates(self) -> Covariates:
        return covariates(self.study)

    @cached_property
    def _rounds(self) -> tuple[tuple[Question, ...], ...]:
        return rounds(self.study)

    @property
    def _number(self) -> int:
        """Number of the current round, from 0: every closed round has brought one look."""
        return len(self._looks)

    @property
    def _number_done(self) -> int:
        return self._number + 1

    @property
    def _last_round(self) -> bool:
        return self._number_done >= len(self._rounds)

    @cached_property
    def _requests(self) -> list[list[Request]]:
        """Requests of the current round, a list for each question; forgotten when it closes."""
        return [self._rendered(question) for question in self._rounds[self._number]]

    def _rendered(self, question: Question) -> list[Request]:
        return [build_request(self.study, self._specs[cell.judge], cell) for cell in question.cells]

    def _next_affordable(self) -> bool:
        following = self._rounds[self._number_done][0]
        return self._asker.affordable([self._rendered(following)]) > 0

    def _require_affordable_start(self) -> None:
        """Refuse a budget that cannot carry a single question."""
        begun = self._looks or self.ledger.summary().attempts
        if begun or self._asker.affordable(self._requests[:1]):
            return
        needed = sum(map(self._asker.worst_case, self._requests[0]), Amount())
        raise InputError(
            f"the budget cannot carry the first question, which may need up to "
            f"{needed.tokens:,} tokens in {needed.requests:,} requests; raise "
            "[budget], or lower max_output_tokens of the judges"
        )

    def _open(self) -> list[Request]:
        return [
            one for group in self._requests for one in group if not self.ledger.answered(one.key)
        ]

    def _open_affordable(self) -> list[Request]:
        self._record_round()
        groups = [
            [one for one in group if not self.ledger.answered(one.key)] for group in self._requests
        ]
        groups = [group for group in groups if group]
        return [one for group in groups[: self._asker.affordable(groups)] for one in group]

    def _record_round(self) -> None:
        if self._number in self.ledger.rounds():
            return
        self.ledger.add_round(
            self._number,
            [
                PlannedQuery(key=one.key, round=self._number, unit=question.number, request=one)
                for question, group in zip(self._rounds[self._number], self._requests, strict=True)
                for one in group
            ],
        )

    # -- endings -----------------------------------------------------------------------------

    async def _run_with_signals(self) -> Result:
        """Run, and turn the first Ctrl-C or SIGTERM into a stop and the second into an end."""
        task = asyncio.ensure_future(self.run_async())

        def stop(number: signal.Signals) -> None:
            self._stopped_by = number
            if self._asker.stop.is_set():
                task.cancel()
            self.stop()

        with hearing_signals(stop):
            try:
                return await task
            except asyncio.CancelledError:
                if self._asker.stop.is_set():
                    raise self._interrupted() from None
                task.cancel()
                raise

    def _interrupted(self) -> Interrupted:
        cut_off = self.ledger.summary().unknown
        error = Interrupted(
            f"stopped; everything answered so far is kept in {self.ledger.path}. "
            + (f"{cut_off} requests got no answer and stay counted in full. " if cut_off else "")
            + "Run the same command again to go on"
        )
        error.exit_code = 128 + self._stopped_by
        return error

    def _unavailable(self) -> JudgeUnavailable:
        reasons = "; ".join(f"{name}: {why}" for name, why in self._asker.problems.items())
        return JudgeUnavailable(
            f"{reasons}. Everything answered so far is kept in {self.ledger.path}; "
            "mend the cause and run the same command again to go on"
        )

    async def _close_judges(self) -> None:
        for panelist in self._asker.panel.values():
            await panelist.judge.close()


def _same_study(study: Study, path: Path) -> Ledger | None:
    """Open the ledger of this study; None if it was another's and held nothing yet.

    A start that was never answered (a typo in the study, a server that was down) is not worth
    guarding: its ledger is removed. Anything that was answered or paid for is kept.
    """
    record = Ledger.open(path)
    # Read anew, so that a key that a later version added with a default is no difference.
    recorded = Study.from_json(record.study_json)
    if recorded.hash == study.hash:
        return record
    spent = record.spent()
    untouched = not (record.summary().replies or spent.tokens or spent.requests)
    differences = recorded.differences(study)
    record.close()
    if untouched:
        path.unlink()
        return None
    raise StudyChanged(
        f"{path} holds a campaign of another study. What differs (in the ledger -> now):\n"
        + "\n".join(f"  {line}" for line in differences)
        + "\nUndo the change, or name another ledger to start a new campaign"
    )


def _file_name(name: str) -> str:
    """Name a ledger after its study with characters that every file system takes."""
    plain = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "study"
    if plain == name and plain.upper() not in RESERVED_NAMES:
        return f"{plain}.ledger"
    # Names that differ only in the characters replaced must not share a ledger.
    return f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}.ledger"


def _complete(work: Coroutine[None, None, T]) -> T:
    """Run a short coroutine to its end, on a loop of its own if this thread already runs one."""
    if not _inside_a_loop():
        return asyncio.run(work)
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, work).result()


def _inside_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
