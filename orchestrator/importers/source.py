"""A file of verdicts as it lies there: named columns of text, and the line that each row is on."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, nan
from operator import attrgetter
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd

from benchtrial.errors import DataError
from benchtrial.orchestrator.study import files
from benchtrial.orchestrator.study.problems import Problem, listed, shown, unknown

# How tables write that a cell holds nothing.
NOTHING = frozenset({"", "nan", "none", "null", "na", "n/a"})
# Between the parts of an id that is made of several columns, in the request and in the id.
PLUS = "+"
JOINED = " / "
# Numbers as tables write them: no infinities, and no digits grouped by commas or underscores.
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)


@dataclass(frozen=True)
class Source:
    """A file's name, its rows as they are, and where each stands (``"x.csv, line 3"``).

    Every method that returns a column returns one value for each row.
    """

    name: str
    rows: Sequence[Mapping[str, Any]]
    places: Sequence[str]

    @classmethod
    def read(cls, path: Path) -> "Source":
        """Read a CSV, TSV or JSONL file, gzipped or not.

        Raises
        ------
        DataError
            If it cannot be read, is not UTF-8, is torn, or has no rows.
        """
        try:
            rows = files.read_rows(files.find(path.name, path.parent))
        except files.Unreadable as error:
            raise DataError(str(error)) from error
        if not rows:
            raise DataError(f"{path.name} holds no rows; each row is one verdict")
        return cls(path.name, *zip(*map(attrgetter("values", "where"), rows), strict=True))

    @cached_property
    def columns(self) -> list[str]:
        """Names of the columns, in the order of their first appearance."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def require(self, column: str) -> None:
        """Raise if there is no such column."""
        if column not in self.columns:
            raise DataError(f"{self.name}: {unknown(column, self.columns, 'column')}")

    def texts(self, column: str) -> "pd.Series[str]":
        """Values as text, empty where there is none."""
        return _series([as_text(row.get(column)) for row in self.rows])

    def ids(self, column: str, name: str) -> "pd.Series[str]":
        """Values as ids; ``a+b`` joins the ids of two columns."""
        if column not in self.columns and PLUS in column:
            parts = [self.ids(part, name) for part in column.split(PLUS)]
            return _series([JOINED.join(values) for values in zip(*parts, strict=True)])
        self.require(column)
        found = []
        for row, place in zip(self.rows, self.places, strict=True):
            value = row.get(column)
            identity = files.as_id("" if value is None else value, "", name, place)
            if isinstance(identity, Problem):
                raise DataError(identity.line(self.name))
            found.append(identity)
        return _series(found)

    def numbers(self, column: str, name: str, *, whole: bool = False) -> "pd.Series[float]":
        """Values as (whole) numbers of at least 0, NaN where there is none."""
        found = []
        for index, text in enumerate(self.texts(column)):
            number = nan if text.strip().lower() in NOTHING else as_number(text)
            if number is None or number < 0 or (whole and number % 1 > 0):
                kind = "whole number" if whole else "number"
                self.refuse(index, f"{name} {shown(text)} is not a {kind} of at least 0")
            found.append(number)
        return pd.Series(found, dtype=float)

    def matching(self, column: str, value: str) -> "Source":
        """Keep the rows whose text in ``column`` is ``value``.

        Raises
        ------
        DataError
            If there is none.
        """
        self.require(column)
        texts = self.texts(column)
        kept = [index for index, text in enumerate(texts) if text == value]
        if not kept:
            values = listed(list(dict.fromkeys(texts)))
            raise DataError(f"{self.name}: no row has {column}={value}; the values are: {values}")
        return Source(
            self.name, [self.rows[index] for index in kept], [self.places[index] for index in kept]
        )

    def refuse(self, index: int, what: str) -> NoReturn:
        """Say what is wrong with a row, and where it stands."""
        raise DataError(f"{self.places[index]}: {what}")

    def line(self, index: int) -> str:
        """Where a row stands within the file: ``"line 3"``."""
        return self.places[index].removeprefix(f"{self.name}, ")


def as_text(value: object) -> str:
    """Return a cell of any file as text: JSON's null is empty, its numbers are as written."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def as_number(text: str) -> float | None:
    """Return the finite number that a text is, or None."""
    if not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    return number if isfinite(number) else None


def _series(texts: Sequence[str]) -> "pd.Series[str]":
    return pd.Series(texts, dtype=object)
