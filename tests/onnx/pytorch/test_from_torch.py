"""Modules of PyTorch through `graphls.from_torch`; `make test-torch` runs these tests where torch is installed."""

from __future__ import annotations

import copy
import sys
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import GraphlsError

torch: Any = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from tests.onnx.pytorch import agreement, networks  # noqa: E402

X = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


def module_of(function: Any, **parts: Any) -> Any:
    """A module in training mode, whose `forward` is a function of it and one input."""

    class Module(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            for name, part in parts.items():
                setattr(self, name, part)

        def forward(self, x: Any) -> Any:
            return function(self, x)

    torch.manual_seed(0)
    return Module().train()


@pytest.mark.parametrize("name", list(networks.NETWORKS))
def test_training_and_writing_back_are_those_of_pytorch(name: str) -> None:
    module, inputs, labels = networks.network(name)
    peer = copy.deepcopy(module)
    net = graphls.from_torch(module, **inputs)
    arrays = {key: value.numpy() for key, value in inputs.items()}
    losses = agreement.trained(net, arrays, labels.numpy().astype(np.int32))
    expected = networks.trained(peer, inputs, labels, agreement.STEPS, agreement.RATE)
    np.testing.assert_allclose(losses, expected, rtol=2e-5)
    net.to_torch(module)
    for (key, value), other in zip(module.state_dict().items(), peer.state_dict().values(), strict=True):
        torch.testing.assert_close(value, other, rtol=0, atol=5e-5, msg=key)
    net.set_train(False)
    y = agreement.logits_of(net(**arrays)).asnumpy()
    expected = networks.logits_of(peer.eval()(**inputs)).detach().numpy()
    np.testing.assert_allclose(y, expected, rtol=0, atol=5e-5 * np.abs(expected).max())


def test_parameters_have_the_names_of_the_module_and_buffers_are_frozen() -> None:
    module, inputs, _ = networks.network("tied")
    modes = {name: part.training for name, part in module.named_modules()}
    net = graphls.from_torch(module, **inputs)
    trainable = [p.name for p in net.trainable_params()]
    assert trainable == [name for name, p in module.named_parameters() if p.requires_grad]
    assert {"scale", "shift", "hidden.bias", "norm.running_mean"} <= {p.name for p in net.untrainable_params()}
    assert {name: part.training for name, part in module.named_modules()} == modes
    assert "forward" not in vars(module)
    assert net.training
    assert not graphls.from_torch(module.eval(), **inputs).training


def test_dropout_follows_set_train() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 400), torch.nn.Dropout(0.5))
    net = graphls.from_torch(module, X)
    shares = [float((net.set_train()(X).asnumpy() == 0).mean()) for _ in range(2)]
    assert all(0.4 < share < 0.6 for share in shares)
    assert not (net.set_train(False)(X).asnumpy() == 0).any()
    only_evaluation = graphls.from_torch(module, X, train=False)
    assert not (only_evaluation.set_train()(X).asnumpy() == 0).any()


def test_python_code_that_depends_on_the_mode_is_kept() -> None:
    net = graphls.from_torch(module_of(lambda m, x: x * 2 if m.training else x), X)
    assert (net.set_train()(X).asnumpy() == 2 * X).all()
    assert (net.set_train(False)(X).asnumpy() == X).all()


def test_other_batch_sizes_and_single_examples() -> None:
    net = graphls.from_torch(torch.nn.Linear(4, 3), torch.zeros(1, 4))
    assert net(X).shape == (6, 3)
    assert net(X[:1]).shape == (1, 3)
    flat = module_of(lambda m, x: x.reshape(x.shape[0], -1))
    dim = torch.export.Dim.AUTO
    for shapes in ({"x": {0: dim, 1: dim}}, ({0: dim, 1: dim},)):
        net = graphls.from_torch(flat, np.zeros((2, 3, 4), np.float32), dynamic_shapes=shapes)
        assert net(np.zeros((5, 7, 4), np.float32)).shape == (5, 28)


def test_sizes_that_the_module_fixes_are_said() -> None:
    fixed = module_of(lambda m, x: x + torch.arange(len(x))[:, None])
    for count in (1, 6):
        net = graphls.from_torch(fixed, X[:count])
        np.testing.assert_allclose(net(X[:count]).asnumpy(), X[:count] + np.arange(count)[:, None], rtol=1e-6)
        with pytest.raises(GraphlsError, match=rf"Axis 0 .* 'x' has the size 3, and is exported with {count}"):
            net(X[:3])
    with pytest.raises(GraphlsError, match=r"Axis 1 of the input 'x' .* dynamic_shapes=\.\.\.\) opens"):
        net(np.ones((6, 5), np.float32))


def test_nested_and_constant_arguments() -> None:
    class Nested(torch.nn.Module):  # type: ignore[misc]
        def forward(self, pair: Any, table: Any = None, *, double: bool = False, **others: Any) -> Any:
            y = pair[0] + pair[1] + table["a"] + others["extra"]
            return [y * 2 if double else y, {"flag": double, "same": y}]

    x = torch.from_numpy(X)
    net = graphls.from_torch(Nested(), (x, X), {"a": x}, double=True, extra=x)
    assert net.argument_names == ("pair", "table", "extra")
    y = net((X, X), table={"a": X}, extra=X)
    np.testing.assert_allclose(y[0].asnumpy(), 8 * X, rtol=1e-6)
    assert y[1]["flag"] is True
    with pytest.raises(GraphlsError, match="dict with the keys 'a'"):
        net((X, X), {"b": X}, X)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_dtypes_of_the_module_are_kept(dtype: Any) -> None:
    module = module_of(lambda m, x: m.norm(m.linear(x)), linear=torch.nn.Linear(4, 64), norm=torch.nn.LayerNorm(64))
    module.to(dtype)
    net = graphls.from_torch(module, torch.from_numpy(X).to(dtype))
    name = str(dtype).removeprefix("torch.")
    assert {p.dtype.long_name for p in net.get_parameters()} == {name}
    y = net(graphls.Tensor(X).astype(name)).asnumpy().astype(np.float64)
    expected = module(torch.from_numpy(X).to(dtype)).detach().double().numpy()
    np.testing.assert_allclose(y, expected, atol=0.03 if dtype is torch.bfloat16 else 4e-3)
    other = copy.deepcopy(module)
    with torch.no_grad():
        for p in other.parameters():
            p.zero_()
    net.to_torch(other)
    assert all(torch.equal(a, b) for a, b in zip(module.parameters(), other.parameters(), strict=True))


def test_writing_back_is_complete_or_does_not_happen() -> None:
    net = graphls.from_torch(torch.nn.Linear(4, 3), X)
    linear = torch.nn.Linear
    cases = [
        (linear(4, 5), r"'weight' has the shape \(5, 4\) there and \(3, 4\) here"),
        (linear(4, 3, bias=False), "it has no 'bias'"),
        (linear(4, 3).half(), "'weight' is float16 there and float32 here"),
        (torch.nn.Sequential(linear(4, 3)), "it has no 'weight'"),
    ]
    for module, message in cases:
        before = [p.clone() for p in module.parameters()]
        with pytest.raises(GraphlsError, match=message):
            net.to_torch(module)
        assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))


def test_tied_weights_are_written_under_both_names_of_another_module() -> None:
    module, inputs, _ = networks.network("tied")
    net = graphls.from_torch(module, **inputs)
    parts = {"embedding": torch.nn.Embedding(12, 4), "output": torch.nn.Linear(4, 12, bias=False)}
    other = module_of(lambda m, x: x, **parts, norm=torch.nn.BatchNorm1d(4), hidden=torch.nn.Linear(4, 4))
    net.to_torch(other)
    assert torch.equal(other.embedding.weight, module.embedding.weight)
    assert torch.equal(other.output.weight, module.embedding.weight)


REFUSED = {
    "its control flow or the shape of a tensor depends on values": lambda m, x: x + 1 if x.sum() > 0 else x,
    "_linalg_svd": lambda m, x: torch.linalg.svd(x)[1],
    "no such key": lambda m, x: {}["no such key"],
}


@pytest.mark.parametrize("reason", list(REFUSED))
def test_what_the_exporter_cannot_do_is_one_sentence_with_the_reason(reason: str, capfd: Any) -> None:
    with pytest.raises(GraphlsError, match=rf"PyTorch cannot export Module in evaluation mode: .*{reason}") as error:
        graphls.from_torch(module_of(REFUSED[reason]), X)
    assert "test_from_torch.py" in str(error.value)
    assert "\n" not in str(error.value)
    assert capfd.readouterr() == ("", "")


def test_a_mode_that_fails_is_named() -> None:
    module = module_of(lambda m, x: x + 1 if m.training and x.sum() > 0 else x)
    with pytest.raises(GraphlsError, match=r"in training mode: .*train=False takes the module in evaluation mode only"):
        graphls.from_torch(module, X)
    assert (graphls.from_torch(module, X, train=False)(X).asnumpy() == X).all()


def test_arguments_that_do_not_fit_are_errors() -> None:
    linear = torch.nn.Linear(4, 3)
    cases: list[tuple[Any, dict[str, Any], str]] = [
        ((), {}, "missing a required argument"),
        ((X,), {"y": X}, "unexpected keyword argument 'y'"),
        ((X,), {"dynamic_shapes": {"z": None}}, "dynamic_shapes names 'z', and the arguments are 'input'"),
        ((X,), {"dynamic_shapes": 3}, "dynamic_shapes is a dict by argument or a sequence of at most 1"),
        ((X,), {"train": 1}, "train"),
        ((3,), {}, "needs an example input"),
    ]
    for args, options, message in cases:
        with pytest.raises(GraphlsError, match=message):
            graphls.from_torch(linear, *args, **options)


def test_results_that_are_no_tensors_are_refused() -> None:
    class KeyCache:
        """As the caches of Hugging Face, a class that PyTorch does not know."""

    module = module_of(lambda m, x: {"y": x, "cache": KeyCache()})
    sentence = "Module returns a KeyCache, which is not a tensor; use_cache=False"
    with pytest.raises(GraphlsError, match=sentence) as error:
        graphls.from_torch(module, X)
    assert "test_from_torch.py" in str(error.value)


def test_missing_onnxscript_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(GraphlsError, match="pip install onnxscript"):
        graphls.from_torch(torch.nn.Linear(4, 3), X)
