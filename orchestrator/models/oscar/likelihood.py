"""The OSCAR likelihood, its gradient and its exact Hessian, from sums per cell.

The linear predictor of record t, judged by k with a first and b second, is

    eta = gamma_k (s_a - s_b) + position_k + length_k L_t + family_k F_kab.

One pass over the rows leaves five sums per cell: of the residual r = p - y times 1 and L, and of
the weight w = p (1 - p) times 1, L and L^2 (without length, two). Gradient and Hessian, including
the residual term (eta is bilinear in s and gamma, so its second derivative is not zero), are
linear in these sums.

Davidson's three-outcome likelihood, (P(A), P(B), P(tie)) = softmax(eta/2, -eta/2, tau_k), has the
same cells: the residual becomes E[m] - m with m = 1/2, -1/2, 0, the weight Var(m), and tau is one
more coefficient per judge with its own sums.

Source: OSCAR (arXiv 2609.24128), equations (2), (4), (9) and appendix E.1; Davidson (1970).
"""

from dataclasses import dataclass

import numpy as np

from benchtrial.orchestrator.models.oscar.arrays import Floats, Ints
from benchtrial.orchestrator.models.oscar.cells import Cells
from benchtrial.orchestrator.models.oscar.model import Model

#: Factors (1 + e) <= 2 multiplied before one logarithm is taken; 2^8 is far from overflow.
LOG_EVERY = 8


@dataclass(frozen=True)
class Derivatives:
    """Loss and derivatives in natural coordinates, without the ridge."""

    loss: float
    gradient: Floats
    information: Floats
    residual: Floats

    @property
    def hessian(self) -> Floats:
        """Exact matrix of second derivatives."""
        return self.information + self.residual


# One pass --------------------------------------------------------------------------------------


def evaluate(cells: Cells, model: Model, natural: Floats) -> Derivatives:
    """Loss, gradient, expected information and residual Hessian at natural coordinates."""
    sums = _davidson(cells, model, natural) if model.tie else _logistic(cells, model, natural)
    return _assemble(cells, model, natural, sums)


@dataclass(frozen=True)
class _Sums:
    """Sums per cell: residual r (times 1, L), weight w (times 1, L, L^2), and those of tau."""

    loss: float
    r: Floats
    w: Floats
    rl: Floats | None = None
    wl: Floats | None = None
    wll: Floats | None = None
    t: Floats | None = None
    tt: Floats | None = None
    te: Floats | None = None
    tel: Floats | None = None


def sensitivity(model: Model, natural: Floats) -> Floats:
    """gamma_k = exp(v_k)."""
    gamma: Floats = np.exp(natural[model.block("sensitivity")])
    return gamma


def predictor(cells: Cells, model: Model, natural: Floats) -> tuple[Floats, Floats | None]:
    """Return eta at L = 0 and the slope in L, per cell."""
    scores = natural[: model.candidates]
    eta = sensitivity(model, natural)[cells.judge] * (scores[cells.first] - scores[cells.second])
    if "position" in model.terms:
        eta += natural[model.block("position")][cells.judge]
    if "family" in model.terms:
        eta += natural[model.block("family")][cells.judge] * cells.family
    slope = natural[model.block("length")][cells.judge] if "length" in model.terms else None
    return eta, slope


def row_predictor(cells: Cells, model: Model, natural: Floats) -> Floats:
    """Return eta per row."""
    eta, slope = predictor(cells, model, natural)
    if slope is None:
        return eta
    repeats = cells.rows_per_cell
    assert cells.length is not None  # noqa: S101  (a slope means lengths)
    rows: Floats = np.repeat(eta, repeats) + np.repeat(slope, repeats) * cells.length
    return rows


def _logistic(cells: Cells, model: Model, natural: Floats) -> _Sums:
    """Sum over the rows of each cell, one cache-sized block of cells after the other."""
    eta, slope = predictor(cells, model, natural)
    moments = np.empty((2 if slope is None else 5, len(eta)))
    loss = 0.0
    for mine, rows, gather in cells.blocks:
        outcome = cells.outcome[rows]
        block = eta[mine]
        length = None
        if slope is not None and cells.length is not None:
            length = cells.length[rows]
            repeats = cells.rows_per_cell[mine]
            block = np.repeat(block, repeats) + np.repeat(slope[mine], repeats) * length
        decay = np.exp(-np.abs(block))
        decay += 1.0
        positive = np.maximum(block, 0.0)
        larger = 1.0 / decay
        weight = larger * (1.0 - larger)
        # p = 1/2 + (larger - 1/2) with the sign of eta; the residual is p - y, times the count.
        residual = np.copysign(larger - 0.5, block)
        residual += 0.5
        if cells.count is None:
            loss += float(positive.sum()) + _log_of_product(decay)
        else:
            count = cells.count[rows]
            loss += float(count @ (positive + np.log(decay)))
            residual *= count
            weight *= count
        residual -= outcome
        loss -= float(outcome @ block)
        columns = [residual, weight]
        if length is not None:
            weight_length = weight * length
            columns += [residual * length, weight_length, weight_length * length]
        for moment, column in zip(moments, columns, strict=True):
            moment[mine] = column if length is None else gather @ column
    return _Sums(loss, *moments)


def _log_of_product(factors: Floats) -> float:
    """Sum of logarithms of numbers in [1, 2], a few multiplied at a time."""
    whole = len(factors) - len(factors) % LOG_EVERY
    products = np.multiply.reduce(factors[:whole].reshape(LOG_EVERY, -1), axis=0)
    return float(np.log(products).sum() + np.log(factors[whole:]).sum())


def _davidson(cells: Cells, model: Model, natural: Floats) -> _Sums:
    assert cells.ties is not None  # noqa: S101  (grouping for a tie model counts them)
    eta = row_predictor(cells, model, natural)
    tau = natural[model.block("tie")][np.repeat(cells.judge, cells.rows_per_cell)]
    log_partition, mean, drawn = three_outcomes(eta, tau)
    count = np.ones_like(eta) if cells.count is None else cells.count
    half = cells.outcome - count / 2
    loss = float(count @ log_partition - half @ eta - cells.ties @ tau)
    weight = count * ((1 - drawn) / 4 - mean**2)
    cross = -count * mean * drawn
    residual = count * mean - half
    length = cells.length if "length" in model.terms else None
    return _Sums(
        loss,
        r=cells.total(residual),
        w=cells.total(weight),
        rl=None if length is None else cells.total(residual * length),
        wl=None if length is None else cells.total(weight * length),
        wll=None if length is None else cells.total(weight * length**2),
        t=cells.total(count * drawn - cells.ties),
        tt=cells.total(count * drawn * (1 - drawn)),
        te=cells.total(cross),
        tel=None if length is None else cells.total(cross * length),
    )


def three_outcomes(eta: Floats, tau: Floats) -> tuple[Floats, Floats, Floats]:
    """Davidson's model: log partition function, (P(A) - P(B)) / 2 and P(tie) (E.1)."""
    top = np.maximum(np.abs(eta) / 2, tau)
    win, lose, tie = np.exp(eta / 2 - top), np.exp(-eta / 2 - top), np.exp(tau - top)
    whole = win + lose + tie
    return top + np.log(whole), (win - lose) / (2 * whole), tie / whole


def _assemble(cells: Cells, model: Model, natural: Floats, sums: _Sums) -> Derivatives:
    """Spread sums per cell over the natural coordinates.

    A per-judge coordinate has d eta / d q = x (constant in the cell) or x L: x is gamma d for the
    log-sensitivity, F for the family, 1 for position and for length, whose column is L. So every
    derivative is a sum over cells of levels times a moment in L.
    """
    M = model.candidates
    gamma = sensitivity(model, natural)
    names, levels, powers = _coordinates(cells, model, natural, gamma)
    at = model.indices
    pairs = [(i, j) for i in range(len(names)) for j in range(i, len(names))]
    r, w = (sums.r, sums.rl), (sums.w, sums.wl, sums.wll)

    slopes = [_times(r[powers[i]], levels[i]) for i in range(len(names))]
    crossed = [_times(w[powers[i]], levels[i]) for i in range(len(names))]
    curved = [_times(w[powers[i] + powers[j]], levels[i], levels[j]) for i, j in pairs]
    per_judge = cells.by_judge([*slopes, *curved])
    net = cells.by_candidate([sums.r, *crossed])

    gradient = np.zeros(model.natural_size)
    information = np.zeros((model.natural_size, model.natural_size))
    residual = np.zeros_like(information)
    gradient[:M] = gamma @ net[0]
    for name, total in zip(names, per_judge, strict=False):
        gradient[at[name]] = total
    for (i, j), total in zip(pairs, per_judge[len(names) :], strict=True):
        information[at[names[i]], at[names[j]]] = total
        information[at[names[j]], at[names[i]]] = total
    for name, total in zip(names, net[1:], strict=True):
        _mirror(information, at[name], gamma[:, None] * total)
    information[:M, :M] = _laplacian(cells, gamma[cells.judge] ** 2 * sums.w)
    v = at["sensitivity"]
    residual[v, v] = per_judge[0]
    _mirror(residual, v, gamma[:, None] * net[0])
    if model.tie:
        crossed = [_times((sums.te, sums.tel)[powers[i]], levels[i]) for i in range(len(names))]
        tau = at["tie"]
        per_judge = cells.by_judge([_times(sums.t), _times(sums.tt), *crossed])
        gradient[tau] = per_judge[0]
        information[tau, tau] = per_judge[1]
        for name, total in zip(names, per_judge[2:], strict=True):
            information[tau, at[name]] = total
            information[at[name], tau] = total
        net = cells.by_candidate([_times(sums.te)])
        _mirror(information, tau, gamma[:, None] * net[0])
    return Derivatives(sums.loss, gradient, information, residual)


def _coordinates(
    cells: Cells, model: Model, natural: Floats, gamma: Floats
) -> tuple[list[str], list[Floats | None], list[int]]:
    """Names, levels x (None for 1) and powers of L of the per-judge coordinates of eta."""
    scores = natural[: model.candidates]
    signal = gamma[cells.judge] * (scores[cells.first] - scores[cells.second])
    level: dict[str, Floats | None] = {"sensitivity": signal, "family": cells.family}
    names = ["sensitivity", *model.terms]
    return names, [level.get(name) for name in names], [int(name == "length") for name in names]


def _times(values: Floats | None, *levels: Floats | None) -> Floats:
    assert values is not None  # noqa: S101  (a model has the sums of its own terms)
    for level in levels:
        if level is not None:
            values = values * level
    return values


def _mirror(matrix: Floats, rows: Ints, block: Floats) -> None:
    """Write a (rows x candidates) block and its transpose."""
    matrix[rows, : block.shape[1]] = block
    matrix[: block.shape[1], rows] = block.T


def _laplacian(cells: Cells, weight: Floats) -> Floats:
    """Sum of weight (e_first - e_second)(e_first - e_second)' over cells."""
    M = cells.candidates
    between = np.bincount(cells.first * M + cells.second, weight, minlength=M * M).reshape(M, M)
    between = between + between.T
    laplacian: Floats = np.diag(between.sum(axis=1)) - between
    return laplacian
