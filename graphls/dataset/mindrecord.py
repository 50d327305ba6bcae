"""Reading MindRecord files: row by row, or as a data set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from graphls.dataset.readers import Files
from graphls.dataset.readers_mindrecord import MindRecordSource
from graphls.ir.errors import GraphValueError
from graphls.source import user_location

__all__ = ["FileReader", "MindDataset"]


class FileReader:
    """The rows of MindRecord files, in order; `num_consumer` has no effect. Raises what MindRecordSource does."""

    def __init__(self, file_name: Any, num_consumer: int = 4, columns: Any = None, operator: Any = None) -> None:
        if operator is not None:
            raise GraphValueError("FileReader has no operators; leave out the argument.", user_location())
        self._source = MindRecordSource(file_name, columns or None)

    def get_next(self) -> Iterator[dict[str, Any]]:
        """Each row as a dict of Python numbers, strings, bytes and arrays."""
        schema = self.schema()
        for index in range(len(self._source)):
            row = self._source.row(index)
            yield {name: _plain(value, schema[name]["type"]) for name, value in row.items()}

    def schema(self) -> dict[str, dict[str, Any]]:
        """The type of each column, and the shapes of arrays."""
        return self._source.files[0].schema

    def len(self) -> int:
        """The number of rows."""
        return len(self._source)

    def close(self) -> None:
        """Nothing is to be done; files are closed when they are no longer used."""


def _plain(value: Any, kind: str) -> Any:
    if kind == "bytes":
        return value.tobytes()
    return value.item() if isinstance(value, np.generic) else value


class MindDataset(Files):
    """The rows of MindRecord files, in the columns that they have, or in those of `columns_list`.

    One path stands for all files that were written with it. `shuffle` is True by default, and whatever `Shuffle` says,
    all rows are shuffled. There are no padded samples. Raises what MindRecordSource does.
    """

    def __init__(
        self,
        dataset_files: Any,
        columns_list: list[str] | None = None,
        num_parallel_workers: int | None = None,
        shuffle: Any = None,
        num_shards: int | None = None,
        shard_id: int | None = None,
        sampler: Any = None,
        padded_sample: dict[str, Any] | None = None,
        num_padded: int | None = None,
        num_samples: int | None = None,
        cache: Any = None,
    ) -> None:
        if padded_sample is not None or num_padded is not None:
            text = "MindDataset has no padded samples; shards are made equally long without them."
            raise GraphValueError(text, user_location())
        source = MindRecordSource(dataset_files, columns_list)
        super().__init__(
            source, source.columns, cache, num_parallel_workers, num_samples=num_samples,
            shuffle=None if shuffle is None else shuffle is not False, sampler=sampler, num_shards=num_shards,
            shard_id=shard_id,
        )  # fmt: skip
