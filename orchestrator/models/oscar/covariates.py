"""Lengths and families of a comparisons table: what the bias terms of the models are made of.

A term whose columns are missing or incomplete cannot be fitted. That is no fault of the table, so
it is noted (:func:`lacking_terms`) and only matters to whoever asks for the term by name.
"""

from collections.abc import Hashable

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchtrial.errors import DataError
from benchtrial.orchestrator.models.oscar.arrays import Floats, Ints

LENGTHS = ("first_length", "second_length")
FAMILIES = ("first_family", "second_family", "judge_family")
#: How many offending rows a message names: enough to find the fault, few enough to read.
ROWS_NAMED = 5
#: Family of people, of whom none was trained with a candidate.
PEOPLE = "people"


def length_ratio(frame: pd.DataFrame) -> Floats | None:
    """Return log((length of first + 1) / (length of second + 1)), or None without any length."""
    if not set(LENGTHS) <= set(frame.columns):
        return None
    lengths = frame[list(LENGTHS)].to_numpy(dtype=np.float64, na_value=np.nan)
    negative: npt.NDArray[np.bool_] = np.any(lengths < 0, axis=1)
    if negative.any():
        raise DataError(
            f"a response length is negative in {named_rows(frame, negative)}; lengths are Unicode "
            "characters of the displayed responses"
        )
    if np.isnan(lengths).all():
        return None
    ratio: Floats = np.log1p(lengths[:, 0]) - np.log1p(lengths[:, 1])
    return ratio


def read_families(
    frame: pd.DataFrame,
    judge: Ints,
    first: Ints,
    second: Ints,
    judges: pd.Index,
    candidates: pd.Index,
) -> tuple[npt.NDArray[np.bool_], tuple[Hashable, ...], tuple[Hashable, ...]] | None:
    """Read who is of whose family; None where a family is not known."""
    if not set(FAMILIES) <= set(frame.columns) or _unknown_family(frame) is not None:
        return None
    own = frame["judge_family"]
    if own.isna().any():  # people, who are of no model's family
        own = own.astype(object).where(own.notna(), PEOPLE)
    of_judge = _one_family([(judge, own)], judges, "judge")
    shown = [(first, frame["first_family"]), (second, frame["second_family"])]
    of_candidate = _one_family(shown, candidates, "candidate")
    same = np.array([[j == c for c in of_candidate] for j in of_judge], dtype=bool)
    return same, of_judge, of_candidate


def _unknown_family(frame: pd.DataFrame) -> str | None:
    """Say where a family is empty; people need none."""
    for column in FAMILIES:
        empty = frame[column].isna().to_numpy()
        if column == "judge_family" and "kind" in frame.columns:
            empty = empty & (frame["kind"] != "human").to_numpy()
        if empty.any():
            return f"column {column!r} is empty in {named_rows(frame, empty)}"
    return None


def _one_family(
    columns: list[tuple[Ints, pd.Series]], labels: pd.Index, what: str
) -> tuple[Hashable, ...]:
    families: dict[int, Hashable] = {}
    for code, column in columns:
        family, names = pd.factorize(column)
        pairs = np.unique(code * len(names) + family)
        for member, name in zip(pairs // len(names), pairs % len(names), strict=True):
            if families.setdefault(int(member), names[name]) != names[name]:
                raise DataError(
                    f"{what} {labels[member]} has two families, {families[int(member)]} and "
                    f"{names[name]}; each {what} has one"
                )
    return tuple(families[member] for member in range(len(labels)))


def lacking_terms(frame: pd.DataFrame, ratio: Floats | None) -> dict[str, str]:
    """Say why a term cannot be fitted, by term."""
    lacking = {}
    gaps = 0 if ratio is None else int(np.isnan(ratio).sum())
    if not set(LENGTHS) <= set(frame.columns):
        lacking["length"] = f"no columns {', '.join(LENGTHS)}"
    elif ratio is None or gaps:
        lacking["length"] = f"{gaps or len(frame)} of {len(frame)} rows without a length"
    if not set(FAMILIES) <= set(frame.columns):
        lacking["family"] = f"no columns {', '.join(FAMILIES)}"
    elif (fault := _unknown_family(frame)) is not None:
        lacking["family"] = fault
    return lacking


def named_rows(frame: pd.DataFrame, offending: npt.NDArray[np.bool_]) -> str:
    """Name the first few offending rows by their index labels."""
    named = [str(label) for label in frame.index[offending][:ROWS_NAMED]]
    more = int(offending.sum()) - len(named)
    return f"row {', '.join(named)}" + (f" and {more} more" if more else "")
