"""From a reply to verdicts: one per pair, one per item of a batch.

``parse`` never raises, whatever the text, and never guesses: what cannot be read with certainty is
invalid with a reason, the raw reply stays in the ledger, and the rule that decided is named, so
that a replay decides the same.
"""

import re
from dataclasses import replace

from benchtrial.adapters.judge import Answer, BatchCell, Cell, ChoiceAnswer, RatingsAnswer, Reply
from benchtrial.orchestrator.verdicts.announced import parse_announced
from benchtrial.orchestrator.verdicts.labels import Labels
from benchtrial.orchestrator.verdicts.probability import slot_a_score
from benchtrial.orchestrator.verdicts.ratings import parse_ratings
from benchtrial.orchestrator.verdicts.structured import parse_structured
from benchtrial.orchestrator.verdicts.verdict import Found, Verdict, nothing

SLOT_A_SCORE = (1.0, 0.0, 0.5)

# Replies longer than this are runaways; the patterns need not be tried on megabytes of them.
LONGEST = 100_000

_REFUSAL = re.compile(
    r"\A\W*(?:i(?:'m| am) (?:very )?sorry|sorry|i apologi[sz]e|as an ai\b"
    r"|i (?:cannot|can't|can not|won't|will not)|i(?:'m| am) (?:unable|not able))",
    re.IGNORECASE,
)


def parse(reply: Reply, cell: Cell, answer: Answer) -> tuple[Verdict, ...]:
    """Return the verdicts of one reply; never raises.

    Parameters
    ----------
    reply
        What came back.
    cell
        Who was shown where; a batch gives one verdict per displayed item.
    answer
        What a valid answer looks like.
    """
    if isinstance(answer, ChoiceAnswer):
        return (_choice(reply, answer),)
    items = cell.items if isinstance(cell, BatchCell) else ("",) * answer.size
    return _ratings(reply, items, answer)


def failure(cell: Cell, reason: str) -> tuple[Verdict, ...]:
    """Return the verdicts of a question that was never answered, for ``reason``."""
    subjects = cell.items if isinstance(cell, BatchCell) else ("",)
    return tuple(
        Verdict(position, subject, "failed", reason)
        for position, subject in enumerate(subjects, start=1)
    )


def _choice(reply: Reply, answer: ChoiceAnswer) -> Verdict:
    labels = Labels(answer.labels)
    found = _stopped(reply) or _choice_in(reply, labels)
    if found.value is None:
        return Verdict(1, "", "invalid", found.reason, rule=found.rule)
    label = str(found.value)
    index = answer.labels.index(label)
    return Verdict(
        position=1,
        subject="",
        state="tie" if index == labels.tie else "valid",
        value=SLOT_A_SCORE[index],
        label=label,
        rule=found.rule,
        probability=slot_a_score(reply.tokens, reply.text, found.start, answer.labels),
    )


def _choice_in(reply: Reply, labels: Labels) -> Found:
    found = parse_structured(reply.text, labels)
    if found is None and reply.stop != "truncated":
        found = parse_announced(reply.text, labels)
    if found is None:
        # A reply that was cut may have gone on to say the opposite.
        found = nothing("truncated")
    return _refused(reply, found)


def _ratings(reply: Reply, items: tuple[str, ...], answer: RatingsAnswer) -> tuple[Verdict, ...]:
    emitted = _stopped(reply) or parse_ratings(reply.text, answer)
    cut = reply.stop == "truncated"
    if isinstance(emitted, Found):
        whole = _refused(reply, emitted)
        reason = "truncated" if cut and whole.reason == "unparseable" else whole.reason
        return tuple(
            Verdict(position, item, "invalid", reason, rule=whole.rule)
            for position, item in enumerate(items, start=1)
        )
    verdicts = []
    for position, entry in enumerate(emitted, start=1):
        found = entry.found
        if cut and found.value is not None and found.end >= len(reply.text.rstrip()):
            found = nothing("truncated", found.rule)  # the last word may have been going on
        verdicts.append(_rating(position, items[entry.item - 1], found, answer))
    rated = {entry.item for entry in emitted}
    open_end = cut or any(entry.found.reason == "truncated" for entry in emitted)
    missing = [item for number, item in enumerate(items, start=1) if number not in rated]
    for position, item in enumerate(missing, start=len(verdicts) + 1):
        reason = "truncated" if open_end else "omitted"
        verdicts.append(Verdict(position, item, "invalid", reason))
    return tuple(verdicts)


def _rating(position: int, item: str, found: Found, answer: RatingsAnswer) -> Verdict:
    if found.value is None:
        return Verdict(position, item, "invalid", found.reason, rule=found.rule)
    if isinstance(found.value, str):
        rank = float(answer.labels.index(found.value))
        return Verdict(position, item, "valid", value=rank, label=found.value, rule=found.rule)
    return Verdict(position, item, "valid", value=found.value, rule=found.rule)


def _stopped(reply: Reply) -> Found | None:
    """Return why there is no verdict to look for, if that is known without reading."""
    if reply.stop in {"refusal", "content_filter"}:
        return nothing(reply.stop)
    if not reply.text.strip():
        return nothing("truncated" if reply.stop == "truncated" else "empty")
    if len(reply.text) > LONGEST:
        return nothing("unparseable")
    return None


def _refused(reply: Reply, found: Found) -> Found:
    """Call a reply without a verdict a refusal if it opens like one."""
    if found.reason == "unparseable" and _REFUSAL.match(reply.text):
        return replace(found, reason="refusal")
    return found
