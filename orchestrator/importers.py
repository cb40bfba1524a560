"""Read verdicts that another tool recorded into the comparisons table.

Ids stay text exactly as written (``007`` is not ``7``), the displayed order is never changed, and
every row that cannot be used is counted under its reason rather than dropped in silence.
"""

import gzip
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchtrial.errors import DataError

# Column of the comparisons table -> the names it goes by elsewhere, the project's own first.
COLUMNS: Mapping[str, Sequence[str]] = {
    "judge": ("judge",),
    "prompt": ("prompt", "prompt_id", "question_id"),
    "first": ("first", "candidate_a", "model_a"),
    "second": ("second", "candidate_b", "model_b"),
    "outcome": ("outcome", "verdict", "winner"),
    "first_length": ("first_length", "len_a"),
    "second_length": ("second_length", "len_b"),
    "first_family": ("first_family",),
    "second_family": ("second_family",),
    "judge_family": ("judge_family",),
    "repetition": ("repetition",),
    "criterion": ("criterion",),
}
REQUIRED = ("judge", "prompt", "first", "second", "outcome")
LENGTHS = ("first_length", "second_length")
# Slot-A scores of the words that name a slot; numbers in [0, 1] are scores already.
SCORES = {
    "a": 1.0,
    "b": 0.0,
    "model_a": 1.0,
    "model_b": 0.0,
    "first": 1.0,
    "second": 0.0,
    "tie": 0.5,
    "c": 0.5,
}


@dataclass(frozen=True, slots=True)
class Imported:
    """A recorded table in the project's form, and what became of every row.

    Parameters
    ----------
    comparisons
        The comparisons table; lengths and families only where every row has them.
    rows
        Rows in the file.
    dropped
        Rows left out, by reason.
    columns
        Which column of the file was taken for which column of the table.
    """

    comparisons: pd.DataFrame
    rows: int
    dropped: Mapping[str, int]
    columns: Mapping[str, str]


def read_comparisons(path: str | Path) -> Imported:
    """Read pairwise verdicts from CSV or JSONL, gzipped or not.

    Raises
    ------
    DataError
        If the file cannot be read, lacks a column, or holds an outcome outside [0, 1].
    """
    source = Path(path)
    raw = _read_text_table(source)
    columns = {
        name: found[0]
        for name, aliases in COLUMNS.items()
        if (found := [alias for alias in aliases if alias in raw.columns])
    }
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        wanted = "; ".join(f"{name} (or {', '.join(COLUMNS[name][1:])})" for name in missing)
        raise DataError(
            f"{source}: no column for {wanted}; the file has {', '.join(map(str, raw.columns))}"
        )
    table = pd.DataFrame({name: raw[column] for name, column in columns.items()})
    outcome, reasons = _scores(table["outcome"], source)
    table["outcome"] = outcome
    same = (table["first"] == table["second"]) & (reasons == "")
    reasons = reasons.where(~same, "a candidate against itself")
    kept = table[reasons == ""].reset_index(drop=True)
    if kept.empty:
        raise DataError(f"{source}: none of the {len(raw)} rows holds a valid verdict")
    return Imported(
        comparisons=_with_numbers(kept),
        rows=len(raw),
        dropped=dict(sorted(Counter(reasons[reasons != ""]).items())),
        columns=columns,
    )


def _read_text_table(path: Path) -> pd.DataFrame:
    opener = gzip.open if path.suffix == ".gz" else open
    name = path.name.removesuffix(".gz")
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as stream:
            if name.endswith((".jsonl", ".ndjson")):
                return pd.read_json(stream, lines=True, dtype=False, convert_dates=False).astype(
                    str
                )
            return pd.read_csv(stream, dtype=str, keep_default_na=False)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:  # pandas' parser errors and bad UTF-8 are ValueErrors
        raise DataError(f"{path}: cannot be read as a table of verdicts: {error}") from None


def _scores(outcome: pd.Series, source: Path) -> tuple[pd.Series, pd.Series]:
    """Slot-A scores, and for each row the reason to leave it out ('' for none)."""
    words = outcome.str.strip().str.lower()
    scores = words.map(SCORES).astype(float)
    numbers = pd.to_numeric(words, errors="coerce")
    scores = scores.where(scores.notna(), numbers)
    outside = scores.notna() & ~scores.between(0.0, 1.0)
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        raise DataError(
            f"{source}: row {row + 1}: outcome {outcome.iloc[row]!r} is not in [0, 1]; "
            "use A, B or tie, or the score of the response shown first"
        )
    reasons = pd.Series("", index=outcome.index).mask(
        scores.isna(), "verdict is " + words.replace("", "missing")
    )
    return scores, reasons


def _with_numbers(table: pd.DataFrame) -> pd.DataFrame:
    numbers = table.copy()
    for name in LENGTHS:
        if name in numbers:
            numbers[name] = pd.to_numeric(numbers[name], errors="coerce")
    if "repetition" in numbers:
        numbers["repetition"] = pd.to_numeric(numbers["repetition"], errors="coerce")
        numbers["repetition"] = numbers["repetition"].fillna(0).astype(int)
    incomplete = [
        name
        for name in numbers
        if name not in REQUIRED
        and (numbers[name].isna().any() or (numbers[name].astype(str) == "").any())
    ]
    return numbers.drop(columns=incomplete)
