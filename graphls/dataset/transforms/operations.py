"""The base of operations on rows, combinations of operations, and operations on columns of any kind."""

from __future__ import annotations

import operator as operators
from enum import IntEnum
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphValueError
from graphls.dataset import checks
from graphls.dataset.columns import Array, ArrayDType
from graphls.dataset.randomness import generator
from graphls.frontend.tensors.tensor import Tensor

__all__ = [
    "Compose", "Concatenate", "Duplicate", "Fill", "Mask", "OneHot", "PadEnd", "PyTensorOperation", "RandomApply",
    "RandomChoice", "RandomOrder", "Relational", "Slice", "TensorOperation", "TypeCast", "Unique",
]  # fmt: skip


class TensorOperation:
    """An operation on one column; on several columns it does the same, random draws included, to each.

    Subclasses define `apply(column)`. Calling an operation returns its result, or the tuple of its results on several
    columns. A column is a NumPy array; scalars, strings, bytes and lists become one.

    Examples:
        >>> from graphls.dataset import transforms, vision
        >>> isinstance(vision.HWC2CHW(), transforms.TensorOperation)
        True
    """

    def __call__(self, *columns: object) -> Any:
        if not columns:
            raise GraphValueError(f"{type(self).__name__} takes a column, but got none.")
        if len(columns) == 1:
            return self.apply(self.prepare(columns[0]))
        bits = generator().bit_generator
        start, results = bits.state, []
        for column in columns:
            bits.state = start
            results.append(self.apply(self.prepare(column)))
        return tuple(results)

    def prepare(self, column: object) -> Any:
        """Convert a column to the argument of `apply`."""
        return as_column(column)

    def apply(self, column: Array) -> Any:
        """The result for one column."""
        raise NotImplementedError


class PyTensorOperation(TensorOperation):
    """The base of a user's operations: the subclass defines `_execute_py(column)`.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import transforms
        >>> class Double(transforms.PyTensorOperation):
        ...     def _execute_py(self, column):
        ...         return column * 2
        >>> Double()(np.array([1, 2]))
        array([2, 4])
    """

    def apply(self, column: Array) -> Any:
        return self._execute_py(column)

    def _execute_py(self, column: Array) -> Any:
        raise NotImplementedError


def as_column(column: object) -> Array:
    """An array of a column's value."""
    return column.asnumpy() if isinstance(column, Tensor) else np.asarray(column)


def chained(chain: list[checks.Function], columns: tuple[object, ...]) -> Any:
    """The result of operations in sequence; a tuple of results is the columns of the next one."""
    for operation in chain:
        result = operation(*columns)
        columns = result if isinstance(result, tuple) else (result,)
    return columns[0] if len(columns) == 1 else columns


class _Operations:
    """A list of operations and functions; raises GraphTypeError for others, GraphValueError for an empty list."""

    def __init__(self, transforms: object) -> None:
        self.transforms = checks.functions("transforms", transforms)


class Compose(_Operations):
    """Operations in sequence; the results of one, columns in a tuple, are the inputs of the next.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import transforms
        >>> transforms.Compose([transforms.TypeCast(np.float32), lambda x: x / 2])(np.array([1, 2]))
        array([0.5, 1. ], dtype=float32)
    """

    def __call__(self, *columns: object) -> Any:
        return chained(self.transforms, columns)


class RandomApply(_Operations):
    """All of the operations in sequence, with a probability.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import transforms
        >>> transforms.RandomApply([lambda x: x * 2], prob=1.0)(np.array([1, 2]))
        array([2, 4])
    """

    def __init__(self, transforms: object, prob: float = 0.5) -> None:
        super().__init__(transforms)
        self.prob = checks.probability("prob", prob)

    def __call__(self, *columns: object) -> Any:
        return chained(self.transforms if generator().random() < self.prob else [], columns)


class RandomChoice(_Operations):
    """One of the operations, each as likely as the others.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import transforms
        >>> transforms.RandomChoice([lambda x: x + 1, lambda x: x + 1])(np.array([1, 2]))
        array([2, 3])
    """

    def __call__(self, *columns: object) -> Any:
        return chained([self.transforms[generator().integers(len(self.transforms))]], columns)


class RandomOrder(_Operations):
    """All of the operations, in random order.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import transforms
        >>> transforms.RandomOrder([lambda x: x + 1, lambda x: x + 2])(np.array([1, 2]))
        array([4, 5])
    """

    def __call__(self, *columns: object) -> Any:
        return chained([self.transforms[i] for i in generator().permutation(len(self.transforms))], columns)


def does_not_fit(operation: object, text: str) -> GraphRuntimeError:
    """The error for a column that does not fit an operation."""
    return GraphRuntimeError(f"{type(operation).__name__} {text}.")


def is_text(dtype: ArrayDType) -> bool:
    """Returns whether a column holds strings or bytes."""
    return dtype.kind in "SU"


def as_element(operation: object, value: object, dtype: ArrayDType) -> Array:
    """A value as an element of a column of `dtype`, cast as in C; strings for strings only."""
    if is_text(dtype) != isinstance(value, (str, bytes)):
        raise does_not_fit(operation, f"has the value {value!r}, which is not an element of a column of {dtype}")
    if is_text(dtype):
        return np.array(value.decode() if isinstance(value, bytes) and dtype.kind == "U" else value)
    return np.array(value).astype(dtype)


def checked_value(name: str, value: object) -> Any:
    """A number, bool, string or bytes; raises GraphTypeError otherwise."""
    if not isinstance(value, (str, bytes, bool, int, float, np.generic)):
        raise checks.type_error(name, value, "a number or a string")
    return value


class Fill(TensorOperation):
    """A column of the same shape and dtype with one value.

    Raises GraphTypeError, and GraphRuntimeError for a string in a column of numbers, or a number in one of strings.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import transforms
        >>> transforms.Fill(7)(np.array([1, 2]))
        array([7, 7])
    """

    def __init__(self, fill_value: object) -> None:
        self.fill_value = checked_value("fill_value", fill_value)

    def apply(self, column: Array) -> Any:
        element = as_element(self, self.fill_value, column.dtype)
        return np.full(column.shape, element, element.dtype)


class Slice(TensorOperation):
    """The elements of a column by one item for each of its first axes; no axis is removed.

    An item is an integer, a list of integers, a slice, or None or ... for all. Raises GraphTypeError, or
    GraphRuntimeError for too many items or indices that the column does not have.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import transforms
        >>> transforms.Slice(slice(0, 2))(np.array([1, 2, 3]))
        array([1, 2])
    """

    def __init__(self, *slices: object) -> None:
        self.slices = [_item(item) for item in slices]

    def apply(self, column: Array) -> Any:
        if len(self.slices) > column.ndim:
            raise does_not_fit(self, f"has {len(self.slices)} items for a column of shape {column.shape}")
        for axis, item in enumerate(self.slices):
            index = (slice(None),) * axis + (item,)
            try:
                column = column[index]
            except IndexError as error:
                raise does_not_fit(self, f"does not fit: {error}") from None
        return _with_minimal_width(column)


def _item(item: object) -> slice | list[int]:
    if item is None or item is Ellipsis:
        return slice(None)
    if isinstance(item, slice):
        return item
    if isinstance(item, list):
        return [checks.integer("slices", index) for index in item]
    return [checks.integer("slices", item)]


def _with_minimal_width(column: Array) -> Array:
    """Strings in as few characters as they need."""
    if not is_text(column.dtype):
        return column
    length = max(1, int(np.char.str_len(column).max(initial=0)))
    return column.astype(f"{column.dtype.kind}{length}")


class PadEnd(TensorOperation):
    """A column cut or padded at the end of each axis to `pad_shape`; None leaves an axis as it is.

    `pad_value` is 0 or an empty string by default; a scalar stays one. Raises GraphTypeError, GraphValueError, or
    GraphRuntimeError for a column of another number of axes or another kind of value.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import transforms
        >>> transforms.PadEnd([4], -1)(np.array([1, 2]))
        array([ 1,  2, -1, -1])
    """

    def __init__(self, pad_shape: list[int | None], pad_value: object = None) -> None:
        checks.instance("pad_shape", pad_shape, list, "a list of integers and None")
        self.pad_shape = [checks.optional_integer("pad_shape", size, 1) for size in pad_shape]
        self.pad_value = None if pad_value is None else checked_value("pad_value", pad_value)

    def apply(self, column: Array) -> Any:
        default: Any = "" if is_text(column.dtype) else 0
        element = as_element(self, default if self.pad_value is None else self.pad_value, column.dtype)
        if column.ndim == 0:
            return column
        if column.ndim != len(self.pad_shape):
            raise does_not_fit(self, f"has {len(self.pad_shape)} sizes for a column of shape {column.shape}")
        shape = [old if new is None else new for old, new in zip(column.shape, self.pad_shape, strict=True)]
        result = np.full(shape, element, np.promote_types(column.dtype, element.dtype))
        common = tuple(slice(0, min(old, new)) for old, new in zip(column.shape, shape, strict=True))
        result[common] = column[common]
        return result


class Concatenate:
    """Columns of one axis concatenated, after `prepend` and before `append`.

    Raises GraphTypeError for anything but an array, GraphValueError for another axis than the only one,
    GraphRuntimeError for columns of more axes or of another dtype.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import transforms
        >>> transforms.Concatenate(append=np.array([0]))(np.array([1, 2]))
        array([1, 2, 0])
    """

    def __init__(self, axis: int = 0, prepend: Array | None = None, append: Array | None = None) -> None:
        if checks.integer("axis", axis) not in (0, -1):
            raise GraphValueError(f"Concatenate joins columns of one axis, along the axis 0 or -1, not {axis}.")
        for name, value in (("prepend", prepend), ("append", append)):
            if value is not None and not isinstance(value, np.ndarray):
                raise checks.type_error(name, value, "an array")
        self.prepend, self.append = prepend, append

    def __call__(self, *columns: object) -> Array:
        parts = [self.prepend, *(as_column(column) for column in columns), self.append]
        arrays = [part for part in parts if part is not None]
        if any(array.ndim != 1 for array in arrays):
            raise does_not_fit(self, f"joins columns of one axis, not of {[array.shape for array in arrays]}")
        kinds = {array.dtype.kind if is_text(array.dtype) else array.dtype for array in arrays}
        if len(kinds) > 1:
            raise does_not_fit(self, f"joins columns of one dtype, not of {', '.join(sorted(map(str, kinds)))}")
        return np.concatenate(arrays)


class Duplicate:
    """A column twice.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import transforms
        >>> transforms.Duplicate()(np.array([1, 2]))
        (array([1, 2]), array([1, 2]))
    """

    def __call__(self, column: object) -> tuple[Array, Array]:
        array = as_column(column)
        return array, array.copy()


class Unique:
    """The sorted different elements of a column, the index of its own for each element, and how often each occurs.

    The last two are int32 of one axis. Returns a tuple of three columns.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import transforms
        >>> transforms.Unique()(np.array([3, 1, 3]))
        (array([1, 3]), array([1, 0, 1], dtype=int32), array([1, 2], dtype=int32))
    """

    def __call__(self, column: object) -> tuple[Array, Array, Array]:
        elements, indices, counts = np.unique(as_column(column).reshape(-1), return_inverse=True, return_counts=True)
        return elements, indices.astype(np.int32), counts.astype(np.int32)


class TypeCast(TensorOperation):
    """The column in `data_type`, a dtype of graphls or NumPy or its name; numbers cast as in C.

    Raises GraphTypeError for anything but a dtype, GraphRuntimeError for strings as numbers or numbers as strings.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import transforms
        >>> transforms.TypeCast(np.int32)(np.array([1.7, -1.7]))
        array([ 1, -1], dtype=int32)
    """

    def __init__(self, data_type: checks.DTypeLike) -> None:
        self.data_type = checks.dtype("data_type", data_type)

    def apply(self, column: Array) -> Any:
        if (column.dtype.kind in "SU") != (self.data_type.kind in "SU"):
            text = f"{type(self).__name__} makes no {self.data_type} of {column.dtype}; use text.ToNumber for strings."
            raise GraphRuntimeError(text)
        with np.errstate(invalid="ignore", over="ignore"):
            if column.dtype.kind == "f" and self.data_type.kind in "iu" and self.data_type.itemsize < 8:
                column = column.astype(np.int64)
            return column.astype(self.data_type)


class OneHot(TensorOperation):
    """Labels (), (N,) or (N, 1) as vectors of `num_classes`: (num_classes,) or (N, num_classes), of the labels' dtype.

    With a `smoothing_rate` above 0 a label's class has 1 - rate and every class rate / num_classes more, in float64.
    Raises GraphTypeError, GraphValueError, or GraphRuntimeError for labels that are not integers or not a class.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import transforms
        >>> transforms.OneHot(3)(np.array(2))
        array([0, 0, 1])
    """

    def __init__(self, num_classes: int, smoothing_rate: float = 0.0) -> None:
        self.num_classes = checks.integer("num_classes", num_classes, 1)
        self.smoothing_rate = checks.number("smoothing_rate", smoothing_rate, 0, 1)

    def apply(self, column: Array) -> Any:
        if column.dtype.kind not in "iu" or column.ndim > 2 or (column.ndim == 2 and column.shape[1] != 1):
            raise does_not_fit(self, f"takes integers of (), (N,) or (N, 1), not {column.dtype} of {column.shape}")
        labels = column.reshape(-1) if column.ndim else column
        if labels.size and not 0 <= labels.min() <= labels.max() < self.num_classes:
            raise does_not_fit(self, f"of {self.num_classes} classes takes no label {labels.tolist()}")
        chosen = np.arange(self.num_classes) == labels[..., None]
        if self.smoothing_rate == 0:
            return chosen.astype(column.dtype)
        return chosen * (1 - self.smoothing_rate) + self.smoothing_rate / self.num_classes


class Relational(IntEnum):
    """A comparison.

    Examples:
        >>> from graphls.dataset.transforms import Relational
        >>> list(Relational)[0]
        <Relational.EQ: 0>
    """

    EQ = 0
    NE = 1
    GT = 2
    GE = 3
    LT = 4
    LE = 5


class Mask(TensorOperation):
    """The comparison `operator` of each element of a column with `constant`, true or false, in `dtype`.

    The constant is cast to the column's dtype. Raises GraphTypeError, or GraphRuntimeError for a string in a column of
    numbers, or a number in one of strings.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import transforms
        >>> transforms.Mask(transforms.Relational.GT, 1)(np.array([1, 2]))
        array([False,  True])
    """

    def __init__(self, operator: Relational, constant: object, dtype: checks.DTypeLike = np.bool_) -> None:
        self.operator = checks.choice("operator", operator, Relational)
        self.constant = checked_value("constant", constant)
        self.dtype = checks.dtype("dtype", dtype)

    def apply(self, column: Array) -> Any:
        if is_text(column.dtype) != isinstance(self.constant, (str, bytes)):
            raise does_not_fit(self, f"compares no {self.constant!r} to a column of {column.dtype}")
        constant = self.constant if is_text(column.dtype) else np.array(self.constant).astype(column.dtype)
        return getattr(operators, self.operator.name.lower())(column, constant).astype(self.dtype)
