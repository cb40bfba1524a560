r"""Verdicts announced in words, when a reply is not held to a form.

The rules are tried in a fixed order and the first that finds a verdict decides; its name is kept
with the verdict. Each rule looks at every place where it applies, and places that disagree make
the reply ambiguous: it is never "the first" or "the last" label that wins. A later sentence that
takes the verdict back, or concludes otherwise, makes the reply ambiguous as well. An invalid
verdict costs one observation; a wrong one biases the study.

In order::

    label               the reply is a label and nothing else
    final-verdict       "Final verdict: B"
    announced           "My verdict is B", "Choice: B", "<verdict>B</verdict>", "the answer is B"
    double-brackets     [[B]], [[B>A]], and "[[B]] is better than [[A]]"
    boxed               \boxed{B}
    single-brackets     [B] on a line of its own, or as the last word
    label-line          B on the first or last line, or on the line after "… I choose:"
    conclusion          "Therefore, Answer B is better.", "I would choose the second answer."
    slot-scores         "Answer A: 7 / Answer B: 9", or a first line "7 9"
"""

from benchtrial.orchestrator.verdicts.announced import announcements, prose, scores, tokens
from benchtrial.orchestrator.verdicts.announced.reading import Reading, Rule
from benchtrial.orchestrator.verdicts.labels import Labels
from benchtrial.orchestrator.verdicts.verdict import Found, nothing

RULES: dict[str, Rule] = {
    "label": tokens.label,
    "final-verdict": announcements.final_verdict,
    "announced": announcements.announced,
    "double-brackets": tokens.double_brackets,
    "boxed": tokens.boxed,
    "single-brackets": tokens.single_brackets,
    "label-line": tokens.label_line,
    "conclusion": prose.conclusion,
    "slot-scores": scores.slot_scores,
}


def parse_announced(text: str, labels: Labels) -> Found:
    """Return the verdict that ``text`` announces, or why it announces none.

    Parameters
    ----------
    text
        The reply.
    labels
        The labels the judge may answer.
    """
    reading = Reading.of(text, labels)
    for name, rule in RULES.items():
        found = rule(reading)
        if found is None:
            continue
        if found.value is None:
            return nothing(found.reason or "ambiguous", name)
        if prose.taken_back(reading, found):
            return nothing("ambiguous", name)
        return Found(found.value, found.start, found.end, name)
    return nothing("unparseable")


__all__ = ["RULES", "parse_announced"]
