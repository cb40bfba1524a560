"""Write every table of a ledger to files.

Both forms hold every id as text and every number with all its digits. CSV cannot tell an empty text
from one that is missing; JSONL can. A file that is there already is replaced, and never half
written: each is finished under another name first.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import pandas as pd

from benchtrial.errors import InputError
from benchtrial.orchestrator.campaign import covariates
from benchtrial.orchestrator.ledger import EXPORTS, Ledger
from benchtrial.orchestrator.study import Study


def export(ledger: Path, folder: Path, form: Literal["csv", "jsonl"]) -> Iterator[str]:
    """Write the tables of ``ledger`` into ``folder``, and say of each how many rows it has.

    Raises
    ------
    InputError
        If the folder cannot be written.
    """
    tables = _tables(ledger)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            path = folder / f"{name}.{form}"
            unfinished = path.with_name(path.name + ".new")
            WRITERS[form](_with_whole_numbers(table), unfinished)
            unfinished.replace(path)
            yield f"{path}: {len(table)} rows"
    except OSError as error:
        raise InputError(
            f"{error.filename or folder} cannot be written: {error.strerror}"
        ) from error


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV, UTF-8."""
    table.to_csv(path, index=False, encoding="utf-8", lineterminator="\n")


def write_jsonl(table: pd.DataFrame, path: Path) -> None:
    """Write a table as JSON objects, one a line, UTF-8; what is missing is null."""
    rows = table.astype(object).where(table.notna(), None)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows.to_numpy():
            found = dict(zip(table.columns, row, strict=True))
            file.write(json.dumps(found, ensure_ascii=False, allow_nan=False) + "\n")


WRITERS: Mapping[str, Callable[[pd.DataFrame, Path], None]] = {
    "csv": write_csv,
    "jsonl": write_jsonl,
}


def _tables(ledger: Path) -> dict[str, pd.DataFrame]:
    with Ledger.open(ledger, read_only=True) as record:
        study = Study.from_json(record.study_json)
        known = covariates(study)
        return {
            **{name: record.export(name) for name in EXPORTS},
            "ratings": record.ratings(known),
            "comparisons": record.comparisons(known, outcome=study.analysis.outcomes),
        }


def _with_whole_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Undo what a missing value does to whole numbers: reply 3 is not 3.0."""
    whole = {
        name: "Int64"
        for name in table.select_dtypes("float")
        if table[name].notna().any() and (table[name].dropna() % 1 == 0).all()
    }
    return table.astype(whole)
