"""The Markov generalized linear mixed model for ratings given in one shared context."""

from benchtrial.orchestrator.models.glmm.fit import fit_glmm
from benchtrial.orchestrator.models.glmm.lag_order import LagChoice, choose_lags
from benchtrial.orchestrator.models.glmm.panel import GLMMPanel, fit_glmm_panel
from benchtrial.orchestrator.models.glmm.result import GLMMFit

__all__ = ["GLMMFit", "GLMMPanel", "LagChoice", "choose_lags", "fit_glmm", "fit_glmm_panel"]
