"""A graph as calls of oneDNN: layouts of values, reorders between them, and one arena for what is between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from graphls.ir.graph import Graph, Node, Value, Write, uses
from graphls.ir.types import DType, Type, bfloat16, float32, int64
from graphls.primitives.low_precision import in_float32
from graphls.runtime.lowering.types import exchanged
from graphls.runtime.onednn.binding import DATA_TYPES, Descriptor, Primitive, Role, row_major
from graphls.runtime.onednn.elementwise.algorithms import MUL
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.numpy_indexing import is_sparse, row_width
from graphls.runtime.onednn.numpy_nodes import Interpreted, is_check
from graphls.runtime.onednn.program.arena import LINE, Buffer, placed
from graphls.runtime.onednn.program.bound import Binding
from graphls.runtime.onednn.program.calls import FORWARD_RESULTS, RESULTS, AnyCall, Array, Call, Copy, View, reorder_of
from graphls.runtime.onednn.program.iterations import Loop
from graphls.runtime.onednn.program.order import in_order
from graphls.runtime.onednn.program.sparse_sums import Rows, SparseSums, with_zeros

_NOTHING = np.empty(0, np.uint8)
COMPUTED = (float32, bfloat16)
"""The dtypes in which kernels compute."""


def computed() -> Sequence[DType]:
    """The dtypes in which kernels compute fast on this processor."""
    return COMPUTED if library().has_bfloat16 else COMPUTED[:1]


def rounded(nodes: Iterable[Node], leaving: Set[Value]) -> set[Value]:
    """The values of float32 that only casts to bfloat16 read."""
    narrow, others = set[Value](), {*leaving}
    for node in nodes:
        is_cast = node.primitive.name == "cast" and node.output.type.dtype is bfloat16
        (narrow if is_cast and node.inputs[0].type.dtype is float32 else others).update(uses(node))
    return narrow - others


@dataclass(eq=False)
class Group:
    """What one rule computes: values from values. `nodes` are those whose work it does, the last one names it.

    A chain is a node that no pattern contains, and those that have joined it.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    emit: Callable[[Program], None]
    is_chain: bool = False


class Program:
    """The calls that compute a graph.

    `inputs`, `states`, `outputs` and `new_states` are the buffers of the graph's inputs, states, outputs and writes,
    which lie outside in row-major order; but inputs that are `fed` by another program have the layouts that it left
    them in, outputs that are `free` have any, which `layouts` tells, and states have those in `shared`, which are also
    those of values around them. A value has one view or several, in different layouts: the first is the result of its
    kernel, the others are results of reorders, each of which is done once. The first may have the other dtype of
    kernels, in which the value has the same numbers.
    `constants` are arrays outside that stay, and `sparse` ones that are 0 before a step and behind it.
    """

    calls: list[AnyCall]
    views: dict[Value, list[View]]
    raw: dict[Value, Buffer]
    constants: dict[Buffer, Array]
    sparse: set[Buffer]
    products: dict[tuple[float, tuple[Value, ...]], View]
    arrays: dict[bytes, View]
    results: dict[object, View]
    layouts: dict[Value, Descriptor]
    node: Node | None
    _written: dict[Buffer, AnyCall]
    _overwriting: dict[Buffer, Write]
    _nodes: dict[Value, Node]
    _leaving: Set[Value] | None
    _rounded: set[Value]
    _shared: Mapping[Value, Descriptor]

    def __init__(
        self, graph: Graph, groups: Sequence[Group], fed: Mapping[Value, Descriptor] = MappingProxyType({}),
        free: Set[Value] = frozenset(), shared: Mapping[Value, Descriptor] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        self.set_empty()
        self._shared = shared
        leaving = {*graph.outputs, *(write.value for write in graph.writes)}
        self._leaving = leaving
        self._rounded = rounded(graph.nodes, leaving)
        self.inputs = [self._fed(value, fed.get(value)) for value in graph.inputs]
        self.states = {state: self._fed(state, shared.get(state)) for state in graph.states}
        for group in groups:
            self.node = group.nodes[-1]
            group.emit(self)
            self._nodes.update(dict.fromkeys(group.outputs, self.node))
        self.outputs = [self._free_result(v) if v in free else self._result(v) for v in graph.outputs]
        self.new_states = [self._new_state(write) for write in graph.writes]
        self._order()
        self.size = self._arrange()
        self.calls = [call for each in self.calls for call in (each.calls if isinstance(each, Loop) else (each,))]

    def set_empty(self) -> None:
        """Begin without calls."""
        self.calls, self.node = [], None
        self.views, self.raw, self.constants, self.products = {}, {}, {}, {}
        self.arrays, self.results, self.layouts, self.sparse, self._nodes = {}, {}, {}, set(), {}
        self._written, self._overwriting, self._leaving, self._rounded = {}, {}, None, set()
        self._shared = {}

    def _fed(self, value: Value, layout: Descriptor | None) -> Buffer:
        """An input, in row-major order or in the layout in which another program leaves it."""
        if layout is None:
            return self._outside(value)
        buffer = Buffer(layout.size, is_outside=True)
        self.views[value] = [View(buffer, layout)]
        return buffer

    def _outside(self, value: Value) -> Buffer:
        kind = exchanged(value.type)
        buffer = Buffer(kind.nbytes, is_outside=True)
        self.place(value, buffer)
        if kind != value.type:
            self.views[value] = [View(buffer, Descriptor.of(kind), False)]
        return buffer

    def place(self, value: Value, buffer: Buffer) -> None:
        """Let a value lie in a buffer in row-major order; kernels read some floats only."""
        if not self.is_raw(value.type):
            self.views[value] = [View(buffer, Descriptor.of(value.type))]
        else:
            self.raw[value] = buffer

    @staticmethod
    def is_raw(kind: Type) -> bool:
        """Whether kernels read no values of a type."""
        return not (kind.dtype in COMPUTED or kind.dtype.is_low)

    def _result(self, value: Value, layout: Descriptor | None = None) -> Buffer:
        """A buffer outside for a value, in row-major order or another layout: the one that it is in, or for a copy."""
        kind = exchanged(value.type)
        buffer = self.raw[value] if value in self.raw else self._buffer_in(value, layout)
        if buffer is not None and buffer.size == kind.nbytes and self._is_free(buffer):
            buffer.is_outside = True
            return buffer
        target = Buffer(kind.nbytes, is_outside=True)
        self._copy(value, target, layout)
        return target

    def _buffer_in(self, value: Value, layout: Descriptor | None) -> Buffer | None:
        """The buffer of a view that has the layout in which a value leaves; None where it has no such view."""
        layout = layout or Descriptor.of(exchanged(value.type))
        return next((view.buffer for view in self.views[value] if view.layout.equals(layout)), None)

    def _is_free(self, buffer: Buffer) -> bool:
        """Whether a buffer may lie anywhere: nothing outside is bound to it, and a call of this program writes it."""
        return not buffer.is_outside and buffer.within is None and buffer in self._written

    def may_move(self, value: Value, buffer: Buffer) -> bool:
        """Whether the buffer of a value may lie anywhere, as nothing outside reads it either."""
        return self._leaving is not None and value not in self._leaving and self._is_free(buffer)

    def _free_result(self, value: Value) -> Buffer:
        """A buffer outside for a value, in whatever layout it has."""
        view = self.read(value) if value in self.views else None
        if view is None or not self._is_free(view.buffer):
            return self._result(value)
        view.buffer.is_outside = True
        self.layouts[value] = view.layout
        return view.buffer

    def _copy(
        self, value: Value, target: Buffer, layout: Descriptor | None = None, is_to_state: bool = False
    ) -> None:  # fmt: skip
        """Append a copy of a value to a buffer outside; from one that a step brings or overwrites, by the arena."""
        self.node = self._nodes.get(value)
        view = None if value in self.raw else self.views[value][0]
        source = self.raw[value] if view is None else view.buffer
        if is_to_state and source.is_outside and source not in self.constants:
            own = Buffer(source.size)
            if view is None:
                self.append(Copy(source, own, value.type, self.node))
            else:
                view = View(own, view.layout)
                self.append(self.reorder(self.views[value][0], view))
            source = own
        if view is None:
            self.append(Copy(source, target, value.type, self.node))
        else:
            self.append(self.reorder(view, View(target, layout or Descriptor.of(exchanged(value.type)))))

    def _new_state(self, write: Write) -> Buffer:
        """A buffer outside for the new value of a state: another one, or its own, which its writer takes over."""
        layout = self._shared.get(write.state)
        if not write.in_place:
            return self._result(write.value, layout)
        state = self.states[write.state]
        if write.value is write.state:
            return state
        buffer = None if write.value in self.raw else self._buffer_in(write.value, layout)
        if buffer is not None and buffer.size == state.size and self._is_free(buffer):
            writer = self._written[buffer]
            if isinstance(writer, Call) and writer.may_overwrite(state):
                buffer.within = state
                self._overwriting[buffer] = write
                return state
        self._copy(write.value, state, layout, is_to_state=True)
        return state

    def _order(self) -> None:
        """Put the calls in order; a new state whose writer cannot wait for all that must come before is copied."""
        states, late = {*self.states.values()}, self.sparse
        order = in_order(self.calls, states, late)
        if len(order) < len(self.calls):
            late = late - self._left(order)
            order = in_order(self.calls, states, late)
        if len(order) < len(self.calls):
            for buffer in self._left(order):
                if buffer in self._overwriting and buffer.within is not None:
                    state, buffer.within = buffer.within, None
                    write = self._overwriting[buffer]
                    self._copy(write.value, state, self._shared.get(write.state), is_to_state=True)
            order = in_order(self.calls, states, late)
        assert len(order) == len(self.calls), "Calls that write no state wait for operands only."
        self.calls = with_zeros(order, self.sparse)

    def _left(self, order: Iterable[AnyCall]) -> set[Buffer]:
        """The buffers whose writers are in no order."""
        known = {*map(id, order)}
        return {buffer for buffer, writer in self._written.items() if id(writer) not in known}

    def append(self, call: AnyCall) -> None:
        """Append a call."""
        for buffer in call.writes:
            self._written.setdefault(buffer, call)
        self.calls.append(call)

    def interpret(self, node: Node) -> None:
        """Append a node that NumPy computes; the result of what only renames its operand is the memory of that."""
        results: list[Buffer] = []
        if node.primitive.is_view:
            self._rename(node.inputs[0], node.output)
            if not is_check(node):
                return
        elif self._leaving is not None and is_sparse(node) and node.output not in self._leaving:
            self._sum_rows(node)
            return
        else:
            results = [Buffer(v.type.nbytes) for v in node.outputs]
            for value, buffer in zip(node.outputs, results, strict=True):
                self.place(value, buffer)
        self.append(Interpreted(node, self._operands(node), results))

    def _operands(self, node: Node) -> list[Buffer]:
        """The operands of a node in row-major order."""
        return [self.memory_of(v) for v in node.inputs]

    def _sum_rows(self, node: Node) -> None:
        """Append sums of rows, and their copy to a large array of zeros."""
        kind, count = node.output.type, node.inputs[0].type.size // row_width(node)
        width = row_width(node) * kind.dtype.itemsize
        array = Buffer(kind.nbytes, is_outside=True)
        places, rows = Buffer(count * int64.itemsize), Buffer(count * width)
        self.place(node.output, array)
        self.append(SparseSums(node, self._operands(node), (places, rows)))
        self.append(Rows(node, array, places, rows, width))
        self.sparse.add(array)

    def memory_of(self, value: Value) -> Buffer:
        """The buffer that a value is in, in row-major order."""
        return self.raw[value] if value in self.raw else self.plain(value).buffer

    def _rename(self, source: Value, value: Value) -> None:
        """Let a value be the elements of another one in row-major order."""
        if source in self.raw:
            self.raw[value] = self.raw[source]
        else:
            self.alias(value, self.reshaped(source, Descriptor.of(value.type)))

    def read(self, value: Value, layout: Descriptor | None = None) -> View:
        """A view of a value, in a layout if one is asked for."""
        first = self.first(value)
        if layout is None:
            layout = first.layout.with_dtype(DATA_TYPES[value.type.dtype])
            layout = layout if first.is_for_kernels else Descriptor.of(value.type)
        return self.converted(first, layout, value)

    def stored(self, value: Value) -> View:
        """A view for kernels that read float32 as well as bfloat16: the dtype is that of the first view."""
        first = self.first(value)
        return first if first.is_for_kernels else self.plain(value)

    def shared_layout(self, value: Value) -> Descriptor | None:
        """The layout that a value shares with states; None where it has no such."""
        return self._shared.get(value)

    def is_rounded(self, value: Value) -> bool:
        """Whether a value of float32 is only read in bfloat16, so that it may be stored so."""
        return value in self._rounded

    def kernel_dtype(self, result: Value, *sources: Value) -> int:
        """The dtype of a kernel that writes a value from others: bfloat16 where all are or may be stored so."""
        narrow = DATA_TYPES[bfloat16]
        are_narrow = all(self.stored(v).layout.dtype == narrow for v in sources)
        return narrow if self.is_rounded(result) and are_narrow else DATA_TYPES[result.type.dtype]

    def first(self, value: Value) -> View:
        """The first view of a value, whatever its layout."""
        return self.views[value][0]

    def plain(self, value: Value) -> View:
        """A view of a value in row-major order."""
        return self.read(value, Descriptor.of(value.type))

    def written(self, value: Value, layout: Descriptor) -> View:
        """The first view of a value, which the next call makes, in a buffer of its own."""
        view = View(Buffer(layout.size), layout)
        self.views[value] = [view]
        return view

    def alias(self, value: Value, view: View) -> None:
        """Let a value lie where another one does."""
        self.views[value] = [view]

    def scratch(self, layout: Descriptor) -> View:
        """A view of no value, such as a workspace."""
        return View(Buffer(layout.size), layout)

    def constant(self, value: Value, array: Array) -> None:
        """A value that is there before the first step."""
        array = in_float32(array) if value.type.dtype.is_low else array
        buffer = Buffer(array.nbytes, is_outside=True)
        self.place(value, buffer)
        self.constants[buffer] = array

    def run(self, primitive: Primitive, views: Mapping[int, View]) -> None:
        """Append a call."""
        self.append(self._call(primitive, views))

    def _call(self, primitive: Primitive, views: Mapping[int, View]) -> Call:
        results = [view.buffer for role, view in views.items() if role in RESULTS]
        if Role.RESULT in views:
            more = (view.buffer for role, view in views.items() if role in FORWARD_RESULTS)
            results += [buffer for buffer in more if not buffer.is_outside and buffer not in self._written]
        return Call(primitive, views, self.node, results)

    def number(self, number: float, rank: int) -> View:
        """A number as an operand that is broadcast to so many axes."""
        return self.fixed(np.full(1, number, np.float32), Descriptor.plain((1,) * rank))

    def fixed(self, array: Array, layout: Descriptor) -> View:
        """An array that is there before the first step."""
        buffer = Buffer(max(array.nbytes, LINE), is_outside=True)
        self.constants[buffer] = array
        return View(buffer, layout)

    def once(self, key: object, computed: Callable[[], View]) -> View:
        """A view that several nodes read, with the calls that it needs where it is asked for first."""
        if key not in self.results:
            self.results[key] = computed()
        return self.results[key]

    def shared(self, array: Array, layout: Descriptor) -> View:
        """An array that is there before the first step, once for all that ask for its bytes."""
        key = array.tobytes()
        if key not in self.arrays:
            self.arrays[key] = self.fixed(array, layout)
        return View(self.arrays[key].buffer, layout)

    def number_of(self, value: Value) -> float | None:
        """The number of a constant of one element; None for other values."""
        view = self.views[value][0] if value in self.views else None
        array = self.constants.get(view.buffer) if view is not None else None
        is_number = array is not None and value.type.size == 1 and value.type.dtype in COMPUTED
        return float(array.flat[0]) if array is not None and is_number else None

    def product(self, number: float, values: tuple[Value, ...]) -> View:
        """The product of a number and values of one element each, in float32, which is computed once."""
        key = number, values
        if key not in self.products:
            self.products[key] = self._product(number, values)
        return self.products[key]

    def _product(self, number: float, values: tuple[Value, ...]) -> View:
        one = Descriptor.plain((1,))
        if not values:
            return self.number(number, 1)
        wide = Descriptor.of(values[-1].type.with_dtype(float32))
        last = View(self.read(values[-1], wide).buffer, one)
        if number == 1 and len(values) == 1:
            return last
        result = self.scratch(one)
        kernel = Primitive("product", "binary", library().engine, MUL, one, one, one, None)
        first = self.product(number, values[:-1])
        self.run(kernel, {Role.SOURCE: first, Role.SOURCE_1: last, Role.RESULT: result})
        return result

    def reshaped(self, value: Value, layout: Descriptor) -> View:
        """A view of a value in row-major order, as if it had another shape."""
        plain = Descriptor.plain(value.type.shape, layout.dtype)
        return View(self.read(value, plain).buffer, layout)

    def broadcast(self, value: Value, shape: Sequence[int]) -> View:
        """A view of a value that repeats it to a shape: strides of axes along which it is repeated are 0."""
        return self.repeated(self.reshaped(value, Descriptor.of(value.type)), shape)

    def repeated(self, source: View, shape: Sequence[int]) -> View:
        """A view that repeats another one in row-major order to a shape."""
        shape = shape or (1,)
        sizes = (*(1,) * (len(shape) - len(source.layout.shape)), *source.layout.shape)
        strides = [0 if n < wide else step for n, wide, step in zip(sizes, shape, row_major(sizes), strict=True)]
        return View(source.buffer, Descriptor.strided(shape, strides, source.layout.dtype), False)

    def converted(self, view: View, layout: Descriptor, of: Value | None = None) -> View:
        """A view in another layout, by a reorder unless it has that; with `of` it is kept for other readers."""
        known = self.views[of] if of is not None else []
        for other in (view, *known):
            if other.layout.equals(layout):  # also where only strides of axes of size 1 differ, which kernels may mind
                return View(other.buffer, layout)
        is_constant = view.buffer in self.constants
        target = View(Buffer(layout.size, is_outside=is_constant), layout)
        call = self.reorder(view, target)
        if is_constant:
            self.constants[target.buffer] = np.zeros(layout.size, np.uint8)
            binding = Binding(_NOTHING, self.constants)  # which keeps the memories of the call
            library().call("reorder a constant", call.bound(binding))
        else:
            self.append(call)
        known.append(target)
        return target

    def is_before_loop(self, view: View) -> bool:
        """Whether a view is the same in all iterations of the loop that this is the body of."""
        return False

    def reorder(self, source: View, target: View) -> Call:
        """A copy of a view in the layout of another one."""
        primitive = reorder_of(source.layout, target.layout)
        return self._call(primitive, {Role.SOURCE: source, Role.RESULT: target})

    def _arrange(self) -> int:
        """Give each buffer its place in the arena; returns its size in bytes.

        The result of a kernel by elements takes over the memory of an operand that nobody reads any more.
        """
        last = {buffer: number for number, call in enumerate(self.calls) for buffer in (*call.reads, *call.writes)}
        buffers: dict[Buffer, None] = {}
        for number, call in enumerate(self.calls):
            for buffer in call.writes:
                if buffer.first < 0 and not buffer.memory.is_outside:
                    buffer.first, buffer.last = number, last[buffer]
                    operand = self._dying(call, buffer, number, last)
                    if operand is None:
                        buffers.setdefault(buffer)
                    else:
                        buffer.within = operand
                        operand.memory.last = max(operand.memory.last, buffer.last)
        return placed(list(buffers))

    @staticmethod
    def _dying(call: AnyCall, result: Buffer, number: int, last: Mapping[Buffer, int]) -> Buffer | None:
        """An operand whose memory a result may take over, as this call is the last that reads it."""
        if not isinstance(call, Call) or call.primitive.kind != "elementwise":
            return None
        for buffer in call.reads:
            memory = buffer.memory
            is_last = memory.last == number == last[buffer] and not memory.is_outside
            if is_last and memory.size == result.size and call.may_overwrite(buffer):
                return memory
        return None

    def bind(self, arena: Array, outside: Mapping[Buffer, Array]) -> Binding:
        """The calls in an arena of bytes and on arrays outside.

        Buffers outside without an array have another one in each step, and are moved there before the calls.
        """
        binding = Binding(arena, dict(outside))
        binding.bind_calls(self.calls)
        return binding
