"""Operator classes against NumPy programs and the functions that they stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.signal import correlate2d

import graphls
from graphls import nn, ops
from graphls.ops.operations import OPERATORS
from tests.ops.agree import BACKENDS, agree
from tests.ops.slopes import assert_slopes

F32 = np.float32
RANDOM = np.random.default_rng(11)


def drawn(*shape: int) -> Any:
    return RANDOM.normal(size=shape).astype(F32)


X, Y, W = drawn(3, 4), drawn(3, 4), drawn(4)
IMAGE, KERNEL = drawn(2, 3, 5, 6), drawn(4, 3, 3, 3)
LAST = IMAGE.transpose(0, 2, 3, 1)
LABELS, COLUMNS = np.array([0, 2, 1, 2, 0], np.int32), np.array([0, 1, 1, 2, 2], np.int32)
TRIPLE = drawn(3, 2, 4)
TREE = np.array([3, 1, 2, 3], np.int32)


def convolved(x: Any, kernel: Any) -> Any:
    """Images (N, C, H, W) and kernels (O, C, h, w), without padding."""
    return np.stack([[sum(correlate2d(c, k, "valid") for c, k in zip(image, channels, strict=True))
                      for channels in kernel] for image in x])  # fmt: skip


def dilated(x: Any, weight: Any) -> Any:
    rows, columns = weight.shape[1:]
    high, wide = x.shape[2] - rows + 1, x.shape[3] - columns + 1
    parts = [x[:, :, i : i + high, j : j + wide] + weight[:, i, j, None, None] for i, j in np.ndindex(rows, columns)]
    return np.max(parts, axis=0)


def depthwise(x: Any, kernels: Any) -> Any:
    return np.concatenate(
        [convolved(x[:, c : c + 1], kernels[:, c : c + 1]) for c in range(x.shape[1])], axis=1
    )


def rms(x: Any, gamma: Any) -> tuple[Any, Any]:
    scale = 1 / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-6)
    return x * scale * gamma, scale


def batch_norm_of(x: Any, mean: Any, variance: Any) -> Any:
    column = (1, -1, 1, 1)
    return (x - mean.reshape(column)) / np.sqrt(variance.reshape(column) + 1e-5)


MEAN, VARIANCE = drawn(3), np.abs(drawn(3)) + 0.5
UNIT, NULL = np.ones(3, F32), np.zeros(3, F32)
CONFUSION = np.zeros((3, 3), int)
np.add.at(CONFUSION, (LABELS, COLUMNS), 1)
WEIGHED = np.zeros((3, 3))
np.add.at(WEIGHED, (LABELS, COLUMNS), [1, 2, 3, 4, 5])
DISTANCES = [np.abs(TRIPLE[0] - TRIPLE[i] + 1e-6).sum(-1) for i in (1, 2)]

CASES: list[tuple[Any, Any, tuple[Any, ...]]] = [
    (ops.Conv2D(4, 3, data_format="NHWC"), convolved(IMAGE, KERNEL).transpose(0, 2, 3, 1),
     (LAST, KERNEL.transpose(0, 2, 3, 1))),
    (ops.DepthwiseConv2dNative(1, 3), depthwise(IMAGE, KERNEL[:1]), (IMAGE, KERNEL[:1])),
    (ops.DepthwiseConv2dNative(4, (3, 3)), depthwise(IMAGE, KERNEL), (IMAGE, KERNEL)),
    (ops.MaxPool((1, 1, 2, 2), (1, 1, 2, 2)), IMAGE[:, :, :4].reshape(2, 3, 2, 2, 3, 2).max((3, 5)), (IMAGE,)),
    (ops.MaxPool(2, 2, data_format="NHWC"),
     IMAGE[:, :, :4].reshape(2, 3, 2, 2, 3, 2).max((3, 5)).transpose(0, 2, 3, 1), (LAST,)),
    (ops.AvgPool(2, 2, "same"), ops.AvgPool(2, 2, "SAME")(graphls.Tensor(IMAGE)).asnumpy(), (IMAGE,)),
    (ops.ExtractImagePatches((1, 2, 2, 1), (1, 1, 1, 1), (1, 1, 1, 1)),
     np.concatenate([IMAGE[:, :, i : i + 4, j : j + 5] for i in (0, 1) for j in (0, 1)], 1), (IMAGE,)),
    (ops.Dilation2D(1, 1, "VALID"), dilated(IMAGE, KERNEL[0]), (IMAGE, KERNEL[0])),
    (ops.Dilation2D((1, 1, 1, 1), 1),
     dilated(np.pad(IMAGE, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf), KERNEL[0]), (IMAGE, KERNEL[0])),
    (ops.SpaceToBatch(2, ((1, 0), (0, 0))), ops.space_to_batch_nd(IMAGE, 2, ((1, 0), (0, 0))).asnumpy(), (IMAGE,)),
    (ops.BatchToSpace(2, ((0, 1), (0, 0))), ops.batch_to_space_nd(np.tile(IMAGE, (2, 1, 1, 1)), 2, ((0, 1), (0, 0)))
     .asnumpy(), (np.tile(IMAGE, (2, 1, 1, 1)),)),
    (ops.BatchNorm(), (batch_norm_of(IMAGE, MEAN, VARIANCE), MEAN, VARIANCE, MEAN, VARIANCE),
     (IMAGE, UNIT, NULL, MEAN, VARIANCE)),
    (ops.BatchNorm(True, data_format="NHWC"), tuple(
        [batch_norm_of(IMAGE, IMAGE.mean((0, 2, 3)), IMAGE.var((0, 2, 3))).transpose(0, 2, 3, 1)]
        + [IMAGE.mean((0, 2, 3)), IMAGE.var((0, 2, 3))] * 2), (LAST, UNIT, NULL, MEAN, VARIANCE)),
    (ops.RmsNorm(), rms(X, W), (X, W)),
    (ops.NLLLoss("none", 2), (np.array([-X[0, 0], -2 * X[1, 1], 0], F32), F32(3)),
     (X, np.array([0, 1, 2], np.int32), np.array([1, 2, 3, 4], F32))),
    (ops.MultilabelMarginLoss("sum"), (
        np.sum([max(0, 1 - (X[0, j] - X[0, i])) for j in (3, 1) for i in (0, 2)]) / 4, np.array([[0, 1, 0, 1]])),
     (X[:1], np.array([[3, 1, -1, 0]]))),
    (ops.TripletMarginLoss(p=1, reduction="none"), np.maximum(DISTANCES[0] - DISTANCES[1] + 0.5, 0),
     (*TRIPLE, 0.5)),
    (ops.EuclideanNorm(), np.sqrt((X**2).sum(1)), (X, (1,))),
    (ops.EuclideanNorm(True), np.sqrt((X**2).sum(keepdims=True)), (X, ())),
    (ops.Fmax(), np.array([2, 1, 3], F32), (np.array([1, np.nan, 3], F32), np.array([2, 1, np.nan], F32))),
    (ops.Fmin(), np.array([1, 1, 3], F32), (np.array([1, np.nan, 3], F32), np.array([2, 1, np.nan], F32))),
    (ops.LerpScalar(), X + 0.25 * (Y - X), (X, Y, 0.25)),
    (ops.Gelu(), ops.gelu(X).asnumpy(), (X,)),
    (ops.Fills(), np.full((3, 4), 2.5), (X, 2.5)),
    (ops.ConfusionMatrix(3), CONFUSION, (LABELS, COLUMNS)),
    (ops.ConfusionMatrix(3, "float32"), WEIGHED, (LABELS, COLUMNS, np.arange(1, 6, dtype=F32))),
    (ops.ConfusionMatrix(2), CONFUSION[:2, :2], (LABELS, COLUMNS)),
    (ops.CountNonZero(), 3, (np.array([[0, 1], [2, 3]]),)),
    (ops.CountNonZero(dims=(0,)), np.array([1, 2]), (np.array([[0, 1], [2, 3]]),)),
    (ops.HistogramFixedWidth(5), np.array([2, 1, 1, 0, 2]),
     (np.array([-1, 0, 1.5, 2, 5, 15], F32), np.array([0, 5], F32))),
    (ops.Histogram(2), np.array([0, 3]), (np.full(3, 4, np.int32),)),
    (ops.SplitV((1, -1, 2), 1, 3), (X[:, :1], X[:, 1:2], X[:, 2:]), (X,)),
    (ops.TransposeView(), X.T, (X, (1, 0))),
    (ops.SparseGatherV2(), X[:, [1, 1]], (X, np.array([1, 1]), 1)),
    (ops.MatrixDiagV3(), np.stack([np.diag(row) for row in X]), (X, 0, -1, -1, 0.0)),
    (ops.MatrixDiagPartV3(), np.diagonal(X, 1), (X, 1, 0.0)),
    (ops.MatrixSetDiagV3(), X * (1 - np.eye(3, 4)), (X, np.zeros(3, F32), 0)),
    (ops.UniqueWithPad(), (np.array([1, 2, 3, -1]), np.array([2, 0, 1, 2])), (TREE, -1)),
    (ops.BatchToSpaceNDV2(), IMAGE, (ops.space_to_batch_nd(IMAGE, (1, 2), ((0, 0), (0, 0))).asnumpy(),
                                     (1, 2), ((0, 0), (0, 0)))),
    (ops.CompareAndBitpack(), np.packbits(np.arange(16).reshape(2, 8) > 5, axis=-1), (np.arange(16).reshape(2, 8), 5)),
]  # fmt: skip


def _merged(inputs: tuple[Any, ...], tensors: tuple[Any, ...]) -> list[Any]:
    given = iter(tensors)
    return [next(given) if isinstance(i, (np.ndarray, np.generic)) else i for i in inputs]


@pytest.mark.parametrize(("operator", "expected", "inputs"), CASES, ids=[repr(case[0]) for case in CASES])
def test_operators(operator: Any, expected: Any, inputs: Any) -> None:
    arrays = tuple(np.asarray(i) for i in inputs if isinstance(i, (np.ndarray, np.generic)))
    agree(lambda *tensors: operator(*_merged(inputs, tensors)), expected, *arrays, rtol=1e-5, atol=2e-6)


SMOOTH = [case for case in CASES if type(case[0]).__name__ in {
    "Conv2D", "DepthwiseConv2dNative", "ExtractImagePatches", "Dilation2D", "BatchNorm", "RmsNorm", "EuclideanNorm",
    "LerpScalar", "SplitV", "MaxPool"}]  # fmt: skip


@pytest.mark.parametrize(("operator", "expected", "inputs"), SMOOTH, ids=[repr(case[0]) for case in SMOOTH])
def test_slopes(operator: Any, expected: Any, inputs: Any) -> None:
    arrays = [i for i in inputs if isinstance(i, np.ndarray)]
    # Statistics beside a normalised result give no gradient.
    results = (lambda found: found[0]) if isinstance(operator, (ops.BatchNorm, ops.RmsNorm)) else (lambda found: found)
    assert_slopes(lambda *tensors: results(operator(*_merged(inputs, tensors))), *arrays)


def test_results_that_are_no_tensors() -> None:
    assert ops.InvertPermutation()((2, 0, 1)) == (1, 2, 0)
    assert ops.ScalarCast()(1.7, graphls.int64) == 1
    assert ops.ScalarToArray()(1.5).tolist() == 1.5 and ops.TupleToArray()((1, 2)).tolist() == [1, 2]
    assert ops.DynamicShape()(X).tolist() == [3, 4]
    assert [t.tolist() for t in ops.UniqueConsecutive(True, True)(np.array([1, 1, 2, 1]))] == [
        [1, 2, 1], [0, 0, 1, 2], [2, 1, 1]
    ]  # fmt: skip


class Update(nn.Cell):
    """An operator on parameters and traced operands."""

    def __init__(self, operator: Any, values: tuple[Any, ...], places: tuple[int, ...]) -> None:
        super().__init__()
        self.operator, self.places = operator, places
        self.states = graphls.ParameterTuple(graphls.Parameter(v, name=f"s{i}") for i, v in enumerate(values))

    def construct(self, *tensors: Any) -> Any:
        operands = list(tensors)
        for place, parameter in zip(self.places, self.states, strict=True):
            operands.insert(place, parameter)
        self.operator(*operands)
        return 1.0


P, M, V, G = X, Y, np.abs(drawn(3, 4)) + 0.5, drawn(3, 4)
LR, L1, L2, STEPS = F32(0.1), F32(0.4), F32(0.2), np.int32(3)


def ftrl(power: float) -> tuple[Any, Any, Any]:
    """McMahan et al. (2013)."""
    squares = V + G**2
    linear = M + G - (squares**-power - V**-power) / LR * P
    shrunk = np.sign(linear) * L1 - linear
    return np.where(np.abs(linear) > L1, shrunk / (squares**-power / LR + 2 * L2), 0), squares, linear


def dual_averaging() -> tuple[Any, Any, Any]:
    total, squares = M + G, V + G**2
    shrunk = np.sign(total) * np.maximum(np.abs(total) - L1 * STEPS, 0)
    return -LR * shrunk / (L2 * STEPS * LR + np.sqrt(squares)), total, squares


MOMENTS = 0.9 * M + 0.5 * G
KERAS = 0.9 * M - LR * G
DECAYED = 0.9 * M + G * F32(0.5) + F32(0.3) * P
STEEP = 0.9 * M + 0.7 * (G + 0.2 * P)
RMS = 0.8 * V + 0.2 * G**2

UPDATES: list[tuple[Any, tuple[Any, ...], tuple[int, ...], tuple[Any, ...], tuple[Any, ...]]] = [
    (ops.ApplyFtrl(), (P, V, M), (0, 1, 2), (G, LR, L1, L2, F32(-0.5)), ftrl(-0.5)),
    (ops.ApplyFtrl(), (P, V, M), (0, 1, 2), (G, LR, L1, L2, F32(-0.7)), ftrl(-0.7)),
    (ops.ApplyAdagradDA(), (P, M, V), (0, 1, 2), (G, LR, L1, L2, STEPS), dual_averaging()),
    (ops.ApplyAdagrad(False), (P, V), (0, 1), (LR, G), (P - LR * G / np.sqrt(V), V)),
    (ops.ApplyMomentum(True, gradient_scale=0.5), (P, M), (0, 1), (LR, G, F32(0.9)),
     (P - LR * (0.5 * G + 0.9 * MOMENTS), MOMENTS)),
    (ops.ApplyKerasMomentum(), (P, M), (0, 1), (LR, G, F32(0.9)), (P + KERAS, KERAS)),
    (ops.ApplyKerasMomentum(use_nesterov=True), (P, M), (0, 1), (LR, G, F32(0.9)), (P + 0.9 * KERAS - LR * G, KERAS)),
    (ops.FusedWeightScaleApplyMomentum(), (P, M), (2, 3), (F32(0.3), F32(0.5), LR, G, F32(0.9)),
     (P - LR * DECAYED, DECAYED)),
    (ops.SGD(0.3, 0.2, False), (P, M, np.zeros((3, 4), F32)), (0, 3, 5), (G, LR, F32(0.9)),
     (P - LR * STEEP, STEEP, np.zeros((3, 4)))),
    (ops.SGD(), (P, M, np.ones((3, 4), F32)), (0, 3, 5), (G, LR, F32(0)), (P - LR * G, M, np.ones((3, 4)))),
    (ops.ApplyRMSProp(), (P, V, M), (0, 1, 2), (LR, G, F32(0.8), F32(0.5), F32(1e-3)),
     (P - (0.5 * M + LR * G / np.sqrt(RMS + 1e-3)), RMS, 0.5 * M + LR * G / np.sqrt(RMS + 1e-3))),
    (ops.ScatterNonAliasingAdd(), (P,), (0,), (np.array([[2], [0]], np.int32), G[:2]),
     (P + G[[1, 2, 0]] * [[1], [0], [1]],)),
]  # fmt: skip


@pytest.mark.parametrize("how", ["at once", *BACKENDS])
@pytest.mark.parametrize("number", range(len(UPDATES)))
def test_updates_of_parameters(number: int, how: str) -> None:
    operator, values, places, operands, expected = UPDATES[number]
    cell = Update(operator, values, places)
    tensors = [graphls.Tensor(o) for o in operands]
    cell(*tensors) if how == "at once" else graphls.compile(cell, *tensors, backend=how)(*tensors)
    for parameter, array in zip(cell.states, expected, strict=True):
        np.testing.assert_allclose(parameter.asnumpy(), array, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_updates_of_narrow_parameters_keep_their_dtype(backend: str) -> None:
    cell = Update(ops.ApplyMomentum(), (P.astype(np.float16), M), (0, 1))
    graphls.compile(cell, LR, G, F32(0.9), backend=backend)(LR, G, F32(0.9))
    assert cell.states[0].dtype is graphls.float16 and cell.states[1].dtype is graphls.float32
    np.testing.assert_allclose(cell.states[0].asnumpy(), P - 0.1 * (0.9 * M + G), rtol=2e-3, atol=2e-3)


def test_updates_in_a_training_step_with_loss_scaling() -> None:
    class Descent(nn.Optimizer):
        def __init__(self, params: Any) -> None:
            super().__init__(0.1, params)
            self.moments = self.parameters.clone(prefix="moments", init="zeros")
            self.apply = ops.ApplyMomentum()

        def construct(self, gradients: Any) -> Any:
            for parameter, moment, g in zip(self.parameters, self.moments, gradients, strict=True):
                self.apply(parameter, moment, 0.1, g, 0.9)
            return True

    def trained(make: Callable[[Any], Any]) -> Any:
        net = nn.Dense(4, 1, graphls.Tensor(W[None]), has_bias=False)
        loss = nn.WithLossCell(net, nn.MSELoss())
        scale = nn.DynamicLossScaleUpdateCell(16, 2, 1000)
        step = nn.TrainOneStepWithLossScaleCell(loss, make(net.trainable_params()), scale)
        losses = [float(step(X, np.zeros((3, 1), F32))[0].asnumpy()) for _ in range(4)]
        return losses, net.weight.asnumpy()

    mine, theirs = trained(Descent), trained(lambda params: nn.Momentum(params, 0.1, 0.9))
    np.testing.assert_allclose(mine[0], theirs[0], rtol=1e-6)
    np.testing.assert_allclose(mine[1], theirs[1], rtol=1e-6)


def test_the_rate_of_a_layer() -> None:
    norms = (F32((X**2).sum()), F32((G**2).sum()))
    w, g = np.sqrt(norms)
    rate = 0.001 * w / (g + 0.3 * w + 1e-5)
    agree(ops.LARSUpdate(), (G + 0.3 * X) * rate, X, G, *norms, F32(0.3), F32(0.1), rtol=1e-5)
    clipped = ops.LARSUpdate(hyperpara=10.0, use_clip=True)
    agree(clipped, G + 0.3 * X, X, G, *norms, F32(0.3), F32(0.1), rtol=1e-5)
    agree(ops.LARSUpdate(), G, X * 0, G, F32(0), norms[1], F32(0.3), F32(0.1), rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_dropout_gives_its_mask(backend: str) -> None:
    x = np.ones((16, 64), F32)
    y, mask = graphls.compile(lambda t: ops.Dropout(0.75)(t), x, backend=backend)(x)
    assert mask.dtype is graphls.float32 and set(np.unique(mask.asnumpy())) == {0, 1}
    np.testing.assert_allclose(y.asnumpy(), mask.asnumpy() / 0.75, rtol=1e-6)
    assert 0.65 < mask.asnumpy().mean() < 0.85
    for operator, shape in ((ops.Dropout2D(0.5), (8, 32, 2, 3)), (ops.Dropout3D(0.5), (8, 32, 2, 3, 2))):
        x = np.ones(shape, F32)
        y, mask = graphls.compile(lambda t, operator=operator: operator(t), x, backend=backend)(x)
        kept = mask.asnumpy().reshape(8, 32, -1)
        assert mask.dtype is graphls.bool_ and (kept == kept[..., :1]).all() and 0.3 < kept.mean() < 0.7
        np.testing.assert_array_equal(y.asnumpy(), 2 * mask.asnumpy())
    same, whole = ops.Dropout(1.0)(x)
    assert (same.asnumpy() == x).all() and (whole.asnumpy() == 1).all()
    assert (ops.Dropout(0.0)(x)[0].asnumpy() == 0).all()


@pytest.mark.parametrize("is_tensor", [False, True])
def test_a_mask_is_made_and_applied(is_tensor: bool) -> None:
    x = np.ones((16, 64), F32)

    def masked(t: Any, share: Any) -> Any:
        kept = share if is_tensor else 0.75
        mask = ops.DropoutGenMask(Seed0=3)((16, 64), kept)
        return mask, *ops.value_and_grad(lambda t: ops.DropoutDoMask()(t, mask, kept).sum())(t)

    for backend in BACKENDS:
        mask, total, slopes = graphls.compile(masked, x, F32(0.75), backend=backend)(x, F32(0.75))
        kept = mask.asnumpy()
        assert mask.dtype is graphls.uint8 and set(np.unique(kept)) == {0, 1} and 0.65 < kept.mean() < 0.85
        np.testing.assert_allclose(slopes.asnumpy(), kept / 0.75, rtol=1e-6)
        assert float(total) == pytest.approx(kept.sum() / 0.75, rel=1e-5)
    first, again = (ops.DropoutGenMask(1, 2)((9,), graphls.Tensor(0.5)).tolist() for _ in range(2))
    assert first == again


def test_random_numbers() -> None:
    first, again = (ops.TruncatedNormal(seed=3)((4000,)).asnumpy() for _ in range(2))
    assert (first == again).all() and np.abs(first).max() <= 2 and abs(first.std() - 0.88) < 0.04
    assert ops.TruncatedNormal(graphls.float16)((2, 3)).dtype is graphls.float16
    means = np.array([0.0, 5.0], F32)
    shifted = ops.ParameterizedTruncatedNormal(1)((2, 3000), means, F32(2), F32(-1), F32(6)).asnumpy()
    assert shifted.min() >= -1 and shifted.max() <= 6 and shifted[0].mean() < 2 < 3 < shifted[1].mean()
    assert sorted(ops.RandomShuffle(1)(np.arange(9)).tolist()) == [*range(9)]
    places = ops.Randperm(6, -2)(np.array(4)).tolist()
    assert sorted(places[:4]) == [0, 1, 2, 3] and places[4:] == [-2, -2]
    assert sorted(ops.RandpermV2(5)(7).tolist()) == [*range(7)]
    share = ops.Bernoulli(2)(np.zeros(4000, F32), F32(0.3)).asnumpy()
    assert set(np.unique(share)) == {0, 1} and abs(share.mean() - 0.3) < 0.04
    heavy = ops.Cauchy((4000,), 1.0, 2.0)().asnumpy()
    low, middle, high = np.quantile(heavy, (0.25, 0.5, 0.75))
    assert abs(middle - 1) < 0.3 and abs(low + 1) < 0.5 and abs(high - 3) < 0.5
    logarithms = np.log(ops.LogNormalReverse(0.5, 2.0)(np.zeros(4000, F32)).asnumpy())
    assert abs(logarithms.mean() - 0.5) < 0.2 and abs(logarithms.std() - 2) < 0.2


def test_a_long_memory_of_layers_in_both_directions() -> None:
    x, h, c, sizes = drawn(4, 2, 3), drawn(4, 2, 2), drawn(4, 2, 2), (3, 3, 4, 4)
    layer = nn.LSTM(3, 2, 2, bidirectional=True)
    shapes = [(8, n) for n in sizes], [(8, 2)] * 4, [(8,)] * 4, [(8,)] * 4
    weights = [[drawn(*shape) for shape in some] for some in shapes]
    for parameters, values in zip((layer.w_ih_list, layer.w_hh_list, layer.b_ih_list, layer.b_hh_list), weights,
                                  strict=True):  # fmt: skip
        for parameter, value in zip(parameters, values, strict=True):
            parameter.set_data(graphls.Tensor(value))
    output, (last, cell) = layer(graphls.Tensor(x), (graphls.Tensor(h), graphls.Tensor(c)))
    products = [part.reshape(-1) for pair in zip(*weights[:2], strict=True) for part in pair]
    biases = [part for pair in zip(*weights[2:], strict=True) for part in pair]
    operator = ops.LSTM(3, 2, 2, True, True, 0.0)
    flat = np.concatenate([*products, *biases]).reshape(-1, 1, 1)
    expected = tuple(t.asnumpy() for t in (output, last, cell))
    agree(lambda *tensors: operator(*tensors)[:3], expected, x, h, c, flat, rtol=1e-5, atol=1e-5)
    joint = np.concatenate([*products, *(a + b for a, b in zip(*weights[2:], strict=True))]).reshape(-1, 1, 1)
    np.testing.assert_allclose(operator(x, h, c, joint)[0].asnumpy(), expected[0], rtol=1e-5, atol=1e-5)


def test_images_at_points_and_boxes() -> None:
    theta = np.tile(F32([[1, 0, 0], [0, -1, 0]]), (1, 1, 1))
    grid = ops.AffineGrid()(theta, (1, *IMAGE.shape[1:]))
    agree(lambda x: ops.GridSampler2D("nearest")(x, grid), IMAGE[:1, :, ::-1], IMAGE[:1])
    volume = IMAGE[:1, :, None]
    points = ops.concat((grid, ops.zeros((*grid.shape[:-1], 1))), -1).expand_dims(1)
    agree(lambda x: ops.GridSampler3D()(x, points), volume[..., ::-1, :], volume, rtol=1e-5, atol=1e-6)
    anchors, truths = F32([[0, 0, 9, 9], [2, 2, 7, 11]]), F32([[1, 2, 8, 12], [0, 1, 6, 8]])
    codes = ops.BoundingBoxEncode(stds=(0.1, 0.1, 0.2, 0.2))(anchors, truths)
    decoded = ops.BoundingBoxDecode((20, 20), stds=(0.1, 0.1, 0.2, 0.2))(anchors, codes)
    np.testing.assert_allclose(decoded.asnumpy(), truths, atol=1e-5)
    assert ops.CheckValid()(anchors, F32([10, 10, 1])).tolist() == [True, False]
    whole = F32([[0, 0, 1, 1]])
    crops = ops.CropAndResize("nearest")(np.moveaxis(IMAGE, 1, -1), whole, np.int32([1]), IMAGE.shape[2:])
    np.testing.assert_allclose(crops.asnumpy(), np.moveaxis(IMAGE[1:2], 1, -1))
    scores = np.log(F32([[[0.1, 0.8, 0.1]], [[0.1, 0.8, 0.1]], [[0.2, 0.1, 0.7]], [[0.1, 0.8, 0.1]]]))
    assert ops.CTCGreedyDecoder()(scores, np.int32([4]))[1].tolist() == [1, 1]
    assert ops.CTCGreedyDecoder(False)(scores, np.int32([4]))[1].tolist() == [1, 1, 1]


def test_classes_of_distributions_draw_what_their_functions_do() -> None:
    ones = F32([1, 4])
    for found, wanted in (
        (ops.Gamma(1, 2)((500, 2), ones, ones), ones / ones),
        (ops.RandomGamma(1, 2)((500,), ones), ones),
        (ops.Poisson(1)((500, 2), ones), ones),
        (ops.RandomPoisson(1)((500,), ones), ones),
        (ops.StandardLaplace(1)((500, 2)), ones * 0),
    ):
        assert found.shape == (500, 2)
        np.testing.assert_allclose(found.asnumpy().mean(0), wanted, atol=0.35)
    assert ops.Poisson()((2,), ones).dtype is graphls.int32 and ops.RandomPoisson()((2,), ones).dtype is graphls.int64
    assert ops.Gamma(3)((9,), 2.0, 1.0).tolist() == ops.Gamma(3)((9,), 2.0, 1.0).tolist()
    assert set(ops.RandomCategorical()(np.log(F32([[0.5, 0.5, 1e-9]])), 50, 1).asnumpy().flat) == {0, 1}
    places, valid = ops.RandomChoiceWithMask(2)(np.array([False, True, True, True]))
    assert valid.tolist() == [True, True] and set(places.asnumpy().flat) <= {1, 2, 3}


WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: ops.Conv2D(5, 3)(IMAGE, KERNEL), ValueError, "Conv2D of 5 channels and kernels of size"),
    (lambda: ops.Conv2D(4, 3, mode=3)(IMAGE, KERNEL), ValueError, "'mode' of Conv2D is 1"),
    (lambda: ops.Conv2D(4, 3, data_format="HWC")(IMAGE, KERNEL), ValueError, "'NCHW' or 'NHWC'"),
    (lambda: ops.Conv2DTranspose(4, 3)(IMAGE, KERNEL, (3, 3)), TypeError, "the four sizes of the images"),
    (lambda: ops.DepthwiseConv2dNative(4, 3, mode=1)(IMAGE, KERNEL), ValueError, "'mode' of DepthwiseConv2dNative"),
    (lambda: ops.Conv3DTranspose(2, 3, 1)(np.ones((1, 2, 1, 1, 1), F32), np.ones((2, 2, 1, 1, 1), F32)), ValueError,
     "Conv3DTranspose to 3 channels"),
    (lambda: ops.LayerNorm()(X, W, np.ones(3, F32)), ValueError, "LayerNorm of .* takes gamma and beta"),
    (lambda: ops.Dropout(1.5)(X), ValueError, "'keep_prob' must be at least 0 and at most 1"),
    (lambda: ops.Dropout2D()(X), ValueError, "Dropout2D takes a tensor of 4 axes"),
    (lambda: ops.ResizeBilinearV2(True, True)(IMAGE, (3, 3)), ValueError, "not both"),
    (lambda: ops.ResizeNearestNeighborV2()(X, (3, 3)), ValueError, "images with pixels of rank 4"),
    (lambda: ops.ResizeLinear1D("nearest")(IMAGE[0], (3,)), ValueError, "'coordinate_transformation_mode' is"),
    (lambda: ops.InTopK(1)(X[0], LABELS), ValueError, "intopk"),
    (lambda: ops.SoftmaxCrossEntropyWithLogits()(X, X[:2]), ValueError, "in the shape of the predictions"),
    (lambda: ops.SparseSoftmaxCrossEntropyWithLogits()(X, np.zeros(3, F32)), TypeError, "int32 or int64 labels"),
    (lambda: ops.SegmentSum()(X, np.array([1, 0, 2])), ValueError, "rising integers of 0 or more"),
    (lambda: ops.ConfusionMatrix(3)(LABELS, COLUMNS[:2]), ValueError, "vectors of one size"),
    (lambda: ops.DropoutGenMask()((2, 3), 1.5), ValueError, "keep_prob"),
    (lambda: ops.DropoutDoMask()(X, np.ones(4, np.uint8), 0.5), ValueError, "a mask in the shape of x"),
    (lambda: ops.EqualCount()(X, X[:2]), ValueError, "tensors of one shape"),
    (lambda: ops.SplitV((1, 3), 1, 3)(X), ValueError, "SplitV takes 3 sizes"),
    (lambda: ops.DiagPart()(X), ValueError, "a shape of two equal halves"),
    (lambda: ops.FillDiagonal(1.0)(W), ValueError, "takes a matrix"),
    (lambda: ops.InvertPermutation()((0, 2)), ValueError, r"\(0, 2\) is not a permutation"),
    (lambda: ops.MaskedScatter()(X, X > 0, np.ones(12, int)), TypeError, "updates of the dtype"),
    (lambda: ops.NthElement()(X, 4), ValueError, "no element 4"),
    (lambda: ops.DataFormatDimMap("NHWC", "NCWW")(LABELS), ValueError, "orders of the letters NCHW"),
    (lambda: ops.CompareAndBitpack()(X, 0), ValueError, "a last axis of a multiple of 8"),
    (lambda: ops.Randperm(2)(3), ValueError, "room for 2 numbers"),
    (lambda: ops.TruncatedNormal(graphls.int32)((2,)), TypeError, "draws floating point numbers"),
    (lambda: ops.EmbeddingLookup()(X, X, 0), TypeError, "takes integers"),
    (lambda: ops.RGBToHSV()(X), ValueError, "three floats along the last axis"),
    (lambda: ops.ChannelShuffle(2)(IMAGE), ValueError, "channel_shuffle"),
    (lambda: ops.Dense()(X, drawn(2, 3)), ValueError, "dense"),
    (lambda: ops.Dense()(X, drawn(2, 4), W), ValueError, "bias of dense has the shape"),
    (lambda: ops.LSTM(3, 2, 1, True, False, 0.0, 4)(X, X, X, X), ValueError, "write such a layer as"),
    (lambda: ops.LSTM(3, 2, 1, True, False, 0.0)(IMAGE[0], X, X, X), ValueError, "takes 1 states of 2 numbers"),
    (lambda: ops.LSTM(3, 2, 1, True, False, 0.0)(drawn(4, 2, 3), drawn(1, 2, 2), drawn(1, 2, 2), X), ValueError,
     "weights and one bias or two"),
    (lambda: ops.MaxUnpool2D(2)(IMAGE, LABELS), ValueError, "takes indices of the shape"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError) and caught.value.location is not None


def test_every_operator_says_what_it_does() -> None:
    for name, operator in OPERATORS.items():
        text = operator.__doc__ or ""
        assert text.strip() and not text.startswith("\n\nWritten"), name
