"""The ONNX model writer: operators, constants, inputs, outputs and subgraphs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

from graphls.base.errors import GraphTypeError
from graphls.ir.build import Names
from graphls.ir.graph import Node
from graphls.ir.types import DType, Type, as_dtype, float8_e8m0fnu, float32, type_of
from graphls.runtime.lowering.kernel_tables import ir_version
from graphls.runtime.lowering.protos import clean, names_read
from graphls.runtime.lowering.target import Target
from graphls.runtime.lowering.types import ELEMENT_TYPES, LOW_TYPES, describe
from graphls.runtime.lowering.weights import SMALLEST, Weights, bytes_of


class TensorNames(Names):
    """Distinct names of tensors, which are UTF-8 and not empty."""

    def fresh(self, wish: str) -> str:
        """The wish, with lone surrogates escaped, or with a number behind it."""
        return super().fresh(clean(wish) or "value")


class Position(NamedTuple):
    """A position of the writer: the number of operators in the current graph, and of constants in the model."""

    operators: int
    constants: int


class Writer:
    """A model under construction.

    Operators are appended to `body`, the graph of the model or the body of an operator, on behalf of `node`, the one
    that is being lowered. `casts` and `pads` are the results of Cast and Pad, and `origins` maps the name of each
    operator to its node. `inexact` are constants that had to be rounded.
    """

    def __init__(self, name: str, target: Target) -> None:
        self.target = target
        self.main = GraphProto(name=clean(name))
        self.body = self.main
        self.node: Node | None = None
        self.names = TensorNames()
        self.constants: dict[tuple[Type, bytes], str] = {}
        self.inexact: set[str] = set()
        self.weights = Weights()
        self.casts: set[str] = set()
        self.pads: set[str] = set()
        self.origins: dict[str, Node] = {}
        self._domains: set[str] = set()
        self._defined: tuple[GraphProto | None, set[str]] = (None, set())
        self._read: tuple[GraphProto | None, set[str]] = (None, set())

    @property
    def is_gpu(self) -> bool:
        """True in a model for a GPU, which has its own kernels and gaps among them."""
        return self.target.is_gpu

    @property
    def runs_as_written(self) -> bool:
        """True if the runtime keeps the emitted operators, so that rules choose the fastest form."""
        return self.target.runs_as_written

    @property
    def opset(self) -> int:
        """The ONNX opset version of the model."""
        return self.target.opset

    def model(self) -> ModelProto:
        """The model written so far."""
        opsets = [onnx.helper.make_opsetid("", self.opset)]
        opsets += [onnx.helper.make_opsetid(domain, 1) for domain in sorted(self._domains)]
        version = ir_version(self.opset)
        return onnx.helper.make_model(self.main, opset_imports=opsets, ir_version=version, producer_name="graphls")

    def operator(
        self, kind: str, inputs: Sequence[str], attributes: Mapping[str, Any] | None = None, domain: str = ""
    ) -> str:
        """Append an operator of ONNX, or of another domain such as "com.microsoft"; returns the name of its result."""
        (name,) = self.results(kind, inputs, attributes or {}, 1, domain)
        return name

    def results(
        self, kind: str, inputs: Sequence[str], attributes: Mapping[str, Any], count: int, domain: str = ""
    ) -> tuple[str, ...]:
        """Append an operator with several results; returns their names."""
        hint = self.node.outputs[0].name if self.node is not None and self.node.outputs else kind.lower()
        names = tuple(self.names.fresh(hint) for _ in range(count))
        proto = self.body.node.add(op_type=kind, name=self._node_name(names[0], kind), domain=domain)
        if not all(isinstance(name, str) for name in inputs):
            wrong = next(name for name in inputs if not isinstance(name, str))
            text = f"{kind} takes names of tensors, not {wrong!r}; make a constant of it: e.const(value, float32)."
            raise GraphTypeError(text)
        proto.input.extend(inputs)
        proto.output.extend(names)
        _set_attributes(proto, attributes)
        if kind == "Cast":
            self.casts.update(names)
        if kind == "Pad" or (kind == "Identity" and inputs[0] in self.pads):
            self.pads.update(names)
        if self.node is not None:
            self.origins[proto.name] = self.node
        if domain:
            self._domains.add(domain)
        if self._defined[0] is self.body:
            self._defined[1].update(names)
        return names

    def _node_name(self, output: str, kind: str) -> str:
        node = self.node
        scope = clean(node.scope).replace(".", "/") if node is not None else ""
        return "/".join(filter(None, (node.phase if node is not None else "", scope, kind, output)))

    def is_padded(self, name: str) -> bool:
        """True for the result of a Pad."""
        return name in self.pads

    def cast(self, name: str, dtype: DType, saturate: bool = True) -> str:
        """The tensor in another dtype; `saturate` is of casts to low dtypes."""
        if not dtype.is_low:
            return self.operator("Cast", [name], {"to": ELEMENT_TYPES[dtype]})
        attributes: dict[str, Any] = {"to": LOW_TYPES[dtype], "saturate": saturate}
        if dtype is float8_e8m0fnu:
            attributes["round_mode"] = "nearest"
        return self.operator("Cast", [name], attributes)

    def as_single(self, name: str, kind: Type) -> str:
        """A tensor in float32."""
        return name if kind.dtype is float32 else self.cast(name, float32)

    def total(self, names: Sequence[str]) -> str:
        """The sum of float32 scalars."""
        return self.operator("Sum", names) if len(names) > 1 else names[0]

    def position(self) -> Position:
        """The current position of the writer."""
        return Position(len(self.body.node), len(self.constants))

    def written_since(self, position: Position) -> Sequence[NodeProto]:
        """The operators appended since a position of the current graph."""
        return list(self.body.node[position.operators :])

    def remove_since(self, position: Position) -> None:
        """Remove the operators appended since a position of the current graph, and the constants added for them."""
        for operator in self.written_since(position):
            self.origins.pop(operator.name, None)
        del self.body.node[position.operators :]
        del self.main.initializer[position.constants :]
        while len(self.constants) > position.constants:
            _, name = self.constants.popitem()
            self.weights.outside.pop(name, None)

    def const(self, value: Any, dtype: DType | None = None) -> str:
        """A constant array or number; equal ones are stored once."""
        exact = np.asarray(value)
        array = np.ascontiguousarray(exact.astype((dtype or as_dtype(exact.dtype)).numpy)).reshape(exact.shape)
        if as_dtype(array.dtype).is_low:
            array = array.astype(np.float32)
        kind = type_of(array)
        key = (kind, array.tobytes() if array.nbytes <= SMALLEST else blake2b(bytes_of(array)).digest())
        if key not in self.constants:
            name = self.constants[key] = self.names.fresh("constant")
            tensor = self.main.initializer.add(name=name, data_type=ELEMENT_TYPES[kind.dtype], dims=kind.shape)
            self.weights.fill(tensor, array)
        if kind.dtype.is_half and not np.array_equal(array.astype(exact.dtype), exact):
            self.inexact.add(self.constants[key])
        return self.constants[key]

    constant = const

    def ints(self, values: Iterable[int]) -> str:
        """A constant list of int64, such as a shape or axes."""
        return self.const(np.array(list(values), np.int64))

    def add_parameter(self, wish: str, kind: Type) -> str:
        """A new input of the current graph."""
        name = self.names.fresh(wish)
        describe(self.body.input.add(), name, kind)
        return name

    def yielded(self, name: str, kind: Type, used: set[str]) -> str:
        """Add a tensor as an output of the current graph; `used` and captured tensors are copied first."""
        if name in used or name not in self._defined_here() or self._is_read_on_the_host(name, kind):
            name = self.operator("Identity", [name])
        used.add(name)
        self.yield_from_branch(name, kind)
        return name

    def yield_from_branch(self, name: str, kind: Type) -> None:
        """Add a tensor as an output of the current graph without a copy."""
        describe(self.body.output.add(), name, kind)

    def _defined_here(self) -> set[str]:
        if self._defined[0] is not self.body:
            self._defined = self.body, {name for proto in self.body.node for name in proto.output}
        return self._defined[1]

    def _is_read_on_the_host(self, name: str, kind: Type) -> bool:
        """True if an operator of a GPU may read a tensor in host memory, such as a condition or indices.

        ONNX Runtime (1.31.1) writes an output into the buffer that is bound for it, in the memory of the GPU, and an If
        that has it as its condition ends the process; so such an output of a graph or a body is a copy.
        """
        if not self.is_gpu or kind.dtype.kind not in ("bool", "int"):
            return False
        if self._read[0] is not self.body:
            self._read = self.body, set(names_read(self.body.node))
        return name in self._read[1]

    @contextmanager
    def branch_body(self, body: GraphProto) -> Iterator[None]:
        """Append operators to the body of a branch, which may capture tensors defined before it."""
        outer, self.body = self.body, body
        try:
            yield
        finally:
            self.body = outer


def _set_attributes(proto: NodeProto, attributes: Mapping[str, Any]) -> None:
    for name, value in attributes.items():
        attribute = proto.attribute.add(name=name)
        if isinstance(value, GraphProto):
            attribute.type = AttributeProto.GRAPH
            attribute.g.CopyFrom(value)
        elif isinstance(value, (bool, int, np.integer)):
            attribute.type, attribute.i = AttributeProto.INT, int(value)
        elif isinstance(value, float):
            attribute.type, attribute.f = AttributeProto.FLOAT, value
        elif isinstance(value, str):
            attribute.type, attribute.s = AttributeProto.STRING, value.encode()
        elif isinstance(value, (tuple, list)) and value and all(isinstance(item, str) for item in value):
            attribute.type = AttributeProto.STRINGS
            attribute.strings.extend(item.encode() for item in value)
        elif isinstance(value, (tuple, list)):
            attribute.type = AttributeProto.INTS
            attribute.ints.extend(value)
        else:
            text = f"{proto.op_type} cannot have an attribute {name!r} of {value!r}; take numbers or texts."
            raise GraphTypeError(text)
