"""Operator classes that move, select and join elements, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from tests.ops.agree import BACKENDS, agree

F32 = np.float32
X = np.random.default_rng(3).uniform(0.5, 2, (2, 3, 4)).astype(F32)
M = X[0]
IMAGE = np.arange(32, dtype=F32).reshape(1, 2, 4, 4)

CASES: list[Any] = [
    (ops.DepthToSpace(2), IMAGE, (ops.SpaceToDepth(2)(graphls.Tensor(IMAGE)).asnumpy(),)),
    (ops.Diag(), np.diag(M[0]), (M[0],)),
    (ops.GatherNd(), M[[0, 2], [1, 3]], (M, np.array([[0, 1], [2, 3]]))),
    (ops.GatherV2(), M[:, [0, 0]], (M, np.array([0, 0]), 1)),
    (ops.IndexAdd(axis=1), M + np.array([2, 0, 1, 0]), (M, np.array([0, 2, 0]), np.ones((3, 3), F32))),
    (ops.IndexFill(), np.where([1, 0, 0, 1], 5, M), (M, 1, np.array([0, 3]), 5.0)),
    (ops.LinSpace(), np.linspace(1, 3, 4), (1.0, 3.0, 4)),
    (ops.MaskedFill(), np.where(M > 1, 0, M), (M, M > 1, 0.0)),
    (ops.MaskedSelect(), M[:, [0, 3]].reshape(-1), (M, graphls.Tensor([True, False, False, True]))),
    (ops.Meshgrid(indexing="ij"), tuple(np.meshgrid(M[0], M[1, :2], indexing="ij")), ((M[0], M[1, :2]),)),
    (ops.Pack(1), np.stack((M, M), 1), ((M, M),)),
    (ops.ReverseSequence(1), np.stack((X[0][[1, 0, 2]], X[1])), (X, np.array([2, 1]))),
    (ops.ReverseV2([0, 2]), X[::-1, :, ::-1], (X,)),
    (ops.Roll(1, 0), np.roll(M, 1, 0), (M,)),
    (ops.ScatterNd(), np.array([0, 3, 0, 4], F32), (np.array([[1], [3], [1]]), np.array([1, 4, 2], F32), (4,))),
    (ops.SearchSorted(graphls.int32, right=True), np.array([1, 3]), (np.array([1, 2, 2]), np.array([1, 2]))),
    (ops.Slice(), M[1:2, :3], (M, (1, 0), (1, 3))),
    (ops.Sort(0, True), (-np.sort(-M, 0), np.argsort(-M, 0)), (M,)),
    (ops.StridedSlice(shrink_axis_mask=1), M[1, ::2], (M, (1, 0), (2, 4), (1, 2))),
    (ops.TensorScatterUpdate(), np.where([[0], [1], [0]], 7, M), (M, np.array([[1]]), np.full((1, 4), 7, F32))),
    (ops.Tile(), np.tile(M, (2, 1)), (M, (2, 1))),
    (ops.TopK(), (-np.sort(-M)[:, :2], np.argsort(-M)[:, :2]), (M, 2)),
    (ops.Tril(-1), np.tril(M, -1), (M,)),
    (ops.Triu(), np.triu(M), (M,)),
    (ops.Unpack(-1), tuple(M.T), (M,)),
    (ops.Unstack(num=3), tuple(M), (M,)),
]


@pytest.mark.parametrize(("operator", "expected", "inputs"), CASES, ids=[repr(case[0]) for case in CASES])
def test_operators(operator: Any, expected: Any, inputs: Any) -> None:
    known = tuple(i for i in inputs if not isinstance(i, np.ndarray))
    arrays = tuple(i for i in inputs if isinstance(i, np.ndarray))
    agree(lambda *tensors: operator(*_merged(inputs, tensors)) if arrays else operator(*known), expected, *arrays)


def _merged(inputs: tuple[Any, ...], tensors: tuple[Any, ...]) -> list[Any]:
    iterator = iter(tensors)
    return [next(iterator) if isinstance(i, np.ndarray) else i for i in inputs]


def test_operators_of_what_is_known() -> None:
    assert ops.Range()(1, 7, 2).tolist() == [1, 3, 5]
    assert ops.Eye()(2, 3, graphls.int32).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert ops.NonZero()(np.array([0, 2])).tolist() == [[1]]
    assert [t.tolist() for t in ops.Unique()(np.array([3, 1, 3]))] == [[1, 3], [1, 0, 1]]
    with pytest.raises(ValueError, match="Range has 3 numbers, more than its maxlen of 2"):
        ops.Range(2)(1, 7, 2)
    with pytest.raises(ValueError, match="Unstack finds 3 slices, not 2"):
        ops.Unstack(num=2)(graphls.Tensor(M))


@pytest.mark.parametrize("backend", BACKENDS)
def test_operators_that_write_parameters(backend: str) -> None:
    class Writer(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.table = graphls.Parameter(np.zeros((3, 2), F32), name="table")
            self.update, self.add = ops.ScatterUpdate(), ops.ScatterNdAdd(use_locking=False)

        def construct(self, x: Any) -> Any:
            self.update(self.table, np.array([2]), x)
            return self.add(self.table, np.array([[2, 0], [0, 1], [2, 0]]), ops.ones(3))

    cell = Writer()
    found = graphls.compile(cell, np.full((1, 2), 5, F32), backend=backend)(np.full((1, 2), 5, F32))
    assert found.tolist() == cell.table.tolist() == [[0, 1], [0, 0], [7, 5]]
