"""Counts the roundings of 16-bit operators: a primitive must round its results once."""

from __future__ import annotations

from collections.abc import Iterable

from onnx import NodeProto

MOVES = {"Concat", "Expand", "Gather", "GatherElements", "GatherND", "Identity", "Pad", "Reshape", "Shape", "Slice"}
MOVES |= {"Squeeze", "Tile", "Transpose", "Unsqueeze", "Where"}

EXACT = MOVES | {"Abs", "Cast", "Max", "Min", "Neg", "ReduceMax", "ReduceMin", "Relu"}
"""Operators that may stand before or behind a rounding, which gives the same numbers.

Those that compare, find positions or make whole numbers are none of them: 2047.9 is 2048 in 16 bits, and its floor is
another number.
"""

REPEATED = {"CumSum", "ScatterElements", "ScatterND", "Softsign", "Sum"}
"""Operators whose kernels on CUDA compute in 16 bits (1.31.1): they round after each of several steps."""

CORRECT = MOVES | {"Abs", "Add", "Div", "Mul", "Neg", "Sqrt", "Sub"}
"""Operators whose kernels of bfloat16 on CUDA give the bits of float32 that is rounded.

They move elements, or compute in float32 and round once; others, such as Max, may treat nan in another way.
"""


def rounds_once(operators: Iterable[NodeProto]) -> bool:
    """Whether these operators, in 16 bits, give what they would in float32, rounded at the end."""
    rounding = [operator.op_type for operator in operators if operator.op_type not in EXACT]
    return len(rounding) <= 1 and REPEATED.isdisjoint(rounding)
