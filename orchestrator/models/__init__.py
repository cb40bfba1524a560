"""Tables of verdicts in, fitted models out."""

from benchtrial.orchestrator.models.audit import Audit, audit
from benchtrial.orchestrator.models.estimate import Estimate
from benchtrial.orchestrator.models.glmm import (
    GLMMFit,
    GLMMPanel,
    LagChoice,
    choose_lags,
    fit_glmm,
    fit_glmm_panel,
)
from benchtrial.orchestrator.models.marginal import MarginalFit, fit_marginal
from benchtrial.orchestrator.models.oscar import (
    Check,
    OscarFit,
    bootstrap_win_probability,
    calibrate,
    fit_oscar,
    fixed_score_sensitivity,
    held_out_attenuation,
    held_out_differences,
    held_out_log_loss,
    human_agreement,
    human_scores,
    joint_attenuation,
    omission_shift,
    population_sensitivity,
    residual_correlations,
    screen_judges,
    swap_averaged,
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
    "LagChoice",
    "MarginalFit",
    "OscarFit",
    "audit",
    "bootstrap_win_probability",
    "calibrate",
    "choose_lags",
    "fit_glmm",
    "fit_glmm_panel",
    "fit_marginal",
    "fit_oscar",
    "fixed_score_sensitivity",
    "held_out_attenuation",
    "held_out_differences",
    "held_out_log_loss",
    "human_agreement",
    "human_scores",
    "joint_attenuation",
    "matched_swap_position",
    "omission_shift",
    "population_sensitivity",
    "position_summary",
    "residual_correlations",
    "screen_judges",
    "swap_averaged",
    "swap_consistency",
]
