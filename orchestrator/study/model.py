"""The study: what is asked, of whom, in which design, and when the answer is conclusive.

A study is frozen before the first question is asked. It is validated as a whole, so that a study
that exists can be run: names resolve, every response is there, a budget is set, and whoever decides
(panel, reference judge, target, rule, alpha) is fixed. It holds every text that is shown and no
secret, and reads back from its own JSON equal to itself.
"""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

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
    ValidationError,
    model_validator,
)

from benchtrial.adapters.judge import StructuredForm
from benchtrial.errors import StudyError
from benchtrial.orchestrator.study import identity
from benchtrial.orchestrator.study.problems import Problems, from_pydantic, refuse
from benchtrial.orchestrator.study.template import DATA_NOT_INSTRUCTIONS, DEFAULT_TURN

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
Rule = Literal["kim-demets", "obrien-fleming", "pocock", "confidence-sequence", "unsafe-fixed"]

# The form each provider is asked for when the study says "auto". A grammar without free white space
# is preferred where the server takes one; unknown servers are asked in words.
AUTO_FORM: Mapping[Provider, StructuredForm] = {
    "openai": "json_schema",
    "vllm": "json_schema",
    "llama.cpp": "grammar",
    "ollama": "json_schema",
    "openrouter": "none",
    "openai-compatible": "none",
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


def _decimal(value: object) -> object:
    """Read a decimal from the digits that were written: 0.1 means a tenth."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise ValueError('must be a decimal such as "2.50"')  # noqa: TRY004  (pydantic's protocol)
    try:
        number = Decimal(str(value))
    except InvalidOperation as error:
        raise ValueError('must be a decimal such as "2.50"') from error
    if not number.is_finite() or number < 0:
        raise ValueError("must be a finite decimal, not below zero")
    # 2.50 and 2.5 are one price and must give one hash.
    return Decimal(f"{number.normalize():f}")


def _free(value: object) -> object:
    return {"input": 0, "output": 0} if value == "free" else value


def _alternatives(value: object) -> object:
    return MOST_LOGPROBS * value if isinstance(value, bool) else value


Text = Annotated[StrictStr, AfterValidator(_sound_text)]
Id = Annotated[StrictStr, AfterValidator(_sound_id)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Money = Annotated[Decimal, BeforeValidator(_decimal)]
Count = Annotated[StrictInt, Field(ge=1)]


class _Spec(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, protected_namespaces=()
    )


class Item(_Spec):
    """One thing that is rated in batches; ``group`` and ``covariates`` are never shown."""

    id: Id
    text: Text
    group: Id | None = None
    covariates: dict[StrictStr, StrictStr | StrictBool | StrictInt | Number] = {}


class Prompt(_Spec):
    """What the candidates were asked."""

    id: Id
    text: Text


class Candidate(_Spec):
    """Whoever answered the prompts; ``responses`` maps prompt ids to texts."""

    id: Id
    family: Id | None = None
    responses: dict[StrictStr, Text] = {}


class Criterion(_Spec):
    """One aspect that judges are asked about, with the words that explain it to them."""

    id: Id
    rubric: Text = DEFAULT_RUBRIC


class Turn(_Spec):
    """One turn of the conversation that the judge reads."""

    role: Literal["user", "assistant"] = "user"
    text: Text


class Template(_Spec):
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


class AnswerSpec(_Spec):
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


class PriceSpec(_Spec):
    """Price per million tokens in the budget's currency; ``"free"`` in a study file is all zero."""

    input: Money
    output: Money
    cached_input: Money | None = None
    cache_writes: Money | None = None


class JudgeSpec(_Spec):
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
        return AUTO_FORM[self.provider] if self.structured == "auto" else self.structured


class DesignSpec(_Spec):
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
    batches: Count | None = None
    size: Annotated[StrictInt, Field(ge=2)] | None = None
    pairs: StrictStr | tuple[tuple[StrictStr, StrictStr], ...] = "all"
    repetitions: Count = 1


class AnalysisSpec(_Spec):
    """How verdicts become estimates; ``criterion`` is the one decided on (default the first)."""

    lags: Annotated[StrictInt, Field(ge=0)] = 1
    ridge: Annotated[Number, Field(ge=0)] = 0.05
    terms: tuple[Literal["position", "length", "family"], ...] | None = None
    outcomes: Literal["verdict", "probability"] = "verdict"
    criterion: StrictStr | None = None


class TargetSpec(_Spec):
    """What is to be decided: the difference of ``a`` and ``b``, or which candidate is best."""

    kind: Literal["difference", "best"]
    a: StrictStr | None = None
    b: StrictStr | None = None


class FirstLook(_Spec):
    """What must be in before the first look: batches per judge, answers per item of each kind."""

    batches: Count = 20
    answers: Count = 5


class StoppingSpec(_Spec):
    """When the answer is conclusive; everything here is frozen before the first look."""

    target: TargetSpec
    rule: Rule = "kim-demets"
    alpha: Annotated[Number, Field(gt=0, lt=1)] = 0.05
    rounds: Count = 10
    panel: tuple[StrictStr, ...] | None = None
    reference: StrictStr | None = None
    rope: Annotated[Number, Field(ge=0)] = 0.1
    futility: StrictBool = True
    optimal_information: Annotated[Number, Field(gt=0)] | None = None
    first_look: FirstLook = FirstLook()


class BudgetSpec(_Spec):
    """The most that may be spent; at least one limit."""

    tokens: Count | None = None
    money: Annotated[Money, Field(gt=0)] | None = None
    currency: StrictStr = "USD"
    requests: Count | None = None


class Study(_Spec):
    """A complete, frozen plan of a study.

    Build one with ``from_file`` (a study file), ``from_dict`` (the same content from Python) or
    ``from_json`` (the form that a ledger holds).
    """

    name: Id
    kind: Kind
    seed: Annotated[StrictInt, Field(ge=0)]
    items: tuple[Item, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    criteria: Annotated[tuple[Criterion, ...], Field(min_length=1)] = (Criterion(id="quality"),)
    template: Template
    answer: AnswerSpec
    judges: Annotated[tuple[JudgeSpec, ...], Field(min_length=1)]
    design: DesignSpec
    analysis: AnalysisSpec = AnalysisSpec()
    stopping: StoppingSpec
    budget: BudgetSpec

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        """Write out what depends on the kind, so that the stored study is self-contained."""
        if not isinstance(data, Mapping) or data.get("kind") not in ("batch", "pairs"):
            return data
        data = dict(data)
        kind = data["kind"]
        template = data.get("template", {})
        if isinstance(template, Mapping):
            data["template"] = {"turns": [{"text": DEFAULT_TURN[kind]}], **template}
        answer = data.get("answer", {})
        if isinstance(answer, Mapping) and answer.get("scale") is None:
            data["answer"] = {"labels": DEFAULT_LABELS[kind], **answer}
        return data

    @model_validator(mode="after")
    def _check(self) -> Self:
        # Imported here because the checks need the class that is being defined.
        from benchtrial.orchestrator.study.checks import problems_in

        if problems := problems_in(self):
            raise Problems(problems)
        return self

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Read a study file (TOML) and the files it names, relative to it.

        Raises
        ------
        StudyError
            With one line per problem: file, table, key, what is wrong and how to mend it.
        """
        # Imported here because the loader needs the class that is being defined.
        from benchtrial.orchestrator.study.load import read_study_file

        path = Path(path)
        data, origins = read_study_file(path)
        return cls._validated(data, path.name, origins)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Validate the content of a study file given as nested mappings, rows inline.

        Raises
        ------
        StudyError
            With one line per problem.
        """
        return cls._validated(data, "study", {})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the canonical form written by ``to_json``.

        Raises
        ------
        StudyError
            If the text is not a study.
        """
        try:
            data = identity.parse_json(text)
        except (ValueError, RecursionError) as error:
            raise StudyError(f"the stored study is not JSON: {error}") from error
        return cls._validated(data, "stored study", {})

    def to_json(self) -> str:
        """Return the canonical, self-contained form: every text, no secret, sorted keys."""
        return identity.canonical_json(self._dumped)

    @cached_property
    def hash(self) -> str:
        """Hexadecimal SHA-256 of the canonical form without transport settings."""
        return identity.sha256_of(self.identifying())

    def identifying(self) -> dict[str, Any]:
        """Return the content that makes this study this one: all but transport settings."""
        return identity.without_transport(self._dumped)

    def differences(self, other: "Study") -> list[str]:
        """Return a readable line per field in which ``other`` differs; empty for equal hashes."""
        return identity.differences(self.identifying(), other.identifying())

    def judge(self, judge: str) -> JudgeSpec:
        """Return the judge with this id."""
        return self._judges[judge]

    def item(self, item: str) -> Item:
        """Return the item with this id."""
        return self._items[item]

    def prompt(self, prompt: str) -> Prompt:
        """Return the prompt with this id."""
        return self._prompts[prompt]

    def candidate(self, candidate: str) -> Candidate:
        """Return the candidate with this id."""
        return self._candidates[candidate]

    def criterion(self, criterion: str) -> Criterion:
        """Return the criterion with this id."""
        return self._criteria[criterion]

    @property
    def decided_criterion(self) -> str:
        """Id of the criterion that the study decides on."""
        return self.analysis.criterion or self.criteria[0].id

    @property
    def panel(self) -> tuple[str, ...]:
        """Ids of the judges whose verdicts decide."""
        return self.stopping.panel or tuple(judge.id for judge in self.judges)

    @property
    def reference(self) -> str:
        """Id of the reference judge: the first of the panel unless the study names one."""
        return self.stopping.reference or self.panel[0]

    @property
    def groups(self) -> dict[str, str]:
        """The group of each item that has one, by item id."""
        return {item.id: item.group for item in self.items if item.group is not None}

    @cached_property
    def _dumped(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    @cached_property
    def _judges(self) -> dict[str, JudgeSpec]:
        return {judge.id: judge for judge in self.judges}

    @cached_property
    def _items(self) -> dict[str, Item]:
        return {item.id: item for item in self.items}

    @cached_property
    def _prompts(self) -> dict[str, Prompt]:
        return {prompt.id: prompt for prompt in self.prompts}

    @cached_property
    def _candidates(self) -> dict[str, Candidate]:
        return {candidate.id: candidate for candidate in self.candidates}

    @cached_property
    def _criteria(self) -> dict[str, Criterion]:
        return {criterion.id: criterion for criterion in self.criteria}

    @classmethod
    def _validated(cls, data: Any, source: str, origins: Mapping[tuple[str, int], str]) -> Self:
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            problems = from_pydantic(
                error.errors(include_url=False), fields=TABLES, origins=origins, data=data
            )
            refuse(problems, source)
            raise


_SPECS: Mapping[tuple[str, ...], type[_Spec]] = {
    (): Study,
    ("items",): Item,
    ("prompts",): Prompt,
    ("candidates",): Candidate,
    ("criteria",): Criterion,
    ("template",): Template,
    ("template", "turns"): Turn,
    ("answer",): AnswerSpec,
    ("judges",): JudgeSpec,
    ("judges", "price"): PriceSpec,
    ("design",): DesignSpec,
    ("analysis",): AnalysisSpec,
    ("stopping",): StoppingSpec,
    ("stopping", "target"): TargetSpec,
    ("stopping", "first_look"): FirstLook,
    ("budget",): BudgetSpec,
}

# The legal keys of every table of a study file by its path, for near misses of unknown keys.
TABLES = {path: tuple(spec.model_fields) for path, spec in _SPECS.items()}
