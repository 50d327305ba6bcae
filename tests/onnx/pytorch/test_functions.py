"""Functions that PyTorch's exporter gets wrong, as modules of `graphls.from_torch` compute them; needs torch."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import GraphlsError, nn

torch: Any = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from graphls.onnx.pytorch.functions import exact_functions  # noqa: E402
from tests.onnx.pytorch.test_from_torch import X, module_of  # noqa: E402

functional = torch.nn.functional


def both(function: Any, *inputs: Any) -> list[Any]:
    """Results of a function of PyTorch and of what replaces it, with the gradients of the first input."""
    results = []
    for is_replaced in (False, True):
        if is_replaced:
            with exact_functions(torch):
                value = function(*inputs)
        else:
            value = function(*inputs)
        factor = torch.linspace(0.5, 1.5, value.numel(), dtype=value.dtype).reshape(value.shape)
        results.append((value, *torch.autograd.grad((value * factor).sum(), inputs[0])))
    return results


def assert_both_agree(function: Any, *inputs: Any) -> None:
    expected, actual = both(function, *inputs)
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(6, 5), (3, 5, 4), (5,)])
def test_cross_entropy_of_smoothed_labels_and_of_probabilities(reduction: str, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(shape, dtype=torch.float64, requires_grad=True), torch.rand(5, dtype=torch.float64) + 0.1
    labels = torch.randint(0, 5, shape[:1] + shape[2:] if len(shape) > 1 else ())
    settings = {"reduction": reduction, "ignore_index": 2 if labels.ndim else -100}
    shares = torch.softmax(torch.randn(shape, dtype=torch.float64), 1 if len(shape) > 1 else 0)
    for smoothing in (0.0, 0.2):
        for w in (None, weight):
            options = {**settings, "weight": w, "label_smoothing": smoothing}
            assert_both_agree(lambda x, o=options: functional.cross_entropy(x, labels, **o), x)
            options["ignore_index"] = -100
            assert_both_agree(lambda x, o=options: functional.cross_entropy(x, shares, **o), x)


def test_gradients_of_rows_are_divided_by_their_frequency() -> None:
    index = torch.tensor([[1, 1, 0], [2, 1, 3]])
    weight = torch.randn(5, 3, requires_grad=True)
    for padding in (None, 1):
        assert_both_agree(lambda w, p=padding: functional.embedding(index, w, p, scale_grad_by_freq=True), weight)


def trained(module: Any, loss: Any, *inputs: Any) -> tuple[list[float], list[float], Any, Any]:
    """Losses of five steps here and in PyTorch, the cell, and the module that PyTorch has trained."""
    peer, net = copy.deepcopy(module), graphls.from_torch(module, *inputs)
    optimizer, expected = torch.optim.SGD(peer.parameters(), 0.1, 0.9), []
    for _ in range(5):
        optimizer.zero_grad()
        value = loss(peer(*inputs))
        value.backward()
        optimizer.step()
        expected.append(value.item())

    class Loss(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def construct(self, *values: Any) -> Any:
            return loss(self.net(*values))

    step = nn.TrainOneStepCell(Loss(), nn.Momentum(net.trainable_params(), 0.1, 0.9)).set_train()
    losses = [float(step(*(x.numpy() for x in inputs)).asnumpy()) for _ in range(5)]
    return losses, expected, net, peer


def twice(module: Any, x: Any) -> Any:
    """A spectral norm whose layer is called without gradients first."""
    with torch.no_grad():
        before = module.layer(x)
    return module.layer(x) + before


def smoothed(module: Any, x: Any) -> Any:
    """A loss of smoothed labels."""
    return functional.cross_entropy(module.layer(x), torch.tensor([0, 1, 2, 3, 0, 1]), label_smoothing=0.3)


def normed(module: Any, x: Any) -> Any:
    """Instances of six channels, with statistics."""
    return module.norm(module.layer(x)[None])


def frequent(module: Any, x: Any) -> Any:
    """Rows, some of which are taken twice."""
    return module.table(torch.tensor([1, 2, 1, 0, 1, 3])) * module.layer(x)


def counted(module: Any, x: Any) -> Any:
    """A batch normalisation, and a buffer that no result needs."""
    y = module.layer(x)
    module.smallest.copy_(torch.minimum(module.smallest, y.detach().min()))
    return module.norm(module.norm(y) + 1)


@pytest.mark.parametrize("function", [twice, smoothed, normed, frequent, counted])
def test_training_is_that_of_pytorch(function: Any) -> None:
    torch.manual_seed(0)
    layer: Any = torch.nn.Linear(4, 4)
    parts: dict[str, Any] = {"layer": layer}
    if function is twice:
        parts["layer"] = torch.nn.utils.parametrizations.spectral_norm(layer)
    if function is normed:
        parts["norm"] = torch.nn.InstanceNorm1d(6, affine=True, track_running_stats=True)
    if function is frequent:
        parts["table"] = torch.nn.Embedding(5, 4, scale_grad_by_freq=True)
    if function is counted:
        parts.update(norm=torch.nn.BatchNorm1d(4))
    module = module_of(function, **parts)
    module.register_buffer("smallest", torch.tensor(3.0))
    x = torch.from_numpy(X)
    losses, expected, net, peer = trained(module, lambda y: (y * y).mean() + y.mean(), x)
    np.testing.assert_allclose(losses, expected, rtol=2e-5)
    net.to_torch(module)
    for (key, value), other in zip(module.state_dict().items(), peer.state_dict().values(), strict=True):
        torch.testing.assert_close(value, other, rtol=0, atol=5e-5, msg=key)


def test_what_changes_weights_in_forward_and_packed_sequences_are_refused() -> None:
    index = np.array([[1, 2], [0, 1]])
    for kind in (torch.nn.Embedding, torch.nn.EmbeddingBag):
        with pytest.raises(GraphlsError, match=f"{kind.__name__} with max_norm changes its weight in every call"):
            graphls.from_torch(kind(5, 3, max_norm=1.0), index)
    with pytest.raises(GraphlsError, match="forgets scale_grad_by_freq"):
        graphls.from_torch(torch.nn.EmbeddingBag(5, 3, scale_grad_by_freq=True), index)

    def packed(module: Any, x: Any) -> Any:
        return module.lstm(torch.nn.utils.rnn.pack_padded_sequence(x[None], torch.tensor([6]), batch_first=True))[1]

    with pytest.raises(GraphlsError, match=r"packed sequence depends on the values .* take padded sequences"):
        graphls.from_torch(module_of(packed, lstm=torch.nn.LSTM(4, 3, batch_first=True)), X)
    norm = torch.nn.BatchNorm1d(4, momentum=None)
    with pytest.raises(GraphlsError, match=r"in training mode: 'norm' takes its momentum, which is None, from"):
        graphls.from_torch(module_of(lambda m, x: m.norm(x), norm=norm), X)
