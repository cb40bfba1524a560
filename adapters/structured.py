"""The shape of a valid answer, in the two languages that servers understand.

A JSON schema for servers that take one, and a grammar in llama.cpp's GBNF. The grammar allows
exactly the text that ``json.dumps`` writes: free white space between tokens, which a schema
permits, lets a small model run on until its output cap.

Sources: JSON Schema 2020-12, as far as providers' strict modes accept it; llama.cpp,
grammars/README.
"""

import json
import math
from typing import Any

from benchtrial.adapters.judge import Answer, ChoiceAnswer, RatingsAnswer
from benchtrial.errors import InputError

# Beyond this many whole numbers a grammar that lists them all is slower than one that counts
# digits.
_LISTED_NUMBERS = 1001

# Digits after the point that a rating on a continuous scale may have: more carry no meaning, and an
# unbounded repetition could run into the output cap.
_DECIMALS = 4


def answer_schema(answer: Answer) -> dict[str, Any]:
    """JSON schema of ``answer``: an object with every key required and no other allowed."""
    if isinstance(answer, ChoiceAnswer):
        return _object({"winner": _label_schema(answer.labels)})
    rating = _label_schema(answer.labels) if answer.labels else _number_schema(answer)
    return _object(dict.fromkeys(rating_keys(answer), rating))


def answer_grammar(answer: Answer) -> str:
    """GBNF grammar of ``answer``: one line of JSON, spaced as ``json.dumps`` spaces it."""
    if isinstance(answer, ChoiceAnswer):
        opening = _text(f"{{{json.dumps('winner')}: ")
        return f"root ::= {opening} value {_text('}')}\n{_label_rule(answer.labels)}\n"
    pairs = [_text(f"{json.dumps(key)}: ") + " value" for key in rating_keys(answer)]
    body = f" {_text(', ')} ".join(pairs)
    value = _label_rule(answer.labels) if answer.labels else _number_rule(answer)
    return f"root ::= {_text('{')} {body} {_text('}')}\n{value}\n"


def rating_keys(answer: RatingsAnswer) -> tuple[str, ...]:
    """Keys ``item_1``, ``item_2``, … of the displayed items in displayed order."""
    return tuple(f"item_{number}" for number in range(1, answer.size + 1))


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _label_schema(labels: tuple[str, ...]) -> dict[str, Any]:
    return {"type": "string", "enum": list(labels)}


def _number_schema(answer: RatingsAnswer) -> dict[str, Any]:
    low, high = _scale(answer)
    if answer.integer:
        return {"type": "integer", "minimum": math.ceil(low), "maximum": math.floor(high)}
    return {"type": "number", "minimum": low, "maximum": high}


def _label_rule(labels: tuple[str, ...]) -> str:
    return "value ::= " + " | ".join(
        _text(json.dumps(label, ensure_ascii=False)) for label in labels
    )


def _number_rule(answer: RatingsAnswer) -> str:
    low, high = _scale(answer)
    first, last = math.ceil(low), math.floor(high)
    if answer.integer and last - first < _LISTED_NUMBERS:
        return "value ::= " + " | ".join(_text(str(number)) for number in range(first, last + 1))
    digits = len(str(max(abs(first), abs(last))))
    sign = '"-"? ' if low < 0 else ""
    whole = '("0" | [1-9]' + (f" [0-9]{{0,{digits - 1}}})" if digits > 1 else ")")
    fraction = "" if answer.integer else f' ("." [0-9]{{1,{_DECIMALS}}})?'
    return f"value ::= {sign}{whole}{fraction}"


def _scale(answer: RatingsAnswer) -> tuple[float, float]:
    if answer.scale is None:
        raise InputError("a rating needs labels or a scale; the answer has neither")
    return answer.scale


def _text(literal: str) -> str:
    """Quote a literal for GBNF."""
    escaped = literal.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
