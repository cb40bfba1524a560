"""Balance reports: of plans, of squares, of what became of them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchtrial import designs
from benchtrial.errors import DataError

RECORDED = Path(__file__).parents[3] / "shared" / "data"


def recorded(name):
    path = RECORDED / name
    if not path.exists():
        pytest.skip(f"the recorded table {name} is not beside the repository")
    table = pd.read_csv(path).rename(
        columns={"prompt_id": "prompt", "candidate_a": "first", "candidate_b": "second"}
    )
    table["outcome"] = table["verdict"].map({"A": 1.0, "B": 0.0, "tie": 0.5})
    return table


def grades(balance):
    return {check.name: check.grade for check in balance.checks}


def test_a_cyclic_square_is_not_carryover_balanced():
    balance = designs.balance([[1, 2, 3, 4], [2, 3, 4, 1], [3, 4, 1, 2], [4, 1, 2, 3]])
    carryover = balance["carryover"]
    assert balance["position"].grade == "exact"
    assert not carryover.passed
    assert carryover.labels == ((1, 2), (2, 3), (3, 4), (4, 1))
    assert "3 times, 8 ordered pairs never" in carryover.detail
    assert balance.carryover.loc[1, 2] == 3
    assert balance.carryover.loc[2, 1] == 0
    assert not balance.faults


def test_seven_rows_of_three_are_nearly_balanced_and_the_report_says_so():
    seven = designs.williams(["a", "b", "c"], 2, seed=1).slice(0, 7)
    balance = designs.balance(seven)
    assert grades(balance)["position"] == grades(balance)["carryover"] == "near"
    assert "2 to 3 times" in balance["position"].detail


def test_a_lost_sequence_is_found_in_what_was_realised():
    frame = designs.williams(["a", "b", "c", "d"], 1, seed=1).to_frame()
    for lost in (
        frame[frame["batch"] != 2],
        frame.assign(rating=np.where(frame["batch"] == 2, np.nan, 1)),
    ):
        balance = designs.balance(lost)
        assert balance["lost"].labels == (2,)
        assert "no row of batch 2" in str(balance)
        assert grades(balance)["carryover"] == "near"
    two = pd.concat([frame.assign(judge="x"), frame[frame["batch"] < 3].assign(judge="y")])
    assert "no row of batch 3 of judge y" in designs.balance(two)["lost"].detail


def test_lost_ratings_leave_gaps():
    frame = designs.random_shuffle(["a", "b", "c"], 6, seed=1).to_frame().assign(rating=1.0)
    frame.loc[4, "rating"] = np.nan
    lost = designs.balance(frame)["lost"]
    assert "1 of 18 rows have no rating; 1 batches have gaps" in lost.detail
    # The predecessor is the last item emitted, so that a gap joins its neighbours.
    assert designs.balance(frame).carryover.to_numpy().sum() == 11


def test_the_order_of_rows_does_not_matter():
    frame = designs.williams(["a", "b", "c", "d"], 1, seed=1).to_frame()
    shuffled = designs.balance(frame.sample(frac=1, random_state=1))
    assert shuffled.carryover.equals(designs.balance(frame).carryover)


def test_judges_are_counted_apart():
    frame = designs.williams(["a", "b", "c", "d"], 1, seed=1).to_frame()
    both = pd.concat([frame.assign(judge="x"), frame.assign(judge="y")])
    assert grades(designs.balance(both))["carryover"] == "exact"
    mirrored = pd.concat(
        [frame[frame["batch"] < 2].assign(judge="x"), frame[frame["batch"] >= 2].assign(judge="y")]
    )
    assert grades(designs.balance(mirrored))["carryover"] == "near"
    assert "(judge x)" in designs.balance(mirrored)["carryover"].detail


def test_repeated_items_and_positions_are_faults():
    frame = pd.DataFrame({"batch": [0, 0, 0], "position": [1, 2, 2], "item": ["a", "b", "a"]})
    balance = designs.balance(frame)
    assert balance["duplicates"].labels == ("a",)
    assert "repeat a position" in balance["duplicates"].detail


def test_unlinked_items_are_a_fault():
    schedule = designs.BatchSchedule(
        tuple("abcde"), (("a", "b"), ("b", "c"), ("d", "e")), (0, 1, 2)
    )
    balance = designs.balance(schedule)
    assert balance.connectivity == (("a", "b", "c"), ("d", "e"))
    assert balance["connectivity"].labels == ("d", "e")
    assert [check.name for check in balance.faults] == ["connectivity"]


def test_an_item_never_shown_is_counted():
    schedule = designs.BatchSchedule(("a", "b", "c"), (("a", "b"), ("b", "a")), (0, 1))
    balance = designs.balance(schedule)
    assert balance["replication"].labels == ("c",)
    assert balance.concurrence.loc["a", "b"] == 2
    assert balance.concurrence.loc["c", "c"] == 0


def test_balanced_swaps_are_exact():
    schedule = designs.balanced_swaps(["a", "b", "c"], range(4), seed=1, judges=["x", "y"])
    balance = designs.balance(schedule)
    assert all(check.passed for check in balance.checks)
    assert set(grades(balance).values()) == {"exact", "sound"}
    assert (balance.position == 16).all(axis=None)
    assert (
        balance.swaps[["forward", "backward", "one_sided"]].to_numpy().tolist() == [[4, 4, 0]] * 6
    )


def test_lost_outcomes_leave_one_order():
    frame = designs.balanced_swaps(["a", "b", "c"], range(4), seed=1).to_frame().assign(outcome=1.0)
    frame.loc[[0, 5], "outcome"] = np.nan
    balance = designs.balance(frame)
    assert "2 of 24 rows have no outcome" in balance["lost"].detail
    assert "2 of 12 cells" in balance["swaps"].detail
    assert balance.swaps["one_sided"].sum() == 2
    assert grades(balance)["order"] == "sound"


def test_one_order_only_is_confounded_with_identity():
    frame = designs.balanced_swaps(["a", "b", "c"], range(4), seed=1).to_frame()
    sorted_only = frame[frame["first"] < frame["second"]]
    order = designs.balance(sorted_only)["order"]
    assert order.grade == "fault"
    assert "always stand in the order a, b, c" in order.detail
    # A cycle is confounded too, but no single order of the candidates explains it.
    cyclic = frame[(frame["first"] + frame["second"]).isin(["ab", "bc", "ca"])]
    assert "always stand" not in designs.balance(cyclic)["order"].detail
    assert designs.balance(cyclic)["order"].grade == "fault"


def test_one_judge_with_one_order_is_named():
    frame = designs.balanced_swaps(["a", "b"], range(4), seed=1, judges=["x", "y"]).to_frame()
    kept = frame[(frame["judge"] == "x") | (frame["first"] == "a")]
    assert designs.balance(kept)["order"].labels == ("y",)
    partly = frame.merge(frame.assign(outcome=1.0))
    assert designs.balance(partly)["order"].grade == "sound"


def test_some_pairs_with_one_order_are_listed():
    frame = designs.balanced_swaps(["a", "b", "c"], range(4), seed=1).to_frame()
    kept = frame[~((frame["first"] == "c") & (frame["second"] == "a"))]
    assert designs.balance(kept)["order"].labels == (("a", "c"),)


def test_duplicates_and_links_of_comparisons():
    frame = pd.DataFrame(
        {"judge": ["x", "x", "y"], "first": ["a", "a", "c"], "second": ["b", "b", "d"]}
    )
    balance = designs.balance(frame)
    assert balance["duplicates"].labels == (("a", "b"),)
    assert balance.connectivity == (("a", "b"), ("c", "d"))
    linked = pd.DataFrame({"judge": ["x", "y"], "first": ["a", "b"], "second": ["b", "c"]})
    assert designs.balance(linked)["connectivity"].labels == ("x", "y")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pd.DataFrame({"x": [1]}), "neither the columns 'batch'.* it has 'x'"),
        (pd.DataFrame({"first": [], "second": []}), "no rows"),
        (pd.DataFrame({"batch": [], "position": [], "item": []}), "no rows"),
        (pd.DataFrame({"first": ["a"], "second": [None]}), "column 'second', row 0: the id is"),
        (
            pd.DataFrame({"judge": [None], "first": ["a"], "second": ["b"]}),
            "column 'judge', row 0: the id is missing",
        ),
        (
            pd.DataFrame({"batch": [0, 0], "position": [0, 1], "item": ["a", "b"]}),
            "row 0: .*0.* is not a position; they are whole numbers from 1",
        ),
        (
            pd.DataFrame({"batch": [0, 0], "position": [1, np.nan], "item": ["a", "b"]}),
            "row 1: .*nan.* is not a position",
        ),
        (pd.DataFrame({"first": ["a"], "second": ["a"]}), "row 0: 'a' is compared with itself"),
        (pd.DataFrame({"first": [1, 2], "second": ["1", "x"]}), "both written '1'"),
        (pd.DataFrame({"first": ["a"], "second": ["b"], "outcome": [np.nan]}), "has an outcome"),
    ],
)
def test_unusable_tables_are_refused(table, words):
    with pytest.raises(DataError, match=words):
        designs.balance(table)


def test_categorical_columns_are_ids_like_others():
    swaps = designs.balanced_swaps(["a", "b", "c"], ["p", "q"], seed=1, judges=["x"]).to_frame()
    typed = swaps.astype(dict.fromkeys(("judge", "prompt", "first", "second"), "category"))
    assert str(designs.balance(typed)) == str(designs.balance(swaps))
    batches = designs.williams(["a", "b"], 2, seed=1).to_frame().assign(judge="x")
    typed = batches.astype({"item": "category", "judge": "category"})
    assert str(designs.balance(typed)) == str(designs.balance(batches))


def test_an_unknown_check_is_named():
    with pytest.raises(KeyError, match="there are duplicates, replication"):
        designs.balance([[1, 2], [2, 1]])["balance"]


def test_large_pools_are_counted_without_tables():
    schedule = designs.random_shuffle(range(3000), 300, seed=1, size=10)
    balance = designs.balance(schedule)
    assert balance.carryover is balance.concurrence is None
    assert balance["replication"].grade == "exact"


def test_recorded_order_confounded_with_identity_is_found():
    balance = designs.balance(recorded("xu_mtbench.csv.gz"))
    order = balance["order"]
    assert order.grade == "fault"
    assert len(order.labels) == 20
    assert "alpaca-13b, claude-v1, gpt-3.5-turbo, gpt-4, llama-13b, vicuna-13b" in order.detail
    assert "294 of 10000 rows have no outcome" in balance["lost"].detail


def test_recorded_swaps_are_recognized():
    balance = designs.balance(recorded("prd_vicuna80.csv.gz"))
    assert grades(balance)["order"] == "sound"
    assert "11 of 4075 cells" in balance["swaps"].detail
    assert grades(balance)["connectivity"] == "sound"
