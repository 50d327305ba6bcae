"""Gradient operators of `mindspore.ops.operations._grad_ops`, `Name(settings)(tensors)`, with MindSpore's arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from graphls import ops
from graphls.frontend.names.lazy import offering
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ops import operations
from graphls.ops.directions import vjp
from graphls.ops.operands import Axis, Operand, ShapeLike, Sizes
from graphls.ops.primitive import REQUIRED, Operator, operator


def _where(condition: TensorLike, value: Tensor) -> Any:
    return ops.where(condition, value, ops.zeros_like(value))


def _layer_norm(
    x: Tensor, dy: Tensor, variance: Operand, mean: Tensor, gamma: Tensor, begin_norm_axis: int = 1,
    begin_params_axis: int = 1,
) -> Any:  # fmt: skip
    """Gradients of LayerNorm by x, gamma and beta, from the mean and the variance of the forward."""
    axes, outer = tuple(range(begin_norm_axis % x.ndim, x.ndim)), tuple(range(begin_params_axis % x.ndim))
    inverse = ops.rsqrt(variance + 1e-7)
    normal, g = (x - mean) * inverse, dy * gamma
    inner = g - ops.mean(g, axes, keep_dims=True) - normal * ops.mean(g * normal, axes, keep_dims=True)
    return inner * inverse, ops.sum(dy * normal, outer), ops.sum(dy, outer)


def _batch_norm(
    dout: Tensor, x: Tensor, scale: TensorLike, saved_mean: TensorLike, saved_variance: Operand,
    reserve: TensorLike | None = None,
    is_training: bool = False, epsilon: float = 1e-5, data_format: str = "NCHW",
) -> Any:  # fmt: skip
    """Gradients of BatchNorm by x, scale and offset, from the mean and the variance of the forward."""
    axes = tuple(i for i in range(x.ndim) if i != 1)
    wide = (1, -1, *(1,) * (x.ndim - 2))
    inverse = ops.reshape(ops.rsqrt(saved_variance + epsilon), wide)
    normal = (x - ops.reshape(saved_mean, wide)) * inverse
    by_scale, by_offset = ops.sum(dout * normal, axes), ops.sum(dout, axes)
    g = dout * ops.reshape(scale, wide)
    if is_training:
        g = g - ops.mean(g, axes, keep_dims=True) - normal * ops.mean(g * normal, axes, keep_dims=True)
    return g * inverse, by_scale, by_offset


def _smaller(compare: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def gradient(x: Tensor, y: Tensor, grads: Tensor, grad_x: bool = True, grad_y: bool = True) -> Any:
        """Gradients by both operands: each gets those of the elements at which it was selected."""
        chosen = compare(x, y)
        by_x, by_y = _where(chosen, grads), _where(ops.logical_not(chosen), grads)
        return _summed(by_x, x.shape), _summed(by_y, y.shape)

    return gradient


def _summed(gradient: Tensor, shape: tuple[int, ...]) -> Any:
    """A gradient summed over the axes that were broadcast."""
    extra = gradient.ndim - len(shape)
    axes = tuple(i for i, size in enumerate(gradient.shape) if i < extra or shape[i - extra] != size)
    return ops.reshape(ops.sum(gradient, axes), shape) if axes else gradient


def _pulled(function: Callable[..., Any], inputs: tuple[Any, ...], sensitivity: TensorLike) -> Any:
    """The gradient by the first input, the others being constants."""
    return vjp(lambda x: function(x, *inputs[1:]), inputs[0])[1](sensitivity)[0]


def _pool(name: str) -> Callable[..., Any]:
    def gradient(
        x: Tensor, out: TensorLike, dout: Tensor, kernel_size: Sizes = 1, strides: Sizes = 1, pad_mode: str = "VALID",
        data_format: str = "NCHW",
    ) -> Any:  # fmt: skip
        """The gradient of a pool by its input."""
        forward = operations.OPERATORS[name](kernel_size, strides, pad_mode.lower())
        return _pulled(forward, (x,), dout)

    return gradient


def _bias(dout: Tensor, data_format: str = "NCHW") -> Any:
    """The gradient of a bias: the sum over all axes but the channels."""
    channel = dout.ndim - 1 if data_format == "NHWC" else 1
    return ops.sum(dout, tuple(i for i in range(dout.ndim) if i != channel))


def _log_softmax(logits: TensorLike, grad: TensorLike, axis: int = -1) -> Any:
    """The gradient of log_softmax, from its output."""
    return grad - ops.exp(logits) * ops.sum(grad, axis, keepdims=True)


def _softmax(output: Operand, grad: Operand, axis: int = -1) -> Any:
    """The gradient of softmax, from its output."""
    return (grad - ops.sum(output * grad, axis, keepdims=True)) * output


def _normalised(input_x: Tensor, output: Tensor, dy: Tensor, axis: Axis = 0, epsilon: float = 1e-4) -> Any:
    """The gradient of L2Normalize."""
    axis = axis[0] if isinstance(axis, (list, tuple)) else axis
    norm = ops.sqrt(ops.maximum(ops.sum(input_x * input_x, axis, keepdims=True), epsilon))
    return (dy - output * ops.sum(output * dy, axis, keepdims=True)) / norm


def _smooth_l1(prediction: Tensor, target: TensorLike, dout: Tensor, beta: float = 1.0, reduction: str = "none") -> Any:
    """The gradient of SmoothL1Loss by its prediction."""
    difference = prediction - target
    gradient = ops.clamp(difference / beta, -1.0, 1.0) * dout
    return gradient / prediction.size if reduction == "mean" else gradient


def _cross_entropy(
    input: Tensor, target: TensorLike, grad_output: TensorLike, weight: TensorLike | None = None,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """The gradient of BinaryCrossEntropy by its input."""
    gradient = (input - target) / ops.maximum(input * (1 - input), 1e-12) * grad_output
    gradient = gradient if weight is None else gradient * weight
    return gradient / input.size if reduction == "mean" else gradient


def _dropout(dy: Tensor, mask: Tensor, keep_prob: float = 0.5) -> Any:
    """The gradient of Dropout, from its mask."""
    return dy * ops.cast(mask, dy.dtype) / keep_prob


def _resized(grads: Tensor, image: TensorLike, align_corners: bool = False, half_pixel_centers: bool = False) -> Any:
    """The gradient of ResizeBilinear by its image."""
    sizes = grads.shape[2:]
    forward = operations.OPERATORS["ResizeBilinearV2"](align_corners, half_pixel_centers)
    return _pulled(lambda x: forward(x, sizes), (image,), grads)


def _of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient of a function, written `(dy, x)`."""

    def gradient(dy: TensorLike, x: Tensor) -> Any:
        return _pulled(function, (x,), dy)

    gradient.__doc__ = f"The gradient of `{function.__name__}`, from its input."
    return gradient


PLAIN: dict[str, Callable[..., Any]] = {
    "ACosGrad": lambda x, dy: -dy * ops.rsqrt(1 - x * x),
    "AbsGrad": lambda x, dy: ops.sign(x) * dy,
    "AcosGrad": lambda x, dy: -dy * ops.rsqrt(1 - x * x),
    "AcoshGrad": lambda y, dy: dy / ops.sinh(y),
    "AsinGrad": lambda x, dy: dy * ops.rsqrt(1 - x * x),
    "AsinhGrad": lambda y, dy: dy / ops.cosh(y),
    "AtanGrad": lambda x, dy: dy / (1 + x * x),
    "EluGrad": lambda dy, y: ops.where(y > 0, dy, dy * (y + 1)),
    "FastGeLUGrad": _of(ops.fast_gelu),
    "FlattenGrad": lambda dy, shape: ops.reshape(dy, shape),
    "GeLUGrad": lambda dy, x, y: _pulled(ops.gelu, (x,), dy),
    "HSigmoidGrad": _of(ops.hardsigmoid),
    "HSwishGrad": _of(ops.hardswish),
    "InvGrad": lambda y, dy: -dy * y * y,
    "PReLUGrad": lambda dy, x, weight: vjp(ops.prelu, x, weight)[1](dy),
    "ReLU6Grad": lambda dy, x: _where(ops.logical_and(x > 0, x < 6), dy),
    "ReciprocalGrad": lambda y, dy: -dy * y * y,
    "ReluGrad": lambda dy, y: _where(y > 0, dy),
    "RsqrtGrad": lambda y, dy: -0.5 * dy * y * y * y,
    "SeLUGrad": lambda dy, y: _where(y > 0, 1.0507009873554805 * dy) + _where(y <= 0, dy * (y + 1.7580993408473766)),
    "SiLUGrad": _of(ops.silu),
    "SigmoidCrossEntropyWithLogitsGrad": lambda logits, label, dy: (ops.sigmoid(logits) - label) * dy,
    "SigmoidGrad": lambda y, dy: dy * y * (1 - y),
    "SoftplusGrad": lambda dy, x: dy * ops.sigmoid(x),
    "SqrtGrad": lambda y, dy: 0.5 * dy / y,
    "TanhGrad": lambda y, dy: dy * (1 - y * y),
}

CONFIGURED: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "AvgPoolGrad": (_pool("AvgPool"), {"kernel_size": 1, "strides": 1, "pad_mode": "VALID", "data_format": "NCHW"}),
    "BatchNormGrad": (_batch_norm, {"is_training": False, "epsilon": 1e-5, "data_format": "NCHW"}),
    "BiasAddGrad": (_bias, {"data_format": "NCHW"}),
    "BinaryCrossEntropyGrad": (_cross_entropy, {"reduction": "mean"}),
    "DropoutGrad": (_dropout, {"keep_prob": 0.5}),
    "L2NormalizeGrad": (_normalised, {"axis": 0, "epsilon": 1e-4}),
    "LayerNormGrad": (_layer_norm, {"begin_norm_axis": 1, "begin_params_axis": 1}),
    "LogSoftmaxGrad": (_log_softmax, {"axis": -1}),
    "MaxPoolGrad": (_pool("MaxPool"), {"kernel_size": 1, "strides": 1, "pad_mode": "VALID", "data_format": "NCHW"}),
    "MaximumGrad": (_smaller(ops.greater_equal), {"grad_x": True, "grad_y": True}),
    "MinimumGrad": (_smaller(ops.less_equal), {"grad_x": True, "grad_y": True}),
    "ResizeBilinearGrad": (_resized, {"align_corners": False, "half_pixel_centers": False}),
    "SmoothL1LossGrad": (_smooth_l1, {"beta": 1.0, "reduction": "none"}),
    "SoftmaxGrad": (_softmax, {"axis": -1}),
}


def _resize_bilinear(x: Tensor, size: ShapeLike, align_corners: bool = False, half_pixel_centers: bool = False) -> Any:
    """Images (N, C, H, W) resized to two sizes, between their four neighbours."""
    return operations.OPERATORS["ResizeBilinearV2"](align_corners, half_pixel_centers)(x, size)


OTHERS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "ResizeBilinear": (_resize_bilinear, {"size": REQUIRED, "align_corners": False, "half_pixel_centers": False}),
}
"""Operators of MindSpore 1 that are not gradients."""


def _of_linear(function: Callable[..., Any], shape: Iterable[int], sensitivity: Tensor) -> Any:
    """The gradient of a linear function by its input, which has this shape."""
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

_operators: dict[str, type[Operator]] = {
    **{name: operator(name, function, {}, __name__) for name, function in PLAIN.items()},
    **{name: operator(name, *definition, __name__) for name, definition in {**CONFIGURED, **OTHERS, **SHAPED}.items()},
}

__getattr__, __dir__ = offering(_operators)
