"""Names that MindSpore has besides for functions of its own."""

from __future__ import annotations

from graphls.ops.arithmetic import floor_mod
from graphls.ops.arrangement import vstack
from graphls.ops.elementwise import add, div, exp, expm1, floor_div, mod, mul, pow, sub
from graphls.ops.logic import greater, greater_equal, less, less_equal

__all__ = [
    "floordiv", "floormod", "pows", "row_stack", "tensor_add", "tensor_div", "tensor_exp", "tensor_expm1",
    "tensor_floordiv", "tensor_ge", "tensor_gt", "tensor_le", "tensor_lt", "tensor_mod", "tensor_mul", "tensor_muls",
    "tensor_pow", "tensor_sub",
]  # fmt: skip

floordiv, floormod, row_stack, pows = floor_div, floor_mod, vstack, pow
tensor_add, tensor_sub, tensor_div, tensor_mod, tensor_pow = add, sub, div, mod, pow
tensor_mul = tensor_muls = mul
tensor_floordiv, tensor_exp, tensor_expm1 = floor_div, exp, expm1
tensor_gt, tensor_ge, tensor_lt, tensor_le = greater, greater_equal, less, less_equal
