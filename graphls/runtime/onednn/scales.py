"""Scales of low precision, from absolute maxima and states: few numbers, which NumPy computes to the last bit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from graphls.ir.graph import Node, Value
from graphls.ir.types import TOKEN, float16, float32
from graphls.passes.rewriter import users
from graphls.runtime.lowering.types import held
from graphls.runtime.onednn.numpy_nodes import Arrays, OnArrays, function_of, is_in_place, unguarded
from graphls.runtime.onednn.program.arena import Buffer
from graphls.runtime.onednn.program.calls import Array
from graphls.runtime.onednn.program.program import Group, Program

SCALED = ("quantize", "dequantize")
"""Primitives whose second operand is a scale."""
PART = 1 << 13
"""Elements that NumPy computes at a time."""
MOST_OTHERS = 1 << 14
"""The most elements of what scales are computed from besides maxima, such as a history of these."""


def scales(nodes: Sequence[Node], results: Collection[Value], definer: Mapping[Value, Node]) -> Iterator[Group]:
    """The groups of nodes that compute scales, those that depend on each other in one.

    The reciprocal of oneDNN times a number is not their quotient to the last bit, as that of every other engine is.
    """
    if {node.primitive.name for node in nodes}.isdisjoint(("absolute_maximum", *SCALED)):
        return
    members = _members(nodes, definer)
    leaving, readers = {*results}, users(nodes)
    for several in _together(nodes, members, definer):
        inner = {*several}
        outputs = tuple(
            v for node in several for v in node.outputs
            if v in leaving or any(reader not in inner for reader in readers.get(v, ()))
        )  # fmt: skip
        own = {v for node in several for v in node.outputs}
        inputs = dict.fromkeys(v for node in several for v in node.inputs if v not in own)
        if outputs:
            yield Group(tuple(several), tuple(inputs), outputs, partial(emit_numpy, several, outputs))


def _members(nodes: Sequence[Node], definer: Mapping[Value, Node]) -> set[Node]:
    """The nodes behind maxima, and those before the scale of a rounding."""
    members: set[Node] = set()
    maxima = {node.output for node in nodes if node.primitive.name == "absolute_maximum"}
    behind = set(maxima)
    for node in nodes:
        is_behind = any(v in behind for v in node.inputs)
        if is_behind and _is_small(node) and all(v in behind or _is_there(v, definer) for v in node.inputs):
            members.add(node)
            behind.update(node.outputs)
    names = [node.primitive.name for node in nodes]
    waiting = [node.inputs[1] for node, name in zip(nodes, names, strict=True) if name in SCALED]
    while waiting:
        maker = definer.get(waiting.pop())
        if maker is not None and maker not in members and maker.inputs and _is_small(maker):
            members.add(maker)
            waiting.extend(maker.inputs)
    return members


def _is_there(value: Value, definer: Mapping[Value, Node]) -> bool:
    """Whether a value of few numbers is there before the first call."""
    is_first = value not in definer or definer[value].primitive.is_constant
    return is_first and value.type != TOKEN and value.type.size <= MOST_OTHERS


def _is_small(node: Node) -> bool:
    """Whether a node has no more results than operands, and NumPy computes it."""
    does, values = node.primitive, (*node.inputs, *node.outputs)
    is_apart = node.regions or does.on_host or does.calls_python or does.has_effect or does.is_collective
    is_apart = is_apart or does.is_check or does.name in ("absolute_maximum", *SCALED)
    if is_apart or any(v.type == TOKEN or v.type.stacked or v.type.dtype is float16 for v in values):
        return False
    return 0 < sum(v.type.size for v in node.outputs) <= sum(v.type.size for v in node.inputs)


def _together(
    nodes: Sequence[Node], members: set[Node], definer: Mapping[Value, Node]
) -> Iterator[list[Node]]:  # fmt: skip
    """The members that depend on each other, without those that wait for others by way of what is no member."""
    levels: dict[Value, int] = {}
    groups: dict[Node, Node] = {}
    for node in nodes:
        inputs = [v for v in node.inputs if v in definer]
        leaves = any(definer[v] in members for v in inputs) and node not in members
        level = max((levels[v] for v in inputs), default=0) + leaves
        levels.update(dict.fromkeys(node.outputs, level))
        if node not in members:
            continue
        groups[node] = node
        for v in inputs:
            maker = definer[v]
            if maker in members and levels[v] == level and (maker.phase == "update") == (node.phase == "update"):
                _join(groups, maker, node)
    together: dict[Node, list[Node]] = defaultdict(list)
    for node in nodes:
        if node in members:
            together[_root(groups, node)].append(node)
    yield from together.values()


def _root(groups: Mapping[Node, Node], node: Node) -> Node:
    while groups[node] is not node:
        node = groups[node]
    return node


def _join(groups: dict[Node, Node], one: Node, other: Node) -> None:
    groups[_root(groups, other)] = _root(groups, one)


def emit_numpy(nodes: Sequence[Node], outputs: Sequence[Value], program: Program) -> None:
    """Append one call of NumPy for nodes, which gives some of their results."""
    own = {v for node in nodes for v in node.outputs}
    names = dict[Value, Value]()
    for node in nodes:
        source = names.get(node.inputs[0], node.inputs[0]) if _renames(node) else None
        if source in own:
            names[node.output] = source
    reads = {v: program.memory_of(v) for node in nodes for v in node.inputs if v not in own}
    results = {names.get(v, v): Buffer(held(v.type).nbytes) for v in outputs}
    for value in outputs:
        program.place(value, results[names.get(value, value)])
    program.append(Scales(nodes, reads, results, names))


def _renames(node: Node) -> bool:
    """Whether the result of a node is the memory of its operand: in another shape, or the float32 of a low dtype."""
    is_cast = node.primitive.name == "cast" and node.output.type.dtype is float32
    return node.primitive.name == "reshape" or (is_cast and node.inputs[0].type.dtype.is_low)


@dataclass(eq=False)
class Scales(OnArrays):
    """Nodes that NumPy computes one behind the other; results of low dtypes are float32 for others.

    Values with `names` are the memory of others.
    """

    nodes: Sequence[Node]
    operands: Mapping[Value, Buffer]
    results: Mapping[Value, Buffer]
    names: Mapping[Value, Value]
    kind = "scales"

    def __post_init__(self) -> None:
        self.node = self.nodes[-1]
        self.reads, self.writes = [*dict.fromkeys(self.operands.values())], [*self.results.values()]

    def bound(self, binding: Arrays) -> partial[Any]:
        """The call on the arrays of a binding."""
        buffers = {**self.operands, **self.results}
        arrays = {v: binding.array(buffer, held(v.type)) for v, buffer in buffers.items()}
        functions: list[Callable[[], object]] = []
        for length, group in groupby((node for node in self.nodes if node.outputs[0] not in self.names), _length):
            run = [*group]
            functions.extend(self._in_parts(run, arrays, length) if length else self._complete(run, arrays))
        return partial(_run, functions)

    def _complete(self, run: Sequence[Node], arrays: dict[Value, Array]) -> Iterator[Callable[[], object]]:
        for node in run:
            arrays.update({v: _empty(v, v.type.size) for v in node.outputs if v not in arrays})
            operands, results = ([self._array(v, arrays) for v in values] for values in (node.inputs, node.outputs))
            yield unguarded(function_of(node)(node, operands, results))

    def _array(self, value: Value, arrays: Mapping[Value, Array]) -> Array:
        return arrays[self.names.get(value, value)].reshape(value.type.shape)

    def _in_parts(
        self, run: Sequence[Node], arrays: dict[Value, Array], length: int
    ) -> Iterator[Callable[[], object]]:  # fmt: skip
        """The functions of nodes, part by part, so that what they alone read stays in the first-level cache."""
        others = {self.names.get(v, v) for node in self.nodes if node not in run for v in node.inputs}
        inner = {node.output for node in run} - arrays.keys() - others
        for node in run:
            if node.output not in arrays:
                arrays[node.output] = _empty(node.output, PART if node.output in inner else length)
        for start in range(0, length, PART):
            size = min(length - start, PART)
            for node in run:
                values = [self.names.get(v, v) for v in (*node.inputs, node.output)]
                *operands, result = (_part(arrays[v], 0 if v in inner else start, size) for v in values)
                yield unguarded(function_of(node)(node, operands, [result]))


def _length(node: Node) -> int:
    """The elements of the result of a node that is computed in parts; 0 for others.

    Operands are as many or single numbers, and a function computes any number of elements.
    """
    n = node.outputs[0].type.size
    is_by_elements = len(node.outputs) == 1 and n > PART and all(v.type.size in (1, n) for v in node.inputs)
    return n if is_by_elements and is_in_place(node) else 0


def _part(array: Array, start: int, size: int) -> Array:
    """Some elements of an array, or the only one."""
    flat = array.reshape(-1)
    return flat if flat.size == 1 else flat[start : start + size]


def _empty(value: Value, size: int) -> Array:
    return np.empty(size, held(value.type).dtype.numpy)


def _run(functions: Sequence[Callable[[], object]]) -> None:
    with np.errstate(all="ignore"):
        for function in functions:
            function()
