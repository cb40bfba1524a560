"""What makes two studies the same study.

A ledger holds verdicts that were bought under one study; under another they would be evidence of
something else. The identity of a study is the SHA-256 of its canonical JSON (sorted keys, UTF-8, no
free white space) without the settings that only say how a request travels.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from benchtrial.orchestrator.study.problems import listed, shown

# How a request travels changes no verdict, so that a resumed run may change it.
TRANSPORT_KEYS = frozenset({"base_url", "key_env", "concurrency", "timeout_s"})


def canonical_json(value: object) -> str:
    """Return the one JSON text of ``value``: sorted keys, no free white space, UTF-8 kept.

    Raises
    ------
    ValueError
        For NaN and infinities, which JSON does not have.
    """
    return json.dumps(
        value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    )


def parse_json(text: str) -> Any:
    """Read JSON as ``canonical_json`` writes it.

    Raises
    ------
    ValueError
        If the text is not JSON, or holds NaN or an infinity.
    """
    return json.loads(text, parse_constant=_no_constant)


def sha256_of(value: object) -> str:
    """Return the hexadecimal SHA-256 of the canonical JSON of ``value``."""
    return hashlib.sha256(canonical_json(value).encode("utf-8")).hexdigest()


def without_transport(study: Mapping[str, Any]) -> dict[str, Any]:
    """Return the dumped study without the settings that only say how a request travels."""
    judges = [
        {key: value for key, value in judge.items() if key not in TRANSPORT_KEYS}
        for judge in study["judges"]
    ]
    return {**study, "judges": judges}


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return one readable line per field in which two dumped studies differ."""
    return list(_differences(old, new, ""))


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _differences(old: Any, new: Any, path: str) -> list[str]:
    if old == new and type(old) is type(new):
        return []
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        lines = []
        for key in [*old, *(key for key in new if key not in old)]:
            inner = f"{path}.{key}" if path else str(key)
            lines += _differences(old.get(key), new.get(key), inner)
        return lines
    if _has_ids(old) and _has_ids(new):
        return _row_differences(old, new, path)
    return [f"{path}: {shown(old)} -> {shown(new)}"]


def _has_ids(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(row, Mapping) and "id" in row for row in value
    )


def _row_differences(
    old: list[Mapping[str, Any]], new: list[Mapping[str, Any]], path: str
) -> list[str]:
    before = {row["id"]: row for row in old}
    after = {row["id"]: row for row in new}
    lines = []
    if added := [row for row in after if row not in before]:
        lines.append(f"{path}: {len(added)} added ({listed(added)})")
    if removed := [row for row in before if row not in after]:
        lines.append(f"{path}: {len(removed)} removed ({listed(removed)})")
    kept = [row for row in before if row in after]
    if kept != [row for row in after if row in before]:
        lines.append(f"{path}: the order changed")
    for row in kept:
        lines += _differences(before[row], after[row], f"{path}.{row}")
    return lines
