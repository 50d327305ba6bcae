"""Datasets of the package `datasets` as sources: tables, selected rows, transforms, streams, images, splits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphls import dataset as ds
from graphls import nn
from graphls.dataset import vision
from graphls.train import Model

datasets = pytest.importorskip("datasets")
datasets.disable_progress_bars()


@pytest.fixture
def source() -> Any:
    features = datasets.Features({
        "x": datasets.Sequence(datasets.Value("float32"), length=2),
        "label": datasets.ClassLabel(names=["cat", "dog"]), "t": datasets.Value("string"),
    })  # fmt: skip
    columns = {"x": [[1, 2], [3, 4], [5, 6], [7, 8]], "label": [0, 1, 1, 0], "t": list("abcd")}
    return datasets.Dataset.from_dict(columns, features)


def texts(rows: Any) -> str:
    return "".join(str(row["t"]) for row in rows.create_dict_iterator(num_epochs=1, output_numpy=True))


def test_rows_of_a_dataset(source: Any) -> None:
    rows = ds.ArrowDataset(source, shuffle=False)
    assert (rows.get_col_names(), len(rows), rows.num_classes()) == (["x", "label", "t"], 4, 2)
    assert rows.get_class_indexing() == {"cat": 0, "dog": 1}
    x, label, text = next(iter(rows.create_tuple_iterator(output_numpy=True)))
    assert (x.tolist(), x.dtype, int(label), str(text)) == ([1, 2], np.float32, 0, "a")
    assert not x.flags.owndata


def test_rows_that_were_selected_sorted_and_filtered(source: Any) -> None:
    assert texts(ds.ArrowDataset(source.select([3, 0, 2]), shuffle=False)) == "dac"
    assert texts(ds.ArrowDataset(source.sort("t", reverse=True), shuffle=False)) == "dcba"
    assert texts(ds.ArrowDataset(source.filter(lambda row: row["label"] == 1), shuffle=False)) == "bc"
    assert ds.ArrowDataset(source.with_format("numpy", columns=["t"])).get_col_names() == ["t"]


def test_nulls_count_in_selected_rows_only() -> None:
    source = datasets.Dataset.from_dict({"t": ["a", None, "c"]})
    assert texts(ds.ArrowDataset(source.select([2, 0]), shuffle=False)) == "ca"
    with pytest.raises(ValueError, match="Row 0 of column 't' is null"):
        ds.ArrowDataset(source.select([1, 0]))


def test_transforms_run_on_every_row(source: Any) -> None:
    doubled = source.with_transform(lambda rows: {**rows, "x": [[v * 2 for v in row] for row in rows["x"]]})
    rows = ds.ArrowDataset(doubled, ["x", "t"], shuffle=False)
    assert [row[0].tolist() for row in rows.create_tuple_iterator(output_numpy=True, num_epochs=1)][1] == [6, 8]
    assert sorted(texts(ds.ArrowDataset(doubled))) == ["a", "b", "c", "d"]
    missing = ds.ArrowDataset(source.with_transform(lambda rows: {"x": rows["x"]}), shuffle=False)
    with pytest.raises(RuntimeError, match=r"failed at row 0: .*the example has no column 'label', only 'x'"):
        next(iter(missing))


def test_streams(source: Any) -> None:
    rows = ds.ArrowDataset(source.to_iterable_dataset())
    assert texts(rows) == "abcd"
    assert len(rows) == 4
    rows.set_init_step(6)
    assert texts(rows) == "cd"
    shuffled = ds.ArrowDataset(source.to_iterable_dataset().shuffle(seed=1, buffer_size=4))
    iterator = shuffled.create_dict_iterator(num_epochs=6, output_numpy=True)
    passes = ["".join(str(row["t"]) for row in iterator) for _ in range(6)]
    assert {"".join(sorted(one)) for one in passes} == {"abcd"}
    assert len(set(passes)) > 1
    again = shuffled.create_dict_iterator(num_epochs=6, output_numpy=True)
    assert ["".join(str(row["t"]) for row in again) for _ in range(6)] == passes
    with pytest.raises(ValueError, match="A stream of datasets has no order that shuffle or sampler could change"):
        ds.ArrowDataset(source.to_iterable_dataset(), sampler=ds.SequentialSampler())


def test_a_stream_without_features_and_with_a_null() -> None:
    def examples() -> Any:
        yield {"a": 1, "b": [1, 2]}
        yield {"a": None, "b": [3, 4]}

    rows = ds.ArrowDataset(datasets.IterableDataset.from_generator(examples))
    assert rows.get_col_names() == ["a", "b"]
    with pytest.raises(RuntimeError, match="failed at row 1: column 'a' is null or contains a null; filter such rows"):
        list(rows.create_tuple_iterator(num_epochs=1))


@pytest.mark.parametrize("is_stream", [False, True])
def test_images_are_files_that_vision_decodes(is_stream: bool) -> None:
    image = np.random.default_rng(0).integers(0, 255, (5, 4, 3), dtype=np.uint8)
    features = datasets.Features({"image": datasets.Image(), "m": datasets.Array2D((2, 2), "float32")})
    source = datasets.Dataset.from_dict({"image": [image], "m": [np.ones((2, 2))]}, features)
    source = source.to_iterable_dataset() if is_stream else source
    rows = ds.ArrowDataset(source, shuffle=False).map(vision.Decode(), "image")
    ((pixels, matrix),) = rows.create_tuple_iterator(num_epochs=1, output_numpy=True)
    np.testing.assert_array_equal(pixels, image)
    np.testing.assert_array_equal(matrix, np.ones((2, 2), np.float32))


def test_splits_are_chosen(source: Any) -> None:
    splits = datasets.DatasetDict({"train": source, "test": source})
    with pytest.raises(TypeError, match=r"holds datasets by name \('train', 'test'\); choose one: \['train'\]"):
        ds.ArrowDataset(splits)
    with pytest.raises(TypeError, match="choose one"):
        Model(nn.Dense(1, 1)).train(1, splits)


def test_errors_say_what_to_do_in_datasets(source: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"dataset\.filter\(lambda row: row\['t'\] is not None\)"):
        ds.ArrowDataset(datasets.Dataset.from_dict({"t": ["a", None]}))
    stream = source.to_iterable_dataset()
    with pytest.raises(TypeError, match="An IterableDatasetDict holds"):
        ds.ArrowDataset(datasets.IterableDatasetDict({"train": stream}))
    with pytest.raises(ValueError, match=r"pass stream\.shuffle\(buffer_size=1000\)"):
        ds.ArrowDataset(stream, shuffle=True)
    with pytest.raises(RuntimeError, match="a dict is one column, so give a tuple, or use ArrowDataset"):
        ds.GeneratorDataset(source, ["t", "label"])[0]
    source.save_to_disk(tmp_path / "saved")
    with pytest.raises(ValueError, match=r"pass datasets\.load_from_disk\('.*saved'\)"):
        ds.ArrowDataset(tmp_path / "saved")


def test_a_dataset_of_batches_in_training() -> None:
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    features = datasets.Features({name: datasets.Sequence(datasets.Value("float32"), length=1) for name in "xy"})
    source = datasets.Dataset.from_dict({"x": x[:, None], "y": 3 * x[:, None]}, features)
    net = nn.Dense(1, 1, weight_init="zeros")
    model = Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1))
    model.train(30, source.batch(4))
    assert abs(float(net.weight.asnumpy()[0, 0]) - 3) < 0.5
