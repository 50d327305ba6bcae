"""Reads a bundle: the graph of the step and the arrays of its states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphls.base.errors import GraphlsError, GraphValueError
from graphls.base.files.files import read_bytes
from graphls.interop.formats.safetensors import decode
from graphls.ir.graph import Graph
from graphls.ir.parse import parse as parse_graph
from graphls.ir.verify import verify
from graphls.step.export.manifest import MANIFEST, STATES, File, Manifest, parse

if TYPE_CHECKING:
    from graphls.step.export.predict import ReadPrediction

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Origin:
    """The origin of a step: its folder, and the content of `step.json`."""

    folder: Path
    manifest: Manifest

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs."""
        return [port.name for port in self.manifest.inputs]

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs."""
        return [port.name for port in self.manifest.outputs]

    def prediction(self) -> ReadPrediction | None:
        """The model that predicts, where there is one."""
        from graphls.step.export.predict import ReadPrediction

        description = self.manifest.predict
        return None if description is None else ReadPrediction(self.folder, description)


@dataclass(frozen=True)
class Bundle:
    """A bundle that was read; `states` are the arrays by the names of the states, in the dtypes of the graph."""

    origin: Origin
    graph: Graph
    states: dict[str, Array]


def read_bundle(folder: Path, states: Path | None = None) -> Bundle:
    """The bundle in a folder, with the states of another file where one is given.

    Raises GraphFileError for a file that cannot be read, GraphValueError for one that is damaged, of a newer version,
    or does not belong to the others, and for states that are missing or do not fit.
    """
    manifest = read_manifest(folder)
    graph = _graph(folder, manifest.ir)
    path = states or folder / STATES
    return Bundle(Origin(folder.absolute(), manifest), graph, fitting(graph, _arrays(path), path))


def read_manifest(folder: Path) -> Manifest:
    """The manifest in `step.json` of a folder; raises as `read_bundle`."""
    path = folder / MANIFEST
    try:
        return parse(read_bytes(path).decode("utf-8"))
    except UnicodeDecodeError:
        raise GraphValueError(f"{path} is damaged: it is not text.") from None
    except GraphValueError as error:
        raise GraphValueError(f"{path} is not a bundle that can be read: {error.message}.") from None


def _graph(folder: Path, file: File) -> Graph:
    path = folder / file.name
    text = read_bytes(path)
    if sha256(text).hexdigest() != file.sha256:
        raise GraphValueError(f"{path} is damaged or of another export: it is not the file that {MANIFEST} knows.")
    try:
        graph = parse_graph(text.decode("utf-8"))
        verify(graph)
    except (GraphlsError, UnicodeDecodeError) as error:
        raise GraphValueError(f"{path} cannot be read by this version of graphls: {error}") from None
    return graph


def _arrays(path: Path) -> Mapping[str, Any]:
    try:
        return decode(read_bytes(path))
    except GraphValueError as error:
        raise GraphValueError(f"{path} is damaged: {error.message}.") from None


def fitting(graph: Graph, arrays: Mapping[str, Any], path: Path) -> dict[str, Array]:
    """The arrays of the states of a graph; raises GraphValueError for one that is missing or of another shape."""
    fitted: dict[str, Array] = {}
    for state in graph.states:
        array = arrays.get(state.name)
        if array is None or isinstance(array, str):
            raise GraphValueError(f"{path} has no state {state.name!r}, which the step needs.")
        if array.shape != state.type.shape:
            shapes = f"has the shape {list(array.shape)} there and {list(state.type.shape)} in the step"
            raise GraphValueError(f"The states of {path} do not fit: {state.name!r} {shapes}.")
        fitted[state.name] = array.astype(state.type.dtype.numpy, copy=False)
    return fitted
