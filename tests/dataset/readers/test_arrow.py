"""ArrowDataset: tables of Arrow as rows, with the memory of the table, their order, nulls and files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphls import dataset as ds
from graphls import nn
from graphls.dataset import vision
from graphls.dataset.readers import arrow_columns
from graphls.train import Model

pyarrow = pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")
parquet = pytest.importorskip("pyarrow.parquet")

FILE = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])


def rows_of(source: object, **options: Any) -> list[dict[str, Any]]:
    options.setdefault("shuffle", False)
    return list(ds.ArrowDataset(source, **options).create_dict_iterator(num_epochs=1, output_numpy=True))


def column(values: object, kind: Any = None, start: int = 0) -> list[Any]:
    """The rows of a column, of a slice of it, and of it in two chunks, which agree."""
    array = pyarrow.array(values, kind)
    table = pyarrow.table({"x": pyarrow.chunked_array([array, array])})
    rows = [row["x"] for row in rows_of(table)]
    half = len(rows) // 2
    for first, second in zip(rows[:half], rows[half:], strict=True):
        np.testing.assert_equal(first, second)
    return [row["x"] for row in rows_of(pyarrow.table({"x": array[start:]}))]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, 3], pyarrow.int8()),
        ([1.5, 2, -3], pyarrow.float16()),
        ([True, False, True] * 7, None),
        ([[1, 2], [3, 4], [5, 6]], None),
        ([[1, 2], [3, 4], [5, 6]], pyarrow.list_(pyarrow.float32(), 2)),
        ([[[1, 2]], [[3, 4]], [[5, 6]]], None),
        ([[1, 2], [3], [], [4, 5, 6]], pyarrow.large_list(pyarrow.int32())),
        ([[[1, 2], [3, 4]], [[5, 6]]], None),
        (["a", "", "é漢字"], None),
        (["a", "", "é漢字"], pyarrow.large_string()),
        (["a", "b", "a"], pyarrow.dictionary(pyarrow.int8(), pyarrow.string())),
        ([["a", "bc"], ["d"]], None),
    ],
)
@pytest.mark.parametrize("start", [0, 1])
def test_values_are_those_of_the_table(values: list[Any], kind: Any, start: int) -> None:
    for row, value in zip(column(values, kind, start), values[start:], strict=True):
        np.testing.assert_array_equal(row, value)


def test_numbers_and_equal_lists_share_the_memory_of_the_table() -> None:
    buffers = np.arange(12, dtype=np.float32)
    table = pyarrow.table({
        "x": pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(buffers), 3), "y": np.arange(4),
        "z": pyarrow.ListArray.from_arrays(pyarrow.array([0, 3, 6, 9, 12], pyarrow.int32()), pyarrow.array(buffers)),
    })  # fmt: skip
    for name, shape in (("x", (3,)), ("y", ()), ("z", (3,))):
        rows = ds.ArrowDataset(table, name, shuffle=False)
        (row,) = next(iter(rows.create_tuple_iterator(output_numpy=True)))
        chunk = table[name].chunk(0)
        buffer = (chunk if name == "y" else chunk.values).buffers()[1]
        assert row.shape == shape
        assert row.__array_interface__["data"][0] == buffer.address


def test_tensors_of_a_fixed_shape() -> None:
    array = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    for order in (array, array.transpose(0, 2, 1)):
        tensors = pyarrow.FixedShapeTensorArray.from_numpy_ndarray(order)
        for row, value in zip(rows_of(pyarrow.table({"x": tensors})), order, strict=True):
            np.testing.assert_array_equal(row["x"], value)


def test_images_in_structs_are_bytes_that_decode(tmp_path: Path) -> None:
    image = np.random.default_rng(0).integers(0, 255, (5, 4, 3), dtype=np.uint8)
    content = _png(image)
    (tmp_path / "a.png").write_bytes(content)
    values = [{"bytes": content, "path": None}, {"bytes": None, "path": str(tmp_path / "a.png")}]
    rows = ds.ArrowDataset(pyarrow.table({"image": pyarrow.array(values, FILE)}), shuffle=False)
    rows = rows.map(vision.Decode(), "image").batch(2)
    ((batch,),) = rows.create_tuple_iterator(num_epochs=1, output_numpy=True)
    np.testing.assert_array_equal(batch, [image, image])


def _png(image: Any) -> bytes:
    import io

    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


def test_structs_are_dicts() -> None:
    ((row,),) = [tuple(row.values()) for row in rows_of(pyarrow.table({"x": [{"a": 1, "b": [2, 3]}]}))]
    assert int(row["a"]) == 1
    assert row["b"].tolist() == [2, 3]


@pytest.mark.parametrize(
    ("values", "row"),
    [
        (pyarrow.array([1, None, 3]), 1), (pyarrow.array([[1], [2, None]]), 1), (pyarrow.array(["a", "b", None]), 2),
        (pyarrow.array(["a", None]).dictionary_encode(), 1), (pyarrow.array([{"a": 1}, {"a": None}]), 1),
        (pyarrow.array([{"bytes": b"1", "path": None}, {"bytes": None, "path": None}], FILE), 1),
    ],
)  # fmt: skip
def test_a_null_is_refused_with_row_and_column(values: Any, row: int) -> None:
    chunks = pyarrow.chunked_array([values[:1], values])
    with pytest.raises(ValueError, match=rf"Row {row + 1} of column 'x' is null or contains a null; drop such rows"):
        ds.ArrowDataset(pyarrow.table({"x": chunks}))
    assert len(rows_of(pyarrow.table({"x": chunks}).slice(0, 1 + row))) == 1 + row


def test_lists_of_other_lengths_are_refused_by_batch_and_padded_on_request() -> None:
    rows = ds.ArrowDataset(pyarrow.table({"x": [[1, 2], [3]]}), shuffle=False)
    with pytest.raises(RuntimeError, match=r"column 0 \('x'\): \(1,\) and \(2,\); padded_batch pads them"):
        next(iter(rows.batch(2)))
    ((batch,),) = rows.padded_batch(2).create_tuple_iterator(num_epochs=1, output_numpy=True)
    assert batch.tolist() == [[1, 2], [3, 0]]
    nested = ds.ArrowDataset(pyarrow.table({"x": [[[1, 2], [3]]]}), shuffle=False)
    with pytest.raises(RuntimeError, match=r"failed at row 0: a row has lists of different lengths"):
        next(iter(nested))


def test_order_shards_and_resumption_are_those_of_other_sources() -> None:
    values = np.arange(20)
    tables = pyarrow.table({"x": pyarrow.chunked_array([values[:7], values[7:]])})
    for options in ({}, {"num_shards": 3, "shard_id": 1}, {"sampler": ds.SubsetRandomSampler([1, 5, 6])}):
        ds.config.set_seed(5)
        passes = []
        for rows in (ds.ArrowDataset(tables, **options), ds.NumpySlicesDataset({"x": values}, **options)):
            iterator = rows.create_tuple_iterator(num_epochs=2, output_numpy=True)
            passes.append([[int(x) for (x,) in iterator] for _ in range(2)])
            rows.set_init_step(len(passes[-1][0]) + 1)
            assert [int(x) for (x,) in rows.create_tuple_iterator(output_numpy=True, num_epochs=1)] == passes[-1][1][1:]
        assert passes[0] == passes[1]


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "stream.arrow", "a.feather"])
def test_files(name: str, tmp_path: Path) -> None:
    table = pyarrow.table({"x": [1.0, 3.0], "t": ["a", "b"]})
    write(table, tmp_path / name)
    for source in (tmp_path / name, str(tmp_path / f"*{name[-4:]}")):
        assert [(float(row["x"]), str(row["t"])) for row in rows_of(source)] == [(1, "a"), (3, "b")]
    two = ds.ArrowDataset([tmp_path / name, tmp_path / name], ["t", "x"])
    assert (len(two), two.get_col_names()) == (4, ["t", "x"])


def write(table: Any, path: Path) -> None:
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
    elif path.suffix == ".feather":
        feather.write_feather(table, path)
    else:
        new = pyarrow.ipc.new_stream if path.stem == "stream" else pyarrow.ipc.new_file
        with new(path, table.schema) as file:
            file.write_table(table)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".feather"])
def test_damaged_files_are_errors(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    write(pyarrow.table({"x": [["abc", "d"]] * 50, "y": np.arange(50)}), path)
    content = path.read_bytes()
    for cut in (0, 3, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:cut])
        with pytest.raises(RuntimeError, match="cannot be read"):
            ds.ArrowDataset(path)


@pytest.mark.parametrize(
    ("whole", "damaged"), [(b"label", b"lab\xff\xfe"), (np.array([2, 0, 1, 2]), np.array([2, 0, 9, 2]))]
)
def test_damaged_names_and_codes_are_errors_of_the_file(whole: Any, damaged: Any, tmp_path: Path) -> None:
    codes = pyarrow.DictionaryArray.from_arrays(np.array([2, 0, 1, 2]), ["a", "b", "c"])
    write(pyarrow.table({"label": [1, 2, 3, 4], "code": codes}), tmp_path / "a.arrow")
    content = (tmp_path / "a.arrow").read_bytes()
    assert bytes(whole) in content
    (tmp_path / "a.arrow").write_bytes(content.replace(bytes(whole), bytes(damaged)))
    with pytest.raises(RuntimeError, match=r"a\.arrow cannot be read"):
        ds.ArrowDataset(tmp_path / "a.arrow")


def test_wrong_sources() -> None:
    with pytest.raises(TypeError, match="The source of ArrowDataset is a table of pyarrow, record batches, a dataset"):
        ds.ArrowDataset(3)
    with pytest.raises(TypeError, match="is of type dict; NumpySlicesDataset takes dicts"):
        ds.ArrowDataset({"x": [1]})
    with pytest.raises(TypeError, match=r"Column 'x' cannot be read: it has the type timestamp\[s\]"):
        ds.ArrowDataset(pyarrow.table({"x": pyarrow.array([1], pyarrow.timestamp("s"))}))
    with pytest.raises(ValueError, match="'z'"):
        ds.ArrowDataset(pyarrow.table({"x": [1]}), "z")
    with pytest.raises(ValueError, match=r"reads files that end in \.parquet, \.arrow, \.feather, not"):
        ds.ArrowDataset(__file__)
    with pytest.raises(ValueError, match="The tables differ in their columns"):
        ds.ArrowDataset([pyarrow.table({"x": [1]}), pyarrow.table({"y": [1]})])


def test_what_exports_a_stream_and_batches_of_records() -> None:
    table = pyarrow.table({"x": [1, 2, 3]})

    class Frame:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return table.__arrow_c_stream__(requested_schema)

    reader = pyarrow.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=2))
    for source in (Frame(), table.to_batches(max_chunksize=2), table.to_batches()[0], reader):
        assert [int(row["x"]) for row in rows_of(source)] == [1, 2, 3]


def test_a_table_in_training() -> None:
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    table = pyarrow.table({"x": pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(x), 1), "y": x * 3})
    net = nn.Dense(1, 1, weight_init="zeros")
    model = Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1))
    with pytest.raises(ValueError, match=r"this Table is one example \(its 'y' has no axis\); give graphls"):
        model.train(1, table)
    y = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(x * 3), 1)
    batches = pyarrow.table({"x": table["x"], "y": y}).to_batches(max_chunksize=4)
    model.train(30, batches)
    assert abs(float(net.weight.asnumpy()[0, 0]) - 3) < 0.5


def test_columns_of_several_parts_are_one_array() -> None:
    parts = pyarrow.chunked_array([[[1, 2]], [[3, 4], [5, 6]]])
    assert arrow_columns.array_of_column(arrow_columns.column_of(parts)).tolist() == [[1, 2], [3, 4], [5, 6]]
    assert arrow_columns.null_rows(parts).tolist() == []


def test_pyarrow_is_imported_for_tables_only() -> None:
    code = "import sys, graphls.train; from graphls import dataset as ds; list(ds.NumpySlicesDataset([1], 'x'))"
    run = f"{code}; assert not {{'pyarrow', 'datasets', 'tokenizers', 'transformers'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", run], check=True, timeout=600)
