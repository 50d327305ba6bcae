"""Writes a step as a bundle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from onnx import ModelProto

from graphls.base.errors import GraphValueError
from graphls.base.files.files import write_bytes, write_text
from graphls.base.version import __version__
from graphls.interop.formats.safetensors import encode
from graphls.ir.graph import Graph, Node, walk
from graphls.ir.text import dump as dump_graph
from graphls.ir.types import Type
from graphls.runtime.lowering import Lowered
from graphls.runtime.lowering.protos import renamed
from graphls.runtime.lowering.types import exchanged
from graphls.runtime.lowering.weights import write_model
from graphls.step.export import manifest as bundle
from graphls.step.export.manifest import IR, MANIFEST, MODEL, STATES, Manifest, State, dump, structure_of
from graphls.step.export.names import NEXT, chosen, input_names, output_names
from graphls.step.export.predict import Prediction, ReadPrediction, ports_of


@dataclass(frozen=True)
class Source:
    """A step to write: its graph and model, its cell, the structure of its results, and its parameters by state."""

    graph: Graph
    lowered: Lowered
    cell: object
    results: object
    is_tensor: Callable[[object], bool]
    parameters: Mapping[str, Any]
    prediction: Prediction | ReadPrediction | None


def write_bundle(
    source: Source, folder: Path, inputs: Sequence[str] | None, outputs: Sequence[str] | None, loops: Sequence[str]
) -> None:
    """Write all files of a bundle, each at once, and `step.json`, which knows the content of the others, last.

    Raises GraphValueError for a step that needs Python or other ranks and for names that do not fit, GraphFileError
    where a file cannot be written.
    """
    _require_alone(source.graph)
    _check_loops(loops)
    names = _Names(source, inputs, outputs)
    model = renamed(source.lowered.model, names.tensors)
    text = dump_graph(source.graph)
    states = {name: source.parameters[name].asnumpy() for name in source.lowered.states}
    write_model(folder / MODEL, model, source.lowered.outside)
    write_text(folder / IR, text)
    write_bytes(folder / STATES, encode({n: _exchanged(a, names.types[n]) for n, a in states.items()}))
    for language in loops:
        write_bytes(folder / bundle.LOOPS[language], bundle.loop_source(language))
    of = source.prediction
    predict = None if of is None else of.write(folder, names.inputs)
    write_text(folder / MANIFEST, dump(replace(_manifest(source, names, model, folder), predict=predict)))


def _require_alone(graph: Graph) -> None:
    for node in collectives(graph):
        message = "A bundle runs on one machine, and this step exchanges values with other ranks"
        raise GraphValueError(f"{message} ({node.primitive.name}); compile it in one process.").at(node.loc)


def _check_loops(loops: Sequence[str]) -> None:
    for language in loops:
        if language not in bundle.LOOPS:
            raise GraphValueError(f"There is no loop in {language!r}; there are {', '.join(bundle.LOOPS)}.")


class _Names:
    """The public names of the model's ports: `tensors` renames them, `types` are those of the states."""

    def __init__(self, source: Source, inputs: Sequence[str] | None, outputs: Sequence[str] | None) -> None:
        graph, lowered = source.graph, source.lowered
        self.types: dict[str, Type] = {state.name: exchanged(state.type) for state in graph.states}
        self.next = {state: f"{state}{NEXT}" for state in lowered.writes}
        reserved = {*self.types, *self.next.values()}
        self.inputs = chosen("input", input_names(source.cell, [v.name for v in graph.inputs]), inputs, reserved)
        own = output_names(source.cell, source.is_tensor, source.results)
        own = [*own, *(value.name for value in graph.outputs[len(own) :])]  # behind them, what passes have added
        self.outputs = chosen("output", own, outputs, {*reserved, *self.inputs})
        self.tensors = dict(zip(lowered.inputs, self.inputs, strict=True))
        self.tensors |= {tensor: state for state, tensor in lowered.states.items()}
        self.tensors |= dict(zip(lowered.outputs, self.outputs, strict=True))
        self.tensors |= {tensor: self.next[state] for state, tensor in lowered.writes.items()}


def _manifest(source: Source, names: _Names, model: ModelProto, folder: Path) -> Manifest:
    ports = ports_of(model)
    return Manifest(
        step=source.graph.name,
        graphls=__version__,
        opset=next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")),
        model=bundle.file_of(folder / MODEL),
        ir=bundle.file_of(folder / IR),
        inputs=tuple(ports[name] for name in names.inputs),
        outputs=tuple(ports[name] for name in names.outputs),
        results=structure_of(source.results, source.is_tensor),
        states=tuple(State(**vars(ports[name]), next=names.next.get(name)) for name in names.types),
        random=tuple(bundle.draw_of(node, ports[name]) for node, name in source.lowered.host),
        schedules=_schedules(names.types),
    )


def _schedules(types: Mapping[str, Type]) -> dict[str, str | None]:
    """The learning rates among the states: None for one number, which the host may set, for a list the counter."""
    rates = {name: kind for name, kind in types.items() if name.startswith("learning_rate")}
    return {name: None if not kind.shape else "global_step" for name, kind in rates.items()}


def _exchanged(array: Any, kind: Type) -> Any:
    return array.astype(kind.dtype.numpy, copy=False)


def collectives(graph: Graph) -> tuple[Node, ...]:
    """The nodes that all ranks of a group run together, in order."""
    return tuple(n for n in walk(graph) if n.primitive.is_collective and not n.primitive.is_of_rank)
