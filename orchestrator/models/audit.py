"""What a plan can tell, before any money is spent on it.

Three answers, from the plan alone: is it balanced (counted from its rows), are the contrasts of
interest identified (by the information that the plan would collect), and how large will their
standard errors be. The last two need parameter values that nobody knows yet, so they are taken at a
*nominal* point that is neither kind nor cruel: scores spread evenly with a root mean square of 1/2,
unit sensitivities and no bias for pairs; acceptance one half and no lag effect for batches.

The information of a batch is that of a linear mixed model with the weight p (1 - p) of the nominal
acceptance, which is what Newton's method for the GLMM works with at that point; lags enter through
their mean and variance. A real study differs by the spread of its items and by its lost verdicts.

A recorded table can be audited as well: then the rows that were lost are lost here too.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import pandas as pd

from benchtrial.designs.balance import Balance, balance
from benchtrial.errors import DataError
from benchtrial.orchestrator.models.oscar.arrays import Floats
from benchtrial.orchestrator.models.oscar.cells import group
from benchtrial.orchestrator.models.oscar.fit import build_model
from benchtrial.orchestrator.models.oscar.heldout import specification
from benchtrial.orchestrator.models.oscar.identification import (
    Check,
    design_checks,
    flat_directions,
    gap_check,
)
from benchtrial.orchestrator.models.oscar.likelihood import evaluate
from benchtrial.orchestrator.models.oscar.model import TERMS, Model
from benchtrial.orchestrator.models.oscar.newton import Point
from benchtrial.orchestrator.models.oscar.table import Comparisons, encode
from benchtrial.orchestrator.models.oscar.uncertainty import FLAT_SHARE, Uncertainty

#: Root mean square of the nominal candidate scores: pairs at a distance of a few tenths to one
#: logit, where judges of close systems work.
NOMINAL_SPREAD = 0.5
#: Standard deviation of the nominal batch intercept, in the middle of the judges measured so far.
NOMINAL_BATCH_SD = 0.7
#: Nominal acceptance; its weight p (1 - p) is the largest there is.
NOMINAL_ACCEPTANCE = 0.5
#: Multiplier that scatters nominal scores over candidates whatever the order of their ids: the
#: golden ratio's fractional part spreads any number of points evenly.
GOLDEN = 0.6180339887498949


@runtime_checkable
class Schedule(Protocol):
    """What every schedule can do: list its rows."""

    def to_frame(self) -> pd.DataFrame:
        """Return one row per shown item or pair."""


@dataclass(frozen=True, eq=False)
class Audit:
    """What a plan can tell.

    Attributes
    ----------
    balance
        Counts of positions, carryover, swaps and concurrence.
    checks
        Identification, by name, with the labels concerned and the remedy.
    expected
        For pairs: ``first, second, se`` of h_ij (log-odds, independent verdicts). For batches:
        ``judge, first, second, se`` of the difference of two items. NaN if not identified.
    """

    balance: Balance
    checks: tuple[Check, ...]
    expected: pd.DataFrame

    @property
    def identified(self) -> bool:
        """Whether every contrast of the plan is identified."""
        return bool(self.expected["se"].notna().all())

    @property
    def faults(self) -> tuple[Check, ...]:
        """The identification checks that failed."""
        return tuple(check for check in self.checks if not check.passed)

    def __str__(self) -> str:
        se = self.expected["se"]
        lines = [str(self.balance), "identification"]
        lines += [
            f"  {check.name}: {'ok' if check.passed else 'fault'}, {check.detail}"
            for check in self.checks
        ]
        if se.notna().any():
            lines.append(
                f"expected standard errors of contrasts: {se.min():.3f} to {se.max():.3f} logits, "
                f"median {se.median():.3f}"
            )
        if se.isna().any():
            lines.append(f"{int(se.isna().sum())} of {len(se)} contrasts are not identified")
        return "\n".join(lines)


def audit(schedule_or_table: Schedule | pd.DataFrame, *, model: str, lags: int = 1) -> Audit:
    """Audit a plan or a recorded table for one model.

    Parameters
    ----------
    schedule_or_table
        A schedule, or a table with the columns of the ratings or comparisons table.
    model
        ``"glmm"`` for batches. For pairs a model of the OSCAR family by its name (``"J"``,
        ``"J+P"``, ``"OSCAR"``, ...) or its terms joined by ``+``; ``"oscar"`` takes every term
        whose columns the table has.
    lags
        Lags of the GLMM.

    Raises
    ------
    DataError
        If the plan is not of the model's kind or lacks a column of a term.
    """
    plan = schedule_or_table
    frame = plan if isinstance(plan, pd.DataFrame) else plan.to_frame()
    pairs = {"first", "second"} <= set(frame.columns)
    if pairs == (model == "glmm"):
        kind, needed = ("pairs", "batches") if pairs else ("batches", "pairs")
        raise DataError(f"model={model!r} is for {needed}; this plan is one of {kind}")
    counted = balance(schedule_or_table)  # type: ignore[arg-type]  # a schedule or a table
    if not pairs:
        expected = _batch_errors(frame, lags)
        return Audit(counted, _batch_checks(expected), expected)
    data = _planned(frame)
    wanted = specification(_terms(model, data), data)
    nominal, _ = build_model(data, wanted)
    uncertainty = _nominal_uncertainty(data, nominal)
    checks = _pair_checks(data, nominal, uncertainty, counted)
    return Audit(counted, checks, _pair_errors(data, nominal, uncertainty))


# Pairs -----------------------------------------------------------------------------------------


def _planned(frame: pd.DataFrame) -> Comparisons:
    """Read a plan as a table whose verdicts are all still open."""
    if "outcome" in frame.columns:
        return encode(frame)
    columns = {"outcome": 0.5}
    if "judge" not in frame.columns:
        columns["judge"] = 0
    return encode(frame.assign(**columns))


def _terms(model: str, data: Comparisons) -> str:
    if model.lower() != "oscar":
        return model
    return "+".join(name for name in TERMS if name not in data.lacking)


def _nominal_scores(candidates: int) -> Floats:
    order = np.argsort(np.argsort((np.arange(candidates) * GOLDEN) % 1.0))
    scores = order - order.mean()
    spread: Floats = scores * NOMINAL_SPREAD / max(float(np.sqrt(np.mean(scores**2))), 1e-12)
    return spread


def _nominal_uncertainty(data: Comparisons, model: Model) -> Uncertainty:
    natural = np.zeros(model.natural_size)
    natural[: model.candidates] = _nominal_scores(model.candidates)
    length = None
    if "length" in model.terms and data.length_ratio is not None:
        length = data.length_ratio / (float(np.std(data.length_ratio)) or 1.0)
    at = evaluate(group(data, model, length), model, natural)
    theta = model.gradient(natural)
    information = model.hessian(at.information)
    point = Point(theta, at.loss, np.zeros(model.size), information, lambda: information)
    return Uncertainty(data, model, natural, point, ridge=0.0, length=length)


def _pair_checks(
    data: Comparisons, model: Model, uncertainty: Uncertainty, counted: Balance
) -> tuple[Check, ...]:
    flat = uncertainty.flat.shape[1]
    checks = design_checks(data, model.terms)
    if model.sensitivities:
        checks.append(gap_check(data, uncertainty.natural[: model.candidates], model.terms))
    checks.append(
        Check(
            "identification",
            passed=flat == 0,
            detail=f"{model.size - flat} of {model.size} directions carry information",
        )
    )
    clusters = len(np.unique(data.prompt))
    checks.append(
        Check(
            "cluster_count",
            passed=clusters > model.size,
            detail=f"{clusters} prompts for {model.size} parameters"
            + ("" if clusters > model.size else "; ask more prompts, or fit fewer terms"),
        )
    )
    shown = set(data.candidates)
    absent = tuple(label for part in counted.connectivity for label in part if label not in shown)
    if absent:
        detail = f"never shown: {', '.join(map(str, absent))}"
        checks.append(Check("shown", passed=False, detail=detail, labels=absent))
    return tuple(checks)


def _pair_errors(data: Comparisons, model: Model, uncertainty: Uncertainty) -> pd.DataFrame:
    i, j = np.triu_indices(model.candidates, k=1)
    weights = np.full(model.judges, 1.0 / model.judges)
    table = uncertainty.contrasts(i, j, weights, "model")
    return pd.DataFrame(
        {
            "first": data.candidates[i],
            "second": data.candidates[j],
            "se": np.where(table.identified, table.se, np.nan),
        }
    )


# Batches ---------------------------------------------------------------------------------------


def _batch_errors(frame: pd.DataFrame, lags: int) -> pd.DataFrame:
    if "rating" in frame.columns:
        frame = frame[frame["rating"].notna()]
    if "judge" not in frame.columns:
        frame = frame.assign(judge="every judge")
    tables = {judge: _item_errors(rows, lags) for judge, rows in frame.groupby("judge")}
    return pd.concat(tables, names=["judge"]).reset_index("judge").reset_index(drop=True)


def _item_errors(rows: pd.DataFrame, lags: int) -> pd.DataFrame:
    item, labels = pd.factorize(rows["item"], sort=True)
    items = len(labels)
    information = np.zeros((items + lags + 1, items + lags + 1))
    weight = NOMINAL_ACCEPTANCE * (1 - NOMINAL_ACCEPTANCE)
    ordered = rows.assign(_item=item).sort_values("position", kind="stable")
    for _, shown in ordered.groupby("batch", sort=False)["_item"]:
        place = np.arange(len(shown))
        columns = np.zeros((len(shown), items + lags + 1))
        columns[place, shown] = 1.0
        for lag in range(1, lags + 1):
            columns[lag:, items + lag - 1] = NOMINAL_ACCEPTANCE
            information[items + lag - 1, items + lag - 1] += weight**2 * max(0, len(shown) - lag)
        columns[0, -1] = 1.0
        total = columns.sum(axis=0) * weight
        shared = 1 / NOMINAL_BATCH_SD**2 + weight * len(shown)
        information += weight * columns.T @ columns - np.outer(total, total) / shared
    i, j = np.triu_indices(items, k=1)
    contrast = np.zeros((len(i), len(information)))
    contrast[np.arange(len(i)), i] = 1.0
    contrast[np.arange(len(i)), j] = -1.0
    flat = np.linalg.norm(contrast @ flat_directions(information), axis=1)
    inverse = np.linalg.pinv(information, hermitian=True)
    variance = np.einsum("ij,jk,ik->i", contrast, inverse, contrast, optimize=True)
    se = np.where(flat <= FLAT_SHARE * np.sqrt(2), np.sqrt(np.maximum(variance, 0)), np.nan)
    names = pd.Index(labels)
    return pd.DataFrame({"first": names[i], "second": names[j], "se": se})


def _batch_checks(expected: pd.DataFrame) -> tuple[Check, ...]:
    open_contrasts = expected[expected["se"].isna()]
    labels = tuple(pd.unique(open_contrasts[["first", "second"]].to_numpy().ravel()))
    return (
        Check(
            "identification",
            passed=not len(open_contrasts),
            detail=(
                "every contrast of two items carries information"
                if not len(open_contrasts)
                else f"{len(open_contrasts)} contrasts of items carry none: show these items in "
                "more batches, at more positions"
            ),
            labels=labels,
        ),
    )
