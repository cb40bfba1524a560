"""What passes between a campaign and a judge: a Request goes in, a Reply comes out.

A request knows its design cell (who is shown where), so that a simulated judge can answer it and a
ledger can file it; the words that a real judge reads are in ``messages``. A judge makes exactly one
attempt: retries, budget and records are the business of those who ask.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, Protocol

Role = Literal["system", "user", "assistant"]
StopReason = Literal["complete", "truncated", "refusal", "content_filter", "other"]
StructuredForm = Literal["json_schema", "grammar", "choice", "none"]


@dataclass(frozen=True, slots=True)
class BatchCell:
    """One batch of items rated by one judge in one shared context.

    Parameters
    ----------
    judge
        Id of the judge.
    batch
        Number of the batch, from 0; all judges see the same orders by default.
    items
        Item ids in displayed order.
    criterion
        Id of the criterion asked about.
    replicate
        Number of this repetition of the same cell, from 0.
    """

    judge: str
    batch: int
    items: tuple[str, ...]
    criterion: str
    replicate: int = 0


@dataclass(frozen=True, slots=True)
class PairCell:
    """Two responses to one prompt compared by one judge, in one displayed order.

    Parameters
    ----------
    judge, prompt
        Ids of the judge and of the prompt.
    first, second
        Candidate ids in displayed order: ``first`` is in slot A.
    criterion
        Id of the criterion asked about.
    replicate
        Number of this repetition of the same cell, from 0.
    """

    judge: str
    prompt: str
    first: str
    second: str
    criterion: str
    replicate: int = 0


Cell = BatchCell | PairCell


@dataclass(frozen=True, slots=True)
class ChoiceAnswer:
    """The judge picks one label: ``labels[0]`` for slot A, ``labels[1]`` for slot B, then a tie.

    Structured form: ``{"winner": "<label>"}``.
    """

    labels: tuple[str, ...] = ("A", "B")


@dataclass(frozen=True, slots=True)
class RatingsAnswer:
    """The judge rates each of ``size`` displayed items, either by a label or by a number.

    Structured form: one object, a key per displayed item in displayed order,
    ``{"item_1": "accept", "item_2": "reject"}`` or ``{"item_1": 7}``.

    Parameters
    ----------
    size
        Number of items displayed.
    labels
        Labels from worst to best (``("reject", "accept")``), or empty for a numeric scale.
    scale
        Lowest and highest legal number, for a numeric scale.
    integer
        Whether only whole numbers are legal.
    """

    size: int
    labels: tuple[str, ...] = ()
    scale: tuple[float, float] | None = None
    integer: bool = True


Answer = ChoiceAnswer | RatingsAnswer


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of the conversation that the judge reads."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Request:
    """One question to one judge.

    Parameters
    ----------
    key
        Deterministic query key: hash of the design cell, the rendered messages, the model and the
        sampling parameters; never of transport settings or secrets.
    cell
        Who is shown where.
    messages
        What the judge reads.
    answer
        What a valid answer looks like.
    max_output_tokens
        The cap on output tokens, reasoning included.
    parameters
        Sampling parameters exactly as they are sent (``temperature``, ``top_p``, ``seed`` …).
    logprobs
        How many alternatives to ask for at each output token; 0 asks for none.
    """

    key: str
    cell: Cell
    messages: tuple[Message, ...]
    answer: Answer
    max_output_tokens: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    logprobs: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens in one inclusive form: the subsets are contained in ``input`` and ``output``.

    Parameters
    ----------
    input
        All input tokens, cached ones and cache writes included.
    output
        All output tokens, reasoning included.
    cached_input, cache_writes
        Parts of ``input`` that were read from, or written to, a prompt cache.
    reasoning
        Part of ``output`` that the judge spent on hidden reasoning.
    estimated
        True if the provider reported nothing and the upper bound of the reservation stands in.
    """

    input: int
    output: int
    cached_input: int = 0
    cache_writes: int = 0
    reasoning: int = 0
    estimated: bool = False

    @property
    def total(self) -> int:
        """Input plus output tokens."""
        return self.input + self.output


@dataclass(frozen=True, slots=True)
class Token:
    """One output token with its log-probability and those of its alternatives (natural log)."""

    text: str
    logprob: float
    alternatives: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back from one attempt.

    Parameters
    ----------
    text
        The visible answer; empty if there was none.
    stop
        Why the judge stopped, in the words of this project.
    usage
        None if the provider reported none.
    tokens
        Output tokens with log-probabilities, where they were asked for and offered.
    served_model, fingerprint, request_id
        What the provider says it served, for the record.
    raw
        The body as received, for the ledger.
    latency
        Seconds from sending the request to the end of the body.
    cost
        Money as the provider itself reports it, if it does.
    """

    text: str
    stop: StopReason = "complete"
    usage: Usage | None = None
    tokens: tuple[Token, ...] = ()
    served_model: str | None = None
    fingerprint: str | None = None
    request_id: str | None = None
    raw: str = ""
    latency: float = 0.0
    cost: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a judge can do; a parameter that it refuses is an error when the study is loaded.

    Parameters
    ----------
    structured
        The form of structured output to use, ``"none"`` for an announced answer in text.
    logprobs
        Whether log-probabilities of output tokens are offered.
    parameters
        Names of the sampling parameters that the judge is known to accept.
    open_parameters
        True for a server whose parameters are not known: any other is sent and may be refused then.
    """

    structured: StructuredForm = "none"
    logprobs: bool = False
    parameters: frozenset[str] = frozenset()
    open_parameters: bool = False

    def accepts(self, parameter: str) -> bool:
        """Whether the judge may be sent this sampling parameter."""
        return self.open_parameters or parameter in self.parameters


class Judge(Protocol):
    """Whoever answers requests: a provider's model, a recording, a simulation, a person."""

    @property
    def capabilities(self) -> Capabilities:
        """What this judge can do."""

    def input_tokens_at_most(self, request: Request) -> int:
        """Upper bound on the input tokens of ``request``, exact where a tokenizer is at hand."""

    async def ask(self, request: Request) -> Reply:
        """Make one attempt.

        Raises
        ------
        RateLimited, TransientError, TerminalError
            See ``benchtrial.errors``.
        """

    async def close(self) -> None:
        """Release connections. Safe to call twice."""
