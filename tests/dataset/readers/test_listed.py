"""Food-101, Flickr, manifests, SST-2, CLUE and tables of texts: the rows that MindSpore 2.10 gives for small files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from graphls import dataset as ds
from graphls.ir.errors import GraphlsError


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def image(path: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (3, 2), (10, 20, 30)).save(path)


def rows(dataset: ds.Dataset) -> list[list[Any]]:
    """The rows of a pass, an image as its shape."""
    found = [list(row) for row in dataset.create_tuple_iterator(num_epochs=1, output_numpy=True)]
    assert len(found) == dataset.get_dataset_size()
    return [[item.shape if item.dtype == np.uint8 else item.tolist() for item in row] for row in found]


def test_food_101() -> None:
    for name in ("apple/1", "apple/2", "apple/3", "zoo/2", "zoo/3"):
        image(f"images/{name}.jpg")
    write("meta/train.txt", "apple/1\nzoo/2\napple/2\n")
    write("meta/test.txt", "zoo/3\napple/3")
    labels = {"train": ["apple", "zoo", "apple"], "test": ["zoo", "apple"]}
    for part, expected in {**labels, "all": labels["train"] + labels["test"]}.items():
        dataset = ds.Food101Dataset(".", part, decode=True, shuffle=False)
        assert rows(dataset) == [[(2, 3, 3), label] for label in expected]
    assert dataset.get_col_names() == ["image", "label"]
    assert rows(ds.Food101Dataset(".", shuffle=False, num_samples=1))[0][0][0] > 100
    write("meta/test.txt", "../zoo/3")
    with pytest.raises(RuntimeError, match="leads out of"):
        ds.Food101Dataset(".")
    with pytest.raises(ValueError, match="train, test, all"):
        ds.Food101Dataset(".", "valid")


def test_flickr() -> None:
    image("images/1.jpg")
    image("images/2.jpg")
    write("captions", "1.jpg#0\tfirst one\n1.jpg#1\tsecond\n2.jpg#0\tother\n2.jpg#1\tmore here\n")
    dataset = ds.FlickrDataset("images", "captions", decode=True, shuffle=False)
    assert dataset.get_col_names() == ["image", "annotation"]
    assert rows(dataset) == [[(2, 3, 3), ["first one", "second"]], [(2, 3, 3), ["other", "more here"]]]
    for damaged in ("1.jpg first", "1.jpg#0 first", "../1.jpg#0\tfirst"):
        write("captions", damaged)
        with pytest.raises(RuntimeError, match="captions cannot be read"):
            ds.FlickrDataset("images", "captions")
    with pytest.raises(ValueError, match="does not exist"):
        ds.FlickrDataset("images", "missing")


def test_manifests() -> None:
    for name in "abc":
        image(f"{name}.jpg")
    entries = [("a", "TRAIN", ["dog"]), ("b", "train", ["cat", "dog"]), ("c", "eval", ["ant"])]
    lines = [
        {"source": f"{name}.jpg", "usage": part, "annotation": [{"name": kind} for kind in kinds]}
        for name, part, kinds in entries
    ]
    write("m", "\n".join(map(json.dumps, lines)))
    dataset = ds.ManifestDataset("m", decode=True, shuffle=False)
    assert rows(dataset) == [[(2, 3, 3), 1], [(2, 3, 3), [0, 1]]]
    assert dataset.get_class_indexing() == {"cat": 0, "dog": 1} and dataset.num_classes() == 2
    assert rows(ds.ManifestDataset("m", "eval", decode=True)) == [[(2, 3, 3), 0]]
    chosen = ds.ManifestDataset("m", shuffle=False, class_indexing={"dog": 5})
    assert [row[1] for row in rows(chosen)] == [5, 5] and chosen.output_types()[1] == np.int32
    with pytest.raises(RuntimeError, match="no image for usage"):
        ds.ManifestDataset("m", class_indexing={"cow": 1})
    with pytest.raises(RuntimeError, match="usage is train, eval or inference"):
        ds.ManifestDataset("m", "test")
    for damaged in ("{}", "[1]", "{", '{"source": 1, "usage": "train", "annotation": []}', "[" * 9999):
        write("m", damaged)
        with pytest.raises(RuntimeError, match="m cannot be read"):
            ds.ManifestDataset("m")


def test_sst2() -> None:
    write("train.tsv", 'sentence\tlabel\nhello "there\t1\nbad one\t0\n')
    write("test.tsv", "index\tsentence\n0\ttest me\n1\tsecond\n")
    train = ds.SST2Dataset(".", shuffle=False)
    assert train.get_col_names() == ["sentence", "label"] and rows(train) == [['hello "there', "1"], ["bad one", "0"]]
    test = ds.SST2Dataset(".", "test", shuffle=False)
    assert test.get_col_names() == ["sentence"] and rows(test) == [["test me"], ["second"]]
    write("dev.tsv", "sentence\tlabel\nno label\n")
    with pytest.raises(RuntimeError, match="has 1 fields between tabs"):
        rows(ds.SST2Dataset(".", "dev"))
    with pytest.raises(ValueError, match="train, test, dev"):
        ds.SST2Dataset(".", "all")


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        (ds.AGNewsDataset, ["index", "title", "description"]),
        (ds.AmazonReviewDataset, ["label", "title", "content"]),
        (ds.DBpediaDataset, ["class", "title", "content"]),
        (ds.YahooAnswersDataset, ["class", "title", "content", "answer"]),
    ],
)
def test_tables_of_texts(kind: Callable[..., ds.Dataset], columns: list[str]) -> None:
    first = ["3", "Title, one", 'Say ""x""', "more"][: len(columns)]
    write("train.csv", ",".join(f'"{text}"' for text in first) + "\n")
    write("test.csv", ",".join("abcd"[: len(columns)]) + "\n")
    expected = [text.replace('""', '"') for text in first]
    train = kind(".", "train", shuffle=False)
    assert train.get_col_names() == columns and rows(train) == [expected]
    assert rows(kind(".", shuffle=False)) == [list("abcd"[: len(columns)]), expected]


SPANS = {"span1_index": 14, "span1_text": "p", "span2_index": 25, "span2_text": "q"}
CLUE: list[Any] = [
    ("AFQMC", "train", {"sentence1": "a", "sentence2": "b", "label": "1"}, ["1", "a", "b"]),
    ("AFQMC", "test", {"id": 5, "sentence1": "a", "sentence2": "b"}, [5, "a", "b"]),
    ("CMNLI", "eval", {"sentence1": "a", "sentence2": "b", "label": "neutral"}, ["neutral", "a", "b"]),
    ("TNEWS", "train", {"label": "1", "label_desc": "d", "sentence": "s", "keywords": "k"}, ["k", "1", "d", "s"]),
    ("TNEWS", "test", {"id": 5, "sentence": "s", "keywords": "k"}, [5, "k", "s"]),
    ("IFLYTEK", "train", {"label": "11", "label_des": "x", "sentence": "s"}, ["11", "x", "s"]),
    ("IFLYTEK", "test", {"id": 3, "sentence": "s"}, [3, "s"]),
    ("WSC", "train", {"target": SPANS, "idx": 0, "label": "true", "text": "t"}, [0, "true", 14, "p", 25, "q", "t"]),
    ("WSC", "test", {"target": SPANS, "idx": 0, "text": "t"}, [0, 14, "p", 25, "q", "t"]),
    ("CSL", "train", {"id": 1, "abst": "A", "keyword": ["x", "y"], "label": "0"}, ["A", 1, ["x", "y"], "0"]),
    ("CSL", "test", {"id": 1, "abst": "A", "keyword": ["x", "y"]}, ["A", 1, ["x", "y"]]),
]


@pytest.mark.parametrize(("task", "part", "entry", "expected"), CLUE)
def test_tasks_of_clue(task: str, part: str, entry: dict[str, Any], expected: list[Any]) -> None:
    write("a.json", json.dumps(entry) + "\n")
    dataset = ds.CLUEDataset("a.json", task=task, usage=part)
    assert rows(dataset) == [expected]
    assert dataset.get_col_names() == sorted(dataset.get_col_names())
    assert {dtype for dtype in dataset.output_types() if dtype.kind != "U"} <= {np.dtype(np.uint32)}


def test_clue_that_is_not_of_the_task() -> None:
    for damaged in ('{"sentence1": "a"}', "[]", "{", '{"sentence1": [1], "sentence2": "b", "label": "1"}', "3"):
        write("a.json", damaged)
        with pytest.raises(GraphlsError, match="row 0 is not a JSON object with label, sentence1, sentence2"):
            rows(ds.CLUEDataset("a.json"))
    for task, part in (("X", "train"), ("CSL", "all")):
        with pytest.raises(ValueError, match="should be"):
            ds.CLUEDataset("a.json", task, part)
