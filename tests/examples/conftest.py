"""The examples are programs and data, not part of the package: they are found by their path."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="session")
def examples() -> Path:
    return EXAMPLES


@pytest.fixture(scope="session")
def serve() -> ModuleType:
    path = EXAMPLES / "local_judge" / "serve.py"
    spec = importlib.util.spec_from_file_location("local_judge_serve", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
