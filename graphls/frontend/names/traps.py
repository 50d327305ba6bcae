"""Warnings for calls that mean one thing in MindSpore and another in PyTorch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar, TypeVar, cast

from graphls.base.reporting import warn

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class CallArguments:
    """The arguments of a call: all of them by name, and the names of those that were given by position."""

    values: Mapping[str, Any]
    by_position: frozenset[str]


@dataclass(frozen=True)
class Trap:
    """A call with two meanings; `text` is the warning, in which the callee's name and arguments are filled in."""

    call: str
    here: str
    elsewhere: str
    instead: str
    looks: str
    looks_other: Callable[[CallArguments], bool]
    text: str


class Meaning:
    """The framework that calls are written for: MindSpore's meaning is known to scripts that import `mindspore`."""

    is_mindspore: ClassVar[bool] = False


def expect_mindspore(is_expected: bool) -> None:
    """Choose whether to warn only where MindSpore 2 itself warns."""
    Meaning.is_mindspore = is_expected


def _is_small(arguments: CallArguments, name: str, limit: float) -> bool:
    value = arguments.values.get(name)
    return isinstance(value, (int, float)) and 0 < value < limit


def _steps_by_one(arguments: CallArguments) -> bool:
    """Whether a call has windows of several elements, no stride and no argument that only MindSpore has."""
    sizes = arguments.values.get("kernel_size", 1)
    return sizes not in (1, (1,) * 2, (1,) * 3) and not {"stride", "pad_mode"} & set(arguments.values)


KEEP_PROB = Trap(
    "`nn.Dropout(0.1)`",
    "keeps a tenth and drops the rest, as the first argument is `keep_prob`",
    "drops a tenth",
    "`nn.Dropout(p=0.1)`",
    "the number is below 0.5 and has no name",
    lambda call: "keep_prob" in call.by_position and call.values.get("p") is None and _is_small(call, "keep_prob", 0.5),
    "{name}({keep_prob}) keeps {keep_prob:.0%} of the elements and drops the others, as its first argument is "
    "MindSpore's keep_prob; write p={keep_prob} to drop {keep_prob:.0%}, or keep_prob={keep_prob} if that is meant.",
)
STRIDE = Trap(
    "`nn.MaxPool2d(2)`, `nn.AvgPool2d(2)` and those of 1 and 3 axes; `ops.avg_pool2d(x, 2)` and kin",
    "windows overlap, as the stride is 1 unless given",
    "the stride is the size of the window",
    "`nn.MaxPool2d(2, 2)`",
    "windows are larger than 1, without a stride or a `pad_mode`",
    _steps_by_one,
    "{name} of kernel_size={kernel_size} moves by 1, MindSpore's default; write stride={kernel_size} for windows side "
    "by side, as PyTorch has them, or stride=1 if that is meant.",
)
MOMENTUM = Trap(
    "`nn.BatchNorm2d(8, momentum=0.1)` and kin",
    "the moving statistics keep a tenth of what they were in each step",
    "they keep nine tenths",
    "`nn.BatchNorm2d(8, momentum=0.9)`",
    "the number is above 0 and below 0.5",
    lambda call: _is_small(call, "momentum", 0.5),
    "{name} with momentum={momentum} keeps {momentum:.0%} of its moving statistics in each step, as MindSpore counts; "
    "what PyTorch calls momentum={momentum} is 1 - {momentum} here.",
)
EPSILON = Trap(
    "weights of PyTorch in `nn.LayerNorm((8,))`",
    "`epsilon` is 1e-7",
    "it is 1e-5, or what the model says, as 1e-12 of BERT",
    "`nn.LayerNorm((8,), epsilon=1e-5)`",
    "`interop.torch.load_state_dict` loads into one of 1e-7",
    lambda call: call.values.get("epsilon") == 1e-7,
    "{name} has epsilon={epsilon}, MindSpore's default, and weights of PyTorch are trained with 1e-5 unless their "
    "model says another; write epsilon=1e-5.",
)
OUTER = Trap(
    "`nn.MSELoss()(x, y)` of the shapes (8, 1) and (8,); `nn.L1Loss`, `nn.HuberLoss` and their functions",
    "both broadcast to (8, 8), so each prediction meets each label",
    "the same, with a warning",
    "`nn.MSELoss()(x.squeeze(-1), y)`",
    "the losses have the shape of neither",
    lambda call: call.values["shape"] not in (call.values["predictions"], call.values["labels"]),
    "{name} broadcasts predictions {predictions} and labels {labels} to {shape}, so that predictions meet the "
    "labels of others; give both one shape, by squeeze(-1) or expand_dims(-1).",
)
TRAPS = KEEP_PROB, STRIDE, MOMENTUM, EPSILON, OUTER
"""All traps; the table in docs/differences.md is generated from them."""
_DEPRECATED = "For Dropout, this parameter `keep_prob` will be deprecated, please use `p` instead."
"""MindSpore 2's warning for each Dropout without a `p`; it has none for the other traps."""


def warns_of(trap: Trap) -> Callable[[Function], Function]:
    """A decorator of functions and classes that warns where the arguments of a call look like a trap."""

    def decorate(called: Function) -> Function:
        if not isinstance(called, type):
            return cast(Function, _warning(trap, called))
        called.__init__ = _warning(trap, called.__init__)  # type: ignore[misc]
        return called

    return decorate


def _warning(trap: Trap, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a warning after each successful call."""
    names = tuple(inspect.signature(function).parameters)

    @wraps(function)
    def warned(*arguments: Any, **options: Any) -> Any:
        result = function(*arguments, **options)
        by_position = dict(zip(names, arguments, strict=False))
        subject = type(arguments[0]).__name__ if names[0] == "self" else warned.__name__
        _warn_of_call(trap, subject, CallArguments({**by_position, **options}, frozenset(by_position)))
        return result

    return warned


def warn_where(trap: Trap, name: str, settings: CallArguments) -> None:
    """Warn where settings look like the other meaning; scripts of MindSpore get no such warning."""
    if not Meaning.is_mindspore and trap.looks_other(settings):
        warn(trap.text.format(**{**settings.values, "name": name}))


def _warn_of_call(trap: Trap, name: str, call: CallArguments) -> None:
    """Warn of a call; Python shows it once for each line."""
    if Meaning.is_mindspore and trap is KEEP_PROB and call.values.get("p") is None:
        warn(_DEPRECATED)
    warn_where(trap, name, call)
