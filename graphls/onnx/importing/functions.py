"""Functions that an ONNX model defines, with a limit on the size of their expansion."""

from __future__ import annotations

from dataclasses import dataclass

from onnx import FunctionProto, ModelProto, NodeProto

from graphls.base.errors import GraphValueError
from graphls.runtime.lowering.protos import operators

DEEPEST = 20
MOST_OPERATORS = 100_000

Key = tuple[str, str, str]


@dataclass(frozen=True)
class Functions:
    """The functions by domain, name and overload.

    `are_few` says that all calls together stay within MOST_OPERATORS operators and within DEEPEST calls of each
    other; functions can be written so that they would be more than any memory holds, or without end.
    """

    by_key: dict[Key, FunctionProto]
    are_few: bool

    @classmethod
    def of(cls, model: ModelProto) -> Functions:
        """The functions of a model."""
        functions = {(f.domain, f.name, f.overload): f for f in model.functions}
        called = {key: [_key(n) for n in operators(f.node)] for key, f in functions.items()}
        sizes = dict.fromkeys(functions, 0)
        for _ in range(DEEPEST):
            before, sizes = sizes, {k: sum(1 + min(sizes.get(c, 0), MOST_OPERATORS) for c in called[k]) for k in sizes}
        size = sum(1 + sizes.get(_key(n), 0) for n in operators(model.graph.node)) if functions else 0
        return cls(functions, not functions or (before == sizes and size <= MOST_OPERATORS))

    def require_few(self) -> None:
        """Raise GraphValueError where the calls are too many to expand."""
        if not self.are_few:
            raise GraphValueError("The functions of the model call each other without end, or are too many operators.")

    def find(self, node: NodeProto) -> FunctionProto | None:
        """The function that an operator calls; None where calls are not expanded."""
        return self.by_key.get(_key(node)) if self.are_few and self.by_key else None


def _key(node: NodeProto) -> Key:
    return node.domain, node.op_type, node.overload
