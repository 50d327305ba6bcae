"""What a model is made for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graphls.backends.onnx.types import COMPUTED
from graphls.ir.types import DType, Type, float16, float32

KernelCheck = Callable[[str, DType], bool]
"""Whether the runtime's kernel of an operator is right at special numbers of a dtype, such as the root of inf."""


def trust_kernels(operator: str, dtype: DType) -> bool:
    """The KernelCheck of a portable model: its operators do what the standard says."""
    return True


@dataclass(frozen=True)
class Target:
    """A kind of device: how it computes, and how it differs from a CPU.

    With `native_half`, float16 is computed as such; else in float32 and rounded after every primitive, which gives
    the numbers of an accelerator on a CPU, infinities included. A device that `is_gpu` has memory of its own, waits
    where a condition decides what runs next, and lacks other kernels than a CPU.
    """

    native_half: bool
    is_gpu: bool

    def computed(self, kind: Type) -> Type:
        """The type in which a value takes part in computation: narrow integers have hardly any kernels."""
        if kind.dtype.is_half:
            return kind if self.native_half and kind.dtype is float16 else kind.with_dtype(float32)
        return kind.with_dtype(COMPUTED.get(kind.dtype, kind.dtype))


TARGETS = {"cpu": Target(native_half=False, is_gpu=False), "cuda": Target(native_half=True, is_gpu=True)}
"""The targets by the names of devices."""
