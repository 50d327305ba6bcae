"""Layers as functions, boxes and unpooling against NumPy, with their gradients and wrong uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import ops
from tests.ops.agree import BACKENDS, agree
from tests.ops.slopes import assert_slopes

RNG = np.random.default_rng(8)
X = RNG.normal(size=(2, 3, 4, 6)).astype(np.float32)
TABLE = RNG.normal(size=(5, 3)).astype(np.float32)
IDS = np.array([[1, 4, 1], [0, 1, -1]])


def test_sampling_far_away_and_at_nan() -> None:
    grid = np.float32([[[[1e30, 0], [-1e30, 0], [np.nan, 0]]], [[[np.inf, 0], [-np.inf, np.nan], [0.2, 0.1]]]])
    image = np.ones((2, 1, 2, 2), np.float32)
    inside = np.array([[0, 0, 0], [0, 0, 1]]).reshape(2, 1, 1, 3)
    for mode in ("bilinear", "nearest"):
        agree(lambda x, g: ops.grid_sample(x, g, mode), inside, image, grid)  # noqa: B023
        agree(lambda x, g: ops.grid_sample(x, g, mode, "border"), np.ones((2, 1, 1, 3)), image, grid)  # noqa: B023
    agree(ops.grid_sample, np.zeros((2, 0, 1, 3)), image[:, :0], grid)


def test_affine_points_sample_the_image_itself() -> None:
    theta = np.tile(np.float32([[1, 0, 0], [0, 1, 0]]), (2, 1, 1))
    for aligned in (False, True):
        agree(
            lambda x, t: ops.grid_sample(x, ops.affine_grid(t, x.shape, aligned), align_corners=aligned),  # noqa: B023
            X, X, theta, rtol=1e-4, atol=1e-5,
        )  # fmt: skip


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_unpooling(axes: int) -> None:
    x = RNG.normal(size=(2, 3, *(4, 6, 4)[:axes])).astype(np.float32)
    pool, unpool = (getattr(ops, f"max_{name}{axes}d") for name in ("pool", "unpool"))
    values, places = (t.asnumpy() for t in pool(x, 2, return_indices=True))
    expected = np.where(np.isin(x, values), x, 0)
    agree(lambda v, p: unpool(v, p, 2), expected, values, places)
    agree(lambda v, p: unpool(v, p, 2, 0), expected, values, places.astype(np.int32))
    agree(lambda v, p: unpool(v[0], p[0], (2,) * axes, 2, 0), expected[0], values, places)
    half = values.astype(np.float16)
    agree(lambda v, p: unpool(v, p, 2), expected.astype(np.float16), half, places)
    agree(lambda v, p: unpool(v, p, 2), np.zeros((0, *x.shape[1:])), values[:0], places[:0])
    assert_slopes(lambda v: unpool(v, places, 2), values)
    larger = tuple(n + 1 for n in x.shape[2:])
    for size in (larger, (*x.shape[:2], *larger)):
        found = unpool(graphls.Tensor(values), graphls.Tensor(places), 2, output_size=size).asnumpy()
        flat = found.reshape(2, 3, -1)
        assert found.shape == (2, 3, *larger)
        np.testing.assert_array_equal(
            np.take_along_axis(flat, places.reshape(2, 3, -1), 2), values.reshape(2, 3, -1)
        )


def test_unpooled_windows_that_overlap() -> None:
    x = np.float32([[[1, 5, 2, 3]]])
    values, places = ops.max_pool1d(x, 2, 1, return_indices=True)
    agree(lambda v, p: ops.max_unpool1d(v, p, 2, 1), np.float32([[[0, 5, 0, 3]]]), values.asnumpy(), places.asnumpy())


def test_embedding() -> None:
    agree(ops.embedding, TABLE[IDS], IDS, TABLE)
    agree(ops.embedding, TABLE[:0].reshape(0, 3), IDS[0, :0], TABLE)
    agree(ops.embedding, TABLE.astype(np.float16)[IDS], IDS.astype(np.int32), TABLE.astype(np.float16))
    cotangent = RNG.normal(size=(2, 3, 3)).astype(np.float32)

    def gradient(**options: Any) -> Any:
        found = ops.grad(lambda w: ops.sum(ops.embedding(IDS, w, **options) * cotangent))(graphls.Tensor(TABLE))
        return found.asnumpy()

    plain = np.zeros_like(TABLE)
    np.add.at(plain, IDS, cotangent)
    np.testing.assert_allclose(gradient(), plain, rtol=1e-5)
    for row in (1, -4):
        np.testing.assert_allclose(gradient(padding_idx=row), plain * (np.arange(5) != 1)[:, None], rtol=1e-5)
    counts = np.maximum(np.bincount(IDS.reshape(-1) % 5, minlength=5), 1)[:, None]
    np.testing.assert_allclose(gradient(scale_grad_by_freq=True), plain / counts, rtol=1e-5)
    np.testing.assert_allclose(gradient(max_norm=0.5), plain, rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_of_an_embedding_are_limited_where_they_stand(backend: str) -> None:
    weight = graphls.Parameter(TABLE, name="weight")
    ids = np.array([1, 3])

    def step(ids: Any) -> Any:
        return ops.embedding(ids, weight, max_norm=0.5, norm_type=1.0)

    norms = np.abs(TABLE).sum(1, keepdims=True)
    limited = np.where(norms > 0.5, TABLE * 0.5 / (norms + 1e-7), TABLE)
    found = graphls.compile(step, ids, backend=backend)(ids)
    np.testing.assert_allclose(found.asnumpy(), limited[ids], rtol=1e-5)
    np.testing.assert_allclose(weight.asnumpy()[ids], limited[ids], rtol=1e-5)
    np.testing.assert_array_equal(weight.asnumpy()[[0, 2, 4]], TABLE[[0, 2, 4]])


def test_gates_and_ranks() -> None:
    for x in (X, X.astype(np.float16)):
        wide = x.astype(np.float64)
        for axis in (-1, 2, 0):
            a, b = np.split(wide, 2, axis)
            agree(lambda x: ops.swiglu(x, axis), a / (1 + np.exp(-a)) * b, x, rtol=2e-3, atol=2e-3)  # noqa: B023
    assert_slopes(ops.swiglu, X)
    agree(ops.soft_shrink, np.sign(X) * np.maximum(np.abs(X) - 0.5, 0), X)
    agree(lambda x: ops.upsample(x, scale_factor=2.0), X.repeat(2, -1).repeat(2, -2), X)
    scores = np.float32([[1, 8, 5, 2, 7], [4, 9, 1, 3, 5], [1, 1, 1, 0, 0], [0, np.nan, 0, 0, 0]])
    agree(lambda x, y: ops.intopk(x, y, 3), np.array([True, False, True, False]), scores, np.array([2, 3, 1, 1]))


def test_normalised_sums() -> None:
    a, b, gamma, beta = X, RNG.normal(size=X.shape).astype(np.float32), X[0, 0, 0], X[1, 1, 1]
    x = a.astype(np.float64) + b
    inverse = 1 / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
    agree(ops.add_rms_norm, (x * inverse * gamma, inverse, x), a, b, gamma, rtol=1e-5, atol=1e-5)
    mean, deviation = x.mean(-1, keepdims=True), np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    expected = ((x - mean) / deviation * gamma + beta, mean, 1 / deviation, x)
    agree(ops.add_layer_norm, expected, a, b, gamma, beta, rtol=1e-5, atol=1e-5)
    half = ops.add_layer_norm(*(graphls.Tensor(t.astype(np.float16)) for t in (a, b, gamma, beta)))
    assert [t.dtype for t in half] == [graphls.float16, graphls.float32, graphls.float32, graphls.float16]
    assert_slopes(lambda *x: ops.add_rms_norm(*x)[::2], a, b, gamma)
    assert_slopes(lambda *x: ops.add_layer_norm(*x)[::3], a, b, gamma, beta)


def test_statistics_beside_a_normalised_tensor_give_no_gradient() -> None:
    """MindSpore's rule, by whose numbers P.LayerNorm(1, 1) has these gradients, whether all outputs count or one."""
    x = graphls.Tensor(np.array([[1.0, 2.0, 4.0, 0.5], [0.0, 3.0, -1.0, 2.0]], np.float32))
    gamma, beta = graphls.Tensor(np.float32([1, 2, 3, 4])), graphls.Tensor(np.zeros(4, np.float32))
    for norm in (ops.LayerNorm(1, 1), lambda *a: ops.LayerNorm(1, 1)(*a)[0]):
        by_x, by_gamma, by_beta = ops.GradOperation(get_all=True)(norm)(x, gamma, beta)
        np.testing.assert_allclose(by_x.asnumpy()[0, :3], [-1.0963, -0.3762, 0.3179], atol=1e-4)
        np.testing.assert_allclose(by_gamma.asnumpy()[:3], [-1.2852, 1.3582, 0.3203], atol=1e-4)
        np.testing.assert_array_equal(by_beta.asnumpy(), [2, 2, 2, 2])


def test_positions_by_rotation() -> None:
    angle = RNG.normal(size=(1, 1, 4, 3))
    for mode, both in ((0, np.concatenate((angle, angle), -1)), (1, angle.repeat(2, -1))):
        first, second = (X[..., :3], X[..., 3:]) if mode == 0 else (X[..., ::2], X[..., 1::2])
        turned = (first + 1j * second) * np.exp(1j * angle)
        parts = (turned.real, turned.imag)
        expected = np.concatenate(parts, -1) if mode == 0 else np.stack(parts, -1).reshape(X.shape)
        waves = np.cos(both).astype(np.float32), np.sin(both).astype(np.float32)
        agree(lambda x, c, s: ops.rotary_position_embedding(x, c, s, mode), expected, X, *waves, rtol=1e-4, atol=1e-5)  # noqa: B023
        assert_slopes(lambda x, c, s: ops.rotary_position_embedding(x, c, s, mode), X, *waves)  # noqa: B023


ANCHORS = np.float32([[4, 1, 2, 1], [2, 2, 2, 3]])


def test_codes_of_boxes() -> None:
    """The numbers are those of MindSpore's documents."""
    deltas = np.float32([[3, 1, 2, 2], [1, 2, 1, 4]])
    decoded = np.float32([[4.1953125, 0, 0, 5.1953125], [2.140625, 0, 3.859375, 60.59375]])
    agree(lambda a, d: ops.bounding_box_decode(a, d, (768, 1280)), decoded, ANCHORS, deltas, rtol=3e-3)
    anchors, boxes = np.float32([[2, 2, 2, 3]] * 2), np.float32([[1, 2, 1, 4]] * 2)
    codes = np.float32([[-1, 0.25, 0, 0.40551758]] * 2)
    agree(ops.bounding_box_encode, codes, anchors, boxes, rtol=3e-4)


def test_codes_of_boxes_are_undone() -> None:
    corner = RNG.uniform(10, 40, (6, 2))
    anchors, boxes = (np.concatenate((corner, corner + RNG.uniform(5, 20, (6, 2))), 1) for _ in range(2))
    settings: dict[str, Any] = {"means": (0.1, -0.2, 0.3, 0.0), "stds": (0.1, 0.2, 0.5, 2.0)}

    def twice(a: Any, b: Any) -> Any:
        return ops.bounding_box_decode(a, ops.bounding_box_encode(a, b, **settings), (100, 100), **settings)

    agree(twice, boxes, anchors, boxes, rtol=1e-9)
    agree(twice, boxes, anchors.astype(np.float32), boxes.astype(np.float32), rtol=1e-5)
    assert_slopes(lambda a, b: ops.bounding_box_encode(a, b, **settings), anchors, boxes)
    assert_slopes(lambda a, d: ops.bounding_box_decode(a, d, (100, 100)), anchors, boxes * 0.01)
    agree(ops.bounding_box_encode, np.zeros((0, 4)), anchors[:0], boxes[:0])


def test_boxes_inside() -> None:
    boxes = np.float32([[0, 0, 9, 19], [0, 0, 9.5, 19], [-1, 0, 3, 3], [2, -0.5, 3, 3], [1, 1, 2, 19.5], [1, 1, 2, 3]])
    inside = np.array([True, False, False, False, False, True])
    for dtype in (np.float32, np.float16):
        agree(ops.check_valid, inside, boxes.astype(dtype), np.array([10, 5, 2], dtype))


def cropped(image: Any, boxes: Any, numbers: Any, sizes: Any, nearest: bool, outside: float) -> Any:
    """One pixel of a crop after the other."""
    height, width = image.shape[1:3]
    y = np.full((len(boxes), *sizes, image.shape[3]), outside)
    for n, (y0, x0, y1, x1) in enumerate(boxes.astype(np.float64)):
        for i, j in np.ndindex(*sizes):
            shares = [0.5 if count == 1 else k / (count - 1) for k, count in ((i, sizes[0]), (j, sizes[1]))]
            row, column = (y0 + shares[0] * (y1 - y0)) * (height - 1), (x0 + shares[1] * (x1 - x0)) * (width - 1)
            if not (0 <= row <= height - 1 and 0 <= column <= width - 1):
                continue
            if nearest:
                y[n, i, j] = image[numbers[n], int(row + 0.5), int(column + 0.5)]
                continue
            for a in (0, 1):
                for b in (0, 1):
                    p, q = min(int(row) + a, height - 1), min(int(column) + b, width - 1)
                    part = (row % 1 if a else 1 - row % 1) * (column % 1 if b else 1 - column % 1)
                    y[n, i, j] = (0 if a == b == 0 else y[n, i, j]) + part * image[numbers[n], p, q]
    return y


BOXES = np.float32([[0, 0, 1, 1], [0.2, 0.73, 0.9, 0.1], [-0.3, 0.1, 0.6, 1.4], [0.5, 0.5, 0.5, 0.5]])


@pytest.mark.parametrize("method", ["bilinear", "nearest"])
@pytest.mark.parametrize("sizes", [(3, 4), (1, 5), (6, 1)])
def test_crops(method: str, sizes: Any) -> None:
    numbers = np.int32([1, 0, 1, 0])
    expected = cropped(X, BOXES, numbers, sizes, method == "nearest", -2.0)
    agree(lambda x, b, n: ops.crop_and_resize(x, b, n, sizes, method, -2.0), expected, X, BOXES, numbers, rtol=1e-4, atol=1e-5)  # noqa: E501
    if method == "bilinear":
        double = X.astype(np.float64) + 0
        found = ops.grad(lambda x: ops.sum(ops.crop_and_resize(x, BOXES, numbers, sizes) ** 2))(graphls.Tensor(X))
        direction = RNG.normal(size=X.shape)
        high, low = (
            (cropped(double + h * direction, BOXES, numbers, sizes, False, 0.0) ** 2).sum() for h in (1e-6, -1e-6)
        )
        assert (found.asnumpy() * direction).sum() == pytest.approx((high - low) / 2e-6, rel=1e-4)


WRONG: list[Any] = [
    (lambda x: ops.grid_sample(x, x), ValueError, "cannot sample"),
    (lambda x: ops.grid_sample(x, ops.zeros((2, 1, 1, 2)), "bicubic"), ValueError, "not 'bicubic'"),
    (lambda x: ops.grid_sample(x, ops.zeros((2, 1, 1, 2)), padding_mode="wrap"), ValueError, "not 'wrap'"),
    (lambda x: ops.grid_sample(x, ops.zeros((2, 1, 1, 2)), align_corners=1), TypeError, "a bool or None"),
    (lambda x: ops.grid_sample(x[:, :, :0], ops.zeros((2, 1, 1, 2))), ValueError, "images with elements"),
    (lambda x: ops.affine_grid(ops.zeros((2, 2, 3)), (3, 1, 4, 4)), ValueError, "cannot map points"),
    (lambda x: ops.max_unpool2d(x, x, 2), TypeError, "int32 or int64 indices"),
    (lambda x: ops.max_unpool2d(x, ops.zeros((2, 3), graphls.int64), 2), ValueError, "takes indices of the shape"),
    (lambda x: ops.max_unpool2d(x, ops.full(x.shape, 99), 2), IndexError, "99 is out of range"),
    (lambda x: ops.max_unpool2d(x, ops.zeros_like(x, dtype=graphls.int64), 2, output_size=(8, 20)), ValueError, "others a stride away"),  # noqa: E501
    (lambda x: ops.max_unpool2d(x, ops.zeros_like(x, dtype=graphls.int64), 2, padding=-1), ValueError, "0 or more"),
    (lambda x: ops.max_unpool2d(x, ops.zeros_like(x, dtype=graphls.int64), 2, padding="x"), TypeError, "one integer or two"),  # noqa: E501
    (lambda x: ops.dense(x, x), ValueError, "cannot apply a weight"),
    (lambda x: ops.dense(x, ops.ones((5, 6)), ops.ones(6)), ValueError, r"bias of dense has the shape \(5,\)"),
    (lambda x: ops.bidense(x, x, ops.ones((2, 5, 6))), ValueError, "cannot apply a weight"),
    (lambda x: ops.embedding(x, TABLE), TypeError, "takes integers"),
    (lambda x: ops.embedding(IDS, x), ValueError, "takes a matrix"),
    (lambda x: ops.embedding(IDS, TABLE, 5), IndexError, "5 is out of range for 5 rows"),
    (lambda x: ops.embedding(IDS, TABLE, max_norm=0.0), ValueError, "'max_norm' must be greater than 0"),
    (lambda x: ops.swiglu(x, 1), ValueError, "cannot halve the axis 1"),
    (lambda x: ops.intopk(x[0, 0], x[0, 0, :, 0], 2), TypeError, "integers as labels"),
    (lambda x: ops.intopk(x, IDS, 2), ValueError, r"scores \(N, C\)"),
    (lambda x: ops.channel_shuffle(x, 2), ValueError, "cannot make 2 groups"),
    (lambda x: ops.add_rms_norm(x, x[0], x[0, 0, 0]), ValueError, "adds tensors of one shape"),
    (lambda x: ops.add_layer_norm(x, x, x, x), ValueError, "gamma and beta of the last axis"),
    (lambda x: ops.rotary_position_embedding(x, x, x, 2), ValueError, "the mode 0 or 1"),
    (lambda x: ops.rotary_position_embedding(x[0], x, x), ValueError, "do not broadcast"),
    (lambda x: ops.bounding_box_encode(x, x), ValueError, r"boxes \(N, 4\) of one shape"),
    (lambda x: ops.bounding_box_encode(ANCHORS, ANCHORS, 1.0), TypeError, "'means' must be a tuple of 4"),
    (lambda x: ops.bounding_box_decode(ANCHORS, ANCHORS, (5,)), TypeError, "'max_shape' must be a tuple of 2"),
    (lambda x: ops.bounding_box_decode(ANCHORS, ANCHORS, (5, 5), wh_ratio_clip=0.0), ValueError, "is above 0"),
    (lambda x: ops.check_valid(ANCHORS, x), ValueError, "and three numbers"),
    (lambda x: ops.crop_and_resize(x, BOXES, [0, 1, 2, 0], (2, 2)), IndexError, "2 is out of range"),
    (lambda x: ops.crop_and_resize(x, BOXES, [0, 1, 1, 0], (2, 2), "cubic"), ValueError, "not 'cubic'"),
    (lambda x: ops.crop_and_resize(x, BOXES, [0, 1, 1], (2, 2)), ValueError, "cannot make crops"),
    (lambda x: ops.crop_and_resize(x, BOXES, BOXES[:, 0], (2, 2)), TypeError, "int32 or int64 indices"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function(graphls.Tensor(X))
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_layer_functions.py")
