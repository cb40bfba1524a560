"""Verdicts in sentences, such as "Therefore, Answer B is better" or "I choose the first draft".

A sentence counts if it concludes ("therefore", "overall" …), chooses ("I prefer …"), or is all
there is. It must name one slot and declare it better, without a negation, a hedge or a condition
over the declaration, and without a "but" after it that gives something back. A reply that breaks
off in the middle of a sentence has not concluded.
"""

import re
from collections.abc import Iterator

from benchtrial.orchestrator.verdicts.announced.reading import LONGEST_SENTENCE, Reading
from benchtrial.orchestrator.verdicts.labels import NOUNS, Mention
from benchtrial.orchestrator.verdicts.verdict import Found, nothing

REASON = re.compile(r"\b(?:because|since|as|due\s+to|given)\b", re.IGNORECASE)
NEGATED = re.compile(
    r"\b(?:not|never|neither|nor|no|cannot|unable|hardly|scarcely|barely|doubt)\b|n't\b",
    re.IGNORECASE,
)
HEDGED = re.compile(
    r"\b(?:seems?|seemed|appears?|appeared|might|may|could|perhaps|possibly|arguably|maybe|"
    r"would\s+have|would\s+be|first\s+glance|at\s+first|initially|unclear|hard\s+to)\b",
    re.IGNORECASE,
)
_CONDITIONAL = re.compile(
    r"\b(?:if|unless|depend(?:s|ing)|whether|otherwise|hard\s+to|impossible\s+to|undecided|"
    r"(?:cannot|can't)\s+(?:decide|tell|say))\b|\?",
    re.IGNORECASE,
)
_CONCLUDES = re.compile(
    r"\b(?:therefore|thus|hence|overall|ultimately|so|finally|consequently|accordingly|"
    r"in\s+(?:conclusion|summary|short|sum|total|the\s+end)|"
    r"to\s+(?:conclude|summari[sz]e|sum\s+up)|on\s+balance|all\s+in\s+all|"
    r"all\s+things\s+considered|taken\s+together|as\s+a\s+result|based\s+on|considering|"
    r"verdict|decision|i\s+(?:believe|conclude|judge|think|find|consider|declare))\b",
    re.IGNORECASE,
)
_TURNS = re.compile(r"\b(?:however|nevertheless|nonetheless|that\s+said|still)\b", re.IGNORECASE)
_RETRACTS = re.compile(
    r"\b(?:wait|correction|on\s+second\s+thou?ghts?|on\s+reflection|scratch\s+that|"
    r"chang(?:e|ed|ing)\s+my\s+(?:mind|verdict|answer)|i\s+was\s+wrong|i\s+disagree|kidding|"
    r"actually,)|[.!?\n]\s*no[,.!]",
    re.IGNORECASE,
)
_CHOOSES = re.compile(
    r"\bi\s*(?:'d|'ll|\s+would|\s+will)?\s*(?:have\s+to\s+)?"
    r"(?:choose|pick|select|prefer|favou?r|go\s+with|vote\s+for)\s+(?:the\s+)?",
    re.IGNORECASE,
)
_BETTER = (
    r"(?:(?:clearly|slightly|significantly|much|far|overall|generally|simply|marginally|somewhat|"
    r"considerably|the|a|an|also|still|definitely|by|bit|little)\s+)*"
    r"(?:better|best|superior|preferable|stronger|strongest|winner)\b"
)
IS_BETTER = re.compile(
    rf"[\])\"']*(?:'s)?(?:\s+(?:{NOUNS}|one)s?)?\s+"
    rf"(?:(?:is|are|was|were|comes?\s+out|emerges\s+as)\s+{_BETTER}"
    rf"|(?:clearly\s+)?wins\b"
    rf"|(?:provide[sd]?|offers?|gives?|has)\s+(?:the|a)\s+{_BETTER}\s+(?:{NOUNS})\b"
    rf"|(?:(?:to\s+be|as)\s+)?the\s+(?:better|best|superior|stronger|winner)\b)",
    re.IGNORECASE,
)
_BETTER_IS = re.compile(
    rf"\bthe\s+(?:better|best|superior|stronger|preferred|winning)\s+(?:{NOUNS}|one)\s+(?:is|was)\s+"
    r"(?:the\s+)?",
    re.IGNORECASE,
)
_BETTER_THAN = re.compile(rf"\b{_BETTER}\s+than\s+(?:the\s+)?", re.IGNORECASE)
_TIED = re.compile(
    r"\b(?:it\s+is|it's|this\s+is|call\s+it|end\s+in|results?\s+in)\s+a\s+(?:tie|draw)\b"
    r"|\b(?:both|they|answers|responses)\b[^.\n]{0,60}?\bequally\s+\w+"
    r"|\bneither\b[^.\n]{0,40}?\bis\s+better\b",
    re.IGNORECASE,
)
_CLAUSE_START = re.compile(
    r"[,;:]|\b(?:so|therefore|thus|hence|but|while|and|although|though|whereas)\b", re.IGNORECASE
)
_GIVES_BACK = re.compile(
    r"\b(?:but|although|though|while|whereas|however|yet|except)\b.*?"
    r"\b(?:better|best|worse|weaker|stronger|superior|inferior|less|more|loses|lacks?)\b",
    re.IGNORECASE | re.DOTALL,
)
_AFTER_CHOICE = re.compile(
    rf"[\])\"'\s]*(?:\Z|[.,;:!(<>=\u2013\u2014-]|(?:'s\s+(?:{NOUNS})|because|since|as|for|due|by|over|than|"
    rf"instead|rather|overall|here|and|but|{NOUNS}|one)(?!\w))",
    re.IGNORECASE,
)
# A lone letter is a slot only as the subject of its clause: not in "Plan A is better".
_SUBJECT = re.compile(
    r"(?:\A|[.,;:!?\n(\"'\[>-]|\b(?:so|that|therefore|thus|hence|but|and|overall|think|believe|find|"
    r"judge|conclude|while|although|because))\s*[\[(\"']*\Z",
    re.IGNORECASE,
)
OTHER_SIDE = re.compile(
    r"(?:\bthan|\bover|\binstead\s+of|\brather\s+than|\bnot)\s+(?:the\s+|that\s+of\s+)?[\[(\"'\s]*"
    rf"(?:(?:{NOUNS})\s*)?\Z",
    re.IGNORECASE,
)
_FINISHED = re.compile(r"[.!?\"')\]}>:]\s*\Z")
_SAYS_IT_ALL = re.compile(rf"(?:{_BETTER}|wins|one|overall|\b\w)\s*\Z", re.IGNORECASE)

# How many characters before a label can say what part it plays.
LOOK_BACK = 40


def conclusion(reading: Reading) -> Found | None:
    """Read the verdict of concluding sentences; they must agree, and one must end the reply."""
    found = list(_conclusions(reading, 0))
    if not found:
        return None
    if found[-1].start < reading.last_paragraph:
        return nothing("ambiguous")
    return reading.agreed(found)


def taken_back(reading: Reading, found: Found) -> bool:
    """Whether the text after a verdict retracts it or concludes something else."""
    if _RETRACTS.search(reading.text, found.end):
        return True
    meant = reading.labels.index(str(found.value))
    return any(mention.index != meant for mention in _conclusions(reading, found.end, turns=True))


def favoured(reading: Reading, start: int, end: int) -> Mention | None:
    """Return the slot that one sentence declares better; index -1 if it declares two."""
    text, labels = reading.text, reading.labels
    if end - start > LONGEST_SENTENCE or _CONDITIONAL.search(text, start, end):
        return None
    sides = list(_declared(reading, start, end))
    tied = _TIED.search(text, start, end)
    if tied is not None:
        sides.append(Mention(labels.tie, tied.start(), tied.end()))
    if not sides:
        return None
    if len({side.index for side in sides}) > 1:
        return Mention(-1, start, end)
    return sides[-1]


def _conclusions(reading: Reading, start: int, *, turns: bool = False) -> Iterator[Mention]:
    """Yield what each concluding sentence favours; index -1 where the reply breaks off after it.

    With ``turns``, sentences that turn against what was said ("however") count as well.
    """
    text = reading.text
    sentences = [span for span in reading.sentences if span[1] > start]
    broken = bool(sentences) and not _FINISHED.search(text[slice(*sentences[-1])])
    for number, (begin, end) in enumerate(sentences):
        begin = max(begin, start)
        counts = (
            (len(sentences) == 1 and start == 0)
            or _CONCLUDES.search(text, begin, end)
            or _CHOOSES.search(text, begin, end)
            or _BETTER_IS.search(text, begin, end)
            or (turns and _TURNS.search(text, begin, end))
        )
        side = favoured(reading, begin, end) if counts else None
        if side is None:
            continue
        last = number == len(sentences) - 1
        if broken and not (last and _SAYS_IT_ALL.search(text[begin:end])):
            side = Mention(-1, side.start, side.end)
        yield side
        # What is said after a conclusion may take it back without a word of concluding.
        turns = True


def _declared(reading: Reading, start: int, end: int) -> Iterator[Mention]:
    """Yield each slot that a stretch declares better; index -1 for half a declaration."""
    text, labels = reading.text, reading.labels
    reason = REASON.search(text, start, end)
    mentions = labels.mentions(text, start, end)
    named = frozenset(labels.named(text, start, end))
    for pattern in (_CHOOSES, _BETTER_IS):
        for found in pattern.finditer(text, start, end):
            mention = labels.at(text, found.end())
            if mention is None or mention.end > end or not _AFTER_CHOICE.match(text, mention.end):
                continue
            if not _weakened(text, start, found.end()):
                yield _unless_given_back(reading, mention, mention.end, end, reason)
    for mention in mentions:
        better = IS_BETTER.match(text, mention.end, end)
        if better is None or _weakened(text, start, mention.start):
            continue
        look_back = text[max(start, mention.start - LOOK_BACK) : mention.start]
        if mention in named or _SUBJECT.search(look_back):
            yield _unless_given_back(reading, mention, better.end(), end, reason)
    for found in _BETTER_THAN.finditer(text, start, end):
        beaten = labels.at(text, found.end())
        before = [m for m in mentions if m.end <= found.start()]
        if beaten is None or {m.index for m in before} != {1 - beaten.index}:
            continue
        denied = NEGATED.search(text, before[-1].end, found.start())
        if not denied and not _weakened(text, start, before[-1].start):
            yield _unless_given_back(reading, before[-1], beaten.end, end, reason)


def _weakened(text: str, start: int, at: int) -> bool:
    """Whether a negation or hedge governs what is declared at ``at``."""
    clause = start
    for boundary in _CLAUSE_START.finditer(text, start, at):
        clause = boundary.end()
    return bool(NEGATED.search(text, clause, at) or HEDGED.search(text, clause, at))


def _unless_given_back(
    reading: Reading, mention: Mention, at: int, end: int, reason: re.Match[str] | None
) -> Mention:
    """Return the mention, or index -1 if the rest of the sentence gives something back."""
    until = reason.start() if reason is not None and reason.start() > at else end
    given_back = _GIVES_BACK.search(reading.text, at, until) is not None
    for other in reading.labels.named(reading.text, at, until):
        between = reading.text[max(at, other.start - LOOK_BACK) : other.start]
        given_back |= other.index != mention.index and not OTHER_SIDE.search(between)
    return Mention(-1, mention.start, mention.end) if given_back else mention
