"""Lines of text files and of the Penn Treebank, as MindSpore 2.10 gives them with one worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphls import dataset as ds
from graphls.ir.errors import GraphlsError, GraphRuntimeError, GraphValueError


def texts(dataset: ds.Dataset) -> list[str]:
    return [str(text) for (text,) in dataset.create_tuple_iterator(num_epochs=1, output_numpy=True)]


@pytest.fixture
def treebank(tmp_path: Path) -> str:
    for part in ("train", "valid", "test"):
        (tmp_path / f"ptb.{part}.txt").write_bytes(f" {part} one \n\n {part} <unk>\r\n   \nlast".encode())
    return str(tmp_path)


def part(name: str) -> list[str]:
    return [f" {name} one ", f" {name} <unk>\r", "   ", "last"]


def test_lines_that_are_empty_are_left_out_and_others_are_kept_as_they_are(treebank: str) -> None:
    dataset = ds.PennTreebankDataset(treebank, "valid", shuffle=False)
    assert dataset.get_col_names() == ["text"] and dataset.get_dataset_size() == 4
    assert texts(dataset) == part("valid")


def test_all_parts_are_in_order_of_their_names(treebank: str) -> None:
    everything = part("test") + part("train") + part("valid")
    assert texts(ds.PennTreebankDataset(treebank, shuffle=False)) == everything
    files = [f"{treebank}/ptb.valid.txt", f"{treebank}/ptb.t*.txt"]
    assert texts(ds.TextFileDataset(files, shuffle=False)) == everything
    assert sorted(texts(ds.TextFileDataset(files, shuffle=ds.Shuffle.GLOBAL))) == sorted(everything)
    assert texts(ds.TextFileDataset(files, num_shards=3, shard_id=1, shuffle=False)) == everything[4:8]
    assert texts(ds.TextFileDataset(files, num_samples=2, shuffle=False)) == everything[:2]


def test_empty_files_have_no_rows(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "b").write_bytes(b"\xef\xbb\xbfx\n")
    assert texts(ds.TextFileDataset([str(tmp_path / "a"), str(tmp_path / "b")])) == ["\ufeffx"]
    for content in (b"", b"\n\n"):
        (tmp_path / "a").write_bytes(content)
        with pytest.raises(GraphRuntimeError, match="no line"):
            ds.TextFileDataset(str(tmp_path / "a"))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(GraphValueError, match="did not match any files"):
        ds.PennTreebankDataset(str(tmp_path))
    (tmp_path / "a").write_bytes(b"good\ncaf\xe9\n")
    with pytest.raises(GraphlsError, match="line at byte 5 is not UTF-8"):
        texts(ds.TextFileDataset(str(tmp_path / "a"), shuffle=False))
