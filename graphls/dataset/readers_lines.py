"""Data sets of lines of text."""

from __future__ import annotations

from typing import Any

from graphls.dataset.readers import Files
from graphls.dataset.readers_text import PennTreebankSource, TextFileSource


class TextFileDataset(Files):
    """The lines of text files that are not empty: the column `text`, a string of ().

    `dataset_files` is a path, a pattern or a list of them, read in order of their names. As in TFRecordDataset, rows
    are shuffled over all files unless `shuffle` is False. Raises what TextFileSource does.
    """

    def __init__(
        self,
        dataset_files: Any,
        num_samples: int | None = None,
        num_parallel_workers: int | None = None,
        shuffle: Any = True,
        num_shards: int | None = None,
        shard_id: int | None = None,
        cache: Any = None,
    ) -> None:
        source = TextFileSource(dataset_files)
        super().__init__(
            source, ["text"], cache, num_parallel_workers, num_samples=num_samples,
            shuffle=shuffle is not False, num_shards=num_shards, shard_id=shard_id,
        )  # fmt: skip


class PennTreebankDataset(Files):
    """The sentences of the Penn Treebank: the column `text`, a string of ().

    `usage` is "train", "valid", "test" or "all", the default. Raises what PennTreebankSource does.
    """

    def __init__(
        self,
        dataset_dir: str,
        usage: str | None = None,
        num_samples: int | None = None,
        num_parallel_workers: int | None = None,
        shuffle: Any = True,
        num_shards: int | None = None,
        shard_id: int | None = None,
        cache: Any = None,
    ) -> None:
        source = PennTreebankSource(dataset_dir, usage)
        super().__init__(
            source, ["text"], cache, num_parallel_workers, num_samples=num_samples,
            shuffle=shuffle is not False, num_shards=num_shards, shard_id=shard_id,
        )  # fmt: skip
