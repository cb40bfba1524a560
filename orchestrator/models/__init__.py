"""Tables of verdicts in, fitted models out."""

from benchtrial.orchestrator.models.audit import Audit, audit
from benchtrial.orchestrator.models.estimate import Estimate
from benchtrial.orchestrator.models.glmm import GLMMFit, GLMMPanel, fit_glmm, fit_glmm_panel
from benchtrial.orchestrator.models.marginal import MarginalFit, fit_marginal
from benchtrial.orchestrator.models.oscar import (
    Check,
    OscarFit,
    fit_oscar,
    held_out_differences,
    held_out_log_loss,
)
from benchtrial.orchestrator.models.swaps import (
    matched_swap_position,
    position_summary,
    swap_consistency,
)

__all__ = [
    "Audit",
    "Check",
    "Estimate",
    "GLMMFit",
    "GLMMPanel",
    "MarginalFit",
    "OscarFit",
    "audit",
    "fit_glmm",
    "fit_glmm_panel",
    "fit_marginal",
    "fit_oscar",
    "held_out_differences",
    "held_out_log_loss",
    "matched_swap_position",
    "position_summary",
    "swap_consistency",
]
