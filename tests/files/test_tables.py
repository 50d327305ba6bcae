"""Arrays by name from files of NumPy and from text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphls.cli.training.columns import numbered, read_csv, read_npz
from graphls.ir.errors import GraphFileError, GraphValueError


def test_columns_are_integers_where_all_of_them_are(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('\ufeffa, "b",c\n1,2.5,3\n-4,1e3,5\n', encoding="utf-8")
    found = read_csv(path)
    assert list(found) == ["a", "b", "c"]
    assert [column.dtype for column in found.values()] == [np.int64, np.float64, np.int64]
    assert found["b"].tolist() == [2.5, 1000.0] and found["c"].tolist() == [3, 5]
    path.write_text("a,b\n1,x\n\n2,y\n")
    assert read_csv(path)["b"].tolist() == ["x", "y"] and read_csv(path)["a"].tolist() == [1, 2]
    path.write_text("a,b\n")
    assert [len(column) for column in read_csv(path).values()] == [0, 0]
    path.write_text("a\nnan\n")
    assert np.isnan(read_csv(path)["a"]).all()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,a\n1,2\n", "two columns called 'a'"),
        ("", "must have the names"),
        ("1,2\n3,4\n", "must have the names of its columns"),
        ("a,b\n1,2\n3\n", "Line 3 of .* has 1 fields for the 2 names"),
        ("a,b\n1,2,3\n", "has 2 names and 3 columns"),
    ],
)
def test_tables_that_are_none(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(GraphValueError, match=told):
        read_csv(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for read in (read_csv, read_npz):
        with pytest.raises(GraphFileError, match="none cannot be read: No such file"):
            read(tmp_path / "none")
    path = tmp_path / "x.npz"
    path.write_bytes(b"PK\3\4nothing")
    with pytest.raises(GraphValueError, match="is not a file of numpy"):
        read_npz(path)
    np.savez(path, x=np.array([{}]))
    with pytest.raises(GraphValueError, match="arrays of numbers"):
        read_npz(path)
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(GraphValueError, match="one array without a name"):
        read_npz(tmp_path / "one.npy")


def test_names_that_end_in_numbers() -> None:
    assert numbered(["x10", *(f"x{i}" for i in range(10)), "y"]) == {"x": [f"x{i}" for i in range(11)]}
    assert numbered(["p[1]", "p[0]", "q_1", "q_2", "z2", "w0", "w2"]) == {"p": ["p[0]", "p[1]"], "q": ["q_1", "q_2"]}
