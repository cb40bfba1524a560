"""Tables from elsewhere: what is read, what is refused, and that nothing is lost in silence."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchtrial.errors import DataError
from benchtrial.orchestrator.importers import Imported, read_comparisons
from benchtrial.orchestrator.importers.scores import SCORES

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
HEADER = "judge,prompt,first,second,outcome"
Maker = Callable[..., Imported]


@pytest.fixture
def table(tmp_path: Path) -> Maker:
    """Write lines to a file, by default a CSV file with our own columns, and read it."""

    def make(*lines: str, header: str = HEADER, name: str = "v.csv", **options: Any) -> Imported:
        path = tmp_path / name
        path.write_text("\n".join([header, *lines] if header else lines) + "\n", encoding="utf-8")
        return read_comparisons(path, **options)

    return make


@pytest.fixture
def recorded() -> Callable[..., Imported]:
    def read(name: str, **options: Any) -> Imported:
        path = DATA / f"{name}.csv.gz"
        if not path.exists():
            pytest.skip(f"the recorded verdicts are not part of the project: no {path}")
        return read_comparisons(path, **options)

    return read


# -- what is read --------------------------------------------------------------------------------


def test_ids_stay_text_exactly_as_written(table: Maker) -> None:
    imported = table("007,1,a1,b1,A", "7,01,a1,b1,B", "NA,None,nan,null,tie")
    found = imported.comparisons
    assert list(found["judge"]) == ["007", "7", "NA"]
    assert list(found["prompt"]) == ["1", "01", "None"]
    assert list(found["first"]) == ["a1", "a1", "nan"]
    assert list(found["outcome"]) == [1.0, 0.0, 0.5]
    assert imported.dropped == {}


@pytest.mark.parametrize("name", ["v.csv", "v.tsv", "v.jsonl", "v.ndjson"])
@pytest.mark.parametrize("gzipped", [False, True])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_every_form_of_a_file_gives_the_same_table(
    name: str, gzipped: bool, mark: bytes, tmp_path: Path
) -> None:
    rows = [("j", "p1", "x", "y", "A"), ("j", "p2", "y", "北京 🤗", "tie")]
    names = HEADER.split(",")
    if "json" in name:
        text = "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
    else:
        separator = "\t" if name.endswith("tsv") else ","
        text = "".join(separator.join(row) + "\r\n" for row in (names, *rows))
    content = mark + text.encode()
    path = tmp_path / (name + ".gz" if gzipped else name)
    path.write_bytes(gzip.compress(content) if gzipped else content)
    found = read_comparisons(path).comparisons
    assert list(found["outcome"]) == [1.0, 0.5]
    assert list(found["second"]) == ["y", "北京 🤗"]


def test_json_numbers_and_null_are_read_as_a_person_would(table: Maker) -> None:
    row = {"judge": 7, "prompt": 12345678901234567890, "first": "x", "second": "y"}
    imported = table(
        json.dumps(row | {"outcome": 0.25}),
        json.dumps(row | {"prompt": "2", "outcome": 1}),
        json.dumps(row | {"prompt": "3", "outcome": None}),
        json.dumps(row | {"prompt": "4", "outcome": True}),
        json.dumps(row | {"prompt": None, "outcome": 1}),
        header="",
        name="v.jsonl",
    )
    assert list(imported.comparisons["prompt"]) == ["12345678901234567890", "2"]
    assert list(imported.comparisons["judge"]) == ["7", "7"]
    assert list(imported.comparisons["outcome"]) == [0.25, 1.0]
    assert imported.dropped == {"verdict is missing": 1, "verdict is true": 1, "prompt is empty": 1}


def test_columns_are_known_by_other_names_and_the_map_is_said(table: Maker) -> None:
    imported = table("j,1,x,y,A,9", header="judge,question_id,model_a,model_b,winner,tstamp")
    assert imported.columns == {
        "judge": "judge",
        "prompt": "question_id",
        "first": "model_a",
        "second": "model_b",
        "outcome": "winner",
    }
    assert list(imported.comparisons["tstamp"]) == ["9"]  # kept, as text


def test_a_named_column_wins_and_an_id_can_be_made_of_two(table: Maker) -> None:
    imported = table(
        "j,1,x,y,A,B,short",
        header="judge,prompt,first,second,outcome,human,style",
        columns={"outcome": "human", "judge": "judge+style"},
    )
    assert list(imported.comparisons["outcome"]) == [0.0]
    assert list(imported.comparisons["judge"]) == ["j / short"]


@pytest.mark.parametrize(
    ("word", "score"),
    [
        *(("A", 1.0), ("b", 0.0), (" Tie ", 0.5), ("C", 0.5), ("model_a", 1.0), ("MODEL_B", 0.0)),
        *(("[[A]]", 1.0), ("A>B", 1.0), ("B>>A", 0.0), ("A=B", 0.5), ("tie (bothbad)", 0.5)),
        *(("1", 1.0), ("0", 0.0), ("0.5", 0.5), ("1.0", 1.0), ("5e-1", 0.5), (".25", 0.25)),
        *(("x", 1.0), ("y", 0.0)),
    ],
)
def test_words_that_can_mean_one_thing_only(word: str, score: float, table: Maker) -> None:
    assert list(table(f"j,1,x,y,{word}").comparisons["outcome"]) == [score]


# -- rows left out, by reason --------------------------------------------------------------------


def test_every_row_left_out_is_counted_under_one_reason(table: Maker) -> None:
    imported = table(
        "j,1,x,y,A",
        "j,2,x,y,",
        "j,3,x,y,NaN",
        "j,4,x,y,Invalid",
        "j,5,x,x,A",
        ",6,x,y,A",
        "j,7,,y,A",
        "j,8,x,y,I think that both of them are very good answers",
        "j,9,x,y,infinity",
    )
    assert imported.rows == 9
    assert len(imported.comparisons) == 1
    assert imported.dropped == {
        "verdict is missing": 2,
        "verdict is invalid": 1,
        "a candidate against itself": 1,
        "judge is empty": 1,
        "first is empty": 1,
        "verdict is a longer text": 1,
        "verdict is infinity": 1,
    }


def test_rare_reasons_are_counted_together(table: Maker) -> None:
    imported = table("j,1,x,y,A", *(f"j,{n},x,y,word{n}" for n in range(2, 40)))
    assert len(imported.dropped) <= 12
    assert sum(imported.dropped.values()) == 38
    assert imported.dropped["verdict is something else"] == 28


@given(
    st.lists(
        st.sampled_from([*SCORES, "", "0.3", "bad", "x", "y", "None"]), min_size=1, max_size=30
    )
)
def test_no_row_is_ever_lost(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> None:
    path = tmp_path_factory.mktemp("rows") / "v.csv"
    rows = [f'j,p{n},x,y,"{word}"' for n, word in enumerate([*words, "A"])]
    path.write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    imported = read_comparisons(path)
    assert len(imported.comparisons) + sum(imported.dropped.values()) == imported.rows == len(rows)
    assert imported.comparisons["outcome"].between(0, 1).all()


# -- columns that not every row has --------------------------------------------------------------


def test_lengths_and_families_are_used_only_where_complete_and_the_reason_is_said(
    table: Maker,
) -> None:
    header = f"{HEADER},len_a,len_b,first_family,second_family,judge_family,repetition"
    imported = table("j,1,x,y,A,5,,f,g,j,0", "j,2,x,y,B,6,7,f,g,,", header=header)
    assert imported.left_out == {
        "second_length": "empty in 1 of 2 rows",
        "first_length": "of no use without second_length",
        "judge_family": "empty in 1 of 2 rows",
        "first_family": "of no use without judge_family",
        "second_family": "of no use without judge_family",
        "repetition": "empty in 1 of 2 rows",
    }
    whole = table("j,1,x,y,A,5,8,f,g,j,0", "j,2,x,y,B,6,7,f,g,j,1.0", header=header)
    assert whole.left_out == {}
    assert list(whole.comparisons["first_length"]) == [5, 6]
    assert list(whole.comparisons["repetition"]) == [0, 1]
    assert whole.comparisons["repetition"].dtype.kind == "i"


def test_only_rows_that_count_make_a_column_incomplete(table: Maker) -> None:
    imported = table("j,1,x,y,A,5,6", "j,2,x,y,invalid,,", header=f"{HEADER},len_a,len_b")
    assert imported.left_out == {}
    assert list(imported.comparisons["second_length"]) == [6]


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("repetition", "0.5", "line 3: repetition '0.5' is not a whole number"),
        ("repetition", "two", "line 3: repetition 'two' is not a whole number"),
        ("len_a", "long", "line 3: first_length 'long' is not a number"),
        ("len_a", "-4", "line 3: first_length '-4' is not a number of at least 0"),
        ("len_a", "1e999", "line 3: first_length '1e999' is not a number"),
        ("kind", "robot", "line 3: kind 'robot' is neither model nor human"),
    ],
)
def test_impossible_values_are_refused_with_their_line(
    column: str, value: str, message: str, table: Maker
) -> None:
    with pytest.raises(DataError, match=message):
        table("j,1,x,y,A,", f"j,2,x,y,B,{value}", header=f"{HEADER},{column}")


# -- two verdicts on one cell --------------------------------------------------------------------


def test_verdicts_under_several_conditions_are_never_merged(table: Maker) -> None:
    rows = ["j,1,x,y,A,plain", "j,1,x,y,B,cot", "j,2,x,y,A,plain", "j,2,x,y,B,cot"]
    header = f"{HEADER},style"
    with pytest.raises(DataError, match=r"2 rows .* another style.*'cot', 'plain'.*--where style="):
        table(*rows, header=header)
    one = table(*rows, header=header, where={"style": "cot"})
    assert list(one.comparisons["outcome"]) == [0.0, 0.0]
    assert one.rows == 4
    assert one.dropped == {"style is not cot": 2}
    both = table(*rows, header=header, columns={"judge": "judge+style"})
    assert both.comparisons["judge"].nunique() == 2
    assert both.notes == ()


def test_numbered_repetitions_that_repeat_are_refused_with_both_lines(table: Maker) -> None:
    with pytest.raises(DataError, match=r"1 rows repeat .*line 2 and line 4"):
        table("j,1,x,y,A,0", "j,1,x,y,A,1", "j,1,x,y,B,0", header=f"{HEADER},repetition")


def test_unnumbered_repetitions_are_kept_and_said(table: Maker) -> None:
    imported = table("j,1,x,y,A", "j,1,y,x,A", "j,1,x,y,A")
    assert len(imported.comparisons) == 3
    assert len(imported.notes) == 1
    assert "line 2 and line 4" in imported.notes[0]


def test_times_do_not_make_conditions(table: Maker) -> None:
    rows = [f"j,{n // 2},x,y,A,{n}" for n in range(200)]
    imported = table(*rows, header=f"{HEADER},time")
    assert len(imported.comparisons) == 200
    assert "further repetitions" in imported.notes[0]


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["2", "-1", "1.01", "100"])
def test_an_outcome_outside_the_unit_interval_names_its_line(outcome: str, table: Maker) -> None:
    with pytest.raises(DataError, match=rf"v\.csv, line 3: outcome {outcome} is not in \[0, 1\]"):
        table("j,1,x,y,A", f"j,2,x,y,{outcome}")


def test_a_verdict_that_names_a_slot_and_another_candidate_is_refused(table: Maker) -> None:
    assert list(table("j,1,A,B,A", "j,2,A,B,B").comparisons["outcome"]) == [1.0, 0.0]
    with pytest.raises(DataError, match="line 3: the verdict 'A' may name the slot or the cand"):
        table("j,1,A,B,A", "j,1,B,A,A")
    with pytest.raises(DataError, match="line 2: the verdict '1' may name"):
        table("j,1,2,1,1")


@pytest.mark.parametrize(
    ("header", "lines", "message"),
    [
        ("judge,prompt,first,second", ["j,1,x,y"], "no column outcome or verdict or winner"),
        ("a;b;c", ["1;2;3"], r"no column judge; prompt or prompt_id .*columns are: 'a;b;c'"),
        (HEADER, [], "holds no rows"),
        (HEADER, ["j,1,x,y,"], r"none of the 1 rows .* \(1: verdict is missing\)"),
        (HEADER, ["j,1,x,y"], "line 2: 4 cells where the header has 5"),
        (HEADER, ['j,1,x,y,"A'], "line 2: .*double quotes"),
        (f"{HEADER},judge", ["j,1,x,y,A,k"], "two columns are called 'judge'"),
        ("judge,prompt,first,second,verdict,winner", ["j,1,x,y,A,B"], "could be any of the col"),
    ],
)
def test_tables_that_cannot_be_read(
    header: str, lines: list[str], message: str, table: Maker
) -> None:
    with pytest.raises(DataError, match=message):
        table(*lines, header=header)


def test_a_broken_line_of_json_is_named(table: Maker) -> None:
    row = json.dumps(dict(zip(HEADER.split(","), "j1xyA", strict=True)))
    with pytest.raises(DataError, match=r"v\.jsonl, line 2: not JSON"):
        table(row, row[:-9], row, header="", name="v.jsonl")
    with pytest.raises(DataError, match=r"v\.jsonl, line 1: NaN is not a number|NaN"):
        table(row.replace('"A"', "NaN"), header="", name="v.jsonl")


@pytest.mark.parametrize("value", [1.5, True, ["x"], {"a": 1}])
def test_an_id_is_text_or_a_whole_number(value: object, table: Maker) -> None:
    row = dict(zip(HEADER.split(","), "j1xyA", strict=True)) | {"judge": value}
    with pytest.raises(DataError, match=r"line 1.* judge: an id is text or a whole number"):
        table(json.dumps(row), header="", name="v.jsonl")


def test_another_encoding_is_refused_with_the_byte_that_shows_it(tmp_path: Path) -> None:
    content = f"{HEADER}\nj,1,caf\xe9,y,A\n".encode("cp1252")
    offset = content.index(b"\xe9")
    for name, stored in (("v.csv", content), ("v.csv.gz", gzip.compress(content))):
        (tmp_path / name).write_bytes(stored)
        with pytest.raises(DataError, match=rf"{name} .*0xe9 at byte offset {offset} \(line 2\)"):
            read_comparisons(tmp_path / name)


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_bytes(b"")
    (tmp_path / "empty.jsonl").write_bytes(b"\n")
    (tmp_path / "torn.csv.gz").write_bytes(gzip.compress(HEADER.encode() * 99)[:-12])
    (tmp_path / "lie.csv.gz").write_text(HEADER, encoding="utf-8")
    (tmp_path / "verdicts.csv").mkdir()
    for name, message in {
        "empty.csv": "is empty",
        "empty.jsonl": "holds no rows",
        "torn.csv.gz": "cannot be read",
        "lie.csv.gz": "cannot be read: Not a gzipped file",
        "verdicts.csv": "is a folder",
        "empti.csv": r"no file 'empti\.csv' .*did you mean 'empty\.csv'",
        "table.parquet": "no file",
    }.items():
        with pytest.raises(DataError, match=message):
            read_comparisons(tmp_path / name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": {"outcome": "vote"}}, "no column 'vote'"),
        ({"columns": {"verdict": "outcome"}}, "no column of the comparisons table.* 'verdict'"),
        ({"columns": {"judge": "judge+sytle"}}, "no column 'sytle'"),
        ({"where": {"outcom": "A"}}, "no column 'outcom'; did you mean 'outcome'"),
        ({"where": {"outcome": "B"}}, "no row has outcome=B; the values are: 'A'"),
    ],
)
def test_options_that_fit_no_column(options: dict[str, Any], message: str, table: Maker) -> None:
    with pytest.raises(DataError, match=message):
        table("j,1,x,y,A", **options)


# -- recorded tables -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rows", "invalid"),
    [
        ("prd_vicuna80", 8160, 21),
        ("jtj_mtbench_rep", 5184, 28),
        ("xu_mtbench", 10_000, 294),
        ("mtbench_phi3", 150, 3),
        ("pandalm", 4995, 25),
    ],
)
def test_recorded_tables_are_read_whole(
    name: str, rows: int, invalid: int, recorded: Callable[..., Imported]
) -> None:
    imported = recorded(name)
    assert imported.rows == rows
    assert imported.dropped == {"verdict is invalid": invalid}
    assert len(imported.comparisons) == rows - invalid


def test_six_prompt_variants_in_one_file_are_not_one_judge(
    recorded: Callable[..., Imported],
) -> None:
    with pytest.raises(DataError, match="another prompt_variant"):
        recorded("llmbar")
    apart = recorded("llmbar", columns={"judge": "judge+prompt_variant"})
    assert len(apart.comparisons) == 37_624 - 217
    assert apart.notes == ()
    one = recorded("llmbar", where={"prompt_variant": "CoT"})
    assert one.comparisons["prompt_variant"].unique().tolist() == ["CoT"]
    assert sum(one.dropped.values()) + len(one.comparisons) == 37_624
