"""What no single field can know: that the parts of a study fit together.

Each check yields problems rather than raising, so that everything is said at once. A check trusts
only what pydantic has already validated, and never another check.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from benchtrial.orchestrator.study import template
from benchtrial.orchestrator.study.judge_checks import problems_of_judge
from benchtrial.orchestrator.study.problems import (
    Problem,
    listed,
    shown,
    unknown,
)
from benchtrial.orchestrator.study.stopping_checks import problems_of_stopping

if TYPE_CHECKING:
    from benchtrial.orchestrator.study.model import Study


def problems_in(study: "Study") -> list[Problem]:
    """Return everything that is wrong between the parts of ``study``."""
    return [problem for check in _CHECKS for problem in check(study)]


def twins(
    ids: Sequence[str], table: str, where: Callable[[int], str] = lambda _: ""
) -> Iterator[Problem]:
    """Yield a problem for each id that repeats, or all but repeats, an earlier one.

    Two ids are twins if they are equal, or differ only by white space around them or by Unicode
    normal form: such ids look alike in every table, and some tool on the way would merge them.

    Parameters
    ----------
    ids
        Ids in the order of their rows.
    table
        Name of their table.
    where
        The place of the row with a given index, if it has a better name than its number.
    """
    seen: dict[str, int] = {}
    for index, name in enumerate(ids):
        folded = unicodedata.normalize("NFC", name).strip()
        first = seen.setdefault(folded, index)
        if first == index:
            continue
        rows = f"{where(first) or f'row {first + 1}'} and {where(index) or f'row {index + 1}'}"
        if ids[first] == name:
            what = f"{shown(name)} is the id of two rows: {rows}"
        else:
            what = (
                f"{ids[first]!a} and {name!a} differ only by white space or Unicode "
                f"normal form: {rows}"
            )
        yield Problem(table, "id", f"{what}; give each row an id of its own")


def _kind(study: "Study") -> Iterator[Problem]:
    if study.kind == "batch":
        if len(study.items) < 2:
            yield Problem("items", "", f"{len(study.items)} given; a batch study needs at least 2")
        for table in ("prompts", "candidates"):
            if getattr(study, table):
                yield Problem(table, "", 'belongs to a pair study; remove it or set kind = "pairs"')
        return
    if study.items:
        yield Problem("items", "", 'belongs to a batch study; remove it or set kind = "batch"')
    if not study.prompts:
        yield Problem("prompts", "", "none given; a pair study needs at least 1")
    if len(study.candidates) < 2:
        yield Problem(
            "candidates", "", f"{len(study.candidates)} given; a pair study needs at least 2"
        )


def _ids(study: "Study") -> Iterator[Problem]:
    for table in ("items", "prompts", "candidates", "criteria", "judges"):
        yield from twins([row.id for row in getattr(study, table)], table)


def _texts(study: "Study") -> Iterator[Problem]:
    # An empty response is an observation; an empty item or prompt is a slip.
    for table, rows in (("items", study.items), ("prompts", study.prompts)):
        for row in rows:
            if not row.text.strip():
                yield Problem(table, "text", f"the text of {shown(row.id)} is empty")


def _responses(study: "Study") -> Iterator[Problem]:
    prompts = [prompt.id for prompt in study.prompts]
    known = set(prompts)
    for candidate in study.candidates:
        if missing := [prompt for prompt in prompts if prompt not in candidate.responses]:
            yield Problem(
                "responses",
                shown(candidate.id),
                f"{len(missing)} of {len(prompts)} prompts have no response: {listed(missing)}; "
                "add them, or leave those prompts out",
            )
        for prompt in candidate.responses:
            if prompt not in known:
                yield Problem("responses", shown(candidate.id), unknown(prompt, prompts, "prompt"))


def _template(study: "Study") -> Iterator[Problem]:
    texts = [("system", study.template.system)]
    texts += [(f"turns #{n}", turn.text) for n, turn in enumerate(study.template.turns, start=1)]
    texts.append(("reply", study.template.reply))
    for key, what in template.problems_of(study.kind, texts, criteria=len(study.criteria)):
        yield Problem("template", key, what)
    if study.template.turns[-1].role != "user":
        yield Problem(
            "template", "turns", "the last turn must be the user's: the judge replies to it"
        )


def _answer(study: "Study") -> Iterator[Problem]:
    labels, scale = study.answer.labels, study.answer.scale
    for first, second in _alike(labels):
        yield Problem("answer", "labels", f"{first!r} and {second!r} cannot be told apart")
    if study.kind == "pairs":
        if scale is not None:
            yield Problem("answer", "scale", "pairs are answered by labels; remove the scale")
        elif len(labels) not in {2, 3}:
            yield Problem(
                "answer",
                "labels",
                f"{len(labels)} given; name slot A, slot B and, if ties are allowed, the tie",
            )
        return
    if scale is not None and labels:
        yield Problem("answer", "labels", "give either labels or a scale, not both")
    elif scale is not None and not scale[0] < scale[1]:
        yield Problem("answer", "scale", f"{list(scale)} must rise from the lowest to the highest")
    elif scale is not None or len(labels) != 2:
        yield Problem(
            "answer",
            "labels" if labels else "scale",
            "the batch model reads two labels, from worse to better; "
            'set labels = ["reject", "accept"] or two of your own',
        )


def _alike(labels: Sequence[str]) -> Iterator[tuple[str, str]]:
    seen: dict[str, str] = {}
    for label in labels:
        key = unicodedata.normalize("NFC", label).strip()
        if key in seen:
            yield seen[key], label
        seen[key] = label


def _judges(study: "Study") -> Iterator[Problem]:
    for judge in study.judges:
        for key, what in problems_of_judge(study, judge):
            yield Problem("judges", f"{shown(judge.id)} {key}", what)


def _design(study: "Study") -> Iterator[Problem]:
    design = study.design
    if (design.kind == "balanced-swaps") != (study.kind == "pairs"):
        legal = (
            '"balanced-swaps"'
            if study.kind == "pairs"
            else '"shuffle", "williams" or "incomplete-blocks"'
        )
        yield Problem("design", "kind", f"a {study.kind} study takes {legal}, not {design.kind!r}")
    elif study.kind == "batch":
        yield from _batches(study)
    else:
        yield from _pairs(study)


def _batches(study: "Study") -> Iterator[Problem]:
    design, count = study.design, len(study.items)
    for key in ("pairs", "repetitions"):
        if key in design.model_fields_set and getattr(design, key) not in ("all", 1):
            yield Problem("design", key, "belongs to a pair study; remove it")
    if design.batches is None:
        yield Problem("design", "batches", "this key is missing; say how many each judge rates")
        return
    if design.size is not None and design.size > count:
        yield Problem("design", "size", f"{design.size} is more than the {count} items there are")
    if design.kind == "williams":
        if design.size not in {None, count}:
            yield Problem("design", "size", f"a Williams square shows all {count} items; remove it")
        rows = count if count % 2 == 0 else 2 * count
        if design.batches % rows:
            below = design.batches - design.batches % rows
            near = " or ".join(str(n) for n in (below, below + rows) if n)
            yield Problem(
                "design",
                "batches",
                f"{design.batches} is not a whole number of Williams squares of {rows} batches "
                f"for {count} items; take {near}",
            )
    if design.kind == "incomplete-blocks" and (design.size is None or design.size >= count):
        yield Problem(
            "design", "size", f'set a size below the {count} items, or take kind = "shuffle"'
        )
    if study.stopping.rounds > design.batches:
        yield Problem(
            "stopping",
            "rounds",
            f"{study.stopping.rounds} looks need at least as many batches, not {design.batches}",
        )


def _pairs(study: "Study") -> Iterator[Problem]:
    design = study.design
    names = [candidate.id for candidate in study.candidates]
    for key in ("batches", "size"):
        if getattr(design, key) is not None:
            yield Problem("design", key, "belongs to a batch study; remove it")
    count = len(names) * (len(names) - 1) // 2
    if isinstance(design.pairs, str):
        if design.pairs.startswith("star:"):
            centre = design.pairs.removeprefix("star:")
            count = len(names) - 1
            if centre not in names:
                yield Problem("design", "pairs", unknown(centre, names, "candidate"))
        elif design.pairs != "all":
            yield Problem(
                "design",
                "pairs",
                f'{design.pairs!r} must be "all", "star:<candidate>" or a list of pairs',
            )
    else:
        count = len(design.pairs)
        for pair in design.pairs:
            for name in pair:
                if name not in names:
                    yield Problem("design", "pairs", unknown(name, names, "candidate"))
            if pair[0] == pair[1]:
                yield Problem("design", "pairs", f"{shown(pair[0])} is paired with itself")
        repeated = Counter(frozenset(pair) for pair in design.pairs)
        for both, times in repeated.items():
            if times > 1:
                yield Problem("design", "pairs", f"the pair {sorted(both)} is given {times} times")
    units = count * len(study.prompts) * len(study.judges) * design.repetitions
    if 0 < units < study.stopping.rounds:
        yield Problem(
            "stopping",
            "rounds",
            f"{study.stopping.rounds} looks need at least as many questions, not {units}",
        )


def _analysis(study: "Study") -> Iterator[Problem]:
    analysis = study.analysis
    criteria = [criterion.id for criterion in study.criteria]
    if analysis.criterion is not None and analysis.criterion not in criteria:
        yield Problem("analysis", "criterion", unknown(analysis.criterion, criteria, "criterion"))
    if study.kind == "batch":
        if analysis.outcomes == "probability":
            yield Problem(
                "analysis",
                "outcomes",
                'probabilities would bias the model of batches; set outcomes = "verdict"',
            )
        if analysis.terms is not None:
            yield Problem("analysis", "terms", "belongs to a pair study; remove it")
    elif "family" in (analysis.terms or ()):
        for table, rows in (("candidates", study.candidates), ("judges", study.judges)):
            if without := [row.id for row in rows if row.family is None]:
                yield Problem(
                    table,
                    "family",
                    f'analysis.terms holds "family", but {listed(without)} has none',
                )


def _budget(study: "Study") -> Iterator[Problem]:
    budget = study.budget
    if budget.tokens is None and budget.money is None and budget.requests is None:
        yield Problem("budget", "", "no limit is set; set tokens, money or requests, or several")
    if budget.money is not None:
        for judge in study.judges:
            if judge.price is None:
                yield Problem(
                    "judges",
                    f"{shown(judge.id)} price",
                    "budget.money needs the price of every judge; set price = { input = …, "
                    'output = … } per million tokens, or price = "free"',
                )


_CHECKS: Iterable[Callable[["Study"], Iterator[Problem]]] = (
    _kind,
    _ids,
    _texts,
    _responses,
    _template,
    _answer,
    _judges,
    _design,
    _analysis,
    problems_of_stopping,
    _budget,
)
