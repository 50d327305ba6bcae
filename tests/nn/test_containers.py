"""Naming of parameters, and containers of cells."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops

X = np.ones((2, 3), np.float32)


def dense() -> nn.Dense:
    return nn.Dense(3, 3, has_bias=False)


def names(cell: nn.Cell) -> list[str]:
    return [p.name for p in cell.get_parameters()]


class Top(nn.Cell):
    def __init__(self, **cells: Any) -> None:
        super().__init__()
        for name, cell in cells.items():
            setattr(self, name, cell)


def test_children_are_numbered() -> None:
    sequence = nn.SequentialCell(dense(), nn.ReLU(), dense())
    assert names(sequence) == ["0.weight", "2.weight"]
    assert names(Top(net=sequence)) == ["net.0.weight", "net.2.weight"]
    assert names(nn.SequentialCell([dense(), dense()])) == ["0.weight", "1.weight"]
    assert names(nn.CellList([dense(), dense()])) == ["0.weight", "1.weight"]


def test_append_and_insert() -> None:
    first, second, third = dense(), dense(), dense()
    sequence = nn.SequentialCell(first)
    assert sequence.append(third) is sequence
    sequence.insert(1, second)
    assert list(sequence) == [first, second, third]
    assert [c.weight.name for c in (first, second, third)] == ["0.weight", "1.weight", "2.weight"]
    cells = nn.CellList([first]).extend([second])
    cells.insert(0, third)
    cells.insert(-1, dense())
    assert len(cells) == 4 and cells[0] is third and cells[-1] is second
    assert names(cells) == ["0.weight", "1.weight", "2.weight", "3.weight"]


def test_ordered_dict_and_cell_dict_use_keys() -> None:
    ordered = nn.SequentialCell(OrderedDict([("a", dense()), ("b", dense())]))
    assert names(Top(seqd=ordered)) == ["seqd.a.weight", "seqd.b.weight"]
    cells = nn.CellDict({"k1": dense(), "k2": nn.ReLU()})
    assert names(Top(cd=cells)) == ["cd.k1.weight"]
    assert list(cells.keys()) == ["k1", "k2"] and "k1" in cells and len(cells) == 2
    assert [type(c) for c in cells.values()] == [nn.Dense, nn.ReLU]
    assert [k for k, _ in cells.items()] == list(cells)


def test_indexing_and_slicing() -> None:
    sequence = nn.SequentialCell(dense(), dense(), dense())
    Top(net=sequence)
    part = sequence[1:]
    assert type(part) is nn.SequentialCell and list(part) == list(sequence)[1:]
    assert names(sequence) == ["net.0.weight", "net.1.weight", "net.2.weight"], "a slice does not rename"
    assert sequence[-1] is sequence[2]
    sequence[1] = new = dense()
    assert sequence[1] is new and new.weight.name == "net.1.weight"
    del sequence[0]
    assert names(sequence) == ["net.0.weight", "net.1.weight"]
    del sequence[:]
    assert len(sequence) == 0 and sequence and sequence.cells() == []


def test_cell_dict_changes() -> None:
    cells = nn.CellDict([("a", dense())])
    kept = cells["a"]
    cells["b"] = nn.ReLU()
    cells.update({"a": nn.Tanh()})
    assert cells["a"] is not kept and isinstance(cells.pop("b"), nn.ReLU)
    del cells["a"]
    assert not list(cells)
    cells.update(nn.CellDict({"c": nn.ReLU()}))
    cells.clear()
    assert len(cells) == 0


def test_containers_run() -> None:
    sequence = nn.SequentialCell(dense(), nn.ReLU(), dense())
    first, second = sequence[0].weight.asnumpy(), sequence[2].weight.asnumpy()
    expected = np.maximum(X @ first.T, 0) @ second.T
    np.testing.assert_allclose(sequence(X).asnumpy(), expected, rtol=1e-5)
    np.testing.assert_allclose(sequence[:2](X).asnumpy(), np.maximum(X @ first.T, 0), rtol=1e-5)

    class Holder(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.CellList(list(sequence))
            self.named = nn.CellDict({"relu": nn.ReLU()})

        def construct(self, x: Any) -> Any:
            for layer in self.layers:
                x = self.named["relu"](layer(x))
            return x

    np.testing.assert_allclose(Holder()(X).asnumpy(), np.maximum(expected, 0), rtol=1e-5)


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("flag", [1.0, -1.0])
def test_a_flag_of_the_graph_chooses_among_cells_of_a_dict(flag: float, backend: str) -> None:
    class Chooses(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.cells = nn.CellDict({"a": dense(), "b": nn.SequentialCell(dense(), nn.ReLU())})

        def construct(self, x: Any, flag: Any) -> Any:
            if flag > 0:
                first = self.cells["a"](x)
            else:
                first = self.cells["b"](x)
            second = ops.cond(flag > 0, lambda: self.cells["a"](x), lambda: self.cells["b"](x))
            return first, second

    cell, p = Chooses(), graphls.Tensor(flag)
    expected = cell.cells["a" if flag > 0 else "b"](X).asnumpy()
    for found in graphls.compile(cell, X, p, backend=backend)(X, p):
        np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_container_that_changed_is_compiled_again() -> None:
    sequence = nn.SequentialCell(nn.ReLU())
    assert sequence(-X).asnumpy().max() == 0
    sequence.append(nn.Sigmoid())
    assert sequence(-X).asnumpy().max() == 0.5
    del sequence[0]
    np.testing.assert_allclose(sequence(-X).asnumpy(), 1 / (1 + np.e), rtol=1e-5)


def test_a_shared_cell_is_named_by_its_last_attribute() -> None:
    shared = dense()
    top = Top(a=shared, b=shared)
    assert names(top) == ["b.weight"]
    assert [n for n, _ in top.cells_and_names()] == ["", "a"]


def test_lists_of_cells_are_not_registered() -> None:
    top = Top()
    top.layers = [dense()]
    assert names(top) == []


WRONG: list[Any] = [
    (lambda: nn.CellList(["x"]), TypeError, "holds cells"),
    (lambda: nn.SequentialCell(dense(), 3), TypeError, "holds cells"),
    (lambda: nn.SequentialCell(dense()).append(None), TypeError, "holds cells"),
    (lambda: nn.CellList([dense()]).insert(3, dense()), IndexError, "no index 3"),
    (lambda: nn.CellList([dense()]).insert("a", dense()), TypeError, "integer"),
    (lambda: nn.CellList([dense()]).extend(3), TypeError, "iterable"),
    (lambda: nn.SequentialCell(dense())[1], IndexError, "no cell 1"),
    (lambda: nn.SequentialCell(dense())["0"], TypeError, "integers and slices"),
    (lambda: nn.CellDict({1: dense()}), TypeError, "string"),
    (lambda: nn.CellDict({"a.b": dense()}), KeyError, "no dot"),
    (lambda: nn.CellDict({"": dense()}), KeyError, "not empty"),
    (lambda: nn.CellDict({"keys": dense()}), KeyError, "attribute"),
    (lambda: nn.CellDict({"training": dense()}), KeyError, "attribute"),
    (lambda: nn.CellDict({"a": 1}), TypeError, "holds cells"),
    (lambda: nn.CellDict(3), TypeError, "mapping or pairs"),
    (lambda: nn.CellDict(["abc"]), TypeError, "mapping or pairs"),
    (lambda: nn.CellDict()["a"], KeyError, "no cell 'a'"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_containers.py")


class Fully(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(2, 2, has_bias=False)


class Deep(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.CellList([Fully()])


# The container with its first cells, those that come later, and what MindSpore 2.10 then calls the parameters.
NAMES_OF_LATER: dict[str, tuple[Callable[[], Any], list[Any], str]] = {
    "none": (lambda: nn.CellList(), [Fully, Fully], "0.fc 1.fc"),
    "one": (lambda: nn.CellList([Fully()]), [Fully, Fully], "s.0.fc s.1.fc s.2.fc"),
    "one without parameters": (lambda: nn.SequentialCell(nn.ReLU(), Fully()), [Fully], "s.1.fc s.2.fc"),
    "none, then deep ones": (lambda: nn.SequentialCell(), [Deep] * 3, "0.blocks.0.fc 0.blocks.1.blocks.0.fc "
                             "0.blocks.2.blocks.0.fc"),
    "two deep ones": (lambda: nn.CellList([Deep(), Deep()]), [Deep], "s.0.blocks.0.fc s.1.blocks.0.fc s.2.blocks.0.fc"),
}  # fmt: skip


@pytest.mark.parametrize("case", NAMES_OF_LATER)
def test_cells_that_come_later_are_named_as_in_checkpoints_of_mindspore(case: str) -> None:
    first, later, names = NAMES_OF_LATER[case]
    net: Any = nn.Cell()
    net.s = first()
    for kind in later:
        net.s.append(kind())
    assert [p.name.removesuffix(".weight") for p in net.get_parameters()] == names.split()


def test_containers_that_change_keep_what_stands_before_the_numbers() -> None:
    net: Any = nn.Cell()
    net.s = nn.CellList([Fully(), Fully(), Fully()])
    net.s.insert(1, Deep())
    del net.s[0]
    net.t = nn.CellList([Fully()])
    net.t.extend([Deep(), Fully()])
    net.t[0] = Fully()
    assert [p.name.removesuffix(".weight") for p in net.get_parameters()] == [
        "s.0.blocks.0.fc", "s.1.fc", "s.2.fc", "t.0.fc", "t.1.blocks.0.fc", "t.2.fc",
    ]  # fmt: skip
