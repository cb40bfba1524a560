"""Files as their authors wrote them: UTF-8 in, rows out, nothing guessed.

A byte-order mark is taken off; any other encoding is refused with the byte that gives it away,
because a wrong guess would change what the judges read. Ids are text: a CSV cell ``007`` is not
``7``, and of JSON values only text and whole numbers can be ids. Any of them may be gzipped.
"""

import csv
import difflib
import gzip
import io
import json
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchtrial.orchestrator.study.problems import Problem, listed, shown

ROW_FILES = (".csv", ".tsv", ".jsonl", ".ndjson")
GZIPPED = ".gz"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table and where it stands (``"items.csv, line 3"``)."""

    values: dict[str, Any]
    where: str


class Unreadable(ValueError):
    """A file that cannot be used; the message names it."""


def find(name: str, folder: Path) -> Path:
    """Return the file that ``name`` means, relative to ``folder``.

    A backslash is tried as a separator too, so that a study written on Windows is read elsewhere.

    Raises
    ------
    Unreadable
        If there is no such file; near misses in its folder are named.
    """
    for spelled in (name, name.replace("\\", "/")):
        path = folder / spelled
        if path.is_file():
            return path
    path = folder / name.replace("\\", "/")
    if path.is_dir():
        raise Unreadable(f"{name} is a folder; name a file")
    try:
        neighbours = sorted(entry.name for entry in path.parent.iterdir() if entry.is_file())
    except OSError:
        neighbours = []
    near = difflib.get_close_matches(path.name, neighbours, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise Unreadable(f"there is no file {name!r} (looked in {path.parent}){hint}")


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, line ends as they are, without a byte-order mark.

    Raises
    ------
    Unreadable
        If the file cannot be opened, or is not UTF-8: with the offset of the first bad byte (of
        what a gzipped file holds).
    """
    try:
        content = path.read_bytes()
        if path.suffix.lower() == GZIPPED:
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise Unreadable(f"{path.name} cannot be read: {why}") from error
    try:
        return content.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError as error:
        mark = 3 if content.startswith(b"\xef\xbb\xbf") else 0
        offset = error.start + mark
        raise Unreadable(
            f"{path.name} is not UTF-8: byte 0x{content[offset]:02x} at byte offset {offset} "
            f"(line {content.count(10, 0, offset) + 1}); save the file as UTF-8"
        ) from error


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a CSV, TSV or JSONL file, gzipped or not, every CSV cell as text.

    Raises
    ------
    Unreadable
        If the file or one of its rows cannot be read; the message names the line.
    """
    suffix = Path(path.name.lower().removesuffix(GZIPPED)).suffix
    if suffix not in ROW_FILES:
        raise Unreadable(f"{path.name}: rows are read from {', '.join(ROW_FILES)} files")
    text = read_text(path)
    if suffix in {".csv", ".tsv"}:
        return _csv_rows(text, path.name, "\t" if suffix == ".tsv" else ",")
    return _jsonl_rows(text, path.name)


def rename(rows: Sequence[Row], columns: dict[str, str], table: str) -> list[Row]:
    """Give columns the names the study uses; ``columns`` maps those names to the file's.

    Raises
    ------
    Unreadable
        If a named column is absent.
    """
    theirs = {file_name: ours for ours, file_name in columns.items()}
    present = list(dict.fromkeys(name for row in rows for name in row.values))
    for ours, file_name in columns.items():
        if rows and file_name not in present:
            raise Unreadable(
                f"there is no column {file_name!r} to be the {ours} of [{table}]; "
                f"the columns are: {listed(present)}"
            )
    renamed = []
    for row in rows:
        values = {
            theirs.get(name, name): value
            for name, value in row.values.items()
            if name in theirs or name not in columns
        }
        renamed.append(Row(values, row.where))
    return renamed


def as_id(value: object, table: str, key: str, where: str) -> str | Problem:
    """Return an id as text, or what is wrong with it."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    kind = "nothing (null)" if value is None else f"{type(value).__name__} {shown(value)}"
    return Problem(table, key, f"an id is text or a whole number, not {kind}", where)


def _csv_rows(text: str, name: str, delimiter: str) -> list[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[Row] = []
    header: list[str] | None = None
    start = 1
    with _unlimited_fields():
        try:
            for cells in reader:
                line, start = start, reader.line_num + 1
                if not cells:
                    continue
                if header is None:
                    header = _header(cells, name)
                elif len(cells) != len(header):
                    raise Unreadable(
                        f"{name}, line {line}: {len(cells)} cells where the header has "
                        f"{len(header)}; put cells that hold the separator or a line end in "
                        "double quotes"
                    )
                else:
                    rows.append(Row(dict(zip(header, cells, strict=True)), f"{name}, line {line}"))
        except csv.Error as error:
            raise Unreadable(f"{name}, line {start}: {error}; check its double quotes") from error
    if header is None:
        raise Unreadable(f"{name} is empty; its first line must name the columns")
    return rows


def _header(cells: list[str], name: str) -> list[str]:
    header = [cell.strip() for cell in cells]
    for cell in header:
        if not cell:
            raise Unreadable(f"{name}, line 1: a column has no name")
        if header.count(cell) > 1:
            raise Unreadable(f"{name}, line 1: two columns are called {cell!r}")
    return header


@contextmanager
def _unlimited_fields() -> Iterator[None]:
    """Lift the csv module's limit of 131,072 characters: an answer may be longer."""
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _jsonl_rows(text: str, name: str) -> list[Row]:
    rows: list[Row] = []
    # Only a line feed ends a row: U+2028 and its kin are legal inside a JSON string.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            values = json.loads(line, object_pairs_hook=_no_key_twice, parse_constant=_no_constant)
        except RecursionError as error:
            raise Unreadable(f"{where}: nested too deeply") from error
        except ValueError as error:
            raise Unreadable(f"{where}: not JSON: {error}") from error
        if not isinstance(values, dict):
            raise Unreadable(f"{where}: each line must be a JSON object with named values")
        rows.append(Row(values, where))
    return rows


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} is given twice")
    return values


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")
