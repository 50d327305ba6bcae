"""Writes a step as a portable program of StableHLO, by `jax.export`, and what it takes and returns as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.files.files import write_bytes, write_text
from graphls.base.version import __version__
from graphls.ir.graph import Graph, Node, Value, walk
from graphls.runtime.xla.library import OPTIONS, load_jax, portable
from graphls.runtime.xla.tracing import takes, traced
from graphls.step.export.manifest import ALGORITHM, Port, draw_of, indented, structure_of
from graphls.step.export.names import chosen, input_names, output_names

FORMAT, VERSION = "graphls stablehlo", 1
PLATFORMS = ("cpu", "cuda", "tpu")
"""The platforms that a program is lowered for, where JAX can do so."""
KNOWN = (*PLATFORMS, "rocm")


@dataclass(frozen=True)
class Source:
    """A step to write: its graph, its cell and the structure of its results, whose leaves `is_tensor` tells apart."""

    graph: Graph
    cell: object
    results: object
    is_tensor: Callable[[object], bool]


def write_stablehlo(source: Source, path: Path, platforms: Sequence[str] | None) -> None:
    """Write the program, and beside it a file with `.json` behind the name; see `Compiled.export_stablehlo`."""
    jax = load_jax("A program of StableHLO")
    program = _Program(jax, source)
    exported = _lowered(jax, program, None if platforms is None else _known(platforms))
    write_bytes(path, bytes(exported.serialize()))
    write_text(path.with_name(f"{path.name}.json"), indented(program.description(exported.platforms)))


class _Program:
    """A step as a function of inputs and states by name; its random arrays are inputs, as the host draws them."""

    def __init__(self, jax: Any, source: Source) -> None:
        self.jax, self.source = jax, source
        self.draws = [node for node in source.graph.nodes if node.primitive.on_host]
        self.graph = graph = _without_draws(source.graph, self.draws)
        _require_traceable(graph)
        states = {value.name for value in graph.states}
        count = len(source.graph.inputs)
        own = input_names(source.cell, [value.name for value in source.graph.inputs])
        own += [value.name for value in graph.inputs[count:]]
        self.inputs = dict(zip(chosen("input", own, None, states), graph.inputs, strict=True))
        own = output_names(source.cell, source.is_tensor, source.results)
        own += [value.name for value in graph.outputs[len(own) :]]  # what passes have added
        self.outputs = dict(zip(chosen("output", own, None, set()), graph.outputs, strict=True))

    def __call__(self, inputs: Mapping[str, Any], states: Mapping[str, Any]) -> tuple[Any, ...]:
        """Outputs and states by name, and whether all indices were in range; where not, the states are the old ones."""
        arrays = [*map(inputs.__getitem__, self.inputs), *(states[value.name] for value in self.graph.states)]
        results, new, holds, _ = traced(self.jax, self.graph, arrays)
        pairs = [(write.state.name, value) for write, value in zip(self.graph.writes, new, strict=True)]
        written = {name: self.jax.numpy.where(holds, value, states[name]) for name, value in pairs}
        return dict(zip(self.outputs, results, strict=True)), {**states, **written}, holds

    def types(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The types of its arguments, as JAX has them."""
        states = {value.name: value for value in self.graph.states}
        return {n: self._type(v) for n, v in self.inputs.items()}, {n: self._type(v) for n, v in states.items()}

    def _type(self, value: Value) -> Any:
        return self.jax.ShapeDtypeStruct(value.type.shape, value.type.dtype.numpy)

    def description(self, platforms: Sequence[str]) -> dict[str, Any]:
        """What the program takes and returns; `arguments` and `results` are the order of the flat function."""
        states, written = self.graph.states, {write.state for write in self.graph.writes}
        names = sorted(state.name for state in states)
        ports = {name: _port(name, value) for name, value in self.inputs.items()}
        draws = [draw_of(node, ports[name]) for node, name in zip(self.draws, self._draw_names(), strict=True)]
        return {
            "format": FORMAT,
            "version": VERSION,
            "step": self.graph.name,
            "graphls": __version__,
            "jax": self.jax.__version__,
            "platforms": list(platforms),
            "options": OPTIONS,
            "arguments": [*sorted(self.inputs), *names],
            "results": [*sorted(self.outputs), *names, "in_range"],
            "inputs": [asdict(port) for port in ports.values()],
            "outputs": [asdict(_port(name, value)) for name, value in self.outputs.items()],
            "structure": structure_of(self.source.results, self.source.is_tensor),
            "states": [{**asdict(_port(state.name, state)), "is_written": state in written} for state in states],
            "random": {"algorithm": ALGORITHM, "draws": list(map(asdict, draws))},
        }

    def _draw_names(self) -> list[str]:
        return list(self.inputs)[len(self.inputs) - len(self.draws) :]


def _port(name: str, value: Value) -> Port:
    return Port(name, value.type.dtype.long_name, value.type.shape)


def _without_draws(graph: Graph, draws: Sequence[Node]) -> Graph:
    """The graph whose random arrays are inputs, behind its own."""
    nodes = tuple(node for node in graph.nodes if node not in draws)
    return replace(graph, inputs=(*graph.inputs, *(node.output for node in draws)), nodes=nodes)


def _require_traceable(graph: Graph) -> None:
    for node in walk(graph):
        if not takes(node):
            text = f"A program of StableHLO has no {node.primitive.name}, which {_reason(node)}"
            raise GraphValueError(f"{text}; compile a step without it.").at(node.loc)


def _reason(node: Node) -> str:
    primitive: Any = node.primitive
    if primitive.is_collective:
        return "exchanges values with other ranks"
    if primitive.calls_python:
        return "calls Python"
    if any(value.type.stacked for value in (*node.inputs, *node.outputs)):
        return "has a size that is known only when it runs"
    return "has no rule for XLA"


def _known(platforms: object) -> tuple[str, ...]:
    """The names of platforms; raises GraphTypeError for what is no list of names, GraphValueError for another name."""
    if not isinstance(platforms, (list, tuple)):
        raise GraphTypeError(f"Platforms are a list of names, such as ['cpu'], not {platforms!r}.")
    for name in platforms:
        if name not in KNOWN:
            raise GraphValueError(f"There is no platform {name!r}; use some of {', '.join(map(repr, KNOWN))}.")
    if not platforms:
        raise GraphValueError("A program is for one platform at least.")
    return tuple(platforms)


def _lowered(jax: Any, program: _Program, platforms: Sequence[str] | None) -> Any:
    """The program for these platforms, or for all that JAX can lower it for."""
    if platforms is not None:
        return _exported(jax, program, platforms)
    try:
        return _exported(jax, program, PLATFORMS)
    except GraphValueError:
        return _exported(jax, program, [name for name in PLATFORMS if _can_lower(jax, program, name)] or PLATFORMS)


def _can_lower(jax: Any, program: _Program, platform: str) -> bool:
    try:
        _exported(jax, program, [platform])
    except GraphValueError:
        return False
    return True


def _exported(jax: Any, program: _Program, platforms: Sequence[str]) -> Any:
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        try:
            return portable(jax.jit(program.__call__), program.types(), platforms)
        except (ValueError, NotImplementedError) as error:
            reason = " ".join(str(error).split())[:300].rstrip(".")
            text = f"JAX cannot write this step as a portable program for {', '.join(platforms)}"
            raise GraphValueError(f"{text} ({reason}).") from error
