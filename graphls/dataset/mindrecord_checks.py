"""What `FileWriter` is asked for, checked as MindSpore checks it, in its words."""

from __future__ import annotations

import os
from typing import Any

from graphls.dataset.mindrecord_errors import MRMDefineIndexError, ParamTypeError, ParamValueError
from graphls.dataset.mindrecord_schema import Schema, blob_fields, fault
from graphls.ir.errors import GraphRuntimeError
from graphls.log import warning

_SHARDS = 1000
_FORBIDDEN = set("\\/:*?\"<>|`&';")
HEADER_SIZES = (1 << 14, 1 << 27)
PAGE_SIZES = (1 << 15, 1 << 28)


def check_filename(path: Any) -> None:
    """Raise ParamValueError for what cannot be the name of a MindRecord file."""
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


def check_count(shard_num: Any) -> None:
    """Raise ParamValueError for what is no number of files."""
    if shard_num is None:
        raise ParamValueError("Parameter shard_num is None.")
    if not isinstance(shard_num, int):
        raise ParamValueError("Parameter shard_num's type is not int.")
    if not 1 <= shard_num <= _SHARDS:
        raise ParamValueError(f"Parameter shard_num's value: {shard_num} should between 1 and {_SHARDS}.")


def check_index(field: Any, schema: Schema, chosen: list[str]) -> None:
    """Raise what `FileWriter.add_index` does for a column that rows cannot be found by."""
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


def check_size(what: str, size: Any, limits: tuple[int, int]) -> None:
    """Raise GraphRuntimeError for a size that is beyond its limits, or cannot be divided by four."""
    low, high = limits
    if type(size) is not int or not low <= size <= high:
        text = f"Invalid data, {what} size: {size} should be in range [{low} bytes, {high} bytes]."
        raise GraphRuntimeError(text)
    if size % 4:
        raise GraphRuntimeError(f"Invalid data, {what} size {size} should be divided by four.")


def check_path(path: str, overwrite: bool) -> None:
    """Raise GraphRuntimeError where a file cannot be written, or is there already and must not be replaced."""
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        text = f"Invalid dir, failed to get the realpath of mindrecord file dir. Please check path: {folder}"
        raise GraphRuntimeError(text)
    if not overwrite and (os.path.exists(path) or os.path.exists(f"{path}.db")):
        text = f"Invalid file, mindrecord files already exist. Please check file path: {os.path.realpath(path)}."
        text += " If you do not want to keep the files, set the 'overwrite' parameter to True and try again."
        raise GraphRuntimeError(text)


def keep_fitting(raw_data: Any, schema: Schema) -> None:
    """Take rows that do not fit out of a list, with a warning; raises GraphRuntimeError where none is left."""
    if not isinstance(raw_data, list):
        raise ParamTypeError("raw_data", "list")
    if not all(isinstance(row, dict) for row in raw_data):
        raise ParamTypeError("raw_data item", "dict")
    faults = {number: fault(schema, row) for number, row in enumerate(raw_data)}
    for number, text in reversed(faults.items()):
        if text:
            warning("for schema, %s th data is wrong, %s", number, text)
            del raw_data[number]
    if not raw_data:
        text = "There is no valid data which can be written by 'write_raw_data' to mindrecord file. Please check "
        text += "the abnormal input data indicated in the warning log above."
        raise GraphRuntimeError(text)
