"""What the records, or a plan for them, can tell apart: named checks with the labels concerned.

Three kinds of trouble are told apart, because their remedies differ. Some sets of comparisons
cannot place a candidate at all (groups never compared, or a candidate that only ever won). Some
cannot separate a judge's habit from the candidates (order that follows identity, families that
exhaust candidates and judges, a judge that met too few gaps). And some fits are simply not what
they claim (not stationary, not a minimum, fewer prompts than parameters). Only the last kind needs
verdicts; the first two can be known before any money is spent.

Sources: OSCAR (arXiv 2609.24128), appendix B.3 for stationarity, identification, curvature and
cluster count, proposition 3 for families; Ford (1957) for strong connectivity.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from benchtrial.orchestrator.models.oscar.arrays import Floats, Ints
from benchtrial.orchestrator.models.oscar.newton import BOUND, STATIONARY, Minimum
from benchtrial.orchestrator.models.oscar.table import Comparisons

#: Eigenvalues of the information at or below this share of the largest are not identified (B.3).
IDENTIFIED_SHARE = 1e-10
#: The same for the curvature of the penalized loss (B.3).
CURVED_SHARE = 1e-13
#: Absolute floor of both (B.3).
EIGENVALUE_FLOOR = 1e-12
#: A log-sensitivity this close to its bound is at the bound.
AT_BOUND = 1e-6
#: Two fitted gaps that differ by less than this share of the larger are one gap.
SAME_GAP = 1e-9
#: A net first-slot preference beyond this leaves next to nothing of a verdict to quality.
SATURATED = 0.95


@dataclass(frozen=True)
class Check:
    """One thing that had to hold.

    Attributes
    ----------
    name
        ``stationarity``, ``identification``, ``curvature``, ``cluster_count``, ``connectivity``,
        ``strong_connectivity``, ``order``, ``family`` or ``gaps``.
    passed
        Whether it holds.
    detail
        What was found and, where it fails, how to mend it.
    labels
        The candidates or judges concerned.
    """

    name: str
    passed: bool
    detail: str
    labels: tuple[Hashable, ...] = ()


# Known from the plan alone ---------------------------------------------------------------------


def components(data: Comparisons) -> Ints:
    """Give the connected group of each candidate, compared by any judge in any order."""
    graph = _graph(data, data.first, data.second)
    _, group = csgraph.connected_components(graph, directed=False)
    return group.astype(np.intp)


def strong_components(data: Comparisons) -> Ints:
    """Give the strongly connected group of each candidate.

    An arrow runs from a candidate to each candidate that some verdict (or part of one) preferred
    to it. Between two strong groups every verdict points one way, so their distance has no finite
    maximum-likelihood estimate and is set by the ridge.
    """
    lost = data.outcome < 1
    won = data.outcome > 0
    loser = np.concatenate([data.first[lost], data.second[won]])
    winner = np.concatenate([data.second[lost], data.first[won]])
    _, group = csgraph.connected_components(
        _graph(data, loser, winner), directed=True, connection="strong"
    )
    return group.astype(np.intp)


def design_checks(data: Comparisons, terms: tuple[str, ...]) -> list[Check]:
    """Check what needs only who is shown where to whom."""
    checks = [_connectivity(data)]
    if "position" in terms:
        checks.append(_order(data))
    if "family" in terms:
        checks.append(_family(data))
    return checks


def _connectivity(data: Comparisons) -> Check:
    group = components(data)
    if group.max() == 0:
        return Check("connectivity", passed=True, detail="every candidate is linked to every other")
    groups = _named(data.candidates[group == g] for g in range(group.max() + 1))
    return Check(
        "connectivity",
        passed=False,
        detail=(
            f"the candidates fall into {group.max() + 1} groups that are never compared: {groups}; "
            "contrasts across groups are refused (compare a candidate of each with one of another)"
        ),
        labels=tuple(data.candidates[group != np.bincount(group).argmax()]),
    )


def _order(data: Comparisons) -> Check:
    size = len(data.candidates)
    low, high = np.minimum(data.first, data.second), np.maximum(data.first, data.second)
    pair = (data.judge * size + low) * size + high
    forward = np.unique(pair[data.first < data.second])
    backward = np.unique(pair[data.first > data.second])
    both = np.intersect1d(forward, backward, assume_unique=True) // size**2
    lacking = np.setdiff1d(np.unique(data.judge), both)
    if not len(lacking):
        return Check("order", passed=True, detail="every judge saw some pair in both orders")
    judges = tuple(data.judges[lacking])
    return Check(
        "order",
        passed=False,
        detail=(
            f"{_names(judges)} never saw a pair in both orders: order is confounded with identity, "
            "and position is separated from quality only by the additive form of the model "
            "(show some pairs in both orders)"
        ),
        labels=judges,
    )


def _family(data: Comparisons) -> Check:
    present = set(data.candidate_families)
    judging = {data.judge_families[k] for k in np.unique(data.judge)}
    two = len(present | judging) == 2 and len(present) == 2
    if not two:
        return Check(
            "family", passed=True, detail="some judge stands outside the candidates' two families"
        )
    one = data.candidate_families[0]
    return Check(
        "family",
        passed=False,
        detail=(
            "all candidates and judges belong to two families, so a family's quality and its "
            "judges' favour for it cannot be told apart; contrasts across the two are refused "
            "(add a judge from a family with no candidate, or fit without the family term)"
        ),
        labels=tuple(
            label
            for label, family in zip(data.candidates, data.candidate_families, strict=True)
            if family == one
        ),
    )


# Known from the fit ----------------------------------------------------------------------------


def flat_directions(information: Floats) -> Floats:
    """Columns spanning the directions in which the unpenalized information vanishes (B.3)."""
    values, vectors = np.linalg.eigh(information)
    flat: Floats = vectors[:, values <= max(EIGENVALUE_FLOOR, IDENTIFIED_SHARE * values[-1])]
    return flat


def fit_checks(
    data: Comparisons, minimum: Minimum, flat: Floats, bounded: slice, clusters: int
) -> list[Check]:
    """Run the checks of appendix B.3 on a finished fit, and strong connectivity."""
    size = len(minimum.point.theta)
    checks = [
        Check(
            "stationarity",
            passed=minimum.gradient_per_comparison <= STATIONARY,
            detail=f"largest gradient {minimum.gradient_per_comparison:.1e} per comparison",
        ),
        Check(
            "identification",
            passed=flat.shape[1] == 0,
            detail=(
                f"{size - flat.shape[1]} of {size} directions carry information"
                + ("; the ridge alone places the rest" if flat.shape[1] else "")
            ),
        ),
        _curvature(minimum, bounded),
        Check(
            "cluster_count",
            passed=clusters > size,
            detail=(
                f"{clusters} prompts for {size} parameters"
                + (
                    ""
                    if clusters > size
                    else "; no cluster covariance, which needs more prompts than parameters (ask "
                    "more prompts, fit fewer terms, or use covariance='model')"
                )
            ),
        ),
    ]
    return [*checks, _strong_connectivity(data)]


def _strong_connectivity(data: Comparisons) -> Check:
    group, strong = components(data), strong_components(data)
    outside = np.zeros(len(group), dtype=bool)
    for g in range(group.max() + 1):
        members = group == g
        outside |= members & (strong != np.bincount(strong[members]).argmax())
    labels = tuple(data.candidates[outside])
    if not labels:
        detail = "every candidate can be reached from those it is linked to along lost comparisons"
        return Check("strong_connectivity", passed=True, detail=detail)
    return Check(
        "strong_connectivity",
        passed=False,
        detail=(
            f"all verdicts between {_names(labels)} and the others point one way: the ridge sets "
            "how far apart they are (more comparisons with near neighbours help)"
        ),
        labels=labels,
    )


def _curvature(minimum: Minimum, bounded: slice) -> Check:
    values = np.linalg.eigvalsh(minimum.point.hessian) if len(minimum.point.theta) else np.ones(1)
    floor = max(EIGENVALUE_FLOOR, CURVED_SHARE * float(values[-1]))
    at_bound = bool((np.abs(minimum.point.theta[bounded]) >= BOUND - AT_BOUND).any())
    detail = f"smallest eigenvalue of the penalized Hessian {values[0]:.1e}"
    if at_bound:
        detail += "; a log-sensitivity is at its bound (that judge does not follow the scores)"
    return Check("curvature", passed=bool(values[0] > floor) and not at_bound, detail=detail)


def gap_check(data: Comparisons, scores: Floats, terms: tuple[str, ...]) -> Check:
    """Check that each judge met two distinct gaps; one gap cannot tell slope from habit."""
    needed = 2 if terms else 1
    gap = scores[data.first] - scores[data.second]
    scale = SAME_GAP * max(float(np.abs(gap).max()), np.finfo(float).tiny)
    size = len(scores)
    cell = np.unique((data.judge * size + data.first) * size + data.second)
    judge, pair = np.divmod(cell, size * size)
    gaps = scores[pair // size] - scores[pair % size]
    order = np.lexsort((gaps, judge))
    judge, gaps = judge[order], gaps[order]
    new = np.ones(len(judge), dtype=bool)
    new[1:] = (np.diff(judge) > 0) | (np.diff(gaps) > scale)
    distinct = np.bincount(judge[new], minlength=len(data.judges))
    few = np.flatnonzero(
        (distinct < needed) & (np.bincount(data.judge, minlength=len(distinct)) > 0)
    )
    judges = tuple(data.judges[few])
    if not judges:
        return Check("gaps", passed=True, detail="every judge met enough distinct quality gaps")
    return Check(
        "gaps",
        passed=False,
        detail=(
            f"{_names(judges)} met fewer than {needed} distinct quality gaps, so sensitivity "
            "cannot be told from position (show more pairs, in both orders)"
        ),
        labels=judges,
    )


# Wording ---------------------------------------------------------------------------------------


def _graph(data: Comparisons, source: Ints, target: Ints) -> sparse.csr_array:
    size = len(data.candidates)
    linked = np.zeros((size, size), dtype=bool)
    linked[source, target] = True
    return sparse.csr_array(linked)


def _names(labels: Iterable[Hashable]) -> str:
    return ", ".join(str(label) for label in labels)


def _named(groups: Iterable[npt.NDArray[np.object_] | Iterable[Hashable]]) -> str:
    return " | ".join("{" + _names(group) + "}" for group in groups)
