"""The text form of graphs: `parse(dump(graph))` gives the graph back, names and lines included."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError
from graphls.base.location import CELL, Location
from graphls.ir.arrays import dump_array
from graphls.ir.graph import Graph, Node, Value, Write
from graphls.ir.types import DType

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.]+")
_PLAIN_FILE = re.compile(rf"[A-Za-z0-9_./\\<>-]+|{CELL}", re.ASCII)


def dump(graph: Graph) -> str:
    """The complete graph as text.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls.ir import dump, parse, same
        >>> graph = graphls.trace_graph(lambda x: x * x, np.ones(2, np.float32)).graph
        >>> same(parse(dump(graph)), graph)
        True
    """
    return "\n".join(line for line, _ in lines(graph)) + "\n"


def lines(graph: Graph) -> Iterator[tuple[str, object]]:
    """The text line by line, each with the Node, Write or state that it shows.

    The first line is that of the Graph, and a line of results (`return`, `yield`) that of the tuple of outputs.
    """
    yield f"graph @{quoted(graph.name)}{_mesh(graph)}({declarations(graph.inputs)}) {{", graph
    for state in graph.states:
        yield f"  state {declarations([state])}", state
    for node in graph.nodes:
        yield from _node_lines(node, "  ")
    for write in graph.writes:
        yield f"  {written(write)}", write
    yield f"  return {references(graph.outputs)}".rstrip(), graph.outputs
    yield "}", None


def _mesh(graph: Graph) -> str:
    return "" if graph.mesh is None else f" {graph.mesh} "


def reference(value: Value) -> str:
    """The text of a reference to a value: `%x`, or `@w` for a state."""
    return ("@" if value.is_state else "%") + quoted(value.name)


def written(write: Write) -> str:
    """The text of a write: `@w <- %new in place`."""
    return f"{reference(write.state)} <- {reference(write.value)}{' in place' if write.in_place else ''}"


def references(values: Iterable[Value]) -> str:
    """The text of a list of values: `%x, @w`."""
    return ", ".join(map(reference, values))


def declarations(values: Iterable[Value]) -> str:
    """The text of inputs and parameters with their types: `%x: f32[4], %y: i64[]`."""
    return ", ".join(f"{reference(value)}: {value.type_text}" for value in values)


def quoted(text: str, plain: re.Pattern[str] = _PLAIN_NAME) -> str:
    """A name, a path of cells or a file: unchanged where it is plain, else as a JSON string."""
    return text if plain.fullmatch(text) else json.dumps(text)


def _node_lines(node: Node, indent: str) -> Iterator[tuple[str, object]]:
    text = indent
    if node.outputs:
        text += f"{references(node.outputs)} = "
    text += f"{node.primitive.name}({references(node.inputs)})"
    if node.attrs:
        text += f" {{{_attribute_parts(node.attrs)}}}"
    if node.after:
        text += f" after({references(node.after)})"
    if node.outputs:
        text += " : " + ", ".join(v.type_text for v in node.outputs)
    for region in node.regions:
        text += " region"
        if region.inputs:
            text += f"({declarations(region.inputs)})"
        yield text + " {", node
        for inner in region.nodes:
            yield from _node_lines(inner, indent + "  ")
        yield f"{indent}  yield {references(region.outputs)}".rstrip(), region.outputs
        text = indent + "}"
    yield f"{text}  // {_metadata(node)}", node


def _metadata(node: Node) -> str:
    text = node.phase
    if node.scope:
        text += f" {quoted(node.scope)}"
    text += _stage(node)
    if node.loc:
        text += f" | {quoted(node.loc.file, _PLAIN_FILE)}{node.loc.before_line}{node.loc.line}"
    return text


def _stage(node: Node) -> str:
    stage = "" if node.stage is None else f" stage {node.stage}"
    return stage if node.micro is None else f"{stage} micro {node.micro}"


_METADATA = re.compile(
    rf"""//\ (?P<phase>forward|backward|check|update)
    (?:\ (?P<scope>[A-Za-z0-9_.]+|"(?:[^"\\]|\\.)*"))?
    (?:\ stage\ (?P<stage>\d{{1,9}}))?(?:\ micro\ (?P<micro>\d{{1,9}}))?
    (?:\ \|\ (?P<file>{_PLAIN_FILE.pattern}|"(?:[^"\\]|\\.)*")
    (?::|,\ line\ )(?P<line>-?\d{{1,18}}))?\s*""",
    re.VERBOSE | re.ASCII,
)


Metadata = tuple[str, str, Location | None, int | None, int | None]


def parse_metadata(comment: str) -> Metadata | None:
    """Phase, scope, line, stage and part from a node's comment; None for a comment that is only a remark."""
    match = _METADATA.fullmatch(comment)
    if match is None:
        return None
    try:
        scope, file = _unquote(match["scope"] or ""), _unquote(match["file"] or "")
    except ValueError:
        return None
    loc = Location(file, int(match["line"])) if match["file"] else None
    stage, micro = (int(match[name]) if match[name] else None for name in ("stage", "micro"))
    return match["phase"], scope, loc, stage, micro


def _unquote(text: str) -> str:
    return str(json.loads(text)) if text.startswith('"') else text


def _attribute_parts(attrs: Mapping[str, object]) -> str:
    return ", ".join(f"{key}={attribute_text(value)}" for key, value in attrs.items())


def attribute_text(value: object) -> str:
    """An attribute value as text: numbers, strings, dtypes, tuples and arrays; raises GraphTypeError for others."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return float.__repr__(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, DType):
        return value.name
    if isinstance(value, tuple):
        return f"[{', '.join(map(attribute_text, value))}]"
    if isinstance(value, np.ndarray):
        return dump_array(value)
    raise GraphTypeError(f"{value!r} cannot be an attribute of a node; use numbers, strings, dtypes, tuples or arrays.")


Graph.text = dump


def digest(graph: Graph) -> str:
    """A hash of the text form without the user's lines; raises GraphTypeError as `dump` does."""
    hash = hashlib.sha256()
    for part in _graph_parts(graph):
        hash.update(part.encode("utf-8", "surrogatepass"))
        hash.update(b"\n")
    return hash.hexdigest()


def _graph_parts(graph: Graph) -> Iterator[str]:
    yield f"graph {quoted(graph.name)}{_mesh(graph)} {declarations(graph.inputs)}"
    yield f"states {declarations(graph.states)}"
    for node in graph.nodes:
        yield from _node_parts(node)
    yield from map(written, graph.writes)
    yield f"return {references(graph.outputs)}"


def _node_parts(node: Node) -> Iterator[str]:
    yield f"{node.primitive.name} {references(node.inputs)} after {references(node.after)}"
    yield f"to {declarations(node.outputs)} in {node.phase} {quoted(node.scope)}{_stage(node)}"
    yield from _hashed_attributes(node.attrs)
    for region in node.regions:
        yield from _graph_parts(region)


def _hashed_attributes(attrs: Mapping[str, object]) -> Iterator[str]:
    for name, value in attrs.items():
        yield f"{name} {_of_array(value) if isinstance(value, np.ndarray) else attribute_text(value)}"


def _of_array(array: np.ndarray[Any, Any]) -> str:
    """Type and hash of an array, whose text could be longer than memory."""
    data: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return f"{array.dtype} {array.shape} {hashlib.sha256(data).hexdigest()}"
