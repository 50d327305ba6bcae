"""Columns of rows: conversion to arrays, stacking into batches, and schemas of names, dtypes and shapes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from graphls.base.errors import GraphlsError, GraphTypeError, GraphValueError
from graphls.base.files.files import parse_json, read_bytes
from graphls.dataset import checks
from graphls.frontend.tensors.tensor import Tensor
from graphls.ir.types import as_dtype

Array = np.ndarray[Any, Any]
ArrayDType = np.dtype[Any]
StrPath = str | os.PathLike[str]
Row = tuple[Array, ...]
NUMBERS = frozenset((bool, int, float))


def as_array(item: Any) -> Any:
    """An item of a row: a number, text, bytes, nested lists of numbers, an array, a tensor, or a dict as it is.

    Numbers become NumPy's defaults: int64, float64, bool; no array is copied. Raises GraphTypeError for other
    objects, GraphValueError for nested lists whose rows differ in length.
    """
    kind = type(item)
    if kind is np.ndarray or kind is dict:
        return item
    if kind in NUMBERS or isinstance(item, np.generic):
        return np.asarray(item)
    if isinstance(item, Tensor):
        return item.asnumpy()
    array = _array_of(item)
    if array.dtype.kind == "O":
        raise GraphTypeError(f"a column holds numbers, text, bytes or dicts, not {type(item).__name__} objects")
    return array


def with_arrays(item: Any, convert: Callable[[Array], Any]) -> Any:
    """Convert an array, or the numbers, texts and arrays of a dict, by `convert`; other objects in it stay."""
    if isinstance(item, np.ndarray):
        return convert(item)
    if isinstance(item, dict):
        return {key: with_arrays(value, convert) for key, value in item.items()}
    if isinstance(item, (list, tuple)):
        return (list if isinstance(item, list) else tuple)([with_arrays(value, convert) for value in item])
    is_array = isinstance(item, (*NUMBERS, str, bytes, np.generic, Tensor))
    return convert(as_array(item)) if is_array else item


def _array_of(item: object) -> Array:
    if isinstance(item, (list, tuple)):
        item = [as_array(part) if isinstance(part, Tensor) else part for part in item]
    try:
        return np.asarray(item)
    except ValueError:
        raise GraphValueError("the rows of a nested list must have the same length") from None


def row_of(item: Any, width: int) -> Row:
    """The columns of an item: those of a tuple or a list, or the item itself where there is one column.

    A list is one value where there is one column, unless its only item is an array. Raises GraphValueError where the
    number of columns is not `width`.
    """
    kind = type(item)
    if kind is not tuple and not (isinstance(item, (tuple, list)) and not _is_value(item, width)):
        item = (item,)
    if len(item) != width:
        advice = "; a dict is one column, so give a tuple, or use ArrowDataset for datasets of Hugging Face"
        is_dict = len(item) == 1 and isinstance(item[0], dict)
        raise GraphValueError(f"it gave {len(item)} columns where column_names has {width}{advice * is_dict}")
    return tuple([as_array(value) for value in item])


def _is_value(item: Any, width: int) -> bool:
    if width != 1 or isinstance(item, tuple):
        return False
    return not (len(item) == 1 and isinstance(item[0], (np.ndarray, Tensor)))


def stacked(arrays: Sequence[Any], position: int, name: str) -> Any:
    """Stack the arrays of a column, of one shape and dtype, along a new first axis; texts may differ in length.

    Dicts become one, with the stacked values of each key. Raises GraphValueError where shapes,
    dtypes or keys differ, GraphTypeError for arrays of objects.
    """
    if any(type(item) is dict for item in arrays):
        return _dict_of(arrays, position, name)
    kinds = {array.dtype for array in arrays}
    if np.dtype(object) in kinds:
        raise GraphTypeError(f"column {name!r} holds numbers, text or bytes, not objects")
    if len(kinds) > 1 and not ({kind.kind for kind in kinds} <= {"U"} or {kind.kind for kind in kinds} <= {"S"}):
        raise _mismatch("types", map(str, kinds), position, name)
    try:
        return np.array(arrays)
    except ValueError:
        error = _mismatch("shapes", (str(array.shape) for array in arrays), position, name)
        raise GraphValueError(f"{error.message}; padded_batch pads them") from None


def _dict_of(items: Sequence[Any], position: int, name: str) -> dict[Any, Array]:
    keys = {str(sorted(map(str, item))) if type(item) is dict else "none" for item in items}
    if len(keys) > 1:
        raise _mismatch("keys", keys, position, name)
    return {key: _stacked_values([item[key] for item in items], position, name) for key in items[0]}


def _stacked_values(values: list[Any], position: int, name: str) -> Array:
    """The stacked values of dicts at a key; numbers of several types become one type."""
    try:
        array = np.array(values)
    except ValueError:
        raise _mismatch("shapes", map(str, map(np.shape, map(as_array, values))), position, name) from None
    if array.dtype.kind == "O":
        raise GraphTypeError(f"Column {name!r} has objects in its dicts; stack them by a per_batch_map")
    return array


def _mismatch(what: str, values: Iterable[str], position: int, name: str) -> GraphValueError:
    listed = " and ".join(sorted(set(values)))
    return GraphValueError(f"Cannot batch tensors with different {what} in column {position} ({name!r}): {listed}")


def column_dtype(value: object) -> ArrayDType | None:
    """The NumPy dtype of a dtype of graphls or NumPy, or of a name; raises GraphTypeError for anything else."""
    if value is None:
        return None
    if value is str or value in ("string", "str"):
        return np.dtype(np.str_)
    if isinstance(value, np.dtype) and value.kind in "US":
        return value
    try:
        dtype: Any = value
        return as_dtype(dtype).numpy
    except GraphlsError as error:
        raise GraphTypeError(error.message) from None


Entry = dict[str, Any]
"""A column of a schema: its name, type and shape."""


class Schema:
    """The columns of a dataset: added one by one, or read from a JSON file with the keys `columns`, `type`, `shape`.

    Raises GraphFileError for a file that cannot be read, GraphValueError for one that is not a schema.

    Examples:
        >>> from graphls import dataset as ds
        >>> schema = ds.Schema()
        >>> schema.add_column("image", "uint8", [28, 28])
        >>> print(schema.to_json())
        {
          "columns": {
            "image": {
              "type": "uint8",
              "shape": [
                28,
                28
              ]
            }
          }
        }
    """

    def __init__(self, schema_file: str | None = None) -> None:
        self.num_rows: int | None = None
        self.dataset_type = ""
        self.columns: list[Entry] = []
        if schema_file is not None:
            self.from_json(_read(schema_file))

    def add_column(self, name: str, de_type: object, shape: list[int] | None = None) -> None:
        """Add a column; raises GraphTypeError for a name or a dtype of another kind."""
        self.columns.append({"name": checks.string("name", name), "type": column_dtype(de_type), "shape": shape})

    def parse_columns(self, columns: object) -> None:
        """Add columns from a list of dicts with `name`, `type` and `shape`, or from a dict of such dicts by name.

        Raises GraphValueError for a column without a name or a type.
        """
        if isinstance(columns, dict):
            columns = [{"name": name, **entry} for name, entry in columns.items()]
        for entry in checks.instance("columns", columns, list, [list, dict]):
            if not isinstance(entry, dict) or "name" not in entry or "type" not in entry:
                raise GraphValueError(f"A column of a schema has a name and a type, and {entry!r} has not.")
            self.add_column(entry["name"], entry["type"], entry.get("shape"))

    def from_json(self, json_obj: object) -> None:
        """Read `columns`, and `datasetType` and `numRows` where they exist.

        Raises GraphValueError where the key `columns` is missing.
        """
        if not isinstance(json_obj, dict) or "columns" not in json_obj:
            raise GraphValueError("A schema has the key 'columns'.")
        self.dataset_type = json_obj.get("datasetType", "")
        self.num_rows = json_obj.get("numRows")
        self.parse_columns(json_obj["columns"])

    def to_json(self) -> str:
        """The schema as JSON text."""
        content: dict[str, Any] = {"columns": {c["name"]: _entry(c) for c in self.columns}}
        if self.dataset_type:
            content["datasetType"] = self.dataset_type
        if self.num_rows is not None:
            content["numRows"] = self.num_rows
        return json.dumps(content, indent=2)

    def names(self) -> list[str]:
        """The names of the columns."""
        return [column["name"] for column in self.columns]

    def dtypes(self) -> tuple[ArrayDType | None, ...]:
        """The NumPy dtypes of the columns."""
        return tuple(column["type"] for column in self.columns)

    def __str__(self) -> str:
        return self.to_json()


def _entry(column: Entry) -> Entry:
    dtype = column["type"]
    entry: Entry = {"type": "string" if dtype.kind in "US" else dtype.name}
    if column["shape"] is not None:
        entry["shape"] = column["shape"]
    return entry


def as_schema(schema: object) -> Schema:
    """A schema, or that of the file with this path; raises GraphTypeError for anything else."""
    if isinstance(schema, Schema):
        return schema
    return Schema(checks.path("schema", schema))


def _read(path: str) -> Any:
    try:
        return parse_json(read_bytes(path))
    except ValueError as error:
        raise GraphValueError(f"The schema file {path!r} is not JSON: {error}.") from None
