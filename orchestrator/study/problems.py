"""What is wrong with a study, said so that its author can mend it.

A study file is read once, before anything is paid for, and everything that is wrong with it is said
at once: one line per problem, each naming the file (and line, where it is known), the table, the
key, what was wrong and how to mend it. Values of fields that could hold a secret are never shown.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic_core import ErrorDetails

from benchtrial.errors import StudyError

# Below this similarity a suggestion puzzles more than it helps ("api_key" still finds "key_env").
NEAR_MISS = 0.6

# A shown value longer than this hides the sentence around it.
SHOWN_CHARACTERS = 60

# Keys by which people try to write secrets into a study file; they get a remedy of their own.
SECRET_KEYS = frozenset(
    {"api_key", "apikey", "key", "token", "secret", "password", "headers", "authorization"}
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: ``where`` (a file and line, if not the study file), table, key."""

    table: str
    key: str
    what: str
    where: str = ""

    def line(self, study_file: str) -> str:
        """One line for the person who has to mend it."""
        place = self.where or study_file
        table = f" [{self.table}]" if self.table else ""
        key = f" {self.key}" if self.key else ""
        return f"{place}:{table}{key}: {self.what}"


class Problems(ValueError):
    """Several problems on their way through a pydantic validator."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(problem.line("study") for problem in problems))
        self.problems = tuple(problems)


def refuse(problems: Iterable[Problem], study_file: str) -> None:
    """Raise one StudyError with a line per problem, if there is any.

    Raises
    ------
    StudyError
        If ``problems`` is not empty.
    """
    lines = list(dict.fromkeys(problem.line(study_file) for problem in problems))
    if lines:
        raise StudyError("\n".join(lines))


def near_miss(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` if ``name`` is close to one of ``known``, else nothing."""
    by_folded = {candidate.casefold(): candidate for candidate in sorted(known)}
    found = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=NEAR_MISS)
    return f"; did you mean {by_folded[found[0]]!r}?" if found else ""


def unknown(name: str, known: Iterable[str], kind: str) -> str:
    """Say that ``name`` is not one of ``known``, with a near miss or the whole list."""
    names = list(known)
    return f"there is no {kind} {shown(name)}" + (
        near_miss(name, names) or f"; there are: {listed(names)}"
    )


def listed(names: Sequence[str], at_most: int = 8) -> str:
    """Names in quotes, the first few of many."""
    few = ", ".join(shown(name) for name in names[:at_most])
    more = len(names) - at_most
    return f"{few} and {more} more" if more > 0 else few or "none"


def shown(value: object) -> str:
    """Return a value as it stands in a message: quoted and shortened in the middle."""
    text = repr(value)
    if len(text) <= SHOWN_CHARACTERS:
        return text
    half = SHOWN_CHARACTERS // 2 - 1
    return f"{text[:half]}…{text[-half:]}"


def from_pydantic(
    errors: Iterable[ErrorDetails],
    *,
    fields: Mapping[tuple[str, ...], Iterable[str]],
    origins: Mapping[tuple[str, int], str],
    data: object,
) -> list[Problem]:
    """Translate pydantic's errors into problems.

    Parameters
    ----------
    errors
        ``ValidationError.errors()``.
    fields
        Legal keys of each table, by its path without list indices, for near misses.
    origins
        Where row ``index`` of table ``name`` came from, by ``(name, index)``.
    data
        What was validated, to name rows by their ids.
    """
    found: dict[tuple[str, str, str], list[str]] = {}
    problems: list[Problem] = []
    errors = list(errors)
    for error in errors:
        if error["type"] == "too_short" and any(_is_inside(e, error) for e in errors):
            continue  # rows that are wrong count as absent; they are named themselves
        carried = (error.get("ctx") or {}).get("error")
        if isinstance(carried, Problems):
            problems.extend(carried.problems)
            continue
        table, key, path, where = _place(error["loc"], fields, origins, data)
        what = _words(error, key, path, fields)
        reasons = found.setdefault((table, key, where), [])
        if what not in reasons:
            reasons.append(what)
    problems += [
        Problem(table, key, ", or ".join(reasons), where)
        for (table, key, where), reasons in found.items()
    ]
    return problems


def _is_inside(error: ErrorDetails, outer: ErrorDetails) -> bool:
    depth = len(outer["loc"])
    return len(error["loc"]) > depth and error["loc"][:depth] == outer["loc"]


def _place(
    loc: Sequence[int | str],
    fields: Mapping[tuple[str, ...], Iterable[str]],
    origins: Mapping[tuple[str, int], str],
    data: object,
) -> tuple[str, str, tuple[str, ...], str]:
    """Table, key, path of the enclosing table, and where its row came from."""
    table = str(loc[0]) if loc else ""
    where, row = "", ""
    path: tuple[str, ...] = ()
    keys: list[str] = []
    at: object = data
    for depth, part in enumerate(loc):
        at = _inside(at, part)
        if isinstance(part, int):
            if depth == 1:
                where = origins.get((table, part), "")
                row = "" if where else _row_name(at, part)
            else:
                keys.append(f"#{part + 1}")
        else:
            keys.append(part)
            if (*path, part) in fields:
                path = (*path, part)
            elif depth + 1 < len(loc) and not isinstance(at, dict | list):
                break  # what follows names the branch of a union, not a key of the user's
    inner = keys[1:] if len(keys) > 1 or len(loc) > 1 else []
    key = ".".join(inner)
    if not inner and table not in {part[0] for part in fields if part}:
        table, key = "", table
    return table, " ".join(filter(None, (row, key))), path, where


def _inside(at: object, part: int | str) -> object:
    if isinstance(at, dict):
        return at.get(part)
    if isinstance(at, list) and isinstance(part, int) and part < len(at):
        return at[part]
    return None


def _row_name(row: object, index: int) -> str:
    identity = row.get("id") if isinstance(row, dict) else None
    return f"#{index + 1} ({shown(identity)})" if isinstance(identity, str) else f"#{index + 1}"


def _words(
    error: ErrorDetails,
    key: str,
    path: tuple[str, ...],
    fields: Mapping[tuple[str, ...], Iterable[str]],
) -> str:
    kind = error["type"]
    name = key.rsplit(".", maxsplit=1)[-1].rsplit(" ", maxsplit=1)[-1]
    if kind == "extra_forbidden":
        if name.casefold() in SECRET_KEYS:
            return (
                "unknown key: secrets do not belong in a study file; name the environment "
                "variable that holds the key with key_env"
            )
        legal = sorted(fields.get(path, ()))
        return "unknown key" + (near_miss(name, legal) or f"; the keys here are: {listed(legal)}")
    if kind == "too_short":
        return "none given; give at least one"
    if kind == "missing":
        return "this key is missing; add it"
    if kind in {"string_type", "string_unicode"}:
        return "must be text; put it in quotes"
    if kind == "value_error":
        return str((error.get("ctx") or {}).get("error", error["msg"]))
    message = error["msg"].removeprefix("Input ").removeprefix("Value error, ")
    return message[:1].lower() + message[1:]
