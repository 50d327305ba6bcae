"""`mindspore.nn.probability.bijector`: invertible functions as cells, and transformed distributions.

A bijector called with a distribution returns the distribution of its values; called with the name of a method, the
result of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphls import ops
from graphls.base.errors import GraphAttributeError, GraphTypeError, GraphValueError
from graphls.compat.probability.distributions import Distribution
from graphls.frontend.tensors.tensor import Symbol, Tensor, TensorLike, is_tensor
from graphls.ir.types import DTypeLike, as_dtype
from graphls.nn.cell import Cell
from graphls.ops.operands import tensor_of

_METHODS = ("forward", "inverse", "forward_log_jacobian", "inverse_log_jacobian")


class Bijector(Cell):
    """An invertible function; a subclass defines `_forward`, `_inverse` and the logarithms of their derivatives.

    Values are tensors of floats. Raises GraphTypeError for others, GraphAttributeError for a method without a formula.
    """

    def __init__(
        self, is_constant_jacobian: bool = False, is_injective: bool = True, name: str | None = None,
        dtype: DTypeLike | None = None, param: object = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.is_constant_jacobian, self.is_injective, self.dtype = is_constant_jacobian, is_injective, dtype
        self.name = type(self).__name__ if name is None else name

    def __call__(self, *args: Any, **options: Any) -> Any:
        if args and isinstance(args[0], Distribution):
            return TransformedDistribution(self, args[0])
        return super().__call__(*args, **options)

    def construct(self, name: str, *args: Any, **options: Any) -> Any:
        if name not in _METHODS:
            raise GraphValueError(f"A bijector has the methods {', '.join(_METHODS)}, not {name!r}.")
        return getattr(self, name)(*args, **options)

    def forward(self, value: TensorLike, *args: object, **options: object) -> Tensor:
        """The function of a value."""
        return self._formula("forward", value, *args, **options)

    def inverse(self, value: TensorLike, *args: object, **options: object) -> Tensor:
        """The value whose image is this one."""
        return self._formula("inverse", value, *args, **options)

    def forward_log_jacobian(self, value: TensorLike, *args: object, **options: object) -> Tensor:
        """The logarithm of the absolute derivative of `forward`."""
        return self._formula("forward_log_jacobian", value, *args, **options)

    def inverse_log_jacobian(self, value: TensorLike, *args: object, **options: object) -> Tensor:
        """The logarithm of the absolute derivative of `inverse`."""
        return self._formula("inverse_log_jacobian", value, *args, **options)

    def is_falling(self) -> Any:
        """Tells whether the function is decreasing: a bool, or a tensor of them."""
        return False

    def _formula(self, name: str, value: Any, *args: object, **options: object) -> Tensor:
        formula = getattr(self, f"_{name}", None)
        if formula is None:
            raise GraphAttributeError(f"{type(self).__name__} has no {name}.")
        if not is_tensor(value) or not value.dtype.is_float:
            text = f"{type(self).__name__}.{name} takes a tensor of floats, not {getattr(value, 'type', value)!r}."
            raise GraphTypeError(text)
        return tensor_of(formula(value, *args, **options))


class TransformedDistribution(Distribution):
    """The distribution of the values of a bijector on a base distribution, which has the parameters.

    It has a mean if the bijector is linear. Raises GraphTypeError for other arguments than a bijector and a
    distribution of floats, GraphAttributeError for a method without a formula.
    """

    def __init__(
        self, bijector: Bijector, distribution: Distribution, seed: int | None = None,
        name: str = "transformed_distribution",
    ) -> None:  # fmt: skip
        for key, value, kind in (("bijector", bijector, Bijector), ("distribution", distribution, Distribution)):
            if not isinstance(value, kind):
                text = f"For 'TransformedDistribution', the type of {key!r} should be {kind.__name__!r}, but got type"
                raise GraphTypeError(f"{text} {type(value).__name__!r}.")
        super().__init__(seed=seed, dtype=distribution.dtype, name=name)
        self.bijector, self.distribution = bijector, distribution
        self.is_linear_transformation = bijector.is_constant_jacobian
        if not as_dtype(self.dtype).is_float:
            text = f"TransformedDistribution takes a distribution of floats, not of {self.dtype}."
            raise GraphTypeError(text)

    def log_prob(self, value: TensorLike, *parameters: TensorLike | None) -> Tensor:
        value = self._tensor(value)
        base = self.distribution.log_prob(self.bijector.inverse(value), *parameters)
        slope = self.bijector.inverse_log_jacobian(value)
        return ops.where(base == -np.inf, base, base + slope)  # an infinite slope would make the sum nan

    def cdf(self, value: TensorLike, *parameters: TensorLike | None) -> Tensor:
        below = self.distribution.cdf(self.bijector.inverse(self._tensor(value)), *parameters)
        return ops.where(self.bijector.is_falling(), 1 - below, below)

    def mean(self, *parameters: TensorLike | None) -> Tensor:
        if not self.is_linear_transformation:
            text = "The mean of a TransformedDistribution is known only for a linear bijector."
            raise GraphAttributeError(text)
        return self.bijector.forward(self.distribution.mean(*parameters))

    def sample(self, shape: Sequence[int] = (), *parameters: TensorLike | None) -> Tensor:
        if self.seed is None:
            return self.bijector.forward(self.distribution.sample(shape, *parameters))
        seed, self.distribution.seed = self.distribution.seed, self.seed
        try:
            return self.bijector.forward(self.distribution.sample(shape, *parameters))
        finally:
            self.distribution.seed = seed


def _parameter(name: str, value: TensorLike | None, least: float | None = None, may_be_least: bool = False) -> Tensor:
    """A parameter as a tensor of floats; raises GraphTypeError, and GraphValueError for numbers below the minimum."""
    if value is None or isinstance(value, bool):
        raise GraphTypeError(f"{name} cannot be type {type(value)}")
    tensor = tensor_of(value)
    if not tensor.dtype.is_float:
        raise GraphTypeError(f"{name} takes floats, not {tensor.dtype}.")
    if least is not None and not isinstance(tensor, Symbol):
        numbers = np.asarray(tensor.asnumpy(), np.float64)
        if not (numbers >= least if may_be_least else numbers > least).all():
            relation = "greater than or equal to" if may_be_least else "greater than"
            raise GraphValueError(f"{name} must be {relation} zero.")
    return tensor


class PowerTransform(Bijector):
    """(1 + c x) ** (1 / c) for a power c of 0 or more, and exp(x) for 0."""

    def __init__(self, power: TensorLike = 0.0, name: str = "PowerTransform") -> None:
        super().__init__(name=name)
        self.power = _parameter("Power", power, 0.0, may_be_least=True)

    def _powers(self, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The power, a mask of where it is 0, and the power with 1 in those places."""
        power = ops.cast(self.power, like.dtype) + ops.zeros_like(like)
        is_zero = power == 0
        return power, is_zero, ops.where(is_zero, ops.ones_like(power), power)

    def _forward(self, x: Tensor) -> Tensor:
        _, is_zero, power = self._powers(x)
        return ops.where(is_zero, ops.exp(x), ops.exp(ops.log1p(x * power) / power))

    def _inverse(self, y: Tensor) -> Tensor:
        _, is_zero, power = self._powers(y)
        return ops.where(is_zero, ops.log(y), ops.expm1(ops.log(y) * power) / power)

    def _forward_log_jacobian(self, x: Tensor) -> Tensor:
        _, is_zero, power = self._powers(x)
        return ops.where(is_zero, x + ops.zeros_like(power), (1 / power - 1) * ops.log1p(x * power))

    def _inverse_log_jacobian(self, y: Tensor) -> Tensor:
        return (self._powers(y)[0] - 1) * ops.log(y)


class Exp(PowerTransform):
    """exp(x)."""

    def __init__(self, name: str = "Exp") -> None:
        super().__init__(name=name)


class ScalarAffine(Bijector):
    """scale * x + shift."""

    def __init__(self, scale: TensorLike = 1.0, shift: TensorLike = 0.0, name: str = "ScalarAffine") -> None:
        super().__init__(is_constant_jacobian=True, name=name)
        self.scale, self.shift = _parameter("scale", scale), _parameter("shift", shift)

    def _forward(self, x: Tensor) -> Tensor:
        return ops.cast(self.scale, x.dtype) * x + ops.cast(self.shift, x.dtype)

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - ops.cast(self.shift, y.dtype)) / ops.cast(self.scale, y.dtype)

    def _forward_log_jacobian(self, x: Tensor) -> Tensor:
        return ops.log(ops.abs(ops.cast(self.scale, x.dtype)))

    def _inverse_log_jacobian(self, y: Tensor) -> Tensor:
        return -self._forward_log_jacobian(y)

    def is_falling(self) -> Any:
        return self.scale < 0


class Softplus(Bijector):
    """log(1 + exp(k x)) / k for a sharpness k."""

    def __init__(self, sharpness: TensorLike = 1.0, name: str = "Softplus") -> None:
        super().__init__(name=name)
        self.sharpness = _parameter("sharpness", sharpness)

    def _scaled(self, value: Tensor) -> tuple[Tensor, Tensor]:
        sharpness = ops.cast(self.sharpness, value.dtype)
        return sharpness, sharpness * value

    def _forward(self, x: Tensor) -> Tensor:
        sharpness, scaled = self._scaled(x)
        return ops.softplus(scaled) / sharpness

    def _inverse(self, y: Tensor) -> Tensor:
        sharpness, scaled = self._scaled(y)
        return (scaled + ops.log(-ops.expm1(-scaled))) / sharpness

    def _forward_log_jacobian(self, x: Tensor) -> Tensor:
        return -ops.softplus(-self._scaled(x)[1])

    def _inverse_log_jacobian(self, y: Tensor) -> Tensor:
        return -ops.log(-ops.expm1(-self._scaled(y)[1]))


class GumbelCDF(Bijector):
    """exp(-exp(-(x - loc) / scale)), the distribution function of Gumbel."""

    def __init__(self, loc: TensorLike = 0.0, scale: TensorLike = 1.0, name: str = "GumbelCDF") -> None:
        super().__init__(name=name)
        self.loc, self.scale = _parameter("loc", loc), _parameter("scale", scale, 0.0)

    def _standard(self, x: Tensor) -> Tensor:
        return (x - ops.cast(self.loc, x.dtype)) / ops.cast(self.scale, x.dtype)

    def _forward(self, x: Tensor) -> Tensor:
        return ops.exp(-ops.exp(-self._standard(x)))

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.cast(self.loc, y.dtype) - ops.cast(self.scale, y.dtype) * ops.log(-ops.log(y))

    def _forward_log_jacobian(self, x: Tensor) -> Tensor:
        z = self._standard(x)
        return -z - ops.exp(-z) - ops.log(ops.cast(self.scale, x.dtype))

    def _inverse_log_jacobian(self, y: Tensor) -> Tensor:
        return ops.log(ops.cast(self.scale, y.dtype) / (-y * ops.log(y)))


class Invert(Bijector):
    """The inverse of a bijector."""

    def __init__(self, bijector: Bijector, name: str = "") -> None:
        if not isinstance(bijector, Bijector):
            text = f"For 'Invert', the type of 'bijector' should be 'Bijector', but got type {type(bijector).__name__}."
            raise GraphTypeError(text)
        super().__init__(bijector.is_constant_jacobian, bijector.is_injective, name or f"Invert{bijector.name}")
        self.bijector = bijector

    def _forward(self, x: Tensor) -> Tensor:
        return self.bijector.inverse(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.bijector.forward(y)

    def _forward_log_jacobian(self, x: Tensor) -> Tensor:
        return self.bijector.inverse_log_jacobian(x)

    def _inverse_log_jacobian(self, y: Tensor) -> Tensor:
        return self.bijector.forward_log_jacobian(y)

    def is_falling(self) -> Any:
        return self.bijector.is_falling()
