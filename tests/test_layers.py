"""No import runs upward: the one test that enforces the table in ``docs/architecture.md``."""

import ast
import sys
from collections.abc import Iterator, Set
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODELS = "benchtrial.orchestrator.models"
SEQUENTIAL = "benchtrial.orchestrator.sequential"
STUDY = {f"benchtrial.orchestrator.{name}" for name in ("study", "prompts", "verdicts")}
RECORD = {f"benchtrial.orchestrator.{name}" for name in ("ledger", "budget")}
CAMPAIGN = "benchtrial.orchestrator.campaign"
ERRORS = "benchtrial.errors"
NUMBERS = {"numpy", "pandas"}

READING = {ERRORS, "benchtrial.adapters", "benchtrial.designs", "pydantic", "pydantic_core"}
KEEPING = {ERRORS, "benchtrial", "benchtrial.adapters", "sqlalchemy"}

# Room -> what it may import besides itself and the standard library.
ROOMS: dict[str, Set[str]] = {
    ERRORS: set(),
    "benchtrial.designs": {ERRORS, *NUMBERS},
    "benchtrial.adapters": {ERRORS, "pydantic"},
    "benchtrial.adapters.transport": {ERRORS, "benchtrial.adapters", "httpx", "tenacity"},
    "benchtrial.adapters.simulated": {ERRORS, "benchtrial.adapters", "numpy"},
    MODELS: {ERRORS, "benchtrial.designs.balance", "scipy", *NUMBERS},
    SEQUENTIAL: {ERRORS, MODELS, "scipy", *NUMBERS},
    **dict.fromkeys(STUDY, frozenset(READING | NUMBERS | STUDY)),
    **dict.fromkeys(RECORD, frozenset(KEEPING | NUMBERS | RECORD)),
    CAMPAIGN: {
        ERRORS,
        "benchtrial",
        "benchtrial.adapters",
        "benchtrial.designs",
        MODELS,
        SEQUENTIAL,
        *STUDY,
        *RECORD,
        *NUMBERS,
    },
}
TOP = {"benchtrial", "httpx", "numpy", "pandas", "pydantic", "rich", "scipy", "typer", "sqlalchemy"}


def _sources() -> list[Path]:
    rooms = [ROOT / room for room in ("designs", "adapters", "orchestrator")]
    return sorted(path for room in rooms for path in room.rglob("*.py")) + sorted(
        (ROOT / "src" / "benchtrial").glob("*.py")
    )


def _module(path: Path) -> str:
    relative = path.relative_to(ROOT).with_suffix("")
    parts = [part for part in relative.parts if part not in {"src", "benchtrial"}]
    return ".".join(["benchtrial", *parts]).removesuffix(".__init__")


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or ""


def _inside(module: str, room: str) -> bool:
    return module == room or module.startswith(f"{room}.")


def _allowed(module: str, imported: str) -> bool:
    if imported.split(".")[0] in sys.stdlib_module_names:
        return True
    rooms = [room for room in ROOMS if _inside(module, room)]
    if not rooms:  # the top floor and the umbrella may use everything below
        return imported.split(".")[0] in TOP
    room = max(rooms, key=len)
    if _inside(imported, room):
        return True
    # "benchtrial" itself (the version) is a single name, not the whole house
    return any(
        imported == name if name == "benchtrial" else _inside(imported, name)
        for name in ROOMS[room]
    )


def test_every_source_is_found() -> None:
    names = {_module(path) for path in _sources()}
    assert {"benchtrial", "benchtrial.errors", "benchtrial.adapters.judge"} <= names
    assert set(ROOMS) <= names | {MODELS, SEQUENTIAL}


@pytest.mark.parametrize("path", _sources(), ids=_module)
def test_no_import_runs_upward(path: Path) -> None:
    module = _module(path)
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {module} may not import {imported}"
        for line, imported in _imports(path)
        if not _allowed(module, imported)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_rule_catches_an_upward_import() -> None:
    assert not _allowed("benchtrial.designs.swaps", "benchtrial.adapters.judge")
    assert not _allowed("benchtrial.adapters.openai", "httpx")
    assert not _allowed("benchtrial.orchestrator.models.glmm", "benchtrial.orchestrator.ledger")
    assert not _allowed("benchtrial.orchestrator.ledger.schema", "benchtrial.orchestrator.campaign")
    assert _allowed("benchtrial.orchestrator.campaign.asking", "benchtrial.adapters")
    assert _allowed("benchtrial.orchestrator.cli", "benchtrial.orchestrator.campaign")
