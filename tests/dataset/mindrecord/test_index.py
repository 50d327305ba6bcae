"""MindPage, and MindDataset with rows behind those of its files, as MindSpore 2.10 has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphls import dataset as ds
from graphls.dataset.mindrecord.index import MindPage
from graphls.dataset.mindrecord.schema import MRMDefineCategoryError, ParamTypeError, ParamValueError
from graphls.dataset.mindrecord.writer import FileWriter
from graphls.ir.errors import GraphlsError, GraphRuntimeError, GraphTypeError, GraphValueError

TEXTS = ["b", "a'", "10", "9", ""]
NUMBERS = [1e20, 0.1, -0.5, 100000.0, 1e-7]
SAMPLE = {"id": -1, "f": 2.5, "s": "pad", "d": b"zz", "x": np.array([7, 8], np.float32)}


@pytest.fixture
def path(tmp_path: Path) -> str:
    writer = FileWriter(str(tmp_path / "a"))
    writer.set_header_size(1 << 14)
    writer.set_page_size(1 << 15)
    kinds = {"id": "int32", "f": "float32", "s": "string", "d": "bytes"}
    array = {"x": {"type": "float32", "shape": [2]}}
    writer.add_schema({name: {"type": kind} for name, kind in kinds.items()} | array)
    writer.add_index(["s", "f"])
    writer.write_raw_data([
        {"id": i, "f": NUMBERS[i % 5], "s": TEXTS[i % 5], "d": b"d" * i, "x": np.full(2, i, np.float32)}
        for i in range(10)
    ])  # fmt: skip
    writer.commit()
    return str(tmp_path / "a")


# As MindSpore 2.10 gave them for these rows.
@pytest.mark.parametrize(
    ("field", "names", "rows"),
    [
        ("s", ["", "10", "9", "a'", "b"], [[4, 9], [2, 7], [3, 8], [1, 6], [0, 5]]),
        ("f", ["-0.5", "0.1", "1.0e+20", "1.0e-07", "100000.0"], [[2, 7], [1, 6], [0, 5], [4, 9], [3, 8]]),
    ],
)
def test_rows_are_grouped_by_the_values_of_a_column(path: str, field: str, names: Any, rows: Any) -> None:
    page = MindPage(path)
    assert page.candidate_fields == ["s", "f"] and page.category_field is None
    page.category_field = field
    info = json.loads(page.read_category_info())
    entries = [{"count": 2, "id": number, "name": name} for number, name in enumerate(names)]
    assert info == {"categories": entries, "key": f"{field}_0"}
    assert [[row["id"] for row in page.read_at_page_by_id(i, 0, 10)] for i in range(5)] == rows
    assert [[row["id"] for row in page.read_at_page_by_name(name, 1, 1)] for name in names] == [[b] for _, b in rows]
    assert page.read_at_page_by_name(names[0], 0, 1)[0]["d"] == b"d" * rows[0][0]


def test_what_pages_refuse(path: str) -> None:
    page = MindPage(path)
    with pytest.raises(GraphRuntimeError, match="field: is invalid"):
        page.read_category_info()
    with pytest.raises(ParamTypeError, match="'category_fields' expect str type"):
        page.category_field = 3  # type: ignore[assignment]
    with pytest.raises(MRMDefineCategoryError, match="'id' is not a candidate category field"):
        page.category_field = "id"
    page.category_field = "s"
    for arguments in ((-1, 0, 1), (0, -1, 1), (0, 0, 0)):
        with pytest.raises(ParamValueError, match="should be int and greater than"):
            page.read_at_page_by_id(*arguments)
    for arguments, message in (((9, 0, 1), "must be in the range"), ((0, 9, 1), "page no: 9")):
        with pytest.raises(GraphRuntimeError, match=message):
            page.read_at_page_by_id(*arguments)
    with pytest.raises(GraphRuntimeError, match="zz could not found"):
        page.read_at_page_by_name("zz", 0, 1)
    with pytest.raises(ParamValueError, match="should be str"):
        page.read_at_page_by_name(3, 0, 1)  # type: ignore[arg-type]


def numbers(dataset: ds.Dataset) -> list[int]:
    return [int(row[0]) for row in dataset.create_tuple_iterator(num_epochs=1, output_numpy=True)]


def padded(path: str, count: Any = 2, sample: Any = SAMPLE, columns: Any = ("id",), **options: Any) -> ds.Dataset:
    columns_list = None if columns is None else list(columns)
    return ds.MindDataset(path, columns_list, padded_sample=sample, num_padded=count, **options)


def test_a_row_follows_those_of_the_files(path: str) -> None:
    assert numbers(padded(path, shuffle=False)) == [*range(10), -1, -1]
    assert padded(path).get_dataset_size() == 12 and sorted(numbers(padded(path))) == [-1, -1, *range(10)]
    assert numbers(padded(path, 0, shuffle=False)) == list(range(10))
    assert numbers(padded(path, sampler=ds.SubsetSampler([0, 11]))) == [0, -1]
    rows = list(padded(path, 1, columns=SAMPLE, shuffle=False).create_tuple_iterator(num_epochs=1, output_numpy=True))
    assert [(value.dtype.kind, value.shape) for value in rows[10]] == [(v.dtype.kind, v.shape) for v in rows[2]]
    assert [value.tolist() for value in rows[10]] == [-1, 2.5, "pad", [122, 122], [7, 8]]


def test_shards_are_equally_long(path: str) -> None:
    shards = [numbers(padded(path, num_shards=4, shard_id=i, shuffle=False)) for i in range(4)]
    assert shards == [[0, 4, 8], [1, 5, 9], [2, 6, -1], [3, 7, -1]]
    shuffled = [numbers(padded(path, num_shards=4, shard_id=i)) for i in range(4)]
    assert sorted(number for shard in shuffled for number in shard) == [-1, -1, *range(10)]
    with pytest.raises(GraphRuntimeError, match="can not be divisible by the value of 'num_shards'"):
        padded(path, 3, num_shards=4, shard_id=0)


@pytest.mark.parametrize(
    ("count", "sample", "columns", "error", "message"),
    [
        (None, SAMPLE, ["id"], GraphRuntimeError, "padded_sample is specified and requires num_padded as well"),
        (2, SAMPLE, None, GraphRuntimeError, "padded_sample is specified and requires columns_list as well"),
        (2, None, ["id"], GraphRuntimeError, "num_padded is specified but padded_sample is not"),
        (-1, SAMPLE, ["id"], GraphValueError, "num_padded is invalid, num_padded=-1"),
        (2.0, SAMPLE, ["id"], GraphTypeError, "num_padded"),
        (2, 3, ["id"], GraphTypeError, "padded_sample"),
        (2, {"s": ""}, ["id"], GraphValueError, "padded_sample cannot match columns_list"),
        (2, {"id": 2.5}, ["id"], GraphValueError, "data type: 'int32' for field: 'id' is not matched"),
    ],
)
def test_samples_that_are_refused(
    path: str, count: Any, sample: Any, columns: Any, error: type[GraphlsError], message: str
) -> None:
    with pytest.raises(error, match=message):
        padded(path, count, sample, columns)
