"""Rows behind those of MindRecord files, which make shards equally long."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.dataset.mindrecord_schema import fault
from graphls.dataset.readers_mindrecord import MindRecordSource
from graphls.dataset.transforms.checks import type_error
from graphls.ir.errors import GraphRuntimeError, GraphValueError


def check_padding(columns_list: Any, padded_sample: Any, num_padded: Any) -> None:
    """Raise GraphRuntimeError for arguments without those that belong to them, GraphTypeError, GraphValueError."""
    if padded_sample is None:
        if num_padded is not None:
            raise GraphRuntimeError("num_padded is specified but padded_sample is not.")
        return
    if not isinstance(padded_sample, dict):
        raise type_error("padded_sample", padded_sample, "a dict")
    for name, value in (("columns_list", columns_list), ("num_padded", num_padded)):
        if not value and value != 0:
            raise GraphRuntimeError(f"padded_sample is specified and requires {name} as well.")
    if type(num_padded) is not int:
        raise type_error("num_padded", num_padded, "an integer")
    if num_padded < 0:
        raise GraphValueError(f"num_padded is invalid, num_padded={num_padded}.")
    if not set(columns_list) <= padded_sample.keys():
        raise GraphValueError("padded_sample cannot match columns_list.")


class PaddedRows:
    """The rows of files, and one row `count` times behind them.

    Raises GraphValueError for a row that does not fit the schema, GraphRuntimeError where `num_shards` do not divide
    the number of rows.
    """

    def __init__(self, source: MindRecordSource, sample: dict[str, Any], count: int, num_shards: int | None) -> None:
        self.columns, self._source, self._count = source.columns, source, count
        schema = {name: source.files[0].schema[name] for name in self.columns}
        found = fault(schema, sample)
        if found:
            raise GraphValueError(f"padded_sample does not fit the files: {found}")
        if num_shards and len(self) % num_shards:
            text = f"Invalid data, the size of dataset and padded samples: {len(self)} can not be divisible by the "
            raise GraphRuntimeError(f"{text}value of 'num_shards'. Please adjust the value of 'num_padded'.")
        self._row = tuple(_column(sample[name], schema[name]) for name in self.columns)

    def __len__(self) -> int:
        return len(self._source) + self._count

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return self._source[index] if index < len(self._source) else self._row


def _column(value: Any, field: dict[str, Any]) -> np.ndarray[Any, Any]:
    if field["type"] == "bytes":
        return np.frombuffer(value, np.uint8)
    if field["type"] == "string":
        return np.asarray(value)
    return np.asarray(value, field["type"]).reshape(field.get("shape", ()))
