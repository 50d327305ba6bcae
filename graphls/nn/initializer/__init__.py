"""Initial values of parameters, drawn from the seed that `set_seed` gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from graphls.base.errors import GraphMemoryError, GraphTypeError, GraphValueError
from graphls.base.reporting import checked
from graphls.base.sharing.arrays import abstract, is_abstract
from graphls.frontend.registry import register
from graphls.frontend.tensors.tensor import Tensor
from graphls.ir.registry import nearest
from graphls.ir.types import DTypeLike, Type, as_dtype, float32
from graphls.nn.initializer.initializers import (
    Constant,
    Dirac,
    HeNormal,
    HeUniform,
    Identity,
    Initializer,
    Normal,
    One,
    Orthogonal,
    Sparse,
    TruncatedNormal,
    Uniform,
    VarianceScaling,
    XavierNormal,
    XavierUniform,
    Zero,
    fans,
)
from graphls.primitives.primitive import MOST_ELEMENTS

__all__ = [
    "Constant", "Dirac", "HeNormal", "HeUniform", "Identity", "Initializer", "Normal", "One", "Orthogonal", "Sparse",
    "TruncatedNormal", "Uniform", "VarianceScaling", "XavierNormal", "XavierUniform", "Zero", "fans", "initializer",
]  # fmt: skip

_BY_NAME: dict[str, type[Initializer]] = {
    "zero": Zero,
    "zeros": Zero,
    "one": One,
    "ones": One,
    "normal": Normal,
    "truncatednormal": TruncatedNormal,
    "truncated_normal": TruncatedNormal,
    "uniform": Uniform,
    "xavieruniform": XavierUniform,
    "xavier_uniform": XavierUniform,
    "xaviernormal": XavierNormal,
    "xavier_normal": XavierNormal,
    "heuniform": HeUniform,
    "he_uniform": HeUniform,
    "henormal": HeNormal,
    "he_normal": HeNormal,
    "variancescaling": VarianceScaling,
    "variance_scaling": VarianceScaling,
    "orthogonal": Orthogonal,
    "identity": Identity,
    "dirac": Dirac,
}


Initial: TypeAlias = "Initializer | str | Tensor | np.ndarray[Any, Any] | float"
"""A specification of initial values."""


def initializer(init: Initial, shape: int | Sequence[int] | None = None, dtype: DTypeLike = float32) -> Tensor:
    """A tensor of initial values: from a name such as "zeros" or "normal", a number, a tensor or an Initializer.

    Raises GraphValueError for an unknown name and for a tensor of another shape, GraphTypeError for any other object.

    Examples:
        >>> from graphls.initializer import Normal, initializer
        >>> initializer("ones", (2, 3))
        Tensor(shape=[2, 3], dtype=Float32, value=[[1. 1. 1.]
         [1. 1. 1.]])
        >>> print(f"{initializer(Normal(0.02), (1000,)).asnumpy().std():.2f}")
        0.02
    """
    if isinstance(init, (Tensor, np.ndarray)):
        return _existing(init, shape, dtype)
    if isinstance(init, str):
        init = _named(init)
    if isinstance(init, (int, float)):
        init = Constant(init)
    if not isinstance(init, Initializer):
        raise GraphTypeError(f"{init!r} is not a name, number, tensor or Initializer.")
    if shape is None:
        raise GraphTypeError(f"The shape of initial values is a tuple of integers, not {shape!r}.")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if not all(isinstance(size, (int, np.integer)) and size >= 0 for size in sizes):
        raise GraphValueError(f"The shape of initial values is a tuple of integers of 0 or more, not {shape!r}.")
    if math.prod(size or 1 for size in sizes) >= MOST_ELEMENTS:
        raise GraphMemoryError(f"No memory holds a tensor of the shape {sizes}; give smaller sizes.")
    kind = Type(as_dtype(dtype), sizes)
    if is_abstract(sizes, kind.dtype.numpy):
        return Tensor.on_host(abstract(sizes, kind.dtype.numpy), kind)
    return checked(lambda: Tensor(init(sizes).astype(kind.dtype.numpy)))


def _existing(init: object, shape: Any, dtype: DTypeLike) -> Tensor:
    tensor = Tensor(np.array(init), dtype)
    if shape is not None and tensor.shape != tuple(shape):
        raise GraphValueError(f"The initial values have the shape {tensor.shape} and must have {tuple(shape)}.")
    return tensor


def _named(name: str) -> Initializer:
    kind = _BY_NAME.get(name.lower())
    if kind is None:
        raise GraphValueError(f"There is no initializer {name!r}{nearest(name, _BY_NAME)}.")
    return kind()


register(initializer=initializer)
