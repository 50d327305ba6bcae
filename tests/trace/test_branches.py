"""`if` on a traced bool: both answers are traced and joined, states included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.ir import walk

BACKENDS = ["numpy", "onnxruntime"]
F32 = np.float32


def conds(step: graphls.Compiled) -> int:
    return sum(node.primitive.name == "cond" for node in walk(step.graph))


class Counting(nn.Cell):
    """Adds or subtracts from a state, by the sign of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.up = graphls.Parameter(np.zeros((), F32), name="up")
        self.down = graphls.Parameter(np.zeros((), F32), name="down")

    def construct(self, x: Any) -> Any:
        y = x * 2
        if x > 0:
            self.up = self.up + y
            return y, self.up
        self.down = self.down + 1
        return -y, self.up


@pytest.mark.parametrize("backend", BACKENDS)
def test_states_are_written_in_the_branch_that_is_taken(backend: str) -> None:
    cell = Counting()
    step = graphls.compile(cell, F32(1), backend=backend)
    assert [float(v) for v in step(F32(3))] == [6, 6]
    assert [float(v) for v in step(F32(-2))] == [4, 6]
    assert (float(cell.up), float(cell.down)) == (6, 1)
    assert conds(step) == 1


class Nested(nn.Cell):
    """Three answers from two conditions, the second only on one side, and one asked twice."""

    def construct(self, x: Any, y: Any) -> Any:
        if x > 0:
            if y > 0:
                z = x + y
            else:
                z = x - y
            if not x > 0:
                z = z * 1000
        else:
            z = x * y
        return z + 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("x", "y"), [(1, 2), (1, -2), (-1, 2), (-1, -2)])
def test_nested_conditions(backend: str, x: float, y: float) -> None:
    step = graphls.compile(Nested(), F32(0), F32(0), backend=backend)
    expected = (x + y if y > 0 else x - y) if x > 0 else x * y
    assert float(step(F32(x), F32(y))) == expected + 1


class Inner(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.calls = graphls.Parameter(np.zeros((), F32), name="calls")

    def construct(self, x: Any) -> Any:
        self.calls = self.calls + 1
        if ops.sum(x) > 0:
            return ops.exp(x)
        return x * 3


class Outer(nn.Cell):
    """Conditions in cells of their own do not multiply."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.inner = nn.CellList([Inner() for _ in range(count)])

    def construct(self, x: Any) -> Any:
        for cell in self.inner:
            x = cell(x) * 0.25 - 0.5
        if ops.sum(x) > 0:
            x = x + 100
        return x


def reference(x: np.ndarray, count: int) -> np.ndarray:
    for _ in range(count):
        x = (np.exp(x) if x.sum() > 0 else x * 3) * F32(0.25) - F32(0.5)
    return x + 100 if x.sum() > 0 else x


@pytest.mark.parametrize("backend", BACKENDS)
def test_conditions_in_inner_cells(backend: str) -> None:
    cell = Outer(12)
    x = np.array([0.5, 1.5], F32)
    step = graphls.compile(cell, x, backend=backend)
    np.testing.assert_allclose(step(x).asnumpy(), reference(x, 12), rtol=1e-5)
    assert [float(inner.calls) for inner in cell.inner] == [1] * 12
    assert conds(step) == 13


def test_the_common_prefix_is_traced_once() -> None:
    class Prefix(nn.Cell):
        def construct(self, x: Any) -> Any:
            y = ops.exp(ops.sin(x))
            return y + 1 if ops.sum(y) > 0 else y - 1

    step = graphls.compile(Prefix(), np.ones(3, F32), backend="numpy")
    names = [node.primitive.name for node in walk(step.graph)]
    assert names.count("exp") == names.count("sin") == 1


def test_a_gradient_flows_through_a_condition() -> None:
    class Choice(nn.Cell):
        def construct(self, x: Any) -> Any:
            if ops.sum(x) > 0:
                return ops.sum(x * x)
            return ops.sum(x * 5)

    x = np.array([1.0, 2.0], F32)
    gradient = graphls.grad(Choice())
    np.testing.assert_array_equal(gradient(graphls.Tensor(x)).asnumpy(), 2 * x)
    np.testing.assert_array_equal(gradient(graphls.Tensor(-x)).asnumpy(), [5, 5])


def test_too_many_paths_name_the_line() -> None:
    class Many(nn.Cell):
        def construct(self, x: Any) -> Any:
            return max(x[i] for i in range(9))

    with pytest.raises(graphls.TraceError, match=r"more than 64 paths.*test_branches.py:\d+"):
        graphls.compile(Many(), np.ones(9, F32), backend="numpy")


def test_answers_of_different_types_are_refused() -> None:
    class Types(nn.Cell):
        def construct(self, x: Any) -> Any:
            return x if ops.sum(x) > 0 else ops.cast(x, graphls.float16)

    with pytest.raises(graphls.TraceError, match=r"the same type, not f32\[2\] and f16\[2\].*test_branches.py:\d+"):
        graphls.compile(Types(), np.ones(2, F32), backend="numpy")


def test_answers_of_different_structure_are_refused() -> None:
    class Structure(nn.Cell):
        def construct(self, x: Any) -> Any:
            return (x, x) if ops.sum(x) > 0 else x

    with pytest.raises(graphls.TraceError, match="same structure"):
        graphls.compile(Structure(), np.ones(2, F32), backend="numpy")


def test_numbers_and_tensors_join() -> None:
    class Numbers(nn.Cell):
        def construct(self, x: Any) -> Any:
            if ops.sum(x) > 0:
                return 1.5, True, "same"
            return 2.5, False, "same"

    step = graphls.compile(Numbers(), np.ones(2, F32), backend="numpy")
    number, flag, text = step(-np.ones(2, F32))
    assert (float(number), bool(flag), text) == (2.5, False, "same")


def test_a_large_tensor_is_not_a_condition() -> None:
    class Large(nn.Cell):
        def construct(self, x: Any) -> Any:
            return x if x > 0 else -x

    with pytest.raises(graphls.GraphlsError, match=r"Only a tensor of shape \(\) or \(1,\)"):
        graphls.compile(Large(), np.ones(2, F32), backend="numpy")


def test_python_conditions_just_happen() -> None:
    class Plain(nn.Cell):
        def construct(self, x: Any, flag: Any) -> Any:
            return x + 1 if flag else x - 1

    cell = Plain()
    assert float(cell(graphls.Tensor(1.0), True)) == 2
    assert float(cell(graphls.Tensor(1.0), False)) == 0
    step = graphls.compile(cell, F32(1), None, backend="numpy")
    assert conds(step) == 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("x", "expected"), [([2.0], 4.0), ([0.0], 0.0), (3, 6), (0, 0), ([[True]], 2), (np.float32(0.5), 1.0)]
)
def test_any_tensor_of_one_element_is_true_or_false(backend: str, x: Any, expected: float) -> None:
    def double(x: Any) -> Any:
        if not x:
            return x * 1
        return x * 2

    x = graphls.Tensor(x)
    step = graphls.compile(double, x, backend=backend)
    assert float(step(x)) == expected and step(x).shape == x.shape
    assert conds(step) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_custom_gradient_branches(backend: str) -> None:
    class Custom(nn.Cell):
        def construct(self, x: Any) -> Any:
            return x * x, x + 1

        def bprop(self, x: Any, out: Any, dout: Any) -> Any:
            if out[0] > 1:
                return dout[0] * 7 + out[1]
            return dout[1] * x

    cell = Custom()

    def gradient(x: Any) -> Any:
        return graphls.grad(lambda x: cell(x)[0] * 3 + cell(x)[1])(x)

    step = graphls.compile(gradient, graphls.Tensor(2.0), backend=backend)
    assert [float(step(graphls.Tensor(x))) for x in (2.0, 0.5)] == [3 * 7 + 3 + 0 + 3, 0.5]


def test_an_answer_without_a_result_names_the_line() -> None:
    def positive(x: Any) -> Any:
        if x > 0:
            return x

    with pytest.raises(graphls.TraceError, match=r"not None in one of them\. \(.*test_branches\.py:\d+\)"):
        graphls.compile(positive, graphls.Tensor(1.0))


class TwoGradients(nn.Cell):
    """Two gradients of one cell, on values it was and was not called on, before a condition."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = graphls.Parameter(np.array([2.0], np.float32), name="weight")
        self.square = Square(self.weight)

    def construct(self, x: Any) -> Any:
        y = self.square(x)
        gradient = graphls.GradOperation(get_by_list=True)(self.square, self.weight)
        first, second = gradient(x), gradient(ops.mul(x, 3.0))
        if ops.sum(y) > 10:
            return first
        return ops.add(first, second)


class Square(nn.Cell):
    def __init__(self, weight: Any) -> None:
        super().__init__()
        self.weight = weight

    def construct(self, x: Any) -> Any:
        return ops.sum(ops.square(ops.mul(x, self.weight)))


def test_a_repeated_construct_takes_gradients_of_the_same_forwards() -> None:
    """d (2 x w)^2 / d w is 2 w x^2: 4 x^2 for x and 36 x^2 for 3 x."""
    cell = TwoGradients()
    step = graphls.compile(cell, np.ones(1, np.float32), backend="numpy")
    assert step(np.full(1, 2.0, np.float32)).item() == 16
    assert step(np.ones(1, np.float32)).item() == 40
    assert sum(n.primitive.name == "square" for n in walk(step.stages["00_trace"])) == 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["variable", "element", "list", "dict"])
def test_a_tensor_that_one_answer_writes_into_and_the_other_replaces(kind: str, backend: str) -> None:
    """Each answer has its own: the elements written here, the other tensor there, and other names keep theirs."""

    class Writing(nn.Cell):
        def construct(self, x: Any, n: Any) -> Any:
            v = x * 1
            u = v
            xs: Any = {0: v} if kind == "dict" else [v]
            if n > 1:
                v[0] = n * 5.0
                xs[0][1] = 7.0
            elif kind == "element":
                xs[0] = xs[0] * 2
            elif kind != "variable":
                xs = {0: xs[0] * 2} if kind == "dict" else [xs[0] * 2]
            else:
                v = v * 2
            return v, xs[0], u

    x = F32([1, 2, 3])
    step = graphls.compile(Writing(), x, F32(0), backend=backend)
    for n in (2.0, 0.0):
        found = [t.asnumpy().tolist() for t in step(x, F32(n))]
        written, twice = [n * 5, 7.0, 3.0], [2.0, 4.0, 6.0]
        kept = x.tolist()
        expected = [written] * 3 if n else [twice, kept, kept] if kind == "variable" else [kept, twice, kept]
        assert found == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_list_that_one_answer_writes_into_and_the_other_replaces(backend: str) -> None:
    class Writing(nn.Cell):
        def construct(self, x: Any) -> Any:
            xs, d = [x * 1, x * 2], {"a": x * 3}
            if x > 1:
                xs[0] = x * 10
                d["a"] = x * 20
            else:
                xs = [xs[1], xs[0]]
                d = {"a": xs[0]}
            return (*xs, d["a"])

    step = graphls.compile(Writing(), F32(0), backend=backend)
    assert [float(v) for v in step(F32(2))] == [20, 4, 40]
    assert [float(v) for v in step(F32(1))] == [2, 1, 2]
