"""Gradient and Hessian of the likelihood against finite differences, V=30, N=200.

    python benchmarks/glmm/derivatives.py

Five-point central differences of the exact log-likelihood (for the gradient) and of the exact
gradient (for the Hessian); their own error is about 1e-9 of the largest entry.
"""

import numpy as np
from panels import GEMINI, GEMINI_DEEP, draw

from benchtrial.orchestrator.models import fit_glmm

STEP = 2e-4


def differences(function, point):
    """Return the five-point derivative of ``function`` along every coordinate."""
    rows = []
    for step in STEP * np.eye(len(point)):
        near = function(point + step) - function(point - step)
        far = function(point + 2 * step) - function(point - 2 * step)
        rows.append((8 * near - far) / (12 * STEP))
    return np.array(rows)


def main() -> None:
    for name, judge, lags in (("one lag", GEMINI, 1), ("three lags", GEMINI_DEEP, 3)):
        fit = fit_glmm(draw(30, 200, judge, seed=3), lags=lags, ridge=0.0)
        likelihood = fit.engine.model.likelihood
        point = fit.vector + 0.1
        posterior = likelihood.posterior(point)
        gradient = differences(lambda p, like=likelihood: like.posterior(p).loglik, point)
        hessian = differences(lambda p, like=likelihood: like.posterior(p).gradient, point)
        exact = posterior.hessian()
        print(
            f"{name}: gradient {np.abs(posterior.gradient / gradient - 1).max():.1e} relative, "
            f"Hessian {np.abs(exact - hessian).max() / np.abs(hessian).max():.1e} of its largest "
            f"entry and {np.abs(np.diag(exact) / np.diag(hessian) - 1).max():.1e} relative on the "
            f"diagonal; at the optimum the gradient per rating is {fit.gradient_norm:.1e}"
        )


if __name__ == "__main__":
    main()
