"""The study file: what is asked, of whom, in which design, and when the answer is conclusive."""

from benchtrial.orchestrator.study.identity import canonical_json, sha256_of
from benchtrial.orchestrator.study.model import Study
from benchtrial.orchestrator.study.specs import (
    AnalysisSpec,
    AnswerSpec,
    BudgetSpec,
    Candidate,
    Criterion,
    DesignSpec,
    FirstLook,
    Item,
    JudgeSpec,
    PriceSpec,
    Prompt,
    StoppingSpec,
    TargetSpec,
    Template,
    Turn,
)
from benchtrial.orchestrator.study.starter import starter

__all__ = [
    "AnalysisSpec",
    "AnswerSpec",
    "BudgetSpec",
    "Candidate",
    "Criterion",
    "DesignSpec",
    "FirstLook",
    "Item",
    "JudgeSpec",
    "PriceSpec",
    "Prompt",
    "StoppingSpec",
    "Study",
    "TargetSpec",
    "Template",
    "Turn",
    "canonical_json",
    "sha256_of",
    "starter",
]
