"""Initial values of parameters, drawn from the seed that `set_seed` gives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.registry import nearest
from graphls.ir.types import as_dtype, float32
from graphls.random import generator
from graphls.source import user_location
from graphls.tensor import Tensor

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


class Initializer:
    """How the values of a new parameter follow from its shape; calling it gives them."""

    def __call__(self, shape: Shape) -> Array:
        raise NotImplementedError


class Constant(Initializer):
    """One number everywhere."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __call__(self, shape: Shape) -> Array:
        return np.full(shape, self.value)


class Zero(Constant):
    """Zeros."""

    def __init__(self) -> None:
        super().__init__(0.0)


class One(Constant):
    """Ones."""

    def __init__(self) -> None:
        super().__init__(1.0)


class Normal(Initializer):
    """Normally distributed numbers of a standard deviation `sigma` around `mean`."""

    def __init__(self, sigma: float = 0.01, mean: float = 0.0) -> None:
        self.sigma, self.mean = sigma, mean

    def __call__(self, shape: Shape) -> Array:
        return generator().normal(self.mean, self.sigma, shape)


class TruncatedNormal(Normal):
    """Normally distributed numbers, of which those beyond two standard deviations are drawn again."""

    def __call__(self, shape: Shape) -> Array:
        draws = generator().standard_normal(shape)
        while (outside := np.abs(draws) > 2).any():
            draws[outside] = generator().standard_normal(int(outside.sum()))
        return self.mean + self.sigma * draws


class Uniform(Initializer):
    """Numbers spread evenly over [-scale, scale)."""

    def __init__(self, scale: float = 0.07) -> None:
        self.scale = scale

    def __call__(self, shape: Shape) -> Array:
        return generator().uniform(-self.scale, self.scale, shape)


class XavierUniform(Initializer):
    """Evenly spread numbers up to gain * sqrt(6 / (fan in + fan out)) (Glorot and Bengio, 2010)."""

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = gain

    def __call__(self, shape: Shape) -> Array:
        return Uniform(self.gain * math.sqrt(6 / max(1, sum(fans(shape)))))(shape)


class HeUniform(Initializer):
    """Evenly spread numbers up to gain * sqrt(3 / fan) (He et al., 2015).

    The gain is sqrt(2 / (1 + negative_slope ** 2)) for "leaky_relu" and sqrt(2) for "relu"; `mode` says whether fan
    counts the inputs ("fan_in") or the outputs ("fan_out"). Raises GraphValueError for other words.
    """

    def __init__(self, negative_slope: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> None:
        if mode not in ("fan_in", "fan_out") or nonlinearity not in ("leaky_relu", "relu"):
            raise GraphValueError(f"An initializer knows no {mode!r} with {nonlinearity!r}.", user_location())
        self.mode = mode
        self.gain = math.sqrt(2 / (1 + negative_slope**2)) if nonlinearity == "leaky_relu" else math.sqrt(2)

    def __call__(self, shape: Shape) -> Array:
        return Uniform(math.sqrt(3) * self._deviation(shape))(shape)

    def _deviation(self, shape: Shape) -> float:
        return self.gain / math.sqrt(max(1, fans(shape)[self.mode == "fan_out"]))


class HeNormal(HeUniform):
    """Normally distributed numbers of the standard deviation gain / sqrt(fan) (He et al., 2015)."""

    def __call__(self, shape: Shape) -> Array:
        return Normal(self._deviation(shape))(shape)


def fans(shape: Shape) -> tuple[int, int]:
    """How many inputs an output has and how many outputs an input, for a weight (outputs, inputs, kernel...)."""
    if len(shape) < 2:
        return math.prod(shape), math.prod(shape)
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


_BY_NAME: dict[str, type[Initializer]] = {
    "zeros": Zero,
    "ones": One,
    "normal": Normal,
    "truncatednormal": TruncatedNormal,
    "uniform": Uniform,
    "xavier_uniform": XavierUniform,
    "he_uniform": HeUniform,
    "he_normal": HeNormal,
}


def initializer(init: Any, shape: Any = None, dtype: Any = float32) -> Tensor:
    """A tensor of initial values: from a name such as "zeros" or "normal", a number, a tensor or an Initializer.

    Raises GraphValueError for an unknown name and for a tensor of another shape, GraphTypeError for any other object.
    """
    if isinstance(init, (Tensor, np.ndarray)):
        return _given(init, shape, dtype)
    if isinstance(init, str):
        init = _named(init)
    if isinstance(init, (int, float)):
        init = Constant(init)
    if not isinstance(init, Initializer):
        raise GraphTypeError(f"{init!r} is not a name, number, tensor or Initializer.", user_location())
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    return Tensor(init(sizes).astype(as_dtype(dtype).numpy))


def _given(init: Any, shape: Any, dtype: Any) -> Tensor:
    tensor = Tensor(np.array(init), dtype)
    if shape is not None and tensor.shape != tuple(shape):
        raise GraphValueError(
            f"The initial values have the shape {tensor.shape} and must have {tuple(shape)}.", user_location()
        )
    return tensor


def _named(name: str) -> Initializer:
    found = _BY_NAME.get(name.lower())
    if found is None:
        raise GraphValueError(f"There is no initializer {name!r}{nearest(name, _BY_NAME)}.", user_location())
    return found()
