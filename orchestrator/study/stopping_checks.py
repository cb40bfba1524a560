"""What no single field can know about stopping: that the target can be decided from the study."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, get_args

from benchtrial.orchestrator.study.problems import Problem, shown, unknown
from benchtrial.orchestrator.study.specs import SpendingRule, TargetSpec

if TYPE_CHECKING:
    from benchtrial.orchestrator.study.model import Study

# Keys of a target by the kind that they belong to.
_TARGET_KEYS = {
    "a": "difference",
    "b": "difference",
    "k": "top-k",
    "multiplicity": "ranking",
    "keep": "screening",
}


def problems_of_stopping(study: "Study") -> Iterator[Problem]:
    """Yield what is wrong with the table ``[stopping]`` of ``study``."""
    stopping, target = study.stopping, study.stopping.target
    judges = [judge.id for judge in study.judges]
    panel = judges if stopping.panel is None else list(stopping.panel)
    for name in panel:
        if name not in judges:
            yield Problem("stopping", "panel", unknown(name, judges, "judge"))
    if not panel:
        yield Problem("stopping", "panel", "nobody decides; name at least one judge")
    for name, times in Counter(panel).items():
        if times > 1 and stopping.panel is not None:
            yield Problem("stopping", "panel", f"{shown(name)} is named {times} times")
    if stopping.reference is not None and stopping.reference not in panel:
        yield Problem("stopping", "reference", unknown(stopping.reference, panel, "panel judge"))
    if stopping.optimal_information is not None and stopping.rule != "confidence-sequence":
        yield Problem(
            "stopping", "optimal_information", 'only for rule = "confidence-sequence"; remove it'
        )
    if target.multiplicity == "max-z" and stopping.rule not in get_args(SpendingRule):
        yield Problem(
            "stopping",
            "target.multiplicity",
            f'"max-z" spends alpha by the budget, which rule = "{stopping.rule}" does not; set '
            f'rule to one of {", ".join(get_args(SpendingRule))}, or multiplicity = "holm"',
        )
    yield from _foreign_keys(target)
    if check := _TARGETS.get(target.kind):
        yield from check(study, target)


def _foreign_keys(target: TargetSpec) -> Iterator[Problem]:
    for key, kind in _TARGET_KEYS.items():
        default = TargetSpec.model_fields[key].default
        if target.kind != kind and getattr(target, key) != default:
            yield Problem("stopping", f"target.{key}", f'belongs to kind = "{kind}"; remove it')


def _difference(study: "Study", target: TargetSpec) -> Iterator[Problem]:
    kind, names = ("group of items", list(dict.fromkeys(study.groups.values())))
    if study.kind == "pairs":
        kind, names = "candidate", [candidate.id for candidate in study.candidates]
    for key, name in (("a", target.a), ("b", target.b)):
        if name is None:
            yield Problem("stopping", f"target.{key}", f"this key is missing; name a {kind}")
        elif name not in names:
            yield Problem("stopping", f"target.{key}", unknown(name, names, kind))
    if target.a is not None and target.a == target.b:
        yield Problem("stopping", "target.b", f"{shown(target.b)} is compared with itself")


def _top_k(study: "Study", target: TargetSpec) -> Iterator[Problem]:
    what = "candidates" if study.kind == "pairs" else "items"
    count = len(getattr(study, what))
    if target.k is None:
        yield Problem("stopping", "target.k", "this key is missing; say how many are wanted")
    elif target.k >= count:
        yield Problem(
            "stopping", "target.k", f"{target.k} of {count} {what} is no choice; set a smaller k"
        )


def _screening(study: "Study", target: TargetSpec) -> Iterator[Problem]:
    del target
    if study.kind == "batch":
        yield Problem(
            "stopping",
            "target.kind",
            "judges are screened on the pairs that they compare; a batch study has none",
        )
        return
    if len(study.judges) < 2:
        yield Problem(
            "stopping", "target.kind", "a screening needs a judge beside the reference; add one"
        )
    terms = study.analysis.terms
    if terms is not None and "position" not in terms:
        yield Problem(
            "analysis",
            "terms",
            'a screening without "position" would drop judges for their slot; add it',
        )


_TARGETS: Mapping[str, Callable[["Study", TargetSpec], Iterator[Problem]]] = {
    "difference": _difference,
    "top-k": _top_k,
    "screening": _screening,
}
