"""The comparisons table of a file, and what became of everything in it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from benchtrial.errors import DataError
from benchtrial.orchestrator.importers.columns import (
    COLUMNS,
    IDS,
    LENGTHS,
    OPTIONAL,
    TOGETHER,
    taken_columns,
)
from benchtrial.orchestrator.importers.scores import slot_scores
from benchtrial.orchestrator.importers.source import NOTHING, PLUS, Source
from benchtrial.orchestrator.study.problems import listed, shown

# A column with more values than this labels rows (ids, times); with fewer, conditions.
MOST_CONDITIONS = 50
# Reasons named one by one before the rest is counted together.
REASONS_NAMED = 10
KINDS = ("model", "human")


@dataclass(frozen=True, slots=True)
class Imported:
    """A recorded table in the project's form, and what became of everything in the file.

    Parameters
    ----------
    comparisons
        The comparisons table. Columns that have no place in it follow under their own names, as
        text.
    rows
        Rows in the file.
    dropped
        Rows left out, by reason.
    columns
        Which column of the file was taken for which column of the table.
    left_out
        Columns of the table that the file has and that cannot be used, with the reason.
    notes
        What the reader should know about the rows that were kept.
    """

    comparisons: pd.DataFrame
    rows: int
    dropped: Mapping[str, int]
    columns: Mapping[str, str]
    left_out: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_comparisons(
    path: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    where: Mapping[str, str] | None = None,
) -> Imported:
    """Read pairwise verdicts from CSV, TSV or JSONL, gzipped or not.

    Parameters
    ----------
    path
        The file: one verdict a row, in displayed order.
    columns
        Column of the comparisons table to column of the file, where names are not enough. An id
        may be made of several columns: ``{"judge": "judge+prompt_variant"}``.
    where
        Column of the file to the value that a row must have to be read.

    Raises
    ------
    DataError
        If the file cannot be read; a column is missing or could be either of two; a value is
        impossible (an outcome outside [0, 1], a length that is no number) or has two meanings;
        verdicts given under several conditions would be merged; or no row holds a verdict.
    """
    whole = Source.read(Path(path))
    source, dropped = _only(whole, where or {})
    taken = taken_columns(source, columns or {})
    table = pd.DataFrame({name: source.ids(taken[name], name) for name in IDS})
    table["outcome"], reasons = slot_scores(
        source, taken["outcome"], table["first"], table["second"]
    )
    reasons = _with_faulty_ids(table, reasons)
    dropped |= _counted(reasons)
    kept = reasons == ""
    if not kept.any():
        counts = "; ".join(f"{count}: {why}" for why, count in dropped.items())
        raise DataError(
            f"{source.name}: none of the {len(whole.rows)} rows holds a usable verdict ({counts})"
        )
    table, left_out = _with_optional_columns(table[kept], source, taken)
    used = {part for column in taken.values() for part in (column, *column.split(PLUS))}
    extra = [name for name in source.columns if name not in {*COLUMNS, *used}]
    table = table.assign(**{name: source.texts(name) for name in extra})
    notes = [*_conditions(table[extra]), *_repeated(table, extra, source, taken)]
    return Imported(
        comparisons=table.reset_index(drop=True),
        rows=len(whole.rows),
        dropped=dropped,
        columns=taken,
        left_out=left_out,
        notes=tuple(notes),
    )


def _only(source: Source, where: Mapping[str, str]) -> tuple[Source, dict[str, int]]:
    """Keep the rows asked for, and count the others."""
    dropped = {}
    for column, value in where.items():
        found = source.matching(column, value)
        dropped[f"{column} is not {value}"] = len(source.rows) - len(found.rows)
        source = found
    return source, dropped


def _with_faulty_ids(table: pd.DataFrame, reasons: "pd.Series[str]") -> "pd.Series[str]":
    """Add the reasons that lie in the ids; of several reasons the most basic one counts."""
    same = (table["first"] == table["second"]) & (table["first"] != "")
    reasons = reasons.mask(same, "a candidate against itself")
    for name in IDS:
        reasons = reasons.mask(table[name] == "", f"{name} is empty")
    return reasons


def _with_optional_columns(
    table: pd.DataFrame, source: Source, taken: Mapping[str, str]
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Add the columns that every row has, and say which others the file has and why not."""
    left_out: dict[str, str] = {}
    for name in OPTIONAL:
        if name not in taken:
            continue
        values = _optional(source, taken[name], name)[table.index]
        empty = int(values.isna().sum())
        if empty:
            left_out[name] = f"empty in {empty} of {len(values)} rows"
        else:
            table = table.assign(**{name: values})
    for lone, others in _lone(table):
        left_out[lone] = f"of no use without {' and '.join(others)}"
        table = table.drop(columns=lone)
    if "repetition" in table:
        table = table.astype({"repetition": int})
    return table, left_out


def _counted(reasons: "pd.Series[str]") -> dict[str, int]:
    """Rows by reason, the most frequent first, and the rare ones together."""
    counts = Counter(reasons[reasons != ""]).most_common()
    named = dict(counts[:REASONS_NAMED])
    rest = sum(count for _, count in counts[REASONS_NAMED:])
    return named | ({"verdict is something else": rest} if rest else {})


def _optional(source: Source, column: str, name: str) -> "pd.Series[Any]":
    """Values of a column that not every table has; NaN or None where a row has none."""
    if name == "repetition":
        return source.numbers(column, name, whole=True)
    if name in LENGTHS:
        return source.numbers(column, name)
    texts = source.texts(column)
    values = texts.mask(texts.str.strip().str.lower().isin(NOTHING), None)
    strange = values.notna() & ~values.isin(KINDS)
    if name == "kind" and strange.any():
        index = int(strange.to_numpy().argmax())
        source.refuse(index, f"kind {shown(values[index])} is neither model nor human")
    return values


def _lone(table: pd.DataFrame) -> Iterator[tuple[str, list[str]]]:
    """Columns whose companions are missing, with those."""
    for group in TOGETHER:
        lacking = [name for name in group if name not in table]
        if lacking:
            yield from ((name, lacking) for name in group if name in table)


def _conditions(extra: pd.DataFrame) -> Iterator[str]:
    """Say that verdicts given under several prompt variants are fitted together."""
    for name in map(str, extra):
        values = list(dict.fromkeys(extra[name]))
        if ("variant" in name or "template" in name) and len(values) > 1:
            yield (
                f"{name} has {len(values)} values, fitted together: {listed(values)}; "
                f"fit one of them with --where {name}={values[0]}"
            )


def _repeated(
    table: pd.DataFrame, extra: list[str], source: Source, taken: Mapping[str, str]
) -> Iterator[str]:
    """Refuse what would merge conditions; say how other repeated verdicts are taken.

    Raises
    ------
    DataError
        If a column of conditions tells repeated verdicts apart, or the table numbers its
        repetitions and two verdicts have one number.
    """
    cell = [name for name in (*IDS, "criterion", "repetition") if name in table]
    later = table.duplicated(cell)
    if not later.any():
        return
    count, index = int(later.sum()), table.index[later][0]
    earlier = table.index[(table[cell] == table.loc[index, cell]).all(axis=1)][0]
    for name in extra:
        values = sorted(table[name].unique())
        if 1 < len(values) <= MOST_CONDITIONS and not table.duplicated([*cell, name]).any():
            raise DataError(
                f"{source.name}: {count} rows judge a comparison again under another {name}, and "
                f"fitting them together would merge {listed(values)}; take one "
                f"(--where {name}={values[0]}), or make each a judge of its own "
                f"(--column judge={taken['judge']}{PLUS}{name})"
            )
    places = f"{source.line(earlier)} and {source.line(index)}"
    if "repetition" in table:
        raise DataError(
            f"{source.name}: {count} rows repeat a judge, prompt, displayed order and repetition "
            f"of an earlier row ({places}, for example); remove them, or number the repetitions"
        )
    yield (
        f"{count} rows repeat a judge, prompt and displayed order of an earlier row ({places}, for "
        "example); they count as further repetitions"
    )
