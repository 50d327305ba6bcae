"""CSV files: columns and rows as Python's csv module reads them, in the dtypes of the defaults."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphls import dataset as ds
from graphls.ir.errors import GraphlsError

TEXT = 'size,rooms,town\n80.5,3,"Oslo, east"\n\n120,,"two\nlines"\n-1e3,4,Bern\n'


def rows_of(dataset: ds.Dataset) -> list[list[Any]]:
    return [[each.tolist() for each in row] for row in dataset.create_tuple_iterator(num_epochs=1, output_numpy=True)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text(TEXT)
    return tmp_path / "a.csv"


def test_fields_are_those_of_the_csv_module(path: Path) -> None:
    with path.open(newline="") as file:
        header, *rows = filter(None, csv.reader(file))
    dataset = ds.CSVDataset(path, shuffle=False)
    assert dataset.get_col_names() == header and rows_of(dataset) == rows
    assert sorted(rows_of(ds.CSVDataset([path]))) == sorted(rows)
    path.write_text("\ufeff" + TEXT.replace(",", ";"))
    assert rows_of(ds.CSVDataset(path, ";", shuffle=False, num_samples=1)) == [["80.5", "3", "Oslo; east"]]
    assert rows_of(ds.CSVDataset(path, ";", None, ["a", "b", "c"], shuffle=False))[0] == header


def test_defaults_say_dtypes_and_stand_for_empty_fields(path: Path) -> None:
    dataset = ds.CSVDataset(str(path), column_defaults=[0.0, 7, "none"], shuffle=False)
    assert rows_of(dataset) == [[80.5, 3, "Oslo, east"], [120, 7, "two\nlines"], [-1000, 4, "Bern"]]
    row = next(dataset.create_tuple_iterator(num_epochs=1, output_numpy=True))
    assert [column.dtype.type for column in row] == [np.float32, np.int32, np.str_]


def test_several_files_have_one_header(path: Path) -> None:
    other = path.with_name("b.csv")
    other.write_text("size,rooms,town\n1,2,x\n")
    assert rows_of(ds.CSVDataset([path, other], shuffle=False))[3] == ["1", "2", "x"]
    other.write_text("town,size,rooms\nx,1,2\n")
    with pytest.raises(GraphlsError, match=r"b.csv cannot be read: its first line has the columns \['town'"):
        ds.CSVDataset([path, other])


@pytest.mark.parametrize(
    ("text", "options", "kind", "said"),
    [
        ("a,b\n1,2\n1\n", {}, RuntimeError, "the fields of line 3 are 1, and there are 2 columns"),
        ("a\nx\n", {"column_defaults": [1]}, RuntimeError, "line 2 has 'x' in the column 'a' of int, as its default 1"),
        ("a\n1\n", {"column_defaults": [1], "column_names": ["a"]}, RuntimeError, "without column_names, the first"),
        ("a\n99999999999\n", {"column_defaults": [1]}, RuntimeError, "line 2 has '99999999999'"),
        ("a,b\n1,2\n", {"column_defaults": [1]}, ValueError, "1 column_defaults for the 2 columns"),
        ("a\n1\n", {"column_defaults": [True]}, TypeError, "column_defaults.* a list of int or float or str"),
        ("a\n1\n", {"column_names": "a"}, TypeError, "column_names.* a list of str"),
        ("a\n1\n", {"field_delim": ";;"}, ValueError, "field_delim is one character"),
        ("a\n", {}, RuntimeError, "There is no row in"),
        ("", {}, RuntimeError, "There is no row in"),
        ("a\n\udce9\n", {}, RuntimeError, "is not UTF-8 text"),
    ],
)
def test_wrong_files_and_arguments(
    path: Path, text: str, options: dict[str, Any], kind: type[Exception], said: str
) -> None:
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(kind, match=said) as caught:
        rows_of(ds.CSVDataset(path, shuffle=False, **options))
    assert isinstance(caught.value, GraphlsError)
