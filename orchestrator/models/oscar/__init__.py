"""Pairwise verdicts in, candidate scores and judge biases out: the OSCAR family of models."""

from benchtrial.orchestrator.models.oscar.fit import fit_oscar
from benchtrial.orchestrator.models.oscar.heldout import (
    MODELS,
    held_out_differences,
    held_out_log_loss,
)
from benchtrial.orchestrator.models.oscar.identification import Check
from benchtrial.orchestrator.models.oscar.result import OscarFit
from benchtrial.orchestrator.models.oscar.table import Comparisons, encode

__all__ = [
    "MODELS",
    "Check",
    "Comparisons",
    "OscarFit",
    "encode",
    "fit_oscar",
    "held_out_differences",
    "held_out_log_loss",
]
