"""Lowering targets: the device, opset and runtime that a model is for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from graphls.ir.types import DType, Type, float16, float32
from graphls.runtime.lowering.kernel_tables import KernelTable, signature, table
from graphls.runtime.lowering.roundings import CORRECT
from graphls.runtime.lowering.types import COMPUTED, KINDS

KernelCheck = Callable[[str, DType], bool]
"""Whether the runtime's kernel of an operator is right at special numbers of a dtype, such as the root of inf."""

Form = Callable[..., str]
"""`form(e, inputs, attributes)` appends to a model what stands for an operator, and returns the name of its result."""


def trust_kernels(operator: str, dtype: DType) -> bool:
    """The KernelCheck of a portable model: its operators do what the standard says."""
    return True


@dataclass(frozen=True)
class Target:
    """A kind of device: how it computes, and how it differs from a CPU.

    With `native_half`, float16 is computed as such; else in float32 and rounded after every primitive, which gives
    the numbers of an accelerator on a CPU, infinities included. `native_bfloat16` says the same of bfloat16, which is
    tried for single primitives whose operators are all among `bfloat16`: their kernels give the bits of float32 that is
    rounded. A device that `is_gpu` has memory of its own, waits where a condition decides what runs next, and has the
    kernels of a table only. `opset` is the version of operators; `forms` make of others what a kernel gets wrong. Where
    kernels do not look whether indices are in range, `guards_indices` says so. With `runs_as_written`,
    kernels are those of ONNX Runtime on a CPU, some of which are faster in another form of the same products. A device
    that `unrolls` has no loops: a scan of known length is written out, iteration by iteration. With
    `copies_what_is_read`, a result of the model that another operator reads is copied to where the model gives it. With
    `sums_rows`, kernels that reduce one axis are quicker than those that reduce all.
    """

    native_half: bool
    is_gpu: bool
    opset: int
    kernels: KernelTable | None = None
    native_bfloat16: bool = False
    bfloat16: Collection[str] = ()
    forms: Mapping[str, Form] = field(default_factory=dict)
    guards_indices: bool = False
    runs_as_written: bool = False
    unrolls: bool = False
    copies_what_is_read: bool = False
    sums_rows: bool = False

    def for_any_runtime(self, native_half: bool) -> Target:
        """The same for models that other runtimes run, too, in forms that are not chosen for one of them."""
        return replace(self, native_half=native_half, runs_as_written=False)

    def computed(self, kind: Type) -> Type:
        """The type in which a value takes part in computation: narrow integers have hardly any kernels."""
        if kind.dtype.is_half:
            is_native = self.native_half if kind.dtype is float16 else self.native_bfloat16
            return kind if is_native else kind.with_dtype(float32)
        return kind.with_dtype(COMPUTED.get(kind.dtype, kind.dtype))

    def has_kernel(self, operator: str, dtype: DType) -> bool:
        """Whether the device has a kernel of an operator for this dtype of its first variable; a CPU is not asked."""
        if self.kernels is None:
            return True
        its = signature(operator, self.opset)
        if its is None:
            return False
        variable = "T" if "T" in its.variables else its.inputs[0][1]
        types = {variable: KINDS[dtype]}
        return not (its.refuses(types) or self.kernels.lacks(operator, its.since, types))


def target_of(device: str, opset: int, runtime: str) -> Target:
    """The target for a device, "cpu" or "cuda", an opset and a version of the runtime."""
    if device == "cpu":
        return Target(native_half=False, is_gpu=False, opset=opset, runs_as_written=True)
    return Target(native_half=True, is_gpu=True, opset=opset, kernels=table(device, runtime), bfloat16=CORRECT)
