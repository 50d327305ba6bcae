"""`mindspore.mint`: functions with the arguments of PyTorch, over those of `graphls.ops`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphls import ops
from graphls.base.reporting import guard_functions
from graphls.compat.argument_names import offering
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import DTypeLike, float32
from graphls.ops.operands import Axis, Operand, tensor_of


def clone(input: TensorLike) -> Tensor:
    """The same values as another tensor."""
    return ops.add(input, 0) if tensor_of(input).dtype.kind != "bool" else ops.logical_and(input, True)


def flatten(input: TensorLike, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Flattens some axes to one; by default all of them."""
    if tensor_of(input).ndim == 0:
        return ops.reshape(input, (1,))
    return ops.flatten(input, start_dim=start_dim, end_dim=end_dim)


def gather(input: TensorLike, dim: int, index: TensorLike) -> Tensor:
    """The elements at the positions along an axis in an index tensor of the same rank."""
    return ops.gather_elements(input, dim, index)


def max(input: TensorLike, dim: int | Tensor | None = None, keepdim: bool = False) -> Any:
    """The largest element; along an axis, the largest ones and their positions; of two tensors, the larger ones."""
    if isinstance(dim, Tensor):
        return ops.maximum(input, dim)
    return ops.amax(input) if dim is None else ops.max(input, dim, keepdim)


def min(input: TensorLike, dim: int | Tensor | None = None, keepdim: bool = False) -> Any:
    """The smallest element; along an axis, the smallest ones and their positions; of two tensors, the smaller ones."""
    if isinstance(dim, Tensor):
        return ops.minimum(input, dim)
    return ops.amin(input) if dim is None else ops.min(input, dim, keepdim)


def median(input: TensorLike, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median; along an axis, the medians and their positions."""
    return ops.median(input, None)[0] if dim is None else ops.median(input, dim, keepdim)


def norm(
    input: TensorLike, p: TensorLike = "fro", dim: Axis = None, keepdim: bool = False, *, dtype: DTypeLike | None = None
) -> Tensor:
    """The norm of order p; over all elements without an axis."""
    if dim is None:
        input, dim = ops.reshape(input, (-1,)), 0
    return ops.norm(input, 2 if p == "fro" and isinstance(dim, int) else p, dim, keepdim, dtype=dtype)


def var(input: TensorLike, dim: Axis | None = None, *, correction: int = 1, keepdim: bool = False) -> Tensor:
    """The variance, divided by the number of elements less `correction`."""
    return ops.var(input, dim, correction, keepdim)


def std(input: TensorLike, dim: Axis | None = None, *, correction: int = 1, keepdim: bool = False) -> Tensor:
    """The standard deviation; see `var`."""
    return ops.std(input, dim, correction, keepdim)


def meshgrid(*tensors: TensorLike, indexing: str = "ij") -> Any:
    """Coordinate grids from tensors of one dimension, the first of which varies along the first axis."""
    return ops.meshgrid(*tensors, indexing=indexing)


def transpose(input: TensorLike, dim0: int, dim1: int) -> Tensor:
    """Exchanges two axes."""
    return ops.swapaxes(input, dim0, dim1)


def t(input: Tensor) -> Tensor:
    """The transposed matrix; a tensor of lower rank as it is."""
    return ops.swapaxes(input, 0, 1) if tensor_of(input).ndim > 1 else input


def randperm(n: int, *, dtype: DTypeLike | None = None) -> Tensor:
    """The numbers from 0 to n - 1 in a random order."""
    return ops.randperm(n) if dtype is None else ops.cast(ops.randperm(n), dtype)


def normal(mean: Operand = 0.0, std: Operand = 1.0, size: Sequence[int] | None = None) -> Tensor:
    """Normal random numbers; without a size, in the broadcast shape of mean and std."""
    shape = size if size is not None else tensor_of(mean + std if isinstance(mean, Tensor) else std + mean).shape
    return ops.normal(tuple(shape), tensor_of(mean), tensor_of(std))


def item(input: Tensor) -> Any:
    """The number in a tensor of one element."""
    return input.item()


def bernoulli(input: TensorLike) -> Tensor:
    """1 with the probability of each element, else 0, in the dtype of the input."""
    return ops.cast(ops.bernoulli(input, input), tensor_of(input).dtype)


def multinomial(input: TensorLike, num_samples: int, replacement: bool = False) -> Tensor:
    """Indices sampled by weights; without replacement, each at most once."""
    return ops.multinomial(input, num_samples, replacement)


def diag(input: TensorLike, diagonal: int = 0) -> Tensor:
    """A matrix with a vector on its k-th diagonal, or that diagonal of a matrix."""
    if tensor_of(input).ndim == 1:
        return ops.diag_embed(input, diagonal)
    return ops.diagonal(input, diagonal)


def empty(*size: Any, dtype: DTypeLike | None = None) -> Tensor:
    """A tensor of zeros of this shape, float32 by default."""
    return ops.zeros(size[0] if len(size) == 1 and not isinstance(size[0], int) else size, dtype or float32)


def empty_like(input: TensorLike, *, dtype: DTypeLike | None = None) -> Tensor:
    """A tensor of zeros of the same shape."""
    return ops.zeros_like(input, dtype=dtype)


def index_add(input: Tensor, dim: int, index: TensorLike, source: TensorLike, *, alpha: Operand = 1) -> Tensor:
    """Adds `alpha` times the slices of `source` to those of the input at the indices along an axis."""
    x = tensor_of(input)
    at = ops.reshape(index, tuple(-1 if i == dim % x.ndim else 1 for i in range(x.ndim)))
    source = ops.cast(ops.mul(source, alpha), x.dtype)
    return scatter_add(x, dim, ops.broadcast_to(at, source.shape), source)


def scatter_add(input: Tensor, dim: int, index: TensorLike, src: TensorLike) -> Tensor:
    """Adds each element of `src` to the input at the index of the same position, along an axis."""
    return ops.tensor_scatter_elements(input, index, src, dim, "add")


def var_mean(
    input: TensorLike, dim: Axis | None = None, *, correction: int = 1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """The variance, divided by the number of elements less `correction`, and the mean."""
    return ops.var_mean(input, dim, correction, keepdim)


def std_mean(
    input: TensorLike, dim: Axis | None = None, *, correction: int = 1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """The standard deviation and the mean; see `var_mean`."""
    return ops.std_mean(input, dim, correction, keepdim)


def cdist(x1: TensorLike, x2: TensorLike, p: float = 2.0, compute_mode: str = "") -> Tensor:
    """Distances of order p between rows; `compute_mode` has no effect."""
    return ops.cdist(x1, x2, p)


_NAMES = """
clone flatten gather max min median norm var std meshgrid transpose t randperm normal item bernoulli multinomial diag
empty empty_like index_add scatter_add var_mean std_mean cdist
"""
DEFINED = _NAMES.split()
"""Functions that differ from those of `graphls.ops`."""

_SAME = """
addbmm addcdiv addmv arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and bitwise_not bitwise_or bitwise_xor
divide dstack floor_divide gcd gt hstack isneginf kthvalue le logaddexp2 lt mm negative rand_like randint_like
randn_like ravel take unique_consecutive vdot
"""
__getattr__, __all__ = offering("mint", DEFINED, _SAME.split())


guard_functions(globals())
