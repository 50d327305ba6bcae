"""The manifest `step.json` of a bundle: its records, its text and its validation."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from itertools import count
from pathlib import Path
from typing import Any

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.files.files import open_file, parse_json
from graphls.ir.graph import Node

FORMAT, VERSION = "graphls bundle", 1
MANIFEST, MODEL, PREDICT, IR, STATES = "step.json", "step.onnx", "predict.onnx", "step.ir", "state.safetensors"
"""The files of a bundle."""
LOOPS = {"python": "step.py", "javascript": "step.mjs"}
"""The training programs that are copied into a bundle, by language."""
CHUNK = 2**20
"""Bytes that are read at once."""
ALGORITHM = "Philox4x64-10"
"""The generator of random numbers by Salmon, Moraes, Dror and Shaw, "Parallel random numbers" (2011)."""

_INNERMOST = re.compile(r"[\[{][^\[\]{}]*[\]}]|\[[^\[\]]*\]")
"""Lists and objects in JSON that hold no others, each of which takes one line."""


@dataclass(frozen=True)
class Port:
    """A tensor that goes into or comes out of a model."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class State(Port):
    """A tensor that is kept between steps; `next` is the output with its new value, None where no step changes it."""

    next: str | None = None


@dataclass(frozen=True)
class Draw(Port):
    """An input that the host draws anew before every step.

    The key of the generator is (seed, site), its counter (0, 0, step, 0), and seed and step are what the state `state`
    holds. `kind` and `options` say what becomes of its words.
    """

    kind: str = ""
    state: str = ""
    site: int = 0
    options: dict[str, float] = field(default_factory=dict)


def draw_of(node: Node, port: Port) -> Draw:
    """The random input that a node is in a written step."""
    state, attrs = node.inputs[0].name, dict(node.attrs)
    site = attrs.pop("site") % 2**64
    if "?" in port.shape:
        message = f"The size of {node.primitive.name} follows from the number of rows in a way that no loop knows"
        raise GraphValueError(f"{message}; export the step without any_rows.").at(node.loc)
    options = {key: value for key, value in attrs.items() if isinstance(value, (int, float)) and key != "size"}
    kind = node.primitive.name.removeprefix("random_")
    return Draw(**vars(port), kind=kind, state=state, site=site, options=options)


@dataclass(frozen=True)
class File:
    """A file of the bundle and the SHA-256 of its content."""

    name: str
    sha256: str


def file_of(path: Path) -> File:
    """The name and the SHA-256 of a file."""
    checksum = hashlib.sha256()
    with open_file(path) as file:
        while chunk := file.read(CHUNK):
            checksum.update(chunk)
    return File(path.name, checksum.hexdigest())


def loop_source(language: str) -> bytes:
    """The program that trains a bundle in that language."""
    return (resources.files("graphls.step.export") / "loops" / LOOPS[language]).read_bytes()


@dataclass(frozen=True)
class Predict:
    """The model that predicts with the states of the training."""

    file: File
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    states: tuple[str, ...]


@dataclass(frozen=True)
class Manifest:
    """The content of a bundle. `results` is the structure of what the step returns: outputs by index, lists, dicts."""

    step: str
    graphls: str
    opset: int
    model: File
    ir: File
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    results: Any
    states: tuple[State, ...]
    random: tuple[Draw, ...]
    schedules: dict[str, str | None]
    predict: Predict | None = None


def dump(manifest: Manifest) -> str:
    """The text of `step.json`."""
    table = {"format": FORMAT, "version": VERSION, **asdict(manifest)}
    table["random"] = {"algorithm": ALGORITHM, "draws": table["random"]}
    return indented(table)


def indented(table: Mapping[str, Any]) -> str:
    """The text of a table in JSON, with its innermost lists and objects in one line each."""
    return _INNERMOST.sub(lambda match: re.sub(r"\n\s*", " ", match[0]), json.dumps(table, indent=1)) + "\n"


def parse(text: str) -> Manifest:
    """The manifest that a text holds; raises GraphValueError, which names the fault."""
    try:
        table = parse_json(text)
    except ValueError as error:
        raise GraphValueError(f"it is not JSON ({error})") from None
    if not isinstance(table, dict) or table.get("format") != FORMAT:
        raise GraphValueError(f"its format is not {FORMAT!r}")
    if table.get("version") != VERSION:
        newer = f"it is of version {table.get('version')!r}, and this graphls reads version {VERSION}"
        raise GraphValueError(f"{newer}; the graphls that wrote it is {table.get('graphls')!r}")
    if _get(table, "random", dict).get("algorithm") != ALGORITHM:
        raise GraphValueError(f"its random numbers are not those of {ALGORITHM}")
    return _manifest(table)


def _manifest(table: Mapping[str, Any]) -> Manifest:
    return Manifest(
        _get(table, "step", str),
        _get(table, "graphls", str),
        _get(table, "opset", int),
        _file(_get(table, "model", dict)),
        _file(_get(table, "ir", dict)),
        _ports(table, "inputs"),
        _ports(table, "outputs"),
        table.get("results"),
        tuple(State(**_port(item), next=item.get("next")) for item in _items(table, "states")),
        tuple(_draw(item) for item in _items(table["random"], "draws")),
        _get(table, "schedules", dict),
        _predict(_get(table, "predict", dict)) if table.get("predict") is not None else None,
    )


def _predict(table: Mapping[str, Any]) -> Predict:
    states = tuple(_get(table, "states", list))
    return Predict(_file(_get(table, "file", dict)), _ports(table, "inputs"), _ports(table, "outputs"), states)


def _draw(item: Mapping[str, Any]) -> Draw:
    kind, state, site = _get(item, "kind", str), _get(item, "state", str), _get(item, "site", int)
    return Draw(**_port(item), kind=kind, state=state, site=site, options=_get(item, "options", dict))


def _file(item: Mapping[str, Any]) -> File:
    name = _get(item, "name", str)
    if not name or name != name.strip() or any(c in name for c in "/\\:\0") or name.startswith("."):
        raise GraphValueError(f"it names a file {name!r}, which is none of the folder")
    return File(name, _get(item, "sha256", str))


def _ports(table: Mapping[str, Any], key: str) -> tuple[Port, ...]:
    return tuple(Port(**_port(item)) for item in _items(table, key))


def _port(item: Mapping[str, Any]) -> dict[str, Any]:
    shape = tuple(_get(item, "shape", list))
    if not all(isinstance(size, str) or (type(size) is int and size >= 0) for size in shape):
        raise GraphValueError(f"{item.get('name')!r} has the shape {list(shape)}")
    return {"name": _get(item, "name", str), "dtype": _get(item, "dtype", str), "shape": shape}


def _items(table: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    items: list[Any] = _get(table, key, list)
    if not all(isinstance(item, dict) for item in items):
        raise GraphValueError(f"what it says under {key!r} is not a list of objects")
    return items


def _get(table: Mapping[str, Any], key: str, kind: type) -> Any:
    value = table.get(key)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise GraphValueError(f"it says nothing that fits under {key!r}")
    return value


def structure_of(tree: object, is_tensor: Callable[[object], bool]) -> Any:
    """The structure of a result in JSON: {"output": index} for tensors, lists, {"items": ...} for dicts.

    A named tuple is a list. Raises GraphTypeError for a leaf that JSON does not hold.
    """
    indices = count()

    def walk(item: Any) -> Any:
        if is_tensor(item):
            return {"output": next(indices)}
        if isinstance(item, (tuple, list)):
            return [walk(part) for part in item]
        if isinstance(item, dict):
            return {"items": {str(key): walk(part) for key, part in item.items()}}
        if item is None or isinstance(item, (bool, int, float, str)):
            return item
        raise GraphTypeError(f"A bundle keeps tensors, numbers and texts in results, not {type(item).__name__}.")

    return walk(tree)


def tree_of(structure: Any, tensor: object) -> Any:
    """A result of that structure with `tensor` for every tensor; raises GraphValueError for another structure."""
    if isinstance(structure, list):
        return tuple(tree_of(part, tensor) for part in structure)
    if not isinstance(structure, dict):
        return structure
    if isinstance(structure.get("output"), int):
        return tensor
    if isinstance(structure.get("items"), dict):
        return {key: tree_of(part, tensor) for key, part in structure["items"].items()}
    raise GraphValueError("what it says under 'results' is not a structure of a result")
