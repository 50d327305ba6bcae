"""Initializers: by a distribution, constant, and of structured matrices such as orthogonal ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphls.base.checks import number
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.random import generator

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

CONVOLUTIONS = ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
SQUARED_GAINS = {**dict.fromkeys(("linear", "sigmoid", *CONVOLUTIONS), 1.0), "tanh": 25 / 9, "relu": 2.0}
"""Factors of the variance of initial weights before an activation; a leaky relu's depends on its slope."""


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


class Normal(Initializer):
    """Normally distributed numbers of a standard deviation `sigma` around `mean`.

    Raises GraphValueError for a negative `sigma`.

    Examples:
        >>> from graphls.initializer import Normal, initializer
        >>> print(f"{initializer(Normal(0.02, mean=1.0), (10000,)).asnumpy().mean():.2f}")
        1.00
    """

    def __init__(self, sigma: float = 0.01, mean: float = 0.0) -> None:
        self.sigma, self.mean = number("Normal", "sigma", sigma), number("Normal", "mean", mean)

    def __call__(self, shape: Shape) -> Array:
        return generator().normal(self.mean, self.sigma, shape)


class TruncatedNormal(Initializer):
    """Normally distributed numbers, of which those outside of [a, b] standard deviations are drawn again.

    `sigma` is the standard deviation before that.

    Raises GraphValueError for a negative `sigma` and for bounds that hold no number that is drawn.

    Examples:
        >>> from graphls.initializer import TruncatedNormal, initializer
        >>> bool(abs(initializer(TruncatedNormal(0.02), (1000,))).max() <= 0.04)
        True
    """

    def __init__(self, sigma: float = 0.01, mean: float = 0.0, a: float = -2.0, b: float = 2.0) -> None:
        for name, value in {"sigma": sigma, "mean": mean, "a": a, "b": b}.items():
            number("TruncatedNormal", name, value)
        if b - a < 0.1 or a > 3 or b < -3:
            raise GraphValueError(
                f"For 'TruncatedNormal', [a, b] must hold numbers that are drawn, but got [{a}, {b}]."
            )
        self.sigma, self.mean, self.a, self.b = sigma, mean, a, b

    def __call__(self, shape: Shape) -> Array:
        draws = np.asarray(generator().standard_normal(shape))
        while (outside := (draws < self.a) | (draws > self.b)).any():
            draws[outside] = generator().standard_normal(int(outside.sum()))
        return np.asarray(self.mean + self.sigma * draws)


class Uniform(Initializer):
    """Numbers spread evenly over [-scale, scale).

    Raises GraphValueError for a `scale` that is not a number of its range.

    Examples:
        >>> from graphls.initializer import Uniform, initializer
        >>> bool(abs(initializer(Uniform(0.5), (1000,))).max() <= 0.5)
        True
    """

    def __init__(self, scale: float = 0.07) -> None:
        self.scale = number("Uniform", "scale", scale)

    def __call__(self, shape: Shape) -> Array:
        return generator().uniform(-self.scale, self.scale, shape)


class XavierUniform(Initializer):
    """Evenly spread numbers up to gain * sqrt(6 / (fan in + fan out)) (Glorot and Bengio, 2010).

    Raises GraphValueError for a `gain` that is not a number of its range.

    Examples:
        >>> from graphls.initializer import XavierUniform, initializer
        >>> print(f"{initializer(XavierUniform(), (64, 64)).asnumpy().max():.2f}")  # sqrt(6 / (64 + 64))
        0.22
    """

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = number(type(self).__name__, "gain", gain)

    def __call__(self, shape: Shape) -> Array:
        return Uniform(math.sqrt(3) * self._deviation(shape))(shape)

    def _deviation(self, shape: Shape) -> float:
        return self.gain * math.sqrt(2 / max(1, sum(fans(shape))))


class XavierNormal(XavierUniform):
    """Normally distributed numbers of deviation gain * sqrt(2 / (fan in + fan out)) (Glorot and Bengio, 2010).

    Examples:
        >>> from graphls.initializer import XavierNormal, initializer
        >>> print(f"{initializer(XavierNormal(), (100, 100)).asnumpy().std():.2f}")  # sqrt(2 / (100 + 100))
        0.10
    """

    def __call__(self, shape: Shape) -> Array:
        return Normal(self._deviation(shape))(shape)


class HeUniform(Initializer):
    """Evenly spread numbers up to gain * sqrt(3 / fan) (He et al., 2015).

    The gain is sqrt(2 / (1 + negative_slope ** 2)) for "leaky_relu", sqrt(2) for "relu", 5 / 3 for "tanh" and 1 for
    "sigmoid", "linear" and convolutions ("conv2d"); `mode` says whether fan counts the inputs ("fan_in") or the
    outputs ("fan_out"). Raises GraphValueError for other words.

    Examples:
        >>> from graphls import nn
        >>> from graphls.initializer import HeUniform
        >>> print(f"{nn.Dense(128, 64, weight_init=HeUniform()).weight.asnumpy().max():.2f}")  # sqrt(3) * sqrt(2 / 128)
        0.22
    """

    def __init__(self, negative_slope: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> None:
        name = type(self).__name__
        self.negative_slope = number(name, "negative_slope", negative_slope)
        self.mode = one_of(name, "mode", mode, ("fan_in", "fan_out"))
        self.nonlinearity = one_of(name, "nonlinearity", nonlinearity, ("leaky_relu", *SQUARED_GAINS))

    def __call__(self, shape: Shape) -> Array:
        return Uniform(math.sqrt(3) * self._deviation(shape))(shape)

    def _deviation(self, shape: Shape) -> float:
        squared = SQUARED_GAINS.get(self.nonlinearity, 2 / (1 + self.negative_slope**2))
        return math.sqrt(squared / max(1, fans(shape)[self.mode == "fan_out"]))


class HeNormal(HeUniform):
    """Normally distributed numbers of the standard deviation gain / sqrt(fan) (He et al., 2015).

    Examples:
        >>> from graphls.initializer import HeNormal, initializer
        >>> print(f"{initializer(HeNormal(), (64, 200)).asnumpy().std():.2f}")  # sqrt(2 / 200)
        0.10
    """

    def __call__(self, shape: Shape) -> Array:
        return Normal(self._deviation(shape))(shape)


class VarianceScaling(Initializer):
    """Numbers of the variance scale / fan, where fan counts inputs, outputs, or is the mean of both ("fan_avg").

    The `distribution` is "truncated_normal", "untruncated_normal" or "uniform". Raises GraphTypeError and
    GraphValueError for other arguments.

    Examples:
        >>> from graphls.initializer import VarianceScaling, initializer
        >>> print(f"{initializer(VarianceScaling(2.0, 'fan_out'), (200, 64)).asnumpy().std():.2f}")  # sqrt(2 / 200)
        0.10
    """

    def __init__(self, scale: float = 1.0, mode: str = "fan_in", distribution: str = "truncated_normal") -> None:
        if number("VarianceScaling", "scale", scale) <= 0:
            raise GraphValueError(f"For 'VarianceScaling', the 'scale' must be > 0, but got {scale}.")
        known = ("truncated_normal", "untruncated_normal", "normal", "uniform")
        self.scale = scale
        self.mode = one_of("VarianceScaling", "mode", mode, ("fan_in", "fan_out", "fan_avg"))
        self.distribution = one_of("VarianceScaling", "distribution", distribution, known)

    def __call__(self, shape: Shape) -> Array:
        deviation = math.sqrt(self.scale / max(1.0, self._fan(shape)))
        if self.distribution == "uniform":
            return Uniform(math.sqrt(3) * deviation)(shape)
        if self.distribution == "truncated_normal":
            return TruncatedNormal(deviation / _DEVIATION_WITHIN_TWO)(shape)
        return Normal(deviation)(shape)

    def _fan(self, shape: Shape) -> float:
        inputs, outputs = fans(shape)
        return {"fan_in": inputs, "fan_out": outputs, "fan_avg": (inputs + outputs) / 2}[self.mode]


def _truncated_deviation(bound: float) -> float:
    """The standard deviation of a standard normal distribution between -bound and bound."""
    density = math.exp(-(bound**2) / 2) / math.sqrt(2 * math.pi)
    return math.sqrt(1 - 2 * bound * density / math.erf(bound / math.sqrt(2)))


_DEVIATION_WITHIN_TWO = _truncated_deviation(2.0)


class Constant(Initializer):
    """One number everywhere.

    Examples:
        >>> from graphls.initializer import Constant, initializer
        >>> initializer(Constant(0.5), (2, 2))
        Tensor(shape=[2, 2], dtype=Float32, value=[[0.5 0.5]
         [0.5 0.5]])
    """

    def __init__(self, value: float) -> None:
        self.value = value

    def __call__(self, shape: Shape) -> Array:
        return np.full(shape, self.value)


class Zero(Constant):
    """Zeros.

    Examples:
        >>> from graphls.initializer import Zero, initializer
        >>> initializer(Zero(), (2, 2))
        Tensor(shape=[2, 2], dtype=Float32, value=[[0. 0.]
         [0. 0.]])
    """

    def __init__(self) -> None:
        super().__init__(0.0)


class One(Constant):
    """Ones.

    Examples:
        >>> from graphls.initializer import One, initializer
        >>> initializer(One(), (2, 2))
        Tensor(shape=[2, 2], dtype=Float32, value=[[1. 1.]
         [1. 1.]])
    """

    def __init__(self) -> None:
        super().__init__(1.0)


class Identity(Initializer):
    """A matrix with ones on the diagonal; raises GraphValueError for another rank than 2.

    Examples:
        >>> from graphls.initializer import Identity, initializer
        >>> initializer(Identity(), (2, 2))
        Tensor(shape=[2, 2], dtype=Float32, value=[[1. 0.]
         [0. 1.]])
    """

    def __call__(self, shape: Shape) -> Array:
        require_rank("Identity", shape, (2,))
        return np.eye(shape[0], shape[1])


class Orthogonal(Initializer):
    """`gain` times rows, or columns where there are more rows, that are orthonormal (Saxe et al., 2014).

    All axes after the first count as one. Raises GraphValueError for a rank below 2.

    Examples:
        >>> from graphls.initializer import Orthogonal, initializer
        >>> rows = initializer(Orthogonal(), (2, 4))
        >>> (rows @ rows.T).round(decimals=3) + 0.0
        Tensor(shape=[2, 2], dtype=Float32, value=[[1. 0.]
         [0. 1.]])
    """

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = number("Orthogonal", "gain", gain)

    def __call__(self, shape: Shape) -> Array:
        require_rank("Orthogonal", shape, tuple(range(2, max(len(shape) + 1, 3))))
        rows, columns = shape[0], math.prod(shape[1:])
        draws = generator().standard_normal((max(rows, columns), min(rows, columns)))
        q, r = np.linalg.qr(draws)
        signs = np.sign(np.diag(r))
        return np.asarray(self.gain * ((q * signs) if rows >= columns else (q * signs).T).reshape(shape))


class Sparse(Initializer):
    """A matrix of normally distributed numbers, with zeros in the share `sparsity` of each column (Martens, 2010).

    Raises GraphTypeError and GraphValueError for a share outside of [0, 1] and for another rank than 2.

    Examples:
        >>> from graphls.initializer import Sparse, initializer
        >>> int((initializer(Sparse(0.5), (10, 4)) == 0).sum())
        20
    """

    def __init__(self, sparsity: float, sigma: float = 0.01) -> None:
        if not 0 <= number("Sparse", "sparsity", sparsity) <= 1:
            raise GraphValueError(f"For 'Sparse', the 'sparsity' must be in [0, 1], but got {sparsity}.")  # fmt: skip
        self.sparsity, self.sigma = sparsity, number("Sparse", "sigma", sigma)

    def __call__(self, shape: Shape) -> Array:
        require_rank("Sparse", shape, (2,))
        ranks = np.argsort(generator().random(shape), axis=0).argsort(axis=0)
        mask = ranks >= math.ceil(self.sparsity * shape[0])
        return np.asarray(generator().normal(0.0, self.sigma, shape) * mask)


class Dirac(Initializer):
    """Kernels (outputs, inputs, sizes...) whose convolution passes as many channels on as they have, in each group.

    Raises GraphTypeError and GraphValueError for a number of groups that does not divide the outputs, and for a rank
    that is not 3, 4 or 5.

    Examples:
        >>> from graphls.initializer import Dirac, initializer
        >>> initializer(Dirac(), (2, 2, 1)).squeeze(-1)
        Tensor(shape=[2, 2], dtype=Float32, value=[[1. 0.]
         [0. 1.]])
    """

    def __init__(self, groups: int = 1) -> None:
        if isinstance(groups, bool) or not isinstance(groups, int):
            raise GraphTypeError(f"For 'Dirac', the 'groups' must be int, but got {groups!r}.")
        if groups < 1:
            raise GraphValueError(f"For 'Dirac', the 'groups' must be > 0, but got {groups}.")
        self.groups = groups

    def __call__(self, shape: Shape) -> Array:
        require_rank("Dirac", shape, (3, 4, 5))
        if shape[0] % self.groups:
            raise GraphValueError(f"{shape[0]} outputs do not make {self.groups} groups.")
        values, centre = np.zeros(shape), tuple(n // 2 for n in shape[2:])
        each = shape[0] // self.groups
        for group in range(self.groups):
            for channel in range(min(each, shape[1])):
                index: Any = (group * each + channel, channel, *centre)
                values[index] = 1.0
        return values


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
