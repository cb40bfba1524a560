"""Fits in, decisions out: stopping rules whose level holds although everybody looks all the time.

``boundaries`` and ``confidence_sequence`` are the two kinds of bounds; a ``StoppingPlan`` joins one
of them to a target (what is to be concluded); ``take_look`` turns estimates into a ``Look`` with
its ``Decision``.
"""

from benchtrial.orchestrator.sequential.boundaries import boundaries, spent_alpha
from benchtrial.orchestrator.sequential.canonical import exit_probabilities
from benchtrial.orchestrator.sequential.confidence import confidence_sequence
from benchtrial.orchestrator.sequential.futility import conditional_power
from benchtrial.orchestrator.sequential.inference import StoppedEstimate, after_stopping
from benchtrial.orchestrator.sequential.look import take_look
from benchtrial.orchestrator.sequential.plan import Futility, Rule, StoppingPlan
from benchtrial.orchestrator.sequential.records import ContrastLook, Decision, Look, State
from benchtrial.orchestrator.sequential.targets import (
    Best,
    Difference,
    Ranking,
    Screening,
    Target,
    TopK,
    require_known,
)

__all__ = [
    "Best",
    "ContrastLook",
    "Decision",
    "Difference",
    "Futility",
    "Look",
    "Ranking",
    "Rule",
    "Screening",
    "State",
    "StoppedEstimate",
    "StoppingPlan",
    "Target",
    "TopK",
    "after_stopping",
    "boundaries",
    "conditional_power",
    "confidence_sequence",
    "exit_probabilities",
    "require_known",
    "spent_alpha",
    "take_look",
]
