"""A verdict in the structured form that was asked for: ``{"winner": "B"}``.

Rules: ``json`` (JSON proper, in fences or prose or alone), ``json-tolerant`` (Python's literals,
trailing commas), ``json-open`` (nothing but the closing brace is missing), ``json-ranks`` (a list
that gives every label its rank). Every object in the reply is read; verdicts that disagree, with
each other or with an announcement around them, make the reply ambiguous, and a value outside the
allowed labels is out of range, never a tie.
"""

import re
from collections.abc import Iterator, Sequence

from benchtrial.orchestrator.verdicts.announced import parse_announced
from benchtrial.orchestrator.verdicts.jsonish import Node, find_all
from benchtrial.orchestrator.verdicts.labels import TIE_WORDS, Labels
from benchtrial.orchestrator.verdicts.verdict import Found, nothing

WINNER = "winner"

# Other keys under which models put a verdict when the form was asked for in words only.
SYNONYMS = frozenset({"verdict", "choice", "answer", "label", "preference", "decision", "better"})

_RANK = "rank"


def parse_structured(text: str, labels: Labels) -> Found | None:
    """Return the verdict of the objects in ``text``, or None if they hold none.

    Parameters
    ----------
    text
        The reply.
    labels
        The labels the judge may answer.
    """
    nodes = find_all(text)
    members = _members(nodes, frozenset({WINNER})) or _members(nodes, SYNONYMS)
    if not members:
        return _ranks(nodes, labels)
    found = [_read(text, owner, value, labels) for owner, value in members]
    verdict = found[0]
    if any(other.value != verdict.value for other in found):
        return nothing("ambiguous", "json")
    if verdict.value is None:
        return verdict
    outside = _outside(text, nodes)
    said = parse_announced(outside, labels)
    stray = re.search(rf"[\"']{WINNER}[\"']\s*:", outside)
    if stray or (said.value is not None and said.value != verdict.value):
        return nothing("ambiguous", verdict.rule)
    return verdict


def _members(nodes: Sequence[Node], keys: frozenset[str]) -> list[tuple[Node, Node]]:
    """Object and value of each member with one of ``keys``, at any depth."""
    return [
        (node, value)
        for outer in nodes
        for node in outer.walk()
        for key, value in node.members
        if str(key.value).strip().casefold() in keys
    ]


def _read(text: str, owner: Node, value: Node, labels: Labels) -> Found:
    if not value.complete:
        return nothing("truncated", "json")
    index = _index(value, labels)
    if index is None:
        return nothing("out_of_range", "json")
    rule = "json" if owner.strict else "json-tolerant"
    if not owner.complete:
        # The schema has no other key, so that white space is all that was still to come; any other
        # text after the value is an answer that breaks off.
        if text[value.end :].strip(" \t\r\n\"'"):
            return nothing("truncated", "json")
        rule = "json-open"
    return Found(labels.names[index], value.start, value.end, rule)


def _index(value: Node, labels: Labels) -> int | None:
    if value.kind == "number":
        return labels.index(f"{value.value:g}")
    if value.kind == "literal" and isinstance(value.value, bool):
        return labels.index(str(value.value))
    if value.kind != "text":
        return None
    spelled = str(value.value)
    mention = labels.exact(spelled)
    if mention is not None:
        return mention.index
    if spelled.strip().casefold() in TIE_WORDS and labels.tie >= 0:
        return labels.tie
    return None


def _ranks(nodes: Sequence[Node], labels: Labels) -> Found | None:
    """Read a list of objects that give each slot's label and its rank."""
    readings = [
        (node, ranks)
        for outer in nodes
        for node in outer.walk()
        if len(node.elements) == 2 and (ranks := list(_ranked(node, labels)))
    ]
    if not readings:
        return None
    if len(readings) > 1 or {index for index, _ in readings[0][1]} != {0, 1}:
        return nothing("ambiguous", "json-ranks")
    node, ranks = readings[0]
    by_slot = dict(ranks)
    index = labels.tie if by_slot[0] == by_slot[1] else 0 if by_slot[0] < by_slot[1] else 1
    if index < 0:
        return nothing("ambiguous", "json-ranks")
    return Found(labels.names[index], node.start, node.end, "json-ranks")


def _ranked(node: Node, labels: Labels) -> Iterator[tuple[int, float]]:
    for element in node.elements:
        ranks = [v for k, v in element.members if k.value == _RANK and v.kind == "number"]
        named = [
            index
            for key, value in element.members
            if key.value != _RANK and value.kind == "text"
            if (index := labels.index(str(value.value))) is not None
        ]
        if len(ranks) == 1 and len(named) == 1 and element.complete:
            yield named[0], float(str(ranks[0].value))


def _outside(text: str, nodes: Sequence[Node]) -> str:
    """Return ``text`` with every object and its fence blanked."""
    for node in nodes:
        text = text[: node.start] + " " * (node.end - node.start) + text[node.end :]
    return re.sub(r"```\w*", lambda fence: " " * len(fence[0]), text)
