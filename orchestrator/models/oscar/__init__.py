"""Pairwise verdicts in, candidate scores and judge biases out: the OSCAR family of models."""

from benchtrial.orchestrator.models.oscar.attenuation import (
    fixed_score_sensitivity,
    held_out_attenuation,
    joint_attenuation,
    omission_shift,
    population_sensitivity,
    swap_averaged,
)
from benchtrial.orchestrator.models.oscar.bootstrap import bootstrap_win_probability
from benchtrial.orchestrator.models.oscar.calibration import (
    calibrate,
    human_agreement,
    human_scores,
)
from benchtrial.orchestrator.models.oscar.fit import fit_oscar
from benchtrial.orchestrator.models.oscar.heldout import (
    MODELS,
    held_out_differences,
    held_out_log_loss,
)
from benchtrial.orchestrator.models.oscar.identification import Check
from benchtrial.orchestrator.models.oscar.result import OscarFit
from benchtrial.orchestrator.models.oscar.screening import residual_correlations, screen_judges
from benchtrial.orchestrator.models.oscar.table import Comparisons, encode

__all__ = [
    "MODELS",
    "Check",
    "Comparisons",
    "OscarFit",
    "bootstrap_win_probability",
    "calibrate",
    "encode",
    "fit_oscar",
    "fixed_score_sensitivity",
    "held_out_attenuation",
    "held_out_differences",
    "held_out_log_loss",
    "human_agreement",
    "human_scores",
    "joint_attenuation",
    "omission_shift",
    "population_sensitivity",
    "residual_correlations",
    "screen_judges",
    "swap_averaged",
]
