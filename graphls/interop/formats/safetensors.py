"""Reads and writes safetensors files, with strings in the metadata of the file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.base.reporting import load_package
from graphls.interop.formats.checkpoint import Entry, array_of_bytes
from graphls.ir.types import (
    DTYPES,
    DType,
    as_dtype,
    float4_e2m1fn,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    token,
)

LOW_TYPES: dict[str, DType] = {
    "F8_E4M3": float8_e4m3fn,
    "F8_E4M3FNUZ": float8_e4m3fnuz,
    "F8_E5M2": float8_e5m2,
    "F8_E5M2FNUZ": float8_e5m2fnuz,
    "F8_E8M0": float8_e8m0fnu,
    "F4": float4_e2m1fn,
}
TYPES: dict[str, DType] = LOW_TYPES | {
    dtype.name.upper(): dtype for dtype in DTYPES if dtype is not token and not dtype.is_low
}
INSTALL = 'pip install "graphls[train]"'
METADATA, OURS = "__metadata__", "graphls:"


def encode(entries: Mapping[str, Entry], notes: Mapping[str, str] | None = None) -> bytes:
    """The content of a file, with `notes` as further metadata.

    Raises GraphValueError for a tensor with a reserved name, GraphRuntimeError if safetensors is not installed.
    """
    arrays = {name: _dense(entry) for name, entry in entries.items() if not isinstance(entry, str)}
    texts = {OURS + name: entry for name, entry in entries.items() if isinstance(entry, str)} | dict(notes or {})
    if METADATA in arrays:
        raise GraphValueError(f"A file of safetensors cannot hold a tensor called {METADATA!r}.")
    halves = {name: array for name, array in arrays.items() if as_dtype(array.dtype) is float4_e2m1fn}
    data = bytes(_package().numpy.save(arrays | {n: _packed(n, a) for n, a in halves.items()}, metadata=texts or None))
    return _with_types(data, {name: {"dtype": "F4", "shape": list(a.shape)} for name, a in halves.items()})


def decode(data: bytes) -> dict[str, Entry]:
    """The values of a file by name, strings last.

    Raises GraphValueError for a damaged file, GraphRuntimeError if safetensors is not installed.
    """
    package = _package()
    try:
        tensors = package.deserialize(data)
    except package.SafetensorError as error:
        raise GraphValueError(f"it is not a file of safetensors ({error})") from None
    header = _header(data)
    arrays: dict[str, Entry] = {name: _array(name, tensor) for name, tensor in tensors}
    return dict(sorted(arrays.items())) | strings_of(header)


def metadata(data: bytes) -> dict[str, str]:
    """All strings in the metadata of a file that `decode` reads."""
    return dict(_header(data).get(METADATA) or {})


def _packed(name: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bytes of a float4 array, two elements in each, the first one in the lower half."""
    if array.size % 2:
        raise GraphValueError(f"A file of safetensors holds float4 in pairs, unlike {name!r} of {array.size} elements.")
    codes = array.view(np.uint8).reshape(-1) & 15
    return np.asarray(codes[0::2] | codes[1::2] << 4)


def _with_types(data: bytes, entries: Mapping[str, Mapping[str, object]]) -> bytes:
    """A file with other types and shapes of some tensors in its header."""
    if not entries:
        return data
    header = _header(data)
    for name, entry in entries.items():
        header[name].update(entry)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + int.from_bytes(data[:8], "little") :]


def size_of(dtype: DType, shape: Sequence[int]) -> float:
    """The bytes of a tensor in a file."""
    return prod(shape) * (0.5 if dtype is float4_e2m1fn else dtype.numpy.itemsize)


def array_in(name: str, shape: Sequence[int], dtype: DType, content: Any) -> np.ndarray[Any, Any]:
    """The array in some bytes of a file; raises GraphValueError for impossible shapes and invalid booleans."""
    if dtype is float4_e2m1fn:
        pairs = np.frombuffer(content, np.uint8)
        content = np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(-1).data
    return array_of_bytes(name, shape, dtype, content)


def _dense(entry: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(entry).reshape(entry.shape)


def _array(name: str, tensor: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    dtype = TYPES.get(tensor["dtype"])
    if dtype is None:
        raise GraphValueError(f"{name!r} is of the type {tensor['dtype']!r}, which graphls does not support")
    return array_in(name, tensor["shape"], dtype, tensor["data"])


def _header(data: bytes) -> dict[str, Any]:
    """The header of a file that safetensors has read; raises GraphValueError for duplicate names, which it accepts."""
    end = 8 + int.from_bytes(data[:8], "little")
    header: dict[str, Any] = json.loads(data[8:end], object_pairs_hook=_distinct)
    return header


def _distinct(pairs: Sequence[tuple[str, object]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise GraphValueError(f"the name {name!r} appears in it twice")
        values[name] = value
    return values


def strings_of(header: dict[str, Any]) -> dict[str, str]:
    """The strings in the metadata of a file."""
    texts = header.get(METADATA) or {}
    return {key.removeprefix(OURS): text for key, text in texts.items() if key.startswith(OURS)}


def _package() -> Any:
    subject = "The format safetensors needs a package of that name, which"
    load_package("safetensors.numpy", subject, INSTALL)
    return load_package("safetensors", subject, INSTALL)
