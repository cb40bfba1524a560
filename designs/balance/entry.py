"""The one question that is asked here: how balanced is this schedule, or this table."""

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchtrial.designs.balance.batches import balance_of_batches
from benchtrial.designs.balance.pairs import balance_of_pairs
from benchtrial.designs.balance.report import Balance
from benchtrial.designs.schedule import BatchSchedule, PairSchedule
from benchtrial.errors import DataError

Orders = Sequence[Sequence[Hashable]] | npt.NDArray[np.int64]


def balance(schedule_or_table: BatchSchedule | PairSchedule | pd.DataFrame | Orders) -> Balance:
    """Count how balanced a schedule, or a recorded table, is.

    Parameters
    ----------
    schedule_or_table
        A schedule; a table of batches (``batch, position, item``, and ``judge``, ``criterion``,
        ``rating`` if there are any); a table of comparisons (``first, second``, and ``judge``,
        ``prompt``, ``repetition``, ``criterion``, ``outcome`` if there are any); or a plain list of
        orders, such as the rows of a square. Rows without a rating or outcome count as lost.

    Returns
    -------
    Balance
        Its text (``str`` or ``print``) has one line for each check.

    Raises
    ------
    DataError
        If a column or an id is missing, two ids are written alike, or there are no rows.
    """
    if isinstance(schedule_or_table, BatchSchedule):
        return balance_of_batches(schedule_or_table.to_frame(), schedule_or_table.items)
    if isinstance(schedule_or_table, PairSchedule):
        return balance_of_pairs(schedule_or_table.to_frame(), schedule_or_table.candidates)
    if not isinstance(schedule_or_table, pd.DataFrame):
        return balance_of_batches(_framed(schedule_or_table))
    columns = set(schedule_or_table.columns)
    if {"first", "second"} <= columns:
        return balance_of_pairs(schedule_or_table)
    if {"batch", "position", "item"} <= columns:
        return balance_of_batches(schedule_or_table)
    raise DataError(
        "the table has neither the columns 'batch', 'position' and 'item' of batches nor 'first' "
        f"and 'second' of comparisons; it has {', '.join(map(repr, schedule_or_table.columns))}"
    )


def _framed(orders: Orders) -> pd.DataFrame:
    rows = [list(order) for order in orders]
    return pd.DataFrame(
        {
            "batch": [batch for batch, row in enumerate(rows) for _ in row],
            "position": [position for row in rows for position in range(1, len(row) + 1)],
            "item": [item for row in rows for item in row],
        }
    )
