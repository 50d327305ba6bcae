"""Loops of a fixed length: the calls of one iteration, again for each iteration on its own rows of stacked arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from graphls.ir.graph import Graph, Node, Value, captures
from graphls.ir.types import Type
from graphls.runtime.onednn.binding import Descriptor
from graphls.runtime.onednn.program.arena import Buffer
from graphls.runtime.onednn.program.calls import AnyCall, Copy, View
from graphls.runtime.onednn.program.iterations import Loop
from graphls.runtime.onednn.program.program import Group, Program, rounded

MOST_CALLS = 1 << 14
"""Nodes of all iterations up to which their calls are prepared: about 50 microseconds and a kilobyte for each."""


def count_calls(node: Node) -> int:
    """How often the nodes of a loop run, or 1 for any other node; a stack whose length is not known has too many."""
    if not node.regions:
        return 1
    inner = sum(count_calls(each) for region in node.regions for each in region.nodes)
    return inner * int(node.attrs.get("length") or MOST_CALLS + 1)


class Body(Program):
    """The calls of one iteration, on buffers of its own, and on those of the program around it."""

    def __init__(self, outer: Program, region: Graph, groups: Sequence[Group]) -> None:
        self.set_empty()
        self.outer, self.constants = outer, outer.constants
        for value in captures(region):
            if value in outer.raw:
                self.raw[value] = outer.raw[value]
            else:
                self.views[value] = outer.views[value]
        self.inputs = [Buffer(value.type.nbytes) for value in region.inputs]
        for value, buffer in zip(region.inputs, self.inputs, strict=True):
            self.place(value, buffer)
        self._rounded = rounded(region.nodes, {*region.outputs})
        for group in groups:
            self.node = group.nodes[-1]
            group.emit(self)
        self.node = None

    def append(self, call: AnyCall) -> None:
        """Append a call, before the loop if it reads nothing that an iteration takes or writes."""
        if any(map(self._is_local, call.reads)):
            super().append(call)
        else:
            self.outer.append(call)

    def is_before_loop(self, view: View) -> bool:
        """Whether a view is the same in all iterations."""
        return not self._is_local(view.buffer)

    def _is_local(self, buffer: Buffer) -> bool:
        return buffer in self._written or buffer in self.inputs

    def own_buffer(self, value: Value) -> Buffer | None:
        """The buffer of a value alone, in row-major order, if an iteration writes it."""
        if value in self.raw:
            buffer = self.raw[value]
        else:
            view = self.views[value][0]
            if not view.layout.equals(Descriptor.of(value.type)):
                return None
            buffer = view.buffer
        is_own = buffer in self._written and buffer.within is None
        return buffer if is_own and buffer.size == value.type.nbytes else None

    def copy_of(self, value: Value) -> Buffer:
        """A buffer with a copy of a value, in row-major order."""
        buffer = Buffer(value.type.nbytes)
        if value in self.raw:
            super().append(Copy(self.raw[value], buffer, value.type))
        else:
            super().append(self.reorder(self.views[value][0], View(buffer, Descriptor.of(value.type))))
        return buffer


def unrolled(program: Program, node: Node, groups: Sequence[Group]) -> None:
    """Append a loop, whose body is computed by groups."""
    _Unrolled(program, node, Body(program, node.regions[0], groups)).append()


class _Unrolled:
    """The iterations of a loop.

    A stacked result is written row by row where it stays. A carried value that is stacked as well is carried in these
    rows; so is one of which the old value is stacked. Others alternate between two buffers.
    """

    def __init__(self, program: Program, node: Node, body: Body) -> None:
        self.program, self.node, self.body = program, node, body
        self.carries, self.length = node.attrs["carries"], node.attrs["length"]
        self.order = [*range(self.length)]
        if node.attrs.get("reverse"):
            self.order.reverse()
        (region,) = node.regions
        self.types = [v.type for v in region.outputs]
        self.first = [self._buffer(v) for v in node.inputs[: self.carries]]
        pairs = zip(node.inputs[self.carries :], body.inputs[self.carries :], strict=True)
        self.rows: dict[Buffer, list[Buffer]] = {inner: self._rows(self._buffer(v), inner.size) for v, inner in pairs}
        self.old = self._old_values(region)
        self.homes = self._homes(region)
        self.calls: list[AnyCall] = []

    def _buffer(self, value: Value) -> Buffer:
        """The buffer of a value in row-major order."""
        return self.program.raw[value] if value in self.program.raw else self.program.plain(value).buffer

    def _rows(self, stack: Buffer, size: int) -> list[Buffer]:
        return [Buffer(size, within=stack, begin=size * number) for number in range(self.length)]

    def _stack(self, number: int) -> Buffer:
        """The buffer of a stacked result."""
        value = self.node.outputs[number]
        buffer = Buffer(value.type.nbytes)
        self.program.place(value, buffer)
        return buffer

    def _old_values(self, region: Graph) -> dict[int, Buffer]:
        """The stacked results of old values of carried ones, by the numbers of those that nothing else stacks."""
        stacked = {value: number for number, value in enumerate(region.outputs) if number >= self.carries}
        counts = [value in stacked or region.outputs.count(value) > 1 for value in region.outputs[: self.carries]]
        pairs = zip(region.inputs[: self.carries], counts, strict=True)
        numbers = {k: stacked[v] for k, (v, is_elsewhere) in enumerate(pairs) if v in stacked and not is_elsewhere}
        return {k: self._stack(number) for k, number in numbers.items()}

    def _homes(self, region: Graph) -> list[Buffer]:
        """The buffer of the body that holds each result of it; none stands for those of `old`."""
        homes: dict[int, Buffer] = {}
        others = {*self.old}
        for number in (*range(self.carries, len(self.types)), *range(self.carries)):
            value = region.outputs[number]
            if number >= self.carries and value in region.inputs and region.inputs.index(value) in others:
                others.remove(region.inputs.index(value))
                homes[number] = self.body.inputs[region.inputs.index(value)]
                continue
            buffer = self.body.own_buffer(value)
            if buffer is None or (number >= self.carries and buffer in homes.values()):
                buffer = self.body.copy_of(value)
            homes[number] = buffer
            if number >= self.carries:
                self.rows[buffer] = self._rows(self._stack(number), buffer.size)
        return [homes[number] for number in range(len(self.types))]

    def append(self) -> None:
        """Append the calls of all iterations, and give the carried results their views."""
        body = [call for each in self.body.calls for call in (each.calls if isinstance(each, Loop) else (each,))]
        carried, after = [*self.first], self._places_after()
        for k in self.old:
            self._copy(self.types[k], carried[k], after[k][0])
            carried[k] = after[k][0]
        for number, row in enumerate(self.order):
            moves = dict(zip(self.body.inputs, carried, strict=False))
            moves.update((inner, rows[row]) for inner, rows in self.rows.items())
            for k, home in enumerate(self.homes[: self.carries]):
                carried[k] = moves.setdefault(home, after[k][number + 1])
            self.calls += map(_Moves(moves).step, body)
        for value, buffer in zip(self.node.outputs, carried, strict=False):
            self.program.place(value, self._apart(value.type, buffer))
        self.program.append(Loop(self.calls, self.node))

    def _places_after(self) -> list[list[Buffer]]:
        """Where each carried value lies before the first iteration and after each of them."""
        places = []
        for k, kind in enumerate(self.types[: self.carries]):
            if k in self.old:
                rows = self._rows(self.old[k], kind.nbytes)
                places.append([*(rows[row] for row in self.order), Buffer(kind.nbytes)])
            else:
                pair = Buffer(kind.nbytes), Buffer(kind.nbytes)
                places.append([pair[number % 2] for number in range(self.length + 1)])
        return places

    def _apart(self, kind: Type, buffer: Buffer) -> Buffer:
        """A buffer with what is in another one, which may be a row."""
        if buffer.within is None:
            return buffer
        result = Buffer(kind.nbytes)
        self._copy(kind, buffer, result)
        return result

    def _copy(self, kind: Type, source: Buffer, target: Buffer) -> None:
        if self.program.is_raw(kind):
            self.calls.append(Copy(source, target, kind))
        else:
            layout = Descriptor.of(kind)
            self.calls.append(self.program.reorder(View(source, layout), View(target, layout)))


class _Moves:
    """The places of the buffers of the body in one iteration; those of no other place stay."""

    def __init__(self, moves: dict[Buffer, Buffer]) -> None:
        self.moves = moves

    def step(self, step: AnyCall) -> AnyCall:
        """The same step on the buffers at these places."""
        changes = {each.name: self._of(getattr(step, each.name)) for each in fields(step)}  # type: ignore[arg-type]
        return replace(step, **changes)  # type: ignore[type-var]

    def _of(self, value: Any) -> Any:
        if isinstance(value, Buffer):
            return self._buffer(value)
        if isinstance(value, View):
            return value._replace(buffer=self._buffer(value.buffer))
        if isinstance(value, Mapping):
            return {key: self._of(each) for key, each in value.items()}
        return [self._of(each) for each in value] if isinstance(value, (list, tuple)) else value

    def _buffer(self, buffer: Buffer) -> Buffer:
        if buffer in self.moves:
            return self.moves[buffer]
        if buffer.within is None or buffer.memory not in self.moves:
            return buffer
        stack = self.moves[buffer.memory]
        row = Buffer(buffer.size, within=stack.memory, begin=stack.position + buffer.position)
        return self.moves.setdefault(buffer, row)
