"""Nodes that oneDNN has no kernel for: NumPy computes them on the buffers of the kernels around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from graphls.base.errors import GraphIndexError, GraphlsError
from graphls.ir.graph import Node
from graphls.ir.types import TOKEN, Type, bfloat16, bool_, float16, float32
from graphls.primitives.blockwise import decode, encode
from graphls.primitives.low_precision import DIGITS, FORMATS, Format
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.numpy_indexing import INDEXING, adds_rows
from graphls.runtime.onednn.program.arena import Buffer
from graphls.runtime.onednn.program.calls import PythonCall

Array = np.ndarray[Any, Any]
Function = Callable[[Node, Sequence[Array], Sequence[Array]], partial[Any]]
"""Gives a call that computes the results of a node from its operands, all of which stay where they are."""

LEAST_USUAL, MOST_USUAL = 2.0**-125, 2.0**127
"""Numbers between which the nearest power of two is told by one bit."""

MOST_BYTES = 1 << 16
"""Bytes up to which the values of a node are few enough for NumPy, where an engine of its own would take longer."""

VIEWS = ("transpose", "broadcast_to", "slice", "reverse")
"""Primitives whose NumPy rules give views of their operands."""

QUICK = {*INDEXING, *VIEWS, "cast", "concat", "where", "argmax", "argmin", "quantize_blockwise", "dequantize_blockwise"}
"""Primitives that move memory, which one thread of NumPy does at its speed, however much that is, and look-ups."""

IN_PLACE = ("where", "maximum", "minimum")
"""Primitives whose functions compute any number of elements in place, besides those of NumPy by element."""

QUOTIENTS = ("floor_div", "mod", "fmod", "truncate_div")
"""Primitives for which NumPy warns of integer zeros."""


def computes(node: Node) -> bool:
    """Whether NumPy computes a node without a kernel faster than an engine of its own would.

    That takes 30 to 60 microseconds for the call, and has its own copies of operands and results.
    """
    does = node.primitive
    values = (*node.inputs, *node.outputs)
    is_apart = node.regions or does.on_host or does.calls_python or does.has_effect or does.is_collective
    if is_apart or any(v.type == TOKEN or v.type.stacked or not v.type.size for v in values):
        return False
    others = {float16} if library().has_bfloat16 else {float16, bfloat16}
    if any(v.type.dtype in others or v.type.dtype.is_low for v in values):
        return False
    is_narrow = any(v.type.dtype is bfloat16 for v in values)
    is_quick = _is_moved(node) or _is_compared(node) if is_narrow else _is_quick(node)
    return is_quick or sum(v.type.nbytes for v in values) <= MOST_BYTES


def _is_moved(node: Node) -> bool:
    """Whether NumPy only moves bfloat16, with which it computes slowly, or adds slices by index in float32."""
    name = node.primitive.name
    is_move = name in QUICK or node.primitive.is_view
    return is_move and (name == "gather_gradient" or not node.primitive.flops_per_element)


def _is_quick(node: Node) -> bool:
    """Whether one thread is enough: for moves of memory, comparisons, and integers and flags element by element."""
    name = node.primitive.name
    if name in QUICK or node.primitive.is_view:
        return True
    is_of_integers = not any(v.type.dtype.is_float for v in node.inputs)
    return _is_compared(node) or (is_of_integers and ufunc_of(node) is not None)


def _is_compared(node: Node) -> bool:
    return ufunc_of(node) is not None and all(v.type.dtype is bool_ for v in node.outputs)


def ufunc_of(node: Node) -> np.ufunc | None:
    """The function of NumPy that is the rule of a primitive, where it works element by element."""
    rule = getattr(node.primitive, "numpy", None)
    return rule if isinstance(rule, np.ufunc) else None


def is_check(node: Node) -> bool:
    """Whether a node renames its operand, but may raise."""
    return node.primitive.name == "check_labels"


class Arrays(Protocol):
    """Where buffers lie."""

    def array(self, buffer: Buffer, kind: Type) -> Array:
        """The content of a buffer in row-major order."""


class OnArrays(PythonCall):
    """A call on arrays, which is bound again where one of them is another array in each step."""

    reads: Sequence[Buffer]
    writes: Sequence[Buffer]

    @property
    def holds(self) -> Sequence[Buffer]:
        """The buffers whose arrays the bound call holds."""
        return *self.reads, *self.writes


@dataclass(eq=False)
class Interpreted(OnArrays):
    """A node that NumPy computes, on buffers in row-major order."""

    node: Node
    reads: Sequence[Buffer]
    writes: Sequence[Buffer]

    @property
    def kind(self) -> str:
        """What runs."""
        return self.node.primitive.name

    def bound(self, binding: Arrays) -> partial[Any]:
        """The call on the arrays of a binding."""
        operands = [binding.array(b, v.type) for b, v in zip(self.reads, self.node.inputs, strict=True)]
        results = [binding.array(b, v.type) for b, v in zip(self.writes, self.node.outputs, strict=False)]
        return function_of(self.node)(self.node, operands, results)

    def failed(self, error: Exception) -> Exception:
        """The user's error for one of NumPy, with the line of the node."""
        if isinstance(error, IndexError) and not isinstance(error, GraphlsError):
            return GraphIndexError(f"{self.kind} could not run: {error}.", self.node.loc)
        return error.at(self.node.loc) if isinstance(error, GraphlsError) else error


def function_of(node: Node) -> Function:
    """The function of a node: one that writes its results where they belong, or its NumPy rule and a copy."""
    values = (*node.inputs, *node.outputs)
    if any(v.type.dtype.is_low for v in values):
        return _to_low
    is_narrow = any(v.type.dtype is bfloat16 for v in values)
    if is_narrow and not (adds_rows(node) if node.primitive.name == "gather_gradient" else _is_moved(node)):
        return _by_rule  # which rounds once
    return FUNCTIONS.get(node.primitive.name, _by_rule if ufunc_of(node) is None else _elementwise)


def is_in_place(node: Node) -> bool:
    """Whether the function of a node computes as many elements as it gets, where they belong."""
    form, name = FORMATS.get(node.output.type.dtype), node.primitive.name
    is_cast = name == "cast" and node.inputs[0].type.dtype is float32 and node.attrs.get("saturate", True)
    is_rounded = is_cast and form is not None and _is_rounded_in_place(form)
    return is_rounded or name in IN_PLACE or function_of(node) is _elementwise


def without_result(function: Callable[..., object], *arguments: Any, **options: Any) -> partial[None]:
    """A call of a function that writes its result in place, which gives nothing."""
    return partial(_run, function, *arguments, **options)


def _run(function: Callable[..., object], *arguments: Any, **options: Any) -> None:
    function(*arguments, **options)


def _run_all(calls: Sequence[Callable[[], object]]) -> None:
    for call in calls:
        call()


def _ignoring(node: Node, call: partial[Any]) -> partial[Any]:
    """The call without NumPy's warnings of nan, infinities and zero divisors, where the node may have those."""
    name, is_float = node.primitive.name, any(v.type.dtype.is_float for v in node.inputs)
    return partial(_quiet, call) if is_float or name in QUOTIENTS else call


def unguarded(call: partial[Any]) -> partial[Any]:
    """The call with NumPy's warnings, for a caller that turns them off."""
    inner: partial[Any] = call.args[0] if call.func is _quiet else call
    return inner


def _quiet(call: partial[Any]) -> None:
    with np.errstate(all="ignore"):
        call()


def _elementwise(node: Node, operands: Sequence[Array], results: Sequence[Array]) -> partial[Any]:
    function = ufunc_of(node)
    assert function is not None, "Only nodes with a function of NumPy come here."
    return _ignoring(node, without_result(function, *operands, out=results[0]))


def _by_rule(node: Node, operands: Sequence[Array], results: Sequence[Array]) -> partial[Any]:
    """The NumPy rule of the primitive, and copies of its results."""
    return _ignoring(node, partial(_evaluate, node, tuple(operands), results, tuple(v.type for v in node.outputs)))


def _evaluate(node: Node, operands: tuple[Array, ...], results: Sequence[Array], types: Any) -> None:
    for target, computed in zip(results, node.primitive.evaluate(operands, node.attrs, types), strict=True):
        np.copyto(target, computed, casting="unsafe")


def _view(node: Node, operands: Sequence[Array], results: Sequence[Array]) -> partial[Any]:
    """A copy of what is a view of the operand for NumPy; the part of a number is a number of its own."""
    (view,) = node.primitive.evaluate((operands[0],), node.attrs, ())
    is_view = np.may_share_memory(view, operands[0])
    return partial(np.copyto, results[0], view) if is_view else _by_rule(node, operands, results)


def _check(node: Node, operands: Sequence[Array], results: Sequence[Array]) -> partial[Any]:
    """A check of labels, whose result is the memory of its operand."""
    return without_result(node.primitive.evaluate, tuple(operands), node.attrs, ())


def _cast(node: Node, operands: Sequence[Array], results: Sequence[Array]) -> partial[Any]:
    return _ignoring(node, partial(np.copyto, results[0], operands[0], casting="unsafe"))


def _to_low(node: Node, operands: Sequence[Array], results: Sequence[Array]) -> partial[Any]:
    """A cast of float32 to a low dtype, whose numbers are float32 again, in place; the rule for other nodes."""
    x, result, form = operands[0], results[0], FORMATS.get(node.output.type.dtype)
    is_cast = node.primitive.name == "cast" and x.dtype == result.dtype == np.float32
    if form is None or not is_cast or not node.attrs.get("saturate", True):
        return _by_rule(node, operands, results)
    if not _is_rounded_in_place(form):
        return _by_rule(node, operands, results)
    return partial(_round_to_places, form, x, result) if form.is_signed else partial(_round_to_powers, node, x, result)


def _is_rounded_in_place(form: Format) -> bool:
    return not form.is_signed or (form.has_nan and form.has_negative_zero)


def _round_to_places(form: Format, x: Array, result: Array) -> None:
    """Magnitudes, plus and minus the power of two whose last place is theirs."""
    np.minimum(np.abs(x, out=result), form.most, out=result)
    powers = np.bitwise_and(result.view(np.int32), 255 << 23).view(np.float32)
    np.maximum(powers, form.least, out=powers)
    powers *= 2.0 ** (DIGITS[float32] - form.mantissa)
    with np.errstate(all="ignore"):
        result += powers
        result -= powers
    if x.view(np.int32).min() < 0:
        np.copysign(result, x, out=result)


def _round_to_powers(node: Node, x: Array, powers: Array) -> None:
    bits = powers.view(np.int32)
    np.add(x.view(np.int32), 1 << 22, out=bits)
    np.bitwise_and(bits, 255 << 23, out=bits)
    if not (x.min() >= LEAST_USUAL and x.max() <= MOST_USUAL):
        with np.errstate(all="ignore"):
            others = ~((x >= LEAST_USUAL) & (x <= MOST_USUAL))
            powers[others] = node.primitive.evaluate((x[others],), node.attrs, (node.output.type,))[0]


def _concat(node: Node, operands: Sequence[Array], results: Sequence[Array]) -> partial[Any]:
    return without_result(np.concatenate, tuple(operands), node.attrs["axis"], results[0])


def _where(node: Node, operands: Sequence[Array], results: Sequence[Array]) -> partial[Any]:
    """A selection by bits, y ^ ((x ^ y) & mask), which has no branches: a random mask costs a branch at each element.

    One of 1024 x 1000 numbers takes 0.45 ms where that of `numpy.where` takes 3.8.
    """
    condition, x, y = operands
    result = results[0]
    if result.itemsize > 8:
        return _by_rule(node, operands, results)
    bits = f"i{result.itemsize}"
    x, y, result = x.view(bits), y.view(bits), result.view(bits)
    mask = np.empty(condition.shape, np.int8)
    return partial(_run_all, (
        partial(np.bitwise_xor, x, y, out=result), partial(np.negative, condition.view(np.int8), out=mask),
        partial(np.bitwise_and, result, mask, out=result), partial(np.bitwise_xor, result, y, out=result),
    ))  # fmt: skip


def _reduction(function: Callable[..., object], has_dtype: bool = False) -> Function:
    def bound(node: Node, operands: Sequence[Array], results: Sequence[Array]) -> partial[Any]:
        options = {"dtype": operands[0].dtype} if has_dtype else {}
        axis, keepdims = node.attrs.get("axis"), bool(node.attrs.get("keepdims"))
        call = without_result(function, operands[0], axis=axis, keepdims=keepdims, out=results[0], **options)
        return _ignoring(node, call)

    return bound


def _cumsum(node: Node, operands: Sequence[Array], results: Sequence[Array]) -> partial[Any]:
    x, result, axis = operands[0], results[0], node.attrs["axis"]
    if node.attrs.get("reverse"):
        x, result = np.flip(x, axis), np.flip(result, axis)
    if not node.attrs.get("exclusive"):
        return _ignoring(node, without_result(np.cumsum, x, axis, x.dtype, result))
    x, result = np.moveaxis(x, axis, 0), np.moveaxis(result, axis, 0)
    sums = partial(np.cumsum, x[:-1], 0, x.dtype, result[1:])
    return _ignoring(node, partial(_run_all, (partial(result[:1].fill, 0), sums)))


def _blockwise(function: Callable[..., None]) -> Function:
    """A function that looks up what becomes of the elements of blocks."""

    def bound(node: Node, operands: Sequence[Array], results: Sequence[Array]) -> partial[Any]:
        is_fit = all(array.dtype != np.float64 for array in operands)
        arguments = (*operands, node.attrs["is_signed"], *results)
        return partial(function, *arguments) if is_fit else _by_rule(node, operands, results)

    return bound


FUNCTIONS: Mapping[str, Function] = {
    "quantize_blockwise": _blockwise(encode), "dequantize_blockwise": _blockwise(decode),
    **dict.fromkeys(VIEWS, _view), **INDEXING,
    "check_labels": _check, "cast": _cast, "concat": _concat, "where": _where, "cumsum": _cumsum,
    "any": _reduction(np.any), "all": _reduction(np.all), "argmax": _reduction(np.argmax),
    "argmin": _reduction(np.argmin), "max": _reduction(np.maximum.reduce), "min": _reduction(np.minimum.reduce),
    "sum": _reduction(np.add.reduce, True), "prod": _reduction(np.multiply.reduce, True),
    "maximum": lambda node, operands, results: without_result(np.maximum, *operands, out=results[0]),
    "minimum": lambda node, operands, results: without_result(np.minimum, *operands, out=results[0]),
}  # fmt: skip
