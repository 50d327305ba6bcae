"""Functions of functions: what MultitypeFuncGraph chooses, and what Map and HyperMap go through."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.ops import composite as C
from graphls.ops import functional as F
from graphls.ops import operations as P
from tests.ops.agree import agree

F32 = np.float32
A, B = np.arange(6, dtype=F32).reshape(2, 3), np.full((2, 3), 0.5, F32)
Pair = namedtuple("Pair", ["first", "second"])


def kinds() -> Any:
    """A function that names the kinds it was chosen for."""
    function = ops.MultitypeFuncGraph("kinds")
    for kind in ("Tensor", "Parameter", "Bool", "Int", "Float", "Number", "String", "Tuple", "List", "Dict", "None"):
        function.register(kind)(lambda _, kind=kind: kind)
    return function


@pytest.mark.parametrize(
    ("argument", "kind"),
    [
        (graphls.Tensor(A), "Tensor"),
        (A, "Tensor"),
        (graphls.Parameter(A), "Parameter"),
        (True, "Bool"),
        (3, "Int"),
        (3.0, "Float"),
        (2j, "Number"),
        ("a", "String"),
        ((1, 2), "Tuple"),
        (graphls.ParameterTuple([graphls.Parameter(A)]), "Tuple"),
        ([1], "List"),
        ({"a": 1}, "Dict"),
        (None, "None"),
    ],
)
def test_the_kind_of_an_argument_chooses(argument: Any, kind: str) -> None:
    assert kinds()(argument) == kind


def test_the_closest_kind_is_chosen_whatever_the_order() -> None:
    for order in (("Number", "Tensor", "Bool"), ("Bool", "Number", "Tensor")):
        function = ops.MultitypeFuncGraph("closest")
        for kind in order:
            function.register(kind)(lambda _, kind=kind: kind)
        assert [function(x) for x in (True, 1, 1.0, graphls.Tensor(1))] == ["Bool", "Number", "Number", "Tensor"]


def test_classes_are_kinds_and_the_number_of_arguments_counts() -> None:
    function = ops.MultitypeFuncGraph("by_class")
    function.register(nn.Cell)(lambda cell: "cell")
    function.register(nn.Dense)(lambda cell: "dense")
    function.register("Tensor", graphls.Tensor)(lambda x, y: "pair")
    function.register()(lambda: "nothing")
    assert [function(nn.ReLU()), function(nn.Dense(1, 1))] == ["cell", "dense"]
    assert [function(graphls.Tensor(1), graphls.Tensor(2)), function()] == ["pair", "nothing"]


def test_a_function_is_registered_in_place_of_another_and_stays_itself() -> None:
    function = ops.MultitypeFuncGraph("again")
    first = function.register("Int")(lambda x: x + 1)
    function.register("Int")(lambda x: x + 2)
    assert (first(1), function(1)) == (2, 3)


def halve(x: Any) -> Any:
    return x * 0.5


def test_hyper_map_goes_through_every_nest() -> None:
    parameters = graphls.ParameterTuple([graphls.Parameter(A, name="a"), graphls.Parameter(B, name="b")])
    agree(lambda x, y: ops.HyperMap()(halve, (x, [y, {"k": x}])), (A / 2, [B / 2, {"k": A / 2}]), A, B)
    agree(lambda x: ops.HyperMap(halve)(x), A / 2, A)
    agree(lambda x: ops.HyperMap(ops.add)(parameters, (x, x)), (A + A, B + A), A)
    nested = ops.HyperMap(lambda x: x)({"a": [1, (2,)], "p": Pair(3, 4), "e": ()})
    assert nested == {"a": [1, (2,)], "p": Pair(3, 4), "e": ()} and isinstance(nested["p"], Pair)
    assert isinstance(ops.HyperMap(halve)(parameters), tuple)


def test_map_goes_through_one_nest() -> None:
    assert ops.Map(len)(((1, 2), [3])) == (2, 1)
    assert ops.Map()(lambda x, y: x + y, [1, 2], (3, 4)) == [4, 6]
    assert ops.Map(abs)({"a": -1}) == {"a": 1}


@pytest.mark.parametrize("mapping", [ops.Map, ops.HyperMap])
def test_the_last_first_where_asked(mapping: Any) -> None:
    seen: list[int] = []
    assert mapping(lambda x: seen.append(x) or -x, reverse=True)((1, 2, 3)) == (-1, -2, -3)
    assert seen == [3, 2, 1]


def test_dicts_meet_by_key() -> None:
    assert ops.HyperMap()(lambda x, y: (x, y), {"a": 1, "b": 2}, {"b": 3, "a": 4}) == {"a": (1, 4), "b": (2, 3)}


def test_partial_gives_the_first_arguments() -> None:
    agree(lambda x: ops.partial(ops.sub, x)(1.0), A - 1, A)
    agree(lambda x: P.Partial()(ops.sub, x)(1.0), A - 1, A)
    scale = ops.MultitypeFuncGraph("scale")

    @scale.register("Number", "Tensor")
    def _scale(number: float, x: Any) -> Any:
        return x * number

    agree(lambda x, y: ops.HyperMap()(F.partial(scale, 3), (x, y)), (A * 3, B * 3), A, B)
    agree(lambda x, y: C.Map()(ops.Partial()(scale, 3), [x, y]), [A * 3, B * 3], A, B)


def test_a_mapping_is_a_part_of_a_cell() -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.hyper_map = C.HyperMap()
            self.sums = graphls.ParameterTuple([graphls.Parameter(A, name="a"), graphls.Parameter(B, name="b")])

        def construct(self, values: Any) -> Any:
            return self.hyper_map(F.partial(ops.assign_add), self.sums, values)

    for backend in ("numpy", "onnxruntime"):
        net = Net()
        step = graphls.compile(net, (A, B), backend=backend)
        found = step((A, B))
        assert [p.asnumpy().tolist() for p in net.sums] == [(A * 2).tolist(), (B * 2).tolist()]
        assert [t.asnumpy().tolist() for t in found] == [(A * 2).tolist(), (B * 2).tolist()]


WRONG: list[Any] = [
    (lambda: ops.MultitypeFuncGraph("f")(1), TypeError, "'f' has no function for .Int.; registered are none"),
    (lambda: kinds()(1, 2), TypeError, r"no function for \(Int, Int\); registered are \(Tensor\), "),
    (lambda: kinds()(slice(1)), TypeError, r"no function for \(Slice\)"),
    (lambda: kinds()(object()), TypeError, r"no function for \(object\)"),
    (lambda: ops.MultitypeFuncGraph("f").register("Tensr"), KeyError, "no kind 'Tensr'; did you mean 'Tensor'"),
    (lambda: ops.MultitypeFuncGraph("f").register(3), TypeError, "names of kinds and classes, not 3"),
    (lambda: ops.HyperMap(3), TypeError, "HyperMap takes a function, not 3"),
    (lambda: ops.HyperMap()(3, (1,)), TypeError, "takes a function and the sequences"),
    (lambda: ops.HyperMap(halve)(), TypeError, "takes a function and the sequences"),
    (lambda: ops.Map()(), TypeError, "takes a function and the sequences"),
    (lambda: ops.Map(halve)(3), TypeError, "Map takes sequences, not 3"),
    (lambda: ops.HyperMap(ops.add)((1, 2), (1,)), ValueError, "tuple of 2, tuple of 1"),
    (lambda: ops.HyperMap(ops.add)((1, 2), 3), ValueError, "tuple of 2, Int"),
    (lambda: ops.HyperMap(ops.add)(3, (1, 2)), ValueError, "Int, tuple of 2"),
    (lambda: ops.HyperMap(ops.add)({"a": 1}, {"b": 1}), ValueError, "one structure"),
    (lambda: ops.Map(ops.add)((1,), 3), ValueError, "one structure"),
    (lambda: ops.partial(3), TypeError, "partial takes a function"),
    (lambda: ops.Partial()(3), TypeError, "partial takes a function"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_composite.py")
