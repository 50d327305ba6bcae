"""What overflowed, where, in which phase, and which scale would have fitted."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import amp, nn, ops
from graphls.ir.errors import GraphTypeError, GraphValueError
from tests.diagnosis.networks import (
    BACKENDS,
    F32,
    MODES,
    Net,
    X,
    Y,
    identity,
    scaled_cell,
    scaled_step,
    skips_at,
    state_bytes,
)


def line_of(function: Any, text: str) -> int:
    """The line of this file on which a function says something."""
    lines, start = inspect.getsourcelines(function)
    return start + next(i for i, line in enumerate(lines) if text in line)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backward_that_fits_at_a_lower_scale(backend: str, mode: str) -> None:
    """The loss is mean((4 w)^2) of 6 elements: the gradient of the float16 product is 8 / 6 times the scale."""
    step = scaled_step(identity, backend, mode)
    assert bool(step(X, Y)[1])
    found = step.explain_overflow(X, Y)
    assert (found.overflowed, found.skipped, found.phase, found.depends_on_scale) == (True, True, "backward", True)
    assert found.scale == found.present_scale == 2.0**23
    assert found.fitting_scale == 2.0**14  # the gradient of a weight is twice 8 / 6 times the scale: 2^15 gives 87381
    assert found.first is not None and found.first.primitive == "cast"
    assert found.first.cell == "network._backbone"
    assert found.first.range.infinite == 6 and found.first.range.nan == 0
    (operand,) = found.first.operands
    assert operand.type == "f32[2,3]" and operand.range is not None
    assert operand.range.least == operand.range.greatest == pytest.approx(2.0**23 * 8 / 6, rel=1e-6)
    assert not skips_at(step, found.fitting_scale, X, Y)
    assert skips_at(step, 2 * found.fitting_scale, X, Y)


class Deep(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Dense(4, 8, weight_init="ones", has_bias=False)
        self.block = nn.SequentialCell(nn.Dense(8, 3, weight_init="ones", has_bias=False))
        self.to_float(graphls.float16)

    def construct(self, x: Any) -> Any:
        x = self.fc1(x)
        x = ops.exp(x)
        x = self.block(x)
        return ops.cast(x, graphls.float32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_forward_that_overflows(backend: str) -> None:
    step = graphls.compile(scaled_cell(Deep()), X, Y, backend=backend)
    x = 5 * X
    step(x, Y)
    found = step.explain_overflow(x, Y)
    assert (found.skipped, found.phase, found.depends_on_scale, found.fitting_scale) == (True, "forward", False, None)
    first = found.first
    assert first is not None and (first.primitive, first.cell) == ("exp", "network._backbone")
    assert Path(first.file).name == Path(__file__).name
    assert first.line == line_of(Deep.construct, "ops.exp") and first.code == "x = ops.exp(x)"
    assert first.type == "f16[2,8]" and first.range.infinite == 16 and first.range.largest is None
    (operand,) = first.operands
    assert operand.range is not None and (operand.range.least, operand.range.largest) == (20.0, 20.0)
    assert "no scale can help" in str(found) and "x = ops.exp(x)" in str(found)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_innermost_cell_is_named(backend: str) -> None:
    step = graphls.compile(scaled_cell(Deep()), X, Y, backend=backend)
    x = np.full((2, 4), 2.6, F32)  # exp(10.4) is 32860, and eight of those are beyond float16
    found = step.explain_overflow(x, Y)
    assert found.first is not None
    assert (found.first.primitive, found.first.cell) == ("matmul", "network._backbone.block.0")
    assert found.first.line == line_of(Deep.construct, "self.block(x)")
    assert [o.name[0] for o in found.first.operands] == ["%", "%"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_input_that_is_infinite_comes_first(backend: str) -> None:
    step = scaled_step(identity, backend, scale=4.0)
    x = X.copy()
    x[1, 2], x[0, 0] = np.inf, np.nan
    step(x, Y)
    found = step.explain_overflow(x, Y)
    (source,) = found.sources
    assert (source.kind, source.reaches, source.range.infinite, source.range.nan) == ("input", True, 1, 1)
    assert str(found).splitlines()[0] == (
        "The input 'inputs_0' holds 1 infinite and 1 nan of 8 elements before the step begins."
    )
    assert found.first is not None and found.first.phase == "forward"
    assert "No scale can help while 'inputs_0' is not finite" in str(found)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_parameter_that_is_nan_comes_first(backend: str) -> None:
    step = scaled_step(identity, backend, scale=4.0)
    weight = step.parameters["weight"].asnumpy()
    weight[0, 1] = np.nan
    step.parameters["weight"].set_data(weight)
    found = step.explain_overflow(X, Y)
    assert [(s.kind, s.name, s.reaches, s.range.nan) for s in found.sources] == [("parameter", "weight", True, 1)]
    assert found.first is not None and found.first.operands[0].name == "@weight"
    assert (found.values, found.elements) > (0, 0)


class Normed(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(4, 3, weight_init="ones")
        self.norm = nn.BatchNorm1d(3)

    def construct(self, x: Any) -> Any:
        return self.norm(self.fc(x))


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_an_earlier_overflow_left_behind_is_no_cause(backend: str) -> None:
    """Moving averages take in an infinite batch, and a later batch does not read them."""
    step = graphls.compile(scaled_cell(Normed(), 4.0).set_train(), X, Y, backend=backend)
    step(np.full_like(X, np.inf), Y)
    assert not np.isfinite(step.parameters["norm.moving_mean"].asnumpy()).any()
    x = np.arange(8, dtype=F32).reshape(2, 4)
    found = step.explain_overflow(x, Y)
    left = {s.name: s.reaches for s in found.sources}
    assert left["norm.moving_mean"] is True and found.first is not None and found.first.phase != "backward"
    assert not found.skipped and "the step is not skipped" in str(found)
    bad = np.full_like(X, 3e38)
    again = step.explain_overflow(bad, Y)
    assert again.skipped and {s.name: s.reaches for s in again.sources}["norm.moving_mean"] is False
    assert "the overflow does not come from it" in str(again)


def branching(x: Any) -> Any:
    if ops.sum(x) > 0:
        return ops.exp(x)
    return ops.exp(ops.mul(x, 1000.0))


@pytest.mark.parametrize("backend", BACKENDS)
def test_values_inside_of_branches_are_watched(backend: str) -> None:
    step = scaled_step(branching, backend, scale=4.0)
    found = step.explain_overflow(5 * X, Y)
    assert found.first is not None and (found.first.primitive, found.first.phase) == ("exp", "forward")
    assert found.first.line == line_of(branching, "return ops.exp(x)")
    assert found.first.operands[0].range is not None and found.first.operands[0].range.largest == 20
    other = step.explain_overflow(-X, Y)
    assert not other.overflowed and other.first is None  # exp(-4000) is 0; the other branch does not run


def nested(x: Any) -> Any:
    if ops.sum(x) > 0:
        if ops.sum(x) > 100:
            return ops.exp(x)
        return ops.square(x)
    return x


@pytest.mark.parametrize("backend", BACKENDS)
def test_branches_in_branches(backend: str) -> None:
    step = scaled_step(nested, backend, scale=4.0)
    found = step.explain_overflow(5 * X, Y)  # the sum is 120, and exp(20) too much
    assert found.first is not None and found.first.line == line_of(nested, "ops.exp(x)")
    for x in (X, -5 * X):
        assert not step.explain_overflow(x, Y).overflowed


def masked(x: Any) -> Any:
    return ops.softmax(ops.add(x, graphls.Tensor(np.array([0, 0, -np.inf], np.float16))), -1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_infinity_that_goes_no_further_is_not_the_cause(backend: str) -> None:
    step = scaled_step(masked, backend, scale=4.0)
    assert not bool(step(X, Y)[1])
    assert not step.explain_overflow(X, Y).overflowed
    step.parameters["scale_sense"].set_data(np.array(2.0**22, F32))
    found = step.explain_overflow(X, Y)
    assert found.phase == "backward" and found.first is not None and found.first.primitive == "cast"


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_overflows(backend: str) -> None:
    step = scaled_step(identity, backend, scale=4.0)
    step(X, Y)
    found = step.explain_overflow(X, Y)
    assert not found.overflowed and not found.skipped and found.first is None and found.scale == 4
    assert str(found) == "Nothing that the step checks, returns or writes is infinite or nan at the scale 2^2."


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_infinity_that_ends_as_a_zero(backend: str) -> None:
    def normalised(x: Any) -> Any:
        return x / ops.sqrt(ops.square(x * 1e3).mean())

    step = scaled_step(normalised, backend, scale=4.0)
    step(X, Y)
    found = step.explain_overflow(X, Y)
    assert not found.overflowed and found.first is None and found.unseen is not None
    assert (found.unseen.primitive, found.unseen.phase) == ("square", "forward")
    assert "at the scale 2^2; %square is, from square in network" in found.summary
    assert found.summary.endswith(", and goes no further.")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_at_the_limit_that_was_not_skipped(backend: str) -> None:
    """The counters of the update cell say that the scale was not lowered, so that no other scale is in question."""
    step = scaled_step(identity, backend, scale=2.0**14)
    x = 0.9 * X
    assert not bool(step(x, Y)[1]) and skips_at(step, 2.0**15, X, Y)
    step = scaled_step(identity, backend, scale=2.0**14)
    assert not bool(step(x, Y)[1])
    assert not step.explain_overflow(x, Y).overflowed


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_scale_that_a_manager_outside_has_lowered(backend: str) -> None:
    step = scaled_step(identity, backend, manager=graphls.Tensor(2.0**15))
    assert bool(step(X, Y)[1])
    step.parameters["scale_sense"].set_data(np.array(2.0**14, F32))
    found = step.explain_overflow(X, Y)
    assert (found.overflowed, found.scale, found.present_scale) == (True, 2.0**15, 2.0**14)


@pytest.mark.parametrize("factor", [2, 4])
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_scale_before_it_was_lowered(backend: str, factor: int) -> None:
    """The last skipped step leaves a scale that fits; the one before is known by the rule of the update cell."""
    step = scaled_step(identity, backend, manager=nn.DynamicLossScaleUpdateCell(2.0**15, factor, 100))
    assert bool(step(X, Y)[1])
    found = step.explain_overflow(X, Y)
    assert found.overflowed and found.phase == "backward"
    assert (found.scale, found.present_scale, found.fitting_scale) == (2.0**15, 2.0**15 / factor, 2.0**14)
    assert "which the rule of the step lowers to it" in str(found)


class LeNet(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.pool = nn.MaxPool2d(2, 2)
        self.drop = nn.Dropout(p=0.5)
        self.flatten = nn.Flatten()
        self.fc = nn.Dense(64, 3)
        self.to_float(graphls.float16)

    def construct(self, x: Any) -> Any:
        return ops.cast(self.fc(self.drop(self.flatten(self.pool(ops.relu(self.conv(x)))))), graphls.float32)


IMAGES = np.random.default_rng(0).normal(size=(2, 1, 8, 8)).astype(F32)


def convolutional(backend: str) -> Any:
    graphls.set_seed(3)
    return graphls.compile(scaled_cell(LeNet()).set_train(), IMAGES, Y, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_state_changes(backend: str) -> None:
    """Weights, moments, scale, counters and random numbers go on as if nobody had asked."""
    results = []
    for asks in (False, True):
        step = convolutional(backend)
        losses = []
        for _ in range(14):
            losses.append([t.asnumpy().tobytes() for t in step(IMAGES, Y)])
            if asks:
                before = state_bytes(step)
                step.explain_overflow(IMAGES, Y)
                step.explain_overflow(np.full_like(IMAGES, np.inf), Y)
                step.gradient_ranges(IMAGES, Y)
                assert state_bytes(step) == before
        results.append((losses, state_bytes(step)))
    assert results[0] == results[1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_random_numbers_are_those_of_the_step_that_ran(backend: str) -> None:
    step = convolutional(backend)
    losses = {}
    for number in range(3):
        loss = step(IMAGES, Y)[0].item()
        watched = step._diagnose().watched
        (seen,) = {watched.run([IMAGES, Y])[watched.returned[0]].largest}
        assert seen == pytest.approx(loss, rel=1e-3)
        losses[number] = loss
    assert len(set(losses.values())) == 3  # the masks differ, and the weights do not yet


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_convolutional_network(backend: str) -> None:
    step = convolutional(backend)
    assert bool(step(IMAGES, Y)[1])
    found = step.explain_overflow(IMAGES, Y)
    assert found.phase == "backward" and found.skipped and found.fitting_scale is not None
    assert found.values < found.all_values and 0 < found.elements < found.all_elements
    step = convolutional(backend)
    step(np.full_like(IMAGES, 1e5), Y)  # beyond float16 from the first cast on
    found = step.explain_overflow(np.full_like(IMAGES, 1e5), Y)
    assert found.first is not None and (found.first.primitive, found.phase) == ("cast", "forward")
    assert found.sources == ()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [graphls.bfloat16, None])
def test_wider_dtypes(backend: str, dtype: Any) -> None:
    step = scaled_step(ops.exp, backend, dtype=dtype)
    found = step.explain_overflow(25 * X, Y)
    assert found.phase == "forward" and found.first is not None and found.first.primitive == "exp"
    step = scaled_step(ops.square, backend, dtype=dtype, scale=2.0**126)
    found = step.explain_overflow(X, Y)
    assert found.phase == "backward" and found.fitting_scale is not None
    assert not skips_at(step, found.fitting_scale, X, Y) and skips_at(step, 2 * found.fitting_scale, X, Y)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_plain_step(backend: str) -> None:
    net = Net(identity)
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    cell = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer, sens=2.0**20)
    step = graphls.compile(cell, X, Y, backend=backend)
    found = step.explain_overflow(X, Y)
    assert (found.phase, found.skipped, found.scale, found.fitting_scale) == ("backward", False, 2.0**20, 2.0**14)
    step(X, Y)  # there is no check: the weights are lost
    found = step.explain_overflow(X, Y)
    assert {s.name for s in found.sources if s.reaches} >= {"weight"} and "No scale can help while" in str(found)


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_constant_that_does_not_fit_its_dtype(backend: str) -> None:
    class HalfLoss(Net):
        def construct(self, x: Any) -> Any:
            return ops.sum(ops.matmul(x, self.weight))

    net = HalfLoss(identity)
    cell = nn.TrainOneStepCell(net, nn.Momentum(net.trainable_params(), 0.1, 0.9), sens=2.0**20)
    found = graphls.compile(cell, X, backend=backend).explain_overflow(X)
    assert found.first is not None and (found.first.primitive, found.phase) == ("constant", "backward")
    assert "it is a constant that is not finite in f16" in str(found)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backward_that_no_scale_can_help(backend: str) -> None:
    """The derivative of the square root is infinite at 0, at every scale."""
    step = scaled_step(ops.sqrt, backend, scale=16.0)
    found = step.explain_overflow(0 * X, Y + 1)
    assert (found.phase, found.depends_on_scale, found.fitting_scale) == ("backward", True, None)
    assert "no scale can help: the step was not finite at any power of two down to 2^-60" in str(found)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_scale_that_has_become_infinite(backend: str) -> None:
    step = scaled_step(identity, backend, scale=16.0)
    step.parameters["scale_sense"].set_data(np.array(np.inf, F32))
    found = step.explain_overflow(X, Y)
    assert [(s.kind, s.name, s.reaches) for s in found.sources] == [("state", "scale_sense", True)]
    assert found.phase == "backward" and found.scale is None and found.fitting_factor is None


class Accumulating(nn.TrainOneStepWithLossScaleCell):
    """Two backwards in one step, of which the second has the larger gradients."""

    def construct(self, x: Any, y: Any) -> Any:
        loss, total = self.network(x, y), None
        status, scale = self.start_overflow_check(loss, self.scale_sense)
        for part in (x, ops.mul(x, 2.0)):
            seed = ops.reshape(scale, ())
            grads = self.grad(self.network, self.weights)(part, y, seed)
            total = grads if total is None else tuple(map(ops.add, total, grads))
        grads = tuple(ops.div(g, scale) for g in total or ())
        overflow = self.process_loss_scale(self.get_overflow_status(status, grads))
        if not overflow:
            loss = ops.depend(loss, self.optimizer(grads))
        return loss, overflow, scale


@pytest.mark.parametrize("backend", BACKENDS)
def test_several_backwards_in_a_step(backend: str) -> None:
    network = nn.WithLossCell(Net(identity), nn.MSELoss())
    optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
    cell = Accumulating(network, optimizer, nn.DynamicLossScaleUpdateCell(2.0**20, 2, 100))
    step = graphls.compile(cell, X, Y, backend=backend)
    found = step.explain_overflow(X, Y)
    assert found.skipped and found.phase == "backward" and found.scale == 2.0**20
    assert found.fitting_scale == 2.0**12  # 2 rows of 2 * 16 / 6 of the scale
    assert not skips_at(step, 2.0**12, X, Y) and skips_at(step, 2.0**13, X, Y)
    (weight,) = step.gradient_ranges(X, Y)
    assert weight.size == 24 and weight.wide_largest == pytest.approx(2.0**20 * 2 * 2 * 16 / 6, rel=1e-3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_without_any_scaling(backend: str) -> None:
    net = Net(lambda x: ops.mul(x, 300.0))
    cell = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Momentum(net.trainable_params(), 0.1, 0.9))
    step = graphls.compile(cell, X, Y, backend=backend)
    found = step.explain_overflow(X, Y)  # 2 / 6 * 1200 * 300 is 120000, and a weight gets that of two rows
    assert (found.phase, found.scale, found.fitting_scale) == ("backward", 1.0, 0.25)


class Functional(nn.Cell):
    """A step in the style of functions: the loss is scaled, and the check is the user's own."""

    def __init__(self) -> None:
        super().__init__(auto_prefix=False)
        self.network = nn.WithLossCell(Net(identity), nn.MSELoss())
        self.optimizer = nn.Momentum(self.network.trainable_params(), 0.1, 0.9)
        self.scale = graphls.Parameter(np.array(2.0**20, F32), name="scale_sense", requires_grad=False)
        self.both = graphls.value_and_grad(self.forward, None, self.optimizer.parameters)

    def forward(self, x: Any, y: Any) -> Any:
        return ops.mul(self.network(x, y), self.scale)

    def construct(self, x: Any, y: Any) -> Any:
        loss, grads = self.both(x, y)
        grads = [ops.div(g, self.scale) for g in grads]
        overflow = ops.logical_not(ops.all(ops.isfinite(grads[0])))
        if not overflow:
            loss = ops.depend(loss, self.optimizer(tuple(grads)))
        return loss, overflow, self.scale


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_that_scales_its_loss(backend: str) -> None:
    step = graphls.compile(Functional(), X, Y, backend=backend)
    assert bool(step(X, Y)[1])
    found = step.explain_overflow(X, Y)
    assert (found.phase, found.skipped, found.scale, found.fitting_scale) == ("backward", True, 2.0**20, 2.0**14)
    assert not skips_at(step, found.fitting_scale, X, Y) and skips_at(step, 2 * found.fitting_scale, X, Y)


class WithScaler(Functional):
    """The same with a scaler of `amp`."""

    def __init__(self) -> None:
        super().__init__()
        self.scaler = amp.DynamicLossScaler(2.0**20, 2, 100)

    def forward(self, x: Any, y: Any) -> Any:
        return self.scaler.scale(self.network(x, y))

    def construct(self, x: Any, y: Any) -> Any:
        loss, grads = self.both(x, y)
        finite = amp.all_finite(grads)
        grads = self.scaler.unscale(grads)
        self.scaler.adjust(finite)
        if finite:
            loss = ops.depend(loss, self.optimizer(grads))
        return loss, ops.logical_not(finite), self.scaler.scale_value


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_with_a_functional_scaler(backend: str) -> None:
    step = graphls.compile(WithScaler(), X, Y, backend=backend)
    assert bool(step(X, Y)[1])
    found = step.explain_overflow(X, Y)
    assert (found.phase, found.skipped, found.scale, found.fitting_scale) == ("backward", True, 2.0**19, 2.0**14)
    for scale, skips in ((2.0**14, False), (2.0**15, True)):
        step = graphls.compile(WithScaler(), X, Y, backend=backend)
        step.parameters["scale_value"].set_data(np.array(scale, F32))
        assert bool(step(X, Y)[1]) is skips


class ScaledInHalf(Functional):
    """The scaled loss is a float16, which overflows in the forward, and yet because of the scale."""

    def forward(self, x: Any, y: Any) -> Any:
        return ops.mul(ops.cast(self.network(x, y), graphls.float16), ops.cast(self.scale, graphls.float16))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_scaled_loss_that_overflows_in_the_forward(backend: str) -> None:
    step = graphls.compile(ScaledInHalf(), X, Y, backend=backend)
    found = step.explain_overflow(X, Y)
    assert found.phase == "forward" and found.depends_on_scale and found.fitting_scale is not None
    assert not skips_at(step, found.fitting_scale, X, Y) and skips_at(step, 2 * found.fitting_scale, X, Y)


class GivenSensitivity(nn.Cell):
    """A step that takes the scale as an input."""

    def __init__(self) -> None:
        super().__init__(auto_prefix=False)
        self.network = nn.WithLossCell(Net(identity), nn.MSELoss())
        weights = graphls.ParameterTuple(self.network.trainable_params())
        self.gradients = graphls.GradOperation(get_by_list=True, sens_param=True)(self.network, weights)

    def construct(self, x: Any, y: Any, scale: Any) -> Any:
        return self.network(x, y), self.gradients(x, y, scale)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_scale_that_is_an_input(backend: str) -> None:
    scale = np.array(2.0**20, F32)
    step = graphls.compile(GivenSensitivity(), X, Y, scale, backend=backend)
    found = step.explain_overflow(X, Y, scale)
    assert (found.phase, found.scale, found.fitting_scale) == ("backward", 2.0**20, 2.0**14)
    fits, overflows = (step(X, Y, np.array(s, F32))[1][0].asnumpy() for s in (2.0**14, 2.0**15))
    assert np.isfinite(fits).all() and not np.isfinite(overflows).any()
    assert not step.explain_overflow(X, Y, np.array(2.0**14, F32)).overflowed


@pytest.mark.parametrize("backend", BACKENDS)
def test_scales_that_are_no_power_of_two(backend: str) -> None:
    step = scaled_step(identity, backend, manager=nn.FixedLossScaleUpdateCell(1e6))
    found = step.explain_overflow(X, Y)
    assert (found.scale, found.fitting_scale) == (pytest.approx(1e6), pytest.approx(2.0**14, rel=1e-6))


class Bounded(nn.Cell):
    """A gradient that is made very large on the way, and bounded again."""

    def construct(self, x: Any) -> Any:
        return ops.mul(x, 1.0)

    def bprop(self, x: Any, out: Any, dout: Any) -> Any:
        return (ops.tanh(ops.mul(dout, 60000.0)),)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_window_sees_what_goes_no_further(backend: str) -> None:
    class Inner(Net):
        def __init__(self) -> None:
            super().__init__(identity)
            self.bounded = Bounded().to_float(graphls.float16)

        def construct(self, x: Any) -> Any:
            return ops.cast(self.bounded(ops.matmul(x, self.weight)), graphls.float32)

    step = graphls.compile(scaled_cell(Inner(), 4.0), X, Y, backend=backend)
    assert not bool(step(X, Y)[1]) and not step.explain_overflow(X, Y).overflowed
    step = graphls.compile(scaled_cell(Inner(), 4.0), X, Y, backend=backend, overflow_mode="window")
    assert bool(step(X, Y)[1])
    found = step.explain_overflow(X, Y)
    assert found.skipped and found.phase == "backward" and found.first is not None
    assert (found.first.primitive, found.first.cell) == ("mul", "network._backbone.bounded")
    assert found.first.code == "return (ops.tanh(ops.mul(dout, 60000.0)),)"
    assert str(found).splitlines()[0].endswith("is the scale 2^-1, which was tried; update cells stop at 1.")
    assert found.fitting_scale == 0.5  # 4 * 2 / 6 of the scale, times 60000
    assert not skips_at(step, 0.5, X, Y) and skips_at(step, 1.0, X, Y)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_values_are_missed_or_made_up(backend: str) -> None:
    """The ranges of all values are those that the interpreter sees."""
    from graphls.ir import interpret

    step = scaled_step(branching, backend)
    watched = step._diagnose().watched
    found = watched.run([5 * X, Y])
    seen: dict[Any, Any] = {}

    def watch(node: Any, results: Any) -> None:
        if node.phase != "update":  # which waits for the check
            seen.update(zip(node.outputs, results, strict=True))

    states = {name: p.asnumpy() for name, p in step.parameters.items()}
    interpret(watched.graph, [5 * X, Y, np.array(1, F32)], states, watch)
    floats = {v: a for v, a in seen.items() if v.type.dtype.is_float and v.type.size}
    assert {v for v, r in found.items() if r.was_made and v in watched.definer} == set(floats)
    for value, array in floats.items():
        array = array.astype(np.float64)
        assert found[value].infinite == np.isinf(array).sum() and found[value].nan == np.isnan(array).sum()
        if np.isfinite(array).any():
            expected = np.abs(array[np.isfinite(array)]).max()
            assert found[value].largest == pytest.approx(expected, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_runs_that_share_the_memory(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the values do not fit into memory together, several runs give the same answer."""
    from graphls.inspect.diagnosis import watched

    at_once = str(scaled_step(branching, backend).explain_overflow(2 * X, Y))
    monkeypatch.setattr(watched, "MOST_BYTES", 100)
    step = scaled_step(branching, backend)
    assert str(step.explain_overflow(2 * X, Y)) == at_once
    found = step._diagnose().watched
    assert len(found.probes) > 5 and [v for values, _ in found.probes for v in values] == found.values


@pytest.mark.parametrize("backend", BACKENDS)
def test_inputs_are_checked_as_a_call_does(backend: str) -> None:
    step = scaled_step(identity, backend)
    with pytest.raises(GraphTypeError, match="compiled for 2 tensors"):
        step.explain_overflow(X)
    with pytest.raises(GraphValueError, match="shapes are static"):
        step.gradient_ranges(X[:1], Y)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_cell_without_gradients(backend: str) -> None:
    step = graphls.compile(Net(ops.exp), X, backend=backend)
    found = step.explain_overflow(5 * X)
    assert (found.phase, found.skipped, found.scale) == ("forward", False, None)
    assert not step.explain_overflow(X).overflowed
    with pytest.raises(GraphValueError, match="takes no gradients"):
        step.gradient_ranges(X)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_input_that_is_returned_as_it_is(backend: str) -> None:
    step = graphls.compile(identity, X, backend=backend)
    found = step.explain_overflow(X * np.inf)
    assert found.overflowed and found.first is None and found.phase is None
    assert str(found).startswith("The input 'x0' holds 8 infinite and 0 nan of 8 elements")
