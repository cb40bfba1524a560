"""The round trip of a look through JSON."""

import json
from dataclasses import replace
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from benchtrial.orchestrator.sequential import ContrastLook, Decision, Look

NUMBERS = st.floats(allow_nan=False)
CONTRASTS = st.builds(
    ContrastLook,
    first=st.text(),
    second=st.text(),
    value=NUMBERS,
    se=NUMBERS,
    information=NUMBERS,
    z=NUMBERS,
    alpha_spent=NUMBERS,
    bound=NUMBERS,
    low=NUMBERS,
    high=NUMBERS,
    verdict=st.sampled_from(["first", "undecided", "not-estimable"]),
)
LOOKS = st.builds(
    Look,
    number=st.integers(1, 100),
    clock=st.floats(0, 1),
    final=st.booleans(),
    contrasts=st.lists(CONTRASTS, max_size=3).map(tuple),
    decision=st.builds(
        Decision,
        state=st.just("continue"),
        winner=st.none() | st.text(),
        sentence=st.text(),
        answer=st.lists(st.text(), max_size=3).map(tuple),
    ),
)


def bits(look):
    return [
        number.hex()
        for contrast in look.contrasts
        for number in vars_of(contrast)
        if isinstance(number, float)
    ]


def vars_of(contrast):
    return [getattr(contrast, name) for name in contrast.__slots__]


@given(LOOKS)
def test_the_round_trip_is_exact_to_the_bit(look):
    again = Look.from_json(look.to_json())
    assert again == look
    assert bits(again) == bits(look)  # equality would not tell -0.0 from 0.0


def test_infinite_ends_are_strict_json():
    contrast = ContrastLook("a", "b", 0.0, inf, 0.0, 0.0, 0.0, inf, -inf, inf, "not-estimable")
    look = Look(1, 0.1, False, (contrast,), Decision("continue", None, "…"))

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    json.loads(look.to_json(), parse_constant=refuse)


def test_a_contrast_reads_the_same_from_both_ends():
    contrast = ContrastLook("a", "b", 0.5, 0.1, 100.0, 5.0, 0.01, 2.5, 0.25, 0.75, "first")
    turned = contrast.seen_from("b")
    assert turned.winner == contrast.winner == "a"
    assert (turned.value, turned.low, turned.high) == (-0.5, -0.75, -0.25)
    assert turned.seen_from("a") == contrast
    assert replace(contrast, verdict="undecided").winner is None
