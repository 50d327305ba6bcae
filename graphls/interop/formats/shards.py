"""Checkpoints in shards: a folder with one file of safetensors for each device, and an index as Hugging Face has it.

`model.safetensors.index.json` has the `weight_map`: the file of each tensor, by its name. A tensor that is divided has
an entry for each part, `name@start,start` with the starts along its axes, and stands under `shards` with its shape and
the bounds of all parts:

    {"metadata": {"total_size": 5152},
     "weight_map": {"bias": "model-5f0c1d2e-00001-of-00002.safetensors",
                    "weight@0,0": "model-5f0c1d2e-00001-of-00002.safetensors",
                    "weight@32,0": "model-5f0c1d2e-00002-of-00002.safetensors"},
     "shards": {"weight": {"shape": [64, 20], "parts": {"weight@0,0": [[0, 32], [0, 20]],
                                                        "weight@32,0": [[32, 64], [0, 20]]}}}}

Without divided tensors it is what other programs write and read. Files of another save have other names, so that the
index, which is written last, always belongs to what it names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from graphls.base.errors import GraphFileError, GraphValueError
from graphls.base.files.files import open_file, parse_json, read_bytes
from graphls.interop.formats.checkpoint import Entry
from graphls.interop.formats.safetensors import METADATA, TYPES, array_in, size_of, strings_of

INDEX = "model.safetensors.index.json"
FILE = re.compile(r"model-[0-9a-f]{8}-\d{5}-of-\d{5}\.safetensors")
"""The names of files that graphls writes."""

Array = np.ndarray[Any, Any]
Bounds = tuple[tuple[int, int], ...]


def file_name(tag: str, number: int, count: int) -> str:
    """The name of the file of a device, from 0, in the save of a tag of eight hexadecimal digits."""
    return f"model-{tag}-{number + 1:05d}-of-{count:05d}.safetensors"


def part_name(name: str, bounds: Bounds) -> str:
    """The name of a part of a divided tensor."""
    return f"{name}@{','.join(str(start) for start, _ in bounds)}"


def encode_index(
    places: Mapping[str, str], shapes: Mapping[str, Sequence[int]], parts: Mapping[str, Mapping[str, Bounds]], size: int
) -> bytes:
    """The content of an index: the file of each entry, and the shapes and parts of divided tensors."""
    shards = {name: {"shape": list(shapes[name]), "parts": parts[name]} for name in parts}
    index = {"metadata": {"total_size": size}, "weight_map": dict(places), "shards": shards}
    return json.dumps(index, indent=1).encode()


class StoredTensor:
    """A divided tensor in mapped files, of which as much is read as is asked for; it is a buffer of a Storage."""

    def __init__(self, shape: tuple[int, ...], pieces: Mapping[Bounds, Array], source: str) -> None:
        self.shape, self.pieces, self.source = shape, pieces, source
        self.dtype = next(iter(pieces.values())).dtype

    def numpy(self) -> Array:
        """The complete tensor."""
        return self.region(tuple(slice(0, size) for size in self.shape))

    def region(self, region: tuple[slice, ...]) -> Array:
        """A region of it."""
        own = [piece.indices(size)[:2] for piece, size in zip(region, self.shape, strict=True)]
        array = np.empty([stop - start for start, stop in own], self.dtype)
        for bounds, part in self.pieces.items():
            common = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(bounds, own, strict=True)]
            if all(start < stop for start, stop in common):
                place = tuple(slice(a - c, b - c) for (a, b), (c, _) in zip(common, own, strict=True))
                piece = tuple(slice(a - c, b - c) for (a, b), (c, _) in zip(common, bounds, strict=True))
                array[place] = part[piece]
        return array


def decode(folder: Path) -> dict[str, Entry | StoredTensor]:
    """The values of a checkpoint by name; raises GraphValueError for a damaged one, GraphFileError."""
    index = _checked(_json(INDEX, read_bytes(folder / INDEX)))
    places: dict[str, str] = index["weight_map"]
    files = {file: dict(_mapped(folder / file)) for file in dict.fromkeys(places.values())}
    entries: dict[str, Entry | StoredTensor] = {}
    for name, shard in index.get("shards", {}).items():
        shape, parts = tuple(shard["shape"]), {key: tuple(map(tuple, b)) for key, b in shard["parts"].items()}
        _require_all(name, shape, list(parts.values()))
        arrays = {bounds: _entry(files, places, key) for key, bounds in parts.items()}
        _require_shapes(name, arrays)
        entries[name] = StoredTensor(shape, arrays, min(places[key] for key in parts))
    divided = {key for shard in index.get("shards", {}).values() for key in shard["parts"]}
    for name in places.keys() - divided:
        entries[name] = np.array(_entry(files, places, name))
    texts = {name: text for file in files.values() for name, text in file.items() if isinstance(text, str)}
    return dict(sorted(entries.items())) | texts


def _require_shapes(name: str, parts: Mapping[Bounds, Array]) -> None:
    """Raise GraphValueError unless parts have the shapes of their bounds, and one dtype."""
    dtype = next(iter(parts.values())).dtype
    for bounds, part in parts.items():
        if part.shape != tuple(stop - start for start, stop in bounds) or part.dtype != dtype:
            raise GraphValueError(f"a part of {name!r} is {part.dtype}{list(part.shape)}, unlike its index")


def _entry(files: Mapping[str, Mapping[str, Entry]], places: Mapping[str, str], key: str) -> Array:
    entry = files.get(places.get(key, ""), {}).get(key)
    if not isinstance(entry, np.ndarray):
        raise GraphValueError(f"the tensor {key!r} is in none of its files")
    return entry


def _require_all(name: str, shape: tuple[int, ...], parts: Sequence[Bounds]) -> None:
    """Raise GraphValueError unless parts are those of a grid that covers the shape."""
    if any(len(bounds) != len(shape) for bounds in parts):
        raise GraphValueError(f"a part of {name!r} has another number of axes")
    axes = [sorted({bounds[axis] for bounds in parts}) for axis in range(len(shape))]
    for size, intervals in zip(shape, axes, strict=True):
        ends = [0, *(stop for _, stop in intervals)]
        if [start for start, _ in intervals] != ends[:-1] or ends[-1] != size:
            raise GraphValueError(f"parts of {name!r} are missing, or overlap")
    if len(parts) != prod(map(len, axes)) or set(parts) != set(product(*axes)):
        raise GraphValueError(f"parts of {name!r} are missing, or overlap")


def _json(name: str, text: bytes) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        raise GraphValueError(f"{name} is damaged, or not a file of safetensors") from None


def _checked(index: Any) -> dict[str, Any]:
    """An index of the form that this module writes; raises GraphValueError for another one."""
    places = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(places, dict) or not places:
        raise GraphValueError("its index has no weight_map")
    for file in places.values():
        if not isinstance(file, str) or Path(file).name != file or not file.endswith(".safetensors"):
            raise GraphValueError(f"its index names the file {file!r}, which is none of safetensors in the same folder")
    shards = index.setdefault("shards", {})
    fits = isinstance(shards, dict) and all(
        isinstance(shard, dict) and _are_sizes(shard.get("shape")) and isinstance(shard.get("parts"), dict)
        and shard["parts"] and all(isinstance(b, list) and all(map(_are_bounds, b)) for b in shard["parts"].values())
        for shard in shards.values()
    )  # fmt: skip
    if not fits:
        raise GraphValueError("its index has shards without a shape, or without bounds of their parts")
    return dict(index)


def _are_sizes(sizes: object) -> bool:
    return isinstance(sizes, list) and all(type(size) is int and size >= 0 for size in sizes)


def _are_bounds(bounds: object) -> bool:
    return _are_sizes(bounds) and len(bounds) == 2 and bounds[0] <= bounds[1]  # type: ignore[arg-type, index]


def _mapped(path: Path) -> Iterator[tuple[str, Entry]]:
    """The values of a file of safetensors; arrays are of the mapped file, and strings last."""
    try:
        with open_file(path) as file:
            data: Array = np.memmap(file, np.uint8, "r")
    except (OSError, ValueError) as error:
        raise GraphFileError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    start = 8 + int.from_bytes(data[:8].tobytes(), "little")
    if data.size < 8 or start > data.size:
        raise GraphValueError(f"{path.name} is not a file of safetensors")
    header = _json(path.name, data[8:start].tobytes())
    if not isinstance(header, dict):
        raise GraphValueError(f"{path.name} is not a file of safetensors")
    for name, entry in header.items():
        if name == METADATA:
            continue
        yield name, _array(path, name, entry, data[start:])
    yield from strings_of(header).items()


def _array(path: Path, name: str, entry: Any, data: Array) -> Array:
    """A tensor of a file by its entry in the header."""
    dtype = TYPES.get(entry.get("dtype", "")) if isinstance(entry, dict) else None
    offsets: Any = entry.get("data_offsets") if dtype is not None else None
    if dtype is None or not _are_sizes(entry.get("shape")) or not _are_bounds(offsets) or offsets[1] > data.size:
        raise GraphValueError(f"{path.name} is damaged, or holds {name!r} in a dtype that graphls does not support")
    if size_of(dtype, entry["shape"]) != offsets[1] - offsets[0]:
        raise GraphValueError(f"{path.name} has {offsets[1] - offsets[0]} bytes of {name!r}, unlike its shape")
    return array_in(name, entry["shape"], dtype, data[offsets[0] : offsets[1]].data)


