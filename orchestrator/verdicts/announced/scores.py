"""Scores given to the two slots where a label was asked for.

Numbers say which slot is better only if higher is better, and that is taken for granted only for
what opens the reply, cannot be ranks (1 and 2), and points the same way in every score.
"""

import re

from benchtrial.orchestrator.verdicts.announced.reading import Reading
from benchtrial.orchestrator.verdicts.labels import Mention
from benchtrial.orchestrator.verdicts.verdict import Found, nothing

_PAIR = re.compile(r"\s*(\d+(?:\.\d+)?)[ \t,]+(\d+(?:\.\d+)?)[ \t]*(?:\n|\Z)")
_SCORES = re.compile(r"[\])\"':\s]*(?:scores?[:\s]*)?(?P<numbers>\d[\d.,; \t]*)", re.IGNORECASE)
_HEADING = re.compile(r"[# \t]*(?:scores?|ratings?)[:\s]*\Z", re.IGNORECASE)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_RANKS = frozenset({1.0, 2.0})


def slot_scores(reading: Reading) -> Found | None:
    """Compare the scores that open a reply."""
    if any(name.strip().isdigit() for name in reading.labels.names):
        return None  # a number may be a label
    scores = _by_slot(reading) or _pair(reading)
    if scores is None:
        return None
    first, second, at = scores
    if len(first) != len(second) or {*first, *second} <= _RANKS:
        return nothing("ambiguous")
    above = [a > b for a, b in zip(first, second, strict=True) if a != b]
    index = reading.labels.tie if not above else 0 if all(above) else 1 if not any(above) else -1
    return reading.agreed([Mention(index, at, at)])


def _by_slot(reading: Reading) -> tuple[list[float], list[float], int] | None:
    """Read the scores of two lines, one per slot, that open the reply."""
    lines = [reading.text[slice(*span)] for span in reading.lines[:3]]
    if lines and _HEADING.match(lines[0]):
        lines = lines[1:]
    found: dict[int, list[float]] = {}
    for line in lines[:2]:
        mentions = list(reading.labels.named(line, 0, len(line)))
        rest = line[mentions[0].end :].strip() if len(mentions) == 1 else ""
        scores = _SCORES.fullmatch(rest)
        if scores is None:
            return None
        found[mentions[0].index] = [float(n) for n in _NUMBER.findall(scores["numbers"])]
    if set(found) != {0, 1}:
        return None
    return found[0], found[1], reading.lines[0][0]


def _pair(reading: Reading) -> tuple[list[float], list[float], int] | None:
    """Read a first line that holds two numbers."""
    pair = _PAIR.match(reading.text)
    if pair is None:
        return None
    return [float(pair[1])], [float(pair[2])], pair.start(1)
