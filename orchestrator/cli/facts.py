"""Results as plain data, for ``--json``: keys that stay, and nothing that strict JSON lacks.

A number that is not known, or infinite because nothing bounds it yet, is null. Money is text, so
that no digit is lost.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from math import isfinite
from typing import Any

import pandas as pd

from benchtrial.orchestrator.budget import Amount
from benchtrial.orchestrator.campaign import Result
from benchtrial.orchestrator.sequential import Look


def of_result(result: Result) -> dict[str, object]:
    """Describe the result of a campaign."""
    missing = result.missing
    return {
        "result": result.state,
        "winner": result.winner,
        "sentence": result.sentence,
        "spent": of_amount(result.spent),
        "warnings": list(result.warnings),
        "missing": [] if missing.empty else of_rows(missing_counts(missing)),
        "looks": [of_look(look) for look in result.looks],
    }


def missing_counts(missing: pd.DataFrame) -> pd.DataFrame:
    """Count missing verdicts by judge, who was shown, slot and reason; unequal loss shows here.

    A missing verdict on a pair counts for both of its candidates. The most frequent come first.
    """
    parts = []
    if "first" in missing:
        pairs = missing[missing["first"].notna()]
        parts += [
            pairs.assign(subject=pairs[column], slot=slot)
            for column, slot in (("first", "A"), ("second", "B"))
        ]
    if "item" in missing:
        parts.append(missing[missing["batch"].notna()].assign(subject=lambda rows: rows["item"]))
    by = ["judge", "subject", "slot", "state", "reason"]
    counts = pd.concat(parts).groupby(by, dropna=False).size().rename("count").reset_index()
    return counts.sort_values("count", ascending=False, kind="stable", ignore_index=True)


def of_amount(spent: Amount) -> dict[str, object]:
    """Describe an amount."""
    money = None if spent.money is None else str(spent.money)
    return {"tokens": spent.tokens, "requests": spent.requests, "money": money}


def of_look(look: Look) -> dict[str, object]:
    """Describe a look with its contrasts and its decision."""
    return asdict(look)


def of_rows(frame: pd.DataFrame) -> list[dict[str, object]]:
    """Describe a table, one object a row."""
    return [dict(zip(frame.columns, row, strict=True)) for row in frame.astype(object).to_numpy()]


def of_series(series: "pd.Series[Any]") -> dict[str, object]:
    """Describe a series by its labels."""
    return {str(label): value for label, value in series.astype(object).items()}


def dumps(found: Mapping[str, object]) -> str:
    """Write one strict JSON object."""
    return json.dumps(_strict(found), indent=2, allow_nan=False)


def _strict(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    return value
