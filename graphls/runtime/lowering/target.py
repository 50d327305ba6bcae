"""Lowering targets: the device, opset and runtime of a model, and how its kernels round."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from onnx import NodeProto

from graphls.ir.types import DType, Type, float16, float32
from graphls.runtime.lowering.kernel_tables import KernelTable, signature, table
from graphls.runtime.lowering.types import COMPUTED, KINDS, held

MOVES = {"Concat", "Expand", "Gather", "GatherElements", "GatherND", "Identity", "Pad", "Reshape", "Shape", "Slice"}
MOVES |= {"Squeeze", "Tile", "Transpose", "Unsqueeze", "Where"}

EXACT = MOVES | {"Abs", "Cast", "Max", "Min", "Neg", "ReduceMax", "ReduceMin", "Relu"}
"""Operators that commute with a rounding.

Operators that compare, find positions or round to integers do not: 2047.9 is 2048 in 16 bits, which has another floor.
"""

REPEATED = {"CumSum", "ScatterElements", "ScatterND", "Softsign", "Sum"}
"""Operators whose kernels on CUDA round to 16 bits after each of several steps (1.31.1)."""

CORRECT = MOVES | {"Abs", "Add", "Div", "Mul", "Neg", "Sqrt", "Sub"}
"""Operators whose bfloat16 kernels on CUDA give the bits of a rounded float32 result.

They move elements, or compute in float32 and round once; others, such as Max, may treat nan differently.
"""

KernelCheck = Callable[[str, DType], bool]
"""A predicate: the runtime's kernel of an operator is right at special numbers of a dtype, such as the root of inf."""


def trust_kernels(operator: str, dtype: DType) -> bool:
    """The KernelCheck of a portable model: its operators conform to the standard."""
    return True


def rounds_once(operators: Iterable[NodeProto]) -> bool:
    """True if these operators, in 16 bits, give the same results as in float32 with one rounding at the end."""
    rounding = [operator.op_type for operator in operators if operator.op_type not in EXACT]
    return len(rounding) <= 1 and REPEATED.isdisjoint(rounding)


@dataclass(frozen=True)
class Target:
    """A kind of device: how it computes, and how it differs from a CPU.

    With `native_half`, float16 is computed as such; else in float32 and rounded after every primitive, which gives
    the numbers of an accelerator on a CPU, infinities included. `native_bfloat16` is the same for bfloat16, which is
    tried for single primitives whose operators are all among `bfloat16`: their kernels give the bits of a rounded
    float32 result. A device that `is_gpu` has its own memory, waits where a condition decides what runs next, and has
    only the kernels of a table. With `native_low`, tensors are of low dtypes where these are rounded and scaled, in
    place of float32 that they represent. `opset` is the version of operators. With `runs_as_written`, kernels are those
    of ONNX Runtime on a CPU, some of which are faster in another form of the same products. With `is_portable`, the
    model is for other runtimes as well, and operators are those of ONNX.
    """

    native_half: bool
    is_gpu: bool
    opset: int
    kernels: KernelTable | None = None
    native_bfloat16: bool = False
    bfloat16: Collection[str] = ()
    runs_as_written: bool = False
    native_low: bool = False
    is_portable: bool = False

    def for_any_runtime(self, native_half: bool) -> Target:
        """The target of models for other runtimes as well, without forms that are chosen for one of them."""
        return replace(self, native_half=native_half, runs_as_written=False, is_portable=True)

    def computed(self, kind: Type) -> Type:
        """The type in which a value is computed: narrow integers have hardly any kernels."""
        if kind.dtype.is_half:
            is_native = self.native_half if kind.dtype is float16 else self.native_bfloat16
            return kind if is_native else kind.with_dtype(float32)
        return held(kind.with_dtype(COMPUTED.get(kind.dtype, kind.dtype)))

    def has_kernel(self, operator: str, dtype: DType, domain: str = "") -> bool:
        """True if the device has a kernel of an operator for this dtype of its first variable; a CPU always has."""
        if self.kernels is None:
            return True
        its = signature(operator, self.opset, domain)
        if its is None or (domain and self.is_portable):
            return False
        variable = "T" if "T" in its.variables else its.inputs[0][1]
        types = {variable: KINDS[dtype]}
        return not (its.refuses(types) or self.kernels.lacks(operator, its.since, types, domain))


def target_of(device: str, opset: int, runtime: str, is_portable: bool = False) -> Target:
    """The target for a device, "cpu" or "cuda", an opset and a version of the runtime."""
    if device == "cpu":
        return Target(native_half=False, is_gpu=False, opset=opset, runs_as_written=True, is_portable=is_portable)
    common = Target(native_half=True, is_gpu=True, opset=opset, is_portable=is_portable)
    return replace(common, kernels=table(device, runtime), bfloat16=CORRECT)
