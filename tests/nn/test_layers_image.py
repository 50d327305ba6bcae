"""Layers over images with one to three axes: parameters, padding modes, gradients, empty batches, wrong arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.frontend.tensors.pytree import leaves
from tests.ops.agree import BACKENDS, agree

RNG = np.random.default_rng(8)
SIZES = {1: (7,), 2: (7, 6), 3: (5, 5, 6)}
CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSES = {1: nn.Conv1dTranspose, 2: nn.Conv2dTranspose, 3: nn.Conv3dTranspose}


def image(axes: int, channels: int = 4, batch: int = 2) -> Any:
    return RNG.normal(size=(batch, channels, *SIZES[axes])).astype(np.float32)


def kernels(cell: Any, axes: int) -> Any:
    weight = cell.weight.asnumpy().astype(np.float64)
    return weight[:, :, 0] if axes == 1 else weight


def convolved(x: Any, w: Any, stride: int, dilation: int, groups: int) -> Any:
    """A sum over the places of the kernel, on images that are padded already."""
    axes = w.ndim - 2
    counts = [(n - dilation * (k - 1) - 1) // stride + 1 for n, k in zip(x.shape[2:], w.shape[2:], strict=True)]
    y = np.zeros((x.shape[0], w.shape[0], *counts))
    inputs, outputs = x.shape[1] // groups, w.shape[0] // groups
    for group in range(groups):
        ours, theirs = slice(group * inputs, (group + 1) * inputs), slice(group * outputs, (group + 1) * outputs)
        for place in np.ndindex(*w.shape[2:]):
            spans = tuple(slice(p * dilation, p * dilation + stride * (n - 1) + 1, stride)
                          for p, n in zip(place, counts, strict=True))  # fmt: skip
            seen = x[(slice(None), ours, *spans)]
            y[:, theirs] += np.moveaxis(np.tensordot(w[(theirs, slice(None), *place)], seen, (1, 1)), 0, 1)
    assert y.ndim == axes + 2
    return y


def same(x: Any, kernel: Any, stride: int, dilation: int) -> Any:
    """The images with zeros so that ceil(size / stride) windows lie on them, the larger half behind."""
    sides = [(0, 0), (0, 0)]
    for n, k in zip(x.shape[2:], kernel, strict=True):
        total = max((-(-n // stride) - 1) * stride + dilation * (k - 1) + 1 - n, 0)
        sides.append((total // 2, total - total // 2))
    return np.pad(x, sides)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize(("stride", "dilation", "group"), [(1, 1, 1), (2, 1, 2), (3, 2, 1)])
@pytest.mark.parametrize("pad_mode", ["same", "valid", "pad"])
def test_convolutions(axes: int, stride: int, dilation: int, group: int, pad_mode: str) -> None:
    padding = (2, 1) * axes if pad_mode == "pad" else 0
    kernel = (2, 3, 2)[:axes]
    cell = CONVOLUTIONS[axes](4, 6, kernel, stride, pad_mode, padding, dilation, group, has_bias=True)
    x = image(axes)
    wide = {"same": lambda: same(x, kernel, stride, dilation), "valid": lambda: x,
            "pad": lambda: np.pad(x, [(0, 0), (0, 0), *[(2, 1)] * axes])}[pad_mode]()  # fmt: skip
    y = convolved(wide, kernels(cell, axes), stride, dilation, group)
    y += cell.bias.asnumpy().reshape(1, -1, *[1] * axes)
    agree(cell, y, x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize(("kernel", "stride", "group"), [(3, 2, 1), (2, 3, 2), (3, 1, 2)])
@pytest.mark.parametrize("pad_mode", ["same", "valid", "pad"])
def test_transposed_convolutions_are_adjoint_to_convolutions(
    axes: int, kernel: int, stride: int, group: int, pad_mode: str
) -> None:
    """<conv(y), x> = <y, transposed(x)> for every y of the size that the transposed convolution makes."""
    options = {"padding": 1} if pad_mode == "pad" else {}
    cell = TRANSPOSES[axes](4, 6, kernel, stride, pad_mode, group=group, **options)
    x = image(axes)
    first, found = (graphls.compile(cell, x, backend=b)(x).asnumpy().astype(np.float64) for b in BACKENDS)
    np.testing.assert_allclose(found, first, rtol=1e-4, atol=1e-5)
    grown = {"same": lambda n: n * stride, "valid": lambda n: n * stride + max(kernel - stride, 0),
             "pad": lambda n: (n - 1) * stride + kernel - 2}[pad_mode]  # fmt: skip
    assert found.shape == (2, 6, *map(grown, SIZES[axes]))
    y = RNG.normal(size=found.shape)
    wide = {"same": lambda: same(y, (kernel,) * axes, stride, 1), "valid": lambda: y,
            "pad": lambda: np.pad(y, [(0, 0), (0, 0), *[(1, 1)] * axes])}[pad_mode]()  # fmt: skip
    inner = (convolved(wide, kernels(cell, axes), stride, 1, group) * x).sum()
    np.testing.assert_allclose((y * found).sum(), inner, rtol=1e-4)


def test_parameters_of_convolutions() -> None:
    shapes = {
        nn.Conv1d(4, 6, 5, group=2, has_bias=True): [(6, 2, 1, 5), (6,)],
        nn.Conv2d(4, 6, (5, 3)): [(6, 4, 5, 3)],
        nn.Conv3d(4, 6, 2): [(6, 4, 2, 2, 2)],
        nn.Conv1dTranspose(4, 6, 5, group=2, has_bias=True): [(4, 3, 1, 5), (6,)],
        nn.Conv2dTranspose(4, 6, 5, has_bias=True): [(4, 6, 5, 5), (6,)],
        nn.Conv3dTranspose(4, 6, 2, dtype=graphls.float64): [(4, 6, 2, 2, 2)],
    }
    for cell, expected in shapes.items():
        assert [p.shape for p in cell.get_parameters()] == expected
        bound = 1 / np.sqrt(np.prod(expected[0][1:]))
        assert all(0 < np.abs(p.asnumpy()).max() <= bound for p in cell.get_parameters())
        assert [p.name for p in cell.get_parameters()] == ["weight", "bias"][: len(expected)]
    given = RNG.normal(size=(6, 4, 5)).astype(np.float32)
    assert (nn.Conv1d(4, 6, 5, weight_init=graphls.Tensor(given)).weight.asnumpy()[:, :, 0] == given).all()
    assert nn.Conv3dTranspose(4, 6, 2, dtype=graphls.float64).weight.dtype is graphls.float64


def test_output_padding() -> None:
    x = image(2)
    cell = nn.Conv2dTranspose(4, 3, 3, 3, "pad", (1, 0), output_padding=(2, 1), has_bias=True, bias_init=5.0)
    found = cell(x).asnumpy()
    assert found.shape == (2, 3, 6 * 3 + 3 - 2 + 2, 5 * 3 + 3 + 1)
    np.testing.assert_array_equal(found[:, :, :, -1], 5.0)


SMOOTH = [
    (nn.Conv1d(4, 2, 3, 2, has_bias=True), 1),
    (nn.Conv3d(4, 2, 2, group=2), 3),
    (nn.Conv1dTranspose(4, 2, 3, 2), 1),
    (nn.Conv2dTranspose(4, 2, 3, 2, "pad", 1, 1, has_bias=True), 2),
    (nn.Conv3dTranspose(4, 2, 2, 2, "valid"), 3),
    (nn.MaxPool1d(3, 2, "same"), 1),
    (nn.MaxPool3d(2, 2, "pad", 1, ceil_mode=True), 3),
    (nn.AvgPool1d(3, 2, "pad", 1), 1),
    (nn.AvgPool2d(2, 3, divisor_override=3), 2),
    (nn.AvgPool3d(2, 2, "same"), 3),
    (nn.AdaptiveAvgPool2d((3, 4)), 2),
    (nn.AdaptiveMaxPool1d(3), 1),
    (nn.Upsample(scale_factor=1.5, mode="bilinear"), 2),
    (nn.PixelShuffle(2), 2),
    (nn.ReflectionPad2d((1, 2, 0, 3)), 2),
    (nn.ReplicationPad1d(3), 1),
]


@pytest.mark.parametrize(("cell", "axes"), SMOOTH, ids=[type(c).__name__ for c, _ in SMOOTH])
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_are_slopes(cell: Any, axes: int, backend: str) -> None:
    """Of the input and of every weight in float64, by central differences along a random direction."""
    x = graphls.Tensor(image(axes).astype(np.float64))
    weights = [p.asnumpy().astype(np.float64) for p in cell.trainable_params()]
    shape = cell(x).shape
    scale = graphls.Tensor(RNG.normal(size=shape))

    def loss(x: Any, *values: Any) -> Any:
        return ops.sum(function(x, *values) * scale)

    def function(x: Any, *values: Any) -> Any:
        if not values:
            return cell(x)
        kernel, bias = values[0], values[1] if len(values) > 1 else None
        kernel = ops.squeeze(kernel, 2) if axes == 1 else kernel
        options: dict[str, Any] = {"stride": cell.stride, "pad_mode": cell.pad_mode, "padding": cell.padding,
                                   "groups": cell.group}  # fmt: skip
        if "Transpose" in type(cell).__name__:
            options["output_padding"] = cell.output_padding
        return type(cell).function(x, kernel, bias, **options)

    inputs = [x, *map(graphls.Tensor, weights)]
    gradient = graphls.grad(loss, tuple(range(len(inputs))))
    found = graphls.compile(lambda *i: gradient(*i), *inputs, backend=backend)(*inputs)
    found = leaves(found)
    steps = [RNG.normal(size=i.shape) for i in inputs]
    ends = [float(loss(*(graphls.Tensor(i.asnumpy() + s * d) for i, d in zip(inputs, steps, strict=True))))
            for s in (1e-6, -1e-6)]  # fmt: skip
    slope = sum(float((g.asnumpy() * d).sum()) for g, d in zip(found, steps, strict=True))
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(("cell", "axes"), SMOOTH, ids=[type(c).__name__ for c, _ in SMOOTH])
def test_half_precision_and_empty_batches(cell: Any, axes: int) -> None:
    x = image(axes)
    for backend in BACKENDS:
        half = graphls.compile(cell, x.astype(np.float16), backend=backend)(x.astype(np.float16))
        np.testing.assert_allclose(half.asnumpy(), cell(x).asnumpy(), rtol=1e-2, atol=1e-2)
        empty = graphls.compile(cell, x[:0], backend=backend)(x[:0])
        assert empty.shape == (0, *half.shape[1:])


def test_to_float_computes_in_half_precision() -> None:
    net = nn.SequentialCell(nn.Conv1d(4, 4, 3), nn.Conv1dTranspose(4, 2, 3), nn.MaxPool1d(2, 2))
    net.to_float(graphls.float16)
    x = image(1)
    first, second = (graphls.compile(net, x, backend=b)(x) for b in BACKENDS)
    assert first.dtype is second.dtype is graphls.float16
    np.testing.assert_allclose(first.asnumpy(), second.asnumpy(), rtol=1e-2, atol=1e-3)


def test_max_pool_positions_and_single_images() -> None:
    x = image(2)
    y, places = nn.MaxPool2d(2, 2, return_indices=True)(x)
    flat = x.reshape(2, 4, -1)
    found = np.take_along_axis(flat, places.asnumpy().reshape(2, 4, -1), 2)
    np.testing.assert_array_equal(found, y.asnumpy().reshape(2, 4, -1))
    assert places.dtype is graphls.int64
    np.testing.assert_array_equal(nn.MaxPool2d(2, 2)(x[0]).asnumpy(), y.asnumpy()[0])
    np.testing.assert_allclose(nn.AdaptiveAvgPool2d(1)(x[1]).asnumpy()[:, 0, 0], x[1].mean((1, 2)), rtol=1e-5)
    held = np.where(np.arange(42).reshape(1, 1, 7, 6) == 9, np.nan, x)
    assert np.isnan(nn.AdaptiveMaxPool2d(3)(held.astype(np.float32)).asnumpy()).sum() == 2 * 4


WRONG: list[Any] = [
    (lambda: nn.Conv1d(4, 6, (3, 3)), TypeError, "'kernel_size' is one integer, not"),
    (lambda: nn.Conv3d(4, 6, (3, 3)), TypeError, "'kernel_size' is one integer or three"),
    (lambda: nn.Conv3d(4, 6, 3, pad_mode="pad", padding=(1, 2)), TypeError, "three or six"),
    (lambda: nn.Conv2d(4, 6, 3, data_format="NHWC"), ValueError, "must be 'NCHW', but got 'NHWC'"),
    (lambda: nn.Conv1dTranspose(4, 6, 3, group=3), ValueError, "divisible"),
    (lambda: nn.Conv2dTranspose(4, 6, 3, output_padding=1), ValueError, "'output_padding'"),
    (lambda: nn.Conv2dTranspose(4, 6, 3, 2, "pad", output_padding=2), ValueError, "'output_padding'"),
    (lambda: nn.Conv2dTranspose(4, 6, 3, 2, "pad", output_padding="a"), TypeError, "'output_padding'"),
    (lambda: nn.Conv2dTranspose(4, 6, 3, 1, "pad", 9)(image(2)), ValueError, "leaves nothing"),
    (lambda: nn.Conv2dTranspose(3, 6, 3)(image(2)), ValueError, "cannot apply kernels"),
    (lambda: nn.Conv1d(4, 6, 3)(image(2)), ValueError, r"images of shape \(N, C, L\)"),
    (lambda: nn.Conv1d(3, 6, 3)(image(1)), ValueError, "cannot apply kernels"),
    (lambda: ops.conv2d(image(2), np.ones((6, 4, 3, 3), np.float32), np.ones(5, np.float32)), ValueError, "The bias"),
    (lambda: ops.conv2d(image(2), np.ones((6, 4, 3), np.float32)), ValueError, "kernels of rank 4"),
    (lambda: ops.conv2d(image(2), np.ones((6, 4, 3, 3), np.float32), groups=0), ValueError, "groups of 1"),
    (lambda: ops.conv2d(image(2), np.ones((6, 4, 3, 3), np.float32), groups=1.0), TypeError, "'groups'"),
    (lambda: nn.MaxPool1d(3, ceil_mode=1), TypeError, "'ceil_mode' must be bool"),
    (lambda: nn.MaxPool2d(3, pad_mode="same", ceil_mode=True), ValueError, "'ceil_mode' must be False"),
    (lambda: nn.MaxPool2d(2, pad_mode="pad", padding=2)(image(2)), ValueError, "padding smaller"),
    (lambda: nn.MaxPool3d(2)(image(1)), ValueError, r"\(N, C, D, H, W\) or \(C, D, H, W\)"),
    (lambda: nn.AvgPool2d(2, divisor_override=-1), ValueError, "'divisor_override'"),
    (lambda: nn.AvgPool2d(2, divisor_override=0.5), TypeError, "'divisor_override'"),
    (lambda: nn.LPPool2d(0, 2), ValueError, "'norm_type'"),
    (lambda: ops.lp_pool1d(image(1), "2", 2), TypeError, "'norm_type'"),
    (lambda: nn.AdaptiveAvgPool2d(0), ValueError, "'output_size' is 1 or more"),
    (lambda: nn.AdaptiveMaxPool2d((1, 2, 3)), TypeError, "'output_size'"),
    (lambda: nn.AdaptiveAvgPool1d(2)(image(1)[:, :, :0]), ValueError, "images with elements"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_arguments(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_layers_image.py")


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_layers_that_undo_maximum_pooling(axes: int) -> None:
    x = np.random.default_rng(axes).normal(size=(2, 3, *(4, 6, 8)[:axes])).astype(np.float32)
    pool = getattr(nn, f"MaxPool{axes}d")(2, 2, return_indices=True)
    cell = getattr(nn, f"MaxUnpool{axes}d")(2)
    values, places = (t.asnumpy() for t in pool(graphls.Tensor(x)))
    for backend in ("numpy", "onnxruntime"):
        found = graphls.compile(cell, values, places, backend=backend)(values, places)
        np.testing.assert_array_equal(found.asnumpy(), np.where(np.isin(x, values), x, 0))
    larger = tuple(n + 1 for n in x.shape[2:])
    assert cell(graphls.Tensor(values), graphls.Tensor(places), larger).shape == (2, 3, *larger)
    assert repr(cell) == f"MaxUnpool{axes}d(kernel_size={(2,) * axes}, stride={(2,) * axes}, padding={(0,) * axes})"
    with pytest.raises(ValueError, match="'kernel_size' is 1 or more"):
        getattr(nn, f"MaxUnpool{axes}d")(0)
