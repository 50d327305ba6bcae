"""Gradients as operators, of `_grad_ops`, that take the shape of what they are the gradient for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from graphls import ops
from graphls.compat.operators.gradient_operators import _pulled
from graphls.frontend.names.lazy import offering
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ops.operands import Sizes
from graphls.ops.primitive import REQUIRED, Operator, operator


def _of_linear(function: Callable[..., Any], shape: Iterable[int], sensitivity: Tensor) -> Any:
    """The gradient of a linear function by its input of a shape."""
    return _pulled(function, (ops.zeros(tuple(map(int, shape)), sensitivity.dtype),), sensitivity)


def _slice(dy: Tensor, x: Tensor, begin: Sizes, size: Sizes) -> Any:
    """The gradient of Slice by its input."""
    return _of_linear(lambda x: ops.slice(x, begin, size), x.shape, dy)


def _strided_slice(
    dy: Tensor, shapex: Iterable[int], begin: Sequence[int], end: Sequence[int], strides: Sequence[int],
    begin_mask: int = 0, end_mask: int = 0, ellipsis_mask: int = 0, new_axis_mask: int = 0, shrink_axis_mask: int = 0,
) -> Any:  # fmt: skip
    """The gradient of StridedSlice by its input."""
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    return _of_linear(lambda x: ops.strided_slice(x, begin, end, strides, *masks), shapex, dy)


def _mirror_pad(dy: Tensor, paddings: Sequence[Sequence[int]], mode: str = "REFLECT") -> Any:
    """The gradient of MirrorPad by its input."""
    shape = [size - sum(map(int, around)) for size, around in zip(dy.shape, paddings, strict=True)]
    return _of_linear(lambda x: ops.mirror_pad(x, paddings, mode), shape, dy)


def _convolution(
    out_backprop: Tensor, input: TensorLike, filter_sizes: Sequence[int], out_channel: int = 1, kernel_size: Sizes = 1,
    pad_mode: str = "valid", pad: Sizes = 0, pad_list: Sizes = (0, 0, 0, 0), mode: int = 1,
    stride: Sizes = (1, 1),
    dilation: Sizes = (1, 1, 1, 1), group: int = 1, data_format: str = "NCHW",
) -> Any:  # fmt: skip
    """The gradient of Conv2D by its weights."""
    apart = tuple(dilation)[-2:] if isinstance(dilation, (tuple, list)) else dilation
    steps = tuple(stride)[-2:] if isinstance(stride, (tuple, list)) else stride
    return _of_linear(
        lambda w: ops.conv2d(input, w, None, steps, pad_mode.lower(), pad, apart, group), filter_sizes, out_backprop
    )


def _divergence(dy: Tensor, x: Tensor, target: TensorLike, reduction: str = "mean") -> Any:
    """The gradient of KLDivLoss by its input."""
    return _pulled(lambda x: ops.kl_div(x, target, reduction), (x,), dy)


def _response(
    grads: TensorLike, x: Tensor, y: TensorLike, depth_radius: int = 5, bias: float = 1.0, alpha: float = 1.0,
    beta: float = 0.5,
) -> Any:  # fmt: skip
    """The gradient of LRN by its input."""
    return _pulled(lambda x: ops.lrn(x, depth_radius, bias, alpha, beta), (x,), grads)


SHAPED: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "AdaptiveAvgPool2DGrad": (
        lambda dy, shape: _of_linear(lambda x: ops.adaptive_avg_pool2d(x, dy.shape[-2:]), shape, dy), {}
    ),
    "Conv2DBackpropFilter": (
        _convolution,
        {
            "out_channel": REQUIRED, "kernel_size": REQUIRED, "pad_mode": "valid", "pad": 0, "pad_list": (0, 0, 0, 0),
            "mode": 1, "stride": (1, 1), "dilation": (1, 1, 1, 1), "group": 1, "data_format": "NCHW",
        },
    ),
    "KLDivLossGrad": (_divergence, {"reduction": "mean"}),
    "LRNGrad": (_response, {"depth_radius": 5, "bias": 1.0, "alpha": 1.0, "beta": 0.5}),
    "MirrorPadGrad": (_mirror_pad, {"mode": "REFLECT"}),
    "SliceGrad": (_slice, {}),
    "StridedSliceGrad": (
        _strided_slice,
        {"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 0},
    ),
    "TraceGrad": (lambda dy, shape: _of_linear(ops.trace, shape, dy), {}),
}  # fmt: skip

_made: dict[str, type[Operator]] = {name: operator(name, *found, __name__) for name, found in SHAPED.items()}

__getattr__, __dir__ = offering(_made)
