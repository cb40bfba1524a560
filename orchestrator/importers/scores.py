"""From the words of a verdict to the score of the response shown first.

A word is read only where it can mean one thing. The danger is a candidate whose id is also the name
of a slot: with candidates ``A`` and ``B``, a verdict ``A`` on a comparison that showed ``B`` first
may name either, and a guess would turn half of the table round.
"""

from collections.abc import Mapping

import pandas as pd

from benchtrial.orchestrator.importers.source import NOTHING, Source, as_number
from benchtrial.orchestrator.study.problems import shown

# Slot-A scores of the words that name a slot, as the tools of the field write them; numbers in
# [0, 1] are scores already. "C" is the tie of a judge who was offered A, B and C.
SCORES: Mapping[str, float] = {
    **dict.fromkeys(("a", "[[a]]", "model_a", "first", "a>b", "a>>b"), 1.0),
    **dict.fromkeys(("b", "[[b]]", "model_b", "second", "b>a", "b>>a"), 0.0),
    **dict.fromkeys(("c", "[[c]]", "tie", "tie (bothbad)", "a=b"), 0.5),
}
# A verdict that cannot be read is named by its words up to this length.
CHARACTERS_NAMED = 30


def slot_scores(
    source: Source, column: str, first: "pd.Series[str]", second: "pd.Series[str]"
) -> tuple["pd.Series[float]", "pd.Series[str]"]:
    """Score every verdict of a column.

    Returns
    -------
    Series of slot-A scores (1 if the response shown first won, 0 if the other did, 0.5 for a tie),
    NaN where there is none; and for each row the reason why, empty where there is a score.

    Raises
    ------
    DataError
        If a verdict is a number outside [0, 1], or has two meanings.
    """
    scores: list[float] = []
    reasons: list[str] = []
    for index, (word, one, two) in enumerate(zip(source.texts(column), first, second, strict=True)):
        score, reason = _score(source, index, word.strip(), one.strip(), two.strip())
        scores.append(score)
        reasons.append(reason)
    return pd.Series(scores, dtype=float), pd.Series(reasons, dtype=object)


def _score(source: Source, index: int, word: str, first: str, second: str) -> tuple[float, str]:
    by_slot = _by_slot(source, index, word)
    by_name = {first: 1.0, second: 0.0}.get(word) if first != second else None
    if by_slot is not None and by_name is not None and by_slot != by_name:
        source.refuse(
            index,
            f"the verdict {shown(word)} may name the slot or the candidate {shown(word)}; "
            "write scores: 1 if the response shown first won, 0 if the other did, 0.5 for a tie",
        )
    score = by_slot if by_slot is not None else by_name
    if score is not None:
        return score, ""
    if word.lower() in NOTHING:
        return float("nan"), "verdict is missing"
    if len(word) > CHARACTERS_NAMED:
        return float("nan"), "verdict is a longer text"
    return float("nan"), f"verdict is {word.lower()}"


def _by_slot(source: Source, index: int, word: str) -> float | None:
    score = SCORES.get(word.lower())
    if score is not None:
        return score
    number = as_number(word)
    if number is not None and not 0.0 <= number <= 1.0:
        source.refuse(
            index,
            f"outcome {word} is not in [0, 1]; write A, B or tie, or the score of the response "
            "shown first (1 if it won, 0 if it lost)",
        )
    return number
