"""Prompt-cluster and model-based covariance of an OSCAR fit.

The sandwich needs the sum over prompts of the outer product of each prompt's score. A record's
score has at most seven entries that are not zero, so the scores of a block of prompts are a sparse
matrix; the block is multiplied in whichever form, sparse or dense, is cheaper, and memory stays
bounded whatever the number of prompts.

Source: OSCAR (arXiv 2609.24128), equation (9) and appendix B.3.
"""

import numpy as np
from scipy import linalg, sparse

from benchtrial.orchestrator.models.oscar.arrays import Floats
from benchtrial.orchestrator.models.oscar.cells import counting_sort
from benchtrial.orchestrator.models.oscar.likelihood import sensitivity, three_outcomes
from benchtrial.orchestrator.models.oscar.model import Model, family_contrast
from benchtrial.orchestrator.models.oscar.table import Comparisons

#: Records whose scores are worked out together: a few columns of them fit a core's own cache.
BLOCK_RECORDS = 65_536
#: Entries of a dense block of prompt scores (64 MB of doubles).
BLOCK_ENTRIES = 8_000_000
#: A sparse product costs about this many times a dense one per multiplication.
SPARSE_COST = 40


def record_predictor(
    data: Comparisons, model: Model, natural: Floats, length: Floats | None
) -> Floats:
    """Return eta of equation (2), per record in table order."""
    scores = natural[: model.candidates]
    eta: Floats = sensitivity(model, natural)[data.judge] * (
        scores[data.first] - scores[data.second]
    )
    if "position" in model.terms:
        eta += natural[model.block("position")][data.judge]
    if "length" in model.terms:
        assert length is not None  # noqa: S101  (the caller checked the columns)
        eta += natural[model.block("length")][data.judge] * length
    if "family" in model.terms:
        eta += natural[model.block("family")][data.judge] * family_contrast(data)
    return eta


def slot_a_probability(
    data: Comparisons, model: Model, natural: Floats, length: Floats | None
) -> Floats:
    """Return P(A) + P(tie) / 2, per record in table order."""
    eta = record_predictor(data, model, natural, length)
    if model.tie:
        return three_outcomes(eta, natural[model.block("tie")][data.judge])[1] + 0.5
    return logistic(eta)


def logistic(eta: Floats) -> Floats:
    """Return 1 / (1 + exp(-eta)) without overflow."""
    half: Floats = np.tanh(eta / 2) / 2
    return half + 0.5


def prompt_variance(
    data: Comparisons, model: Model, natural: Floats, length: Floats | None
) -> Floats:
    """Return V of equation (9): the variance of the summed score over prompts, free coordinates."""
    clusters, total, outer = _prompt_scores(data, model, natural, length)
    return model.hessian(clusters / (clusters - 1) * (outer - np.outer(total, total) / clusters))


def inverse(information: Floats) -> Floats:
    """Invert a positive definite matrix (the model-based covariance of B.3)."""
    covariance: Floats = linalg.cho_solve(linalg.cho_factor(information), np.eye(len(information)))
    return covariance


def _prompt_scores(
    data: Comparisons, model: Model, natural: Floats, length: Floats | None
) -> tuple[float, Floats, Floats]:
    """Count prompts, sum their scores, and sum their outer products, in natural coordinates."""
    order, start = counting_sort(data.prompt, len(data.prompts))
    multiplicity = np.ones(len(start)) if data.weight is None else data.weight[order[start]]
    width = model.natural_size
    total, outer = np.zeros(width), np.zeros((width, width))
    edges = np.append(start, len(data))
    begin = 0
    while begin < len(multiplicity):
        end = int(np.searchsorted(edges, edges[begin] + BLOCK_RECORDS, side="right")) - 1
        end = min(max(end, begin + 1), begin + max(1, BLOCK_ENTRIES // width))
        rows = order[edges[begin] : edges[end]]
        index, value = _record_scores(
            data.subset(rows), model, natural, None if length is None else length[rows]
        )
        entries = index.shape[1]
        pointer = (edges[begin : end + 1] - edges[begin]) * entries
        block = sparse.csr_array((value.ravel(), index.ravel(), pointer), (end - begin, width))
        weight = multiplicity[begin:end]
        total += block.T @ weight
        if data.weight is not None:
            block.data *= np.repeat(np.sqrt(weight), np.diff(pointer))
        if block.nnz * entries * SPARSE_COST < block.shape[0] * width * width:
            outer += (block.T @ block).toarray()
        else:
            dense = block.toarray()
            outer += dense.T @ dense
        begin = end
    return float(multiplicity.sum()), total, outer


def _record_scores(
    data: Comparisons, model: Model, natural: Floats, length: Floats | None
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.int32]], Floats]:
    """Columns and values of (Y - p) d eta per record, each (records x entries)."""
    eta = record_predictor(data, model, natural, length)
    scores = natural[: model.candidates]
    tau = natural[model.block("tie")][data.judge] if model.tie else None
    if tau is None:
        residual = data.outcome - logistic(eta)
    else:
        _, mean, drawn = three_outcomes(eta, tau)
        residual = data.outcome - 0.5 - mean
    slope = residual * sensitivity(model, natural)[data.judge]
    columns = [data.first, data.second, data.judge + model.block("sensitivity").start]
    values = [slope, -slope, slope * (scores[data.first] - scores[data.second])]
    covariates: dict[str, Floats | None] = {"position": None, "length": length}
    if "family" in model.terms:
        covariates["family"] = family_contrast(data)
    for name in model.terms:
        columns.append(data.judge + model.block(name).start)
        covariate = covariates[name]
        values.append(residual if covariate is None else residual * covariate)
    if tau is not None:
        columns.append(data.judge + model.block("tie").start)
        values.append((data.outcome == 0.5) - drawn)
    return np.stack(columns, axis=1).astype(np.int32), np.stack(values, axis=1)
