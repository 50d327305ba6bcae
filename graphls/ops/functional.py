"""All functions of `graphls.ops` under the name that MindSpore 1 gives them, and a few that it has only here."""

from __future__ import annotations

from typing import Any

import graphls.ops
from graphls.ops.elementwise import add, div, floor_div, mod, mul, neg, pow, sub
from graphls.ops.logic import equal, greater, greater_equal, less, less_equal

tensor_add, tensor_sub, tensor_mul, tensor_div, tensor_pow = add, sub, mul, div, pow
tensor_floordiv, tensor_mod, neg_tensor, tensor_eq = floor_div, mod, neg, equal
tensor_gt, tensor_ge, tensor_lt, tensor_le = greater, greater_equal, less, less_equal


def __getattr__(name: str) -> Any:
    return getattr(graphls.ops, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *graphls.ops.__all__})
