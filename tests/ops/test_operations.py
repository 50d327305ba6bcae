"""Operator classes against NumPy and against the functions they stand for."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.frontend.tensors.pytree import leaves
from graphls.ops import composite, functional, operations
from tests.ops.agree import agree

F32 = np.float32
X = np.random.default_rng(3).uniform(0.5, 2, (2, 3, 4)).astype(F32)
Y = np.random.default_rng(4).uniform(0.5, 2, (2, 3, 4)).astype(F32)
M, N = X[0], Y[1]
ROWS = np.array([[3, 0], [1, 1], [0, 2]], np.int32)
INTEGERS = np.array([[2, 0], [1, 1]], np.int32)
BOOLS = np.array([[True, False, True, True]] * 3)

PLAIN: list[Any] = [
    ("Add", X + Y, (X, Y)),
    ("AddN", X + Y + X, ((X, Y, X),)),
    ("BatchMatMul", X @ Y.swapaxes(1, 2), (X, Y.swapaxes(1, 2))),
    ("Cast", X.astype(np.int32), (X, graphls.int32)),
    ("DType", graphls.float32, (X,)),
    ("Depend", X, (X, Y)),
    ("ExpandDims", X[:, None], (X, 1)),
    ("Fill", np.full((2, 3), 0.5, F32), (graphls.float32, (2, 3), 0.5)),
    ("Flatten", X.reshape(2, 12), (X,)),
    ("FloorDiv", X // Y, (X, Y)),
    ("FloorMod", X % Y, (X, Y)),
    ("Gather", M[INTEGERS], (M, INTEGERS, 0)),
    ("GatherD", np.take_along_axis(M, ROWS, 1), (M, 1, ROWS)),
    ("Identity", X, (X,)),
    ("Inv", 1 / X, (X,)),
    ("LessEqual", X <= Y, (X, Y)),
    ("LogicalNot", ~BOOLS, (BOOLS,)),
    ("MatMul", M @ N.T, (M, N.T)),
    ("Mul", X * Y, (X, Y)),
    ("OneHot", np.eye(3, dtype=F32)[INTEGERS], (INTEGERS, 3, 1.0, 0.0)),
    ("Ones", np.ones((2, 3), F32), ((2, 3), graphls.float32)),
    ("Pow", X**3, (X, 3)),
    ("Rank", 3, (X,)),
    ("RealDiv", X / Y, (X, Y)),
    ("Reciprocal", 1 / X, (X,)),
    ("Reshape", X.reshape(6, 4), (X, (6, 4))),
    ("ScalarToTensor", F32(3), (3, graphls.float32)),
    ("Select", np.where(BOOLS, M, N), (BOOLS, M, N)),
    ("Shape", (2, 3, 4), (X,)),
    ("Size", 24, (X,)),
    ("Sqrt", np.sqrt(X), (X,)),
    ("Square", X**2, (X,)),
    ("Sub", X - Y, (X, Y)),
    ("Transpose", X.transpose(2, 0, 1), (X, (2, 0, 1))),
    ("ZerosLike", np.zeros_like(X), (X,)),
]


@pytest.mark.parametrize(("name", "expected", "inputs"), PLAIN, ids=[case[0] for case in PLAIN])
def test_operators_without_settings(name: str, expected: Any, inputs: Any) -> None:
    operator = getattr(ops, name)()
    if isinstance(expected, (np.ndarray, np.generic)):
        agree(lambda *args: operator(*args), expected, *inputs, rtol=1e-5)
    else:
        found = operator(*inputs)
        assert type(found) is type(expected) and found == expected


def softmax(x: Any, axis: int) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


CONFIGURED: list[Any] = [
    (ops.Argmax(1), X.argmax(1).astype(np.int32), (X,)),
    (ops.Argmax(axis=0, output_type=graphls.int64), X.argmax(0), (X,)),
    (ops.Argmin(), X.argmin(-1).astype(np.int32), (X,)),
    (ops.BatchMatMul(transpose_a=True), X.swapaxes(1, 2) @ Y, (X, Y)),
    (ops.BroadcastTo((2, 3, 4)), np.broadcast_to(M, (2, 3, 4)), (M,)),
    (ops.Concat(axis=2), np.concatenate((X, Y), 2), ((X, Y),)),
    (ops.LogSoftmax(1), np.log(softmax(X, 1)), (X,)),
    (ops.MatMul(transpose_b=True), M @ N.T, (M, N)),
    (ops.MatMul(True, False), M.T @ N, (M, N)),
    (ops.OneHot(0), np.moveaxis(np.eye(3, dtype=F32)[INTEGERS], -1, 0), (INTEGERS, 3, 1.0, 0.0)),
    (ops.ReduceAll(True), BOOLS.all(1, keepdims=True), (BOOLS, 1)),
    (ops.ReduceAny(), BOOLS.any(), (BOOLS,)),
    (ops.ReduceMax(), X.max((0, 2)), (X, (0, 2))),
    (ops.ReduceMean(keep_dims=True), X.mean((1,), keepdims=True), (X, 1)),
    (ops.ReduceMin(), X.min(-1), (X, -1)),
    (ops.ReduceProd(), X.prod(2), (X, 2)),
    (ops.ReduceSum(keep_dims=False), X.sum((0,)), (X, (0,))),
    (ops.ReduceSum(True), X.sum(keepdims=True), (X, ())),
    (ops.Softmax(axis=0), softmax(X, 0), (X,)),
    (ops.Split(axis=2, output_num=2), tuple(np.split(X, 2, 2)), (X,)),
    (ops.Squeeze(), M, (M[None, :, None][:, :, 0],)),
    (ops.Squeeze(1), M, (M[:, None],)),
    (ops.Stack(axis=1), np.stack((M, N), 1), ([M, N],)),
]


@pytest.mark.parametrize(("operator", "expected", "inputs"), CONFIGURED, ids=[repr(case[0]) for case in CONFIGURED])
def test_operators_with_settings(operator: Any, expected: Any, inputs: Any) -> None:
    agree(lambda *args: operator(*args), expected, *inputs, rtol=1e-5)
    dtypes = [t.dtype.numpy for t in leaves(operator(*inputs))]
    assert dtypes == [a.dtype for a in leaves(expected)]


def test_the_modules_that_scripts_import() -> None:
    assert functional.depend is ops.depend and functional.clip_by_value is composite.clip_by_value
    assert functional.tensor_mul is ops.mul and functional.partial is ops.partial
    assert composite.GradOperation is ops.GradOperation and composite.ones_like is ops.ones_like
    assert operations.ReduceSum is ops.ReduceSum is functional.ReduceSum
    assert {"MatMul", "Partial"} <= {*operations.__all__, *dir(operations)} & {*operations.__all__}
    assert {"tensor_add", "assign_add", "HyperMap"} <= {*dir(functional)}


def test_every_operator_shows_itself_and_can_be_made_and_copied() -> None:
    for name in operations.OPERATORS:
        settings = getattr(operations.OPERATORS[name], "defaults", inspect.Signature()).parameters.values()
        made = operations.OPERATORS[name](*((2,) for setting in settings if setting.default is operations.REQUIRED))
        assert repr(made).startswith(f"{name}(") and getattr(ops, name) is type(made) and type(made).__doc__
    operator = ops.ReduceSum(keep_dims=True)
    for twin in (copy.deepcopy(operator), pickle.loads(pickle.dumps(operator))):
        assert type(twin) is ops.ReduceSum and repr(twin) == "ReduceSum(keep_dims=True)"


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
def test_operators_write_parameters_of_a_cell(backend: str) -> None:
    class Counter(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.total = graphls.Parameter(np.zeros(2, F32), name="total")
            self.last = graphls.Parameter(np.zeros(2, F32), name="last")
            self.assign, self.add, self.subtract = ops.Assign(), ops.AssignAdd(), ops.AssignSub()
            self.depend = ops.Depend()

        def construct(self, x: Any) -> Any:
            self.assign(self.last, x)
            added = self.add(self.total, x)
            return self.depend(added, self.subtract(self.last, 1.0))

    cell = Counter()
    step = graphls.compile(cell, np.ones(2, F32), backend=backend)
    found = [step(np.full(2, n, F32)).tolist() for n in (1, 2)]
    assert found == [[1, 1], [3, 3]]
    assert cell.total.tolist() == [3, 3] and cell.last.tolist() == [1, 1]


WRONG: list[Any] = [
    (lambda: ops.ReduceSun(), AttributeError, "graphls.ops has no 'ReduceSun'; did you mean 'ReduceSum'"),
    (lambda: operations.BatchMatMull, AttributeError, "has no 'BatchMatMull'; did you mean 'BatchMatMul'"),
    (lambda: functional.nothing_like_this, AttributeError, "has no 'nothing_like_this'"),
    (lambda: functional.sigmoidd, AttributeError, "has no 'sigmoidd'; did you mean 'sigmoid'"),
    (lambda: ops.ReduceSum(axis=1), TypeError, "operator ReduceSum takes keep_dims: got an unexpected .* 'axis'"),
    (lambda: ops.Add(1), TypeError, "operator Add takes nothing"),
    (lambda: ops.BroadcastTo(), TypeError, "operator BroadcastTo takes shape: missing a required argument"),
    (lambda: ops.Add()(X), TypeError, r"call of Add\(\) takes x, y: missing a required argument: 'y'"),
    (lambda: ops.Depend()(X, X, X), TypeError, r"call of Depend\(\) takes value, expr: too many"),
    (lambda: ops.MatMul()(M, N), ValueError, "inner sizes"),
    (lambda: ops.Assign()(X, Y), TypeError, "Parameter to write to"),
    (lambda: ops.AddN()(X), TypeError, "addn takes a tuple or list"),
    (lambda: ops.AddN()(()), TypeError, "addn takes a tuple or list"),
    (lambda: ops.AddN()((X, 1.0)), TypeError, "addn takes a tuple or list"),
    (lambda: ops.AddN()((X, M, X)), ValueError, r"tensors of one shape, not of \(2, 3, 4\), \(3, 4\)\."),
    (lambda: ops.Split(0, 3)(X), ValueError, "3 equal pieces"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_operations.py")
