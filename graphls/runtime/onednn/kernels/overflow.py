"""The overflow check: sums and norms by kernels and NumPy, which are finite only if all elements are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from graphls.ir.graph import Node, Value
from graphls.ir.types import TOKEN, Type, bfloat16, bool_, float32
from graphls.runtime.multiples import factors
from graphls.runtime.onednn.binding import F32, Descriptor
from graphls.runtime.onednn.kernels.recomputed import Recomputed
from graphls.runtime.onednn.kernels.reductions import REDUCE_SUM, by_row, in_rows
from graphls.runtime.onednn.late_products import is_bounded_by_operands
from graphls.runtime.onednn.numpy_nodes import OnArrays
from graphls.runtime.onednn.program.arena import LINE, Buffer
from graphls.runtime.onednn.program.bound import Binding
from graphls.runtime.onednn.program.calls import Array, View
from graphls.runtime.onednn.program.program import COMPUTED, Group, Program

_NUMBER = Type(float32)
FEW = 4096
"""Elements up to which NumPy adds them before a kernel would begin to."""
LARGEST = float(np.finfo(np.float32).max) / 8
"""A sum below this bounds the elements in spite of rounding."""


def checks(node: Node) -> bool:
    """Whether the engine computes a node, which is an overflow check of what it computes itself."""
    operands = (v.type for v in _operands(node))
    return node.primitive.is_check and all(t.dtype in (*COMPUTED, bool_) and not t.stacked for t in operands)


def _operands(node: Node) -> list[Value]:
    return [v for v in node.inputs if v.type != TOKEN]


class _Checked(NamedTuple):
    """A value that is checked: an array, which may be a `product` that its operands bound, perhaps times a number."""

    array: Value
    number: Value | None = None
    product: Node | None = None

    @property
    def reads(self) -> tuple[Value, ...]:
        """The values that the check reads."""
        arrays = (self.array,) if self.product is None else self.product.inputs
        return arrays if self.number is None else (*arrays, self.number)


def overflow_checks(nodes: Sequence[Node], definer: Mapping[Value, Node]) -> Iterator[Group]:
    """The groups of checks that read others in place of a value, which they need not compute.

    Those are the array that a number multiplies, and the operands of a product that is larger than they are. A check
    asks for its operands in the order in which they are scheduled: that of the parameters would ask for the gradient of
    the first layer first, so that the gradients of all images would be there before those of all kernels.
    """
    places = {value: place for place, node in enumerate(nodes) for value in node.outputs}
    for node in filter(checks, nodes):
        checked = [_checked(v, definer) for v in _operands(node)]
        reads = dict.fromkeys(v for each in checked for v in each.reads)
        inputs = sorted(reads, key=lambda v: places.get(v, -1))
        yield Group((node,), tuple(inputs), node.outputs, partial(_check, node, checked))


def _checked(value: Value, definer: Mapping[Value, Node]) -> _Checked:
    array, number = factors(definer.get(value)) or (value, None)
    product = definer.get(array)
    return _Checked(array, number, product if is_bounded_by_operands(product) else None)


def _check(node: Node, checked: Sequence[_Checked], program: Program) -> None:
    floats = [each for each in checked if each.array.type.dtype in COMPUTED and each.array.type.size]
    flags = [program.raw[each.array] for each in checked if each.array.type.dtype is bool_]
    squares: dict[Buffer, View] = {}
    neighbours = _Neighbours(program)
    terms = [_term(program, each, node, squares, neighbours) for each in dict.fromkeys(floats)]
    program.raw[node.output] = result = Buffer(node.output.type.nbytes)
    program.append(Check(node, terms, flags, result))


class _Bound(NamedTuple):
    """Numbers whose sum, or that of whose squares, is no less than the elements of some array."""

    view: View
    are_squares: bool = False

    @property
    def key(self) -> tuple[Buffer, int]:
        """What tells it from others."""
        return self.view.buffer, prod(self.view.layout.shape)


class _Term(NamedTuple):
    """A value that a check reads: a number and the array that it multiplies, with what bounds the elements of that."""

    number: Buffer | None
    bounds: Sequence[_Bound]
    array: View | Recomputed

    @property
    def reads(self) -> Iterator[Buffer]:
        """The buffers that are read."""
        yield from (bound.view.buffer for bound in self.bounds)
        yield from self.array.reads if isinstance(self.array, Recomputed) else (self.array.buffer,)
        yield from () if self.number is None else (self.number,)


class _Neighbours:
    """Small arrays, one behind the other between zeros, so that one sum of squares bounds all of them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.end = FEW * 4
        self.all: View | None = None

    def including(self, array: View, value: Value) -> View:
        """The array itself, or all of which it is one from now on."""
        size = -(-array.buffer.size // LINE) * LINE
        if array.layout.dtype != F32 or size > FEW * 4 or not self.program.may_move(value, array.buffer):
            return array
        if self.all is None or self.end + size > FEW * 4:
            self.all, self.end = self.program.fixed(np.zeros(FEW, np.float32), Descriptor.plain((FEW,))), 0
        array.buffer.within, array.buffer.begin = self.all.buffer, self.end
        self.end += size
        return self.all


def _term(
    program: Program, checked: _Checked, node: Node, squares: dict[Buffer, View], neighbours: _Neighbours
) -> _Term:  # fmt: skip
    number = None if checked.number is None else program.plain(checked.number).buffer
    if checked.product is None:
        view = program.stored(checked.array)
        rows = View(view.buffer, in_rows(view.layout))
        is_small = prod(rows.layout.shape) <= FEW
        sums = neighbours.including(rows, checked.array) if is_small else by_row(program, rows, REDUCE_SUM, F32)
        return _Term(number, (_Bound(sums),), rows)
    operands = dict.fromkeys(checked.product.inputs)
    floats = {v: program.stored(v) for v in operands if v.type.dtype is float32}
    integers = {v: program.raw[v] for v in operands if v not in floats}
    bounds = [_bound(program, View(view.buffer, in_rows(view.layout)), node, squares) for view in floats.values()]
    return _Term(number, bounds, Recomputed(checked.product, floats, integers))


def _bound(program: Program, array: View, node: Node, squares: dict[Buffer, View]) -> _Bound:
    """The bound of an array of float32; the `squares` of one that is not small are computed once."""
    count = prod(array.layout.shape)
    if count <= FEW:
        return _Bound(array)
    if array.buffer not in squares:
        squares[array.buffer] = program.scratch(Descriptor.plain((-(-count // FEW),)))
        program.append(Squares(node, array, squares[array.buffer]))
    return _Bound(squares[array.buffer], True)


@dataclass(eq=False)
class Squares(OnArrays):
    """Sums of squares of pieces of an array, so short that BLAS computes in this thread: its own would wait for more.

    They are computed while the array is in the cache.
    """

    node: Node
    array: View
    sums: View
    kind = "sums of squares"

    def __post_init__(self) -> None:
        self.reads, self.writes = (self.array.buffer,), (self.sums.buffer,)

    def bound(self, binding: Binding) -> partial[None]:
        """The call on the arrays of a binding."""
        array, sums = _flat(binding, self.array), _flat(binding, self.sums)
        count = array.size // FEW
        pieces, rest = array[: count * FEW].reshape(count, 1, FEW), array[count * FEW :]
        run = partial(np.matmul, pieces, pieces.reshape(count, FEW, 1), sums[:count].reshape(count, 1, 1))
        return partial(_sum, run, partial(np.dot, rest, rest) if rest.size else None, sums[count:])


def _sum(run: Callable[[], object], rest: Callable[[], float] | None, last: Array) -> None:
    with np.errstate(all="ignore"):
        run()
        if rest is not None:
            last[0] = rest()


@dataclass(eq=False)
class Check(OnArrays):
    """Tells whether one of its operands has an infinity or nan, from a sum that is small only if none has.

    That is a sum of squares: of small arrays, of sums of rows of large ones, and of the operands of products, of which
    it exceeds the product of the Euclidean norms and so each element (Cauchy and Schwarz), also of sums by index. Where
    it is too large, perhaps of finite elements, NumPy looks at all of them. An operand may stand for its product with a
    number, which is finite, too, if that is 1 at most.
    """

    node: Node
    terms: Sequence[_Term]
    flags: Sequence[Buffer]
    result: Buffer
    kind = "overflow check"

    def __post_init__(self) -> None:
        self.reads = (*dict.fromkeys(buffer for term in self.terms for buffer in term.reads), *self.flags)
        self.writes = (self.result,)

    @property
    def holds(self) -> Sequence[Buffer]:
        """The buffers whose arrays the bound call holds: not those that it looks at where the sum is too large."""
        bounds = (bound.view.buffer for term in self.terms for bound in term.bounds)
        return *bounds, *(term.number for term in self.terms if term.number is not None), *self.flags, self.result

    def bound(self, binding: Binding) -> partial[None]:
        """The call on the arrays of a binding."""
        sizes: dict[object, _Size] = {}
        tests = [_test(binding, term, sizes) for term in self.terms]
        multipliers = dict.fromkeys(term.number for term in self.terms if term.number is not None)
        numbers = [binding.array(buffer, _NUMBER) for buffer in multipliers]
        flags = [binding.array(buffer, Type(bool_, (buffer.size,))) for buffer in self.flags]
        result = binding.array(self.result, self.node.output.type)
        return partial(_run, list(sizes.values()), numbers, tests, flags, result)


_Size = partial[Any]


class _Test(NamedTuple):
    """The test of a term, on arrays: the sums that bound its elements, and these."""

    number: Array | None
    sizes: Sequence[_Size]
    elements: Callable[[], Array]

    def is_finite(self) -> bool:
        """Whether no element is infinity or nan."""
        number = self.number
        if _are_small(self.sizes) and (number is None or abs(number) <= 1):
            return True
        array = self.elements()
        return bool(np.isfinite(array if number is None else array * number).all())


def _are_small(sizes: Iterable[_Size]) -> bool:
    """Whether these sum up to less than infinity, by no loop of Python, as there are hundreds."""
    return sum(map(abs, map(float, map(partial.__call__, sizes)))) < LARGEST


def _test(binding: Binding, term: _Term, sizes: dict[object, _Size]) -> _Test:
    for bound in term.bounds:
        if bound.key not in sizes:
            sizes[bound.key] = _size(_flat(binding, bound.view), bound.are_squares)
    number = None if term.number is None else binding.array(term.number, _NUMBER)
    return _Test(number, [sizes[bound.key] for bound in term.bounds], partial(_elements, binding, term.array))


def _elements(binding: Binding, array: View | Recomputed) -> Array:
    return array.array(binding) if isinstance(array, Recomputed) else _flat(binding, array)


def _flat(binding: Binding, view: View) -> Array:
    dtype = float32 if view.layout.dtype == F32 else bfloat16
    return binding.array(view.buffer, Type(dtype, (prod(view.layout.shape),)))


def _size(array: Array, are_squares: bool) -> _Size:
    """The sum of squares; of the elements themselves where they are squares, or bfloat16, for which BLAS has none."""
    if array.dtype != np.float32:
        return partial(np.add.reduce, array)
    return partial(array.dot, np.ones_like(array) if are_squares else array)


def _run(
    sizes: Sequence[_Size], numbers: Sequence[Array], tests: Sequence[_Test], flags: Sequence[Array], result: Array
) -> None:  # fmt: skip
    with np.errstate(all="ignore"):
        is_finite = _are_small(sizes) and all(abs(number) <= 1 for number in numbers)
        is_finite = is_finite or all(test.is_finite() for test in tests)
    result.fill(not is_finite or any(bool(flag.any()) for flag in flags))
