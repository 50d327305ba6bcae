"""Layers of MindSpore that are seldom used, against NumPy programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.ndimage import correlate1d
from scipy.special import digamma, gammaln

import graphls
from graphls import nn, ops
from tests.ops.agree import BACKENDS, agree
from tests.ops.slopes import assert_slopes

RANDOM = np.random.default_rng(8)
F32 = np.float32


def drawn(*shape: int) -> Any:
    return RANDOM.normal(size=shape).astype(F32)


X, Y, IMAGE = drawn(3, 4), drawn(3, 5), drawn(2, 4, 5, 6)
WEIGHT, CUBE, BIAS = drawn(2, 4), drawn(2, 4, 5), drawn(2)
ROWS = np.array([[0, 3], [1, 9]], np.int32)
TIMES = drawn(2, 3, 4)
BESIDE = drawn(2, 5, 3, 4)
POSITIVE = F32([[[4, 1, 0], [1, 3, 1], [0, 1, 2]], [[2, 0, 1], [0, 1, 0], [1, 0, 3]]])


def patches(x: Any, rows: int, columns: int, stride: int, rate: int) -> Any:
    """The windows of images along the channels: all channels of the first pixel, then those of the second."""
    counts = [(n - rate * (k - 1) - 1) // stride + 1 for n, k in zip(x.shape[2:], (rows, columns), strict=True)]
    out = np.zeros((x.shape[0], rows * columns * x.shape[1], *counts), x.dtype)
    for i, j in np.ndindex(*counts):
        part = x[:, :, i * stride : i * stride + rate * (rows - 1) + 1 : rate,
                 j * stride : j * stride + rate * (columns - 1) + 1 : rate]  # fmt: skip
        out[:, :, i, j] = part.transpose(0, 2, 3, 1).reshape(len(x), -1)
    return out


def short(rows: Any, limit: float) -> Any:
    norms = np.sqrt((rows**2).sum(-1, keepdims=True))
    return rows * np.minimum(1, limit / np.maximum(norms, 1e-30))


def found_rows(table: Any, places: Any) -> Any:
    inside = (places >= 0) & (places < len(table))
    return np.where(inside[..., None], table[np.where(inside, places, 0)], 0)


TABLE = drawn(4, 3)

CASES: list[tuple[str, Callable[[], nn.Cell], Any, tuple[Any, ...]]] = [
    ("Linear", lambda: nn.Linear(4, 2, weight_init=graphls.Tensor(WEIGHT), bias_init=graphls.Tensor(BIAS)),
     X @ WEIGHT.T + BIAS, (X,)),
    ("Linear without a bias", lambda: nn.Linear(4, 2, False, graphls.Tensor(WEIGHT)), X @ WEIGHT.T, (X,)),
    ("BiDense", lambda: nn.BiDense(4, 5, 2, graphls.Tensor(CUBE), graphls.Tensor(BIAS)),
     np.einsum("ni,oij,nj->no", X, CUBE, Y) + BIAS, (X, Y)),
    ("BiDense without a bias", lambda: nn.BiDense(4, 5, 2, graphls.Tensor(CUBE), has_bias=False),
     np.einsum("ni,oij,nj->no", X, CUBE, Y), (X, Y)),
    ("DenseBnAct", lambda: nn.DenseBnAct(4, 2, graphls.Tensor(WEIGHT), has_bn=True, eps=0.5, activation="relu"),
     np.maximum(X @ WEIGHT.T / np.sqrt(1.5), 0), (X,)),
    ("DenseBnAct alone", lambda: nn.DenseBnAct(4, 2, graphls.Tensor(WEIGHT), graphls.Tensor(BIAS)),
     X @ WEIGHT.T + BIAS, (X,)),
    ("ChannelShuffle", lambda: nn.ChannelShuffle(2), IMAGE[:, [0, 2, 1, 3]], (IMAGE,)),
    ("DiGamma", nn.DiGamma, digamma(np.abs(X) + 1), (np.abs(X) + 1,)),
    ("LGamma", nn.LGamma, gammaln(np.abs(X) + 1), (np.abs(X) + 1,)),
    ("L1Regularizer", lambda: nn.L1Regularizer(0.5), np.abs(X).sum() / 2, (X,)),
    ("MatDet", nn.MatDet, np.linalg.det(POSITIVE), (POSITIVE,)),
    ("MatInverse", nn.MatInverse, np.linalg.inv(POSITIVE), (POSITIVE,)),
    ("MatMul", lambda: nn.MatMul(transpose_x2=True), X @ X.T, (X, X)),
    ("MatMul transposed", lambda: nn.MatMul(True, False), X.T @ Y, (X, Y)),
    ("MatrixDiag", nn.MatrixDiag, np.stack([np.diag(row) for row in X]), (X,)),
    ("MatrixDiagPart", nn.MatrixDiagPart, np.diagonal(IMAGE, 0, 2, 3), (IMAGE,)),
    ("MatrixSetDiag", nn.MatrixSetDiag, X * (1 - np.eye(3, 4)) + np.eye(3, 4), (X, np.ones(3, F32))),
    ("OneHot", lambda: nn.OneHot(0, 3, 2.0, -1.0), np.array([[2, -1, -1], [-1, -1, -1], [-1, 2, -1]]),
     (np.array([0, 2, 5]),)),
    ("Roll", lambda: nn.Roll([1, -2], [0, 1]), np.roll(X, (1, -2), (0, 1)), (X,)),
    ("Tril", nn.Tril, np.tril(X), (X,)),
    ("Triu", nn.Triu, np.triu(X), (X,)),
    ("Unfold", lambda: nn.Unfold([1, 2, 3, 1], [1, 2, 2, 1], [1, 1, 1, 1]), patches(IMAGE, 2, 3, 2, 1), (IMAGE,)),
    ("Unfold spread", lambda: nn.Unfold([1, 2, 2, 1], [1, 1, 1, 1], [1, 2, 2, 1]), patches(IMAGE, 2, 2, 1, 2),
     (IMAGE,)),
    ("Unfold same", lambda: nn.Unfold([1, 2, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1], "same"),
     patches(np.pad(IMAGE, ((0, 0), (0, 0), (0, 1), (0, 1))), 2, 2, 1, 1), (IMAGE,)),
    ("EmbeddingLookup", lambda: nn.EmbeddingLookup(4, 3, graphls.Tensor(TABLE)), found_rows(TABLE, ROWS), (ROWS,)),
    ("EmbeddingLookup shortened", lambda: nn.EmbeddingLookup(4, 3, graphls.Tensor(TABLE), max_norm=0.5),
     short(found_rows(TABLE, ROWS), 0.5), (ROWS,)),
    ("TimeDistributed", lambda: nn.TimeDistributed(nn.MatrixDiag(), 1), np.stack(
        [np.stack([np.diag(row) for row in TIMES[:, t]]) for t in range(3)], 1), (TIMES,)),
    ("TimeDistributed joined", lambda: nn.TimeDistributed(nn.Dense(4, 2, graphls.Tensor(WEIGHT), has_bias=False), 1, 0),
     TIMES @ WEIGHT.T, (TIMES,)),
    ("TimeDistributed moved", lambda: nn.TimeDistributed(nn.Dense(4, 2, graphls.Tensor(WEIGHT), has_bias=False), 2, 0),
     BESIDE.transpose(0, 2, 1, 3) @ WEIGHT.T, (BESIDE,)),
    ("TimeDistributed operator", lambda: nn.TimeDistributed(ops.ReduceSum(), 0), TIMES.sum((1, 2)), (TIMES,)),
    ("CentralCrop", lambda: nn.CentralCrop(0.5), IMAGE[:, :, 1:4, 1:5], (IMAGE,)),
    ("CentralCrop of one", lambda: nn.CentralCrop(0.3), IMAGE[0, :, 1:4, 2:4], (IMAGE[0],)),
    ("CentralCrop of all", lambda: nn.CentralCrop(1.0), IMAGE, (IMAGE,)),
    ("ImageGradients", nn.ImageGradients, (
        np.pad(np.diff(IMAGE, axis=2), ((0, 0), (0, 0), (0, 1), (0, 0))),
        np.pad(np.diff(IMAGE, axis=3), ((0, 0), (0, 0), (0, 0), (0, 1)))), (IMAGE,)),
    ("MaxUnpool1d", lambda: nn.MaxUnpool1d(2), np.array([[0, X[0, 0], 0, X[0, 1]], [X[1, 0], 0, X[1, 1], 0]], F32),
     (X[:2, :2], np.array([[1, 3], [0, 2]]))),
    ("SyncBatchNorm", lambda: nn.SyncBatchNorm(4, 0.5, process_groups=[[0]]), IMAGE / np.sqrt(1.5), (IMAGE,)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "make", "expected", "inputs"), CASES, ids=[case[0] for case in CASES])
def test_layers(name: str, make: Callable[[], nn.Cell], expected: Any, inputs: Any) -> None:
    cell = make().set_train(False)
    agree(cell, expected, *inputs, rtol=2e-5, atol=2e-5)
    if name.split()[0] not in ("OneHot", "EmbeddingLookup", "MaxUnpool1d", "SyncBatchNorm", "DenseBnAct", "DiGamma"):
        assert_slopes(lambda *tensors: cell(*tensors), *inputs)


@pytest.mark.parametrize("name", ["Unfold", "BiDense", "TimeDistributed joined", "ImageGradients", "L1Regularizer"])
def test_sixteen_bits(name: str) -> None:
    _, make, expected, inputs = next(case for case in CASES if case[0] == name)
    cell = make().to_float(graphls.float16)
    agree(cell, expected, *inputs, rtol=1e-2, atol=2e-2)


def test_a_range_has_no_inputs() -> None:
    assert nn.Range(1, 7, 2)().tolist() == [1, 3, 5] and nn.Range(3)().tolist() == [0, 1, 2]
    assert nn.Range(0.0, 1.0, 0.25)().dtype is graphls.float32


def test_unpooling_undoes_pooling() -> None:
    for axes, cell in ((1, nn.MaxUnpool1d(2)), (2, nn.MaxUnpool2d(2)), (3, nn.MaxUnpool3d(2))):
        x = np.abs(drawn(2, 3, *[4] * axes)) + 1
        pool = getattr(ops, f"max_pool{axes}d")
        y, places = pool(graphls.Tensor(x), 2, return_indices=True)
        flat = np.zeros((6, 4**axes), F32)
        np.put_along_axis(flat, places.asnumpy().reshape(6, -1), y.asnumpy().reshape(6, -1), 1)
        agree(cell, flat.reshape(x.shape), y.asnumpy(), places.asnumpy())
        assert_slopes(lambda t, cell=cell, places=places: cell(t, places), y.asnumpy())
    x, places = drawn(1, 2, 2), np.array([[[0, 3], [24, 7]]])
    large = np.zeros((1, 25), F32)
    large[0, places.reshape(-1)] = x.reshape(-1)
    for size in ((5, 5), (1, 5, 5)):
        agree(lambda t, i, size=size: nn.MaxUnpool2d(2)(t, i, size), large.reshape(1, 5, 5), x, places)
    assert nn.MaxUnpool2d(3, 2, 1)(np.zeros((1, 4, 5), F32), np.zeros((1, 4, 5), np.int64)).shape == (1, 7, 9)


def test_a_convolution_with_what_follows() -> None:
    weight, x = drawn(3, 4, 1, 1), IMAGE
    kernel = graphls.Tensor(weight)
    y = np.einsum("oc,nchw->nohw", weight[:, :, 0, 0], x)
    agree(nn.Conv2dBnAct(4, 3, 1, weight_init=kernel), y, x, rtol=1e-5, atol=1e-5)
    mean, variance = y.mean((0, 2, 3), keepdims=True), y.var((0, 2, 3), keepdims=True)
    normed = (y - mean) / np.sqrt(variance + 1e-5)
    cell = nn.Conv2dBnAct(4, 3, 1, weight_init=kernel, has_bn=True, activation="leakyrelu", alpha=0.3).set_train()
    agree(cell, np.where(normed > 0, normed, 0.3 * normed), x, rtol=1e-4, atol=1e-4)
    names = {p.name.partition(".")[0] for p in cell.get_parameters()}
    assert names == {"conv", "batchnorm"}, "as in MindSpore's checkpoints"


def similarity(x: Any, y: Any, size: int, sigma: float, largest: float, k1: float, k2: float) -> tuple[Any, Any]:
    """The structural similarity of channels and the part of contrast and structure, in float64 by SciPy."""
    places = np.arange(size) - size // 2 if size % 2 else np.arange(size) - size // 2 + 1
    weights = np.exp(-(places**2) / (2 * sigma**2))
    weights = weights / weights.sum()

    def blurred(z: Any) -> Any:
        for axis in (2, 3):
            valid = np.moveaxis(z, axis, 0)
            count = len(valid) - size + 1
            whole = correlate1d(valid, weights, axis=0, mode="constant", origin=-(size // 2))
            z = np.moveaxis(whole[:count], 0, axis)
        return z

    mx, my = blurred(x), blurred(y)
    vx, vy, cov = blurred(x * x) - mx**2, blurred(y * y) - my**2, blurred(x * y) - mx * my
    c1, c2 = (k1 * largest) ** 2, (k2 * largest) ** 2
    contrast = (2 * cov + c2) / (vx + vy + c2)
    whole = (2 * mx * my + c1) / (mx**2 + my**2 + c1) * contrast
    return whole.mean((2, 3)), contrast.mean((2, 3))


FIRST = np.abs(drawn(2, 3, 12, 16)) / 3
SECOND = (FIRST * 0.7 + 0.1 * np.abs(drawn(2, 3, 12, 16))).astype(F32)


def test_similarities_of_images() -> None:
    x, y = FIRST.astype(np.float64), SECOND.astype(np.float64)
    agree(nn.SSIM(), similarity(x, y, 11, 1.5, 1, 0.01, 0.03)[0].mean(1), FIRST, SECOND, rtol=1e-4, atol=1e-5)
    other = similarity(x, y, 5, 0.8, 2, 0.02, 0.05)[0].mean(1)
    agree(nn.SSIM(2.0, 5, 0.8, 0.02, 0.05), other, FIRST, SECOND, rtol=1e-4, atol=1e-5)
    total, powers = 1.0, (0.3, 0.5)
    for level, power in enumerate(powers):
        parts = similarity(x, y, 3, 1.5, 1, 0.01, 0.03)
        total = total * np.maximum(parts[0 if level else 1], 0) ** power
        x, y = (z.reshape(2, 3, z.shape[2] // 2, 2, z.shape[3] // 2, 2).mean((3, 5)) for z in (x, y))
    agree(nn.MSSSIM(power_factors=powers, filter_size=3), total.mean(1), FIRST, SECOND, rtol=1e-4, atol=1e-5)
    equal = np.ones(2)
    agree(nn.MSSSIM(power_factors=(0.5, 0.5), filter_size=4), equal, FIRST, FIRST, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_similarity_has_a_gradient(backend: str) -> None:
    cell, move = nn.SSIM(filter_size=5), np.ones_like(FIRST)
    step = graphls.compile(lambda x, y: graphls.grad(cell)(x, y), FIRST, SECOND, backend=backend)
    slope = float((step(FIRST, SECOND).asnumpy() * move).sum())
    x, y = FIRST.astype(np.float64), SECOND.astype(np.float64)
    high, low = (similarity(x + h * move, y, 5, 1.5, 1, 0.01, 0.03)[0].mean(1).sum() for h in (1e-5, -1e-5))
    assert slope == pytest.approx((high - low) / 2e-5, rel=1e-3)


def test_signal_and_noise() -> None:
    expected = 10 * np.log10(1 / ((FIRST - SECOND) ** 2).mean((1, 2, 3)))
    agree(nn.PSNR(), expected, FIRST, SECOND, rtol=1e-5)
    agree(nn.PSNR(2), expected + 20 * np.log10(2), FIRST, SECOND, rtol=1e-5)
    bytes_of = [(np.clip(z, 0, 1) * 255).astype(np.uint8) for z in (FIRST, SECOND)]
    error = ((bytes_of[0].astype(float) - bytes_of[1]) ** 2).mean((1, 2, 3))
    agree(nn.PSNR(255), 10 * np.log10(255**2 / error), *bytes_of, rtol=1e-5)


def test_a_triplet_loss_with_any_distance() -> None:
    x, near, far = drawn(3, 4), drawn(3, 4), drawn(3, 4)

    def length(z: Any) -> Any:
        return np.sqrt((z**2).sum(1))

    losses = np.maximum(length(x - near) - length(x - far) + 1, 0)
    agree(nn.TripletMarginWithDistanceLoss(), losses.mean(), x, near, far, rtol=1e-5)
    swapped = np.maximum(length(x - near) - np.minimum(length(x - far), length(near - far)) + 0.5, 0)
    cell = nn.TripletMarginWithDistanceLoss(swap=True, reduction="none", margin=0.5)
    agree(cell, swapped, x, near, far, rtol=1e-5)
    blocks = nn.TripletMarginWithDistanceLoss(lambda a, b: ops.sum(ops.abs(ops.sub(a, b)), -1), reduction="sum")
    total = np.maximum(np.abs(x - near).sum(1) - np.abs(x - far).sum(1) + 1, 0).sum()
    agree(blocks, total, x, near, far, rtol=1e-5)
    assert_slopes(lambda *t: cell(*t), x, near, far)


WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: nn.CentralCrop(1), TypeError, "'central_fraction' must be float"),
    (lambda: nn.CentralCrop(1.5), ValueError, r"must be in \(0, 1\]"),
    (lambda: nn.CentralCrop(0.5)(X), ValueError, "rank 3 or 4"),
    (lambda: nn.ImageGradients()(X), ValueError, r"shape \(N, C, H, W\)"),
    (lambda: nn.PSNR(0), ValueError, "'max_val' must be greater than 0"),
    (lambda: nn.PSNR()(IMAGE, IMAGE.astype(np.float16)), TypeError, "one dtype and shape"),
    (lambda: nn.SSIM()(IMAGE, IMAGE), ValueError, "takes larger images"),
    (lambda: nn.SSIM(filter_size=0), ValueError, "'filter_size' must be int and must > 0"),
    (lambda: nn.MSSSIM(power_factors=0.5), TypeError, "'power_factors' must be numbers in a tuple"),
    (lambda: nn.L1Regularizer(0), ValueError, "'scale' must be greater than 0"),
    (lambda: nn.BiDense(0, 1, 1), ValueError, "'in1_channels' must be int and must > 0"),
    (lambda: nn.BiDense(4, 5, 2)(Y, X), ValueError, "bidense"),
    (lambda: nn.ChannelShuffle(3)(IMAGE), ValueError, "channel_shuffle"),
    (lambda: nn.Unfold(2.5, 1, 1)(IMAGE), TypeError, "'ksizes' is one integer or two"),
    (lambda: nn.Unfold(9, 1, 1)(IMAGE), ValueError, "no window of"),
    (lambda: nn.Unfold(2, 1, 1, "half")(IMAGE), TypeError, "'VALID' or 'SAME'"),
    (lambda: nn.MaxUnpool2d(2)(IMAGE, ROWS), ValueError, "takes indices of the shape"),
    (lambda: nn.MaxUnpool2d(2)(IMAGE, np.zeros(IMAGE.shape, int), (3, 3, 3)), ValueError, "makes the sizes"),
    (lambda: nn.TimeDistributed(3, 1), TypeError, "'layer' must be a cell or an operator"),
    (lambda: nn.TimeDistributed(nn.ReLU(), 1.0), TypeError, "'time_axis' must be int"),
    (lambda: nn.SyncBatchNorm(3, process_groups=[[0, 1]]), ValueError, "different ranks below 1"),
    (lambda: nn.EmbeddingLookup(3, 2, target="TPU"), ValueError, "'target' must be in"),
    (lambda: nn.EmbeddingLookup(3, 2)(X), TypeError, "takes integers"),
    (lambda: nn.TripletMarginWithDistanceLoss(3), TypeError, "a function of two tensors"),
    (lambda: nn.TripletMarginWithDistanceLoss()(X[0], X[0], X[0]), ValueError, "rows of vectors"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError) and caught.value.location is not None


def test_layers_describe_themselves() -> None:
    for _, make, _, _ in CASES:
        cell = make()
        assert type(cell).__name__ in repr(cell) and type(cell).__doc__
