"""Reads weights of PyTorch as arrays by name from files, folders of files, dicts and modules."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from graphls.base.errors import GraphFileError, GraphTypeError, GraphValueError
from graphls.base.files.files import as_path, parse_json, read_bytes
from graphls.frontend.tensors.foreign import offered_array, offers_array
from graphls.interop.formats import safetensors as safetensors_format
from graphls.interop.formats import torch as torch_format

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]

INDEX, SINGLE = ".safetensors.index.json", "model.safetensors"
PICKLES = (".bin", ".pt", ".pth")


@dataclass(frozen=True)
class Weights:
    """Arrays by name, and the name of their source in messages."""

    arrays: Arrays
    origin: str


def weights_of(source: object) -> Weights:
    """The weights in a file, a folder, a dict or a module; raises as `load_state_dict` says."""
    if isinstance(source, (str, bytes, os.PathLike)):
        path = _file_of(as_path(source))
        return Weights(_sharded(path) if path.name.endswith(INDEX) else _read(path), str(path))
    if callable(listed := getattr(source, "state_dict", None)):
        source = listed()
    if not isinstance(source, Mapping):
        raise GraphTypeError(f"Weights are a file, a folder, or a dict of tensors by name, not {source!r}.")
    tensors = torch_format.network_in(source)
    return Weights({_name(name): _array(name, value) for name, value in tensors.items()}, "the dict")


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise GraphTypeError(f"Weights have names that are strings, not {name!r}.")
    return name


def _array(name: object, value: Any) -> Array:
    if not offers_array(value):
        raise GraphTypeError(f"{name!r} is a {type(value).__name__}, not a tensor or array.")
    return array_of(value)


def array_of(value: Any) -> Array:
    """The numbers of a tensor of any library; raises GraphTypeError if they cannot be read."""
    # A tensor of torch with gradients, as of named_parameters(), converts to NumPy only when detached.
    detach = getattr(value, "detach", None)
    tensor = detach() if callable(detach) else value
    try:
        return offered_array(tensor)
    except GraphTypeError:
        widened = getattr(tensor, "float", None)  # NumPy has no bfloat16, which torch widens without a loss
        if not callable(widened):
            raise
        return offered_array(widened())


def tensors_of(source: Any) -> dict[str, tuple[Any, tuple[str, ...]]]:
    """The parameters and buffers of a module by the first of their names, with all names; nothing of other sources."""
    if not callable(getattr(source, "named_buffers", None)):
        return {}
    named = [*source.named_parameters(remove_duplicate=False), *source.named_buffers(remove_duplicate=False)]
    groups: dict[int, list[str]] = {}
    tensors = dict(named)
    for name, tensor in tensors.items():
        groups.setdefault(id(tensor), []).append(name)
    return {names[0]: (tensors[names[0]], tuple(names)) for names in groups.values()}


def _file_of(path: Path) -> Path:
    """The file of a path: itself, or the one in a folder, which may be an index of several."""
    if not os.path.isdir(path):
        return path
    usual = [file for file in (path / SINGLE, path / f"model{INDEX}") if os.path.isfile(file)]
    files = usual[:1] or sorted(path.glob("*.safetensors"))
    if not files:
        raise GraphFileError(f"There are no weights in the folder {path}: it has no file that ends with .safetensors.")
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise GraphValueError(f"The folder {path} has several files of weights, {names}; name one of them.")
    return files[0]


def _sharded(index: Path) -> Arrays:
    """The arrays of all files that an index lists."""
    try:
        weight_map = parse_json(read_bytes(index))["weight_map"]
        files = sorted(set(weight_map.values()))
        if not all(isinstance(file, str) and file == Path(file).name for file in files):
            raise ValueError("its files are not beside it")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise GraphValueError(f"{index} is not an index of files of safetensors: {error}.") from None
    shards = {file: _read(index.with_name(file)) for file in files}
    absent = [name for name, file in weight_map.items() if name not in shards[file]]
    if absent:
        raise GraphValueError(f"{index.with_name(weight_map[absent[0]])} has no {absent[0]!r}, as {index.name} says.")
    return {name: shards[file][name] for name, file in weight_map.items()}


def _read(path: Path) -> Arrays:
    readers: dict[str, Callable[[bytes], Arrays]] = {".safetensors": _safetensors}
    reader = {**readers, **dict.fromkeys(PICKLES, torch_format.decode)}.get(path.suffix)
    if reader is None:
        endings = ", ".join((".safetensors", INDEX, *PICKLES))
        raise GraphValueError(f"Files of weights end with {endings}, and {path} does not.")
    try:
        return reader(read_bytes(path))
    except GraphValueError as error:
        raise GraphValueError(f"{path} cannot be read: {error.message.rstrip('.')}.") from None


def _safetensors(data: bytes) -> Arrays:
    """The arrays of a file, also under names that safetensors has dropped as duplicates of the same tensor."""
    entries = safetensors_format.decode(data).items()
    arrays = {name: entry for name, entry in entries if not isinstance(entry, str)}
    same = safetensors_format.metadata(data).items()
    return {**{name: arrays[original] for name, original in same if original in arrays}, **arrays}
