"""The coordinates of the OSCAR family: which numbers a model has and which of them are free.

*Natural* coordinates are one score per candidate, then per judge the log-sensitivity v and one
coefficient for each term: ``M + K (1 + terms)`` numbers. The optimiser works in *free* coordinates
(u, v, b): scores s = C u with normalized Helmert contrasts C, no v for the reference judge, and
only those coefficients that the records can tell apart (:func:`retained_columns`). The map from
free to natural is linear, so derivatives are assembled once in natural coordinates and projected.

Source: OSCAR (arXiv 2609.24128), appendices B.1 and B.2.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from benchtrial.orchestrator.models.oscar.arrays import Floats, Ints
from benchtrial.orchestrator.models.oscar.table import Comparisons

#: A covariate is kept if its part orthogonal to the earlier ones exceeds this share of it (B.2).
RANK_TOLERANCE = 1e-10
#: The same share seen through sums of squares, above which rounding cannot be the cause: half the
#: digits of a double, with room to spare. Below it the records themselves are looked at.
CLEAR_SHARE = 1e-5

TERMS = ("position", "length", "family")


@dataclass(frozen=True, eq=False)
class Model:
    """What is fitted: the terms, and which coordinates are free.

    ``tie`` adds Davidson's tie parameter; ``kept`` says for every term (rows, in the order of
    ``terms``) and judge (columns) whether the coefficient is free. ``fixed`` are natural
    coordinates that are known beforehand (position effects from matched swaps), or None.
    """

    terms: tuple[str, ...]
    sensitivities: bool
    tie: bool
    reference: int
    kept: npt.NDArray[np.bool_]
    candidates: int
    judges: int
    fixed: Floats | None = None

    @property
    def judged(self) -> bool:
        """Whether anything in the model depends on who judges."""
        return self.sensitivities or self.tie or bool(self.terms)

    @property
    def natural_size(self) -> int:
        """Number of natural coordinates."""
        return self.candidates + self.judges * (1 + len(self.blocks))

    @property
    def blocks(self) -> tuple[str, ...]:
        """Blocks of per-judge coefficients after the log-sensitivities."""
        return (*self.terms, "tie") if self.tie else self.terms

    @cached_property
    def indices(self) -> dict[str, Ints]:
        """Natural indices of each block of per-judge numbers."""
        blocks = {name: self.block(name) for name in ("sensitivity", *self.blocks)}
        return {name: np.arange(block.start, block.stop) for name, block in blocks.items()}

    def block(self, name: str) -> slice:
        """Natural coordinates of one block of per-judge numbers (``sensitivity`` or a term)."""
        position = 0 if name == "sensitivity" else 1 + self.blocks.index(name)
        start = self.candidates + position * self.judges
        return slice(start, start + self.judges)

    @cached_property
    def free(self) -> Ints:
        """Natural indices of the free per-judge coordinates, after the scores."""
        sensitivity = np.full(self.judges, self.sensitivities)
        sensitivity[self.reference] = False
        blocks = [sensitivity, *self.kept]
        if self.tie:
            blocks.append(np.ones(self.judges, dtype=bool))
        return self.candidates + np.flatnonzero(np.concatenate(blocks))

    @cached_property
    def helmert(self) -> Floats:
        """C of appendix B.1: (M x M-1), orthonormal columns that sum to zero."""
        size = self.candidates
        contrasts = np.zeros((size, size - 1))
        for j in range(1, size):
            contrasts[:j, j - 1] = 1.0
            contrasts[j, j - 1] = -j
            contrasts[:, j - 1] /= np.sqrt(j * (j + 1))
        return contrasts

    @property
    def size(self) -> int:
        """dim(theta), the number of free coordinates."""
        return self.candidates - 1 + len(self.free)

    @property
    def log_sensitivities(self) -> slice:
        """Free coordinates that are log-sensitivities (they alone are bounded)."""
        count = self.judges - 1 if self.sensitivities else 0
        return slice(self.candidates - 1, self.candidates - 1 + count)

    def natural(self, theta: Floats) -> Floats:
        """Free coordinates to natural ones."""
        natural = np.zeros(self.natural_size) if self.fixed is None else self.fixed.copy()
        natural[: self.candidates] = self.helmert @ theta[: self.candidates - 1]
        natural[self.free] = theta[self.candidates - 1 :]
        return natural

    def shift(self, theta: Floats) -> Floats:
        """Change of the natural coordinates when the free ones change by ``theta``."""
        moved = self.natural(theta)
        return moved if self.fixed is None else moved - self.fixed

    def gradient(self, natural: Floats) -> Floats:
        """Project a derivative with respect to natural coordinates (a vector or rows of them)."""
        scores = natural[..., : self.candidates] @ self.helmert
        projected: Floats = np.concatenate([scores, natural[..., self.free]], axis=-1)
        return projected

    def hessian(self, natural: Floats) -> Floats:
        """Project a symmetric matrix of second derivatives."""
        return self.gradient(self.gradient(natural).T)

    def spread(self, free: Floats) -> Floats:
        """Covariance of the natural coordinates from that of the free ones."""
        jacobian = np.zeros((self.natural_size, self.size))
        jacobian[: self.candidates, : self.candidates - 1] = self.helmert
        jacobian[self.free, np.arange(self.candidates - 1, self.size)] = 1.0
        covariance: Floats = jacobian @ free @ jacobian.T
        return covariance


# Which coefficients the records can tell apart -------------------------------------------------


def retained_columns(
    data: Comparisons, terms: tuple[str, ...], length: Floats | None
) -> npt.NDArray[np.bool_]:
    """Keep, within each judge and in order, the covariates that raise the rank (B.2).

    Returns (terms x judges).
    """
    judges = len(data.judges)
    columns = [_column(data, name, length) for name in terms]
    gram = np.zeros((judges, len(terms), len(terms)))
    for i, one in enumerate(columns):
        for j in range(i, len(terms)):
            other = columns[j]
            product = one if terms[j] == "position" else one * other
            gram[:, i, j] = gram[:, j, i] = np.bincount(data.judge, product, judges)
    kept = np.zeros((len(terms), judges), dtype=bool)
    left = gram.copy()
    for position in range(len(terms)):
        total = gram[:, position, position]
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.sqrt(np.maximum(left[:, position, position] / total, 0.0))
        for k in np.flatnonzero((share < CLEAR_SHARE) & (total > 0)):
            mine = data.judge == k
            earlier = np.flatnonzero(kept[:position, k])
            share[k] = _exact_share(
                np.stack([columns[i][mine] for i in (*earlier, position)], axis=1)
            )
        kept[position] = share > RANK_TOLERANCE  # False for a column of zeros, whose share is NaN
        swept = left[kept[position]]
        pivot = swept[:, position, position]
        row = swept[:, position, :]
        left[kept[position]] = swept - row[:, :, None] * row[:, None, :] / pivot[:, None, None]
    return kept


def _column(data: Comparisons, name: str, length: Floats | None) -> Floats:
    if name == "position":
        return np.ones(len(data))
    if name == "length":
        assert length is not None  # noqa: S101  (the caller checked the columns)
        return length
    return family_contrast(data)


def family_contrast(data: Comparisons) -> Floats:
    """F of section 3.2, per record: 1 if only the first response is of the judge's family, ..."""
    assert data.same_family is not None  # noqa: S101  (the caller checked the columns)
    same = data.same_family.astype(np.float64)
    contrast: Floats = same[data.judge, data.first] - same[data.judge, data.second]
    return contrast


def _exact_share(matrix: Floats) -> float:
    """Return the norm of the last column orthogonal to the others, as a share of its own, by QR."""
    matrix = matrix / np.linalg.norm(matrix, axis=0)
    return float(abs(np.linalg.qr(matrix)[1][-1, -1]))
