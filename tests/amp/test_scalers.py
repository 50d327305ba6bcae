"""The functional scalers and all_finite, in compiled functions and at once."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphls
from graphls import amp, nn, ops
from graphls.ir.errors import GraphTypeError, GraphValueError

BACKENDS = ["numpy", "onnxruntime"]
HALVES = [graphls.float16, graphls.bfloat16]
F32 = np.float32


@pytest.mark.parametrize("dtype", [*HALVES, graphls.float32, graphls.float64])
def test_scale_and_unscale_keep_dtypes_and_nests(dtype: Any) -> None:
    scaler = amp.StaticLossScaler(8)
    x, y = graphls.Tensor([1.0, -2.5], dtype), graphls.Tensor(3.0, dtype)
    scaled = scaler.scale((x, [y]))
    assert [scaled[0].tolist(), scaled[1][0].tolist()] == [[8, -20], 24]
    assert {t.dtype for t in (scaled[0], scaled[1][0])} == {dtype}
    back = scaler.unscale(scaled)
    assert [back[0].tolist(), back[1][0].tolist()] == [[1, -2.5], 3]
    assert {t.dtype for t in (back[0], back[1][0])} == {dtype} and back[0].shape == (2,)
    assert scaler.adjust(True) is False and float(scaler.scale_value) == 8


def test_a_large_scale_is_not_lost_before_it_is_used() -> None:
    scaler = amp.StaticLossScaler(2.0**26)
    found = scaler.unscale(graphls.Tensor([2.0**15], graphls.float16))
    assert found.tolist() == [2.0**-11]
    assert scaler.scale(graphls.Tensor([1.0], graphls.float16)).tolist() == [np.inf]


def test_the_state_of_scalers() -> None:
    scaler = amp.DynamicLossScaler(16, 2, 3)
    states = [(p.name, p.dtype, p.shape, p.requires_grad) for p in (scaler.scale_value, scaler.counter)]
    assert states == [("scale_value", graphls.float32, (), False), ("counter", graphls.int32, (), False)]
    assert isinstance(scaler, amp.LossScaler)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: amp.StaticLossScaler("a"), GraphTypeError,  # type: ignore[arg-type]
         r"The type of 'scale_value' should be one of '\['float','int'\]', but got type 'str'."),
        (lambda: amp.StaticLossScaler(0.5), GraphValueError, "The argument 'scale_value' must be > 1, but got 0.5"),
        (lambda: amp.DynamicLossScaler(0, 2, 3), GraphValueError, "The argument 'scale_value' must be > 1"),
        (lambda: amp.DynamicLossScaler(16, 0, 3), GraphValueError, "'scale_factor' must be int and must > 0"),
        (lambda: amp.DynamicLossScaler(16, 2, 0), GraphValueError, "'scale_window' must be int and must > 0"),
        (lambda: amp.DynamicLossScaler(16, 2, 2.5), GraphTypeError, "'scale_window' must be int"),  # type: ignore
        (lambda: amp.LossScaler(), TypeError, "abstract"),  # type: ignore[abstract]
        (lambda: amp.all_finite(graphls.Tensor(1.0)), GraphTypeError, "takes a tuple or list of tensors"),
        (lambda: amp.all_finite([1.0]), GraphTypeError, "takes tensors in a tuple or list"),
        (lambda: amp.all_finite(()), GraphValueError, "one tensor or more"),
    ],
)  # fmt: skip
def test_wrong_arguments(make: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        make()


REFERENCE = [(16, 1), (16, 2), (32, 0), (32, 1), (16, 0), (16, 1), (16, 2), (32, 0)]


def test_the_reference_sequence_at_once() -> None:
    scaler, found = amp.DynamicLossScaler(16, 2, 3), []
    for finite in (1, 1, 1, 1, 0, 1, 1, 1):
        assert scaler.adjust(graphls.Tensor(bool(finite))) is True
        found.append((float(scaler.scale_value), int(scaler.counter)))
    assert found == REFERENCE


def model(scale: float, factor: int, window: int, finites: list[bool]) -> list[tuple[float, int]]:
    """The rule in plain Python."""
    found, good = [], 0
    for finite in finites:
        if not finite:
            scale, good = max(scale / factor, 1.0), 0
        else:
            good += 1
            if good == window:
                good = 0
                scale = scale * factor if scale * factor < 2.0**128 else scale
        found.append((scale, good))
    return found


@cache
def adjusting(rule: tuple[Any, int, int], backend: str) -> tuple[amp.DynamicLossScaler, Any]:
    scaler = amp.DynamicLossScaler(*rule)

    def adjust(finite: Any) -> Any:
        assert scaler.adjust(finite) is True
        return scaler.scale_value

    return scaler, graphls.compile(adjust, np.zeros((), bool), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=60)
@given(
    st.lists(st.sampled_from([True, True, True, False]), max_size=60),
    st.sampled_from([(16.0, 2, 3), (1.0, 2, 1), (2.0**125, 4, 2), (2.0**127, 2, 1), (100.0, 10, 2)]),
)
def test_adjust(backend: str, finites: list[bool], rule: tuple[Any, int, int]) -> None:
    scaler, step = adjusting(rule, backend)
    scaler.scale_value.set_data(rule[0])
    scaler.counter.set_data(0)
    found = [(float(step(np.array(f))), int(scaler.counter)) for f in finites]
    expected = model(*rule, finites)
    np.testing.assert_allclose([s for s, _ in found], [s for s, _ in expected], rtol=1e-5)
    assert [c for _, c in found] == [c for _, c in expected]


@pytest.mark.parametrize("dtype", [*HALVES, graphls.float32, graphls.float64])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_all_finite_at_once_and_compiled(dtype: Any, bad: float) -> None:
    good = graphls.Tensor(np.arange(6).reshape(2, 3), dtype)
    fine = [good, (good, graphls.Tensor([1, 2]))]
    wrong = [good, (graphls.Tensor([1.0, bad], dtype), graphls.Tensor(True))]
    steps = [amp.all_finite, *(compiled_like(wrong, b) for b in BACKENDS)]
    for finite in steps:
        assert bool(finite(wrong)) is False
        assert finite(wrong).shape == () and finite(wrong).dtype is graphls.bool_
    for finite in (amp.all_finite, *(compiled_like(fine, b) for b in BACKENDS)):
        assert bool(finite(fine)) is True


def compiled_like(tensors: Any, backend: str) -> Any:
    return graphls.compile(amp.all_finite, tensors, backend=backend)


def test_all_finite_of_integers_and_of_large_floats() -> None:
    assert bool(amp.all_finite([graphls.Tensor([1, 2])]))
    large = [np.full((4,), 3e38, F32)]
    assert bool(amp.all_finite(large)) and all(bool(compiled_like(large, b)(large)) for b in BACKENDS)


class Net(nn.Cell):
    def __init__(self, dtype: Any) -> None:
        super().__init__()
        self.fc = nn.Dense(4, 3, weight_init="ones", bias_init="zeros").to_float(dtype)

    def construct(self, x: Any, y: Any) -> Any:
        return ops.mean(ops.square(ops.cast(self.fc(x), graphls.float32) - y))


def function_step(net: nn.Cell, optimizer: nn.Cell, scaler: Any) -> Any:
    """A training step as a function: scale the loss, unscale the gradients, update where they are finite."""

    def forward(x: Any, y: Any) -> Any:
        return scaler.scale(net(x, y))

    gradients_of = graphls.value_and_grad(forward, None, optimizer.parameters)

    def step(x: Any, y: Any) -> Any:
        loss, gradients = gradients_of(x, y)
        loss, gradients = scaler.unscale(loss), scaler.unscale(gradients)
        finite = amp.all_finite(gradients)
        if finite:
            loss = ops.depend(loss, optimizer(gradients))
        scaler.adjust(finite)
        return loss, finite

    return step


@pytest.mark.parametrize("mode", ["outputs", "window"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", HALVES)
def test_a_training_step_written_as_a_function(backend: str, dtype: Any, mode: str) -> None:
    net = Net(dtype)
    optimizer = nn.Momentum(net.trainable_params(), 0.125, 0.5)
    scaler = amp.DynamicLossScaler(2.0**10, 2, 3)
    x, y = np.ones((2, 4), F32), np.zeros((2, 3), F32)
    step = graphls.compile(function_step(net, optimizer, scaler), x, y, backend=backend, overflow_mode=mode)
    weight, moment, expected = 1.0, 0.0, model(2.0**10, 2, 3, [True, False, True, True, True])
    for number, (scale, good) in enumerate(expected):
        bad = number == 1
        loss, finite = step(np.full_like(x, np.inf) if bad else x, y)
        assert bool(finite) is not bad
        assert (float(scaler.scale_value), int(scaler.counter)) == (scale, good)
        if not bad:
            # y = 4 w + b with w = 1 - d, b = -d, for the sum d of all updates, exact in halves at first
            prediction = 4 * weight + (weight - 1)
            np.testing.assert_allclose(float(loss), prediction**2, rtol=2e-2)
            moment = 0.5 * moment + 2 * prediction / 3
            weight -= 0.125 * moment
        np.testing.assert_allclose(net.fc.weight.asnumpy(), weight, rtol=0.05, atol=0.02)
    assert sum(n.primitive.name == "overflow_start" for n in step.graph.nodes) == 1
