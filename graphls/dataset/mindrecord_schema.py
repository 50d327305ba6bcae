"""The schema of MindRecord files that are written, and whether rows fit it, in MindSpore's words."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from graphls.dataset.mindrecord_errors import MRMBuildSchemaError, MRMInvalidSchemaError

Schema = dict[str, dict[str, Any]]
Row = dict[str, Any]

ARRAYS = ("int32", "int64", "float32", "float64")
_KINDS = (*ARRAYS, "string", "bytes")
_FITTING = {
    "int": ("int32", "int64"), "float": ("float32", "float64"), "str": ("string",), "bytes": ("bytes",),
    "ndarray": ARRAYS, **{name: (name,) for name in ARRAYS},
}  # fmt: skip


def checked_schema(content: Any) -> Schema:
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


def _check_field(name: str, field: Any) -> None:
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
    """What does not fit the schema in a row, or None."""
    for name, field in schema.items():
        if name not in row:
            return f"there is not field: '{name}' in the raw data."
        found = _fault_of_value(field, row[name])
        if found:
            return f"{found} for field: '{name}' is not {'specified' if found == 'data shape' else 'matched'}."
    return None


def _fault_of_value(field: dict[str, Any], value: Any) -> str | None:
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


def _fault_of_array(field: dict[str, Any], value: np.ndarray[Any, Any]) -> str | None:
    if "shape" not in field:
        return "data shape"
    if field["type"] != str(value.dtype):
        return f"data type: '{value.dtype}'"
    try:
        value.reshape(field["shape"])
    except ValueError:
        return f"data shape: '{value.shape}'"
    return None


def _fault_of_number(kind: str, value: Any) -> str | None:
    """Numbers that MindSpore writes wrongly, or that end its process: out of range, infinite or nan."""
    if kind.startswith("int"):
        limits = np.iinfo(kind)
        return None if limits.min <= value <= limits.max else f"data value: {value}"
    return None if math.isfinite(value) else f"data value: {value}"


def raw_entries(schema: Schema, row: Row) -> Row:
    """The numbers and texts of a row as Python has them; what stands for them where there are none."""
    values = {name: row[name] for name in sorted(schema.keys() - set(blob_fields(schema)))}
    return {name: v.item() if isinstance(v, np.generic) else v for name, v in values.items()} or {"id": 0}
