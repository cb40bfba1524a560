"""The tables of a study file, each a frozen class that checks its own keys.

What one table cannot know about another is checked in ``checks``. Containers are read leniently (a
list for a tuple) and scalars strictly: no text is taken for a number, no number for text.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    StrictInt,
    StrictStr,
)

from benchtrial.adapters import DIALECTS, StructuredForm
from benchtrial.adapters.openai import Dialect
from benchtrial.orchestrator.study.template import DATA_NOT_INSTRUCTIONS

Kind = Literal["batch", "pairs"]
Provider = Literal[
    "openai",
    "vllm",
    "llama.cpp",
    "ollama",
    "openrouter",
    "openai-compatible",
    "simulated",
    "recorded",
    "ask",
]
SpendingRule = Literal["kim-demets", "obrien-fleming", "pocock"]
Rule = SpendingRule | Literal["confidence-sequence", "unsafe-fixed"]

# The form asked for when the study says "auto", of judges that are not reached over the network;
# simulated judges write the structured form.
AUTO_FORM: Mapping[str, StructuredForm] = {
    "simulated": "json_schema",
    "recorded": "none",
    "ask": "none",
}

# As many alternatives as the chat-completions protocol gives at one token.
MOST_LOGPROBS = 20

DEFAULT_LABELS: Mapping[str, tuple[str, ...]] = {"pairs": ("A", "B"), "batch": ("reject", "accept")}
DEFAULT_RUBRIC = "overall quality: correct, helpful and clear"


def _sound_text(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"holds half of a surrogate pair at character {error.start}, which is not text; mend "
            "the \\u escape it came from"
        ) from error
    return text


def _sound_id(text: str) -> str:
    if not text.strip():
        raise ValueError("an id must not be empty")
    if any(ord(character) < 32 or ord(character) == 127 for character in text):
        raise ValueError(f"the id {text!r} holds a control character")
    return _sound_text(text)


# No price or budget comes near it; digits without end would only be copied about.
MOST_MONEY = Decimal(10) ** 15


def _decimal(value: object) -> object:
    """Read a decimal from the digits that were written: 0.1 means a tenth."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise ValueError('must be a decimal such as "2.50"')  # noqa: TRY004  (pydantic's protocol)
    try:
        number = Decimal(str(value))
        # 2.50 and 2.5 are one price and must give one hash.
        plain = Decimal(f"{number.normalize():f}") if 0 <= number < MOST_MONEY else None
    except ArithmeticError as error:
        raise ValueError('must be a decimal such as "2.50"') from error
    if plain is None:
        raise ValueError("must be a finite decimal, not below zero and not astronomical")
    return plain


def _free(value: object) -> object:
    return {"input": 0, "output": 0} if value == "free" else value


def _alternatives(value: object) -> object:
    return MOST_LOGPROBS * value if isinstance(value, bool) else value


Text = Annotated[StrictStr, AfterValidator(_sound_text)]
Id = Annotated[StrictStr, AfterValidator(_sound_id)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Money = Annotated[Decimal, BeforeValidator(_decimal)]
# More than anybody asks or pays for, and less than a database or a schedule in memory can hold.
Count = Annotated[StrictInt, Field(ge=1, le=10**9)]
Repeats = Annotated[StrictInt, Field(ge=1, le=10**6)]
Tokens = Annotated[StrictInt, Field(ge=1, le=10**15)]


class Spec(BaseModel):
    """A table of a study: frozen, and without keys that nobody knows."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, protected_namespaces=()
    )


class Item(Spec):
    """One thing that is rated in batches; ``group`` and ``covariates`` are never shown."""

    id: Id
    text: Text
    group: Id | None = None
    covariates: dict[StrictStr, StrictStr | StrictBool | StrictInt | Number] = {}


class Prompt(Spec):
    """What the candidates were asked."""

    id: Id
    text: Text


class Candidate(Spec):
    """Whoever answered the prompts; ``responses`` maps prompt ids to texts."""

    id: Id
    family: Id | None = None
    responses: dict[StrictStr, Text] = {}


class Criterion(Spec):
    """One aspect that judges are asked about, with the words that explain it to them."""

    id: Id
    rubric: Text = DEFAULT_RUBRIC


class Turn(Spec):
    """One turn of the conversation that the judge reads."""

    role: Literal["user", "assistant"] = "user"
    text: Text


class Template(Spec):
    """The words around what is judged.

    Parameters
    ----------
    system
        System text; empty for none.
    turns
        The conversation, ending with a turn of the user.
    reply
        How the judge is to give its verdict, put after the last turn. ``"auto"`` is the
        instruction that fits the judge's structured form; empty for none.
    """

    system: Text = DATA_NOT_INSTRUCTIONS
    turns: Annotated[tuple[Turn, ...], Field(min_length=1)]
    reply: Text = "auto"


class AnswerSpec(Spec):
    """What a judge may answer.

    Parameters
    ----------
    labels
        Pairs: the labels of slot A, of slot B and, if ties are allowed, of a tie.
        Batch: labels from worst to best. Empty for a numeric scale.
    scale
        Lowest and highest legal number (batch only).
    integer
        Whether only whole numbers of the scale are legal.
    """

    labels: tuple[Id, ...] = ()
    scale: tuple[Number, Number] | None = None
    integer: StrictBool = True


class PriceSpec(Spec):
    """Price per million tokens in the budget's currency; ``"free"`` in a study file is all zero."""

    input: Money
    output: Money
    cached_input: Money | None = None
    cache_writes: Money | None = None


class JudgeSpec(Spec):
    """One judge and how it is reached; the key itself stays in the environment."""

    id: Id
    provider: Provider
    model: StrictStr = ""
    base_url: StrictStr | None = None
    key_env: StrictStr | None = None
    family: Id | None = None
    price: Annotated[PriceSpec | None, BeforeValidator(_free)] = None
    concurrency: Count = 8
    timeout_s: Annotated[Number, Field(gt=0)] = 120.0
    max_output_tokens: Count = 512
    parameters: dict[StrictStr, JsonValue] = {}
    structured: Literal["auto", "json_schema", "grammar", "choice", "none"] = "auto"
    logprobs: Annotated[
        StrictInt, BeforeValidator(_alternatives), Field(ge=0, le=MOST_LOGPROBS)
    ] = 0
    simulated: dict[StrictStr, JsonValue] | None = None

    @property
    def structured_form(self) -> StructuredForm:
        """The structured form this judge is held to, with ``"auto"`` resolved."""
        if self.structured != "auto":
            return self.structured
        dialect = self.dialect
        return dialect.capabilities.structured if dialect else AUTO_FORM[self.provider]

    @property
    def dialect(self) -> Dialect | None:
        """What the provider's servers take; None for judges not reached over the network."""
        return next((one for name, one in DIALECTS.items() if name == self.provider), None)


class DesignSpec(Spec):
    """Which orders are asked.

    Parameters
    ----------
    kind
        ``"shuffle"``, ``"williams"`` or ``"incomplete-blocks"`` for a batch study,
        ``"balanced-swaps"`` for pairs.
    batches
        Batches per judge.
    size
        Items per batch; all of them by default.
    pairs
        ``"all"``, a list of pairs of candidates, or ``"star:<candidate>"``.
    repetitions
        How often each judge is asked about each pair in each order.
    """

    kind: Literal["shuffle", "williams", "incomplete-blocks", "balanced-swaps"]
    batches: Repeats | None = None
    size: Annotated[StrictInt, Field(ge=2)] | None = None
    pairs: StrictStr | tuple[tuple[StrictStr, StrictStr], ...] = "all"
    repetitions: Repeats = 1


class AnalysisSpec(Spec):
    """How verdicts become estimates; ``criterion`` is the one decided on (default the first)."""

    lags: Annotated[StrictInt, Field(ge=0, le=100)] = 1
    ridge: Annotated[Number, Field(ge=0)] = 0.05
    terms: tuple[Literal["position", "length", "family"], ...] | None = None
    outcomes: Literal["verdict", "probability"] = "verdict"
    criterion: StrictStr | None = None


class TargetSpec(Spec):
    """What is to be decided.

    Parameters
    ----------
    kind
        ``"difference"`` of ``a`` and ``b``; which candidate is ``"best"``; which ``k`` are the
        ``"top-k"``; the ``"ranking"`` of all; or a ``"screening"`` of the judges.
    a, b
        Difference: two candidates, or in a batch study two groups of items.
    k
        Top-k: how many.
    multiplicity
        Ranking: how its pairs share alpha.
    keep
        Screening: share of the reference judge's sensitivity that a judge needs to be kept.
    """

    kind: Literal["difference", "best", "top-k", "ranking", "screening"]
    a: StrictStr | None = None
    b: StrictStr | None = None
    k: Count | None = None
    multiplicity: Literal["holm", "max-z"] = "holm"
    keep: Annotated[Number, Field(gt=0)] = 0.5


class FirstLook(Spec):
    """What must be in before the first look; the last look of a study is always taken.

    Parameters
    ----------
    batches, answers
        Batch studies: so many batches per judge, or so many answers per item, whichever is first.
    prompts
        Pair studies: so many prompts. Prompts are the independent units; a standard error from a
        handful of them makes false claims likely.
    """

    batches: Count = 20
    answers: Count = 5
    prompts: Count = 20


class StoppingSpec(Spec):
    """When the answer is conclusive; everything here is frozen before the first look."""

    target: TargetSpec
    rule: Rule = "kim-demets"
    alpha: Annotated[Number, Field(gt=0, lt=1)] = 0.05
    rounds: Repeats = 10
    panel: tuple[StrictStr, ...] | None = None
    reference: StrictStr | None = None
    rope: Annotated[Number, Field(ge=0)] = 0.1
    futility: StrictBool = True
    optimal_information: Annotated[Number, Field(gt=0)] | None = None
    first_look: FirstLook = FirstLook()


class BudgetSpec(Spec):
    """The most that may be spent; at least one limit."""

    tokens: Tokens | None = None
    money: Annotated[Money, Field(gt=0)] | None = None
    currency: StrictStr = "USD"
    requests: Count | None = None
