"""Benchtrial: decide which model, prompt or method is better when language models are the judges.

The rooms of the house, from the ground up:

* ``designs``: what to ask next, as pure functions of numbers and a seed;
* ``adapters``: one judge call, request in and reply out;
* ``models``: tables of verdicts in, fits out;
* ``sequential``: fits in, decisions out;
* ``Study`` and ``Campaign``: the study file, and the loop that asks until the answer is conclusive.

Everything is imported on first use, so that ``import benchtrial`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchtrial import adapters, designs
    from benchtrial.orchestrator import models, sequential
    from benchtrial.orchestrator.campaign import Campaign
    from benchtrial.orchestrator.study import Study

__version__ = "0.1.0"
__all__ = ["Campaign", "Study", "adapters", "designs", "models", "sequential"]

_MODULES = {
    "adapters": "benchtrial.adapters",
    "designs": "benchtrial.designs",
    "models": "benchtrial.orchestrator.models",
    "sequential": "benchtrial.orchestrator.sequential",
}
_CLASSES = {
    "Campaign": "benchtrial.orchestrator.campaign",
    "Study": "benchtrial.orchestrator.study",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _CLASSES:
        return getattr(import_module(_CLASSES[name]), name)
    raise AttributeError(f"module 'benchtrial' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
