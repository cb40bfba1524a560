"""The probability of a verdict, from the log-probabilities of the token that carries it.

The token is found by the character offset of the label in the text. Its alternatives may spell the
labels with spaces, quotes or brackets in front and may hold only their first letters; where an
alternative fits several labels (``"answer A"`` and ``"answer B"`` begin alike), the next token
splits them, and probabilities multiply along the way. The probabilities of the allowed labels are
scaled to sum to one, and the tie counts half for slot A.

An allowed label that no alternative spells may have any probability up to the mass that the
alternatives leave open. If that could move the score by more than ``TOLERANCE``, there is no score.
"""

import math
from collections.abc import Sequence

from benchtrial.adapters.judge import Token

# Below the Monte-Carlo noise of any study, above the rounding of reported log-probabilities.
TOLERANCE = 0.005

_FRONT = " \t\n\r\"'`*[({\u2581\u0120\u010a"


def slot_a_score(
    tokens: Sequence[Token], text: str, start: int, labels: Sequence[str]
) -> float | None:
    """Return the probability of slot A plus half that of a tie, or None if it cannot be told.

    Parameters
    ----------
    tokens
        Output tokens with log-probabilities, in order.
    text
        The reply that they spell.
    start
        Character offset of the verdict's label in ``text``.
    labels
        The allowed labels: slot A, slot B and, if ties are allowed, the tie.
    """
    joined = "".join(token.text for token in tokens)
    shift = joined.find(text)
    if not tokens or shift < 0:
        return None
    mass = _masses(tokens, start + shift, labels)
    if mass is None:
        return None
    known, open_mass = mass
    total = sum(known.values())
    if total <= 0:
        return None
    absent = [label for label in labels if known[label] == 0]
    if absent and open_mass / (total + open_mass) > TOLERANCE:
        return None
    tie = known[labels[2]] if len(labels) > 2 else 0.0
    return (known[labels[0]] + tie / 2) / total


def _masses(
    tokens: Sequence[Token], start: int, labels: Sequence[str]
) -> tuple[dict[str, float], float] | None:
    """Probability of each label, and the mass at their tokens that no alternative accounts for."""
    mass = dict.fromkeys(labels, 0.0)
    remaining = list(labels)
    path, open_mass, consumed, at = 1.0, 0.0, 0, 0
    for token in tokens:
        end = at + len(token.text)
        if end <= start + consumed:
            at = end
            continue
        offers = {token.text: token.logprob, **token.alternatives}
        fits = {
            spelled: [label for label in remaining if _fits(spelled, label[consumed:], consumed)]
            for spelled in offers
        }
        chosen = fits[token.text]
        if not chosen:
            return None
        open_mass += path * max(0.0, 1.0 - sum(_probability(lp) for lp in offers.values()))
        shared = 0.0
        for spelled, fitting in fits.items():
            probability = path * _probability(offers[spelled])
            if len(fitting) == 1:
                mass[fitting[0]] += probability
            elif set(fitting) <= set(chosen):
                shared += probability
            elif fitting:
                return None  # one alternative stands for labels that part ways elsewhere
        if len(chosen) == 1:
            return mass, open_mass
        path, remaining, consumed, at = shared, chosen, end - start, end
    return None


def _fits(spelled: str, label: str, consumed: int) -> bool:
    """Whether a token spells the rest of ``label``, its beginning, or the label and more."""
    head = spelled if consumed else spelled.lstrip(_FRONT)
    if not head.strip():
        return False
    if label.startswith(head.rstrip()) and head.rstrip():
        return True
    return head.startswith(label) and not head[len(label) : len(label) + 1].isalnum()


def _probability(logprob: float) -> float:
    return math.exp(min(logprob, 0.0)) if not math.isnan(logprob) else 0.0
