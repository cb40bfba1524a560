"""How looks are told: what is open first, numbers only where they help, no line too long."""

from dataclasses import replace
from decimal import Decimal
from math import inf

import pandas as pd
import pytest

from benchtrial.orchestrator.budget import Amount
from benchtrial.orchestrator.cli import facts, show
from benchtrial.orchestrator.sequential import ContrastLook, Decision, Look


def contrast(first: str, second: str, z: float, **changes: object) -> ContrastLook:
    """A contrast with standard error 0.1 and bound 2; conclusive beyond it."""
    verdict = "first" if z > 2 else "second" if z < -2 else "undecided"
    found = ContrastLook(
        first=first, second=second, value=z / 10, se=0.1, information=100, z=z, alpha_spent=0.01,
        bound=2.0, low=z / 10 - 0.2, high=z / 10 + 0.2, verdict=verdict,
    )  # fmt: skip
    return replace(found, **changes)


UNKNOWN = {"se": inf, "verdict": "not-estimable", "low": -inf, "high": inf}


def look(*contrasts: ContrastLook) -> Look:
    decision = Decision("continue", None, "no conclusion yet")
    return Look(3, 0.3, final=False, contrasts=contrasts, decision=decision)


def test_open_contrasts_stand_first_the_nearest_to_a_decision_on_top() -> None:
    lines = show.look_lines(
        look(
            contrast("a", "b", 9.0),
            contrast("a", "c", 0.5),
            contrast("b", "c", -1.8),
            contrast("b", "d", -3.0),
            contrast("a", "d", 0.0, verdict="equivalent"),
        )
    )
    assert lines == [
        "look 3  clock 0.30",
        "  b - c: -0.180  [-0.380, +0.020]  z -1.80 of 2.00",
        "  a - c: +0.050  [-0.150, +0.250]  z +0.50 of 2.00",
        "  conclusive: a = d, d > b, a > b",
    ]


def test_where_all_are_conclusive_the_closest_call_has_its_numbers() -> None:
    lines = show.look_lines(look(contrast("a", "b", 9.0), contrast("a", "c", 2.5)))
    assert lines[1:] == [
        "  a - c: +0.250  [+0.050, +0.450]  z +2.50 of 2.00",
        "  conclusive: a > b",
    ]


def test_many_contrasts_are_counted() -> None:
    names = [f"candidate-{n}" for n in range(20)]
    contrasts = [contrast("x", name, 0.1 * n) for n, name in enumerate(names)]
    contrasts += [contrast("y", name, 5.0) for name in names]
    contrasts += [contrast("z", name, 0.0, **UNKNOWN) for name in names[:1]]
    lines = show.look_lines(look(*contrasts))
    assert len(lines) == 1 + show.CONTRASTS_SHOWN + 3
    assert "x - candidate-19" in lines[1]
    assert lines[-3:] == [
        "  further from a decision: 14 contrasts",
        "  not estimable yet: 1 contrast",
        "  conclusive: 20 contrasts",
    ]


def test_contrasts_that_no_bound_was_set_for() -> None:
    lines = show.look_lines(
        look(
            contrast("a", "b", 1.0, bound=inf),
            contrast("a", "c", 1.0),
            contrast("a", "d", 3.0, verdict="prior-driven"),
        )
    )
    assert lines[1].endswith("z +3.00, set by the prior")
    assert lines[2].endswith("z +1.00 of 2.00")
    assert lines[3].endswith("z +1.00, not tested")


def test_long_ids_are_whole_and_their_numbers_stand_below() -> None:
    one, two = (f"organisation/model-{n}-with-a-long-name-and-a-date" for n in (1, 2))
    lines = show.look_lines(look(contrast(one, two, 1.0)))
    assert lines[1:] == [
        f"  {one} - {two}:",
        "    +0.100  [-0.100, +0.300]  z +1.00 of 2.00",
    ]
    table = show.looks_lines([look(contrast(one, two, 1.0))])
    assert f"{one} - {two}" in table
    assert max(len(line) for line in table if one not in line) <= 80


def test_the_table_of_looks_shows_the_open_contrast_or_the_closest_call() -> None:
    wide = look(contrast("a", "b", 9.0), contrast("a", "c", 2.5), contrast("b", "c", 0.1))
    shut = look(contrast("a", "b", 9.0), contrast("a", "c", 2.5))
    lines = show.looks_lines([wide, shut, look(contrast("a", "b", 0.0, **UNKNOWN))])
    assert [line.split()[2:5] for line in lines[1:]] == [
        ["b", "-", "c"],
        ["a", "-", "c"],
        ["a", "-", "b"],
    ]
    assert "inf" not in "".join(lines)
    assert len({len(line) for line in lines}) == 1  # aligned
    assert show.looks_lines([]) == []


def test_money_is_said_where_there_is_any() -> None:
    assert show.spending(Amount(1200, Decimal("0.5"), 3)) == (
        "1,200 tokens in 3 requests, 0.5000 in money"
    )
    assert show.spending(Amount(1, None, 1)) == "1 tokens in 1 requests"


def test_missing_verdicts_count_for_both_candidates_the_most_frequent_first() -> None:
    missing = pd.DataFrame(
        {
            "judge": ["j", "j", "j"],
            "first": ["a", "a", "b"],
            "second": ["b", "b", "a"],
            "state": ["invalid", "invalid", "failed"],
            "reason": ["refusal", "refusal", "transport"],
        }
    )
    counts = facts.missing_counts(missing)
    assert counts["count"].tolist() == [2, 2, 1, 1]
    assert set(zip(counts["subject"], counts["slot"], strict=True)) == {
        ("a", "A"), ("b", "B"), ("b", "A"), ("a", "B"),
    }  # fmt: skip


@pytest.mark.parametrize("value", [inf, -inf, float("nan")])
def test_json_knows_no_infinity(value: float) -> None:
    assert facts.dumps({"x": [value, {"y": value}, 1.5]}) == (
        '{\n  "x": [\n    null,\n    {\n      "y": null\n    },\n    1.5\n  ]\n}'
    )


def test_ids_that_look_like_markup_are_printed_as_they_are(capsys) -> None:
    voice = show.voice(as_json=False, quiet=False)
    voice.say(["[bold]a[/bold] :smile: 1.5"])
    assert capsys.readouterr().out == "[bold]a[/bold] :smile: 1.5\n"


def test_paragraphs_break_between_words_and_keep_ids_whole() -> None:
    name = "x" * 90
    lines = show.paragraph(f"warning: {name} and " + "some-words " * 20)
    assert name in lines[1]
    assert all(len(line) <= 80 or name in line for line in lines)
    assert all(line.startswith("    ") for line in lines[1:])
