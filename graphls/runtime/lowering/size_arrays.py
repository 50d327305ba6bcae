"""Emits ONNX operators that compute size-dependent arrays from the sizes of the inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from graphls.primitives.primitive import Array
from graphls.runtime.lowering.size_terms import Formula, Sizes, Sum, float_formula, integer_formula

MOST_NUMBERS = 64
"""Elements of the largest array of one shape whose elements get formulas of their own."""


class SizeArrays:
    """The operators and constants emitted so far; `sources` has the input and the axis of each size."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.sources: dict[str, tuple[str, int]] = {}
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self.known: dict[object, str] = {}
        self.count = 0

    def add(self, arrays: Sequence[Array]) -> str | None:
        """The tensor that equals each of the arrays at its sizes; None if there is no formula."""
        kinds = {(array.dtype, array.ndim) for array in arrays}
        if len(kinds) > 1:
            return None
        if len({array.shape for array in arrays}) == 1:
            return self._numbers(arrays) if arrays[0].size <= MOST_NUMBERS else None
        return self._spread(arrays) or self._counted(arrays) or self._mask(arrays)

    # Numbers of arrays whose shapes do not change.

    def _numbers(self, arrays: Sequence[Array]) -> str | None:
        if all(array.tobytes() == arrays[0].tobytes() for array in arrays):
            return self.constant(arrays[0])
        pieces = []
        for values in zip(*(array.reshape(-1).tolist() for array in arrays), strict=True):
            piece = self._number(values, arrays[0].dtype)
            if piece is None:
                return None
            pieces.append(piece)
        joined = pieces[0] if len(pieces) == 1 else self.node("Concat", pieces, axis=0)
        shape = arrays[0].shape
        return joined if len(shape) == 1 else self.node("Reshape", [joined, self.integers(shape)])

    def _number(self, values: Sequence[float], dtype: np.dtype[np.generic]) -> str | None:
        """One number as a tensor of one axis."""
        if len(set(values)) == 1:
            return self.constant(np.array(values[:1], dtype))
        if dtype.kind not in "iuf":
            return None
        is_integer = dtype.kind != "f" or all(float(value).is_integer() for value in values)
        formula = integer_formula([int(v) for v in values], self.sizes) if is_integer else None
        if formula is None and dtype.kind == "f":
            formula = float_formula(values, self.sizes)
        return None if formula is None else self.cast(self.formula(formula), dtype)

    def formula(self, formula: Formula) -> str:
        """The value of a formula, as int64[1] if it is an integer, else as float64[1]."""
        if formula not in self.known:
            self.known[formula] = self._formula(formula)
        return self.known[formula]

    def _formula(self, formula: Formula) -> str:
        value = self._joined("Mul", list(map(self._sum, formula.term.factors)))
        scale, shift = formula.scale, formula.shift
        if formula.power == 1 and scale.denominator == shift.denominator == 1:
            value = value if scale == 1 else self.node("Mul", [value, self.integers([int(scale)])])
            return value if shift == 0 else self.node("Add", [value, self.integers([int(shift)])])
        value = self.cast(value, np.dtype(np.float64))
        value = value if scale == 1 else self.node("Mul", [value, self.constant(np.array([float(scale)]))])
        value = value if shift == 0 else self.node("Add", [value, self.constant(np.array([float(shift)]))])
        value = self.node("Sqrt", [value]) if formula.power.denominator == 2 else value
        return self.node("Div", [self.constant(np.ones(1)), value]) if formula.power < 0 else value

    def _sum(self, factor: Sum) -> str:
        more = [self.integers([factor.more])] if factor.more else []
        return self._joined("Add", [*map(self.size, factor.names), *more])

    def _joined(self, kind: str, values: Sequence[str]) -> str:
        result = values[0]
        for value in values[1:]:
            result = self.node(kind, [result, value])
        return result

    def size(self, name: str) -> str:
        """A size, read from the input that has it."""
        if name not in self.known:
            tensor, axis = self.sources[name]
            self.known[name] = self.node("Shape", [tensor], start=axis, end=axis + 1)
        return self.known[name]

    # Arrays whose shapes change.

    def _shape(self, arrays: Sequence[Array]) -> str | None:
        return self._numbers([np.array(array.shape, np.int64) for array in arrays])

    def _spread(self, arrays: Sequence[Array]) -> str | None:
        """An array that is constant along its dynamic axes."""
        dynamic = _dynamic_axes(arrays)
        cores = [array[tuple(slice(0, 1) if i in dynamic else slice(None) for i in range(array.ndim))]
                 for array in arrays]  # fmt: skip
        pairs = zip(arrays, cores, strict=True)
        if not all(np.array_equal(core, cores[0]) for core in cores) or not all(
            np.array_equal(array, np.broadcast_to(core, array.shape)) for array, core in pairs
        ):
            return None
        shape = self._shape(arrays)
        return None if shape is None else self.node("Expand", [self.constant(cores[0]), shape])

    def _counted(self, arrays: Sequence[Array]) -> str | None:
        """Numbers that are linear in the indices, such as positions and offsets in a flat array."""
        if arrays[0].dtype.kind not in "iuf":
            return None
        slopes, starts = [_slopes(array) for array in arrays], [array.reshape(-1)[0].item() for array in arrays]
        lines = (_line(array.shape, *line) for array, *line in zip(arrays, slopes, starts, strict=True))
        if not all(np.array_equal(array, line) for array, line in zip(arrays, lines, strict=True)):
            return None
        if any(not float(number).is_integer() for numbers in (*slopes, starts) for number in numbers):
            return None
        shape, counted = self._shape(arrays), self._positions(arrays, list(zip(*slopes, strict=True)), starts)
        if shape is None or counted is None:
            return None
        return self.node("Expand", [self.cast(counted, arrays[0].dtype), shape])

    def _mask(self, arrays: Sequence[Array]) -> str | None:
        """One of two values on each side of a diagonal of the last two axes, as in masks of attention.

        An element is below the diagonal if its row plus `start` is more than its column.
        """
        if arrays[0].ndim < 2 or any(len(np.unique(array)) != 2 for array in arrays):
            return None
        first = arrays[0]
        below, above = first[..., -1, 0].flat[0], first[..., 0, -1].flat[0]
        slopes = [0.0] * (first.ndim - 2) + [1.0, -1.0]
        matrix = first.reshape(-1, *first.shape[-2:])[0]
        start = int(np.argmax(matrix[0] != below)) or 1 - int(np.argmax(matrix[:, 0] == below))
        for array in arrays:
            if not np.array_equal(array, np.where(_line(array.shape, slopes, start) > 0, below, above)):
                return None
        count = len(arrays)
        shape, positions = self._shape(arrays), self._positions(arrays, [[n] * count for n in slopes], [start] * count)
        if shape is None or positions is None:
            return None
        is_below = self.node("Greater", [positions, self.constant(np.zeros((), np.int64))])
        values = [self.constant(np.array(value, first.dtype)) for value in (below, above)]
        if first.dtype == bool:
            chosen = is_below if below else self.node("Not", [is_below])
        else:
            chosen = self.node("Where", [is_below, *values])
        return self.node("Expand", [chosen, shape])

    def _positions(
        self, arrays: Sequence[Array], slopes: Sequence[Sequence[float]], starts: Sequence[float]
    ) -> str | None:
        """The sum of indices times slopes, plus a start; slopes and starts have a number for each array."""
        result = self._integer(starts)
        for axis, slope in enumerate(slopes):
            if not any(slope):
                continue
            size, factor = self._integer([array.shape[axis] for array in arrays]), self._integer(slope)
            if size is None or factor is None or result is None:
                return None
            limits = [self.constant(np.array(0, np.int64)), self.node("Reshape", [size, self.integers([])])]
            index = self.node("Range", [*limits, self.constant(np.array(1, np.int64))])
            index = self.node("Reshape", [index, self.integers([-1 if i == axis else 1 for i in range(len(slopes))])])
            result = self.node("Add", [result, self.node("Mul", [index, factor])])
        return result

    def _integer(self, values: Sequence[float]) -> str | None:
        return self._number([int(value) for value in values], np.dtype(np.int64))

    # Emission.

    def node(self, kind: str, inputs: Sequence[str], **attributes: int) -> str:
        """Append an operator; the name of its result."""
        self.count += 1
        name = f"size.{self.count}.{kind}"
        node = helper.make_node(kind, list(inputs), [name], name)
        node.attribute.extend(helper.make_attribute(key, value) for key, value in sorted(attributes.items()))
        self.nodes.append(node)
        return name

    def constant(self, array: Array) -> str:
        """Add a constant, once."""
        key = (array.dtype, array.shape, array.tobytes())
        if key not in self.known:
            self.known[key] = f"size.constant.{len(self.constants)}"
            self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape),
                                                          self.known[key]))  # fmt: skip
        return self.known[key]

    def integers(self, numbers: Sequence[int]) -> str:
        """A constant of int64."""
        return self.constant(np.array(numbers, np.int64))

    def cast(self, name: str, dtype: np.dtype[np.generic]) -> str:
        """A tensor in another dtype; formulas are computed in int64 and float64."""
        return self.node("Cast", [name], to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _dynamic_axes(arrays: Sequence[Array]) -> set[int]:
    return {axis for axis, sizes in enumerate(zip(*(a.shape for a in arrays), strict=True)) if len(set(sizes)) > 1}


def _slopes(array: Array) -> list[float]:
    """The difference between the first two elements along each axis."""
    array, first = array.astype(np.float64), (0,) * array.ndim
    slopes = []
    for axis, size in enumerate(array.shape):
        second = tuple(int(i == axis) for i in range(array.ndim))
        slopes.append((array[second] - array[first]).item() if size > 1 else 0)
    return slopes


def _line(shape: Sequence[int], slopes: Sequence[float], start: float) -> Array:
    """start + the sum of indices times slopes."""
    result = np.full(tuple(shape), start, np.float64)
    for axis, slope in enumerate(slopes):
        index = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
        result = result + slope * index
    return result
