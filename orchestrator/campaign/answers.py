"""Verdicts that come from outside, in the words that the parser reads.

People, and systems of one's own, answer with a label, the id of a candidate, or a rating for each
item. Written in the structured form of a judge's reply, such an answer is filed, parsed, counted
and replayed like any other.
"""

import json
from collections.abc import Mapping, Sequence

from benchtrial.adapters import (
    BatchCell,
    ChoiceAnswer,
    PairCell,
    RatingsAnswer,
    Request,
    rating_keys,
)
from benchtrial.errors import InputError

Answer = str | Mapping[str, str | float] | Sequence[str | float]


def as_text(request: Request, verdict: Answer) -> str:
    """Write a verdict from outside in the structured form that the parser reads.

    Raises
    ------
    InputError
        If the verdict is not one that the question allows.
    """
    cell, answer = request.cell, request.answer
    if isinstance(cell, PairCell) and isinstance(answer, ChoiceAnswer):
        return json.dumps({"winner": _winner(cell, answer.labels, verdict)})
    if isinstance(cell, BatchCell) and isinstance(answer, RatingsAnswer):
        ratings = [_rating(answer, rating) for rating in _in_displayed_order(cell, verdict)]
        return json.dumps(dict(zip(rating_keys(answer), ratings, strict=True)))
    raise InputError(f"tell: {cell} is neither a pair nor a batch")


def _winner(cell: PairCell, labels: Sequence[str], verdict: Answer) -> str:
    by_candidate = {cell.first: labels[0], cell.second: labels[1]}
    meant = {verdict} & set(labels) if isinstance(verdict, str) else set()
    meant |= (
        {by_candidate[verdict]} if isinstance(verdict, str) and verdict in by_candidate else set()
    )
    if len(meant) != 1:
        what = "is a label and a candidate that disagree" if meant else "is no verdict on this pair"
        raise InputError(
            f"tell: {verdict!r} {what}; use one of {', '.join(labels)}, or the id of the better "
            f"candidate ({cell.first} or {cell.second})"
        )
    return meant.pop()


def _in_displayed_order(cell: BatchCell, verdict: Answer) -> list[str | float]:
    if isinstance(verdict, str):
        raise InputError("tell: a batch needs one rating per item, got one text")
    if isinstance(verdict, Mapping):
        missing = [item for item in cell.items if item not in verdict]
        unknown = [item for item in verdict if item not in cell.items]
        if missing or unknown:
            raise InputError(
                f"tell: no rating for {', '.join(missing) or 'none'}, and not shown: "
                f"{', '.join(unknown) or 'none'}; give one rating for each item that was shown"
            )
        return [verdict[item] for item in cell.items]
    if len(verdict) != len(cell.items):
        raise InputError(
            f"tell: {len(verdict)} ratings for the {len(cell.items)} items shown "
            f"({', '.join(cell.items)}); give one for each"
        )
    return list(verdict)


def _rating(answer: RatingsAnswer, rating: str | float) -> str | float:
    """Return a legal rating; a label may be given by its rank from 0, the worst."""
    if answer.labels:
        if rating in answer.labels:
            return rating
        if rating in range(len(answer.labels)):
            return answer.labels[int(rating)]
        raise InputError(f"tell: {rating!r} is no rating; use one of {', '.join(answer.labels)}")
    low, high = answer.scale or (0.0, 1.0)
    if isinstance(rating, str) or not low <= rating <= high:
        raise InputError(f"tell: {rating!r} is no rating; use a number from {low:g} to {high:g}")
    return rating
