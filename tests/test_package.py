"""The umbrella: the names of the contract, nothing loaded before it is used, one version."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import benchtrial as bt

ROOT = Path(__file__).resolve().parents[1]
CONTRACT = {
    "designs": {
        "balance",
        "balanced_swaps",
        "incomplete_blocks",
        "random_shuffle",
        "williams",
        "williams_square",
    },
    "models": {
        "audit",
        "fit_glmm",
        "fit_glmm_panel",
        "fit_oscar",
        "matched_swap_position",
    },
    "sequential": {"boundaries", "confidence_sequence"},
}
# Importing the umbrella must not load any of these: they take most of a second together.
HEAVY = {"httpx", "numpy", "pandas", "pydantic", "rich", "scipy", "sqlalchemy", "tenacity", "typer"}


@pytest.mark.parametrize("room", CONTRACT)
def test_the_contract_is_public(room):
    names = getattr(bt, room)
    assert set(names.__all__) >= CONTRACT[room]
    assert all(callable(getattr(names, name)) for name in CONTRACT[room])
    assert all(getattr(names, name).__doc__ for name in CONTRACT[room])


def test_study_and_campaign_are_public():
    assert bt.Study.from_file
    assert bt.Campaign.open
    assert set(bt.__all__) <= set(dir(bt))
    with pytest.raises(AttributeError, match="nothing"):
        bt.nothing  # noqa: B018


def test_importing_the_umbrella_loads_nothing_heavy():
    code = "import benchtrial, json, sys; print(json.dumps(sorted(sys.modules)))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not HEAVY & set(json.loads(loaded.stdout))


def test_the_version_is_said_once():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert bt.__version__ == project["version"]


def test_the_types_are_shipped():
    assert (Path(bt.__file__).parent / "py.typed").exists()
