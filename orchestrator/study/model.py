"""The study: what is asked, of whom, in which design, and when the answer is conclusive.

A study is frozen before the first question is asked. It is validated as a whole, so that a study
that exists can be run: names resolve, every response is there, a budget is set, and whoever decides
(panel, reference judge, target, rule, alpha) is fixed. It holds every text that is shown and no
secret, and reads back from its own JSON equal to itself.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, StrictInt, ValidationError, model_validator

from benchtrial.errors import StudyError
from benchtrial.orchestrator.study import identity
from benchtrial.orchestrator.study.problems import Problems, from_pydantic, refuse
from benchtrial.orchestrator.study.specs import (
    DEFAULT_LABELS,
    AnalysisSpec,
    AnswerSpec,
    BudgetSpec,
    Candidate,
    Criterion,
    DesignSpec,
    FirstLook,
    Id,
    Item,
    JudgeSpec,
    Kind,
    PriceSpec,
    Prompt,
    Spec,
    StoppingSpec,
    TargetSpec,
    Template,
    Turn,
)
from benchtrial.orchestrator.study.template import DEFAULT_TURN


class Study(Spec):
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


_SPECS: Mapping[tuple[str, ...], type[Spec]] = {
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
