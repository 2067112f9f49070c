"""How the columns of a table become features: missing values, dates, ids, pandas' index, columns chosen and forced."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from commands import call, plain
from pyarrow import parquet

from errorfeedback.data.encoding import Category, Columns, Number, from_json, to_json
from errorfeedback.data.parts import read_folder
from errorfeedback.data.read import read
from errorfeedback.data.reading import Missing, Reading
from errorfeedback.problems.conversation import alone

IMPUTE, DROP = Reading(missing=Missing.IMPUTE), Reading(missing=Missing.DROP)
GAPS = "age,city,target\n10,Rome,y\n,Oslo,n\n90,,y\n20,Rome,n\n"


def written(path, content):
    path.write_text(content)
    return str(path)


def names(found):
    return list(found.encoding.names)


def test_all_columns_with_missing_values_are_named_at_once(tmp_path):
    source = written(tmp_path / "t.csv", GAPS.replace("20,Rome,n", "20,Rome,"))
    with pytest.raises(ValueError, match=r"missing .*'age' \(1\), 'city' \(1\), 'target' \(1\); --missing impute"):
        read(source)


def test_impute_fills_numbers_with_the_median_and_marks_the_row(tmp_path):
    found = read(written(tmp_path / "t.csv", GAPS), IMPUTE)
    assert names(found) == ["age", "age is missing", "city=Oslo", "city=Rome", "city is missing"]
    assert found.A.toarray().tolist() == [[10, 0, 0, 1, 0], [20, 1, 1, 0, 0], [90, 0, 0, 0, 1], [20, 0, 0, 1, 0]]
    assert found.notes == ("t.csv: missing values are filled in: 'age' (1), 'city' (1)",)


def test_drop_leaves_the_rows_out_with_a_word(tmp_path):
    found = read(written(tmp_path / "t.csv", GAPS), DROP)
    assert found.A.toarray().tolist() == [[10, 0, 1], [20, 0, 1]]
    assert found.y.tolist() == ["y", "n"]
    assert found.kept.tolist() == [True, False, False, True]
    assert "2 of 4 rows are left out" in found.notes[0]


def test_a_later_file_is_filled_with_the_medians_of_training(tmp_path):
    """And as training did it, unless told otherwise; a column without gaps in training has no mark, but a median."""
    encoding = read(written(tmp_path / "t.csv", GAPS), IMPUTE).encoding
    later = written(tmp_path / "new.csv", "age,city\n,Rome\n5,\n")
    assert read(later, encoding=encoding).A.toarray().tolist() == [[20, 1, 0, 1, 0], [5, 0, 0, 0, 1]]
    strict = read(written(tmp_path / "whole.csv", "age,city,target\n10,Rome,y\n30,Oslo,n\n"))
    with pytest.raises(ValueError, match=r"new.csv: values are missing .* in .age. "):
        read(later, encoding=strict.encoding)
    assert read(later, IMPUTE, encoding=strict.encoding).A.toarray().tolist() == [[20, 0, 1], [5, 0, 0]]


def test_a_column_has_one_part_to_play(tmp_path):
    source = written(tmp_path / "t.csv", "a,target\n1,y\n2,n\n")
    for reading in (Reading(client_column="target"), Reading(client_column="a", weight_column="a")):
        with pytest.raises(ValueError, match=r"t.csv: (no column is left|a column cannot be two of)"):
            read(source, reading)
    with pytest.raises(ValueError, match="'target' is the target, which is no feature"):
        read(source, Reading(drop=("target",)))


def test_a_row_without_a_target_cannot_be_filled_in(tmp_path):
    source = written(tmp_path / "t.csv", "a,target\n1,y\n2,\n3,n\n")
    found = read(source, IMPUTE)
    assert found.y.tolist() == ["y", "n"]
    assert found.notes == ("t.csv: 1 of 3 rows are left out: values are missing in 'target' (1)",)
    unlabelled = Reading(missing=Missing.IMPUTE, labelled=False)
    assert read(source, unlabelled, encoding=found.encoding).A.toarray().tolist() == [
        [1],
        [2],
        [3],
    ]


def test_predictions_keep_their_lines_where_rows_are_left_out(tmp_path):
    rows = "".join(f"{k % 7},{'y' if k % 7 > 3 else 'n'}\n" for k in range(40))
    source = written(tmp_path / "t.csv", "a,target\n" + rows)
    assert call("train", source, "--out", tmp_path / "run", "--quiet", "--missing", "drop").exit_code == 0
    done = call("predict", tmp_path / "run", written(tmp_path / "new.csv", "a\n6\nNA\n0\n"))
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == ["prediction", "y", "", "n"]


def test_values_that_training_did_not_see_are_counted(tmp_path):
    encoding = Columns((Category("city", ("Oslo", "Rome")), Number("size")))
    found = read(written(tmp_path / "t.csv", "size,city\n1,Rome\n2,Paris\n3,Bonn\n4,Paris\n"), encoding=encoding)
    assert found.A.toarray().tolist() == [[0, 1, 1], [0, 0, 2], [0, 0, 3], [0, 0, 4]]
    assert found.notes == ("t.csv: column 'city': 3 rows have a value that training did not see ('Paris', 'Bonn'); ignored",)


def test_text_of_training_is_text_in_every_later_file(tmp_path):
    """A file in which it looks like numbers has the same words: '01' is not '1'."""
    encoding = read(written(tmp_path / "t.csv", "code,target\n01,y\n1,n\nx,y\ny,n\nz,y\n")).encoding
    assert encoding.columns == (Category("code", ("01", "1", "x", "y", "z")),)
    assert read(written(tmp_path / "new.csv", "code\n1\n01\n"), encoding=encoding).A.toarray()[:, :2].tolist() == [
        [0, 1],
        [1, 0],
    ]


def test_classes_that_were_text_in_training_are_text_later(tmp_path):
    encoding = read(written(tmp_path / "t.csv", "a,target\n1,1\n2,02\n3,x\n4,1\n")).encoding
    assert read(written(tmp_path / "new.csv", "a,target\n1,1\n2,02\n"), encoding=encoding).y.tolist() == ["1", "02"]
    (tmp_path / "parts").mkdir()
    written(tmp_path / "parts/a.csv", "a,target\n1,1\n")
    written(tmp_path / "parts/b.csv", "a,target\n1,x\n")
    with pytest.raises(ValueError, match=r"target .* is text in some part files and numbers in others; --text target"):
        alone(lambda seat: read_folder(str(tmp_path / "parts"), Reading(), seat))
    assert alone(lambda seat: read_folder(str(tmp_path / "parts"), Reading(text=("target",)), seat)).y.tolist() == ["1", "x"]


def test_dates_become_years_since_the_first_one_of_training(tmp_path):
    source = written(tmp_path / "t.csv", "when,target\n2021-01-01,y\n2020-01-01,n\n2020-07-01,y\n")
    found = read(source)
    assert names(found) == ["when (years since 2020-01-01)"]
    assert found.A.toarray().ravel() == pytest.approx(np.array([366, 0, 182]) / 365.25)
    assert found.notes == ("column 'when' has dates: it becomes years since 2020-01-01",)
    later = read(written(tmp_path / "new.csv", "when\n2022-01-01\n"), encoding=found.encoding)
    assert later.A.toarray().ravel() == pytest.approx([731 / 365.25])


def test_dates_in_another_form_are_refused_with_the_option_that_reads_them(tmp_path):
    source = written(tmp_path / "t.csv", "when,target\n31/01/2020,y\n01/02/2020,n\n31/01/2021,y\n")
    with pytest.raises(ValueError, match=r"t.csv: column 'when' looks like dates in another form .*--date-format %d/%m/%Y"):
        read(source)
    assert read(source, Reading(date_format="%d/%m/%Y")).A.toarray().ravel() == pytest.approx(np.array([0, 1, 366]) / 365.25)
    assert read(source, Reading(text=("when",))).A.shape == (3, 3)


def test_parquet_types_are_numbers_dates_and_text(tmp_path):
    moments = [datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, 12, tzinfo=UTC)]
    table = pa.table(
        {
            "price": pa.array([Decimal("1.50"), Decimal("2.25")]),
            "day": pa.array([date(2020, 1, 1), date(2021, 1, 1)]),
            "moment": pa.array(moments, pa.timestamp("ns", "UTC")),
            "took": pa.array([1_500, 250], pa.duration("ms")),
            "big": pa.array([2**53 + 1, 2**53 + 2]),
            "kind": pa.array(["a", "b"]).dictionary_encode(),
            "ok": pa.array([True, False]),
            "target": pa.array([1, 2]),
        }
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    found = read(str(tmp_path / "t.parquet"))
    assert names(found)[:4] == ["price", "day (years since 2020-01-01)", "moment (years since 2020-01-01)", "took"]
    assert names(found)[4:] == ["big=9007199254740993", "big=9007199254740994", "kind=a", "kind=b", "ok"]
    expected = [[1.5, 0, 0, 1.5, 1, 0, 1, 0, 1], [2.25, 366 / 365.25, 1.5 / 365.25, 0.25, 0, 1, 0, 1, 0]]
    assert found.A.toarray() == pytest.approx(np.array(expected))
    assert found.y.dtype.kind == "i"
    parquet.write_table(table.append_column("pixels", pa.array([[1, 2], [3]])), tmp_path / "t.parquet")
    with pytest.raises(
        ValueError, match=r"column 'pixels' has values of type list.*, of which nothing is made; --drop pixels"
    ):
        read(str(tmp_path / "t.parquet"))
    assert read(str(tmp_path / "t.parquet"), Reading(drop=("pixels",))).A.shape == (2, 9)


def test_the_index_of_a_pandas_table_is_no_feature(tmp_path):
    frame = pd.DataFrame({"a": np.arange(6.0) * 2, "target": list("xyxyxy")})
    frame[frame.a.isin([0, 6, 8])].to_parquet(tmp_path / "t.parquet")
    found = read(str(tmp_path / "t.parquet"))
    assert "__index_level_0__" in parquet.read_table(tmp_path / "t.parquet").column_names
    assert names(found) == ["a"]
    assert found.notes == ("column '__index_level_0__' is the index of a pandas table: left out",)
    frame.set_index("a").to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="no column is left to learn from"):
        read(str(tmp_path / "t.parquet"))
    assert names(read(str(tmp_path / "t.parquet"), Reading(number=("a",)))) == ["a"]


def ids(m=40):
    rows = [f"{k + 1},person {k},{k * 37 % 11},{'yn'[k % 2]}" for k in range(m)]
    return "Id,name,size,target\n" + "\n".join(rows) + "\n"


def test_columns_that_name_the_rows_are_left_out_with_a_word_and_can_be_forced(tmp_path):
    source = written(tmp_path / "t.csv", ids())
    found = read(source)
    assert names(found) == ["size"]
    assert found.notes == (
        "column 'Id' only counts the rows: left out (--number Id keeps it)",
        "column 'name' is text with 40 different values in 40 rows, so that it names the rows: "
        "left out (--text name keeps it)",
    )
    assert names(read(source, Reading(number=("Id",)))) == ["Id", "size"]
    assert read(source, Reading(text=("name",))).A.shape == (40, 41)


def test_a_column_with_one_value_everywhere_is_left_out_with_a_word_and_can_be_forced(tmp_path):
    rows = "".join(f"DE,7,{k % 9},{'' if k == 3 else 'set'},{'yn'[k % 2]}\n" for k in range(20))
    source = written(tmp_path / "t.csv", "country,shift,size,flag,target\n" + rows)
    found = read(source, IMPUTE)
    assert names(found) == ["size", "flag=set", "flag is missing"]  # a gap says something
    assert found.notes[:2] == (
        "column 'country' has the same value in every row: left out (--text country keeps it)",
        "column 'shift' has the same value in every row: left out (--number shift keeps it)",
    )
    kept = read(source, replace(IMPUTE, text=("country",), number=("shift",)))
    assert names(kept)[:2] == ["country=DE", "shift"]
    parts = tmp_path / "parts"
    parts.mkdir()
    for country in ("DE", "FR"):  # the same in every file, and not in all
        written(parts / f"{country}.csv", "country,target\n" + f"{country},y\n{country},n\n" * 10)
    assert names(alone(lambda seat: read_folder(str(parts), IMPUTE, seat))) == ["country=DE", "country=FR"]


def test_numbers_that_may_name_the_rows_are_kept_with_a_word(tmp_path):
    rows = "".join(f"{1000 + k * 7 % 20},{k % 19},{k * 0.5},{'yn'[k % 2]}\n" for k in range(20))
    found = read(written(tmp_path / "t.csv", "order,size,price,target\n" + rows))
    assert names(found) == ["order", "size", "price"]
    assert found.notes == (
        "column 'order' has another whole number in every row; if these only name the rows, --drop order",
    )


def test_columns_are_chosen_and_dropped(tmp_path):
    source = written(tmp_path / "t.csv", ids())
    assert names(read(source, Reading(only=("size",)))) == ["size"]
    assert read(source, Reading(drop=("Id,name",))).notes == ()
    with pytest.raises(ValueError, match=r"t.csv: --drop 'Idd': no such column; the columns are 'Id', 'name'"):
        read(source, Reading(drop=("Idd",)))
    done = call("train", source, "--drop", "Id", "--drop", "name", "--out", tmp_path / "run", "--quiet", "--rounds", 5)
    assert "features: 1" in done.output
    assert "left out" not in done.output


def test_a_column_that_is_nearly_numbers_is_refused_or_taken_as_numbers(tmp_path):
    text = "power,target\n" + "".join(f"{'?' if k == 4 else k * 3},{'yn'[k % 2]}\n" for k in range(9))
    source = written(tmp_path / "t.csv", text)
    with pytest.raises(ValueError, match=r"t.csv: column 'power' looks like numbers .*has '\?' in row 5; --number power"):
        read(source)
    found = read(source, Reading(number=("power",), missing=Missing.IMPUTE))
    assert names(found) == ["power", "power is missing"]
    later = read(written(tmp_path / "new.csv", "power\n?\n3\n"), encoding=found.encoding)
    assert later.A.toarray().tolist() == [[12, 1], [3, 0]]


def test_weights_come_from_a_column(tmp_path):
    source = written(tmp_path / "t.csv", "a,w,target\n1,2,y\n2,0.5,n\n,1,y\n")
    found = read(source, Reading(weight_column="w", missing=Missing.DROP))
    assert found.weights.tolist() == [2, 0.5]
    assert names(found) == ["a"]
    for bad, why in (("-1", "is -1 in a row"), ("x", "must have numbers"), ("inf", "is inf in a row")):
        with pytest.raises(ValueError, match=why):
            read(written(tmp_path / "t.csv", f"a,w,target\n1,2,y\n2,{bad},n\n"), Reading(weight_column="w"))
    with pytest.raises(ValueError, match="no weight column 'weight'"):
        read(source, Reading(weight_column="weight"))


def test_a_later_file_needs_no_column_of_clients(tmp_path):
    reading = Reading(client_column="shop", drop=("id",))
    found = read(written(tmp_path / "t.csv", "a,id,shop,target\n1,7,x,y\n2,8,z,n\n"), reading)
    assert found.clients.tolist() == ["x", "z"]
    assert read(written(tmp_path / "new.csv", "a\n5\n"), reading.later, encoding=found.encoding).A.toarray().tolist() == [
        [5]
    ]


def test_clients_of_a_file_of_groups_stay_with_their_rows(tmp_path):
    source = written(tmp_path / "t.csv", "a,target\n" + "1,y\n,n\n3,y\n4,n\n" * 5)
    (tmp_path / "groups").write_text("a\nb\na\nc\n" * 5)
    done = call(
        "train", source, "--groups", tmp_path / "groups", "--missing", "drop", "--out", tmp_path / "r", "--rounds", 5
    )
    assert "clients: 2" in done.output  # b had rows without a value only
    assert "rows: 15" in done.output


def test_parts_of_a_folder_share_values_dates_and_medians(tmp_path):
    written(tmp_path / "a.csv", "x,word,when,target\n1,red,2021-01-01,y\n,blue,2020-01-01,n\n")
    written(tmp_path / "b.csv", "x,word,when,target\n7,green,2019-01-01,y\n9,,2020-01-01,n\n8,red,2019-01-01,y\n")
    found = alone(lambda seat: read_folder(str(tmp_path), IMPUTE, seat))
    assert names(found)[:2] == ["x", "x is missing"]
    assert names(found)[2:6] == ["word=blue", "word=green", "word=red", "word is missing"]
    assert names(found)[6] == "when (years since 2019-01-01)"
    assert found.A.toarray()[1, :2].tolist() == [8, 1]  # the median of the heavier file
    assert found.clients.tolist() == [0, 0, 1, 1, 1]
    assert len(found.notes) == 3


def test_parts_must_agree(tmp_path):
    written(tmp_path / "a.csv", "x,target\n1,y\n")
    written(tmp_path / "b.csv", "x,target\nred,y\n")
    with pytest.raises(ValueError, match="text in some part files and numbers in others; --text x"):
        alone(lambda seat: read_folder(str(tmp_path), Reading(), seat))
    assert alone(lambda seat: read_folder(str(tmp_path), Reading(text=("x",)), seat)).A.shape == (2, 2)
    written(tmp_path / "b.csv", "z,target\nred,y\n")
    with pytest.raises(ValueError, match="different columns"):
        alone(lambda seat: read_folder(str(tmp_path), Reading(), seat))
    written(tmp_path / "b.svm", "1 1:1\n")
    with pytest.raises(ValueError, match=r"of different kinds: b.csv and b.svm"):
        alone(lambda seat: read_folder(str(tmp_path), Reading(), seat))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="has 0 files for 1 ranks"):
        alone(lambda seat: read_folder(str(tmp_path / "empty"), Reading(), seat))


def test_an_encoding_goes_through_json(tmp_path):
    found = read(written(tmp_path / "t.csv", GAPS.replace("age", "2020-01-01")), IMPUTE).encoding
    assert from_json(json.loads(json.dumps(to_json(found)))) == found
    for bad in (
        {},
        [],
        {"kind": "Indices", "count": -1, "base": 1},
        {"columns": [3], "missing": "drop"},
        {"kind": "Number"},
    ):
        with pytest.raises(ValueError, match=r"encoding|features"):
            from_json(bad)


def test_a_first_model_from_a_raw_table(tmp_path):
    """Missing values, dates, an id, names, categories: one sentence says what to add, and then there is a sensible model."""
    rng = np.random.default_rng(0)
    m = 300
    city, age = rng.choice(["Paris", "Rome", "Oslo"], m), rng.normal(40, 12, m).round(1)
    day = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 700, m), unit="D")
    score = 0.08 * (age - 40) + 1.5 * (city == "Rome") + 0.004 * (day - pd.Timestamp("2022-01-01")).days - 0.3
    frame = pd.DataFrame({"Id": np.arange(1, m + 1), "name": [f"p{k}" for k in range(m)], "age": age, "city": city})
    frame["joined"], frame["target"] = day.strftime("%Y-%m-%d"), np.where(score > 0, "yes", "no")
    frame.loc[rng.random(m) < 0.1, "age"] = np.nan
    frame.loc[rng.random(m) < 0.05, "city"] = None
    frame[:200].to_csv(tmp_path / "train.csv", index=False)
    frame[200:].to_csv(tmp_path / "test.csv", index=False)
    words = ["train", tmp_path / "train.csv", "--out", tmp_path / "run", "--quiet"]
    first = call(*words)
    assert first.exit_code == 2
    assert "'age' (" in plain(first)
    assert "'city' (" in plain(first)
    assert "--missing impute" in plain(first)
    done = call(*words, "--missing", "impute")
    assert done.exit_code == 0, done.output
    scores = json.loads(call("evaluate", tmp_path / "run", tmp_path / "test.csv", "--json").stdout)
    assert scores["accuracy"] > 0.85
