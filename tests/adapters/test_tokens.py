from dataclasses import replace

from benchtrial.adapters import Message, Request
from benchtrial.adapters.tokens import input_bytes


def test_bytes_are_counted_and_not_characters(request_for_pair: Request) -> None:
    short = input_bytes(replace(request_for_pair, messages=(Message("user", ""),)))
    for text, size in (("a" * 10, 10), ("é" * 10, 20), ("新" * 10, 30), ("\ud800", 3)):
        request = replace(request_for_pair, messages=(Message("user", text),))
        assert input_bytes(request) - short == size
    assert input_bytes(request_for_pair, structure="xyz") - input_bytes(request_for_pair) == 3


def test_an_empty_conversation_still_has_an_allowance(request_for_pair: Request) -> None:
    assert input_bytes(replace(request_for_pair, messages=())) > 0
