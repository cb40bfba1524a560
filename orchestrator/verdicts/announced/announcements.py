"""Verdicts behind a word that announces them: "Final verdict: B", "My choice is B"."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from benchtrial.orchestrator.verdicts.announced import prose, tokens
from benchtrial.orchestrator.verdicts.announced.reading import MOST_PLACES, Reading
from benchtrial.orchestrator.verdicts.labels import Mention
from benchtrial.orchestrator.verdicts.verdict import Found

_STRONG = r"verdict|decision|judge?ment|choice|winner|preference|selection|pick|vote"
# These words speak of the material as often as of the verdict, and need more care.
_WEAK = r"answer|conclusion|result"
_COLON = re.compile(
    rf"\b(?P<head>{_STRONG}|{_WEAK})\b(?P<between>[^\n:=.;]{{0,40}}?)\s*[:=]\s*", re.IGNORECASE
)
_COPULA = re.compile(
    rf"\b(?P<head>{_STRONG}|{_WEAK})(?P<between>)\s+"
    r"(?:is|goes\s+to|would\s+be|must\s+be|has\s+to\s+be)\s*:?\s+(?:that\s+)?",
    re.IGNORECASE,
)
_TAGGED = re.compile(
    rf"<(?P<tag>(?:final[_ ]?)?(?:{_STRONG}|answer))>\s*(?P<inside>[^<]*?)\s*</(?P=tag)>",
    re.IGNORECASE,
)
# What can stand before the head in its clause. Anything else makes it somebody else's ("the correct
# answer", "its final answer", "Answer B says: verdict"), or the opposite ("worst choice").
_LEADS_IN = re.compile(
    r"(?:[\s#>*:(\d.-]|\b(?:my|our|the|a|an|final|overall|ultimate|own|considered|single|clear|best|"
    r"better|preferred|stronger|winning|so|therefore|thus|hence|and|but|then|here|this|is|i|conclude|"
    r"say|declare|that|which|with|in|conclusion|summary|step|comparative|evaluation)\b)*",
    re.IGNORECASE,
)
_CLAUSE_START = re.compile(r"[.,;!?]\s")
_FINAL = re.compile(r"\bfinal\b", re.IGNORECASE)
_PREDICATE_END = re.compile(r"[,;(]")
# What can follow a label that is a verdict; in "A lot of …" or "2 examples" it is none.
_GOES_ON = re.compile(
    r"[\])\"'\s]*(?:\Z|\n|[.,;:!?(<>=\[\u2013\u2014-]|(?:because|since|as|for|due|by|with|over|than|and|"
    r"but|in|on|at|overall|clearly|slightly|given|based|from|not|if|or)(?!\w))",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"[\])\"'\s]*(?:'s\s+\w+\s+)?(?:is|was|has|loses|fails|would|does|did|isn't|wasn't)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Announcement:
    """A label with what announces it."""

    mention: Mention
    final: bool
    weak: bool


def final_verdict(reading: Reading) -> Found | None:
    """Read what is announced as final; earlier announcements were provisional."""
    found = [a.mention for a in _announcements(reading) if a.final and not a.weak]
    return reading.agreed(found)


def announced(reading: Reading) -> Found | None:
    """Read what is announced by a word for a verdict, else by a weaker word."""
    everything = list(_announcements(reading))
    strong = [a.mention for a in everything if not a.weak]
    if strong:
        return reading.agreed(strong)
    # A weak head may speak of something else, so that tokens in brackets have a say.
    weak = [a.mention for a in everything]
    return reading.agreed([*tokens.bracketed(reading), *weak]) if weak else None


def _announcements(reading: Reading) -> Iterator[Announcement]:
    for tagged in _TAGGED.finditer(reading.text):
        mention = reading.labels.exact(tagged["inside"])
        if mention is not None:
            at = tagged.start("inside")
            place = Mention(mention.index, at + mention.start, at + mention.end)
            yield Announcement(place, _FINAL.search(tagged["tag"]) is not None, weak=False)
    heads = [*_COLON.finditer(reading.text), *_COPULA.finditer(reading.text)]
    for head in sorted(heads, key=lambda head: head.end())[: MOST_PLACES + 1]:
        yield from _announced_by(reading, head)


def _announced_by(reading: Reading, head: re.Match[str]) -> Iterator[Announcement]:
    text, labels, start = reading.text, reading.labels, head.start("head")
    line_start = reading.line_start(start)
    before = text[max(line_start, start - prose.LOOK_BACK) : start]
    if not _LEADS_IN.fullmatch(_CLAUSE_START.split(before)[-1]):
        return
    weak = re.fullmatch(_WEAK, head["head"], re.IGNORECASE) is not None
    if weak:
        opens_line = not text[line_start:start].strip(" #>-\t")
        closes = start >= reading.last_paragraph
        if head["between"].strip() or not (opens_line or closes):
            return
    mention = labels.at(text, head.end())
    if mention is None:
        return
    better = prose.IS_BETTER.match(text, mention.end)
    if better is None and not _GOES_ON.match(text, mention.end):
        if _VERB.match(text, mention.end):
            yield Announcement(Mention(-1, mention.start, mention.end), final=False, weak=weak)
        return
    if tokens.opens_list(text, mention, labels) or _is_quoted(text, line_start, mention):
        return
    if next(labels.named(text, head.start("between"), head.end("between")), None) is not None:
        # "Verdict on Answer A: …" judges one of them, and not between them.
        mention = Mention(-1, mention.start, mention.end)
    else:
        mention = _settled(reading, mention)
    final = not weak and _FINAL.search(before + head["between"]) is not None
    yield Announcement(mention, final, weak)


def _settled(reading: Reading, mention: Mention) -> Mention:
    """Return the mention if the rest of its clause stands by it, and index -1 otherwise."""
    text, labels = reading.text, reading.labels
    contradiction = Mention(-1, mention.start, mention.end)
    end = reading.clause_end(mention.end)
    sides = list(tokens.compared(reading, mention.start, end))
    if sides:
        return sides[-1] if len({side.index for side in sides}) == 1 else contradiction
    reason = prose.REASON.search(text, mention.end, end)
    predicate_end = reason.start() if reason else end
    others = labels.mentions(text, mention.end, predicate_end)
    others += labels.bracketed(text, predicate_end, end)
    comma = _PREDICATE_END.search(text, mention.end, predicate_end)
    predicate = text[mention.end : comma.start() if comma else predicate_end]
    for other in others:
        between = text[max(mention.end, other.start - prose.LOOK_BACK) : other.start]
        if other.index != mention.index and not prose.OTHER_SIDE.search(between):
            return contradiction
    asked = text[end : end + 1] == "?"
    if asked or prose.NEGATED.search(predicate) or prose.HEDGED.search(predicate):
        return contradiction
    return mention


def _is_quoted(text: str, line_start: int, mention: Mention) -> bool:
    """Whether an announcement stands in quotes within its line: somebody's words, or the form."""
    quote = text[mention.end : mention.end + 1]
    if quote not in {'"', "'"} or text[mention.end : mention.end + 2] == "'s":
        return False
    before = text[line_start : mention.start]
    return before.count(quote) % 2 == 1 and before.strip()[:1] != quote
