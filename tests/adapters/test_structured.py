import json
import re
from typing import Any

import pytest

from benchtrial.adapters import Answer, ChoiceAnswer, RatingsAnswer, answer_grammar, answer_schema
from benchtrial.errors import InputError

ODD = ("über", 'the "best"', "back\\slash", "two\nlines", "新しい")


def accepted(grammar: str, text: str) -> bool:
    """Whether ``text`` matches a grammar of the small kind that we write, by way of a regex."""
    rules = dict(line.split(" ::= ", 1) for line in grammar.splitlines())
    token = re.compile(r'"(?:[^"\\]|\\.)*"|\[[^\]]+\](?:\{[\d,]+\})?|\{[\d,]+\}|[()|?]|value|\s+')

    def translate(rule: str) -> str:
        assert "".join(token.findall(rule)) == rule, f"not understood: {rule}"
        parts = []
        for part in token.findall(rule):
            if part.startswith('"'):
                literal = re.sub(r"\\(.)", r"\1", part[1:-1])
                parts.append(re.escape(literal))
            elif part == "value":
                parts.append(f"(?:{translate(rules['value'])})")
            elif not part.isspace():
                parts.append(part)
        return "".join(parts)

    return re.fullmatch(translate(rules["root"]), text) is not None


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize("labels", [("A", "B"), ("A", "B", "tie"), ODD])
def test_a_choice_is_held_to_its_labels(labels: tuple[str, ...]) -> None:
    grammar, schema = answer_grammar(ChoiceAnswer(labels)), answer_schema(ChoiceAnswer(labels))
    for label in labels:
        assert accepted(grammar, dump({"winner": label}))
    assert not accepted(grammar, dump({"winner": "neither"}))
    assert not accepted(grammar, '{"winner":  "A"}')
    assert not accepted(grammar, '{ "winner": "A"}')
    assert not accepted(grammar, '{"winner": "A"}\n')
    assert schema["properties"]["winner"] == {"type": "string", "enum": list(labels)}
    assert schema["required"] == ["winner"]
    assert schema["additionalProperties"] is False


def test_ratings_have_a_key_per_item_in_displayed_order() -> None:
    answer = RatingsAnswer(12, ("reject", "accept"))
    keys = [f"item_{number}" for number in range(1, 13)]
    assert list(answer_schema(answer)["properties"]) == keys == answer_schema(answer)["required"]
    grammar = answer_grammar(answer)
    right = dict.fromkeys(keys, "accept")
    assert accepted(grammar, dump(right))
    assert not accepted(grammar, dump(dict(reversed(right.items()))))
    assert not accepted(grammar, dump(dict.fromkeys(keys[:-1], "accept")))
    assert not accepted(grammar, dump(right | {"item_3": "maybe"}))


@pytest.mark.parametrize(
    ("answer", "legal", "illegal"),
    [
        (RatingsAnswer(1, scale=(1, 10)), ["1", "10"], ["0", "11", "5.5", "05", "-1"]),
        (RatingsAnswer(1, scale=(0, 100)), ["0", "100"], ["101", "00"]),
        (RatingsAnswer(1, scale=(-1, 1)), ["-1", "0", "1"], ["-2", "+1"]),
        (RatingsAnswer(1, scale=(0, 10**6)), ["0", "1000000", "42"], ["10000000", "1.5", "-1"]),
        (RatingsAnswer(1, scale=(0, 1), integer=False), ["0", "1", "0.25"], [".5", "0.", "1e-3"]),
        (RatingsAnswer(1, scale=(-1, 1), integer=False), ["-0.5"], ["--1", "0.123456"]),
    ],
)
def test_numbers_on_a_scale(answer: Answer, legal: list[str], illegal: list[str]) -> None:
    grammar = answer_grammar(answer)
    for number in legal:
        assert accepted(grammar, f'{{"item_1": {number}}}'), number
        json.loads(number)
    for number in illegal:
        assert not accepted(grammar, f'{{"item_1": {number}}}'), number


def test_the_schema_of_a_scale() -> None:
    assert answer_schema(RatingsAnswer(1, scale=(1, 10)))["properties"]["item_1"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 10,
    }
    assert answer_schema(RatingsAnswer(1, scale=(0, 1), integer=False))["properties"]["item_1"] == {
        "type": "number",
        "minimum": 0,
        "maximum": 1,
    }


@pytest.mark.parametrize("write", [answer_schema, answer_grammar])
def test_a_rating_without_labels_or_scale_is_refused(write: Any) -> None:
    with pytest.raises(InputError, match="labels or a scale"):
        write(RatingsAnswer(2))
