"""`mindspore.mint.nn.functional`: functions of layers with the arguments of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls import ops
from graphls.base.reporting import guard_functions
from graphls.compat.argument_names import offering
from graphls.compat.mint.functions import flatten as flatten
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ops.operands import Sizes, tensor_of


def linear(input: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """input @ weight.T + bias."""
    product = ops.matmul(input, ops.swapaxes(weight, -1, -2) if tensor_of(weight).ndim > 1 else weight)
    return product if bias is None else ops.add(product, bias)


def dropout(input: TensorLike, p: float = 0.5, training: bool = True, seed: int | None = None) -> Tensor:
    """In training, zeros with the probability p, and the other elements divided by 1 - p."""
    return ops.dropout(input, p, training)


def gelu(input: TensorLike, *, approximate: str = "none") -> Tensor:
    """x * Phi(x), exactly unless `approximate` is "tanh"."""
    return ops.gelu(input, approximate)


def layer_norm(
    input: TensorLike, normalized_shape: Sizes, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Layer normalisation over the last axes, of these sizes."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    dtype = tensor_of(input).dtype
    weight = ops.ones(shape, dtype) if weight is None else weight
    bias = ops.zeros(shape, dtype) if bias is None else bias
    return ops.layer_norm(input, shape, weight, bias, eps)


def embedding(input: TensorLike, weight: TensorLike, padding_idx: int | None = None) -> Tensor:
    """Rows of a table by their indices."""
    return ops.gather(weight, input, 0)


def normalize(input: TensorLike, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """The input divided by its norm along an axis, or by eps if that is larger."""
    return ops.div(input, ops.clamp(ops.norm(input, p, dim, True), eps, None))


def binary_cross_entropy_with_logits(
    input: TensorLike, target: TensorLike, weight: TensorLike | None = None, reduction: str = "mean",
    pos_weight: TensorLike | None = None,
) -> Tensor:  # fmt: skip
    """The binary cross entropy of logits."""
    one = ops.ones_like(tensor_of(input))
    weights = one if weight is None else weight, one if pos_weight is None else pos_weight
    return ops.binary_cross_entropy_with_logits(input, target, *weights, reduction)


def _convolution(axes: int) -> Callable[..., Tensor]:
    convolve = getattr(ops, f"conv{axes}d")

    def convolution(
        input: TensorLike, weight: TensorLike, bias: TensorLike | None = None, stride: Sizes = 1,
        padding: Sizes | str = 0, dilation: Sizes = 1, groups: int = 1,
    ) -> Tensor:  # fmt: skip
        """A convolution whose padding is a number of zeros on both sides, one for each axis, "same" or "valid"."""
        mode, sides = (padding, 0) if isinstance(padding, str) else ("pad", padding)
        result: Tensor = convolve(input, weight, bias, stride, mode, sides, dilation, groups)
        return result

    return convolution


conv1d, conv2d, conv3d = map(_convolution, (1, 2, 3))


def _average(axes: int) -> Callable[..., Tensor]:
    pool = getattr(ops, f"avg_pool{axes}d")

    def average(
        input: TensorLike, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
        ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int = 0,
    ) -> Tensor:  # fmt: skip
        """The mean of each window; the stride is the size of the window by default."""
        stride, last = kernel_size if stride is None else stride, (divisor_override,) if divisor_override else ()
        result: Tensor = pool(input, kernel_size, stride, padding, ceil_mode, count_include_pad, *last)
        return result

    return average


avg_pool1d, avg_pool2d, avg_pool3d = map(_average, (1, 2, 3))


def max_pool2d(
    input: TensorLike, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window, and its index; the stride is the size of the window by default."""
    return ops.max_pool2d(input, kernel_size, stride, padding, dilation, return_indices, ceil_mode)


_NAMES = """
avg_pool1d avg_pool2d avg_pool3d binary_cross_entropy_with_logits conv1d conv2d conv3d dropout embedding flatten gelu
layer_norm linear max_pool2d normalize
"""
_SAME = """
adaptive_max_pool1d adaptive_max_pool2d batch_norm conv_transpose2d dropout2d fold group_norm max_unpool2d
soft_margin_loss upsample
"""
__getattr__, __all__ = offering("mint.nn.functional", _NAMES.split(), _SAME.split())


guard_functions(globals())
