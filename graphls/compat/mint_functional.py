"""`mindspore.mint.nn.functional`: functions of layers with the arguments of PyTorch."""

from __future__ import annotations

from graphls import ops
from graphls.compat.torch_names import offering
from graphls.ops.operands import Sizes, tensor_of
from graphls.tensors.tensor import Tensor, TensorLike


def linear(input: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """input @ weight.T + bias."""
    product = ops.matmul(input, ops.swapaxes(weight, -1, -2) if tensor_of(weight).ndim > 1 else weight)
    return product if bias is None else ops.add(product, bias)


def dropout(input: TensorLike, p: float = 0.5, training: bool = True, seed: int | None = None) -> Tensor:
    """Zeros with the probability p in training, and the rest divided by 1 - p."""
    return ops.dropout(input, p, training)


def gelu(input: TensorLike, *, approximate: str = "none") -> Tensor:
    """x * Phi(x), exactly unless `approximate` is "tanh"."""
    return ops.gelu(input, approximate)


def layer_norm(
    input: TensorLike,
    normalized_shape: Sizes,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """A normalisation over the last axes, of these sizes."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    dtype = tensor_of(input).dtype
    weight = ops.ones(shape, dtype) if weight is None else weight
    bias = ops.zeros(shape, dtype) if bias is None else bias
    return ops.layer_norm(input, shape, weight, bias, eps)


def embedding(input: TensorLike, weight: TensorLike, padding_idx: int | None = None) -> Tensor:
    """Rows of a table by their numbers."""
    return ops.gather(weight, input, 0)


def normalize(input: TensorLike, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """The input divided by its norm along an axis, or by eps if that is larger."""
    return ops.div(input, ops.clamp(ops.norm(input, p, dim, True), eps, None))


def binary_cross_entropy_with_logits(
    input: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    reduction: str = "mean",
    pos_weight: TensorLike | None = None,
) -> Tensor:
    """The loss of probabilities that are given as logits."""
    one = ops.ones_like(tensor_of(input))
    weights = one if weight is None else weight, one if pos_weight is None else pos_weight
    return ops.binary_cross_entropy_with_logits(input, target, *weights, reduction)


_NAMES = "binary_cross_entropy_with_logits dropout embedding gelu layer_norm linear normalize"
__getattr__, __all__ = offering("mint.nn.functional", _NAMES.split())
