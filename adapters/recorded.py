"""A judge that repeats what was once recorded, attempt by attempt.

Every attempt of a query is replayed in its order, failures included, so that a replay spends the
same budget and reaches the same decision as the run that it repeats. There is no network and no
waiting.
"""

from collections.abc import Mapping, Sequence

from benchtrial.adapters.judge import BatchCell, Capabilities, Cell, Reply, Request
from benchtrial.adapters.tokens import input_bytes
from benchtrial.errors import JudgeError, NotRecorded


class RecordedJudge:
    """Answers each request from the recorded outcomes of its key.

    Parameters
    ----------
    outcomes
        Query key to the recorded attempts in order: a reply, or the error that was raised.
    capabilities
        What the recorded judge could do.
    reservations
        Query key to the bound on its input tokens that was reserved at recording time, so that a
        replay reserves the same. Without it the bytes of the messages are the bound.
    """

    def __init__(
        self,
        outcomes: Mapping[str, Sequence[Reply | JudgeError]],
        capabilities: Capabilities | None = None,
        *,
        reservations: Mapping[str, int] | None = None,
    ) -> None:
        self._outcomes = outcomes
        self._capabilities = capabilities or Capabilities()
        self._reservations = reservations or {}
        self._replayed: dict[str, int] = {}

    @property
    def capabilities(self) -> Capabilities:
        """What the recorded judge could do."""
        return self._capabilities

    def input_tokens_at_most(self, request: Request) -> int:
        """Return the bound noted at recording time, else the bytes of the messages."""
        noted = self._reservations.get(request.key)
        return input_bytes(request) if noted is None else noted

    async def ask(self, request: Request) -> Reply:
        """Replay the next recorded attempt of ``request.key``.

        Raises
        ------
        JudgeError
            As it was recorded.
        NotRecorded
            If this query was never recorded, or all its attempts have been replayed.
        """
        recorded = self._outcomes.get(request.key, ())
        position = self._replayed.get(request.key, 0)
        if position >= len(recorded):
            raise NotRecorded(_missing(request, recorded=len(recorded)))
        self._replayed[request.key] = position + 1
        outcome = recorded[position]
        if isinstance(outcome, Reply):
            return outcome
        raise outcome.with_traceback(None)

    async def close(self) -> None:
        """Nothing to release."""


def _missing(request: Request, *, recorded: int) -> str:
    what = f"judge {request.cell.judge!r}, {_describe(request.cell)}"
    key = f"query {request.key[:12]}…"
    if recorded == 0:
        return (
            f"nothing is recorded for {what} ({key}): the study, its texts or its sampling "
            "parameters differ from the recorded ones, or that round was never run"
        )
    return f"only {recorded} attempt(s) are recorded for {what} ({key}), and all have been replayed"


def _describe(cell: Cell) -> str:
    if isinstance(cell, BatchCell):
        what = f"batch {cell.batch} of {len(cell.items)} items"
    else:
        what = f"prompt {cell.prompt!r}, {cell.first!r} shown before {cell.second!r}"
    return f"{what}, criterion {cell.criterion!r}, replicate {cell.replicate}"
