"""save_checkpoint, load_checkpoint and load_param_into_net: what they take, give and refuse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.frontend.tensors.random import random_state
from graphls.ir.errors import GraphFileError, GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.ir.types import DTYPES, as_dtype
from graphls.train import background
from graphls.train.serialization import (
    load_checkpoint,
    load_checkpoint_async,
    load_param_into_net,
    save_checkpoint,
)

F32 = np.float32
FORMATS = ("ckpt", "safetensors")
BACKENDS = ("numpy", "onnxruntime")


class Net(nn.Cell):
    def __init__(self, value: float = 1.0, dtype: Any = F32) -> None:
        super().__init__()
        self.weight = graphls.Parameter(np.full((2, 3), value, dtype), name="weight")
        self.bias = graphls.Parameter(np.zeros(3, dtype), name="bias")

    def construct(self, x: Any) -> Any:
        return ops.add(ops.matmul(x, self.weight), self.bias)


class Outer(nn.Cell):
    def __init__(self, value: float = 1.0) -> None:
        super().__init__()
        self.net = Net(value)

    def construct(self, x: Any) -> Any:
        return self.net(x)


def arrays(found: dict[str, Any]) -> dict[str, Any]:
    return {name: p.asnumpy().tolist() for name, p in found.items()}


@pytest.mark.parametrize("format", FORMATS)
def test_a_cell_a_dict_and_a_list_give_the_same_file(tmp_path: Path, format: str) -> None:
    net = Net(2.5)
    save_checkpoint(net, f"{tmp_path}/cell", format=format)
    save_checkpoint(net.parameters_dict(), f"{tmp_path}/dict.{format}", format=format)
    items = [{"name": p.name, "data": p.asnumpy()} for p in net.get_parameters()]
    save_checkpoint(items, tmp_path / "list", format=format)
    files = [(tmp_path / f"{name}.{format}").read_bytes() for name in ("cell", "dict", "list")]
    assert files[0] == files[1] == files[2]
    found = load_checkpoint(f"{tmp_path}/cell.{format}", format=format)
    assert arrays(found) == {"weight": [[2.5] * 3] * 2, "bias": [0.0] * 3}
    assert all(isinstance(p, graphls.Parameter) and p.name == name for name, p in found.items())


@pytest.mark.parametrize("format", FORMATS)
def test_every_kind_of_value_comes_back(tmp_path: Path, format: str) -> None:
    names = [dtype.long_name for dtype in DTYPES if dtype.kind != "token"]
    given = {name: np.arange(6).reshape(2, 3).astype(as_dtype(name).numpy) for name in names}
    given |= {"scalar": np.array(7.0, F32), "empty": np.zeros((0, 2), np.int8), "turned": np.ones((2, 3), F32).T}
    appended = {"epoch": 3, "rate": 0.5, "done": True, "note": "Größe", "state": graphls.Tensor([1, 2])}
    save_checkpoint(given, tmp_path / "a", append_dict=appended, format=format)
    found = load_checkpoint(tmp_path / f"a.{format}")
    assert found.pop("note") == "Größe"
    for name, array in given.items():
        value = found[name].asnumpy()
        assert (value.dtype, value.shape, value.tobytes()) == (array.dtype, array.shape, array.tobytes())
    types = {name: str(found[name].type) for name in ("epoch", "rate", "done", "state")}
    assert types == {"epoch": "i64[]", "rate": "f32[]", "done": "bool[]", "state": "i64[2]"}


def test_the_ending_is_added_where_it_is_missing(tmp_path: Path) -> None:
    for name in ("a", "b.ckpt", "c.bin"):
        save_checkpoint(Net(), tmp_path / name)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.ckpt", "b.ckpt", "c.bin.ckpt"]


def test_a_choice_of_names(tmp_path: Path) -> None:
    file = tmp_path / "a.ckpt"
    save_checkpoint(Net(), file, choice_func=lambda name: name != "bias", append_dict={"bias.2": 1, "b": 2})
    assert list(load_checkpoint(file)) == ["weight", "bias.2", "b"]
    assert list(load_checkpoint(file, filter_prefix="w")) == ["bias.2", "b"]
    assert list(load_checkpoint(file, filter_prefix=["w", "bias"])) == ["b"]
    assert list(load_checkpoint(file, specify_prefix=("b",))) == ["bias.2", "b"]
    assert list(load_checkpoint(file, specify_prefix="b", filter_prefix="bias")) == ["b"]
    assert list(load_checkpoint(file, choice_func=lambda name: name == "b")) == ["b"]
    with pytest.raises(GraphValueError, match="parameter dict is empty"):
        load_checkpoint(file, specify_prefix="other")


def test_appended_values_win(tmp_path: Path) -> None:
    save_checkpoint({"a": 1, "b": 2}, tmp_path / "a", append_dict={"a": 5})
    assert arrays(load_checkpoint(tmp_path / "a.ckpt")) == {"b": 2, "a": 5}


def test_the_checksum(tmp_path: Path) -> None:
    file = tmp_path / "a.ckpt"
    save_checkpoint(Net(), file, crc_check=True)
    assert arrays(load_checkpoint(file, crc_check=True)) == arrays(load_checkpoint(file))
    data = bytearray(file.read_bytes())
    data[30] ^= 1
    file.write_bytes(data)
    with pytest.raises(GraphValueError, match=r"Failed to read the checkpoint file .*: the crc check is failed"):
        load_checkpoint(file, crc_check=True)
    save_checkpoint(Net(), file)
    with pytest.warns(UserWarning, match="no crc"):
        load_checkpoint(file, crc_check=True)


@pytest.mark.parametrize("format", FORMATS)
def test_damaged_and_missing_files(tmp_path: Path, format: str) -> None:
    file = tmp_path / f"a.{format}"
    with pytest.raises(GraphValueError, match=r"a\.\w+ does not exist"):
        load_checkpoint(str(file))
    save_checkpoint(Net(), file, format=format)
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(GraphValueError, match="Failed to read the checkpoint file") as caught:
        load_checkpoint(file)
    assert "test_save_and_load.py" in str(caught.value) and "\n" not in str(caught.value)
    file.unlink()
    file.mkdir()
    with pytest.raises(GraphValueError, match="does not exist"):
        load_checkpoint(file)


def test_safetensors_of_others(tmp_path: Path) -> None:
    """Other programs write other metadata; these are no entries."""
    import safetensors.numpy

    safetensors.numpy.save_file({"w": np.ones(2, F32)}, tmp_path / "a.safetensors", metadata={"format": "pt"})
    assert arrays(load_checkpoint(tmp_path / "a.safetensors")) == {"w": [1.0, 1.0]}
    save_checkpoint(Net(3.0), tmp_path / "b", format="safetensors")
    found = safetensors.numpy.load_file(tmp_path / "b.safetensors")
    assert {name: array.tolist() for name, array in found.items()} == {"weight": [[3.0] * 3] * 2, "bias": [0.0] * 3}


def test_without_the_package_safetensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_checkpoint(Net(), tmp_path / "a", format="safetensors")
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(GraphRuntimeError, match=r'pip install "graphls\[train\]"'):
        save_checkpoint(Net(), tmp_path / "b", format="safetensors")
    with pytest.raises(GraphRuntimeError, match=r'pip install "graphls\[train\]"'):
        load_checkpoint(tmp_path / "a.safetensors")


WRONG_SAVES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"save_obj": 3}, GraphTypeError, "must be nn.Cell, list or dict"),
    ({"save_obj": [1]}, GraphValueError, "each element of the list"),
    ({"save_obj": [{"name": "a"}]}, GraphValueError, "each element of the list"),
    ({"save_obj": {3: np.ones(2)}}, GraphTypeError, "name of an entry is a string"),
    ({"save_obj": {"a": object()}}, GraphTypeError, "'a' is a object"),
    ({"save_obj": {"a": np.array(["x"])}}, GraphTypeError, "not a dtype"),
    ({"ckpt_file_name": 3}, GraphTypeError, "'ckpt_file_name' must be string"),
    ({"ckpt_file_name": ""}, GraphValueError, "not the name of a file"),
    ({"ckpt_file_name": "a\0b"}, GraphValueError, "not the name of a file"),
    ({"format": "pickle"}, GraphValueError, r"must be one of \['ckpt', 'safetensors', 'shards'\]"),
    ({"integrated_save": 1}, GraphTypeError, "integrated_save"),
    ({"async_save": "yes"}, GraphTypeError, "async_save"),
    ({"append_dict": [1]}, GraphTypeError, "'append_dict' must be dict"),
    ({"append_dict": {1: 1}}, GraphTypeError, "keys of 'append_dict'"),
    ({"append_dict": {"a": None}}, GraphTypeError, "'a' is a NoneType"),
    ({"enc_key": b"0" * 16}, GraphValueError, "does not offer encrypted files"),
    ({"enc_key": "0" * 16}, GraphTypeError, "a key is bytes"),
    ({"format": "safetensors", "crc_check": True}, GraphValueError, "crc_check"),
    ({"whatever": 1}, GraphTypeError, "no argument 'whatever'"),
]


@pytest.mark.parametrize(("options", "error", "text"), WRONG_SAVES)
def test_wrong_saves(tmp_path: Path, options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        save_checkpoint(**{"save_obj": Net(), "ckpt_file_name": f"{tmp_path}/a", **options})
    assert isinstance(caught.value, graphls.GraphlsError) and not list(tmp_path.iterdir())


def test_wrong_loads(tmp_path: Path) -> None:
    file = tmp_path / "a.ckpt"
    save_checkpoint(Net(), file)
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"ckpt_file_name": 3}, GraphTypeError, "must be string"),
        ({"ckpt_file_name": "a.bin"}, GraphValueError, r"should end with '\.ckpt'"),
        ({"filter_prefix": 3}, GraphTypeError, "'filter_prefix' must be str"),
        ({"specify_prefix": [3]}, GraphTypeError, "'specify_prefix' must be str"),
        ({"filter_prefix": ""}, GraphValueError, "can't be or include ''"),
        ({"filter_prefix": []}, GraphValueError, "can't be or include ''"),
        ({"dec_key": b"x"}, GraphValueError, "does not offer encrypted files"),
        ({"format": "pt"}, GraphValueError, "must be one of"),
        ({"crc_check": 1}, GraphTypeError, "crc_check"),
        ({"net": 3}, GraphTypeError, "should be a Cell"),
        ({"net": Net(), "strict_load": 1}, GraphTypeError, "strict_load"),
    ]
    for options, error, text in wrong:
        with pytest.raises(error, match=text):
            load_checkpoint(**{"ckpt_file_name": file, **options})


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_compiled_step_goes_on_with_what_is_loaded(tmp_path: Path, backend: str) -> None:
    save_checkpoint(Net(4.0), tmp_path / "a")
    net, x = Net(1.0), np.ones((1, 2), F32)
    step = graphls.compile(net, x, backend=backend)
    assert step(x).tolist() == [[2.0] * 3]
    assert load_param_into_net(net, load_checkpoint(tmp_path / "a.ckpt")) == ([], [])
    assert step(x).tolist() == [[8.0] * 3]


def test_names_that_are_missing_on_either_side() -> None:
    values = {"weight": graphls.Parameter(np.full((2, 3), 5, F32)), "other": graphls.Tensor([1.0])}
    net = Net()
    with pytest.warns(UserWarning, match=r"1 parameters of the network .*\['bias'\]"):
        assert load_param_into_net(net, values) == (["bias"], ["other"])
    assert net.weight.asnumpy().tolist() == [[5.0] * 3] * 2


def test_other_dtypes_and_shapes() -> None:
    half = {p.name: p for p in Net(0.1, np.float16).get_parameters()}
    net = Net()
    assert load_param_into_net(net, half) == ([], [])
    assert net.weight.dtype is graphls.float32 and net.weight.asnumpy()[0, 0] == F32(np.float16(0.1))
    with pytest.raises(GraphRuntimeError, match=r"bias.* the same type .*Float32.*Float16|weight.*the same type"):
        load_param_into_net(net, half, strict_load=True)
    extra = {"weight": graphls.Tensor(np.ones((2, 3, 1, 1), F32)), "bias": graphls.Tensor(np.ones(3, F32))}
    assert load_param_into_net(net, extra) == ([], [])
    wrong: tuple[Any, ...] = (np.ones((3, 2), F32), np.ones((2, 3, 2), F32), np.ones(6, F32), np.ones((2, 3), np.int32))
    for array in wrong:
        with pytest.raises(GraphRuntimeError, match="weight in the argument 'net' should have the same"):
            load_param_into_net(net, {"bias": graphls.Tensor(np.full(3, 7, F32)), "weight": graphls.Tensor(array)})
        assert net.bias.asnumpy().tolist() == [1.0] * 3, "nothing is loaded where something does not fit"
    with pytest.raises(GraphRuntimeError, match="is a string"):
        load_param_into_net(net, {"weight": "text"})
    for bad in ({3: net.weight}, {"weight": 3.0}):
        with pytest.raises(GraphTypeError, match="should be a 'str' and 'Parameter'"):
            load_param_into_net(net, bad)
    with pytest.raises(GraphTypeError, match="should be a dict"):
        load_param_into_net(net, [])  # type: ignore[arg-type]


def test_a_prefix_that_leads_to_all_that_is_missing() -> None:
    outer = Outer(6.0)
    optimizer = nn.Momentum(outer.trainable_params(), 0.1, 0.9)
    values = dict(nn.TrainOneStepCell(outer, optimizer).parameters_dict())
    net = Net()
    with pytest.warns(UserWarning, match=r"begin with 'net\.'"):
        missing, unused = load_param_into_net(net, values)
    assert missing == [] and "net.weight" not in unused and "moments.net.weight" in unused
    assert net.weight.asnumpy()[0, 0] == 6
    del values["net.bias"], values["moments.net.bias"]
    with pytest.warns(UserWarning, match="2 parameters"):
        assert load_param_into_net(Net(), values)[0] == ["weight", "bias"]
    with pytest.warns(UserWarning, match="2 parameters"):
        assert load_param_into_net(Net(), outer.parameters_dict(), strict_load=True)[0] == ["weight", "bias"]


def test_the_random_state_is_restored_with_an_optimizer_only() -> None:
    graphls.set_seed(5)
    net = Net()
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    values = {**net.parameters_dict(), **optimizer.parameters_dict()}
    values["random_state"] = graphls.Parameter(np.array([8, 9], np.int64))
    assert load_param_into_net(net, values)[1][-1] == "random_state"
    assert random_state().tolist() == [5, 0]
    assert "random_state" not in load_param_into_net(optimizer, values)[1]
    assert random_state().tolist() == [8, 9]
    values["random_state"] = graphls.Parameter(np.array([8, 9, 10], np.int64))
    with pytest.raises(GraphRuntimeError, match="random_state"):
        load_param_into_net(optimizer, values)
    graphls.set_seed(0)


def test_loading_on_a_thread(tmp_path: Path) -> None:
    save_checkpoint(Net(2.0), tmp_path / "a")
    assert arrays(load_checkpoint_async(tmp_path / "a.ckpt").result())["weight"] == [[2.0] * 3] * 2
    with pytest.raises(GraphValueError, match="does not exist"):
        load_checkpoint_async(str(tmp_path / "b.ckpt")).result()


def test_saving_on_a_thread_takes_the_values_of_now(tmp_path: Path) -> None:
    net = Net(1.0)
    for value in range(5):
        net.weight.set_data(np.full((2, 3), value, F32))
        save_checkpoint(net, tmp_path / str(value), async_save=True)
        net.weight.set_data(np.full((2, 3), -1, F32))
    found = [load_checkpoint(tmp_path / f"{value}.ckpt")["weight"].asnumpy()[0, 0] for value in range(5)]
    assert found == [0, 1, 2, 3, 4]


def test_an_error_on_the_thread_is_raised_by_the_next_save(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    save_checkpoint(Net(), tmp_path / "file" / "a", async_save=True)
    with pytest.raises(GraphFileError, match="cannot be written"):
        save_checkpoint(Net(), tmp_path / "b")
    assert not (tmp_path / "b.ckpt").exists()
    save_checkpoint(Net(), tmp_path / "b", async_save=True)
    background.settle()
    assert (tmp_path / "b.ckpt").exists()


AT_THE_END = """
import sys
import numpy as np
from graphls.train.serialization import save_checkpoint
for path in sys.argv[1:]:
    save_checkpoint({"w": np.zeros(2**20, np.float32)}, path, async_save=True)
"""


def test_a_process_ends_after_its_files_and_tells_of_errors(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-c", AT_THE_END, f"{tmp_path}/a", f"{tmp_path}/file/b"]
    run = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=600)
    assert load_checkpoint(tmp_path / "a.ckpt")["w"].shape == (2**20,)
    assert "GraphFileError" in run.stderr and "file/b.ckpt cannot be written" in run.stderr
