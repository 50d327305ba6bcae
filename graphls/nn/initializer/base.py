"""The base class of initializers, the fans of a weight, and checks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


class Initializer:
    """Computes the values of a new parameter from its shape, when it is called with one.

    A subclass defines `__call__(shape)`, or `_initialize(array)`, which fills an array, as in MindSpore.

    Examples:
        >>> from graphls.initializer import Initializer, initializer
        >>> class Ramp(Initializer):
        ...     def _initialize(self, array):
        ...         array[:] = range(len(array))
        >>> initializer(Ramp(), (4,))
        Tensor(shape=[4], dtype=Float32, value=[0. 1. 2. 3.])
    """

    def __init__(self, **kwargs: Any) -> None:
        self.__dict__.update(kwargs)

    def __call__(self, shape: Shape) -> Array:
        array = np.zeros(shape, np.float32)
        self._initialize(array)
        return array

    def _initialize(self, arr: Array) -> None:
        message = f"{type(self).__name__} defines neither _initialize(array) nor __call__(shape); add one of them."
        raise GraphTypeError(message)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


def fans(shape: Shape) -> tuple[int, int]:
    """The inputs of an output and the outputs of an input, as numbers, for a weight (outputs, inputs, kernel...).

    Examples:
        >>> from graphls.initializer import fans
        >>> fans((64, 3, 5, 5))
        (75, 1600)
    """
    if len(shape) < 2:
        return math.prod(shape), math.prod(shape)
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


def one_of(name: str, argument: str, value: object, known: tuple[str, ...]) -> str:
    """A value out of some words; raises GraphValueError for any other."""
    if value not in known:
        listed = ", ".join(map(repr, known))
        raise GraphValueError(f"For {name!r}, the {argument!r} must be one of {listed}, but got {value!r}.")
    return str(value)


def require_rank(name: str, shape: Shape, ranks: tuple[int, ...]) -> None:
    """Raise GraphValueError for a shape of another rank."""
    if len(shape) not in ranks:
        listed = " or ".join(map(str, ranks))
        raise GraphValueError(f"The initializer {name} takes a shape of rank {listed}, not {shape}.")
