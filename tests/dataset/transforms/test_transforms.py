"""Operations on columns of any kind."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import graphls
from graphls.dataset import transforms
from graphls.dataset.transforms import Relational, c_transforms, py_transforms
from graphls.ir.errors import GraphRuntimeError, GraphTypeError, GraphValueError

INTEGERS = np.array([1, 2, 3, 2])
WORDS = np.array(["a", "bb", "a"])
TABLE = np.arange(12).reshape(3, 4)


@pytest.mark.parametrize("dtype", [graphls.float16, np.float32, "int8", np.dtype(np.uint8), graphls.bool_, float])
def test_type_cast(dtype: Any) -> None:
    kind = np.dtype(getattr(dtype, "numpy", dtype))
    for column in (INTEGERS, np.array([1.5, -2.5], np.float32), np.array(3, np.uint32), [1, 0], 7):
        result = transforms.TypeCast(dtype)(column)
        assert result.dtype == kind
        wanted = np.asarray(column)
        wanted = wanted.astype(np.int64) if kind.kind in "iu" else wanted
        np.testing.assert_array_equal(result, wanted.astype(kind))


def test_floats_are_cast_to_small_integers_as_in_c() -> None:
    np.testing.assert_array_equal(transforms.TypeCast("uint8")(np.array([300.7, -1.5, 255.9])), [44, 255, 255])


def test_wrong_casts() -> None:
    for dtype in ("abc", None, 1):
        with pytest.raises(GraphTypeError, match="data_type"):
            transforms.TypeCast(dtype)
    for column, kind in ((WORDS, "int32"), (INTEGERS, "str")):
        with pytest.raises(GraphRuntimeError, match="ToNumber"):
            transforms.TypeCast(kind)(column)


@pytest.mark.parametrize("rate", [0.0, 0.1, 1.0])
def test_one_hot(rate: float) -> None:
    eye = np.eye(5) * (1 - rate) + rate / 5
    for labels in (np.array(3, np.uint32), INTEGERS, INTEGERS[:, None].astype(np.int8), np.zeros(0, np.int32)):
        result = transforms.OneHot(5, rate)(labels)
        np.testing.assert_allclose(result, eye[labels.reshape(-1) if labels.ndim else labels])
        assert result.dtype == (np.float64 if rate else labels.dtype)


def test_labels_that_are_no_class() -> None:
    for labels in (np.array([5]), np.array(-1), np.array([0.0]), TABLE, WORDS):
        with pytest.raises(GraphRuntimeError, match="OneHot"):
            transforms.OneHot(5)(labels)


def test_fill() -> None:
    cases = [(INTEGERS, 2.7, 2), (TABLE, -1, -1), (np.zeros(2, bool), 5, True), (WORDS, "zzz", "zzz")]
    for column, value, wanted in cases:
        result = transforms.Fill(value)(column)
        assert result.shape == column.shape and (result == wanted).all()
    for column, value in ((INTEGERS, "z"), (WORDS, 1)):
        with pytest.raises(GraphRuntimeError, match="not an element"):
            transforms.Fill(value)(column)


def test_slice() -> None:
    cases: list[tuple[tuple[Any, ...], Any]] = [
        ((0,), TABLE[:1]), ((-1,), TABLE[-1:]), (([0, 2],), TABLE[[0, 2]]), ((slice(1, 3),), TABLE[1:3]),
        ((None, slice(None, None, 2)), TABLE[:, ::2]), ((..., [1, 3]), TABLE[:, [1, 3]]), ((0, 1), TABLE[:1, 1:2]),
        (([0, 1], [1, 3]), TABLE[:2][:, [1, 3]]), ((slice(0, 100),), TABLE),
    ]  # fmt: skip
    for items, wanted in cases:
        np.testing.assert_array_equal(transforms.Slice(*items)(TABLE), wanted)
    assert transforms.Slice([0, 2])(WORDS).dtype == "<U1"
    for items in ((9,), (0, 0, 0), ([0, 4],)):
        with pytest.raises(GraphRuntimeError, match="Slice"):
            transforms.Slice(*items)(TABLE)
    for item in ("a", 1.5, [1.5]):
        with pytest.raises(GraphTypeError):
            transforms.Slice(item)


@pytest.mark.parametrize("relation", list(Relational))
def test_mask(relation: Relational) -> None:
    program = {"EQ": "==", "NE": "!=", "GT": ">", "GE": ">=", "LT": "<", "LE": "<="}[relation.name]
    for column, constant in ((TABLE, 5), (np.array([1.5, 2.0], np.float32), 2), (WORDS, "a")):
        wanted = [eval(f"x {program} y", {"x": x, "y": constant}) for x in column.reshape(-1).tolist()]
        result = transforms.Mask(relation, constant)(column)
        assert result.dtype == bool and result.reshape(-1).tolist() == wanted
        assert transforms.Mask(relation, constant, graphls.int32)(column).dtype == np.int32
    with pytest.raises(GraphRuntimeError):
        transforms.Mask(relation, "a")(TABLE)
    with pytest.raises(GraphTypeError):
        transforms.Mask(relation.name, 1)  # type: ignore[arg-type]


def test_pad_end() -> None:
    cases: list[tuple[Any, list[int | None], Any, Any]] = [
        (INTEGERS, [6], None, [1, 2, 3, 2, 0, 0]), (INTEGERS, [2], None, [1, 2]), (INTEGERS, [5], 1.9, [1, 2, 3, 2, 1]),
        (WORDS, [4], None, ["a", "bb", "a", ""]), (WORDS, [4], "long", ["a", "bb", "a", "long"]),
        (TABLE[:2], [3, 2], -1, [[0, 1], [4, 5], [-1, -1]]), (TABLE[:1], [None, 5], 9, [[0, 1, 2, 3, 9]]),
        (np.array(3), [6], 7, 3),
    ]  # fmt: skip
    for column, shape, value, wanted in cases:
        np.testing.assert_array_equal(transforms.PadEnd(shape, value)(column), wanted)
    for column, shape, value in ((TABLE, [4], None), (WORDS, [4], 1), (INTEGERS, [4], "z")):
        with pytest.raises(GraphRuntimeError):
            transforms.PadEnd(shape, value)(column)
    with pytest.raises(GraphValueError):
        transforms.PadEnd([0])
    for wrong in ((6,), [2.5]):
        with pytest.raises(GraphTypeError):
            transforms.PadEnd(wrong)  # type: ignore[arg-type]


def test_concatenate_duplicate_unique() -> None:
    joined = transforms.Concatenate(0, np.array([9]), np.array([8, 7]))(INTEGERS, INTEGERS)
    assert joined.tolist() == [9, 1, 2, 3, 2, 1, 2, 3, 2, 8, 7]
    assert transforms.Concatenate(-1, np.array(["long"]))(WORDS).tolist() == ["long", "a", "bb", "a"]
    for columns in ((TABLE,), (INTEGERS, np.array([1.5])), (INTEGERS, WORDS), (np.array(1),)):
        with pytest.raises(GraphRuntimeError, match="Concatenate"):
            transforms.Concatenate()(*columns)
    with pytest.raises(GraphValueError):
        transforms.Concatenate(1)
    with pytest.raises(GraphTypeError):
        transforms.Concatenate(0, [9])
    first, second = transforms.Duplicate()(INTEGERS)
    second[0] = 100
    assert first.tolist() == [1, 2, 3, 2]
    values, numbers, counts = transforms.Unique()(np.array([[5, 3], [5, 5]]))
    assert (values.tolist(), numbers.tolist(), counts.tolist()) == ([3, 5], [1, 0, 1, 1], [1, 3])
    assert numbers.dtype == counts.dtype == np.int32


def test_compose_passes_columns_on() -> None:
    chain = transforms.Compose([lambda a: (a, a + 1), lambda a, b: a * b, transforms.TypeCast(np.float32)])
    assert chain(INTEGERS).tolist() == [2, 6, 12, 6]
    assert transforms.Compose([transforms.Duplicate(), transforms.Concatenate()])(INTEGERS).shape == (8,)
    first, second = transforms.Compose([transforms.Duplicate()])(INTEGERS)
    assert first.tolist() == second.tolist()


def test_random_choices() -> None:
    graphls.set_seed(0)
    add, double = (lambda x: x + 1), (lambda x: x * 2)
    applied = [int(transforms.RandomApply([add, double], 0.3)(np.array(3))) for _ in range(500)]
    assert set(applied) == {3, 8} and 0.2 < applied.count(8) / 500 < 0.4
    chosen = [int(transforms.RandomChoice([add, double])(np.array(3))) for _ in range(500)]
    assert set(chosen) == {4, 6} and 0.4 < chosen.count(4) / 500 < 0.6
    ordered = [int(transforms.RandomOrder([add, double])(np.array(3))) for _ in range(500)]
    assert set(ordered) == {7, 8} and 0.4 < ordered.count(7) / 500 < 0.6
    graphls.set_seed(4)
    first = [int(transforms.RandomChoice([add, double])(np.array(3))) for _ in range(20)]
    graphls.set_seed(4)
    assert first == [int(transforms.RandomChoice([add, double])(np.array(3))) for _ in range(20)]


@pytest.mark.parametrize("name", ["Compose", "RandomApply", "RandomChoice", "RandomOrder"])
def test_lists_of_operations_are_checked(name: str) -> None:
    kind = getattr(transforms, name)
    with pytest.raises(GraphValueError, match="must not be empty"):
        kind([])
    for wrong in (1, transforms.Duplicate(), [1], [transforms.Duplicate(), "a"]):
        with pytest.raises(GraphTypeError, match=r"test_transforms\.py"):
            kind(wrong)


def test_several_columns_are_treated_alike() -> None:
    first, second = transforms.TypeCast(np.float32)(INTEGERS, TABLE)
    assert first.dtype == second.dtype == np.float32 and second.shape == (3, 4)
    with pytest.raises(GraphValueError, match="takes a column"):
        transforms.TypeCast(np.float32)()


def test_tensors_are_columns() -> None:
    assert transforms.OneHot(3)(graphls.Tensor(np.array([0, 2]))).tolist() == [[1, 0, 0], [0, 0, 1]]


class Increment(py_transforms.PyTensorOperation):
    def _execute_py(self, column: Any) -> Any:
        return column + 1


def test_own_operations() -> None:
    assert Increment()(INTEGERS).tolist() == [2, 3, 4, 3]
    with pytest.raises(NotImplementedError):
        transforms.TensorOperation()(INTEGERS)


def test_old_paths_and_pickling() -> None:
    assert py_transforms.OneHotOp is transforms.OneHot and c_transforms.TypeCast is transforms.TypeCast
    for module in (transforms, c_transforms, py_transforms):
        assert all(hasattr(module, name) for name in module.__all__)
    operation = transforms.Compose([transforms.OneHot(5, 0.1), transforms.TypeCast("float32")])
    assert pickle.loads(pickle.dumps(operation))(INTEGERS).shape == (4, 5)


WRONG_VALUES = "OneHot(0) | OneHot(5, 2) | OneHot(5, -0.1) | RandomApply([abs], 2)"
WRONG_TYPES = (
    "OneHot(1.5) | OneHot(True) | OneHot('5') | OneHot(5, 'a') | Fill(None) | Fill([1]) | Concatenate('a') | "
    "RandomApply([abs], 'a') | Mask(Relational.EQ, None) | Mask(Relational.EQ, 2, 'abc') | PadEnd(6)"
)


@pytest.mark.parametrize("operation", WRONG_VALUES.split(" | ") + WRONG_TYPES.split(" | "))
def test_wrong_arguments(operation: str) -> None:
    names = {name: getattr(transforms, name) for name in transforms.__all__}
    with pytest.raises(GraphValueError if operation in WRONG_VALUES else GraphTypeError, match=r"script\.py:1"):
        eval(compile(operation, "script.py", "eval"), names)
