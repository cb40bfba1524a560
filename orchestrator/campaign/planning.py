"""From a study to the questions of each round, as a pure function of the study.

A *question* is what is asked together: one batch, or both displayed orders of one pair, put to
every judge and criterion. Rounds hold whole questions, so that a round that was answered is
balanced over judges and orders, and the same study gives the same rounds on every machine and in
every replay.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from benchtrial import designs
from benchtrial.adapters import BatchCell, Cell, PairCell
from benchtrial.orchestrator.study import Study


@dataclass(frozen=True, slots=True)
class Question:
    """One batch, or both orders of one pair, for every judge and criterion.

    Parameters
    ----------
    number
        Place in the whole schedule, from 0.
    cells
        The design cells, each of which becomes one request.
    """

    number: int
    cells: tuple[Cell, ...]


class _Row(NamedTuple):
    """A row of a pair schedule, in the order of its columns."""

    judge: str
    prompt: str
    first: str
    second: str
    repetition: int

    def question(self) -> tuple[str, frozenset[str], int]:
        """Return what all rows of one question have in common."""
        return self.prompt, frozenset((self.first, self.second)), self.repetition


def rounds(study: Study) -> tuple[tuple[Question, ...], ...]:
    """Split the study's schedule over its rounds as evenly as whole design blocks allow.

    Returns
    -------
    tuple of tuple of Question
        At most ``study.stopping.rounds`` rounds, none of them empty.
    """
    questions, starts = _batch_questions(study) if study.kind == "batch" else _pair_questions(study)
    wanted = np.linspace(0, len(questions), study.stopping.rounds + 1)[1:]
    ends = sorted({int(starts[np.abs(starts - end).argmin()]) for end in wanted} - {0})
    return tuple(tuple(questions[start:end]) for start, end in zip([0, *ends], ends, strict=False))


def _batch_questions(study: Study) -> tuple[list[Question], np.ndarray]:
    schedule = _batch_schedule(study)
    questions = [
        Question(
            number,
            tuple(
                BatchCell(judge.id, number, tuple(map(str, order)), criterion.id)
                for judge in study.judges
                for criterion in study.criteria
            ),
        )
        for number, order in enumerate(schedule.orders)
    ]
    block_ends = np.flatnonzero(np.diff([*schedule.blocks, -1])) + 1
    return questions, np.concatenate([[0], block_ends])


def _batch_schedule(study: Study) -> designs.BatchSchedule:
    items = [item.id for item in study.items]
    design = study.design
    batches = design.batches or 0
    size = design.size or len(items)
    if design.kind == "williams":
        return designs.williams(
            items, designs.williams_blocks(len(items), batches), seed=study.seed
        )
    if design.kind == "incomplete-blocks":
        return designs.incomplete_blocks(items, size, batches, seed=study.seed)
    return designs.random_shuffle(items, batches, size=size, seed=study.seed)


def _pair_questions(study: Study) -> tuple[list[Question], np.ndarray]:
    schedule = designs.balanced_swaps(
        [candidate.id for candidate in study.candidates],
        [prompt.id for prompt in study.prompts],
        judges=[judge.id for judge in study.judges],
        pairs=study.design.pairs,
        repetitions=study.design.repetitions,
        seed=study.seed,
    )
    rows = [_Row(*row) for row in schedule.to_frame().itertuples(index=False, name=None)]
    questions = [
        Question(number, tuple(_pair_cells(list(group), study)))
        for number, (_, group) in enumerate(groupby(rows, key=_Row.question))
    ]
    return questions, np.arange(len(questions) + 1)


def _pair_cells(rows: Sequence[_Row], study: Study) -> Iterator[PairCell]:
    for criterion in study.criteria:
        for row in rows:
            yield PairCell(
                row.judge, row.prompt, row.first, row.second, criterion.id, row.repetition
            )
