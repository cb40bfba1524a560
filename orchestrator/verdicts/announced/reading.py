"""A reply as the rules see it: plain text with every offset kept, its sentences and its lines."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from benchtrial.orchestrator.verdicts.labels import Labels, Mention, plain
from benchtrial.orchestrator.verdicts.verdict import Found, nothing

# A reply with more verdicts than this is a loop that ran away; which one is meant cannot be told.
MOST_PLACES = 200

# Longer stretches without a full stop are not sentences, and would take long to weigh.
LONGEST_SENTENCE = 2_000

_SENTENCE_END = re.compile(r"[.!?:]+[\"')\]]*(?=\s|$)|\n[ \t\n]*\n|\n(?=[ \t]*(?:[-#>]|\d+[.)]))")
_CLAUSE_END = re.compile(r"[.!?](?=[\"')\]\s]|$)|\n")
_LINE_END = re.compile(r"\n")
_PARAGRAPH_END = re.compile(r"\n[ \t\n]*\n")

Span = tuple[int, int]


@dataclass(frozen=True)
class Reading:
    """One reply and the labels that it may answer with."""

    text: str
    labels: Labels

    @classmethod
    def of(cls, text: str, labels: Labels) -> "Reading":
        """Prepare a reply for the rules."""
        return cls(plain(text), labels)

    @cached_property
    def sentences(self) -> list[Span]:
        """Stretches that end with a stop, a blank line or the next point of a list."""
        return self._stretches(_SENTENCE_END)

    @cached_property
    def lines(self) -> list[Span]:
        """Lines that hold something."""
        return self._stretches(_LINE_END)

    @cached_property
    def last_paragraph(self) -> int:
        """Offset at which the last paragraph begins."""
        breaks = list(_PARAGRAPH_END.finditer(self.text.rstrip()))
        return breaks[-1].end() if breaks else 0

    def clause_end(self, start: int) -> int:
        """Offset of the end of the sentence or line that ``start`` is in."""
        end = _CLAUSE_END.search(self.text, start, start + LONGEST_SENTENCE)
        return end.start() if end else min(start + LONGEST_SENTENCE, len(self.text))

    def line_start(self, at: int) -> int:
        """Offset of the beginning of the line that ``at`` is in."""
        return self.text.rfind("\n", 0, at) + 1

    def agreed(self, mentions: Sequence[Mention]) -> Found | None:
        """Return the one label all ``mentions`` mean; ambiguous if they differ; None for none.

        A mention with index -1 (a tie that is not allowed, a contradiction) is ambiguous.
        """
        if not mentions:
            return None
        last = mentions[-1]
        if len({m.index for m in mentions}) > 1 or last.index < 0 or len(mentions) > MOST_PLACES:
            return nothing("ambiguous")
        return Found(self.labels.names[last.index], last.start, last.end, "")

    def _stretches(self, separator: re.Pattern[str]) -> list[Span]:
        return [
            (start, end)
            for start, end in _between(self.text, separator)
            if not self.text[start:end].isspace()
        ]


def _between(text: str, separator: re.Pattern[str]) -> Iterator[Span]:
    """Yield the stretches between separators, each with the separator that ends it."""
    start = 0
    for found in separator.finditer(text):
        yield start, found.end()
        start = found.end()
    if start < len(text):
        yield start, len(text)


Rule = Callable[[Reading], Found | None]
