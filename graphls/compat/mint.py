"""`mindspore.mint`: functions in the manner of PyTorch, over those of `graphls.ops`."""

from __future__ import annotations

from functools import cache
from typing import Any

from graphls import ops
from graphls.compat.torch_names import with_torch_names
from graphls.ir.errors import GraphAttributeError
from graphls.ir.registry import nearest
from graphls.ir.types import DTypeLike
from graphls.ops.operands import Axis, Operand, tensor_of
from graphls.tensors.tensor import Tensor, TensorLike

_NAMES = """
abs acos acosh add asin asinh atan atan2 atanh bmm broadcast_to ceil clamp cos cosh div einsum eq erf exp expm1 floor
full full_like greater greater_equal isfinite less less_equal linspace log log10 log1p log2 logical_and logical_not
logical_or logical_xor masked_fill matmul maximum mean minimum mul ne neg not_equal ones ones_like permute pow prod
reciprocal reshape round rsqrt sigmoid sign sin sinh sqrt square sub sum swapaxes tan tanh tril triu trunc where zeros
zeros_like
"""
SAME = _NAMES.split()
"""Functions of the same name and meaning."""

_NAMES = """
addmm all allclose amax amin any arange argmax argmin argsort baddbmm bincount broadcast_tensors cat chunk concat
cosine_similarity count_nonzero cross cummax cummin cumprod cumsum diff dot erfc erfinv eye flip float_power fmod frac
histc hypot index_select inverse isclose isinf isnan lerp log_softmax logaddexp logsumexp masked_select mv nan_to_num
nansum narrow nonzero outer polygamma rand randn randint relu remainder repeat_interleave roll rot90 scatter select
sinc softmax sort split squeeze stack tile topk trace unbind unsqueeze xlogy
"""
SPELT = _NAMES.split()
"""Functions whose arguments stand in the same places and have other names."""


def clone(input: TensorLike) -> Tensor:
    """The same values as another tensor."""
    return ops.add(input, 0) if tensor_of(input).dtype.kind != "bool" else ops.logical_and(input, True)


def flatten(input: TensorLike, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Some axes as one; by default all of them."""
    if tensor_of(input).ndim == 0:
        return ops.reshape(input, (1,))
    return ops.flatten(input, start_dim=start_dim, end_dim=end_dim)


def gather(input: TensorLike, dim: int, index: TensorLike) -> Tensor:
    """The elements that an index of the same rank names along an axis."""
    return ops.gather_elements(input, dim, index)


def max(input: TensorLike, dim: Any = None, keepdim: bool = False) -> Any:
    """The largest element; along an axis, the largest ones and their positions; of two tensors, the larger ones."""
    if isinstance(dim, Tensor):
        return ops.maximum(input, dim)
    return ops.amax(input) if dim is None else ops.max(input, dim, keepdim)


def min(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The smallest element; along an axis, the smallest ones and their positions; of two tensors, the smaller ones."""
    if isinstance(dim, Tensor):
        return ops.minimum(input, dim)
    return ops.amin(input) if dim is None else ops.min(input, dim, keepdim)


def median(input: TensorLike, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median; along an axis, the medians and their positions."""
    return ops.median(input, None)[0] if dim is None else ops.median(input, dim, keepdim)


def norm(input: Any, p: TensorLike = "fro", dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The norm of order p; of all elements without an axis."""
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
    """Tensors of one dimension as grids, of which the first varies along the first axis."""
    return ops.meshgrid(*tensors, indexing=indexing)


def transpose(input: TensorLike, dim0: int, dim1: int) -> Tensor:
    """Two axes exchanged."""
    return ops.swapaxes(input, dim0, dim1)


def t(input: Tensor) -> Tensor:
    """The transposed matrix; a tensor of lower rank as it is."""
    return ops.swapaxes(input, 0, 1) if tensor_of(input).ndim > 1 else input


def randperm(n: int, *, dtype: DTypeLike | None = None) -> Tensor:
    """The numbers from 0 to n - 1 in a random order."""
    return ops.randperm(n) if dtype is None else ops.cast(ops.randperm(n), dtype)


def normal(mean: Operand = 0.0, std: Operand = 1.0, size: Any = None) -> Tensor:
    """Normal numbers; without a size, as many as mean and std have."""
    shape = size if size is not None else tensor_of(mean + std if isinstance(mean, Tensor) else std + mean).shape
    return ops.normal(tuple(shape), tensor_of(mean), tensor_of(std))


def item(input: Tensor) -> Any:
    """The number in a tensor of one element."""
    return input.item()


_NAMES = "clone flatten gather max min median norm var std meshgrid transpose t randperm normal item"
DEFINED = _NAMES.split()
"""Functions that are another than those of `graphls.ops`."""

__all__ = [*SAME, *SPELT, *DEFINED]


@cache
def _spelt(name: str) -> Any:
    return with_torch_names(getattr(ops, name))


def __getattr__(name: str) -> Any:
    if name in SPELT:
        return _spelt(name)
    if name not in SAME:
        hint = "" if name.startswith("__") else nearest(name, __all__)
        raise GraphAttributeError(f"graphls does not offer mindspore.mint.{name}{hint}.")
    return getattr(ops, name)
