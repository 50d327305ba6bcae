"""Checks of the inputs of a compiled step before it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError, TraceError
from graphls.base.sharing.storage import array_in
from graphls.frontend.tensors.foreign import offers_array
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import leaves, map_leaves, structure
from graphls.frontend.tensors.tensor import DeferredData, Symbol, Tensor, array_of, as_known, is_number, is_tensor
from graphls.ir.compare import constant_key
from graphls.ir.graph import Graph, Node, Value
from graphls.ir.indices import are_below
from graphls.ir.types import Type, type_of

Array = np.ndarray[Any, Any]


class _Placeholder:
    """A singleton that keeps its identity when it is copied or pickled."""

    def __reduce__(self) -> str:
        return "TENSOR"


TENSOR = _Placeholder()
"""The placeholder of a tensor among the constants that a step was compiled for."""


def is_input(leaf: object) -> bool:
    """Whether an argument becomes an input of the graph: a tensor or an array that is not a parameter."""
    return is_tensor(leaf) and not isinstance(leaf, Parameter)


def static_inputs(item: object) -> Any:
    """Inputs as tensors: arrays are wrapped, pytrees and constants stay as they are."""
    return map_leaves(lambda leaf: Tensor.from_numpy(leaf) if _is_array(leaf) else leaf, item)


def _is_array(leaf: object) -> bool:
    return offers_array(leaf) and not isinstance(leaf, Tensor)


def read_inputs(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Inputs in which arrays of other libraries are NumPy arrays of the same memory; raises as `offered_array`."""
    return inputs if all(map(is_input, inputs)) else map_leaves(as_known, inputs)


class InputCheck:
    """The requirements of a step on its inputs; a call returns the arrays of inputs that meet them.

    `inputs` are those that the step was compiled for. `parts` are shapes of inputs of which a process may have only
    its own part.
    """

    def __init__(
        self, graph: Graph, inputs: tuple[object, ...], parts: Mapping[Value, tuple[int, ...]] = MappingProxyType({})
    ) -> None:
        self.graph = graph
        self.structure = structure(inputs)
        self.constants = [TENSOR if is_input(leaf) else leaf for leaf in leaves(inputs)]
        self.checks = input_checks(graph)
        self.alone = _alone(graph, inputs)
        self.is_flat = len(inputs) == len(graph.inputs)
        self.parts = parts
        self.types = [(v.type.dtype.numpy, (v.type.shape, parts.get(v, v.type.shape))) for v in graph.inputs]

    def __call__(self, inputs: tuple[object, ...]) -> Sequence[Any]:
        """The arrays of the inputs of the graph, in order.

        Raises GraphTypeError for a wrong number, nesting or dtype, GraphValueError for a wrong shape, another
        constant or content that the step cannot work with, such as a label out of range.
        """
        arrays = inputs if self.are_plain(inputs) else self.fitting(inputs)
        for index, node in self.checks:
            _check_content(self.graph.inputs[index], arrays[index], node)
        return arrays

    def are_plain(self, inputs: tuple[object, ...]) -> bool:
        """Whether all inputs are NumPy arrays that fit: a quick first test."""
        if not self.is_flat or len(inputs) != len(self.types):
            return False
        for x, (dtype, shapes) in zip(inputs, self.types, strict=True):  # no generator: it costs where caches are cold
            if type(x) is not np.ndarray or (x.dtype is not dtype and x.dtype != dtype) or x.shape not in shapes:
                return False
        return True

    def fitting(self, inputs: tuple[object, ...]) -> list[Any]:
        """The arrays of inputs in any pytree; raises as a call does.

        Arrays of other libraries are read, and where a tensor stands alone, so are numbers and lists of them.
        """
        if structure(inputs) != self.structure:
            inputs = tuple(map(_of_numbers, inputs, self.alone)) if len(inputs) == len(self.alone) else inputs
        if structure(inputs) != self.structure:
            raise GraphTypeError(
                f"This step was compiled for {len(self.graph.inputs)} tensors ({_listed(self.graph)}) and got "
                f"{len(inputs)} arguments of another number or nesting; call it as it was compiled.",
            )
        values = iter(self.graph.inputs)
        arrays = []
        for leaf, constant in zip(leaves(inputs), self.constants, strict=True):
            if constant is TENSOR:
                value = next(values)
                arrays.append(_fitting(value, leaf, self.parts.get(value)))
            elif leaf is not constant and constant_key(leaf) != constant_key(constant):
                raise GraphValueError(
                    f"This step was compiled for the constant {constant!r} and got {leaf!r}; compile it again for "
                    "that.",
                )
        return arrays


def _alone(graph: Graph, inputs: tuple[object, ...]) -> list[Value | None]:
    """For each argument its input of the graph, None where it is a constant or a pytree."""
    values = iter(graph.inputs)
    of_each = [[next(values) for leaf in leaves(item) if is_input(leaf)] for item in inputs]
    return [values_of[0] if is_input(item) else None for item, values_of in zip(inputs, of_each, strict=True)]


def _of_numbers(item: Any, value: Value | None) -> Any:
    """Numbers, or a list of them, as an array in the dtype of the input where that holds them; others as they are."""
    if value is None or not isinstance(item, (list, tuple) if value.type.shape else (bool, int, float)):
        return item
    if not all(map(is_number, leaves(item))):
        return item
    dtype = value.type.dtype
    if dtype.is_float:
        return array_of(item, dtype)
    array = array_of(item)
    cast = array if array.dtype.kind == "f" else array.astype(dtype.numpy)
    return cast if np.array_equal(cast, array) else array


def _listed(graph: Graph) -> str:
    return ", ".join(f"{v.name}: {v.type}" for v in graph.inputs)


def _fitting(value: Value, leaf: Any, part: tuple[int, ...] | None) -> Any:
    if isinstance(leaf, Symbol):
        raise TraceError(
            f"A compiled step takes numbers for {value.name!r}, not a tensor of a graph that is being traced; call the "
            "cell itself instead.",
        )
    if not is_input(leaf):
        leaf = _of_numbers(as_known(leaf), value)
        if not is_input(leaf):
            text = f"The input {value.name!r} of this step is a tensor, {value.type}, and cannot be {leaf!r}."
            raise GraphTypeError(text)
    kind = leaf.type if isinstance(leaf, Tensor) else type_of(leaf)
    if kind != value.type and (kind.dtype is not value.type.dtype or kind.shape != part):
        raise _misfit(value, kind, part)
    if isinstance(leaf, Tensor):
        return leaf.array if leaf._array is not None or isinstance(leaf._buffer, DeferredData) else leaf._buffer
    return array_of(leaf)


def _misfit(value: Value, kind: Type, part: tuple[int, ...] | None) -> Exception:
    text = f"The input {value.name!r} of this step is {value.type}, not {kind}; "
    if kind.dtype is not value.type.dtype:
        return GraphTypeError(f"{text}cast it with astype({value.type.dtype.long_name!r}).")
    if part not in (None, value.type.shape):
        return GraphValueError(f"{text}give all processes that, or each its own part, of the shape {part}.")
    return GraphValueError(f"{text}shapes are static, so compile the step again for another shape.")


def input_checks(graph: Graph) -> list[tuple[int, Node]]:
    """The `check_labels` nodes on inputs, or on elements of inputs in scans, each with the index of the input."""
    nodes, sources = list(_running(graph.nodes)), dict[Value, Value]()
    for node in nodes:
        if node.primitive.is_transparent:
            sources[node.output] = node.inputs[0]
        elif node.primitive.name == "scan":
            carries = node.attrs["carries"]
            sources.update(zip(node.regions[0].inputs[carries:], node.inputs[carries:], strict=True))
    index = {v: i for i, v in enumerate(graph.inputs)}
    checks = []
    for node in nodes:
        if node.primitive.name == "check_labels":
            value = node.inputs[0]
            while value in sources:
                value = sources[value]
            if value in index:
                checks.append((index[value], node))
    return checks


def _running(nodes: Iterable[Node]) -> Iterator[Node]:
    """The nodes that run in every step, also those in scans."""
    for node in nodes:
        yield node
        if node.primitive.name == "scan":
            yield from _running(node.regions[0].nodes)


def _check_content(value: Value, buffer: Any, node: Node) -> None:
    array, classes = array_in(buffer), node.attrs.get("classes")
    if classes is not None and are_below(array, classes):
        return
    try:
        node.primitive.evaluate((array,), node.attrs, (value.type,))
    except GraphValueError as error:
        raise GraphValueError(f"The input {value.name!r} cannot be used: {error.message}", node.loc) from None
