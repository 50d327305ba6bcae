"""Files that `torch.load` reads, with tensors in dicts and lists, written without torch."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError
from graphls.interop.formats.torch import STORAGES, Array
from graphls.ir.types import type_of

NAMES = {dtype: name for name, dtype in STORAGES.items()}
CONSTANTS = {None: b"N", True: b"\x88", False: b"\x89"}


def encode(content: Any) -> bytes:
    """A file of dicts, lists, tuples, texts, numbers, None and arrays, which become tensors.

    Raises GraphTypeError for anything else, and for arrays of a dtype that torch has no storage for.
    """
    pickled = _Pickle()
    body = b"\x80\x02" + pickled.of(content) + b"."
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        parts = {"data.pkl": body, "byteorder": b"little", **pickled.storages, "version": b"3\n"}
        for name, part in parts.items():
            archive.writestr(zipfile.ZipInfo(f"archive/{name}"), part)
    return file.getvalue()


class _Pickle:
    """Instructions of pickle's protocol 2, and the numbers of the tensors that they speak of."""

    def __init__(self) -> None:
        self.storages: dict[str, bytes] = {}

    def of(self, value: Any) -> bytes:
        """The instructions that make a value."""
        if value is None or isinstance(value, bool):
            return CONSTANTS[value]
        if isinstance(value, str):
            text = value.encode("utf-8", "surrogatepass")
            return b"X" + struct.pack("<I", len(text)) + text
        if isinstance(value, int):
            number = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            return b"\x8a" + bytes([len(number)]) + number
        if isinstance(value, float):
            return b"G" + struct.pack(">d", value)
        if isinstance(value, np.ndarray):
            return self._tensor(value)
        return self._container(value)

    def _container(self, value: Any) -> bytes:
        if isinstance(value, Mapping):
            return b"}(" + self._all(item for pair in value.items() for item in pair) + b"u"
        if isinstance(value, list):
            return b"](" + self._all(value) + b"e"
        if isinstance(value, tuple):
            return b"(" + self._all(value) + b"t"
        raise GraphTypeError(f"A file of torch.save is written of tensors, dicts, lists and numbers, not of {value!r}.")

    def _all(self, values: Iterable[Any]) -> bytes:
        return b"".join(map(self.of, values))

    def _tensor(self, array: Array) -> bytes:
        """A call of the function by which torch makes a tensor of a storage of its own."""
        dtype = type_of(array).dtype
        if dtype not in NAMES:
            raise GraphTypeError(f"A file of torch.save has no tensors of {dtype!r}.")
        key = str(len(self.storages))
        self.storages[f"data/{key}"] = np.ascontiguousarray(array).tobytes()
        kind = f"ctorch\n{NAMES[dtype]}\n".encode()
        storage = b"(" + self.of("storage") + kind + self._all((key, "cpu", array.size)) + b"tQ"
        strides = tuple(int(np.prod(array.shape[i + 1 :])) for i in range(array.ndim))
        rest = self._all((0, array.shape, strides, False)) + b"ccollections\nOrderedDict\n)R"
        return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + rest + b"tR"
