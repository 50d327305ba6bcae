"""Optimizers with states of PyTorch go on as PyTorch did; see record_optimizers.py for the files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.compat.mint import optimizers as mint_optimizers
from graphls.interop.formats import safetensors as safetensors_format
from graphls.interop.formats import torch as torch_format
from graphls.interop.torch import (
    Report,
    load_optimizer_state_dict,
    load_state_dict,
    optimizer_state_dict,
    save_optimizer_state_dict,
)

FILES = Path(__file__).parent / "files"
DATA = (FILES / "optimizers.safetensors").read_bytes()
ARRAYS = safetensors_format.decode(DATA)
GROUPS = safetensors_format.metadata(DATA)
NAMES = ("0.weight", "0.bias", "1.weight", "1.bias", "3.weight", "3.bias")


def weights(case: str) -> dict[str, np.ndarray]:
    start = f"{case}.w."
    return {name.removeprefix(start): array for name, array in ARRAYS.items() if name.startswith(start)}


def state(case: str) -> dict[str, Any]:
    """What `state_dict` of the optimizer gave in PyTorch."""
    found: dict[int, dict[str, Any]] = {}
    for name, array in ARRAYS.items():
        if name.startswith(f"{case}.s."):
            number, key = name.removeprefix(f"{case}.s.").split(".")
            found.setdefault(int(number), {})[key] = array
    return {"state": found, "param_groups": json.loads(GROUPS[case])}


def changed_state(case: str) -> tuple[str, dict[str, Any]]:
    """A case and its state; "decoupled" and "sparse" are NAdam with another decay, and Adam without decay."""
    if case == "decoupled":
        saved = state("nadam")
        saved["param_groups"][0].update(weight_decay=0.1, decoupled_weight_decay=True)
        return "nadam", saved
    if case == "sparse":
        saved = state("adam")
        kept = ("lr", "betas", "eps", "maximize", "params")
        saved["param_groups"] = [{name: saved["param_groups"][0][name] for name in kept}]
        return "adam", saved
    return case, state(case)


def plain() -> nn.Cell:
    return nn.SequentialCell(nn.Dense(6, 5), nn.LayerNorm((5,), epsilon=1e-5), nn.Tanh(), nn.Dense(5, 3))


class Attention(nn.Cell):
    """Projections apart, where PyTorch has them joined and transposed; they are not in the order of PyTorch either."""

    def __init__(self) -> None:
        super().__init__()
        self.c_proj = nn.Dense(6, 3)
        self.v_proj, self.k_proj, self.q_proj = nn.Dense(6, 6), nn.Dense(6, 6), nn.Dense(6, 6)

    def construct(self, x: Any) -> Any:
        return self.c_proj(ops.tanh(self.q_proj(x) * self.k_proj(x)) + self.v_proj(x))


def every(net: nn.Cell, decay: float) -> list[dict[str, Any]]:
    """All parameters in a group, in which those called beta and gamma decay, too."""
    return [{"params": net.trainable_params(), "weight_decay": decay}]


def two_groups(net: nn.Cell) -> list[dict[str, Any]]:
    parameters = net.trainable_params()
    one_axis = [p for p in parameters if len(p.shape) == 1]
    rest = [p for p in parameters if len(p.shape) > 1]
    return [{"params": one_axis, "weight_decay": 0.0, "lr": 0.05}, {"params": rest}]


Make = Callable[[nn.Cell], Any]
EXACT: list[tuple[str, Make]] = [
    ("sgd", lambda net: nn.SGD(every(net, 0.01), 0.1, 0.9, 0.3)),
    ("sgd_plain", lambda net: nn.SGD(net.trainable_params(), 0.1)),
    ("sgd_nesterov", lambda net: nn.SGD(net.trainable_params(), 0.05, 0.9, nesterov=True)),
    ("sgd_nesterov", lambda net: nn.Momentum(net.trainable_params(), 0.05, 0.9, use_nesterov=True)),
    ("adam", lambda net: nn.AdamW(net.trainable_params(), 0.01, weight_decay=0.0)),
    ("adamw", lambda net: nn.AdamW(every(net, 0.05), 0.01, amsgrad=True)),
    ("adamw_groups", lambda net: nn.AdamW(two_groups(net), 0.02, (0.8, 0.95), weight_decay=0.1)),
    ("attention", lambda net: nn.AdamW(every(net, 0.01), 0.01)),
    ("adagrad", lambda net: mint_optimizers.Adagrad(net.trainable_params(), 0.05)),
    ("adagrad_slowed", lambda net: mint_optimizers.Adagrad(net.trainable_params(), 0.05, 0.1)),
    ("rmsprop", lambda net: mint_optimizers.RMSprop(net.trainable_params(), 0.01, momentum=0.5, centered=True)),
    ("adadelta", lambda net: nn.Adadelta(every(net, 0.01))),
    ("rprop", lambda net: nn.Rprop(net.trainable_params(), 0.01)),
    ("asgd", lambda net: nn.ASGD(net.trainable_params(), 0.1, 0.01, t0=3.0)),
    ("nadam", lambda net: mint_optimizers.NAdam(net.trainable_params(), 0.01)),
    ("radam", lambda net: mint_optimizers.RAdam(net.trainable_params(), 0.01)),
]
BESIDE_EPS: list[tuple[str, Make, str]] = [
    ("adam", lambda net: nn.Adam(net.trainable_params(), 0.01), "at update 5 is an eps of 1.42e-07 in PyTorch"),
    ("adam_decay", lambda net: nn.Adam(every(net, 0.1), 0.01), "before the bias is corrected"),
    ("adamax", lambda net: nn.AdaMax(net.trainable_params(), 0.02), "adds 'eps' to the largest gradient"),
    ("adagrad", lambda net: nn.Adagrad(net.trainable_params(), 0.0, 0.05), "to which PyTorch adds 1e-10"),
]


def trained(case: str) -> nn.Cell:
    """The network with the weights that PyTorch had."""
    net = Attention() if case == "attention" else plain()
    load_state_dict(net, weights(case))
    return net


def losses(net: nn.Cell, optimizer: Any) -> list[float]:
    """The losses of as many updates as PyTorch made."""
    step = graphls.compile(
        nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer).set_train(), ARRAYS["x"], ARRAYS["y"]
    )
    return [float(step(ARRAYS["x"], ARRAYS["y"]).asnumpy()) for _ in range(5)]


def loaded(case: str, make: Make, **settings: Any) -> tuple[nn.Cell, Any, Report]:
    net = trained(case)
    optimizer = make(net)
    names = ("c_attn.weight", "c_attn.bias", "c_proj.weight", "c_proj.bias") if case == "attention" else None
    return net, optimizer, load_optimizer_state_dict(optimizer, net, state(case), names=names, **settings)


@pytest.mark.parametrize(("case", "make"), EXACT, ids=[f"{case}-{i}" for i, (case, _) in enumerate(EXACT)])
def test_a_run_goes_on_as_in_torch(case: str, make: Make) -> None:
    net, optimizer, report = loaded(case, make)
    assert not report.missing and not report.unused
    np.testing.assert_allclose(losses(net, optimizer), ARRAYS[f"{case}.losses"], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("case", "make", "text"), BESIDE_EPS, ids=[case for case, *_ in BESIDE_EPS])
def test_formulas_that_differ_in_eps_are_taken_when_it_is_named(case: str, make: Make, text: str) -> None:
    with pytest.raises(ValueError, match=rf"{text}.*changed=\('eps',\)"):
        loaded(case, make)
    net, optimizer, _ = loaded(case, make, changed=("eps",))
    np.testing.assert_allclose(losses(net, optimizer), ARRAYS[f"{case}.losses"], rtol=0, atol=2e-6)


IGNORED = {"foreach", "fused", "capturable", "differentiable", "initial_accumulator_value"}
"""Settings of groups that PyTorch fills in."""
BACK = [(case, make) for case, make in EXACT if case != "attention"]


@pytest.mark.parametrize(("case", "make"), BACK, ids=[f"{case}-{i}" for i, (case, _) in enumerate(BACK)])
def test_the_way_back_is_what_torch_had(case: str, make: Make, tmp_path: Path) -> None:
    net, optimizer, _ = loaded(case, make)
    save_optimizer_state_dict(optimizer, net, tmp_path / "optimizer.pt")
    given = torch_format.decode_all((tmp_path / "optimizer.pt").read_bytes())
    wanted = state(case)
    assert given["state"].keys() == wanted["state"].keys()
    for number, states in wanted["state"].items():
        assert given["state"][number].keys() == states.keys()
        for key, array in states.items():
            np.testing.assert_allclose(given["state"][number][key], array, rtol=1e-6, err_msg=key)
            assert given["state"][number][key].shape == array.shape
    for own, theirs in zip(given["param_groups"], wanted["param_groups"], strict=True):
        assert theirs.keys() - own.keys() - IGNORED <= {"decoupled_weight_decay"}
        assert own.keys() <= theirs.keys()
        for name in theirs.keys() & own.keys() - {"decoupled_weight_decay"}:
            np.testing.assert_allclose(own[name], theirs[name], rtol=1e-6, err_msg=name)


def adamw(net: nn.Cell, **settings: Any) -> nn.AdamW:
    return nn.AdamW(every(net, 0.05), 0.01, amsgrad=True, **settings)


def test_a_file_of_a_training_names_the_parameters_by_its_weights() -> None:
    class Reversed(nn.Cell):
        """The cells of the network in another order, of which two have the same shapes."""

        def __init__(self) -> None:
            super().__init__()
            self.last, self.tanh = nn.Dense(5, 3), nn.Tanh()
            self.norm, self.first = nn.LayerNorm((5,), epsilon=1e-5), nn.Dense(6, 5)

        def construct(self, x: Any) -> Any:
            return self.last(self.tanh(self.norm(self.first(x))))

    net = Reversed()
    rename = {r"^0\.": "first.", r"^1\.": "norm.", r"^3\.": "last."}
    load_state_dict(net, FILES / "training.pt", rename=rename)
    optimizer = adamw(net)
    report = load_optimizer_state_dict(optimizer, net, FILES / "training.pt", rename=rename)
    assert {each.parameter: each.tensors[0] for each in report.loaded}["norm.beta"] == "exp_avg of norm.bias"
    assert int(optimizer.global_step.item()) == 5
    np.testing.assert_allclose(losses(net, optimizer), ARRAYS["adamw.losses"], rtol=1e-6, atol=1e-6)


def test_counts_and_numbers_of_other_versions_of_torch() -> None:
    saved = state("adamw")
    for own in saved["state"].values():
        own["step"] = int(own["step"])  # before PyTorch 1.12
    for name in ("decoupled_weight_decay", "maximize", "foreach", "capturable", "fused"):
        del saved["param_groups"][0][name]
    saved["param_groups"][0]["lr"] = np.float32(0.01)  # a tensor with `capturable`
    net = trained("adamw")
    optimizer = adamw(net)
    load_optimizer_state_dict(optimizer, net, {"optimizer_states": [saved]}, names=[f"module.{n}" for n in NAMES])
    np.testing.assert_allclose(losses(net, optimizer), ARRAYS["adamw.losses"], rtol=1e-6, atol=1e-6)


def test_names_in_the_groups_are_those_of_the_parameters() -> None:
    saved = state("adamw")
    order = [5, 4, 3, 2, 1, 0]
    saved["state"] = {i: saved["state"][number] for i, number in enumerate(order)}
    saved["param_groups"][0]["param_names"] = [NAMES[number] for number in order]
    net = trained("adamw")
    optimizer = adamw(net)
    load_optimizer_state_dict(optimizer, net, saved)
    np.testing.assert_allclose(losses(net, optimizer), ARRAYS["adamw.losses"], rtol=1e-6, atol=1e-6)


def test_a_schedule_goes_on_where_it_was() -> None:
    saved = state("sgd")
    net = trained("sgd")
    schedule = nn.ExponentialDecayLR(0.2, 0.5, 5)
    optimizer = nn.SGD(every(net, 0.01), schedule, 0.9, 0.3)
    with pytest.raises(ValueError, match=r"does not say how many updates there were.*give global_step="):
        load_optimizer_state_dict(optimizer, net, saved)
    with pytest.raises(ValueError, match=r"'lr' is 0\.1 there and 0\.0870550"):
        load_optimizer_state_dict(optimizer, net, saved, global_step=6)
    load_optimizer_state_dict(optimizer, net, saved, global_step=5)
    assert int(optimizer.global_step.item()) == 5


OTHER: list[tuple[str, Make, str]] = [
    ("adamw", lambda net: nn.AdamW(every(net, 0.05), 0.02, amsgrad=True), "'lr' is 0.01 there and 0.02 here"),
    (
        "adamw",
        lambda net: nn.AdamW(net.trainable_params(), 0.01, weight_decay=0.05, amsgrad=True),
        r"'weight_decay' is 0.05 there and 0 here \('1.gamma' and 1 other\).*changed=\('weight_decay',\)",
    ),
    ("adamw", lambda net: nn.AdamW(every(net, 0.05), 0.01), "'amsgrad' is True there and False here"),
    (
        "adamw",
        lambda net: nn.AdamW(every(net, 0.05), 0.01, (0.8, 0.999), amsgrad=True),
        r"'betas' is \(0.9, 0.999\) there and \(0.8, 0.999\) here \('0.weight' and 5 others\)",
    ),
    ("adam_decay", lambda net: nn.AdamW(every(net, 0.1), 0.01), "'decoupled_weight_decay' is False there and True"),
    ("sgd", lambda net: nn.Momentum(every(net, 0.01), 0.1, 0.9), "'dampening' is 0.3 there and 0 here"),
    ("adagrad_slowed", lambda net: nn.Adagrad(net.trainable_params(), 0.0, 0.05), "'lr_decay' is 0.1 there"),
    ("asgd", lambda net: nn.ASGD(net.trainable_params(), 0.05, 0.01, t0=3.0), "rate 'eta' of ASGD is 0.09962663 there"),
    (
        "adam",
        lambda net: nn.Adam(net.trainable_params(), 0.01, use_nesterov=True),
        r"no Nesterov's momentum.*changed=\('nesterov', 'eps'\)",
    ),
    ("adam", lambda net: nn.AdamWeightDecay(net.trainable_params(), 0.01), "does not correct the bias"),
    ("rmsprop", lambda net: nn.RMSProp(net.trainable_params(), 0.01), r"sqrt\(s \+ epsilon\) where PyTorch"),
    ("adam", lambda net: nn.Lion(net.trainable_params(), 0.01), "PyTorch has no optimizer as Lion is"),
    ("adam", lambda net: nn.SGD(net.trainable_params(), 0.01), "is of Adam, and SGD updates as SGD of PyTorch"),
    ("radam", lambda net: nn.AdamW(net.trainable_params(), 0.01), "is of RAdam, and AdamW updates as Adam"),
    ("decoupled", lambda net: mint_optimizers.NAdam(every(net, 0.1), 0.01), "'decoupled_weight_decay' is True there"),
    ("sparse", lambda net: nn.AdamW(net.trainable_params(), 0.01), "is of SparseAdam, and AdamW"),
    ("adamw", lambda net: nn.AdamW(net[0].trainable_params(), 0.01), r"have \[6\] parameters, and those here \[2\]"),
]


@pytest.mark.parametrize(("case", "make", "text"), OTHER, ids=[text[:24] for *_, text in OTHER])
def test_what_would_go_on_in_another_way_is_refused_and_changes_nothing(case: str, make: Make, text: str) -> None:
    case, saved = changed_state(case)
    net = trained(case)
    optimizer = make(net)
    before = [p.asnumpy() for p in optimizer.get_parameters()]
    with pytest.raises(ValueError, match=text):
        load_optimizer_state_dict(optimizer, net, saved)
    for parameter, array in zip(optimizer.get_parameters(), before, strict=True):
        np.testing.assert_array_equal(parameter.asnumpy(), array)


def test_settings_that_may_differ_are_named() -> None:
    net = trained("adamw")
    optimizer = nn.AdamW(every(net, 0.0), 0.5, amsgrad=True)
    load_optimizer_state_dict(optimizer, net, state("adamw"), changed=("lr", "weight_decay"))
    np.testing.assert_array_equal(optimizer.vhat[0].asnumpy(), state("adamw")["state"][0]["max_exp_avg_sq"])
    with pytest.raises(TypeError, match=r"names of settings, as in \('lr',\), not 'lr'"):
        load_optimizer_state_dict(optimizer, net, state("adamw"), changed="lr")


def test_parameters_and_states_without_each_other() -> None:
    saved = state("adamw")
    del saved["state"][3]  # no gradient has come yet
    net = trained("adamw")
    with pytest.raises(ValueError, match=r"no state for 1 parameter, '1\.beta'; give names=.* strict=False"):
        load_optimizer_state_dict(adamw(net), net, saved)
    report = load_optimizer_state_dict(optimizer := adamw(net), net, saved, strict=False)
    assert report.missing == ("1.beta",) and not optimizer.moments1[3].asnumpy().any()
    first = nn.AdamW([{"params": net[0].trainable_params(), "weight_decay": 0.05}], 0.01, amsgrad=True)
    with pytest.raises(ValueError, match=r"no parameter takes 3 states, of '1\.weight', '3\.weight', '3\.bias'"):
        load_optimizer_state_dict(first, net, saved, names=NAMES)
    assert len(load_optimizer_state_dict(first, net, saved, names=NAMES, strict=False).loaded) == 2
    saved = state("adamw")
    saved["state"][2]["step"] = np.float32(3)
    with pytest.raises(ValueError, match="were updated 3 and 5 times"):
        load_optimizer_state_dict(adamw(net), net, saved)


def test_a_velocity_that_has_not_begun_is_the_first_gradient() -> None:
    saved = state("sgd")
    saved["state"][0]["momentum_buffer"] = None
    del saved["state"][1]
    net = trained("sgd")
    report = load_optimizer_state_dict(optimizer := nn.SGD(every(net, 0.01), 0.1, 0.9, 0.3), net, saved)
    assert not report.missing and [each.parameter for each in report.loaded][:1] == ["1.gamma"]
    assert [bool(stat.asnumpy().any()) for stat in optimizer.stat] == [True, True, False, False, False, False]


def test_names_that_do_not_fit() -> None:
    net = trained("adamw")
    for names, text in (
        (NAMES[:5], "There are 5 names, and the dict has 6 parameters"),
        (
            (*NAMES[:4], *NAMES[5:], NAMES[4]),
            r"exp_avg of 3\.weight' has the shape \(3, 5\) and '3\.weight' has \(3,\)",
        ),
        ((*NAMES[:5], NAMES[0]), "'0.weight' and '0.weight' are both '0.weight'"),
    ):
        with pytest.raises(ValueError, match=text):
            load_optimizer_state_dict(adamw(net), net, state("adamw"), names=names)
    with pytest.raises(TypeError, match=r"are a list of strings, not '0.weight'"):
        load_optimizer_state_dict(adamw(net), net, state("adamw"), names="0.weight")
    with pytest.raises(ValueError, match="is not a parameter of the network"):
        load_optimizer_state_dict(adamw(net), nn.Dense(2, 2), state("adamw"))
    whole = {"model": {**weights("adamw"), "3.weight": ARRAYS["x"]}, "optimizer": state("adamw_groups")}
    with pytest.raises(
        ValueError, match=r"groups of PyTorch in the dict have \[4, 2\] parameters, and those here \[6\]"
    ):
        load_optimizer_state_dict(adamw(net), net, whole)


def test_sources_that_are_none(tmp_path: Path) -> None:
    net = trained("adamw")
    for source, text in (
        ({"model": {}, "epoch": 3}, "There is no state of one optimizer in the dict, .*it has 'model', 'epoch'"),
        ({"state": {}, "param_groups": []}, "the dict is damaged"),
        ({"state": {}, "param_groups": [{"lr": 1, "params": []}]}, "of no optimizer of torch.optim: they have 'lr'"),
        (FILES / "outputs.npz", r"end with \.bin, \.pt, \.pth; .*outputs\.npz does not"),
        (FILES / "dense.pt", "There is no state of one optimizer in .*dense.pt"),
    ):
        with pytest.raises(ValueError, match=text):
            load_optimizer_state_dict(adamw(net), net, source)
    with pytest.raises(TypeError, match="is a file or a dict of PyTorch, not 3"):
        load_optimizer_state_dict(adamw(net), net, 3)
    with pytest.raises(OSError, match="cannot be read: No such file"):
        load_optimizer_state_dict(adamw(net), net, tmp_path / "none.pt")
    with pytest.raises(TypeError, match="'optimizer' is an Optimizer, not"):
        load_optimizer_state_dict(net, net, state("adamw"))


def test_sums_of_zero_are_nothing_to_divide_by() -> None:
    saved = state("adagrad")
    saved["state"][0]["sum"][0] = 0.0
    net = trained("adagrad")
    with pytest.raises(ValueError, match=r"Some sums in the dict are 0; create Adagrad with accum=0\.0"):
        load_optimizer_state_dict(nn.Adagrad(net.trainable_params(), 0.1, 0.05), net, saved, changed=("eps",))
    load_optimizer_state_dict(nn.Adagrad(net.trainable_params(), 0.0, 0.05), net, saved, changed=("eps",))


def test_the_way_back_by_names_and_transposed() -> None:
    net = Attention()
    optimizer = nn.AdamW(every(net, 0.01), 0.01)
    optimizer.moments1[0].set_data(np.arange(18, dtype=np.float32).reshape(3, 6))  # of c_proj.weight
    names = [f"{name}_proj.{kind}" for name in "qkvc" for kind in ("weight", "bias")]
    found = optimizer_state_dict(optimizer, net, names=names, transposed=r"c_proj\.weight")
    np.testing.assert_array_equal(found["state"][6]["exp_avg"], np.arange(18).reshape(3, 6).T)
    assert [state["exp_avg"].shape for state in found["state"].values()] == [(6, 6), (6,)] * 3 + [(6, 3), (3,)]
    with pytest.raises(ValueError, match=r"The names have no 'c_proj.bias'"):
        optimizer_state_dict(optimizer, net, names=names[:-1])
    with pytest.raises(ValueError, match=r"PyTorch would continue differently: Adam adds 'eps'.*changed=\('eps',\)"):
        optimizer_state_dict(nn.Adam(net.trainable_params()), net)
    with pytest.raises(ValueError, match=r"and '0.weight' differ in weight decay, and these are two groups"):
        net = plain()
        optimizer_state_dict(nn.AdamW(net.trainable_params(), weight_decay=0.1), net)
