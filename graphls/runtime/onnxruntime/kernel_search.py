"""Kernel lookup for each operator of a model, with the tensors copied between devices."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import dataclass, field
from math import prod

from onnx import GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto

from graphls.runtime.lowering.kernel_tables import KernelTable, Signature, Types, signature
from graphls.runtime.lowering.protos import subgraphs, with_types
from graphls.runtime.lowering.types import ELEMENT_TYPES, KINDS

_KINDS: dict[int, str] = {number: KINDS[dtype] for dtype, number in ELEMENT_TYPES.items()} | {
    8: "string",
    14: "complex64",
    15: "complex128",
    17: "float8e4m3fn",
    18: "float8e4m3fnuz",
    19: "float8e5m2",
}
_SIZES: dict[str, int] = {kind: dtype.itemsize for dtype, kind in KINDS.items()}


@dataclass
class Tensor:
    """A tensor of a model: its element type, its bytes, its device, and the operators that compute and read it.

    `device` is "" for a constant, which is available on every device; `maker` and `readers` are operators by their
    numbers, the readers by the devices that they run on, the first on each.
    """

    kind: str = ""
    bytes: int = 0
    device: str = ""
    maker: int | None = None
    readers: dict[str, int] = field(default_factory=dict)


Scope = ChainMap[str, Tensor]


@dataclass(frozen=True)
class KernelChoice:
    """An operator, the device of its kernel, "" for none, and the reason where that is not the requested one."""

    proto: NodeProto
    device: str
    reason: str


class Search:
    """Assigns the operators of a model to a device with the kernels `own`, or else to the CPU."""

    def __init__(self, typed: ModelProto, device: str, own: KernelTable, cpu: KernelTable) -> None:
        self.device, self.own, self.cpu = device, own, cpu
        self.opsets = {entry.domain: entry.version for entry in typed.opset_import}
        self.tensors: list[tuple[str, Tensor]] = []
        self.choices: list[KernelChoice] = []
        self._walk(typed.graph, ChainMap())

    def _walk(self, graph: GraphProto, outer: Scope) -> None:
        """Assign the operators of a graph, each before those of its subgraphs."""
        is_main = not outer.maps[0]
        scope = outer.new_child(self._declared(graph))
        for proto in graph.node:
            self._assign(proto, scope)
            for _, inner in subgraphs(proto):
                self._walk(inner, scope)
        for info in graph.output if is_main else ():
            _read(scope, info.name, self.device, len(self.choices))

    def _declared(self, graph: GraphProto) -> dict[str, Tensor]:
        """The tensors that a graph declares; its inputs are on the device."""
        tensors = {info.name: _declared_tensor(info) for info in (*graph.output, *graph.value_info, *graph.input)}
        for info in graph.input:
            tensors[info.name].device = self.device
        for constant in graph.initializer:
            kind = _KINDS.get(constant.data_type, "")
            tensors[constant.name] = Tensor(kind, prod(constant.dims) * _SIZES.get(kind, 0))
        self.tensors += tensors.items()
        return tensors

    def _assign(self, proto: NodeProto, scope: Scope) -> None:
        its = signature(proto.op_type, self.opsets.get(proto.domain, 1), proto.domain)
        inputs, outputs = ([_kind(scope, name) for name in names] for names in (proto.input, proto.output))
        types = its.types(inputs, outputs) if its else {}
        if proto.op_type == "Constant":  # which the runtime turns into an initializer
            return self._make(proto, "", its, types, scope)
        device, reason = self._kernel(proto, its, types)
        for name in proto.input:
            _read(scope, name, device, len(self.choices))
        self._make(proto, device, its, types, scope)
        self.choices.append(KernelChoice(proto, device, reason))

    def _kernel(self, proto: NodeProto, its: Signature | None, types: Types) -> tuple[str, str]:
        operator, domain = proto.op_type, proto.domain
        since = its.since if its else self.opsets.get(domain, 1)
        if its and (fault := its.refuses(types)):
            return "", f"{fault} {operator}"
        reason = self.own.lacks(operator, since, types, domain)
        if not reason:
            return self.device, ""
        # Where no provider has a kernel of float16, the runtime computes it in float32 on the CPU.
        wide = {name: "float" if kind == "float16" else kind for name, kind in types.items()}
        if all(self.cpu.lacks(operator, since, kinds, domain) for kinds in (types, wide)):
            return (self.device, "") if its and its.is_composed else ("", reason)
        return "cpu", "" if self.device == "cpu" else reason

    def _make(self, proto: NodeProto, device: str, its: Signature | None, types: Types, scope: Scope) -> None:
        """Record the device of the results, and types that inference lacks from the signature."""
        kinds = [types.get(variable, "") for _, variable in its.outputs] if its else []
        for position, name in enumerate(proto.output):
            if name not in scope.maps[0]:
                scope[name] = Tensor()
                self.tensors.append((name, scope[name]))
            tensor = scope[name]
            tensor.kind = tensor.kind or (kinds[min(position, len(kinds) - 1)] if kinds else "")
            tensor.device, tensor.maker = device, len(self.choices) if device else None

    def copies(self) -> dict[int, list[int]]:
        """The bytes of each tensor that is read on another device, by the numbers of the operators on the CPU."""
        copies: dict[int, list[int]] = {}
        for _, tensor in self.tensors:
            for device, reader in tensor.readers.items():
                if tensor.device and device and device != tensor.device:
                    number = reader if device == "cpu" or tensor.maker is None else tensor.maker
                    copies.setdefault(number, []).append(tensor.bytes)
        return copies


def element_types(model: ModelProto) -> dict[str, str]:
    """The element types of the tensors of a model by their names, as far as they can be inferred."""
    search = Search(with_types(model), "", KernelTable({}, ()), KernelTable({}, ()))
    return {name: tensor.kind for name, tensor in search.tensors}


def _kind(scope: Scope, name: str) -> str:
    return scope[name].kind if name in scope else ""


def _read(scope: Scope, name: str, device: str, number: int) -> None:
    if name in scope:
        scope[name].readers.setdefault(device, number)


def _declared_tensor(info: ValueInfoProto) -> Tensor:
    kind = _kind_of(info.type)
    is_known = info.type.tensor_type.HasField("shape")
    count = prod(dim.dim_value for dim in info.type.tensor_type.shape.dim) if is_known else 0
    return Tensor(kind, count * _SIZES.get(kind, 0))


def _kind_of(kind: TypeProto) -> str:
    """The name of an element type, or of a sequence or optional type with its element type."""
    if kind.HasField("sequence_type"):
        return f"seq({_kind_of(kind.sequence_type.elem_type)})"
    if kind.HasField("optional_type"):
        return f"optional({_kind_of(kind.optional_type.elem_type)})"
    return _KINDS.get(kind.tensor_type.elem_type, "")
