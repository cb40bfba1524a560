"""From a study file and the files it names to plain data, ready to be validated.

Tables of rows stand inline or in a file of their own::

    [items]                                  [[items]]
    file = "items.csv"                       id = "h1"
    columns = { id = "key" }                 text = "…"

Any other column of items is a covariate. Responses may stand with their candidate or in a file of
rows ``candidate, prompt, text``; longer texts (system, turns, reply, rubrics) may be
``{ file = "rubric.md" }``.
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchtrial.errors import StudyError
from benchtrial.orchestrator.study import files
from benchtrial.orchestrator.study.checks import twins
from benchtrial.orchestrator.study.files import Row, Unreadable
from benchtrial.orchestrator.study.problems import Problem, refuse, shown, unknown

Origins = dict[tuple[str, int], str]

_ROW_TABLES = ("items", "prompts", "candidates")
_ITEM_COLUMNS = frozenset({"id", "text", "group", "covariates"})


def read_study_file(path: Path) -> tuple[dict[str, Any], Origins]:
    """Return the content of a study file with every named file read in, and where rows came from.

    Raises
    ------
    StudyError
        If a file cannot be read, or rows have no usable ids.
    """
    if not path.is_file():
        raise StudyError(f"{path}: there is no such study file; `benchtrial init` writes one")
    try:
        data = tomllib.loads(files.read_text(path).replace("\r\n", "\n"))
    except Unreadable as error:
        raise StudyError(str(error)) from error
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{path.name}: not TOML: {error}") from error
    except RecursionError as error:
        raise StudyError(f"{path.name}: not TOML: nested too deeply") from error
    reader = _Reader(path.parent)
    content = reader.read(data)
    refuse(reader.problems, path.name)
    return content, reader.origins


class _Reader:
    """Replaces what a study file names by what it means, noting problems on the way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[Problem] = []
        self.origins: Origins = {}

    def read(self, data: Mapping[str, Any]) -> dict[str, Any]:
        content = dict(data)
        for table in _ROW_TABLES:
            if table in content:
                rows = self._rows(content[table], table)
                if rows is None:
                    del content[table]
                else:
                    content[table] = self._identified(rows, table)
        if "items" in content:
            content["items"] = self._with_covariates(content["items"])
        if "candidates" in content:
            content["candidates"] = [self._own_responses(row) for row in content["candidates"]]
        if "responses" in content:
            self._add_responses(content)
        self._read_texts(content)
        return content

    def _rows(self, given: object, table: str) -> list[Row] | None:
        """Rows of a table that stands inline or names its file; None if it is unusable."""
        if isinstance(given, list) and all(isinstance(row, dict) for row in given):
            return [Row(dict(row), "") for row in given]
        if not isinstance(given, dict) or not isinstance(given.get("file"), str):
            self._note(table, "", f'give rows as [[{table}]], or a file: file = "{table}.csv"')
            return None
        for key in given:
            if key not in {"file", "columns"}:
                self._note(table, key, unknown(key, ["file", "columns"], "key"))
        columns = given.get("columns", {})
        if not isinstance(columns, dict) or not all(isinstance(v, str) for v in columns.values()):
            self._note(table, "columns", 'must map names to columns: { id = "key", text = "body" }')
            return None
        try:
            rows = files.read_rows(files.find(given["file"], self.folder))
            return files.rename(rows, columns, table)
        except Unreadable as error:
            self._note(table, "file", str(error))
            return None

    def _identified(self, rows: Sequence[Row], table: str) -> list[dict[str, Any]]:
        """Rows with their ids as text; ids that are none, or alike, are noted."""
        named: list[dict[str, Any]] = []
        places: list[str] = []
        for number, row in enumerate(rows, start=1):
            place = row.where or f"row {number}"
            if "id" not in row.values:
                columns = f"; it has: {', '.join(map(repr, row.values))}" if row.where else ""
                self._note(table, "id", f"this row has no id{columns}", row.where)
                if row.where.endswith("line 2"):
                    break  # a column that is absent is absent from every row
                continue
            identity = files.as_id(row.values["id"], table, f"id of {place}", row.where)
            if isinstance(identity, Problem):
                self.problems.append(identity)
                continue
            if row.where:
                self.origins[table, len(named)] = row.where
            named.append({**row.values, "id": identity})
            places.append(place)
        self.problems += twins([row["id"] for row in named], table, places.__getitem__)
        return named

    def _with_covariates(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Items with further columns of their file as covariates; empty cells are left out."""
        if not self.origins:
            return list(rows)
        items = []
        extra = [
            {k: v for k, v in row.items() if k not in _ITEM_COLUMNS and v not in ("", None)}
            if ("items", index) in self.origins
            else {}
            for index, row in enumerate(rows)
        ]
        numeric = {
            name
            for name in {name for row in extra for name in row}
            if all(_is_number(row[name]) for row in extra if name in row)
        }
        for row, more in zip(rows, extra, strict=True):
            item = {k: v for k, v in row.items() if k not in more and not _empty_extra(k, v)}
            if item.get("group") in ("", None):
                item.pop("group", None)
            values = {k: float(v) if k in numeric else v for k, v in more.items()}
            if values:
                item["covariates"] = {**values, **item.get("covariates", {})}
            items.append(item)
        return items

    def _own_responses(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a candidate whose ``responses`` may be a file of rows ``prompt, text``."""
        candidate = {k: v for k, v in row.items() if not (k == "family" and v in ("", None))}
        given = candidate.get("responses")
        if isinstance(given, dict) and isinstance(given.get("file"), str):
            rows = self._rows(given, "candidates") or []
            candidate["responses"] = self._collected(rows, ("prompt",)).get((), {})
        return candidate

    def _add_responses(self, content: dict[str, Any]) -> None:
        """Give each candidate its rows of the table of responses; unnamed candidates are added."""
        given = content.pop("responses")
        rows = self._rows(given, "responses")
        if rows is None:
            return
        by_candidate = self._collected(rows, ("candidate", "prompt"))
        candidates = content.setdefault(
            "candidates", [{"id": candidate} for (candidate,) in by_candidate]
        )
        known = [candidate["id"] for candidate in candidates]
        for (candidate,), texts in by_candidate.items():
            if candidate not in known:
                self._note("responses", "candidate", unknown(candidate, known, "candidate"))
                continue
            target = candidates[known.index(candidate)]
            own = target.setdefault("responses", {})
            for prompt in texts:
                if prompt in own:
                    self._note(
                        "responses", shown(candidate), f"prompt {shown(prompt)} is answered twice"
                    )
            target["responses"] = {**texts, **own}

    def _collected(
        self, rows: Sequence[Row], keys: tuple[str, ...]
    ) -> dict[tuple[str, ...], dict[str, Any]]:
        """Texts by prompt, under the ids that stand before the prompt among ``keys``."""
        found: dict[tuple[str, ...], dict[str, Any]] = {}
        places: dict[tuple[str, ...], str] = {}
        for number, row in enumerate(rows, start=1):
            place = row.where or f"row {number}"
            missing = [key for key in (*keys, "text") if key not in row.values]
            if missing:
                self._note(
                    "responses",
                    missing[0],
                    f"{place} has no {missing[0]!r}; it has: {', '.join(map(repr, row.values))}",
                    row.where,
                )
                break
            ids = [files.as_id(row.values[key], "responses", key, row.where) for key in keys]
            if wrong := [identity for identity in ids if isinstance(identity, Problem)]:
                self.problems += wrong
                continue
            named = tuple(identity for identity in ids if isinstance(identity, str))
            if named in places:
                what = (
                    f"{', '.join(map(shown, named))} is answered twice: {places[named]} and {place}"
                )
                self._note("responses", keys[-1], what)
            places[named] = place
            found.setdefault(named[:-1], {})[named[-1]] = row.values["text"]
        return found

    def _read_texts(self, content: dict[str, Any]) -> None:
        """Replace ``{ file = "…" }`` by the text of the file, where a text may be long."""
        if isinstance(content.get("template"), dict):
            template = dict(content["template"])
            for key in ("system", "reply"):
                if key in template:
                    template[key] = self._text(template[key], "template", key)
            if isinstance(template.get("turns"), list):
                template["turns"] = [
                    {**turn, "text": self._text(turn.get("text"), "template", "turns")}
                    if isinstance(turn, dict) and "text" in turn
                    else turn
                    for turn in template["turns"]
                ]
            content["template"] = template
        if isinstance(content.get("criteria"), list):
            content["criteria"] = [
                {**row, "rubric": self._text(row["rubric"], "criteria", "rubric")}
                if isinstance(row, dict) and "rubric" in row
                else row
                for row in content["criteria"]
            ]

    def _text(self, given: object, table: str, key: str) -> object:
        if not (isinstance(given, dict) and set(given) == {"file"}):
            return given
        try:
            return files.read_text(files.find(str(given["file"]), self.folder))
        except Unreadable as error:
            self._note(table, key, str(error))
            return ""

    def _note(self, table: str, key: str, what: str, where: str = "") -> None:
        self.problems.append(Problem(table, key, what, where))


def _empty_extra(name: str, value: object) -> bool:
    return name not in _ITEM_COLUMNS and value in ("", None)


def _is_number(value: object) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, int | float):
        return True
    try:
        number = float(str(value))
    except ValueError:
        return False
    # "1_000", "inf" and "nan" are numbers to Python only.
    return str(value).strip("+-0123456789.eE") == "" and number == number
