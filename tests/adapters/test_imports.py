"""Importing the adapters costs next to nothing, and nothing of the network is loaded by it."""

import subprocess
import sys

import benchtrial.adapters

HEAVY = ("httpx", "tenacity", "numpy", "pandas", "pydantic")


def test_heavy_packages_are_loaded_only_when_they_are_needed() -> None:
    code = f"import sys, benchtrial.adapters; print([m for m in {HEAVY!r} if m in sys.modules])"
    shown = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    assert shown.strip() == "[]"


def test_every_public_name_exists_and_the_list_is_sorted() -> None:
    names = benchtrial.adapters.__all__
    assert all(hasattr(benchtrial.adapters, name) for name in names)
    constants = [name for name in names if name.isupper()]
    others = [name for name in names if not name.isupper() and name[0].isupper()]
    functions = [name for name in names if name[0].islower()]
    assert names == [*sorted(constants), *sorted(others), *sorted(functions)]
