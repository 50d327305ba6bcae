"""Networks with weights of PyTorch give what PyTorch gave; see record.py for the files."""

from __future__ import annotations

import json
import shutil
import warnings
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.interop.formats import safetensors as safetensors_format
from graphls.interop.formats import torch as torch_format
from graphls.interop.torch import Report, load_state_dict, save_state_dict, state_dict
from tests.interop.networks import NETWORKS, BertOfOurs, Gpt

FILES = Path(__file__).parent / "files"
OUTPUTS = np.load(FILES / "outputs.npz")


def file_of(case: str) -> Path:
    return FILES / case if (FILES / case).is_dir() else FILES / f"{case}.safetensors"


def recorded(case: str) -> dict[str, Any]:
    """The weights in a file."""
    path = file_of(case)
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    entries = [safetensors_format.decode(file.read_bytes()) for file in files]
    return {name: array for each in entries for name, array in each.items()}


def check_outputs(net: nn.Cell, case: str) -> None:
    inputs = [OUTPUTS[name] for name in sorted(OUTPUTS.files) if name.startswith(f"{case}.x")]
    np.testing.assert_allclose(net.set_train(False)(*inputs).asnumpy(), OUTPUTS[f"{case}.y"], rtol=2e-5, atol=2e-5)


def values(net: nn.Cell) -> list[np.ndarray]:
    return [parameter.asnumpy() for parameter in net.get_parameters()]


@pytest.mark.parametrize("case", NETWORKS)
def test_weights_of_torch_give_the_outputs_of_torch(case: str) -> None:
    net = NETWORKS[case]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = load_state_dict(net, file_of(case))
    assert not report.missing and not report.unused
    check_outputs(net, case)


BACK: dict[str, dict[str, Any]] = {
    "gpt2": {"rename": {r"^(?!lm_head)": "transformer."}, "transposed": r"\.c_(attn|proj|fc)\.weight$"},
    **{case: {"rename": {r"^cell\.": ""}} for case in ("attention", "attention_apart", "lstm", "gru", "rnn")},
}


@pytest.mark.parametrize("case", NETWORKS)
def test_the_way_back_has_the_names_and_layouts_of_torch(case: str, tmp_path: Path) -> None:
    net = NETWORKS[case]()
    load_state_dict(net, file_of(case))
    save_state_dict(net, tmp_path / "back.safetensors", **BACK.get(case, {}))
    data = (tmp_path / "back.safetensors").read_bytes()
    assert safetensors_format.metadata(data) == {"format": "pt"}
    given, wanted = safetensors_format.decode(data), recorded(case)
    if case == "gpt2":  # whose files leave out the head, which is the embedding
        np.testing.assert_array_equal(given.pop("lm_head.weight"), wanted["transformer.wte.weight"])
    # PyTorch counts batches itself where a file does not.
    wanted = {name: array for name, array in wanted.items() if not name.endswith("num_batches_tracked")}
    assert given.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(given[name], array)


def test_projections_that_are_joined_in_the_file_and_separate_in_the_network() -> None:
    net = Gpt(is_joined=False)
    report = load_state_dict(net, file_of("gpt2"))
    check_outputs(net, "gpt2")
    changed = {each.parameter: each.changes for each in report.loaded}
    assert changed["h.0.attn.k_proj.weight"] == ("transposed", "rows 8 to 15")
    assert changed["h.0.attn.v_proj.bias"] == ("rows 16 to 23",)
    assert changed["h.0.attn.c_proj.weight"] == ("transposed",)  # square, as the other c_proj shows


def test_a_network_with_other_names_takes_renamed_weights() -> None:
    net = BertOfOurs()
    rename = {
        r"^encoder\.layer\.": "encoder.layers.",
        r"attention\.self\.": "self_attn.",
        r"attention\.output\.dense": "self_attn.out_proj",
        r"attention\.output\.LayerNorm": "norm1",
        r"intermediate\.dense": "linear1",
        r"(layers\.\d+)\.output\.dense": r"\1.linear2",
        r"(layers\.\d+)\.output\.LayerNorm": r"\1.norm2",
        r"pooler\.dense": "pooler",
    }
    report = load_state_dict(net, file_of("bert"), rename=rename)
    check_outputs(net, "bert")
    first = next(each for each in report.loaded if each.parameter == "encoder.layers.0.self_attn.in_proj_weight")
    assert first.changes == ("joined",) and len(first.tensors) == 3


@pytest.mark.parametrize("prefix", ["module.", "model.", "_orig_mod.", "module._orig_mod."])
def test_a_beginning_that_all_names_have_is_none(prefix: str) -> None:
    weights = {prefix + name: array for name, array in recorded("norms").items()}
    net = NETWORKS["norms"]()
    load_state_dict(net, weights)
    check_outputs(net, "norms")
    outer = nn.SequentialCell(net, nn.ReLU())
    load_state_dict(outer, recorded("norms"))
    back = state_dict(outer)
    assert "0.batch.running_mean" in back and "0.plain.weight" not in back


def test_weights_that_are_one_tensor() -> None:
    weights = recorded("gpt2")
    apart = Gpt(is_tied=False)
    with pytest.raises(ValueError, match=r"no tensors for 1 parameter, 'lm_head.weight'") as raised:
        load_state_dict(apart, weights)
    assert "if the model ties them, give tied={'lm_head.weight': 'transformer.wte.weight'}" in str(raised.value)
    load_state_dict(apart, weights, tied={"lm_head.weight": "transformer.wte.weight"})
    check_outputs(apart, "gpt2")
    with pytest.raises(ValueError, match=r"'lm_head.weight' is tied to 'wte.weight', which is not among"):
        load_state_dict(apart, weights, tied={"lm_head.weight": "wte.weight"})
    both = {**weights, "lm_head.weight": weights["transformer.wte.weight"]}
    load_state_dict(Gpt(), both)
    both["lm_head.weight"] = both["lm_head.weight"] + 1
    with pytest.raises(ValueError, match=r"'transformer.wte.weight' and 'lm_head.weight' differ"):
        load_state_dict(Gpt(), both)


def test_what_safetensors_left_out_because_it_is_the_same(tmp_path: Path) -> None:
    arrays = {name: array for name, array in recorded("gpt2").items() if name != "lm_head.weight"}
    data = safetensors_format.encode(arrays, {"lm_head.weight": "transformer.wte.weight"})
    (tmp_path / "model.safetensors").write_bytes(data)
    net = Gpt(is_tied=False)
    load_state_dict(net, tmp_path)
    check_outputs(net, "gpt2")


@pytest.mark.parametrize("case", NETWORKS)
def test_a_file_like_another_is_that_file(case: str, tmp_path: Path) -> None:
    net = NETWORKS[case]()
    load_state_dict(net, file_of(case))
    weights = recorded(case)
    save_state_dict(net, tmp_path / "like.safetensors", like=file_of(case))
    again = safetensors_format.decode((tmp_path / "like.safetensors").read_bytes())
    assert set(again) == set(weights)
    for name, array in weights.items():
        np.testing.assert_array_equal(again[name], array, err_msg=name)
        assert (again[name].dtype, again[name].shape) == (array.dtype, array.shape)


class Conv1D:
    """Stands for the class of Hugging Face whose weights are (inputs, outputs)."""


class Module:
    """What is read of a module of PyTorch: names of tensors, of which some are one, and classes of parts."""

    def __init__(self, arrays: dict[str, Any], transposed: tuple[str, ...] = ()) -> None:
        self.arrays, self.transposed = arrays, transposed

    def state_dict(self) -> dict[str, Any]:
        return self.arrays

    def named_parameters(self, remove_duplicate: bool) -> Any:
        return self.arrays.items()

    def named_buffers(self, remove_duplicate: bool) -> Any:
        return ()

    def named_modules(self) -> Any:
        return [("", self), *((path, Conv1D()) for path in self.transposed)]


def test_a_file_like_a_module_has_its_ties_layouts_and_dtypes(tmp_path: Path) -> None:
    path = tmp_path / "like.safetensors"
    weights = recorded("gpt2")
    head = weights["transformer.wte.weight"]
    paths = [name.removesuffix(".weight") for name in weights if ".c_" in name and name.endswith(".weight")]
    # Without biases only the classes of the module say that square matrices are (inputs, outputs).
    module = Module({**weights, "lm_head.weight": head}, tuple(paths))
    net = Gpt()
    load_state_dict(net, module)
    check_outputs(net, "gpt2")
    save_state_dict(net, path, like=module)
    again = safetensors_format.decode(path.read_bytes())
    np.testing.assert_array_equal(again["lm_head.weight"], head)
    for name, array in weights.items():
        np.testing.assert_array_equal(again[name], array, err_msg=name)
    square = nn.SequentialCell(nn.Dense(3, 3, has_bias=False))
    matrix = np.arange(9, dtype=np.float16).reshape(3, 3)
    load_state_dict(square, Module({"0.weight": matrix}, ("0",)))
    np.testing.assert_array_equal(square[0].weight.asnumpy(), matrix.T)
    save_state_dict(square, path, like=Module({"0.weight": matrix}, ("0",)))
    saved = safetensors_format.decode(path.read_bytes())["0.weight"]
    np.testing.assert_array_equal(saved, matrix)
    assert saved.dtype == np.float16


def test_projections_are_saved_as_the_model_has_them(tmp_path: Path) -> None:
    """Separate ones as joined ones, which are transposed as well, and the other way round."""
    path, weights = tmp_path / "like.safetensors", recorded("gpt2")
    net = Gpt(is_joined=False)
    load_state_dict(net, weights)
    save_state_dict(net, path, like={name: np.zeros_like(array) for name, array in weights.items()})
    again = safetensors_format.decode(path.read_bytes())
    for name, array in weights.items():
        np.testing.assert_array_equal(again[name], array, err_msg=name)
    joined = nn.SequentialCell(nn.CellDict({"c_attn": nn.Dense(4, 12)}))
    kinds = ("weight", (4, 4)), ("bias", (4,))
    separate = {f"0.{q}_proj.{kind}": np.zeros(shape) for q in "qkv" for kind, shape in kinds}
    save_state_dict(joined, path, like=separate)
    again = safetensors_format.decode(path.read_bytes())
    for kind in ("weight", "bias"):
        rows = np.concatenate([again[f"0.{q}_proj.{kind}"] for q in "qkv"])
        np.testing.assert_array_equal(rows, getattr(joined[0]["c_attn"], kind).asnumpy())


def test_a_model_of_another_structure_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "like.safetensors"
    net = nn.SequentialCell(nn.Dense(2, 3))
    arrays = {"0.weight": np.ones((3, 2), np.float32), "0.bias": np.ones(3, np.float32)}
    cases: list[tuple[dict[str, Any], str]] = [
        ({"like": {"0.weight": arrays["0.weight"]}}, r"it has nothing for '0\.bias'"),
        ({"like": {**arrays, "1.weight": np.ones(3)}}, r"no parameter is '1\.weight'"),
        ({"like": {**arrays, "0.bias": np.ones(4)}}, r"'0\.bias' has the shape \(3,\) and '0\.bias' of the model"),
        ({"like": arrays, "transposed": "0"}, r"takes no rename= and no transposed="),
        ({"like": 3}, "a file, a folder, or a dict of tensors"),
    ]
    for options, message in cases:
        with pytest.raises(graphls.GraphlsError, match=message):
            save_state_dict(net, path, **options)
    assert not path.exists()


def test_a_report_is_a_table() -> None:
    net = NETWORKS["norms"]()
    weights = {**recorded("norms"), "head.weight": np.ones((2, 5), np.float32)}
    del weights["rms.weight"]
    report = load_state_dict(net, weights, strict=False)
    assert isinstance(report, Report) and report.missing == ("rms.gamma",) and report.unused == ("head.weight",)
    assert report.ignored == ("batch.num_batches_tracked", "plain.num_batches_tracked")
    lines = str(report).splitlines()
    assert lines[0] == "Loaded from the dict: 12 parameters."
    assert lines[1] == "Not loaded: 1 parameter, rms.gamma."
    assert any(line.split() == ["batch.moving_mean", "batch.running_mean", "(4,)"] for line in lines)
    assert "batch.running_mean" in report._repr_html_()


def test_masks_are_no_weights_and_a_bias_is_one() -> None:
    weights = {**recorded("gpt2"), "transformer.h.0.attn.bias": np.ones((1, 1, 8, 8), bool)}
    assert load_state_dict(Gpt(), weights).ignored == ("transformer.h.0.attn.bias",)
    weights["transformer.h.0.attn.bias"] = np.ones(8, np.float32)
    with pytest.raises(ValueError, match=r"no parameter takes 1 of its tensors, 'transformer\.h\.0\.attn\.bias'"):
        load_state_dict(Gpt(), weights)


def test_strict_names_both_sides_and_the_nearest_and_changes_nothing() -> None:
    net = nn.SequentialCell(nn.Dense(6, 5), nn.Dense(5, 4))
    before = values(net)
    weights = {"0.weight": np.ones((5, 6)), "0.bias": np.ones(5), "fc1.weight": np.ones((4, 5)), "1.bias": np.ones(4)}
    expected = r"no tensors for 1 parameter, '1.weight' \(the nearest is 'fc1.weight'\); no parameter takes 1 of its"
    with pytest.raises(graphls.GraphlsError, match=expected) as raised:
        load_state_dict(net, weights)
    assert "test_torch.py" in str(raised.value)
    for old, new in zip(before, values(net), strict=True):
        np.testing.assert_array_equal(old, new)
    load_state_dict(net, weights, rename={r"^fc1": "1"})
    assert all((value == 1).all() for value in values(net))


WRONG: dict[str, Any] = {
    r"'weight' has the shape \(3, 2\) and 'weight' has \(2, 2\)": {"weight": np.ones((2, 2)), "bias": np.ones(3)},
    r"transposes fit: transposed=r'\(\^\|\\\.\)\(weight\)\$'": {"weight": np.ones((2, 3))},
    r"'bias' holds Float32 and 'bias' Int64": {"weight": np.ones((3, 2)), "bias": np.ones(3, int)},
    r"'bias' is a str, not a tensor or array": {"weight": np.ones((3, 2)), "bias": "0"},
    r"names that are strings, not 3": {3: np.ones(2)},
    r"a file, a folder, or a dict of tensors by name, not 3": 3,
}


@pytest.mark.parametrize("prefix", ["", "lstm."])
@pytest.mark.parametrize("hidden", [6, 3])
def test_an_lstm_that_projects_its_hidden_states_is_refused(prefix: str, hidden: int) -> None:
    """The shapes are those of torch.nn.LSTM(4, 6, proj_size=3)."""
    shapes = {"weight_ih": (24, 4), "weight_hh": (24, 3), "bias_ih": (24,), "bias_hh": (24,), "weight_hr": (3, 6)}
    weights = {f"{prefix}{name}_l0": np.ones(shape, np.float32) for name, shape in shapes.items()}
    layer = nn.LSTM(4, hidden)
    net = nn.SequentialCell(OrderedDict(lstm=layer)) if prefix else layer
    before = values(net)
    told = rf"'{prefix}weight_hr_l0' is of an LSTM with proj_size=3, and graphls does not offer projections"
    for strict in (True, False):
        with pytest.raises(ValueError, match=told):
            load_state_dict(net, weights, strict=strict)
    assert all(map(np.array_equal, before, values(net)))


@pytest.mark.parametrize("text", WRONG)
def test_weights_that_do_not_fit_change_nothing(text: str) -> None:
    net = nn.Dense(2, 3)
    before = values(net)
    with pytest.raises(graphls.GraphlsError, match=text):
        load_state_dict(net, WRONG[text], strict=False)
    for old, new in zip(before, values(net), strict=True):
        np.testing.assert_array_equal(old, new)


def test_wrong_arguments() -> None:
    net, weights = nn.Dense(2, 2), {"weight": np.ones((2, 2)), "bias": np.ones(2)}
    cases: list[tuple[str, dict[str, Any]]] = [
        ("which is not a regular expression", {"rename": {"(": ""}}),
        ("which is not a regular expression", {"rename": {"a": r"\1"}}),
        ("'rename' is a dict of patterns", {"rename": ["a"]}),
        ("'weight' and 'bias' both 'x'", {"rename": {"weight|bias": "x"}}),
        ("'transposed' is a regular expression", {"transposed": 3}),
        ("'strict' must be", {"strict": 3}),
    ]
    for text, options in cases:
        with pytest.raises(graphls.GraphlsError, match=text):
            load_state_dict(net, weights, **options)
    with pytest.raises(TypeError, match="the argument 'net' is a Cell"):
        load_state_dict("net", weights)  # type: ignore[arg-type]
    matrix = np.arange(4.0).reshape(2, 2)
    load_state_dict(net, {"weight": matrix, "bias": np.ones(2)}, transposed="weight")
    np.testing.assert_array_equal(net.weight.asnumpy(), matrix.T)


class Offering:
    """A tensor of another library, which gives its numbers only without its gradients."""

    def __init__(self, array: Any, needs_gradient: bool) -> None:
        self.array, self.needs_gradient = array, needs_gradient

    def detach(self) -> Offering:
        return Offering(self.array, False)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if self.needs_gradient:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        return self.array


def test_tensors_of_any_library_and_modules() -> None:
    class Module:
        def state_dict(self) -> dict[str, Any]:
            return {name: Offering(array, True) for name, array in recorded("dense").items()}

    net = NETWORKS["dense"]()
    load_state_dict(net, Module())
    check_outputs(net, "dense")


NORMALISED = {
    "weight_norm": {"weight_g": (4, 1), "weight_v": (4, 3)},
    "weight_norm of all": {"weight_g": (), "weight_v": (4, 3)},
    "spectral_norm": {"weight_orig": (4, 3), "weight_u": (4,), "weight_v": (3,)},
    "parametrizations.weight_norm": {
        "parametrizations.weight.original0": (4, 1),
        "parametrizations.weight.original1": (4, 3),
    },
    "parametrizations.spectral_norm": {
        "parametrizations.weight.original": (4, 3),
        "parametrizations.weight.0._u": (4,),
        "parametrizations.weight.0._v": (3,),
    },
}


@pytest.mark.parametrize("kind", NORMALISED)
def test_a_weight_in_parts_is_the_weight_that_torch_makes_of_them(kind: str) -> None:
    random = np.random.default_rng(0)
    parts = {name: random.normal(size=shape).astype(np.float32) for name, shape in NORMALISED[kind].items()}
    net = nn.SequentialCell(nn.Dense(3, 4, has_bias=False))
    report = load_state_dict(net, {f"0.{name}": array for name, array in parts.items()})
    first, *vectors = parts.values()
    if "spectral" in kind:  # the formulas of torch.nn.utils.parametrizations
        expected = first / (vectors[0] @ first @ vectors[1])
    else:
        axis = None if kind.endswith("all") else 1
        expected = first * vectors[0] / np.linalg.norm(vectors[0], axis=axis, keepdims=True)
    np.testing.assert_allclose(net[0].weight.asnumpy(), expected, rtol=1e-5)
    assert report.loaded[0].tensors == tuple(f"0.{name}" for name in parts) and not report.unused


def test_names_that_only_look_like_parts_are_weights_of_their_own() -> None:
    class Gates(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.gate_g = graphls.Parameter(np.zeros((4, 3), np.float32), "gate_g")
            self.gate_v = graphls.Parameter(np.zeros((4, 3), np.float32), "gate_v")

    weights = {name: np.ones((4, 3), np.float32) for name in ("gate_g", "gate_v")}
    assert len(load_state_dict(Gates(), weights).loaded) == 2


def test_what_a_training_saves_beside_the_weights_is_left_out() -> None:
    weights = recorded("dense")
    load_state_dict(net := NETWORKS["dense"](), {"epoch": 3, "model": weights, "optimizer": {"state": {}}})
    check_outputs(net, "dense")


class InBfloat16(Offering):
    """A tensor that NumPy has no dtype for."""

    def detach(self) -> InBfloat16:
        return InBfloat16(self.array, True)

    def float(self) -> Offering:
        return Offering(self.array, False)


def test_tensors_of_bfloat16_are_widened() -> None:
    net = NETWORKS["dense"]()
    load_state_dict(net, {name: InBfloat16(array, True) for name, array in recorded("dense").items()})
    check_outputs(net, "dense")


def test_floats_are_converted_and_steps_go_on_with_the_weights() -> None:
    net = NETWORKS["dense"]()
    check = net(OUTPUTS["dense.x0"]).asnumpy()
    half = {name: array.astype(np.float16) for name, array in recorded("dense").items()}
    report = load_state_dict(net, half)
    assert all(each.changes == ("from float16",) for each in report.loaded)
    assert {p.dtype for p in net.get_parameters()} == {graphls.float32}
    after = net(OUTPUTS["dense.x0"]).asnumpy()
    np.testing.assert_allclose(after, OUTPUTS["dense.y"], atol=0.05)
    assert not np.allclose(after, check)


def test_settings_that_torch_has_otherwise_warn() -> None:
    net = nn.SequentialCell(nn.LayerNorm((4,)), nn.Dense(4, 4), nn.LayerNorm((4,)))
    with pytest.warns(UserWarning, match=r"LayerNorm '0', '2' has epsilon=1e-07, .*test_torch\.py") as told:
        load_state_dict(net, state_dict(net))
    assert len(told) == 1
    with pytest.warns(UserWarning, match="keeps 10%"):
        norm = nn.BatchNorm1d(4, momentum=0.1)
    with pytest.warns(UserWarning, match="BatchNorm2d '' with momentum=0.1 keeps 10%"):
        load_state_dict(norm, state_dict(norm))


def test_files_of_torch_save_are_read_without_running_anything() -> None:
    net = NETWORKS["dense"]()
    load_state_dict(net, FILES / "dense.pt")
    check_outputs(net, "dense")


def archive(path: Path, pickled: bytes, storage: bytes = b"", method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as made:
        made.writestr("x/data.pkl", pickled)
        made.writestr("x/data/0", storage)
    return path


def text(value: str) -> bytes:
    return b"X" + len(value).to_bytes(4, "little") + value.encode()


def number(value: int) -> bytes:
    return b"J" + value.to_bytes(4, "little", signed=True)


def many(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def tensor(shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0, tail: bytes = b"") -> bytes:
    """A pickle of {"w": a tensor in a storage of four floats}."""
    storage = many(text("storage"), b"ctorch\nFloatStorage\n", text("0"), text("cpu"), number(4)) + b"Q"
    places = (many(*map(number, numbers)) for numbers in (shape, strides))
    arguments = many(storage, number(offset), *places, b"\x89", b"N")
    return b"\x80\x02}" + text("w") + b"ctorch._utils\n_rebuild_tensor_v2\n" + arguments + b"R" + tail + b"s."


def test_pickles_make_tensors_and_nothing_else(tmp_path: Path) -> None:
    four = np.arange(4, dtype=np.float32)
    read = torch_format.decode(archive(tmp_path / "a.pt", tensor((2, 2), (1, 2)), four.tobytes()).read_bytes())
    np.testing.assert_array_equal(read["w"], four.reshape(2, 2).T)
    bad = {
        r"holds posix.system, and only tensors .*safetensors.torch.save_model": b"\x80\x02cposix\nsystem\n("
        + text("true")
        + b"tR.",
        r"holds builtins.eval": b"\x80\x02cbuiltins\neval\n(" + text("1") + b"tR.",
        "its pickle has STACK_GLOBAL, and only tensors are read from one": b"\x80\x04"
        + text("os")
        + text("system")
        + b"\x93.",
        "its pickle has LONG_BINPUT": b"\x80\x02}r\xff\xff\xff\x7f.",
        "does not lie within": tensor((2, 2), (2, 2)),
        "a tensor in it does not lie within": tensor((2,), (1,), -1),
        "a tensor in it does not lie within its storage": tensor((10**9,), (0,)),
        r"it is damaged": tensor((2,), (1,), 0, b"}" + text("array") + number(1) + b"sb"),
        "it holds no tensors by name but a list": b"\x80\x02].",
        "it holds 'epoch', and no tensors as one of state_dict": b"\x80\x02}" + text("epoch") + number(3) + b"s.",
    }
    for told, content in bad.items():
        with pytest.raises(ValueError, match=told):
            load_state_dict(nn.Dense(2, 2), archive(tmp_path / "b.pt", content, four.tobytes()))
    with pytest.raises(ValueError, match=r"x/data\.pkl in it is compressed"):
        load_state_dict(nn.Dense(2, 2), archive(tmp_path / "c.pt", b"\x80\x02}.", method=zipfile.ZIP_DEFLATED))
    (tmp_path / "old.pth").write_bytes(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.")
    with pytest.raises(ValueError, match=r"old\.pth cannot be read: it is not a zip archive of torch.save; save the"):
        load_state_dict(nn.Dense(2, 2), tmp_path / "old.pth")


def test_files_and_folders_that_are_none(tmp_path: Path) -> None:
    net = nn.Dense(2, 2)
    with pytest.raises(OSError, match="cannot be read: No such file"):
        load_state_dict(net, tmp_path / "none.safetensors")
    with pytest.raises(OSError, match=r"has no file that ends with \.safetensors"):
        load_state_dict(net, tmp_path)
    with pytest.raises(ValueError, match=r"Files of weights end with \.safetensors"):
        load_state_dict(net, tmp_path / "weights.h5")
    (tmp_path / "a.safetensors").write_bytes(b"none")
    with pytest.raises(ValueError, match="cannot be read: it is not a file of safetensors"):
        load_state_dict(net, tmp_path)
    (tmp_path / "b.safetensors").write_bytes(b"none")
    with pytest.raises(ValueError, match=r"several files of weights, a.safetensors, b.safetensors"):
        load_state_dict(net, tmp_path)


def test_indexes_of_several_files(tmp_path: Path) -> None:
    folder = shutil.copytree(FILES / "bert", tmp_path / "bert")
    index = folder / "model.safetensors.index.json"
    load_state_dict(NETWORKS["bert"](), index)
    content = json.loads(index.read_text())
    for places, text in (
        (
            {**content["weight_map"], "other": "model-00001-of-00002.safetensors"},
            "has no 'other', as model.safetensors",
        ),
        ({"x": "../model.safetensors"}, "its files are not beside it"),
        ([], "is not an index of files"),
    ):
        index.write_text(json.dumps({"weight_map": places}))
        with pytest.raises(ValueError, match=text):
            load_state_dict(NETWORKS["bert"](), folder)
