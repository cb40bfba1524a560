"""Tables of verdicts in, fitted models out."""

from benchtrial.orchestrator.models.estimate import Estimate
from benchtrial.orchestrator.models.glmm import GLMMFit, GLMMPanel, fit_glmm, fit_glmm_panel
from benchtrial.orchestrator.models.marginal import MarginalFit, fit_marginal
from benchtrial.orchestrator.models.oscar import Check, OscarFit, fit_oscar

__all__ = [
    "Check",
    "Estimate",
    "GLMMFit",
    "GLMMPanel",
    "MarginalFit",
    "OscarFit",
    "fit_glmm",
    "fit_glmm_panel",
    "fit_marginal",
    "fit_oscar",
]
