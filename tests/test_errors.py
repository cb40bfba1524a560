"""The tree of errors is the one that its module draws."""

import ast
import inspect
import re
from pathlib import Path

from benchtrial import errors

ROOT = Path(__file__).resolve().parents[1]
DRAWN = re.compile(r"^(?P<branch>[ │├└─]*)(?P<name>[A-Z]\w+)(?: \((?P<also>\w+)\))?", re.MULTILINE)


def drawn_tree() -> dict[str, str | None]:
    """Each drawn class and its drawn parent: a child stands four columns to the right."""
    drawing = inspect.cleandoc(errors.__doc__ or "").split("::\n")[1].split("\n\nEach message")[0]
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for found in DRAWN.finditer(inspect.cleandoc(drawing)):
        depth = len(found["branch"]) // 4
        path = [*path[:depth], found["name"]]
        parents[found["name"]] = path[-2] if depth else None
    return parents


def test_the_drawing_is_the_tree():
    actual = {
        name: base.__name__ if issubclass(base := one.__mro__[1], errors.BenchtrialError) else None
        for name, one in inspect.getmembers(errors, inspect.isclass)
    }
    assert drawn_tree() == actual
    assert len(actual) > 20


def test_every_class_of_the_product_that_is_an_error_stands_in_this_tree():
    strays = {
        f"{path.relative_to(ROOT)}: {node.name}"
        for room in ("designs", "adapters", "orchestrator")
        for path in (ROOT / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).endswith(("Error", "Exception")) for base in node.bases)
    }
    # These never leave the room that raises them: each is caught there and told as one of the tree.
    assert strays == {
        "adapters/transport/client.py: _TooLarge",
        "orchestrator/campaign/asking.py: _Unaffordable",
        "orchestrator/study/files.py: Unreadable",
        "orchestrator/study/problems.py: Problems",
    }


def test_exit_codes_are_documented_and_distinct_in_meaning():
    page = (ROOT / "docs" / "reference" / "exit-codes.md").read_text(encoding="utf-8")
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    used = {one.exit_code for _, one in inspect.getmembers(errors, inspect.isclass)}
    assert used <= documented
    assert {0, 2, 3, 4, 5, 6, 130, 143} <= documented


def test_bad_input_is_a_value_error_too():
    assert issubclass(errors.StudyError, ValueError)
    assert issubclass(errors.DesignError, ValueError)
