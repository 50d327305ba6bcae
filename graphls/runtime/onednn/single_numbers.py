"""Updates of single numbers, such as a loss scale and counts of steps, by NumPy in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from graphls.ir.graph import Node, Value
from graphls.ir.types import TOKEN, float32
from graphls.runtime.onednn.numpy_nodes import Arrays, OnArrays, ufunc_of
from graphls.runtime.onednn.program.arena import Buffer
from graphls.runtime.onednn.program.program import Group, Program

Array = np.ndarray[Any, Any]

EXACT = frozenset((
    np.add, np.subtract, np.multiply, np.negative, np.equal, np.not_equal, np.less, np.less_equal, np.greater,
    np.greater_equal, np.logical_and, np.logical_or, np.logical_not,
))  # fmt: skip
"""Functions of NumPy that give the numbers of every other engine, to the last bit."""


def _choose(condition: Array, x: Array, y: Array, out: Array) -> None:
    out[...] = x if condition else y


FUNCTIONS: Mapping[str, Callable[..., object]] = {"where": _choose, "maximum": np.maximum, "minimum": np.minimum}
"""Such functions of primitives whose rule for NumPy is another one."""


def single_numbers(nodes: Sequence[Node], definer: Mapping[Value, Node]) -> Iterator[Group]:
    """The groups of nodes of updates that compute one number each from others, constants and overflow flags.

    Those that wait for one flag, and for none behind it, are a group, as others may be read before it.
    """
    levels: dict[Value, int] = {}
    groups: dict[int, list[Node]] = {}
    count = 0
    for node in nodes:
        if node.primitive.is_check:
            count += 1
            levels[node.output] = count
        elif is_single(node) and all(v in levels or _is_there(v, definer) for v in node.inputs):
            levels[node.output] = level = max((levels.get(v, 0) for v in node.inputs), default=0)
            groups.setdefault(level, []).append(node)
    for several in groups.values():
        if len(several) > 1:
            results = tuple(node.output for node in several)
            inputs = dict.fromkeys(v for node in several for v in node.inputs if v not in results)
            yield Group(tuple(several), tuple(inputs), results, partial(_emit, several))


def _is_there(value: Value, definer: Mapping[Value, Node]) -> bool:
    """Whether a value is there before the first call."""
    return value not in definer or definer[value].primitive.is_constant


def is_single(node: Node) -> bool:
    """Whether a node of an update computes one number, exactly."""
    values = (*node.inputs, *node.outputs)
    is_update = node.phase == "update" and not node.regions and not node.attrs
    if not is_update or any(v.type == TOKEN or v.type.stacked or v.type.size != 1 for v in values):
        return False
    if any(v.type.dtype.is_float and v.type.dtype is not float32 for v in values):
        return False
    return _function_of(node) is not None


def _function_of(node: Node) -> Callable[..., object] | None:
    """The function that computes a node from its operands in a result, `out`; None for one that may round otherwise."""
    function = ufunc_of(node)
    return function if function in EXACT else FUNCTIONS.get(node.primitive.name)


def _emit(nodes: Sequence[Node], program: Program) -> None:
    for node in nodes:
        program.place(node.output, Buffer(node.output.type.nbytes))
    program.append(Numbers(nodes, {v: program.memory_of(v) for node in nodes for v in (*node.inputs, node.output)}))


@dataclass(eq=False)
class Numbers(OnArrays):
    """Nodes that compute one number each."""

    nodes: Sequence[Node]
    buffers: Mapping[Value, Buffer]
    kind = "numbers"

    def __post_init__(self) -> None:
        self.node = self.nodes[-1]
        self.writes = [self.buffers[node.output] for node in self.nodes]
        self.reads = [buffer for buffer in dict.fromkeys(self.buffers.values()) if buffer not in self.writes]

    def bound(self, binding: Arrays) -> partial[None]:
        """The call on the arrays of a binding."""
        arrays = {value: binding.array(buffer, value.type) for value, buffer in self.buffers.items()}
        return partial(_run, [_call(node, arrays) for node in self.nodes])


def _call(node: Node, arrays: Mapping[Value, Array]) -> partial[object]:
    function = _function_of(node)
    assert function is not None, "Only nodes with a function come here."
    return partial(function, *(arrays[v] for v in node.inputs), out=arrays[node.output])


def _run(functions: Sequence[Callable[[], object]]) -> None:
    with np.errstate(all="ignore"):
        for function in functions:
            function()
