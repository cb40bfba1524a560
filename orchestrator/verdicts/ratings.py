"""Ratings of the items of one batch, in the order in which the judge emitted them.

A rating belongs to an item by the number that stands with it, never by counting, unless exactly as
many bare ratings as items are given. An item with two different ratings is ambiguous; one without
a rating is omitted (or truncated, where the reply was cut), and the others stand. A number outside
the scale is out of range: it is never clamped, rounded or rescaled.

Rules: ``json`` and ``json-tolerant`` (an object with a key per item), ``numbered``
("item_1: accept", "1. 7", "Scores: [Sample1: 2.8, …]"), ``list`` (bare ratings, as many as items),
and for a single item ``number``, ``score`` and the rules of announced labels.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchtrial.adapters.judge import RatingsAnswer
from benchtrial.orchestrator.verdicts.announced import parse_announced
from benchtrial.orchestrator.verdicts.jsonish import Node, find_all
from benchtrial.orchestrator.verdicts.labels import Labels, plain
from benchtrial.orchestrator.verdicts.verdict import Found, nothing

_NOUN = r"(?:item|sample|headline|text|answer|response|candidate|entry|number|no\.?)"
_KEY = re.compile(rf"\s*{_NOUN}?[\s_#-]*(\d{{1,4}})\s*", re.IGNORECASE)
_AFTER_NUMBER = r"[\"')\]]*\s*(?::|=|\)|\||->|→|[.\-\u2013\u2014](?=\s))\s*"
_LINE_MARKER = re.compile(
    rf"^[ \t>|#\"'(\[-]*(?:{_NOUN}[\s_]*)?#?(?P<number>\d{{1,4}}){_AFTER_NUMBER}",
    re.IGNORECASE | re.MULTILINE,
)
_INLINE_MARKER = re.compile(
    rf"(?<=[\[{{(,;:])\s*[\"']?{_NOUN}[\s_]*#?(?P<number>\d{{1,4}}){_AFTER_NUMBER}", re.IGNORECASE
)
_NUMBER = r"(?<![\w.,/])[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?!\w|[.,]\d|%)"
_ENDS = re.compile(r"[\"'\])}|]*(?=\s*(?:$|\n|[.,;:()\[\]{}|]|[-\u2013\u2014]\s))")
_OF = re.compile(r"\s*(?:/|out\s+of)\s*(\d+(?:\.\d+)?)", re.IGNORECASE)
_RANGE = re.compile(r"\s*(?:-|\u2013|to|or)\s*\d", re.IGNORECASE)
_LIST = re.compile(
    r"(?:\b(?:scores?|ratings?|verdicts?|decisions?)\s*:|\A)\s*\[?(?P<inside>[^\[\]\n]{1,2000})\]?\s*\Z",
    re.IGNORECASE,
)
_SCORE = re.compile(
    r"(?:\b(?:score|rating|grade|mark)\b[^.\n\d]{0,20}?(?:\bis\b|\bof\b|:|=|\ba\b)"
    r"|\bi\b[^.\n\d]{0,15}\b(?:give|rate|score|assign)\b[^.\n\d]{0,40}?"
    r"|\A\s*[A-Za-z][\w ]{0,30}:)\s*[\[(\"']*(?P<number>" + _NUMBER + r")",
    re.IGNORECASE,
)
_OUT_OF = re.compile(rf"(?P<number>{_NUMBER})(?=\s*(?:/|out\s+of)\s*\d)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Emitted:
    """A rating (or why it is none) and the number, from 1, of the item it belongs to."""

    item: int
    found: Found


def parse_ratings(text: str, answer: RatingsAnswer) -> list[Emitted] | Found:
    """Return the ratings in order of emission, or why the reply as a whole holds none.

    Parameters
    ----------
    text
        The reply.
    answer
        Number of items, and the labels or scale of their ratings.
    """
    for rule in (_structured, _numbered, _listed, _single):
        emitted = rule(text, answer)
        if emitted is not None:
            return emitted
    return nothing("unparseable")


def _structured(text: str, answer: RatingsAnswer) -> list[Emitted] | Found | None:
    entries = [
        Emitted(int(number[1]), _from_node(value, node, answer))
        for outer in find_all(text)
        for node in outer.walk()
        for key, value in node.members
        if (number := _KEY.fullmatch(str(key.value))) is not None
    ]
    return _settled(entries, answer, "json")


def _numbered(text: str, answer: RatingsAnswer) -> list[Emitted] | Found | None:
    text = plain(text)
    markers = sorted(
        {m.end(): m for p in (_LINE_MARKER, _INLINE_MARKER) for m in p.finditer(text)}.values(),
        key=lambda marker: marker.end(),
    )
    entries = []
    for place, marker in enumerate(markers):
        line_end = text.find("\n", marker.end())
        ends = [line_end] if line_end >= 0 else [len(text)]
        ends += [after.start() for after in markers[place + 1 : place + 2]]
        entries.append(
            Emitted(int(marker["number"]), _value(text, marker.end(), min(ends), answer))
        )
    rated = {entry.item for entry in entries if entry.found.reason != "unparseable"}
    if not rated:
        return None
    # A number without a rating is a heading or a reason, unless its item is rated nowhere.
    rated |= {entry.item for entry in entries if not 1 <= entry.item <= answer.size}
    entries = [
        entry for entry in entries if entry.found.reason != "unparseable" or entry.item not in rated
    ]
    return _settled(entries, answer, "numbered")


def _listed(text: str, answer: RatingsAnswer) -> list[Emitted] | Found | None:
    """Read bare ratings, one a line or in one list, if they are exactly as many as the items."""
    text = plain(text)
    lines = [(m.start(), m.end()) for m in re.finditer(r"[^\n]+", text) if m[0].strip()]
    spans = lines
    if len(lines) != answer.size or answer.size == 1:
        whole = _LIST.search(text)
        if whole is None or answer.size == 1:
            return None
        at = whole.start("inside")
        spans = [(at + m.start(), at + m.end()) for m in re.finditer(r"[^,;]+", whole["inside"])]
    if len(spans) != answer.size:
        return None
    found = [_value(text, start, end, answer) for start, end in spans]
    if any(f.reason in {"unparseable", "ambiguous"} for f in found):
        return None
    entries = [Emitted(item, f) for item, f in enumerate(found, start=1)]
    return _settled(entries, answer, "list")


def _single(text: str, answer: RatingsAnswer) -> list[Emitted] | Found | None:
    if answer.size != 1:
        return None
    if answer.labels:
        found = parse_announced(text, Labels(answer.labels, slots=False))
        if found.value is None:
            return found
        return [Emitted(1, replace(found, value=found.value))]
    text = plain(text)
    whole = _value(text, 0, len(text), answer)
    if whole.reason != "unparseable" and re.fullmatch(
        rf"\W*{_NUMBER}(?:{_OF.pattern})?\W*", text.strip(), re.IGNORECASE
    ):
        return _settled([Emitted(1, whole)], answer, "number")
    places = {m.start("number") for p in (_SCORE, _OUT_OF) for m in p.finditer(text)}
    found_all = [_value(text, place, len(text), answer) for place in sorted(places)]
    return _settled([Emitted(1, found) for found in found_all], answer, "score")


def _settled(
    entries: Sequence[Emitted], answer: RatingsAnswer, rule: str
) -> list[Emitted] | Found | None:
    """One entry per item in order of emission; an item with two ratings is ambiguous."""
    if not entries:
        return None
    if any(not 1 <= entry.item <= answer.size for entry in entries):
        return nothing("ambiguous", rule)  # the judge has lost count of the items
    settled: dict[int, Found] = {}
    for entry in entries:
        named = replace(entry.found, rule=entry.found.rule or rule)
        before = settled.setdefault(entry.item, named)
        if before.value != named.value:
            settled[entry.item] = nothing("ambiguous", rule)
    return [Emitted(item, found) for item, found in settled.items()]


def _from_node(value: Node, owner: Node, answer: RatingsAnswer) -> Found:
    rule = "json" if owner.strict or not owner.complete else "json-tolerant"
    if not value.complete:
        return nothing("truncated", rule)
    if value.kind == "text" and answer.labels:
        label = _label(str(value.value), answer)
        if label is None:
            return nothing("out_of_range", rule)
        return Found(label, value.start, value.end, rule)
    if value.kind in {"text", "number"}:
        if answer.labels:
            label = _label(f"{value.value:g}", answer)
            return (
                nothing("out_of_range", rule)
                if label is None
                else Found(label, value.start, value.end, rule)
            )
        written = str(value.value) if value.kind == "text" else f"{value.value!r}"
        found = _value(written, 0, len(written), answer)
        return replace(found, start=value.start, end=value.end, rule=rule)
    return nothing("out_of_range", rule)


def _value(text: str, start: int, end: int, answer: RatingsAnswer) -> Found:
    """Return the rating that a stretch of text begins with."""
    return (
        _label_at(text, start, end, answer)
        if answer.labels
        else _number_at(text, start, end, answer)
    )


def _label_at(text: str, start: int, end: int, answer: RatingsAnswer) -> Found:
    labels = Labels(answer.labels, slots=False)
    opening = re.compile(rf"[\s\"'\[(]*{labels.pattern}", labels.flags).match(text, start, end)
    everything = [
        found["label"]
        for found in re.compile(labels.pattern, labels.flags).finditer(text, start, end)
    ]
    if opening is None:
        return nothing("ambiguous" if everything else "unparseable")
    if not _ENDS.match(text, opening.end(), end) or len({labels.index(e) for e in everything}) > 1:
        return nothing("ambiguous")
    label = _label(opening["label"], answer)
    return Found(label, opening.start("label"), opening.end("label"), "")


def _number_at(text: str, start: int, end: int, answer: RatingsAnswer) -> Found:
    opening = re.compile(rf"[\s\"'\[(]*(?P<number>{_NUMBER})").match(text, start, end)
    if opening is None or answer.scale is None:
        return nothing("unparseable")
    low, high = answer.scale
    after = opening.end()
    if _RANGE.match(text, after, end):
        return nothing("ambiguous")
    if (of := _OF.match(text, after, end)) is not None:
        if float(of[1]) != high:
            return nothing("out_of_range")  # a number on another scale is not rescaled
        after = of.end()
    if not _ENDS.match(text, after, end):
        return nothing("unparseable")
    number = float(opening["number"])
    if not low <= number <= high or (answer.integer and not number.is_integer()):
        return nothing("out_of_range")
    return Found(number, opening.start("number"), opening.end("number"), "")


def _label(spelled: str, answer: RatingsAnswer) -> str | None:
    labels = Labels(answer.labels, slots=False)
    index = labels.index(spelled.strip().strip("\"'.*"))
    return None if index is None else answer.labels[index]
