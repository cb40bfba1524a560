"""Verdicts that stand as tokens: alone, in brackets, boxed, on a line of their own."""

import re
from collections.abc import Iterator
from itertools import pairwise

from benchtrial.orchestrator.verdicts.announced import prose
from benchtrial.orchestrator.verdicts.announced.reading import MOST_PLACES, Reading
from benchtrial.orchestrator.verdicts.labels import Labels, Mention
from benchtrial.orchestrator.verdicts.verdict import Found, nothing

# "A or B", "A/B", "[[A]], [[B]]": options, echoed from the question.
_JOINT = re.compile(r"[\])\"'\s]*(?:,|/|\||\bor\b)\s*(?:or\b)?[\[(\"'\s]*", re.IGNORECASE)
_JOINT_BEFORE = re.compile(r"\][\])\"'\s]*(?:,|/|\||\bor)\s*(?:or\s*)?[\[(\"'\s]*\Z", re.IGNORECASE)
_CONDITION = re.compile(r"\]+[\"'\s]*(?:if|for\s+a\b|when)\b", re.IGNORECASE)
_UNKNOWN = re.compile(r"\[\[\s*\w{1,12}\s*\]\]")
_COMPARISON = re.compile(r"\[\[[^\[\]\n]{3,40}\]\]")
_BOX = re.compile(r"\\boxed\{(?:\\text\{)?(?P<inside>[^{}\n]*)\}")
_ADVERSE = re.compile(
    r"\b(?:worse|worst|reject(?:ed|s)?|loser|losing|loses|weaker|weakest|inferior|not|isn't|never)\b"
    r"(?:\s+\w+){0,3}\s*:?\s*[\[(\"']*\Z",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"^[# \t]{0,9}(?:for )?(?:the )?(?:first|second|third|fourth|last|\d(?:st|nd|rd|th)?)? ?"
    r"(?:user )?(?:question|turn)\b ?\d? ?:?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)


def label(reading: Reading) -> Found | None:
    """Read a reply that is a label, or a comparison of the slots, and nothing else."""
    mention = reading.labels.exact(reading.text)
    if mention is None:
        stripped = reading.text.strip(" \t\r\n\"'.[]()")
        start = reading.text.find(stripped)
        sides = list(compared(reading, start, start + len(stripped)))
        if len(sides) != 1 or not re.fullmatch(r"\S+\s*[<>=]{1,2}\s*\S+", stripped):
            return None
        mention = sides[0]
    return reading.agreed([mention])


def double_brackets(reading: Reading) -> Found | None:
    """Read ``[[B]]`` and ``[[B>A]]``."""
    tokens = bracketed(reading)
    if not tokens:
        known = re.compile(rf"\[\[\s*{reading.labels.pattern}\s*\]\]", reading.labels.flags)
        strange = _UNKNOWN.search(reading.text) and not known.search(reading.text)
        return nothing("out_of_range") if strange else None
    agreed = reading.agreed(tokens)
    if agreed is None or agreed.value is not None or len(tokens) > MOST_PLACES:
        return agreed
    # Two tokens may stand in one comparison: "[[B]] is better than [[A]] because …".
    holding = [
        (start, end)
        for start, end in reading.sentences
        if any(start <= token.start < end for token in tokens)
    ]
    if len(holding) == 1 and (side := prose.favoured(reading, *holding[0])) is not None:
        return reading.agreed([side])
    return _last_question(reading, tokens) or agreed


def boxed(reading: Reading) -> Found | None:
    """Read a label in a LaTeX box."""
    boxes = []
    for box in _BOX.finditer(reading.text):
        mention = reading.labels.exact(box["inside"])
        if mention is not None:
            at = box.start("inside")
            boxes.append(Mention(mention.index, at + mention.start, at + mention.end))
    return reading.agreed(boxes)


def single_brackets(reading: Reading) -> Found | None:
    """Read a label in single brackets on a line of its own, or as the last word."""
    labels = reading.labels
    pattern = re.compile(
        rf"(?:^[ \t]*\[\s*{labels.pattern}\s*\][ \t.]*$)"
        rf"|(?:\[\s*{labels.pattern.replace('label', 'last')}\s*\][\s.]*\Z)",
        labels.flags | re.MULTILINE,
    )
    found = []
    for token in pattern.finditer(reading.text):
        group = "label" if token["label"] is not None else "last"
        index = labels.index(token[group])
        before = reading.text[: token.start(group)][-prose.LOOK_BACK :]
        if index is not None and not _JOINT_BEFORE.search(before):
            mention = Mention(index, token.start(group), token.end(group))
            found.append(_unless_adverse(mention, before))
    return reading.agreed(found)


def label_line(reading: Reading) -> Found | None:
    """Read a label that is the first line, the last line, or the line after a colon."""
    text, lines = reading.text, reading.lines
    found = []
    for number, (start, end) in enumerate(lines):
        line = text[start:end].strip()
        before = text[slice(*lines[number - 1])].rstrip() if number else ""
        if number not in {0, len(lines) - 1} and not before.endswith(":"):
            continue
        # "Answer 1:" is a heading, and "1." in the middle of a text a list.
        if line.endswith(":") or (re.fullmatch(r"\d+[.)]", line) and number < len(lines) - 1):
            continue
        mention = reading.labels.exact(text[start:end])
        if mention is not None:
            place = Mention(mention.index, start + mention.start, start + mention.end)
            found.append(_unless_adverse(place, before[-prose.LOOK_BACK :]))
    return reading.agreed(found)


def bracketed(reading: Reading) -> list[Mention]:
    """Return the labels and comparisons in double brackets, save for options that are echoed."""
    text, labels = reading.text, reading.labels
    pattern = re.compile(rf"\[\[\s*{labels.pattern}\s*\]\]", labels.flags)
    found = []
    for token in pattern.finditer(text):
        index = labels.index(token["label"])
        if index is None or _CONDITION.match(text, token.end("label")):
            continue
        mention = Mention(index, token.start("label"), token.end("label"))
        before = text[max(0, mention.start - prose.LOOK_BACK) : mention.start]
        if not opens_list(text, mention, labels) and not _JOINT_BEFORE.search(before):
            found.append(_unless_adverse(mention, before))
    for bracket in _COMPARISON.finditer(text):
        found += compared(reading, bracket.start() + 2, bracket.end() - 2)
    return sorted(found, key=lambda mention: mention.start)


def opens_list(text: str, mention: Mention, labels: Labels) -> bool:
    """Whether a mention opens a list of options ("A or B"), echoed from the question."""
    joint = _JOINT.match(text, mention.end)
    if joint is None:
        return False
    after = labels.at(text, joint.end())
    return after is not None and after.index != mention.index


def compared(reading: Reading, start: int, end: int) -> Iterator[Mention]:
    """Yield the side that ``A>B``, ``B>>A`` or ``A=B`` favours."""
    labels = reading.labels
    slot = "|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in labels.names[:2])
    pattern = re.compile(
        rf"(?P<left>{slot})\s*(?P<sign>>{{1,2}}|<{{1,2}}|=)\s*(?P<right>{slot})", labels.flags
    )
    for found in pattern.finditer(reading.text, max(0, start), end):
        left, right = labels.index(found["left"]), labels.index(found["right"])
        if left is None or right is None or left == right:
            continue
        index = labels.tie if found["sign"] == "=" else left if ">" in found["sign"] else right
        place = "right" if index == right else "left"
        yield Mention(index, found.start(place), found.end(place))


def _unless_adverse(mention: Mention, before: str) -> Mention:
    """Return the mention, or index -1 if what leads to it names the loser ("Worse: [[A]]")."""
    return Mention(-1, mention.start, mention.end) if _ADVERSE.search(before) else mention


def _last_question(reading: Reading, tokens: list[Mention]) -> Found | None:
    """Read the last of several verdicts, each under the heading of a question of one talk."""
    heads = list(_QUESTION.finditer(reading.text))
    if len(heads) < 2:
        return None
    parts = [(head.end(), after.start()) for head, after in pairwise(heads)]
    parts.append((heads[-1].end(), len(reading.text)))
    inside = [[t for t in tokens if start <= t.start < end] for start, end in parts]
    if tokens[0].start < heads[0].start() or not all(inside):
        return None
    return reading.agreed(inside[-1])
