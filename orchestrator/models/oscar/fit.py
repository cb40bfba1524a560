"""Fitting OSCAR and the models it contains.

One function fits the whole family. ``terms`` says which habits of a judge are modelled and
``sensitivities`` whether judges may differ in how strongly they follow quality:

==================  ==========================================================
J                   ``terms=""``
J+P, J+L, J+F       ``terms="position"``, ``"length"``, ``"family"``
OSCAR               ``terms="position+length+family"``
BT+PLF              the same with ``sensitivities=False``
Davidson+PLF        BT+PLF with ``ties="davidson"``
plain BT            ``terms="", sensitivities=False``
==================  ==========================================================

Ties count one half, and so does any probability in [0, 1]: the loss is a fractional-response
quasi-likelihood, whose point estimates need only a correct mean. Its honest covariance is the
prompt-cluster one.

The ridge (0.05 / 2 times the squared free coordinates, summed loss, not rescaled) makes a finite
minimum exist. It does not identify anything: what the records cannot tell apart is found by the
checks and refused, not quietly filled in by the penalty.

Source: OSCAR (arXiv 2609.24128), sections 3 and 5, appendices B and E.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd

from benchtrial.errors import DataError
from benchtrial.orchestrator.models.oscar.arrays import Floats
from benchtrial.orchestrator.models.oscar.cells import Cells, group
from benchtrial.orchestrator.models.oscar.likelihood import evaluate
from benchtrial.orchestrator.models.oscar.model import TERMS, Model, retained_columns
from benchtrial.orchestrator.models.oscar.newton import Point, minimise
from benchtrial.orchestrator.models.oscar.result import OscarFit
from benchtrial.orchestrator.models.oscar.table import Comparisons, encode


@dataclass(frozen=True)
class Specification:
    """Which model to fit, apart from the records.

    Fields as in :func:`fit_oscar`; ``known_position`` holds the position coefficients (by judge)
    at given values instead of estimating them.
    """

    terms: tuple[str, ...]
    sensitivities: bool = True
    tie: bool = False
    ridge: float = 0.05
    reference: Hashable | None = None
    panel: tuple[Hashable, ...] | None = None
    length_scale: float | None = None
    known_position: Floats | None = None


def fit_oscar(
    comparisons: pd.DataFrame | Comparisons,
    *,
    terms: str | None = None,
    sensitivities: bool = True,
    ties: str = "half",
    ridge: float = 0.05,
    reference: Hashable | None = None,
    panel: Sequence[Hashable] | None = None,
    length_scale: float | None = None,
    weights: "pd.Series[float] | None" = None,
    start: OscarFit | None = None,
) -> OscarFit:
    """Fit candidate scores, judge sensitivities and judge-specific biases.

    Parameters
    ----------
    comparisons
        One row per verdict in displayed order: ``judge, prompt, first, second, outcome`` and, for
        the length and family terms, ``first_length, second_length`` and ``first_family,
        second_family, judge_family``. Rows without an outcome are left out and counted.
    terms
        Names joined by ``+`` out of position, length, family; ``""`` for none. ``None`` takes
        every term whose columns are present and says so. With no more prompts than parameters
        only position is kept, and the warnings say so.
    sensitivities
        Whether each judge has its own sensitivity; otherwise all are one.
    ties
        ``"half"``, or ``"davidson"`` for a tie parameter per judge and a three-outcome likelihood.
    ridge
        Penalty on every free coordinate of the summed loss.
    reference
        The judge whose sensitivity is one; the first by default. Only the ridge depends on it.
    panel
        Judges over which win probabilities average the sensitivity. By default all that are not
        human and whose sensitivity the records identify.
    length_scale
        Divisor of the log length ratio; its standard deviation over these records by default.
    weights
        Multiplicity of each prompt, by prompt; once each by default. A bootstrap draw is a vector
        of multiplicities.
    start
        A fit to start from, for a refit of grown data.

    Raises
    ------
    DataError
        If the table or an argument cannot be used.
    NotConverged
        If the optimiser does not reach a stationary point.
    """
    data = comparisons if isinstance(comparisons, Comparisons) else encode(comparisons)
    if ties not in {"half", "davidson"}:
        raise DataError(f"ties={ties!r}: choose 'half' or 'davidson'")
    if not (ridge >= 0 and np.isfinite(ridge)):
        raise DataError(f"ridge={ridge!r} must be a finite number of at least 0")
    if ties == "davidson" and data.fractional:
        raise DataError(
            "ties='davidson' needs verdicts of 0, 0.5 or 1; this table holds probabilities "
            "(use ties='half')"
        )
    if weights is not None:
        data = data.reweighted(_multiplicities(weights, data))
    named, notes = resolve_terms(terms, data)
    specification = Specification(
        terms=named,
        sensitivities=sensitivities,
        tie=ties == "davidson",
        ridge=ridge,
        reference=reference,
        panel=None if panel is None else tuple(panel),
        length_scale=length_scale,
    )
    model, length = build_model(data, specification)
    clusters = data.clusters
    dropped = tuple(name for name in named if name != "position")
    if clusters <= model.size and dropped:
        notes.append(
            f"{clusters} prompts for {model.size} parameters: fitted with "
            f"{'position only' if 'position' in named else 'no term'}; "
            f"{' and '.join(dropped)} left out until there are more prompts"
        )
        kept = tuple(name for name in named if name == "position")
        specification = replace(specification, terms=kept)
        model, length = build_model(data, specification)
    return _fit(data, specification, model, length, notes=notes, start=start)


def fit_encoded(
    data: Comparisons,
    specification: Specification,
    *,
    notes: Sequence[str] = (),
    start: OscarFit | None = None,
) -> OscarFit:
    """Fit exactly the model that is named, on a checked table (for resampling and prediction)."""
    model, length = build_model(data, specification)
    return _fit(data, specification, model, length, notes=notes, start=start)


def _fit(
    data: Comparisons,
    specification: Specification,
    model: Model,
    length: Floats | None,
    *,
    notes: Sequence[str],
    start: OscarFit | None,
) -> OscarFit:
    cells = group(data, model, length)
    theta = np.zeros(model.size) if start is None else start.carried_to(data, model)
    ridge = specification.ridge
    return OscarFit(
        data=data,
        model=model,
        ridge=ridge,
        minimum=minimise(
            _penalized(cells, model, ridge), theta, model.log_sensitivities, data.size
        ),
        length_scale=_length_scale(data, specification),
        named_panel=specification.panel,
        notes=(*data.notes, *notes, *_dropped_columns(data, model)),
    )


def _penalized(cells: Cells, model: Model, ridge: float) -> Callable[[Floats], Point]:
    """Return the loss of equation (4) with its derivatives, in free coordinates."""
    penalty = ridge * np.eye(model.size)

    def at(theta: Floats) -> Point:
        raw = evaluate(cells, model, model.natural(theta))
        return Point(
            theta=theta,
            loss=raw.loss + ridge / 2 * float(theta @ theta),
            gradient=model.gradient(raw.gradient) + ridge * theta,
            hessian=model.hessian(raw.hessian) + penalty,
            expected=partial(_expected, model, raw.information, ridge),
        )

    return at


def _expected(model: Model, natural: Floats, ridge: float) -> Floats:
    """Penalized expected information in free coordinates."""
    return model.hessian(natural) + ridge * np.eye(model.size)


def build_model(data: Comparisons, specification: Specification) -> tuple[Model, Floats | None]:
    """Choose the free coordinates for these records; also return the length contrast."""
    length = length_contrast(data, specification)
    model = Model(
        terms=specification.terms,
        sensitivities=specification.sensitivities,
        tie=specification.tie,
        reference=_reference(data, specification.reference),
        kept=retained_columns(data, specification.terms, length),
        candidates=len(data.candidates),
        judges=len(data.judges),
    )
    if specification.known_position is not None:
        model = _with_known_position(model, specification.known_position)
    if specification.panel is not None and (
        unknown := [judge for judge in specification.panel if judge not in data.judges]
    ):
        raise DataError(f"panel names {unknown[0]!r}, which judged nothing in this table")
    return model, length


def _with_known_position(model: Model, position: Floats) -> Model:
    kept = model.kept.copy()
    kept[model.terms.index("position")] = False
    fixed = np.zeros(model.natural_size)
    fixed[model.block("position")] = position
    return replace(model, kept=kept, fixed=fixed)


def length_contrast(data: Comparisons, specification: Specification) -> Floats | None:
    """L of section 3.2 per record, in standard deviations of the log length ratio."""
    if "length" not in specification.terms:
        return None
    assert data.length_ratio is not None  # noqa: S101  (the terms were checked)
    contrast: Floats = data.length_ratio / _length_scale(data, specification)
    return contrast


def standard_length_scale(data: Comparisons) -> float:
    """s_L of section 3.2: empirical standard deviation of the log length ratio, divisor N."""
    if data.length_ratio is None:
        return 1.0
    return float(np.std(data.length_ratio)) or 1.0


def _length_scale(data: Comparisons, specification: Specification) -> float:
    if specification.length_scale is None:
        return standard_length_scale(data)
    if not specification.length_scale > 0:
        raise DataError(f"length_scale={specification.length_scale!r} must be above 0")
    return specification.length_scale


def resolve_terms(terms: str | None, data: Comparisons) -> tuple[tuple[str, ...], list[str]]:
    """Terms in the order of the paper, and what was chosen on the caller's behalf."""
    lacking = data.lacking
    if terms is None:
        chosen = tuple(name for name in TERMS if name not in lacking)
        absent = "".join(f"; without {name} ({why})" for name, why in lacking.items())
        return chosen, [f"terms: {'+'.join(chosen)}{absent}"]
    names = [name.strip() for name in terms.split("+")] if terms.strip() else []
    if unknown := [name for name in names if name not in TERMS]:
        raise DataError(
            f"terms={terms!r}: {unknown[0]!r} is no term; join any of {', '.join(TERMS)} with '+'"
        )
    for name in names:
        if name in lacking:
            raise DataError(f"terms={terms!r}: cannot fit {name}: {lacking[name]}")
    return tuple(name for name in TERMS if name in names), []


def _reference(data: Comparisons, label: Hashable | None) -> int:
    if label is None:
        return int(data.judge.min())
    if label not in data.judges:
        raise DataError(
            f"reference={label!r} judged nothing in this table; choose one of "
            f"{', '.join(map(str, data.judges))}"
        )
    return int(data.judges.get_indexer(pd.Index([label]))[0])


def _multiplicities(weights: "pd.Series[float]", data: Comparisons) -> Floats:
    multiplicity = np.asarray(weights.reindex(data.prompts).fillna(0.0), dtype=np.float64)
    if (multiplicity < 0).any() or not multiplicity.any():
        raise DataError("weights must be multiplicities by prompt: at least 0, and not all 0")
    return multiplicity


def _dropped_columns(data: Comparisons, model: Model) -> list[str]:
    """Say which coefficients are fixed at zero because the records cannot show them."""
    notes = []
    for name, kept in zip(model.terms, model.kept, strict=True):
        if not kept.all() and (name != "position" or model.fixed is None):
            judges = ", ".join(str(label) for label in data.judges[~kept])
            notes.append(f"{name} coefficient fixed at 0 for {judges}: no independent variation")
    return notes
