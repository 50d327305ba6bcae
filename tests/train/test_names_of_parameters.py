"""A weight is never lost: parameters of one name are an error before a byte is written, or get names of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Model, Parameter, ParameterTuple, load_checkpoint, load_param_into_net, nn, save_checkpoint
from graphls.train import CheckpointConfig, ModelCheckpoint

X, Y = np.ones((4, 2), np.float32), np.zeros((4, 2), np.float32)


class Filled(nn.Cell):
    """Two lists that are filled after they became attributes, beside a layer."""

    def __init__(self, lengths: tuple[int, int] = (2, 1)) -> None:
        super().__init__()
        self.first, self.second = nn.CellList(), nn.CellList()
        self.head = nn.Dense(2, 2)
        for cells, length in zip((self.first, self.second), lengths, strict=True):
            for _ in range(length):
                cells.append(nn.Dense(2, 2, has_bias=False))

    def construct(self, x: Any) -> Any:
        for cell in (*self.first, *self.second):
            x = cell(x)
        return self.head(x)


class Twins(nn.Cell):
    """Two weights of one name, which a user gave them."""

    def __init__(self) -> None:
        super().__init__()
        self.left = Parameter(np.ones(2, np.float32), name="w")
        self.right = Parameter(np.full(2, 2, np.float32), name="w")

    def construct(self, x: Any) -> Any:
        return x * self.left + self.right


def names(cell: nn.Cell) -> list[str]:
    return [parameter.name for parameter in cell.get_parameters()]


def test_lists_that_are_filled_late_have_the_names_of_mindspore_unless_these_collide() -> None:
    assert names(Filled((2, 0))) == ["0.weight", "1.weight", "head.weight", "head.bias"]
    both = ["first.0.weight", "first.1.weight", "second.0.weight", "head.weight", "head.bias"]
    assert names(Filled()) == both
    assert names(nn.SequentialCell(Filled())) == [f"0.{name}" for name in both]
    net = Filled()
    net.first.append(nn.Dense(2, 2, has_bias=False))
    assert "first.2.weight" in names(net)


def test_such_a_network_trains_and_its_checkpoint_has_every_weight(tmp_path: Path) -> None:
    net = Filled()
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Adam(net.trainable_params(), 0.1))
    step(graphls.Tensor(X), graphls.Tensor(Y))
    for format in ("ckpt", "safetensors"):
        save_checkpoint(net, tmp_path / "net", format=format)
        other = Filled()
        assert load_param_into_net(other, load_checkpoint(tmp_path / f"net.{format}")) == ([], [])
        for mine, its in zip(net.get_parameters(), other.get_parameters(), strict=True):
            np.testing.assert_array_equal(mine.asnumpy(), its.asnumpy())


def test_dicts_lists_in_lists_and_late_attributes_get_names_too() -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.CellDict(), nn.CellDict()
            self.nested = nn.CellList()
            self.x, self.y = nn.Cell(), nn.Cell()
            for part in (self.a, self.b):
                part["k"] = nn.Dense(1, 1, has_bias=False)
            for _ in range(2):
                self.nested.append(nn.CellList())
                self.nested[-1].append(nn.Dense(1, 1, has_bias=False))
            for cell in (self.x, self.y):
                cell.fc = nn.Dense(1, 1, has_bias=False)

    paths = [path for path, _ in Net().parameters_and_names()]
    assert names(Net()) == paths == [
        "a.k.weight", "b.k.weight", "nested.0.0.weight", "nested.1.0.weight", "x.fc.weight", "y.fc.weight",
    ]  # fmt: skip


def test_names_that_a_user_chose_or_that_networks_have_alone_stay() -> None:
    class Pair(nn.Cell):
        """As steps of adversarial networks hold theirs."""

        def __init__(self, left: nn.Cell, right: nn.Cell) -> None:
            super().__init__(auto_prefix=False)
            self.left, self.right = left, right

    nets = nn.Dense(1, 1), nn.Dense(1, 1)
    Pair(*nets)
    assert [names(net) for net in nets] == [["weight", "bias"]] * 2
    assert names(Twins()) == ["w", "w"]


Save = Callable[[Path], object]


def later() -> nn.Cell:
    """Lists that are filled after the network was made."""
    net = Filled((0, 0))
    net.first.append(nn.Dense(2, 2))
    net.second.append(nn.Dense(2, 2))
    return net


CELLS = r"first.0.weight' \(Dense of .*test_names_of_parameters.py:\d+\) and '.*second.0.weight' \(Dense of .* are both"
TWO = [{"name": "w", "data": np.ones(2)}, {"name": "w", "data": np.ones(2)}]
WRITERS: dict[str, tuple[Save, str]] = {
    "cell": (lambda path: save_checkpoint(Twins(), path / "a"), r"'left' \(Twins of .*\) and 'right' \(Twins of .*'w'"),
    "late cell": (lambda path: save_checkpoint(later(), path / "a"), CELLS),
    "safetensors": (lambda path: save_checkpoint(later(), path / "a", format="safetensors"), CELLS),
    "async": (lambda path: save_checkpoint(later(), path / "a", async_save=True), CELLS),
    "dict": (lambda path: save_checkpoint(later().parameters_dict(), path / "a"), CELLS),
    "list": (
        lambda path: save_checkpoint(TWO, path / "a"),
        "Two elements of the list are called 'w'",
    ),
    "append_dict": (
        lambda path: save_checkpoint(nn.Dense(2, 2), path / "a", append_dict={"weight": 1}),
        "An entry of append_dict is called 'weight' as a weight is",
    ),
    "callback": (lambda path: run(later(), path), CELLS),
    "optimizer": (lambda path: nn.Adam(later().trainable_params()), "'0.weight' already exists.*name all by their"),
}  # fmt: skip


def run(net: nn.Cell, path: Path) -> None:
    parameters = list(net.first.get_parameters())
    model = Model(net, nn.MSELoss(), nn.SGD(parameters, 0.1))
    model.train(1, [(X, Y)] * 2, callbacks=[ModelCheckpoint("net", path, CheckpointConfig(2))])


@pytest.mark.parametrize("writer", WRITERS)
def test_every_writer_refuses_two_parameters_of_one_name_before_a_byte_is_written(writer: str, tmp_path: Path) -> None:
    save, text = WRITERS[writer]
    with pytest.raises(ValueError, match=text):
        save(tmp_path)
    graphls.train.background.settle()
    assert not list(tmp_path.iterdir())


def test_the_advice_of_the_error_works(tmp_path: Path) -> None:
    net = later()
    for path, parameter in net.parameters_and_names():
        parameter.name = path
    save_checkpoint(net, tmp_path / "a")
    assert len(load_checkpoint(tmp_path / "a.ckpt")) == 6


def test_one_parameter_in_two_places_is_one_entry(tmp_path: Path) -> None:
    shared = nn.Dense(2, 2)
    net = nn.SequentialCell(shared, nn.ReLU(), shared)
    save_checkpoint(net, tmp_path / "a")
    entry = {"name": "w", "data": net[0].weight}
    save_checkpoint([entry, dict(entry)], tmp_path / "b")
    assert list(load_checkpoint(tmp_path / "b.ckpt")) == ["w"]


def test_a_choice_of_names_may_leave_twins_out(tmp_path: Path) -> None:
    save_checkpoint(Twins(), tmp_path / "a", choice_func=lambda name: name != "w", append_dict={"n": 1})
    assert list(load_checkpoint(tmp_path / "a.ckpt")) == ["n"]


def test_exports_and_models_hold_both_twins(tmp_path: Path) -> None:
    import onnxruntime

    net = Twins()
    graphls.export(net, X, file_name=str(tmp_path / "net.onnx"), file_format="ONNX")
    (y,) = onnxruntime.InferenceSession(tmp_path / "net.onnx").run(None, {"x": X})
    np.testing.assert_array_equal(y, X + 2)
    step = graphls.compile(net, X)
    step.export(tmp_path / "bundle", predict=False)
    again = graphls.load_step(tmp_path / "bundle")
    assert sorted(p.asnumpy()[0] for p in again.parameters.values()) == [1, 2]
    save_checkpoint(again.parameters, tmp_path / "states")
    assert len(load_checkpoint(tmp_path / "states.ckpt")) == 2


def test_an_entry_for_two_parameters_is_warned_of() -> None:
    net = Twins()
    with pytest.warns(UserWarning, match="Several parameters of the network are called 'w' and get the same values"):
        load_param_into_net(net, {"w": Parameter(np.zeros(2, np.float32))})


def test_tuples_of_a_cell_refuse_twins_as_well() -> None:
    with pytest.raises(ValueError, match="already exists"):
        ParameterTuple(Twins().get_parameters())
