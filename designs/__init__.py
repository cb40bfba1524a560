"""What to ask next, as pure functions of numbers and a seed.

Batches, rated in one shared context:

* :func:`random_shuffle`: every order equally likely, whole pools or blocks of equal size;
* :func:`williams`: complete Williams squares, balanced for position and predecessor;
* :func:`carryover`: squares that also balance the item before the predecessor;
* :func:`incomplete_blocks`, :func:`mixed_blocks`: pools larger than one context.

Pairs, compared in both orders: :func:`balanced_swaps`, over all pairs, a star or a circulant.

:func:`grow_blocks` and :func:`grow_swaps` continue what is running. :func:`balance` counts how
balanced a schedule is, or what became of it.
"""

from benchtrial.designs.balance import Balance, Check, balance
from benchtrial.designs.blocks import fitting_size, grow_blocks, incomplete_blocks, mixed_blocks
from benchtrial.designs.carryover import affine_square, carryover, carryover_square
from benchtrial.designs.graphs import all_pairs, circulant, star
from benchtrial.designs.schedule import BatchSchedule, PairSchedule
from benchtrial.designs.shuffle import random_shuffle
from benchtrial.designs.swaps import balanced_swaps, grow_swaps
from benchtrial.designs.williams import (
    relabelled,
    williams,
    williams_blocks,
    williams_row,
    williams_square,
)

__all__ = [
    "Balance",
    "BatchSchedule",
    "Check",
    "PairSchedule",
    "affine_square",
    "all_pairs",
    "balance",
    "balanced_swaps",
    "carryover",
    "carryover_square",
    "circulant",
    "fitting_size",
    "grow_blocks",
    "grow_swaps",
    "incomplete_blocks",
    "mixed_blocks",
    "random_shuffle",
    "relabelled",
    "star",
    "williams",
    "williams_blocks",
    "williams_row",
    "williams_square",
]
