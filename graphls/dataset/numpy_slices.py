"""Datasets of arrays and of rows that are in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphls.dataset import checks
from graphls.dataset.generator import GeneratorDataset
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.tensor import Tensor


class Slices:
    """Arrays, element by element of their first axes."""

    def __init__(self, arrays: tuple[np.ndarray[Any, Any], ...]) -> None:
        self.arrays = arrays

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return tuple([array[index, ...] for array in self.arrays])

    def __len__(self) -> int:
        return len(self.arrays[0])


class NumpySlicesDataset(GeneratorDataset):
    """The elements of arrays, of their first axes.

    `data` is one array or list, a tuple of several, or a dict of them by column name; columns without names are called
    `column_0` and so on. The other arguments are those of `GeneratorDataset`. Raises GraphTypeError and GraphValueError
    for data that have no first axis, or differ in its size.
    """

    def __init__(
        self,
        data: Any,
        column_names: Sequence[str] | str | None = None,
        num_samples: int | None = None,
        num_parallel_workers: int = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        num_shards: int | None = None,
        shard_id: int | None = None,
    ) -> None:
        columns = tuple(data.values()) if isinstance(data, dict) else data if isinstance(data, tuple) else (data,)
        arrays = tuple(map(_array, columns))
        if len({len(array) for array in arrays}) != 1:
            raise GraphValueError(f"Data length in each column is not equal: {[len(array) for array in arrays]}.")
        names = column_names
        if names is None:
            names = list(data) if isinstance(data, dict) else [f"column_{place}" for place in range(len(arrays))]
        if len(checks.names("column_names", names)) != len(arrays):
            raise GraphValueError(f"column_names has {len(names)} names for {len(arrays)} columns.")
        super().__init__(
            Slices(arrays), names, None, None, num_samples, num_parallel_workers, shuffle, sampler, num_shards,
            shard_id, python_multiprocessing=False,
        )  # fmt: skip


def _array(data: Any) -> np.ndarray[Any, Any]:
    try:
        array = data.asnumpy() if isinstance(data, Tensor) else np.asarray(data)
    except ValueError:
        raise GraphValueError("The rows of a column must have the same shape.") from None
    if array.ndim == 0 or array.dtype.kind == "O":
        raise GraphTypeError(f"The data of a column are an array or a list, not {data!r}.")
    return array


class PaddedDataset(GeneratorDataset):
    """Rows given as dicts by column name, such as those that fill a dataset up to a size that can be shared out."""

    def __init__(self, padded_samples: list[dict[str, Any]]) -> None:
        if not isinstance(padded_samples, list) or not all(isinstance(row, dict) for row in padded_samples):
            raise GraphTypeError(f"padded_samples is a list of dicts, not {padded_samples!r}.")
        if not padded_samples:
            raise GraphValueError("padded_samples has no rows.")
        names = list(padded_samples[0])
        for row in padded_samples:
            if list(row) != names:
                raise GraphValueError(f"All of padded_samples have the same columns, not {names} and {list(row)}.")
        super().__init__([tuple(row.values()) for row in padded_samples], names, shuffle=False)
