"""Tensors in the files of `torch.save`, whose pickle is read by a reader that makes nothing but tensors."""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from graphls.base.errors import GraphlsError, GraphValueError
from graphls.interop.formats.checkpoint import array_of_bytes
from graphls.ir.types import DType, bfloat16, bool_, float16, float32, float64, int8, int16, int32, int64, uint8

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
"""What pickles of torch.save are made of."""
INSIDE = ("state_dict", "model_state_dict", "model", "module")
"""What the tensors of the network are called in a file that holds more, such as the state of an optimizer."""
MOST = 400_000
"""Objects that a file holds at most, each counted wherever it stands: a few bytes can put one in two places, these in
two others, and so on."""
ADVICE = "save the tensors with safetensors in PyTorch: safetensors.torch.save_model(model, 'model.safetensors')"


def decode(data: bytes) -> dict[str, Array]:
    """The tensors of a file by name.

    A pickle can run any code, so only tensors, dicts, lists, texts and numbers are made of this one. Raises
    GraphValueError for a file that is no such archive, that is damaged, or that holds anything else.
    """
    return _decoded(data, _tensors)


def decode_all(data: bytes) -> Any:
    """All that a file holds, with arrays for tensors; of anything else, and raising, as `decode`."""
    return _decoded(data, lambda found: _arrays(found, iter(range(MOST))))


def _decoded(data: bytes, made: Callable[[Any], Result]) -> Result:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return made(_Reader(archive).load())
    except GraphlsError:
        raise
    except zipfile.BadZipFile:
        raise GraphValueError(f"it is no zip archive of torch.save; {ADVICE}") from None
    except MemoryError:
        raise
    except Exception as error:  # whatever a damaged pickle makes of the reader
        raise GraphValueError(f"it is damaged ({type(error).__name__}: {error}); {ADVICE}") from None


def _content(archive: zipfile.ZipFile, name: str) -> bytes:
    """A file in an archive; raises GraphValueError for a compressed one, which may be of any size."""
    if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
        raise GraphValueError(f"{name} in it is compressed, which torch.save does not do; {ADVICE}")
    return archive.read(name)


def _checked(pickled: bytes) -> bytes:
    """A pickle of plain instructions; raises GraphValueError for others, and for places that take much memory."""
    for instruction, argument, _ in pickletools.genops(pickled):
        is_far = instruction.name.endswith("PUT") and not 0 <= int(argument or 0) <= len(pickled)
        if instruction.name not in INSTRUCTIONS or is_far:
            raise GraphValueError(f"its pickle has {instruction.name}, and only tensors are read from one; {ADVICE}")
    return pickled


class _Held(NamedTuple):
    """Numbers in a pickle. Its kind, as that of `_Known`, has no state that a pickle could set."""

    array: Array


class _Known(NamedTuple):
    """A name in a pickle: the dtype of a storage, or a function that makes a tensor."""

    dtype: DType | None
    make: Callable[..., _Held] | None

    def __call__(self, *arguments: Any) -> _Held:
        assert self.make is not None
        return self.make(*arguments)


class _Reader(pickle._Unpickler):
    """A reader of pickles that knows nothing but what tensors are made of; it is the one in Python, to see all keys."""

    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)
    stack: list[Any]
    pop_mark: Callable[[], list[Any]]

    def __init__(self, archive: zipfile.ZipFile) -> None:
        pickles = [name for name in archive.namelist() if Path(name).name == "data.pkl"]
        if len(pickles) != 1:
            raise GraphValueError(f"it has no data.pkl as archives of torch.save have; {ADVICE}")
        super().__init__(io.BytesIO(_checked(_content(archive, pickles[0]))))
        self.archive, self.folder = archive, pickles[0].removesuffix("data.pkl")
        if (
            f"{self.folder}byteorder" in archive.namelist()
            and _content(archive, f"{self.folder}byteorder") != b"little"
        ):
            raise GraphValueError(f"its numbers are not little-endian; {ADVICE}")
        self.storages: dict[str, _Held] = {}

    def find_class(self, module: str, name: str) -> Any:
        """What a name in a pickle stands for; raises GraphValueError for all but a few."""
        if module == "collections" and name in ("Counter", "OrderedDict"):  # milestones of a schedule are a Counter
            return _mapping
        if module == "torch" and name in STORAGES:
            return _Known(STORAGES[name], None)
        if module == "torch._utils" and name in MAKING:
            return _Known(None, MAKING[name])
        raise GraphValueError(f"it holds {module}.{name}, and only tensors are read from a pickle; {ADVICE}")

    def persistent_load(self, pid: Any) -> _Held:
        """The numbers of a storage, which is an array of one axis."""
        _, known, key, _, count = pid
        if type(key) is not str or type(count) is not int:
            raise GraphValueError("a storage in it has no name or no size")
        if key not in self.storages:
            content = memoryview(_content(self.archive, f"{self.folder}data/{key}"))
            self.storages[key] = _Held(array_of_bytes(key, (count,), known.dtype, content))
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
    """Raise GraphValueError for keys that are no texts or numbers: others may take all time to be hashed."""
    if strange := [type(key).__name__ for key in keys if not isinstance(key, (str, int, float, type(None)))]:
        raise GraphValueError(f"a key in it is a {strange[0]}")


def _mapping(content: object = None) -> OrderedDict[Any, Any]:
    """What an OrderedDict or a Counter becomes, empty or of a dict."""
    if not isinstance(content, (dict, type(None))):
        raise GraphValueError(f"an OrderedDict in it is made of a {type(content).__name__}")
    return OrderedDict(content or ())


def _tensor(storage: _Held, offset: int, shape: Sequence[int], strides: Sequence[int], *_: object) -> _Held:
    """A tensor in a storage; raises GraphValueError where it does not lie within."""
    numbers, shape, strides = storage.array, tuple(shape), tuple(strides)
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    is_within = 0 in shape or (last < numbers.size and math.prod(shape) <= numbers.size)
    if min((offset, *shape, *strides)) < 0 or not is_within:
        raise GraphValueError("a tensor in it does not lie within its storage")
    apart = [stride * numbers.itemsize for stride in strides]
    return _Held(np.lib.stride_tricks.as_strided(numbers[offset:], shape, apart, writeable=False))


def _parameter(tensor: _Held, *_: object) -> _Held:
    return tensor


MAKING: dict[str, Callable[..., _Held]] = {"_rebuild_tensor_v2": _tensor, "_rebuild_parameter": _parameter}


def _tensors(found: Any) -> dict[str, Array]:
    """The tensors by name, of what a pickle holds or what stands in it under one of the usual names."""
    if not isinstance(found, Mapping):
        raise GraphValueError(f"it holds no tensors by name but a {type(found).__name__}; {ADVICE}")
    weights = network_in(found)
    if all(isinstance(value, _Held) for value in weights.values()):
        return {str(name): value.array for name, value in weights.items()}
    names = ", ".join(map(repr, [*weights][:8]))
    raise GraphValueError(f"it holds {names}, and no tensors as one of {', '.join(INSIDE)}; {ADVICE}")


def _arrays(found: Any, numbers: Iterator[int]) -> Any:
    """What a pickle holds, with the array of each tensor in its place, for as many objects as there are numbers."""
    if next(numbers, None) is None:
        raise GraphValueError(f"it holds more than {MOST:,} objects")
    if isinstance(found, _Held):
        return found.array
    if isinstance(found, Mapping):
        return {name: _arrays(value, numbers) for name, value in found.items()}
    if isinstance(found, (list, tuple)):
        return type(found)([_arrays(value, numbers) for value in found])
    return found


def network_in(found: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """The weights of the network in what a training saves: as it is, or under one of the usual names."""
    inner = next((found[name] for name in INSIDE if isinstance(found.get(name), Mapping)), None)
    return found if inner is None else network_in(inner)
