"""Constant initial values, and those that depend on each other, such as orthogonal matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphls.base.checks import number
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.random import generator
from graphls.nn.initializer.base import Array, Initializer, Shape, require_rank


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
