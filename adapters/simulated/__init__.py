"""Judges with known parameters: for rehearsing a study before paying, and for testing estimators.

They read ``Request.cell`` and never the messages.
"""

from benchtrial.adapters.simulated.batches import (
    PAPER_JUDGES,
    MarkovParameters,
    SimulatedBatchJudge,
)
from benchtrial.adapters.simulated.draws import uniforms
from benchtrial.adapters.simulated.pairs import SimulatedPairJudge

__all__ = [
    "PAPER_JUDGES",
    "MarkovParameters",
    "SimulatedBatchJudge",
    "SimulatedPairJudge",
    "uniforms",
]
