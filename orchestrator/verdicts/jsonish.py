"""Objects and lists in a reply: JSON, and the near-JSON that models write.

The declared tolerance is Python's literals (single quotes, ``True``, ``None``), trailing commas and
a missing end. Nothing else is mended: no missing quotes, no comments, no guessed brackets. Each
value keeps its place in the text, so that the token that carries a verdict can be found, and a
value that the text breaks off in is never used.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Deeper nesting is no verdict, and recursion must end.
DEEPEST = 32

# A reply that opens more brackets than this is code or noise; scanning it all would take long.
MOST_STARTS = 2_000

_NUMBER = re.compile(r"-?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?")
_SPACE = re.compile(r"[ \t\r\n]*")
_LITERALS = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}


@dataclass(frozen=True, slots=True)
class Node:
    """One value and its place; ``start`` of a string is inside its quotes.

    Parameters
    ----------
    value
        Text, number, bool, None, ``list[Node]``, or ``list[tuple[Node, Node]]`` for an object.
    kind
        ``"text"``, ``"number"``, ``"literal"``, ``"list"`` or ``"object"``.
    start, end
        Character offsets.
    strict
        Whether it was written as JSON proper.
    complete
        Whether its end was there.
    """

    value: object
    kind: str
    start: int
    end: int
    strict: bool = True
    complete: bool = True

    @property
    def members(self) -> "list[tuple[Node, Node]]":
        """Pairs of key and value of an object; empty for anything else."""
        return self.value if self.kind == "object" else []  # type: ignore[return-value]

    @property
    def elements(self) -> "list[Node]":
        """Elements of a list; empty for anything else."""
        return self.value if self.kind == "list" else []  # type: ignore[return-value]

    def walk(self) -> Iterator["Node"]:
        """Yield this value and all that it holds, in the order of the text."""
        yield self
        for _, value in self.members:
            yield from value.walk()
        for element in self.elements:
            yield from element.walk()


def find_all(text: str) -> list[Node]:
    """Return the outermost objects and lists in ``text``, in order."""
    found: list[Node] = []
    at, starts = 0, 0
    while starts < MOST_STARTS:
        opening = re.compile(r"[{\[]").search(text, at)
        if opening is None:
            break
        starts += 1
        node = _value(text, opening.start(), DEEPEST)
        if node is not None and (node.members or node.elements):
            found.append(node)
            at = node.end
        else:
            at = opening.end()
    return found


def _value(text: str, at: int, depth: int) -> Node | None:
    """Return the value that starts at ``at``, or None if there is none."""
    if at >= len(text) or depth == 0:
        return None
    character = text[at]
    if character == "{":
        return _object(text, at, depth)
    if character == "[":
        return _list(text, at, depth)
    if character in "\"'":
        return _string(text, at)
    if number := _NUMBER.match(text, at):
        ends = number.end() < len(text)
        return Node(float(number[0]), "number", at, number.end(), complete=ends)
    for literal, value in _LITERALS.items():
        end = at + len(literal)
        if text.startswith(literal, at) and not text[end : end + 1].isalnum():
            return Node(value, "literal", at, end, strict=literal[0].islower())
    return None


def _string(text: str, at: int) -> Node:
    parts: list[str] = []
    quote, place = text[at], at + 1
    while place < len(text):
        character = text[place]
        if character == quote:
            return Node("".join(parts), "text", at + 1, place, strict=quote == '"')
        if character == "\\" and place + 1 < len(text):
            escaped = text[place + 1]
            code = re.compile(r"[0-9a-fA-F]{4}").match(text, place + 2) if escaped == "u" else None
            parts.append(chr(int(code[0], 16)) if code else _ESCAPES.get(escaped, escaped))
            place = code.end() if code else place + 2
            continue
        parts.append(character)
        place += 1
    return Node("".join(parts), "text", at + 1, len(text), strict=False, complete=False)


def _object(text: str, at: int, depth: int) -> Node | None:
    members: list[tuple[Node, Node]] = []
    strict, place = True, _skip(text, at + 1)
    while place < len(text) and text[place] != "}":
        if text[place] not in "\"'":
            return None
        key = _string(text, place)
        place = _skip(text, key.end + 1)
        if not key.complete or place >= len(text):
            return _cut(members, "object", at, len(text))
        if text[place] != ":":
            return None
        place = _skip(text, place + 1)
        value = _value(text, place, depth - 1)
        if value is None:
            # A value that is cut in its first letters leaves the members before it standing.
            return _cut(members, "object", at, len(text)) if _tail(text, place) else None
        members.append((key, value))
        strict = strict and key.strict and value.strict
        place, comma = _after(text, value)
        if not value.complete or place >= len(text):
            return _cut(members, "object", at, len(text))
        if not comma and text[place] != "}":
            return None
        strict = strict and not (comma and text[place] == "}")
    if place >= len(text):
        return _cut(members, "object", at, len(text))
    return Node(members, "object", at, place + 1, strict=strict)


def _list(text: str, at: int, depth: int) -> Node | None:
    elements: list[Node] = []
    strict, place = True, _skip(text, at + 1)
    while place < len(text) and text[place] != "]":
        value = _value(text, place, depth - 1)
        if value is None:
            return _cut(elements, "list", at, len(text)) if _tail(text, place) else None
        elements.append(value)
        strict = strict and value.strict
        place, comma = _after(text, value)
        if not value.complete or place >= len(text):
            return _cut(elements, "list", at, len(text))
        if not comma and text[place] != "]":
            return None
        strict = strict and not (comma and text[place] == "]")
    if place >= len(text):
        return _cut(elements, "list", at, len(text))
    return Node(elements, "list", at, place + 1, strict=strict)


def _cut(value: object, kind: str, start: int, end: int) -> Node:
    return Node(value, kind, start, end, strict=False, complete=False)


def _after(text: str, value: Node) -> tuple[int, bool]:
    """Place of what follows a value and its comma, and whether there was a comma."""
    end = value.end + 1 if value.kind == "text" and value.complete else value.end
    place = _skip(text, end)
    comma = text[place : place + 1] == ","
    return (_skip(text, place + 1) if comma else place), comma


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _tail(text: str, at: int) -> bool:
    """Whether nothing but the first letters of a literal follows."""
    rest = text[at:]
    return any(literal.startswith(rest) for literal in _LITERALS) or rest == "-"
