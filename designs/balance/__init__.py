"""Is a design, or what became of it, balanced? Counted from the rows themselves.

A schedule and a recorded table are counted in the same way, so that the same report shows what was
planned and, after refusals and lost rows, what was realised. Counts are compared within each judge,
because a judge's own lean cancels only from its own verdicts.
"""

from benchtrial.designs.balance.entry import balance
from benchtrial.designs.balance.report import Balance, Check, Grade

__all__ = ["Balance", "Check", "Grade", "balance"]
