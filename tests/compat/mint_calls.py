"""Calls of `mindspore.mint` whose names and arguments are PyTorch's: `record` has run them there (see test_mint.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any
Calls = dict[str, Callable[[], Any]]


class Numbers:
    """Tensors of one library, of numbers that are the same for each."""

    def __init__(self, tensor: Callable[[Array], Any]) -> None:
        self.tensor, self.random = tensor, np.random.RandomState(0)

    def __call__(self, *shape: int) -> Any:
        return self.tensor(self.random.rand(*shape).astype(np.float32))

    def whole(self, high: int, *shape: int) -> Any:
        return self.tensor(self.random.randint(0, high, shape))


def calls(mint: Any, F: Any, nn: Any, tensor: Callable[[Array], Any]) -> Calls:
    """The calls by name; each draws numbers of its own."""

    def of(call: Callable[[Numbers], Any]) -> Callable[[], Any]:
        return lambda: call(Numbers(tensor))

    signs = tensor(np.array([1, -1, 1, -1], np.float32))
    pairs = tensor(np.array([[0, 2], [1, 1]]))
    made: dict[str, Callable[[Numbers], Any]] = {
        "addbmm": lambda t: mint.addbmm(t(2, 4), t(3, 2, 5), t(3, 5, 4), beta=0.5, alpha=2),
        "addcdiv": lambda t: mint.addcdiv(t(3), t(3), t(3) + 1, value=2),
        "addmv": lambda t: mint.addmv(t(2), t(2, 3), t(3), beta=2),
        "arctan2": lambda t: mint.arctan2(t(3), other=t(3)),
        "bitwise_not": lambda t: mint.bitwise_not(t.whole(9, 5)),
        "divide": lambda t: mint.divide(t(3), t(3) + 1, rounding_mode="floor"),
        "dstack": lambda t: mint.dstack([t(2, 3), t(2, 3)]),
        "hstack": lambda t: mint.hstack([t(2, 3), t(2, 3)]),
        "isneginf": lambda t: mint.isneginf(t(3)),
        "logaddexp2": lambda t: mint.logaddexp2(t(3), t(3)),
        "mm": lambda t: mint.mm(t(2, 3), mat2=t(3, 2)),
        "take": lambda t: mint.take(t(2, 3), t.whole(6, 4)),
        "unique_consecutive": lambda t: mint.unique_consecutive(tensor(np.array([1, 1, 2, 3, 1])), return_counts=True),
        "bernoulli": lambda t: mint.bernoulli(tensor(np.array([0, 1, 1], np.float32))),
        "multinomial": lambda t: mint.multinomial(tensor(np.array([0, 1, 0], np.float32)), 1),
        "diag": lambda t: [mint.diag(t(3), 1), mint.diag(t(3, 4), -1)],
        "empty": lambda t: [mint.empty(2, 3) * 0, mint.empty_like(t(2, 3)) * 0],
        "index_add": lambda t: mint.index_add(t(4, 3), 0, tensor(np.array([0, 2, 0])), t(3, 3), alpha=2),
        "index_add of columns": lambda t: mint.index_add(t(4, 3), 1, tensor(np.array([0, 2])), t(4, 2)),
        "scatter_add": lambda t: mint.scatter_add(t(4, 3), 1, pairs, t(2, 2)),
        "searchsorted": lambda t: mint.searchsorted(tensor(np.arange(4) / 4), tensor(np.arange(6) / 5), side="right"),
        "sorter": lambda t: mint.searchsorted(t(3), t(2), sorter=mint.argsort(t(3) * 0 + Numbers(tensor)(3))),
        "var_mean": lambda t: mint.var_mean(t(3, 4), 1, correction=0, keepdim=True),
        "std_mean": lambda t: mint.std_mean(t(3, 4), dim=(0, 1)),
        "cdist": lambda t: mint.cdist(t(3, 2), t(4, 2), p=1.0),
        "vdot": lambda t: mint.vdot(t(3), t(3)),
        "kthvalue": lambda t: mint.kthvalue(t(3, 4), 2, dim=0, keepdim=True),
        "randint_like": lambda t: mint.randint_like(t.whole(3, 3), 0, 5) * 0,
        "conv1d": lambda t: F.conv1d(t(1, 2, 6), t(4, 1, 3), t(4), stride=2, padding=1, groups=2),
        "conv2d": lambda t: F.conv2d(t(1, 2, 6, 6), t(4, 2, 3, 3), padding=(1, 0), dilation=2),
        "conv2d same": lambda t: F.conv2d(t(1, 2, 6, 6), t(4, 2, 3, 3), padding="same"),
        "conv3d": lambda t: F.conv3d(t(1, 2, 4, 4, 4), t(3, 2, 2, 2, 2)),
        "conv_transpose2d": lambda t: F.conv_transpose2d(t(1, 2, 4, 4), t(2, 3, 3, 3), stride=2, output_padding=1),
        "avg_pool1d": lambda t: F.avg_pool1d(t(1, 2, 7), 3, ceil_mode=True),
        "avg_pool2d": lambda t: F.avg_pool2d(t(1, 2, 6, 6), 2, padding=1, count_include_pad=False),
        "avg_pool2d divisor": lambda t: F.avg_pool2d(t(1, 2, 6, 6), 2, divisor_override=3),
        "avg_pool3d": lambda t: F.avg_pool3d(t(1, 2, 4, 4, 4), 2),
        "max_pool2d": lambda t: F.max_pool2d(t(1, 2, 6, 6), 2, return_indices=True),
        "batch_norm": lambda t: F.batch_norm(t(2, 3, 4, 4), t(3), t(3) + 1, t(3), t(3)),
        "group_norm": lambda t: F.group_norm(t(2, 4, 3, 3), 2, t(4), t(4)),
        "fold": lambda t: F.fold(t(1, 8, 9), (4, 4), 2),
        "upsample": lambda t: F.upsample(t(1, 2, 3, 3), scale_factor=2.0, mode="nearest"),
        "soft_margin_loss": lambda t: F.soft_margin_loss(t(4), signs),
        "dropout2d": lambda t: F.dropout2d(t(1, 2, 3, 3), 0.5, training=False),
        "KLDivLoss": lambda t: nn.KLDivLoss(reduction="sum", log_target=True)(t(4), t(4)),
        "SmoothL1Loss": lambda t: nn.SmoothL1Loss(beta=0.2)(t(4), t(4)),
        "SoftMarginLoss": lambda t: nn.SoftMarginLoss()(t(4), signs),
        "ConvTranspose2d": lambda t: nn.ConvTranspose2d(2, 3, 3, 2, padding=1, output_padding=1)(t(1, 2, 4, 4)) * 0,
        "PReLU": lambda t: nn.PReLU(2, 0.1)(t(1, 2, 3) - 0.5),
    }
    for name in ("arccos", "arcsin", "arcsinh", "arctan", "arctanh", "negative", "ravel"):
        made[name] = lambda t, name=name: getattr(mint, name)(t(2, 3) * 0.9)  # type: ignore[misc]
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "floor_divide", "gcd", "gt", "le", "lt"):
        made[name] = lambda t, name=name: getattr(mint, name)(t.whole(9, 5) + 1, t.whole(5, 5) + 1)  # type: ignore[misc]
    layers: dict[str, tuple[tuple[Any, ...], tuple[int, ...], float]] = {
        "ELU": ((0.5,), (5,), 1), "SELU": ((), (5,), 1), "Hardshrink": ((0.2,), (5,), 1), "Hardsigmoid": ((), (5,), 8),
        "Hardswish": ((), (5,), 8), "Threshold": ((0.1, 9.0), (5,), 1), "Unfold": ((2,), (1, 2, 4, 4), 1),
        "Fold": (((4, 4), 2), (1, 8, 9), 1), "AvgPool1d": ((2,), (1, 2, 6), 1), "AvgPool3d": ((2,), (1, 2, 4, 4, 4), 1),
        "UpsamplingNearest2d": ((None, 2), (1, 2, 3, 3), 1), "UpsamplingBilinear2d": (((5, 5),), (1, 2, 3, 3), 1),
        "ZeroPad1d": (((1, 2),), (1, 2, 3), 1), "ZeroPad3d": ((1,), (1, 2, 3, 3, 3), 1),
        "AdaptiveMaxPool2d": ((2,), (1, 2, 5, 5), 1), "Upsample": (((4, 4),), (1, 2, 2, 2), 1),
    }  # fmt: skip
    for name, (settings, shape, scale) in layers.items():
        made[name] = lambda t, name=name, settings=settings, shape=shape, scale=scale: (  # type: ignore[misc]
            getattr(nn, name)(*settings)((t(*shape) - 0.5) * scale)
        )
    return {name: of(call) for name, call in made.items()}


def summary(result: Any, array: Callable[[Any], Any]) -> list[Any]:
    """The shape of each tensor in a result, and two sums of its elements that show their places."""
    found = []
    for each in result if isinstance(result, (list, tuple)) else [result]:
        numbers = array(each).astype(np.float64)
        weights = np.cos(np.arange(numbers.size)).reshape(numbers.shape)
        found.append([list(numbers.shape), round(float(numbers.sum()), 5), round(float((numbers * weights).sum()), 5)])
    return found


def record() -> None:
    """Print what PyTorch gives, as test_mint.json has it: `python tests/compat/mint_calls.py` where it is installed."""
    import json

    import torch  # type: ignore[import-not-found]

    made = calls(torch, torch.nn.functional, torch.nn, torch.as_tensor)
    rows = {name: summary(call(), lambda each: each.detach().numpy()) for name, call in made.items()}
    print("{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items()) + "\n}")


if __name__ == "__main__":
    record()
