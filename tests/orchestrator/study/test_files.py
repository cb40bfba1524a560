import csv

import pytest

from benchtrial.orchestrator.study.files import Row, Unreadable, find, read_rows, read_text, rename


def rows(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return [row.values for row in read_rows(path)]


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path):
    content = b"\xef\xbb\xbfitem,answer\r\nq1,Paris"
    assert rows(tmp_path, "bom.csv", content) == [{"item": "q1", "answer": "Paris"}]


def test_another_encoding_is_refused_with_the_offset_of_the_byte(tmp_path):
    with pytest.raises(Unreadable, match=r"latin\.csv is not UTF-8: byte 0xe9 .* offset 18"):
        rows(tmp_path, "latin.csv", "item,answer\nq1,caf\u00e9\n".encode("cp1252"))
    with pytest.raises(Unreadable, match="byte offset 6"):
        rows(tmp_path, "both.csv", b"\xef\xbb\xbfid\n\xe9")


def test_quoted_cells_keep_their_lines_and_quotes(tmp_path):
    text = 'item,answer\nq1,"line one\nline, ""two"""\nq2,x\n'
    path = tmp_path / "quoted.csv"
    path.write_text(text, encoding="utf-8", newline="")
    first, second = read_rows(path)
    assert first.values["answer"] == 'line one\nline, "two"'
    assert (first.where, second.where) == ("quoted.csv, line 2", "quoted.csv, line 4")


def test_line_ends_inside_a_cell_stay_as_they_are(tmp_path):
    assert rows(tmp_path, "crlf.csv", 'id,t\r\n1,"a\r\nb"\r\n') == [{"id": "1", "t": "a\r\nb"}]


def test_ids_of_a_csv_file_stay_text(tmp_path):
    assert [row["id"] for row in rows(tmp_path, "ids.csv", "id,q\n007,x\n7,y\n")] == ["007", "7"]


def test_a_cell_may_be_longer_than_the_csv_module_likes(tmp_path):
    limit = csv.field_size_limit()
    long = "x" * 200_000
    assert rows(tmp_path, "long.csv", f"id,t\n1,{long}\n")[0]["t"] == long
    assert csv.field_size_limit() == limit


def test_other_line_separators_do_not_end_a_row_of_jsonl(tmp_path):
    assert rows(tmp_path, "sep.jsonl", '{"id": "a\u2028b"}\r\n\n{"id": "c"}\n') == [
        {"id": "a\u2028b"},
        {"id": "c"},
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "is empty"),
        ("a.csv", "id,id\n1,2\n", "two columns are called 'id'"),
        ("a.csv", "id,\n1,2\n", "a column has no name"),
        ("a.csv", "id,t\n1,a,b\n", "line 2: 3 cells where the header has 2"),
        ("a.csv", 'id,t\n1,"a\n', "line 2: unexpected end of data"),
        ("a.jsonl", '{"id": 1}\n{"id": \n', "line 2: not JSON"),
        ("a.jsonl", "[1]\n", "line 1: each line must be a JSON object"),
        ("a.jsonl", '{"id": 1, "id": 2}\n', "the key 'id' is given twice"),
        ("a.jsonl", '{"id": NaN}\n', "NaN is not a number"),
        ("a.jsonl", "[" * 100_000, "nested too deeply"),
        ("a.xlsx", "PK", "rows are read from .csv"),
    ],
)
def test_a_damaged_file_is_named_with_its_line(tmp_path, name, content, message):
    with pytest.raises(Unreadable, match=message) as caught:
        rows(tmp_path, name, content)
    assert str(caught.value).startswith(name)


def test_a_file_is_found_under_a_windows_spelling_and_with_spaces(tmp_path):
    (tmp_path / "my data").mkdir()
    (tmp_path / "my data" / "items.csv").write_text("id\n1\n", encoding="utf-8")
    assert read_text(find("my data\\items.csv", tmp_path)) == "id\n1\n"


def test_a_missing_file_names_a_neighbour(tmp_path):
    (tmp_path / "items.csv").write_text("id\n", encoding="utf-8")
    with pytest.raises(Unreadable, match=r"did you mean 'items\.csv'"):
        find("item.csv", tmp_path)
    with pytest.raises(Unreadable, match="is a folder"):
        find(".", tmp_path)


def test_columns_are_renamed_and_a_missing_one_is_named():
    table = [Row({"key": "1", "body": "x", "id": "old"}, "a.csv, line 2")]
    renamed = rename(table, {"id": "key", "text": "body"}, "items")
    assert renamed[0].values == {"id": "1", "text": "x"}
    with pytest.raises(Unreadable, match=r"no column 'boddy' to be the text of \[items\]"):
        rename(table, {"text": "boddy"}, "items")
