"""What `mindspore.nn.probability.bijector` has in common: functions with an inverse, as cells, and what they transform.

A bijector that is called with a distribution gives that of its values; called with the name of a method, its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphls import ops
from graphls.compat.probability import Distribution
from graphls.ir.errors import GraphAttributeError, GraphTypeError, GraphValueError
from graphls.ir.types import DTypeLike, as_dtype
from graphls.nn.cell import Cell
from graphls.ops.operands import tensor_of
from graphls.tensors.tensor import Tensor, TensorLike, is_tensor

__all__ = ["Bijector", "TransformedDistribution"]

_METHODS = ("forward", "inverse", "forward_log_jacobian", "inverse_log_jacobian")


class Bijector(Cell):
    """A function with an inverse; a subclass defines `_forward`, `_inverse` and the logarithms of their slopes.

    Values are tensors of floats. Raises GraphTypeError for others, GraphAttributeError for what it has no formula for.
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
        """The value that the function makes this of."""
        return self._formula("inverse", value, *args, **options)

    def forward_log_jacobian(self, value: TensorLike, *args: object, **options: object) -> Tensor:
        """The logarithm of the absolute slope of `forward`."""
        return self._formula("forward_log_jacobian", value, *args, **options)

    def inverse_log_jacobian(self, value: TensorLike, *args: object, **options: object) -> Tensor:
        """The logarithm of the absolute slope of `inverse`."""
        return self._formula("inverse_log_jacobian", value, *args, **options)

    def is_falling(self) -> Any:
        """Whether greater values become smaller: a bool, or a tensor of them."""
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
    """The distribution of what a bijector makes of the numbers of another distribution, which has its parameters.

    It has a mean where the bijector is linear. Raises GraphTypeError for what is no bijector and no distribution of
    floats, GraphAttributeError for what it has no formula for.
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
        found = self.distribution.log_prob(self.bijector.inverse(value), *parameters)
        slope = self.bijector.inverse_log_jacobian(value)
        return ops.where(found == -np.inf, found, found + slope)  # whose sum is nan where the slope is infinite

    def cdf(self, value: TensorLike, *parameters: TensorLike | None) -> Tensor:
        below = self.distribution.cdf(self.bijector.inverse(self._tensor(value)), *parameters)
        return ops.where(self.bijector.is_falling(), 1 - below, below)

    def mean(self, *parameters: TensorLike | None) -> Tensor:
        if not self.is_linear_transformation:
            text = "The mean of a TransformedDistribution is known where its bijector is linear only."
            raise GraphAttributeError(text)
        return self.bijector.forward(self.distribution.mean(*parameters))

    def sample(self, shape: Sequence[int] = (), *parameters: TensorLike | None) -> Tensor:
        if self.seed is None:
            return self.bijector.forward(self.distribution.sample(shape, *parameters))
        kept, self.distribution.seed = self.distribution.seed, self.seed
        try:
            return self.bijector.forward(self.distribution.sample(shape, *parameters))
        finally:
            self.distribution.seed = kept
