"""The interpreter of models in a trace: each node runs by its rule, on tensors of the graph or on known arrays."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from onnx import TypeProto, helper

from graphls import ops
from graphls.base.errors import GraphlsError, GraphMemoryError, GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Tensor
from graphls.frontend.trace.casting import in_dtype
from graphls.frontend.trace.tracer import current_tracer
from graphls.onnx.dynamic_fallback import DynamicFallback
from graphls.onnx.program import Argument, Block, OnnxNode, Reference, expanded
from graphls.onnx.table import Entry
from graphls.onnx.tensors import Stored
from graphls.onnx.values import (
    DependsOnData,
    Dynamic,
    Input,
    ModelValue,
    Quantized,
    Span,
    array_of,
    float_type,
    is_known,
    plain,
    value_of,
)
from graphls.ops.state import stop_gradient

Values = ChainMap[str, ModelValue]
_FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
"""Exceptions of rules for inputs and attributes that do not fit, where rules do not check them."""


MOST_NODES = 1_000_000
"""The limit of operators in a trace, which unrolled loops inside of each other may reach."""


_PASSING = ("Cast", "CastLike", "Identity")
_MOVING = frozenset((
    "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "MaxPool", "Pad",
    "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where",
))  # fmt: skip
"""Operators that only move, drop or select elements: the floats of a Quantized pass through them, too."""


class Owner(Protocol):
    """The part of a cell that the interpreter uses."""

    training: bool

    def constant(self, stored: Stored) -> Input:
        """The parameter of a trainable constant, else its value."""


@dataclass
class Running:
    """The running node, for rules that take it."""

    interpreter: Interpreter
    node: OnnxNode
    values: Values

    @property
    def version(self) -> int:
        """The version of the operator's domain that the model imports."""
        return self.node.version

    @property
    def training(self) -> bool:
        """True in training mode."""
        return self.interpreter.owner.training

    @property
    def is_exact(self) -> bool:
        """True in a module of PyTorch, see `Interpreter`."""
        return self.interpreter.is_exact

    @property
    def outputs(self) -> int:
        """The number of results, including unnamed ones between others."""
        return len(self.node.outputs)

    def is_used(self, number: int) -> bool:
        """True for a result that has a name."""
        return number < self.outputs and bool(self.node.outputs[number])

    def is_read_by(self, *kinds: str) -> bool:
        """True if an operator of these kinds reads a result of the node, directly or through casts."""
        worklist, seen = list(self.node.readers), {self.node}
        while worklist:
            reader = worklist.pop()
            if reader.kind in kinds:
                return True
            if reader.kind in _PASSING and reader not in seen:
                seen.add(reader)
                worklist += reader.readers
        return False

    def run(self, block: Block, *inputs: ModelValue) -> list[ModelValue]:
        """The results of a graph among the attributes, which may capture the values around the node."""
        results = self.interpreter.run(block, inputs, self.values)
        for result in results:
            if isinstance(result, Dynamic):
                raise DependsOnData(result.cause)
        return results


class Interpreter:
    """Runs the program of a model for a cell.

    With `is_exact`, as for modules of PyTorch, the attributes of operators say which of them train, in a program of one
    mode, and running variances follow those of the sample.
    """

    def __init__(self, owner: Owner, fallback: DynamicFallback | None = None, is_exact: bool = False) -> None:
        self.owner = owner
        self.is_exact = is_exact
        self.fallback = fallback
        self.count = 0
        self.main: Values = ChainMap()
        """The tensors of the block that has the fallback, by name."""

    def run(
        self, block: Block, inputs: Sequence[ModelValue], around: Values | None = None,
        attributes: Mapping[str, Argument] = {}, used: Sequence[str] | None = None,
    ) -> list[ModelValue]:  # fmt: skip
        """The outputs of a block for its inputs; for a function, `attributes` and the names of results of the call."""
        values = ChainMap({}, *(() if around is None else around.maps))
        values.update(zip(block.inputs, inputs, strict=False))
        values.update((name, self.owner.constant(stored)) for name, stored in block.constants.items())
        for node in block.nodes:
            results = self._node(node, values, attributes)
            if self.fallback is not None and self.fallback.block is block:
                results = self.fallback.resolved(node, results, values)
            values.update((name, result) for name, result in zip(node.outputs, results, strict=False) if name)
        if self.fallback is not None and self.fallback.block is block:
            self.main = values
        if used is None:
            return [self._output(name, values) for name in block.outputs]
        pairs = zip(block.outputs, used, strict=False)
        return [self._output(name, values) if is_used else None for name, is_used in pairs]

    def _output(self, name: str, values: Values) -> ModelValue:
        if name not in values:
            raise GraphValueError(f"The model gives the tensor {name!r}, which nothing defines; export it again.")
        return values[name]

    def _node(self, node: OnnxNode, values: Values, attributes: Mapping[str, Argument]) -> Sequence[ModelValue]:
        """The results of a node; raises GraphlsError that names it."""
        self.count += 1
        if self.count > MOST_NODES:
            raise _named(GraphValueError, node, f"unrolled loops make more than {MOST_NODES} operators.")
        with self._inside(node):
            try:
                return self._results(node, values, attributes)
            except DependsOnData as error:
                return [Dynamic(str(error)) for _ in node.outputs]
            except GraphlsError as error:
                if getattr(error, "names_node", False):
                    raise
                raise _named(type(error), node, error.message) from error
            except _FAULTS as error:
                text = f"{error}." if str(error) else f"{type(error).__name__}."
                kind = GraphMemoryError if isinstance(error, MemoryError) else GraphValueError
                raise _named(kind, node, text) from error

    def _results(self, node: OnnxNode, values: Values, attributes: Mapping[str, Argument]) -> Sequence[ModelValue]:
        inputs = [self._input(name, values) for name in node.inputs]
        for value in inputs:
            if isinstance(value, Dynamic) and not (isinstance(value, Span) and node.entry and node.entry.spans):
                raise DependsOnData(value.cause)
        arguments = _resolved(node.attributes, attributes)
        if node.body is not None:
            inner = {**_resolved(node.body.defaults, {}), **arguments}
            return self.run(node.body, inputs, None, inner, node.outputs)
        if node.entry is None:
            return self._by_definition(node, inputs, arguments)
        if node.entry.quantized or not any(isinstance(value, Quantized) for value in inputs):
            return self._ruled(node, node.entry, inputs, values, arguments)
        results = self._ruled(node, node.entry, [plain(value) for value in inputs], values, arguments)
        if node.domain or node.kind not in _MOVING:
            return results
        wide = self._ruled(node, node.entry, _floats_of(inputs), values, arguments)
        pairs = zip(results, wide, strict=True)
        return [_joined(y, w) for y, w in pairs]

    def _ruled(
        self, node: OnnxNode, entry: Entry, inputs: Sequence[ModelValue], values: Values,
        arguments: Mapping[str, Argument],
    ) -> Sequence[ModelValue]:  # fmt: skip
        """The results by the rule of an operator."""
        running = [Running(self, node, values)] if entry.takes_node else []
        operands = [self._operand(node, i, value) for i, value in enumerate(self._cast(node, list(inputs)))]
        results = entry.rule(*running, *operands, **arguments)
        if node.is_detached and isinstance(results, Tensor):
            results = stop_gradient(results)
        return results if isinstance(results, tuple) else (results,)

    def _input(self, name: str, values: Values) -> ModelValue:
        if not name:
            return None
        if name not in values:
            raise GraphValueError(f"it reads the tensor {name!r}, which nothing defines; export the model again.")
        return values[name]

    def _operand(self, node: OnnxNode, number: int, value: ModelValue) -> ModelValue:
        """An input as the rule takes it: an array for an input that must be known."""
        if value is None or node.entry is None or number not in node.entry.known:
            return value
        try:
            return array_of(value)
        except GraphValueError as error:
            text = f"its input {node.inputs[number]!r} must be known: {error.message}"
            text = "the shape of its result depends on data" if node.entry.data_dependent else text
            raise DependsOnData(f"The operator {node}: {text}") from None

    def _cast(self, node: OnnxNode, inputs: list[ModelValue]) -> list[ModelValue]:
        """The inputs; in a 16-bit network, known floats beside tensors of the graph are cast to 16 bits."""
        dtype = float_type()
        if dtype is None or all(map(is_known, inputs)) or node.entry is None:
            return inputs
        known = node.entry.known
        return [in_dtype(v, dtype) if is_known(v) and i not in known else v for i, v in enumerate(inputs)]

    def _by_definition(
        self, node: OnnxNode, inputs: list[ModelValue], arguments: Mapping[str, Argument]
    ) -> Sequence[ModelValue]:
        """The results by the definition that ONNX gives for inputs of these types."""
        block, faults = expanded(node, arguments, [_type_of(plain(value)).SerializeToString() for value in inputs])
        if faults:
            raise GraphValueError(f"ONNX defines it by operators that are not in the table: {', '.join(faults)}.")
        return self.run(block, inputs, None, {**block.defaults, **arguments}, node.outputs)

    @contextmanager
    def _inside(self, node: OnnxNode) -> Iterator[None]:
        """Traces under the scope and the source line of a node."""
        tracer = current_tracer()
        if tracer is None:
            yield
            return
        here = tracer.here
        parts = (here.scope, node.origin.scope, node.name.rpartition("/")[2])
        with tracer.inside(scope=".".join(filter(None, parts)), loc=node.origin.loc or here.loc):
            yield


def _joined(integers: ModelValue, floats: ModelValue) -> ModelValue:
    """A result as integers and as floats, where it is both; indices are integers only."""
    is_both = isinstance(integers, Tensor) and isinstance(floats, Tensor) and floats.dtype.is_float
    return Quantized(integers, floats) if is_both else integers  # type: ignore[arg-type]


def _floats_of(inputs: Sequence[ModelValue]) -> list[ModelValue]:
    """The inputs with the floats of what is Quantized, and constant integers of the same dtype as floats."""
    first = next(value for value in inputs if isinstance(value, Quantized))
    dtype, wide = first.integers.dtype, first.wide.dtype

    def floats(value: ModelValue) -> ModelValue:
        if isinstance(value, Quantized):
            return ops.cast(value.wide, wide)
        is_element = isinstance(value, Tensor) and value.dtype is dtype and dtype.itemsize == 1
        return ops.cast(value, wide) if is_element else value

    return list(map(floats, inputs))


def _resolved(attributes: Mapping[str, Argument], around: Mapping[str, Argument]) -> dict[str, Argument]:
    """Attributes, with references replaced by attributes of the function around, and constants by their values."""
    arguments: dict[str, Argument] = {}
    for name, value in attributes.items():
        if isinstance(value, Reference):
            if value.name not in around:
                continue
            value = around[value.name]
        arguments[name] = value_of(value.array) if isinstance(value, Stored) else value
    return arguments


def _named(kind: type[GraphlsError], node: OnnxNode, message: str) -> GraphlsError:
    error = kind(f"The operator {node}: {message}", node.origin.loc)
    error.names_node = True  # type: ignore[attr-defined]
    return error


def _type_of(value: ModelValue) -> TypeProto:
    if value is None:
        return TypeProto()
    if isinstance(value, np.ndarray):
        return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
    if isinstance(value, list):
        return helper.make_sequence_type_proto(_type_of(value[0]) if value else helper.make_tensor_type_proto(1, None))
    if isinstance(value, Tensor):
        number = helper.np_dtype_to_tensor_dtype(value.dtype.numpy)
        return helper.make_tensor_type_proto(number, value.shape)
    raise GraphTypeError(f"it takes tensors, not {type(value).__name__}.")
