"""Operators and functions of MindSpore that only its own tests and older scripts name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls as gl
from graphls import Tensor, nn, ops
from graphls.compat.operators import gradient_operators as gradients
from graphls.ops.directions import vjp

RANDOM = np.random.default_rng(3)
X = Tensor(RANDOM.uniform(0.1, 0.9, (2, 3, 4, 4)).astype(np.float32))
Y = Tensor(RANDOM.uniform(0.1, 0.9, (2, 3, 4, 4)).astype(np.float32))
DY = Tensor(RANDOM.normal(size=(2, 3, 4, 4)).astype(np.float32))
SIGNED = Tensor(RANDOM.normal(size=(2, 3, 4, 4)).astype(np.float32) * 4)
SCALE = Tensor(np.array([1.0, 2.0, 0.5], np.float32))

FROM_INPUT: dict[str, tuple[Callable[..., Any], Tensor, bool]] = {
    "AbsGrad": (ops.abs, SIGNED, True), "AcosGrad": (ops.acos, X, True), "AsinGrad": (ops.asin, X, True),
    "AtanGrad": (ops.atan, SIGNED, True), "FastGeLUGrad": (ops.fast_gelu, SIGNED, False),
    "HSigmoidGrad": (ops.hardsigmoid, SIGNED, False), "HSwishGrad": (ops.hardswish, SIGNED, False),
    "ReLU6Grad": (ops.relu6, SIGNED, False), "SiLUGrad": (ops.silu, SIGNED, False),
    "SoftplusGrad": (ops.softplus, SIGNED, False),
}  # fmt: skip
FROM_OUTPUT: dict[str, tuple[Callable[..., Any], Tensor, bool]] = {
    "AcoshGrad": (ops.acosh, X + 1.5, True), "AsinhGrad": (ops.asinh, SIGNED, True),
    "EluGrad": (ops.elu, SIGNED, False), "InvGrad": (ops.reciprocal, X, True),
    "ReciprocalGrad": (ops.reciprocal, X, True),
    "ReluGrad": (ops.relu, SIGNED, False), "RsqrtGrad": (ops.rsqrt, X, True), "SeLUGrad": (ops.selu, SIGNED, False),
    "SigmoidGrad": (ops.sigmoid, SIGNED, True), "SqrtGrad": (ops.sqrt, X, True), "TanhGrad": (ops.tanh, SIGNED, True),
    "LogSoftmaxGrad": (ops.log_softmax, SIGNED, True), "SoftmaxGrad": (ops.softmax, SIGNED, True),
}  # fmt: skip


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found.asnumpy(), wanted.asnumpy(), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", [*FROM_INPUT, *FROM_OUTPUT])
def test_gradients_of_functions_of_one_tensor(name: str) -> None:
    function, x, dy_is_last = {**FROM_INPUT, **FROM_OUTPUT}[name]
    of = x if name in FROM_INPUT else function(x)
    found = getattr(gradients, name)()(*((of, DY) if dy_is_last else (DY, of)))
    close(found, vjp(function, x)[1](DY)[0])


def norm(x: Any, gamma: Any, beta: Any) -> Any:
    return ops.layer_norm(x, gamma.shape, gamma, beta, 1e-7)


def batch(x: Any, scale: Any, offset: Any) -> Any:
    mean = ops.mean(x, (0, 2, 3), keep_dims=True)
    variance = ops.mean((x - mean) ** 2, (0, 2, 3), keep_dims=True)
    return (x - mean) / ops.sqrt(variance + 1e-5) * scale.reshape(1, 3, 1, 1) + offset.reshape(1, 3, 1, 1)


def test_gradients_of_several_tensors() -> None:
    found = gradients.MaximumGrad()(X, Y[:, :, :1], DY)
    for one, other in zip(found, vjp(ops.maximum, X, Y[:, :, :1])[1](DY), strict=True):
        close(one, other)
    found = gradients.MinimumGrad()(X, Y, DY)
    for one, other in zip(found, vjp(ops.minimum, X, Y)[1](DY), strict=True):
        close(one, other)
    gamma, zeros = Y[0], ops.zeros_like(Y[0])
    mean, variance = X.mean((1, 2, 3), keep_dims=True), X.var((1, 2, 3), keepdims=True)
    found = gradients.LayerNormGrad(1, 1)(X, DY, variance, mean, gamma)
    for one, other in zip(found, vjp(norm, X, gamma, zeros)[1](DY), strict=True):
        close(one, other)
    mean, variance = X.mean((0, 2, 3)), X.var((0, 2, 3))
    found = gradients.BatchNormGrad(True)(DY, X, SCALE, mean, variance, None)
    for one, other in zip(found, vjp(batch, X, SCALE, ops.zeros_like(SCALE))[1](DY), strict=True):
        close(one, other)
    for one, other in zip(gradients.PReLUGrad()(DY, SIGNED, SCALE), vjp(ops.prelu, SIGNED, SCALE)[1](DY), strict=True):
        close(one, other)


def test_gradients_of_layers() -> None:
    for name in ("MaxPool", "AvgPool"):
        pool = getattr(ops.operations, name)(2, 2, "valid")
        out = pool(X)
        found = getattr(gradients, f"{name}Grad")(2, 2, "VALID")(X, out, DY[:, :, :2, :2])
        close(found, vjp(pool, X)[1](DY[:, :, :2, :2])[0])
    close(gradients.BiasAddGrad()(DY), DY.sum((0, 2, 3)))
    small = gradients.ResizeBilinear((2, 2))
    close(gradients.ResizeBilinearGrad()(DY[:, :, :2, :2], X), vjp(small, X)[1](DY[:, :, :2, :2])[0])
    close(gradients.DropoutGrad(0.5)(DY, X > 0.5), DY * (X > 0.5).astype(gl.float32) * 2)
    close(gradients.FlattenGrad()(DY, (2, 48)), DY.reshape(2, 48))
    close(gradients.GeLUGrad()(DY, SIGNED, SIGNED), vjp(ops.gelu, SIGNED)[1](DY)[0])


def test_gradients_of_losses() -> None:
    def smooth(x: Any) -> Any:
        return ops.smooth_l1_loss(x, Y, beta=0.5, reduction="none")

    def entropy(x: Any) -> Any:
        return ops.binary_cross_entropy(x, Y, reduction="none")

    def logits(x: Any) -> Any:
        return ops.binary_cross_entropy_with_logits(x, Y, ops.ones_like(Y), ops.ones_like(Y), "none")

    close(gradients.SmoothL1LossGrad(0.5)(SIGNED, Y, DY), vjp(smooth, SIGNED)[1](DY)[0])
    close(gradients.BinaryCrossEntropyGrad("none")(X, Y, DY), vjp(entropy, X)[1](DY)[0])
    close(gradients.SigmoidCrossEntropyWithLogitsGrad()(SIGNED, Y, DY), vjp(logits, SIGNED)[1](DY)[0])
    normalize = ops.operations.L2Normalize(1)
    close(gradients.L2NormalizeGrad(1)(X, normalize(X), DY), vjp(normalize, X)[1](DY)[0])


@pytest.mark.usefixtures("mindspore")
def test_functions_of_python_values() -> None:
    F: Any = importlib.import_module("mindspore.ops.functional")
    S: Any = importlib.import_module("mindspore.ops.operations._sequence_ops")
    assert (F.tuple_len((1, 2)), F.make_range(3), F.make_range(1, 7, 2)) == (2, (0, 1, 2), (1, 3, 5))
    assert (F.tuple_getitem((1, 2), 1), F.tuple_setitem((1, 2), 0, 5), F.scalar_add(1, 2)) == (2, (5, 2), 3)
    assert (F.shape_mul((2, 3)), F.reduced_shape((2, 3, 4), (0, -1)), F.in_dict("a", {"a": 1})) == (6, (1, 3, 1), True)
    assert (F.bool_and(True, False), F.bool_not(False), F.tuple_div((4, 9), (2, 3))) == (False, True, (2, 3))
    assert (F.is_not(None, None), F.typeof(X), F.isconstant(3)) == (False, gl.float32, True)
    cast = F.mixed_precision_cast(gl.float16, (X, 1, (Y, Tensor([1]))))
    assert (cast[0].dtype, cast[1], cast[2][0].dtype, cast[2][1].dtype) == (gl.float16, 1, gl.float16, gl.int64)
    assert S.TupleToTensor()((1, 2), gl.int32).dtype is gl.int32
    assert [S.shape_mul()((2, 3)), S.SequenceMax()((2, 3)), S.InSequence()(2, (2, 3))] == [6, 3, True]
    assert [t.tolist() for t in S.TensorToTuple()(Tensor([1, 2]))] == [1, 2]


@pytest.mark.usefixtures("mindspore")
def test_operators_keep_what_is_for_several_devices() -> None:
    ms: Any = importlib.import_module("mindspore")
    add = ms.ops.Add().shard(((1,), (1,))).add_prim_attr("fusion", 1).set_stage(0).recompute()
    assert isinstance(add, ms.ops.Primitive) and add.get_attr_dict() == {"fusion": 1} and add.fusion == 1
    close(add(X, Y), X + Y)
    from mindspore.ops import operations as P
    from mindspore.ops.operations.comm_ops import ReduceOp

    close(P.AllReduce(ReduceOp.SUM)(X), X)
    assert P.AllGather(group="nccl_world_group")(X).shape == X.shape
    assert P.Broadcast(0)((X, Y))[1] is not None


@pytest.mark.usefixtures("mindspore")
def test_primitives_of_ones_own() -> None:
    from mindspore.ops import Primitive, PrimitiveWithInfer, prim_attr_register  # type: ignore[import-not-found]
    from mindspore.ops.primitive import _primexpr, constexpr  # type: ignore[import-not-found]

    class Shift(PrimitiveWithInfer):  # type: ignore[misc]
        """An operator with an attribute, in the style of MindSpore 1."""

        @prim_attr_register  # type: ignore[untyped-decorator]
        def __init__(self, by: int = 1, *, name: str = "x") -> None:
            self.init_prim_io_names(inputs=["x"], outputs=["y"])

        def infer_shape(self, x: Any) -> Any:
            return x

        def __call__(self, x: Any) -> Any:
            return x + self.by

    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.shift = Shift(2)

        def construct(self, x: Any) -> Any:
            return self.shift(x) * self.size(x)

        @staticmethod
        @constexpr  # type: ignore[untyped-decorator]
        def size(x: Any) -> int:
            return int(x.shape[0])

    assert Shift(2).get_attr_dict() == {"by": 2, "name": "x", "input_names": ["x"], "output_names": ["y"]}
    assert _primexpr(max)(1, 2) == 2
    close(Net()(X), (X + 2) * 2)
    with pytest.raises(RuntimeError, match=r"no kernel for the operator made_up; .*test_operators.py"):
        Primitive("made_up")(X)


class Shown(nn.Cell):
    """A network that prints, also in one answer of an `if`."""

    def __init__(self, print_: Any) -> None:
        super().__init__()
        self.print = print_

    def construct(self, x: Tensor) -> Tensor:
        self.print("the input", x)
        if x.sum() > 0:
            self.print("above", x.sum())
        return x * 2


@pytest.mark.usefixtures("mindspore")
@pytest.mark.parametrize("mode", [0, 1])
def test_print_shows_values_whenever_the_graph_runs(mode: int, capsys: pytest.CaptureFixture[str]) -> None:
    ms: Any = importlib.import_module("mindspore")
    ms.set_context(mode=mode)
    net = Shown(ms.ops.Print())
    for x in ([1.0, 2.0], [-1.0, -2.0], [3.0, 4.0]):
        net(Tensor(x))
    lines = [line.partition("value=")[2] or line for line in capsys.readouterr().out.splitlines()]
    arrays = [f"[{x: .8e} {y: .8e}])" for x, y in ((1, 2), (-1, -2), (3, 4))]
    wanted = ["the input", arrays[0], "above", "3", "the input", arrays[1], "the input", arrays[2], "above", "7"]
    assert lines == wanted


@pytest.mark.usefixtures("mindspore")
def test_print_in_a_training_step_leaves_the_step_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    def losses(shows: bool) -> list[float]:
        gl.set_seed(1)
        net = nn.SequentialCell(nn.Dense(2, 2), Shown(ms.ops.Print() if shows else (lambda *_: None)))
        loss = nn.WithLossCell(net.to_float(gl.float16), nn.MSELoss())
        step = nn.TrainOneStepWithLossScaleCell(
            loss, nn.Momentum(net.trainable_params(), 0.1, 0.9), nn.DynamicLossScaleUpdateCell(2**20, 2, 2)
        )
        return [float(step(Tensor([[1.0, 2.0]]), Tensor([[1.0, 0.0]]))[0]) for _ in range(4)]

    ms: Any = importlib.import_module("mindspore")
    assert losses(True) == losses(False)
    assert capsys.readouterr().out.count("the input") == 4


@pytest.mark.usefixtures("mindspore")
def test_py_func_gives_what_a_python_function_gives() -> None:
    ms: Any = importlib.import_module("mindspore")

    def both(x1: Any, x2: Any) -> Any:
        return x1 + x2

    for stateful in (True, False):
        op = ms.ops.PyFunc(both, [ms.float32] * 2, [(3,), (3,)], [ms.float32], [(3,)], stateful)
        found = op((Tensor([1.0, 2.0, 3.0]), Tensor([1.0, 2.0, 3.0])))
        assert isinstance(found, tuple) and found[0].tolist() == [2, 4, 6]
        step = gl.compile(lambda x, op=op: op((x, x)), np.ones(3, np.float32), backend="numpy")
        kinds = [node.primitive.name for node in step.graph.nodes]
        assert kinds == ["py_func" if stateful else "pure_callback"]
        assert step(np.ones(3, np.float32))[0].tolist() == [2, 2, 2]
    with pytest.raises(TypeError, match=r"This PyFunc takes f32\[3\], f32\[3\], not f32\[2\], f32\[2\]"):
        op((Tensor([1.0, 2.0]), Tensor([1.0, 2.0])))


@pytest.mark.usefixtures("mindspore")
def test_insert_gradient_of_changes_a_gradient() -> None:
    # The example of MindSpore's documentation, and its numbers.
    ms: Any = importlib.import_module("mindspore")
    a, b = Tensor(np.array([1.0], np.float32)), Tensor(np.array([0.2], np.float32))

    def clip_gradient(dx: Any) -> Any:
        ret = dx
        if ret > a:
            ret = a
        if ret < b:
            ret = b
        return ret

    clip = ms.ops.InsertGradientOf(clip_gradient)

    def clip_test(x: Any, y: Any) -> Any:
        return clip(x) * clip(y)

    x, y = Tensor(np.array([1.1], np.float32)), Tensor(np.array([0.1], np.float32))
    np.testing.assert_allclose(clip_test(x, y).asnumpy(), [0.11], rtol=1e-6)
    found = ms.ops.GradOperation(get_all=True)(clip_test)(x, y)
    np.testing.assert_allclose([g.asnumpy() for g in found], [[0.2], [1.0]], rtol=1e-6)


@pytest.mark.usefixtures("mindspore")
def test_hook_backward_has_numbers_in_eager_mode(eager: None) -> None:
    ms: Any = importlib.import_module("mindspore")
    seen: list[float] = []
    hooked = ms.ops.HookBackward(lambda gradients: seen.append(gradients[0].item()))
    gradient = ms.grad(lambda x: hooked(x * x) * 2)
    assert [gradient(Tensor(3.0)).item() for _ in range(2)] == [12.0, 12.0]
    assert seen == [2.0, 2.0]


@pytest.mark.usefixtures("mindspore")
def test_hook_backward_sees_and_changes_gradients(capsys: pytest.CaptureFixture[str]) -> None:
    ms: Any = importlib.import_module("mindspore")
    ms.set_context(mode=ms.GRAPH_MODE)

    def sees(gradients: Any) -> None:
        ops.print_("gradient", *gradients)

    for hook, factor in ((sees, 1), (lambda gradients: gradients[0] * 3, 3)):
        hooked = ms.ops.HookBackward(hook)
        gradient = ms.ops.GradOperation()(lambda x, h=hooked: (h(x * x) * 2).sum())
        found = gl.compile(gradient, Tensor([3.0]))(Tensor([3.0]))
        assert found.tolist() == [12 * factor]
    assert capsys.readouterr().out == "gradient\nTensor(shape=[1], dtype=Float32, value=[ 2.00000000e+00])\n"
    with pytest.raises(TypeError, match="HookBackward takes a function, not 3"):
        ms.ops.HookBackward(3)


@pytest.mark.usefixtures("mindspore")
def test_assert_raises_where_a_graph_has_run(eager: None) -> None:
    ms: Any = importlib.import_module("mindspore")

    class Net(nn.Cell):
        def construct(self, x: Tensor) -> Tensor:
            ms.ops.Assert()((x > 0).all(), (x,))
            return x

    for mode in (0, 1):
        ms.set_context(mode=mode)
        net = Net()
        assert net(Tensor([1.0])).tolist() == [1.0]
        with pytest.raises(RuntimeError, match=r"Assert is false, for \[-1\.\]"):
            net(Tensor([-1.0]))


@pytest.mark.usefixtures("mindspore")
def test_summary_operators_write_to_what_is_open(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboardX")
    ms: Any = importlib.import_module("mindspore")
    summary: Any = importlib.import_module("graphls.train.callbacks.summary")
    written: list[Any] = []

    class File:
        def __init__(self, folder: str) -> None:
            self.path = folder

        def write(self, plugin: str, name: str, value: Any, step: int) -> None:
            written.append((name, float(value), step))

        def close(self) -> None:
            pass

    monkeypatch.setattr(summary, "EventFile", File)

    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.scalar = ms.ops.ScalarSummary()

        def construct(self, x: Tensor) -> Tensor:
            self.scalar("sum", x.sum())
            return x

    net = Net()
    ms.set_context(mode=0)
    net(Tensor([1.0]))
    with ms.train.summary.SummaryRecord(str(tmp_path)) as record:
        for step, x in enumerate(([1.0, 2.0], [3.0, 4.0])):
            net(Tensor(x))
            record.record(step)
        record.record(7)
    net(Tensor([5.0, 6.0]))
    assert written == [("sum", 3.0, 0), ("sum", 7.0, 1)]


def test_updates_of_rows() -> None:
    from graphls.compat.operators import sparse_updates as sparse

    rows, grad = np.array([2, 0, 2]), np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]], np.float32)
    dense = np.zeros((4, 2), np.float32)
    np.add.at(dense, rows, grad)
    touched = np.array([True, False, True, False])[:, None]
    start = RANDOM.normal(size=(4, 2)).astype(np.float32)

    def states(*values: Any) -> list[gl.Parameter]:
        return [gl.Parameter(np.array(value), name=f"p{i}") for i, value in enumerate(values)]

    def run(operator: Any, *inputs: Any, held: int) -> list[Any]:
        class Net(nn.Cell):
            def __init__(self) -> None:
                super().__init__()
                self.states = gl.ParameterTuple(inputs[:held])

            def construct(self, grad: Any, rows: Any) -> Any:
                return operator(*self.states, *inputs[held:], grad, rows)

        given = Net()(Tensor(grad), Tensor(rows))
        for one, state in zip(given, inputs, strict=False):
            np.testing.assert_array_equal(one.asnumpy(), state.asnumpy())
        return [state.asnumpy() for state in inputs[:held]]

    ones = np.ones((4, 2), np.float32)
    squares = ones + dense**2
    found = run(sparse.SparseApplyAdagrad(0.1), *states(start, ones), held=2)
    np.testing.assert_allclose(found[0], start - 0.1 * dense / np.sqrt(squares), rtol=1e-5)
    np.testing.assert_allclose(found[1], squares, rtol=1e-5)
    found = run(sparse.SparseApplyAdagradV2(0.1, 0.5, update_slots=False), *states(start, ones), held=2)
    np.testing.assert_allclose(found[0], start - 0.1 * dense / 1.5, rtol=1e-5)
    found = run(sparse.FusedSparseFtrl(0.1, 0.01, 0.02, -0.5), *states(start, ones, 0 * ones), held=3)
    linear = dense - (np.sqrt(squares) - 1) / 0.1 * start
    solved = np.sign(linear) * np.maximum(np.abs(linear) - 0.01, 0) / -(np.sqrt(squares) / 0.1 + 0.04)
    np.testing.assert_allclose(found[0], np.where(touched, solved, start), rtol=1e-4, atol=1e-6)
    found = run(sparse.SparseApplyProximalAdagrad(), *states(start, ones), 0.1, 0.01, 0.02, held=2)
    rate = 0.1 / np.sqrt(squares)
    stepped = start - rate * dense
    stepped = np.sign(stepped) * np.maximum(np.abs(stepped) - rate * 0.01, 0) / (1 + rate * 0.02)
    np.testing.assert_allclose(found[0], np.where(touched, stepped, start), rtol=1e-4, atol=1e-6)
    settings = (Tensor(0.9), Tensor(0.999), 0.1, 0.9, 0.999, 1e-8)
    m, v = 0.9 * ones + 0.1 * dense, 0.999 * ones + 0.001 * dense**2
    moved = start - 0.1 * np.sqrt(1 - 0.999) / (1 - 0.9) * m / (np.sqrt(v) + 1e-8)
    found = run(sparse.FusedSparseAdam(), *states(start, ones, ones), *settings, held=3)
    np.testing.assert_allclose(found[0], moved, rtol=1e-3, atol=1e-5)
    found = run(sparse.FusedSparseLazyAdam(), *states(start, ones, ones), *settings, held=3)
    np.testing.assert_allclose(found[0], np.where(touched, moved, start), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(found[1], np.where(touched, m, ones), rtol=1e-5)
