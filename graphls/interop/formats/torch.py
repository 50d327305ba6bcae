"""Reads and writes the files of `torch.save` without torch; the unpickler creates tensors, dicts and lists only."""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from graphls.base.errors import GraphlsError, GraphTypeError, GraphValueError
from graphls.interop.formats.checkpoint import array_of_bytes
from graphls.ir.types import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    type_of,
    uint8,
)

Array = np.ndarray[Any, Any]
Result = TypeVar("Result")

STORAGES: dict[str, DType] = {
    "FloatStorage": float32, "DoubleStorage": float64, "HalfStorage": float16, "BFloat16Storage": bfloat16,
    "LongStorage": int64, "IntStorage": int32, "ShortStorage": int16, "CharStorage": int8, "ByteStorage": uint8,
    "BoolStorage": bool_,
}  # fmt: skip
_PLAIN = (
    "PROTO STOP MARK EMPTY_DICT EMPTY_LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 SETITEM SETITEMS APPEND APPENDS "
    "BINUNICODE BININT BININT1 BININT2 LONG1 BINFLOAT NEWTRUE NEWFALSE NONE GLOBAL REDUCE BUILD BINPERSID "
    "BINPUT LONG_BINPUT BINGET LONG_BINGET"
)
INSTRUCTIONS = frozenset(_PLAIN.split())
"""The pickle instructions that torch.save writes."""
INSIDE = ("state_dict", "model_state_dict", "model", "module")
"""Keys of the network's tensors in a file that holds more, such as the state of an optimizer."""
MOST = 400_000
"""The largest number of objects in a file, each counted at every reference: nested references let a few bytes expand
exponentially."""
ADVICE = "save the tensors with safetensors in PyTorch: safetensors.torch.save_model(model, 'model.safetensors')"


def decode(data: bytes) -> dict[str, Array]:
    """The tensors of a file by name.

    A pickle can run any code, so only tensors, dicts, lists, texts and numbers are created from it. Raises
    GraphValueError for a file that is no such archive, that is damaged, or that holds other objects.
    """
    return _decoded(data, _tensors)


def decode_all(data: bytes) -> Any:
    """The whole content of a file, with arrays for tensors; raises as `decode`."""
    return _decoded(data, lambda content: _arrays(content, iter(range(MOST))))


def _decoded(data: bytes, convert: Callable[[Any], Result]) -> Result:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return convert(_Reader(archive).load())
    except GraphlsError:
        raise
    except zipfile.BadZipFile:
        raise GraphValueError(f"it is not a zip archive of torch.save; {ADVICE}") from None
    except MemoryError:
        raise
    except Exception as error:  # a damaged pickle can raise anything in the reader
        raise GraphValueError(f"it is damaged ({type(error).__name__}: {error}); {ADVICE}") from None


def _content(archive: zipfile.ZipFile, name: str) -> bytes:
    """A file in an archive; raises GraphValueError for a compressed one, which may expand to any size."""
    if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
        raise GraphValueError(f"{name} in it is compressed, which torch.save does not do; {ADVICE}")
    return archive.read(name)


def _checked(pickled: bytes) -> bytes:
    """A pickle of plain instructions; raises GraphValueError for others, and for memo indices that take much memory."""
    for instruction, argument, _ in pickletools.genops(pickled):
        is_far = instruction.name.endswith("PUT") and not 0 <= int(argument or 0) <= len(pickled)
        if instruction.name not in INSTRUCTIONS or is_far:
            raise GraphValueError(f"its pickle has {instruction.name}, and only tensors are read from one; {ADVICE}")
    return pickled


class _Storage(NamedTuple):
    """The numbers of a tensor or a storage; a NamedTuple, as `_Global` is, has no state that a pickle could set."""

    array: Array


class _Global(NamedTuple):
    """A global name in a pickle: the dtype of a storage, or a function that creates a tensor."""

    dtype: DType | None
    make: Callable[..., _Storage] | None

    def __call__(self, *arguments: Any) -> _Storage:
        assert self.make is not None
        return self.make(*arguments)


class _Reader(pickle._Unpickler):
    """An unpickler restricted to tensors, derived from the implementation in Python, whose handlers can check keys."""

    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)
    stack: list[Any]
    pop_mark: Callable[[], list[Any]]

    def __init__(self, archive: zipfile.ZipFile) -> None:
        pickles = [name for name in archive.namelist() if Path(name).name == "data.pkl"]
        if len(pickles) != 1:
            raise GraphValueError(f"it has no data.pkl, which archives of torch.save have; {ADVICE}")
        super().__init__(io.BytesIO(_checked(_content(archive, pickles[0]))))
        self.archive, self.folder = archive, pickles[0].removesuffix("data.pkl")
        if (
            f"{self.folder}byteorder" in archive.namelist()
            and _content(archive, f"{self.folder}byteorder") != b"little"
        ):
            raise GraphValueError(f"its numbers are not little-endian; {ADVICE}")
        self.storages: dict[str, _Storage] = {}

    def find_class(self, module: str, name: str) -> Any:
        """The value of a global name in a pickle; raises GraphValueError for all but a few."""
        if module == "collections" and name in ("Counter", "OrderedDict"):  # milestones of a schedule are a Counter
            return _mapping
        if module == "torch" and name in STORAGES:
            return _Global(STORAGES[name], None)
        if module == "torch._utils" and name in MAKING:
            return _Global(None, MAKING[name])
        raise GraphValueError(f"it holds {module}.{name}, and only tensors are read from a pickle; {ADVICE}")

    def persistent_load(self, pid: Any) -> _Storage:
        """The numbers of a storage, as an array of one axis."""
        _, known, key, _, count = pid
        if type(key) is not str or type(count) is not int:
            raise GraphValueError("a storage in it has no name or no size")
        if key not in self.storages:
            content = memoryview(_content(self.archive, f"{self.folder}data/{key}"))
            self.storages[key] = _Storage(array_of_bytes(key, (count,), known.dtype, content))
        return self.storages[key]

    def _set_items(self) -> None:
        items = self.pop_mark()
        _check_keys(items[::2])
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))

    def _set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        _check_keys([key])
        self.stack[-1][key] = value

    dispatch[pickle.SETITEM[0]] = _set_item
    dispatch[pickle.SETITEMS[0]] = _set_items


def _check_keys(keys: Sequence[object]) -> None:
    """Raise GraphValueError for keys that are not texts or numbers: hashing others may take forever."""
    if strange := [type(key).__name__ for key in keys if not isinstance(key, (str, int, float, type(None)))]:
        raise GraphValueError(f"a key in it is a {strange[0]}")


def _mapping(content: object = None) -> OrderedDict[Any, Any]:
    """The OrderedDict for an OrderedDict or a Counter in a pickle, empty or from a dict."""
    if not isinstance(content, (dict, type(None))):
        raise GraphValueError(f"an OrderedDict in it is built from a {type(content).__name__}")
    return OrderedDict(content or ())


def _tensor(storage: _Storage, offset: int, shape: Sequence[int], strides: Sequence[int], *_: object) -> _Storage:
    """A tensor in a storage; raises GraphValueError if it is not within its bounds."""
    numbers, shape, strides = storage.array, tuple(shape), tuple(strides)
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    is_within = 0 in shape or (last < numbers.size and math.prod(shape) <= numbers.size)
    if min((offset, *shape, *strides)) < 0 or not is_within:
        raise GraphValueError("a tensor in it does not lie within its storage")
    apart = [stride * numbers.itemsize for stride in strides]
    return _Storage(np.lib.stride_tricks.as_strided(numbers[offset:], shape, apart, writeable=False))


def _parameter(tensor: _Storage, *_: object) -> _Storage:
    return tensor


MAKING: dict[str, Callable[..., _Storage]] = {"_rebuild_tensor_v2": _tensor, "_rebuild_parameter": _parameter}


def _tensors(content: Any) -> dict[str, Array]:
    """The tensors by name in the content of a pickle, or in its value under one of the usual keys."""
    if not isinstance(content, Mapping):
        raise GraphValueError(f"it holds no tensors by name but a {type(content).__name__}; {ADVICE}")
    weights = network_in(content)
    if all(isinstance(value, _Storage) for value in weights.values()):
        return {str(name): value.array for name, value in weights.items()}
    names = ", ".join(map(repr, [*weights][:8]))
    raise GraphValueError(f"it holds {names}, and no tensors as one of {', '.join(INSIDE)}; {ADVICE}")


def _arrays(content: Any, numbers: Iterator[int]) -> Any:
    """The content of a pickle, with arrays for tensors; each object takes one of the numbers, which limit them."""
    if next(numbers, None) is None:
        raise GraphValueError(f"it holds more than {MOST:,} objects")
    if isinstance(content, _Storage):
        return content.array
    if isinstance(content, Mapping):
        return {name: _arrays(value, numbers) for name, value in content.items()}
    if isinstance(content, (list, tuple)):
        return type(content)([_arrays(value, numbers) for value in content])
    return content


def network_in(content: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """The weights of the network in a saved training: the content itself, or its value under one of the usual keys."""
    inner = next((content[name] for name in INSIDE if isinstance(content.get(name), Mapping)), None)
    return content if inner is None else network_in(inner)


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
    """Instructions of pickle's protocol 2, and the storages of the tensors in them."""

    def __init__(self) -> None:
        self.storages: dict[str, bytes] = {}

    def of(self, value: Any) -> bytes:
        """The instructions that create a value."""
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
        raise GraphTypeError(f"A file of torch.save holds tensors, dicts, lists and numbers, not {value!r}.")

    def _all(self, values: Iterable[Any]) -> bytes:
        return b"".join(map(self.of, values))

    def _tensor(self, array: Array) -> bytes:
        """A call of the function by which torch creates a tensor, with its own storage."""
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
