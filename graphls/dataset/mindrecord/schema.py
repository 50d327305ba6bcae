"""Checks of the arguments of `FileWriter`, with MindSpore's errors: the schema, rows that fit it, names and sizes.

The errors are those of `mindspore.mindrecord`: each begins with its name and has MindSpore's text.
"""

from __future__ import annotations

import math
import os
import re
from typing import Any, ClassVar

import numpy as np

from graphls.base.errors import GraphlsError, GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.base.log import warning
from graphls.dataset.columns import Array

__all__ = [
    "MRMAddSchemaError", "MRMBuildSchemaError", "MRMDefineCategoryError", "MRMDefineIndexError", "MRMGetMetaError",
    "MRMInvalidSchemaError", "MindRecordException", "ParamTypeError", "ParamValueError", "PathNotExistsError",
]  # fmt: skip


class MindRecordException(GraphlsError):
    """An error in a request to write or read MindRecord files."""

    beginning: ClassVar[str] = ""

    def __init__(self, detail: str = "") -> None:
        text = f"[{type(self).__name__}]: {self.beginning} {detail}".rstrip()
        super().__init__(text)


class ParamTypeError(MindRecordException, GraphTypeError):
    """An argument of the wrong kind."""

    def __init__(self, param_name: str, expected_type: str) -> None:
        super().__init__(f"Invalid parameter type. '{param_name}' expect {expected_type} type.")


class ParamValueError(MindRecordException, GraphValueError):
    """An argument with a value that does not fit."""

    beginning = "Invalid parameter value."


class PathNotExistsError(MindRecordException, GraphValueError):
    """A path that does not exist."""

    beginning = "Invalid path."


class MRMInvalidSchemaError(MindRecordException, GraphValueError):
    """An invalid schema."""

    beginning = "Schema format is error. Detail:"


class MRMBuildSchemaError(MindRecordException, GraphValueError):
    """A schema with invalid shapes."""

    beginning = "Failed to build schema."


class MRMAddSchemaError(MindRecordException, GraphRuntimeError):
    """A second schema."""

    beginning = "Failed to add schema."


class MRMGetMetaError(MindRecordException, GraphRuntimeError):
    """A missing schema."""

    beginning = "Failed to get meta info."


class MRMDefineIndexError(MindRecordException, GraphValueError):
    """An index of a column that cannot have one."""

    beginning = "Failed to define index field. Detail:"


class MRMDefineCategoryError(MindRecordException, GraphValueError):
    """A column that rows cannot be grouped by."""

    beginning = "Failed to define category field. Detail:"


Field = dict[str, Any]
"""The type of a column, and its shape."""
Schema = dict[str, Field]
Row = dict[str, Any]

ARRAYS = ("int32", "int64", "float32", "float64")
_KINDS = (*ARRAYS, "string", "bytes")
_FITTING = {
    "int": ("int32", "int64"), "float": ("float32", "float64"), "str": ("string",), "bytes": ("bytes",),
    "ndarray": ARRAYS, **{name: (name,) for name in ARRAYS},
}  # fmt: skip


def checked_schema(content: object) -> Schema:
    """The columns by name, in their order; raises MRMInvalidSchemaError or MRMBuildSchemaError."""
    if not content:
        raise MRMInvalidSchemaError("Schema content is empty.")
    if not isinstance(content, dict):
        raise MRMInvalidSchemaError("Schema content should be dict.")
    for name, field in content.items():
        if not re.fullmatch(r"[0-9a-zA-Z_]+", str(name)):
            raise MRMInvalidSchemaError(f"Field '{name}' should be composed of '0-9' or 'a-z' or 'A-Z' or '_'.")
        _check_field(name, field)
    return {str(name): dict(sorted(content[name].items())) for name in sorted(content)}


def _check_field(name: str, field: object) -> None:
    if not field or not isinstance(field, dict):
        raise MRMInvalidSchemaError(f"Field '{name}' should be dict.")
    if not {"type"} <= field.keys() <= {"type", "shape"}:
        raise MRMInvalidSchemaError(f"Field '{field}' contains illegal attributes.")
    if field["type"] not in (ARRAYS if "shape" in field else _KINDS):
        raise MRMInvalidSchemaError(f"Field '{name}' contain illegal attribute '{field['type']}'.")
    shape = field.get("shape", [])
    if not isinstance(shape, list):
        raise MRMInvalidSchemaError(f"Field '{name}' contain illegal attribute '{shape}'.")
    if any(type(size) is not int or size < -1 or size == 0 for size in shape) or shape.count(-1) > 1:
        raise MRMBuildSchemaError(f"The shape {shape} of '{name}' has sizes of 1 or more, and at most one -1.")


def blob_fields(schema: Schema) -> list[str]:
    """The columns of bytes and arrays."""
    return [name for name, field in schema.items() if field["type"] == "bytes" or "shape" in field]


def fault(schema: Schema, row: Row) -> str | None:
    """The message for a row that does not fit the schema; None for one that does."""
    for name, field in schema.items():
        if name not in row:
            return f"there is not field: '{name}' in the raw data."
        message = _fault_of_value(field, row[name])
        if message:
            return f"{message} for field: '{name}' is not {'specified' if message == 'data shape' else 'matched'}."
    return None


def _fault_of_value(field: Field, value: Any) -> str | None:
    kind = type(value).__name__
    if kind not in _FITTING:
        return f"data type: '{kind}'"
    if field["type"] not in _FITTING[kind] or (kind != "ndarray" and "shape" in field):
        return f"data type: '{field['type']}'"
    if kind == "ndarray":
        return _fault_of_array(field, value)
    if kind == "str":
        return None if value.isascii() or _is_utf8(value) else "data value that is not UTF-8"
    return _fault_of_number(field["type"], value) if field["type"] in ARRAYS else None


def _is_utf8(text: str) -> bool:
    return text.encode("utf-8", "ignore").decode("utf-8") == text


def _fault_of_array(field: Field, value: Array) -> str | None:
    if "shape" not in field:
        return "data shape"
    if field["type"] != str(value.dtype):
        return f"data type: '{value.dtype}'"
    try:
        value.reshape(field["shape"])
    except ValueError:
        return f"data shape: '{value.shape}'"
    return None


def _fault_of_number(kind: str, value: float) -> str | None:
    """The message for numbers that MindSpore writes wrongly, or that end its process: out of range or not finite."""
    if kind.startswith("int"):
        limits = np.iinfo(kind)
        return None if limits.min <= value <= limits.max else f"data value: {value}"
    return None if math.isfinite(value) else f"data value: {value}"


def raw_entries(schema: Schema, row: Row) -> Row:
    """The numbers and texts of a row as Python values; a placeholder where there are none."""
    values = {name: row[name] for name in sorted(schema.keys() - set(blob_fields(schema)))}
    return {name: v.item() if isinstance(v, np.generic) else v for name, v in values.items()} or {"id": 0}


_SHARDS = 1000
_FORBIDDEN = set("\\/:*?\"<>|`&';")
HEADER_SIZES = (1 << 14, 1 << 27)
PAGE_SIZES = (1 << 15, 1 << 28)


def check_filename(path: object) -> None:
    """Raise ParamValueError for anything but the name of a MindRecord file."""
    if not path:
        raise ParamValueError("File path is not allowed None or empty!")
    if not isinstance(path, str):
        raise ParamValueError(f"File path: {path} is not string.")
    if path.endswith("/"):
        raise ParamValueError("File path can not end with '/'")
    name = os.path.basename(path)
    if set(name) & _FORBIDDEN:
        raise ParamValueError(r"File name should not contains \/:*?\"<>|`&;\'")
    if name != name.strip(" "):
        raise ParamValueError("File name should not start/end with space.")


def check_count(shard_num: object) -> None:
    """Raise ParamValueError for anything but a number of files."""
    if shard_num is None:
        raise ParamValueError("Parameter shard_num is None.")
    if not isinstance(shard_num, int):
        raise ParamValueError("Parameter shard_num's type is not int.")
    if not 1 <= shard_num <= _SHARDS:
        raise ParamValueError(f"Parameter shard_num's value: {shard_num} should between 1 and {_SHARDS}.")


def check_index(field: object, schema: Schema, chosen: list[str]) -> None:
    """Raise what `FileWriter.add_index` does for a column that cannot be indexed."""
    if not isinstance(field, str):
        raise ParamTypeError("index field", "str")
    if field in blob_fields(schema):
        raise MRMDefineIndexError(f"Failed to set field {field} since it's not primitive type.")
    if field not in schema:
        text = f"Invalid input, 'index_fields': {field} can not found in schema: {schema}. Please use 'add_index' "
        raise GraphRuntimeError(f"{text}function to add proper 'index_fields'.")
    if field in chosen:
        text = f"The 'index_fields': {field} is added repeatedly. Please remove the redundant 'add_index' function."
        raise GraphRuntimeError(text)


def check_size(what: str, size: object, limits: tuple[int, int]) -> None:
    """Raise GraphRuntimeError for a size that is outside of its limits, or not divisible by four."""
    low, high = limits
    if type(size) is not int or not low <= size <= high:
        raise GraphRuntimeError(f"Invalid data, {what} size: {size} should be in range [{low} bytes, {high} bytes].")
    if size % 4:
        raise GraphRuntimeError(f"Invalid data, {what} size {size} should be divided by four.")


def check_path(path: str, overwrite: bool) -> None:
    """Raise GraphRuntimeError where a file cannot be written, or exists and must not be replaced."""
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        text = f"Invalid dir, failed to get the realpath of mindrecord file dir. Please check path: {folder}"
        raise GraphRuntimeError(text)
    if not overwrite and (os.path.exists(path) or os.path.exists(f"{path}.db")):
        text = f"Invalid file, mindrecord files already exist. Please check file path: {os.path.realpath(path)}."
        text += " If you do not want to keep the files, set the 'overwrite' parameter to True and try again."
        raise GraphRuntimeError(text)


def remove_misfits(raw_data: object, schema: Schema) -> None:
    """Remove rows that do not fit from a list, with a warning; raises GraphRuntimeError where none is left."""
    if not isinstance(raw_data, list):
        raise ParamTypeError("raw_data", "list")
    if not all(isinstance(row, dict) for row in raw_data):
        raise ParamTypeError("raw_data item", "dict")
    faults = {index: fault(schema, row) for index, row in enumerate(raw_data)}
    for index, text in reversed(faults.items()):
        if text:
            warning("for schema, %s th data is wrong, %s", index, text)
            del raw_data[index]
    if not raw_data:
        text = "There is no valid data which can be written by 'write_raw_data' to mindrecord file. Please check "
        text += "the abnormal input data indicated in the warning log above."
        raise GraphRuntimeError(text)
