"""Products of matrices that are dense or sparse, whichever is faster.

A batch that holds a good share of all items visits a good share of all cells, and a dense product
beats a sparse one; a small block of a large pool is the opposite. The likelihood does not care.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]

DENSE_CELLS = 40_000_000
"""Largest batches x cells matrix of counts that is kept dense (320 MB would be 4e7 doubles)."""

DENSE_RATIO = 24
"""A dense product beats a sparse one until a batch leaves all but 1 in 24 cells empty."""

CHUNK = 1 << 12
"""Entries of a sparse product that are worked on at once, so that they stay in cache."""

SMALL_DESIGN = 60_000
"""Size up to which a design matrix is multiplied as a dense array."""


def is_sparse(matrix: Any) -> bool:
    """Return whether a matrix is sparse."""
    return bool(sparse.issparse(matrix))


def count_matrix(path: Integers, cell: Integers, shape: tuple[int, int]) -> Any:
    """Count how often each path visits each cell; dense where that is the faster product."""
    rows, columns = shape
    if rows * columns <= min(DENSE_CELLS, DENSE_RATIO * len(path)):
        return np.bincount(path * columns + cell, minlength=rows * columns).reshape(shape) * 1.0
    return sparse.csr_array((np.ones(len(path)), (path, cell)), shape)


def design_matrix(rows: Integers, columns: Integers, values: Floats, shape: tuple[int, int]) -> Any:
    """Return the design of the cells, dense if small."""
    matrix = sparse.csr_array((values, (rows, columns)), shape)
    return matrix.toarray() if shape[0] * shape[1] <= SMALL_DESIGN else matrix


def cross(left: Any, weights: Floats, right: Any) -> Floats:
    """Return ``left.T @ diag(weights) @ right`` as a dense array."""
    if is_sparse(left):
        return np.asarray((left.T @ sparse.diags_array(weights) @ right).toarray())
    return np.asarray(left.T @ (weights[:, None] * right))


def gram(rows: Any, weights: Floats) -> Floats:
    """Return ``rows.T @ diag(weights) @ rows`` as a dense array."""
    if is_sparse(rows):
        return np.asarray((rows.T @ sparse.diags_array(weights) @ rows).toarray())
    return np.asarray(rows.T @ (weights[:, None] * rows))


def sampled_product(counts: Any, weights: Floats, table: Floats) -> Any:
    """Return ``counts * (weights @ table.T)``, computed only where ``counts`` is not zero."""
    if not is_sparse(counts):
        return counts * (weights @ table.T)
    data: Floats = counts.data
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    values = np.empty(len(data))
    for start in range(0, len(values), CHUNK):
        part = slice(start, start + CHUNK)
        values[part] = (weights[rows[part]] * table[counts.indices[part]]).sum(axis=1)
    return sparse.csr_array((values * data, counts.indices, counts.indptr), counts.shape)


def beside(left: Any, right: Floats) -> Any:
    """Put dense columns to the right of a matrix, which keeps its kind."""
    if is_sparse(left):
        return sparse.csr_array(sparse.hstack([left, sparse.csr_array(right)]))
    return np.hstack([left, right])
