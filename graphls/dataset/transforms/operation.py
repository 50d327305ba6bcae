"""What every operation on the rows of a data set is, and operations of operations: in order, at random, one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphls.dataset.checks import probability, type_error
from graphls.dataset.randomness import generator
from graphls.ir.errors import GraphValueError
from graphls.tensors.tensor import Tensor


class TensorOperation:
    """An operation on one column; on several columns it does the same, random draws included, to each.

    Subclasses define `apply(column)`. Calling an operation gives its result, or the tuple of its results on several
    columns. A column is a NumPy array; scalars, strings, bytes and lists become one.
    """

    def __call__(self, *columns: Any) -> Any:
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

    def prepare(self, column: Any) -> Any:
        """The column as what `apply` takes."""
        return as_column(column)

    def apply(self, column: Any) -> Any:
        """The result for one column."""
        raise NotImplementedError


class PyTensorOperation(TensorOperation):
    """An operation that a user writes: its subclass defines `_execute_py(column)`."""

    def apply(self, column: Any) -> Any:
        return self._execute_py(column)

    def _execute_py(self, column: Any) -> Any:
        raise NotImplementedError


def as_column(column: Any) -> Any:
    """An array of a column's value."""
    return column.asnumpy() if isinstance(column, Tensor) else np.asarray(column)


def operations(name: str, value: Any) -> list[Callable[..., Any]]:
    """A list of callables, one or more; raises GraphTypeError or GraphValueError otherwise."""
    if not isinstance(value, (list, tuple)):
        raise type_error(name, value, "a list of operations")
    for position, operation in enumerate(value):
        if not callable(operation):
            raise type_error(f"{name}[{position}]", operation, "an operation or a function")
    if not value:
        raise GraphValueError(f"The list {name} must not be empty.")
    return list(value)


def chained(chain: list[Callable[..., Any]], columns: tuple[Any, ...]) -> Any:
    """The result of operations one after the other; the tuple that one gives is the columns of the next."""
    for operation in chain:
        result = operation(*columns)
        columns = result if isinstance(result, tuple) else (result,)
    return columns[0] if len(columns) == 1 else columns


class _Operations:
    """A list of operations and functions; raises GraphTypeError for others, GraphValueError for an empty list."""

    def __init__(self, transforms: Any) -> None:
        self.transforms = operations("transforms", transforms)


class Compose(_Operations):
    """Operations one after the other; what one gives, columns in a tuple, the next one takes."""

    def __call__(self, *columns: Any) -> Any:
        return chained(self.transforms, columns)


class RandomApply(_Operations):
    """All of the operations one after the other, with a probability."""

    def __init__(self, transforms: Any, prob: float = 0.5) -> None:
        super().__init__(transforms)
        self.prob = probability("prob", prob)

    def __call__(self, *columns: Any) -> Any:
        return chained(self.transforms if generator().random() < self.prob else [], columns)


class RandomChoice(_Operations):
    """One of the operations, each as likely as the others."""

    def __call__(self, *columns: Any) -> Any:
        return chained([self.transforms[generator().integers(len(self.transforms))]], columns)


class RandomOrder(_Operations):
    """All of the operations, in random order."""

    def __call__(self, *columns: Any) -> Any:
        return chained([self.transforms[i] for i in generator().permutation(len(self.transforms))], columns)
