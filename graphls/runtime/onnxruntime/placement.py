"""Operator placement of a model: on the device, on the CPU, or refused.

It is predicted from the tables of kernels (lowering/kernel_tables.py), and needs neither a card nor the runtime.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from onnx import ModelProto, NodeProto

from graphls.base.text.plain import shown, size
from graphls.ir.graph import Node
from graphls.runtime.lowering.kernel_tables import table, unknown
from graphls.runtime.lowering.metadata import LOCATION
from graphls.runtime.lowering.protos import with_types
from graphls.runtime.onnxruntime.kernel_search import Search


@dataclass(frozen=True)
class PlacedNode:
    """An operator of a model and where it runs.

    `device` is the device of its kernel: the requested one, "cpu", or "" where the runtime refuses the model; `reason`
    says why it is not the requested one. `line` is the user's, "" where the model has none. `copies` and `copied` are
    the numbers of tensors, and of bytes of tensors with known shapes, copied for it between device and CPU.
    """

    operator: str
    name: str
    device: str
    reason: str = ""
    line: str = ""
    copies: int = 0
    copied: int = 0


@dataclass(frozen=True)
class PlacedProduct:
    """A product of low operands: whether the device computes it from float8, by GemmFloat8, or the reason why not.

    `line` is the user's.
    """

    name: str
    reason: str = ""
    line: str = ""

    @property
    def is_native(self) -> bool:
        """Whether it is computed from float8, and not in a wider dtype."""
        return not self.reason


@dataclass(frozen=True)
class Placement:
    """The operators of a model, those of branches and bodies included, and the device of each.

    `unknown` is a sentence on gaps of the tables of kernels for this version, or "". `low_products` are the products of
    operands of 8 bits and fewer of a step on a GPU.
    """

    runtime: str
    device: str
    opset: int
    nodes: tuple[PlacedNode, ...]
    unknown: str = ""
    low_products: tuple[PlacedProduct, ...] = ()

    @property
    def elsewhere(self) -> tuple[PlacedNode, ...]:
        """The operators that run on the CPU for lack of a kernel on the device."""
        return tuple(node for node in self.nodes if node.device not in (self.device, ""))

    @property
    def refused(self) -> tuple[PlacedNode, ...]:
        """The operators that no provider has a kernel for, so that the runtime refuses the model."""
        return tuple(node for node in self.nodes if not node.device)

    @property
    def copies(self) -> int:
        """The number of tensors that a run copies between the device and the CPU."""
        return sum(node.copies for node in self.nodes)

    @property
    def copied(self) -> int:
        """The bytes that a run copies between the device and the CPU, of tensors with known shapes."""
        return sum(node.copied for node in self.nodes)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences about the placement: none where every operator has a kernel on the device."""
        sentences = []
        if self.elsewhere:
            copied = f"{self.copies} copies of {size(self.copied)} in a run"
            sentences.append(f"{_count(self.elsewhere)} on the CPU and not on {self.device!r}, with {copied}.")
        if self.refused:
            sentences.append(f"{_count(self.refused)} nowhere, so that ONNX Runtime {self.runtime} refuses the model.")
        return (*sentences, *filter(None, [self.unknown if sentences else ""]))

    @property
    def groups(self) -> list[tuple[int, PlacedNode]]:
        """The operators that are not on the device, by reason and line: the count, and their sum as one node."""
        groups: dict[tuple[str, str, str], list[PlacedNode]] = {}
        for node in self.nodes:
            if node.device != self.device:
                groups.setdefault((node.device, node.reason, node.line), []).append(node)
        return [(len(nodes), _summed(nodes)) for nodes in groups.values()]

    def __str__(self) -> str:
        head = f"ONNX Runtime {self.runtime}, {self.device}, opset {self.opset}: {len(self.nodes)} operators"
        lines = [f"{head}, {self._located()}.", *self.sentences, *map(_line, self.groups)]
        return "\n".join([*lines, *_lines_of_products(self.low_products)])

    def _located(self) -> str:
        if len(self.nodes) == len(self.elsewhere) + len(self.refused):
            return f"none of them on {self.device!r}" if self.nodes else "none"
        here = len(self.nodes) - len(self.elsewhere) - len(self.refused)
        return f"all of them on {self.device!r}" if here == len(self.nodes) else f"{here} of them on {self.device!r}"


def _count(nodes: Sequence[PlacedNode]) -> str:
    return "1 operator runs" if len(nodes) == 1 else f"{len(nodes)} operators run"


def _summed(nodes: Sequence[PlacedNode]) -> PlacedNode:
    return replace(nodes[0], copies=sum(n.copies for n in nodes), copied=sum(n.copied for n in nodes))


def _line(group: tuple[int, PlacedNode]) -> str:
    """A line of text about operators with one reason."""
    count, node = group
    times = f"{count} times " if count > 1 else ""
    place = "on the CPU" if node.device else "refused"
    copied = f", {node.copies} copies of {size(node.copied)}" if node.copies else ""
    return f"  {times}{shown(node.operator)} {place}: {node.reason}{copied}{_in_brackets(node.line)}"


def _in_brackets(line: str) -> str:
    return f" ({shown(line)})" if line else ""


def _lines_of_products(products: Sequence[PlacedProduct]) -> list[str]:
    """How many low products are computed from float8, and the others by reason and line."""
    wide = Counter((p.reason, p.line) for p in products if not p.is_native)
    native = len(products) - wide.total()
    head = f"GemmFloat8 computes {native} of {len(products)} products of low operands from float8."
    lines = [f"  {n} in a wider dtype: {reason}{_in_brackets(line)}" for (reason, line), n in wide.items()]
    return [head, *lines] if products else []


def place(
    model: ModelProto, runtime: str, device: str = "cuda", origins: Mapping[str, Node] | None = None,
    infer: Callable[[ModelProto], ModelProto] = with_types, low_products: Mapping[Node, str] | None = None,
) -> Placement:  # fmt: skip
    """The placement of the operators of a model by a version of ONNX Runtime, with a device's provider and the CPU's.

    The model may be any; `infer` returns it with the types of its tensors. `origins` maps the names of operators to
    their nodes, and so to the user's lines; without it, the lines are those in a model that graphls has saved.
    `low_products` are those of a `Lowered`. Limits: attributes of operators are not read, and neither are the changes
    that the runtime makes to a model before it places it, such as replacing an operator by others that define it.
    Raises GraphValueError for a device or a version without a table.
    """
    search = Search(infer(model), device, table(device, runtime), table("cpu", runtime))
    copies = search.copies()
    nodes = []
    for number, choice in enumerate(search.choices):
        bytes_copied = copies.get(number, [])
        line = _user_line(choice.proto, origins)
        numbers = len(bytes_copied), sum(bytes_copied)
        nodes.append(PlacedNode(choice.proto.op_type, choice.proto.name, choice.device, choice.reason, line, *numbers))
    products = (PlacedProduct(n.output.name, reason, _line_of(n)) for n, reason in (low_products or {}).items())
    return Placement(runtime, device, search.opsets.get("", 1), tuple(nodes), unknown(device, runtime), tuple(products))


def _user_line(proto: NodeProto, origins: Mapping[str, Node] | None) -> str:
    if origins is None:
        return next((entry.value for entry in proto.metadata_props if entry.key == LOCATION), "")
    return _line_of(origins.get(proto.name))


def _line_of(node: Node | None) -> str:
    return "" if node is None or node.loc is None else str(node.loc)
