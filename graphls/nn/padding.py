"""Layers that add elements around images."""

from __future__ import annotations

from typing import Any, ClassVar

from graphls import ops
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.nn.cell import Cell
from graphls.ops.operands import tensor_of
from graphls.tensors.tensor import Tensor, TensorLike

__all__ = [
    "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "Pad", "ReflectionPad1d", "ReflectionPad2d",
    "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "ZeroPad2d",
]  # fmt: skip


_MODES = {"CONSTANT": "constant", "REFLECT": "reflect", "SYMMETRIC": "symmetric"}


class Pad(Cell):
    """x with more elements around: `paddings` has a pair of numbers for each axis, the first axis first.

    The new ones are 0 with the mode "CONSTANT", the mirrored inside without the edge with "REFLECT" and with the edge
    with "SYMMETRIC". Raises GraphTypeError and GraphValueError for arguments and inputs that do not fit.
    """

    def __init__(self, paddings: Any, mode: str = "CONSTANT") -> None:
        super().__init__()
        if not isinstance(paddings, (tuple, list)) or any(
            not isinstance(pair, (tuple, list)) or len(pair) != 2 for pair in paddings
        ):
            raise GraphTypeError(f"For 'Pad', the 'paddings' must be a pair for each axis, but got {paddings!r}.")
        if mode not in _MODES:
            raise GraphValueError(
                f"For 'Pad', the 'mode' must be one of {', '.join(map(repr, _MODES))}, but got {mode!r}.",
            )
        self.paddings, self.mode = tuple((first, last) for first, last in paddings), mode

    def construct(self, x: TensorLike) -> Tensor:
        x = tensor_of(x)
        if x.ndim != len(self.paddings):
            raise GraphValueError(f"Pad with {len(self.paddings)} pairs takes as many axes, not {x.type}.")  # fmt: skip
        return ops.pad(x, tuple(n for pair in self.paddings[::-1] for n in pair), _MODES[self.mode])

    def extend_repr(self) -> str:
        return f"paddings={self.paddings}, mode={self.mode}"


class _ImagePad(Cell):
    """Padding of the last axes: one number for all sides, or (before, after) for each axis, the last axis first."""

    axes: ClassVar[int]
    mode: ClassVar[str] = "constant"
    value: float | None = None

    def __init__(self, padding: Any) -> None:
        super().__init__()
        name, count = type(self).__name__, 2 * self.axes
        sides = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,) * count
        if len(sides) != count or any(isinstance(n, bool) or not isinstance(n, int) for n in sides):
            raise GraphTypeError(f"For {name!r}, the 'padding' must be an integer or {count}, but got {padding!r}.")
        self.padding = sides

    def construct(self, x: Any) -> Tensor:
        x = tensor_of(x)
        if x.ndim not in self._ranks():
            ranks = " or ".join(map(str, self._ranks()))
            raise GraphValueError(f"{type(self).__name__} takes an input of rank {ranks}, not {x.type}.")  # fmt: skip
        return ops.pad(x, self.padding, self.mode, self.value)

    def _ranks(self) -> tuple[int, ...]:
        return self.axes + 1, self.axes + 2

    def extend_repr(self) -> str:
        return f"padding={self.padding}"


class ConstantPad2d(_ImagePad):
    """x with a number around its last two axes; `padding` is an integer or (left, right, top, bottom).

    Negative numbers take elements away. Raises GraphTypeError and GraphValueError for arguments that do not fit.
    """

    axes = 2

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise GraphTypeError(f"For {type(self).__name__!r}, the 'value' must be a number, but got {value!r}.")
        self.value = value

    def _ranks(self) -> tuple[int, ...]:
        return tuple(range(self.axes, 9))

    def extend_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(ConstantPad2d):
    """x with a number at both ends of its last axis; `padding` is an integer or (left, right)."""

    axes = 1


class ConstantPad3d(ConstantPad2d):
    """x with a number around its last three axes; see ConstantPad2d."""

    axes = 3


class ZeroPad2d(_ImagePad):
    """Images with zeros around; `padding` is an integer or (left, right, top, bottom)."""

    axes = 2


class ReflectionPad1d(_ImagePad):
    """(N, C, L) or (C, L) with its mirrored inside, without the edge, at both ends; an integer or (left, right)."""

    axes, mode = 1, "reflect"


class ReflectionPad2d(_ImagePad):
    """(N, C, H, W) or (C, H, W) with the mirrored inside around; an integer or (left, right, top, bottom)."""

    axes, mode = 2, "reflect"


class ReflectionPad3d(_ImagePad):
    """(N, C, D, H, W) or (C, D, H, W) with the mirrored inside around; an integer or six."""

    axes, mode = 3, "reflect"


class ReplicationPad1d(_ImagePad):
    """(N, C, L) or (C, L) with its ends repeated; an integer or (left, right)."""

    axes, mode = 1, "replicate"


class ReplicationPad2d(_ImagePad):
    """(N, C, H, W) or (C, H, W) with the edges repeated; an integer or (left, right, top, bottom)."""

    axes, mode = 2, "replicate"


class ReplicationPad3d(_ImagePad):
    """(N, C, D, H, W) or (C, D, H, W) with the edges repeated; an integer or six."""

    axes, mode = 3, "replicate"
