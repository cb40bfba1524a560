import json
import os
import subprocess
import sys

import pytest

from benchtrial.errors import StudyError
from benchtrial.orchestrator.study import Study

HEAD = """
name = "s"
kind = "{kind}"
seed = 1
[[judges]]
id = "j"
provider = "ask"
[budget]
requests = 10
"""
BATCH = (
    HEAD.format(kind="batch")
    + """
[design]
kind = "shuffle"
batches = 10
[stopping]
target = { kind = "best" }
"""
)
PAIRS = (
    HEAD.format(kind="pairs")
    + """
[design]
kind = "balanced-swaps"
repetitions = 10
[stopping]
target = { kind = "best" }
"""
)


@pytest.fixture
def load(tmp_path):
    def load(text, **files):
        for name, content in files.items():
            path = tmp_path / name.replace("_", ".")
            path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        path = tmp_path / "study.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        return Study.from_file(path)

    return load


@pytest.fixture
def refused(load):
    def refused(text, **files):
        with pytest.raises(StudyError) as caught:
            load(text, **files)
        return str(caught.value)

    return refused


ITEMS = '[items]\nfile = "items.csv"\n'


def test_items_come_from_a_csv_file_with_covariates(load):
    study = load(
        BATCH + ITEMS,
        items_csv="\ufeffid,text,group,year,topic\n007,one,g,1999,a\n7,two,,,b\n",
    )
    first, second = study.items
    assert (first.id, first.group, first.covariates) == ("007", "g", {"year": 1999.0, "topic": "a"})
    assert (second.id, second.group, second.covariates) == ("7", None, {"topic": "b"})


def test_columns_can_have_other_names(load):
    study = load(
        BATCH + ITEMS + 'columns = { id = "key", text = "body" }\n',
        items_csv="key,body\na,one\nb,two\n",
    )
    assert [(item.id, item.text) for item in study.items] == [("a", "one"), ("b", "two")]


def test_responses_come_from_rows_in_a_file(load):
    rows = [{"candidate": c, "prompt": p, "text": f"{c}{p}"} for c in ("x", "y") for p in (1, "2")]
    study = load(
        PAIRS + '[prompts]\nfile = "p.csv"\n[responses]\nfile = "r.jsonl"\n',
        p_csv="id,text\n1,why\n2,how\n",
        r_jsonl="\n".join(map(json.dumps, rows)),
    )
    assert study.candidate("y").responses == {"1": "y1", "2": "y2"}


def test_responses_can_stand_with_their_candidate(load):
    study = load(
        PAIRS
        + '[[prompts]]\nid = "1"\ntext = "why"\n'
        + '[[candidates]]\nid = "x"\nfamily = "f"\nresponses = { file = "x.csv" }\n'
        + '[[candidates]]\nid = "y"\nresponses = { 1 = "because" }\n',
        x_csv="prompt,text\n1,so\n",
    )
    assert study.candidate("x").responses == {"1": "so"}
    assert study.candidate("y").responses == {"1": "because"}


def test_long_texts_can_stand_in_files(load):
    study = load(
        BATCH + ITEMS + '[[criteria]]\nid = "c"\nrubric = { file = "rubric.md" }\n',
        items_csv="id,text\na,one\nb,two\n",
        rubric_md="# Clear\n{x}\n",
    )
    assert study.criteria[0].rubric == "# Clear\n{x}\n"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            ['{"id":1,"text":"x"}', '{"id":"1","text":"y"}'],
            "'1' is the id of two rows: items.jsonl, line 1 and items.jsonl, line 2",
        ),
        (['{"id":"q1","text":"x"}', '{"id":"q1","text":"x"}'], "'q1' is the id of two rows"),
        (['{"id":"q1","text":"x"}', '{"id":"q1 ","text":"y"}'], "differ only by white space"),
        (
            ['{"id":1.0,"text":"x"}'],
            "line 1: an id is text or a whole number, not float 1.0",
        ),
        (['{"id":true,"text":"x"}'], "not bool True"),
        (['{"id":null,"text":"x"}'], "not nothing (null)"),
        (['{"key":"a","text":"x"}'], "this row has no id; it has: 'key', 'text'"),
        (
            ['{"id":"a","text":5}', '{"id":"b","text":"x"}'],
            "items.jsonl, line 1: [items] text: must be text",
        ),
        (
            ['{"id":"a"}', '{"id":"b","text":"x"}'],
            "items.jsonl, line 1: [items] text: this key is missing",
        ),
    ],
)
def test_rows_that_cannot_be_told_apart_are_named(refused, rows, expected):
    message = refused(BATCH + '[items]\nfile = "items.jsonl"\n', items_jsonl="\n".join(rows))
    assert expected in message


def test_both_orders_of_reading_an_answer_twice_are_refused(refused):
    message = refused(
        PAIRS + '[[prompts]]\nid = "1"\ntext = "why"\n[responses]\nfile = "r.csv"\n',
        r_csv="candidate,prompt,text\nx,1,a\nx,1,b\ny,1,c\n",
    )
    assert "'x', '1' is answered twice: r.csv, line 2 and r.csv, line 3" in message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name = \n", "study.toml: not TOML: Invalid value (at line 1, column 8)"),
        (b"name = '\xe9'\n", "study.toml is not UTF-8: byte 0xe9 at byte offset 8"),
        (
            BATCH + ITEMS.replace("items.csv", "itms.csv"),
            "[items] file: there is no file 'itms.csv'",
        ),
        (BATCH + "[items]\n", "[items]: give rows as [[items]], or a file"),
        (BATCH + ITEMS + "sheet = 1\n", "[items] sheet: there is no key 'sheet'"),
        (BATCH + ITEMS + 'columns = { id = "key" }\n', "there is no column 'key' to be the id"),
        (
            BATCH + '[template]\nsystem = { file = "no.md" }\n',
            "[template] system: there is no file",
        ),
        (
            BATCH + "[[items]]\nid = 2026-01-01\ntext = 'x'\n",
            "an id is text or a whole number, not date",
        ),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(refused, text, expected):
    assert expected in refused(text, items_csv="id,text\na,one\nb,two\n")


def test_a_missing_study_file_points_to_init(tmp_path):
    with pytest.raises(StudyError, match="benchtrial init"):
        Study.from_file(tmp_path / "none.toml")


def test_texts_are_utf8_whatever_the_locale(load, tmp_path):
    load(BATCH + ITEMS, items_csv="id,text\na,\u5317\u4eac \U0001f917\nb,two\n")
    code = (
        "import sys; from benchtrial.orchestrator.study import Study;"
        "print(ascii(Study.from_file(sys.argv[1]).items[0].text))"
    )
    environment = os.environ | {"PYTHONUTF8": "0", "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "study.toml")],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert done.stdout.strip() == ascii("\u5317\u4eac \U0001f917")
