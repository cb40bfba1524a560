"""Begin: a study file to edit, or a shipped example to look at."""

from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Literal

from benchtrial.errors import InputError
from benchtrial.orchestrator.study.problems import unknown
from benchtrial.orchestrator.study.starter import starter


def write_study(path: Path, kind: Literal["batch", "pairs"]) -> str:
    """Write a commented study file where there is none, and say so.

    Raises
    ------
    InputError
        If something is there already, or the file cannot be written.
    """
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(starter(kind))
    except FileExistsError:
        raise InputError(f"{path} exists already; choose another name") from None
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error
    return f"wrote {path}: edit it, then start it with: benchtrial run {path}"


def lay_out(example: str, folder: Path) -> str:
    """Copy a shipped example into ``folder``, and say so.

    Raises
    ------
    InputError
        If there is no such example, it is there already, or it cannot be written.
    """
    shipped = _shipped()
    names = sorted(
        entry.name for entry in shipped.iterdir() if entry.is_dir() and entry.name[0] not in "._"
    )
    if example not in names:
        raise InputError(unknown(example, names, "example"))
    target = folder / example
    try:
        with as_file(shipped / example) as source:
            copytree(source, target, ignore=ignore_patterns("__pycache__"))
    except FileExistsError:
        raise InputError(f"{target} exists already; choose another folder") from None
    except OSError as error:
        raise InputError(f"{target} cannot be written: {error.strerror or error}") from error
    return f"laid out {target}"


def _shipped() -> Traversable:
    """Examples stand inside an installed wheel, and at the root of a checkout."""
    for place in (
        files("benchtrial") / "examples",
        Path(__file__).resolve().parents[2] / "examples",
    ):
        if place.is_dir():
            return place
    raise InputError("this installation ships no examples; install Benchtrial from its wheel")
