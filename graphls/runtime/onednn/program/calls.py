"""What the calls of a program have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from graphls.ir.graph import Node
from graphls.ir.types import Type
from graphls.runtime.onednn.binding import Descriptor, Memory, Primitive, Role, arguments
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program.arena import Buffer
from graphls.runtime.onednn.program.order import Ordered

Array = np.ndarray[Any, Any]

EARLY = ("update", "check")
"""The phases of nodes that run as soon as they can, while what they read is in the cache, and so that it is freed."""


class AnyCall(Ordered, Protocol):
    """Something that a program runs."""

    @property
    def kind(self) -> str:
        """What runs."""

    @property
    def node(self) -> Node | None:
        """The node of the graph that it is for; None for the results of the graph."""

    def bound(self, binding: Any) -> partial[Any]:
        """The call on the memories of a binding, which returns 0 or None if it succeeds."""


class PythonCall:
    """A call of NumPy on the arrays of a binding, for a node."""

    node: Node
    runs_python = True

    @property
    def is_early(self) -> bool:
        """Whether it runs as soon as it can."""
        return self.node.phase in EARLY

    def bound(self, binding: Any) -> partial[Any]:
        """The call on the arrays of a binding."""
        return partial(self.run, binding)

    def run(self, binding: Any) -> int | None:
        """Compute; returns 0 or None, or a status of oneDNN."""
        raise NotImplementedError


class View(NamedTuple):
    """A buffer, or a part of one, in a layout.

    Kernels work in layouts that are row-major or that a kernel has chosen. Others, of transpositions and slices, are
    read by reorders only: the elementwise kernels of oneDNN 3.2 write nothing in some of them, as in the transposition
    of 1 x 2 x 4 x 4 to 2 x 1 x 4 x 4.
    """

    buffer: Buffer
    layout: Descriptor
    is_for_kernels: bool = True


RESULTS = frozenset({
    Role.RESULT, Role.RESULT + 1, Role.RESULT + 2, Role.SOURCE_GRADIENT, Role.SOURCE_GRADIENT + 1,
    Role.SOURCE_GRADIENT + 2, Role.WEIGHTS_GRADIENT, Role.WEIGHTS_GRADIENT + 1, Role.BIAS_GRADIENT,
    Role.SCALE_GRADIENT, Role.SHIFT_GRADIENT,
})  # fmt: skip
"""The roles of what a primitive writes."""


FORWARD_RESULTS = frozenset({Role.MEAN, Role.VARIANCE, Role.WORKSPACE})
"""The roles of what a forward primitive writes and a backward one reads."""


@dataclass(eq=False)
class Call:
    """A primitive on views, for a node of the graph; a reorder is for the node that reads it."""

    primitive: Primitive
    views: Mapping[int, View]
    node: Node | None
    writes: Sequence[Buffer]
    runs_python = False

    @property
    def kind(self) -> str:
        """What runs."""
        return self.primitive.kind

    @property
    def is_early(self) -> bool:
        """Whether it runs as soon as it can."""
        return self.node is not None and self.node.phase in EARLY

    @property
    def reads(self) -> Sequence[Buffer]:
        """The buffers that it reads."""
        return [view.buffer for view in self.views.values() if view.buffer not in self.writes]

    def bound(self, binding: Any) -> partial[Any]:
        """The call on the memories of a binding."""
        call: partial[Any] = binding.execution(self.primitive, self.views)
        return call

    def may_overwrite(self, buffer: Buffer) -> bool:
        """Whether the result may lie in the memory of an operand: a kernel by elements reads each before it writes."""
        operands = [view for view in self.views.values() if view.buffer is buffer]
        if not operands:
            return True
        result = self.views.get(Role.RESULT)
        is_by_elements = self.primitive.kind == "elementwise" and result is not None
        return is_by_elements and all(result is not None and v.layout.equals(result.layout) for v in operands)


def reorder_of(source: Descriptor, target: Descriptor) -> Primitive:
    """The kernel that brings values from a layout into another one."""
    engine = library().engine
    return Primitive("reorder", "reorder", source, engine, target, engine, None)


def move(source: Memory, target: Memory) -> None:
    """Bring values from a memory into another one, at once."""
    lib, kernel = library(), reorder_of(source.descriptor, target.descriptor)
    memories: dict[int, Memory] = {Role.SOURCE: source, Role.RESULT: target}
    execute = lib.c.dnnl_primitive_execute
    lib.call("move values", execute, kernel.handle, lib.stream, len(memories), arguments(memories))


@dataclass(eq=False)
class Copy:
    """A copy of a value that no kernel reads."""

    source: Buffer
    target: Buffer
    type: Type
    node: Node | None = None
    kind = "copy"
    is_early = False
    runs_python = False

    @property
    def reads(self) -> Sequence[Buffer]:
        """The buffer that it reads."""
        return (self.source,)

    @property
    def writes(self) -> Sequence[Buffer]:
        """The buffer that it writes."""
        return (self.target,)

    @property
    def holds(self) -> Sequence[Buffer]:
        """The buffers whose arrays the bound call holds."""
        return self.source, self.target

    def bound(self, binding: Any) -> partial[Any]:
        """The call on the arrays of a binding."""
        target = binding.array(self.target, self.type)
        return partial(target.__setitem__, ..., binding.array(self.source, self.type))
