"""`mindspore.mint`: the functions whose arguments are those of `graphls.ops`."""

from __future__ import annotations

from typing import Any

from graphls import ops
from graphls.ir.errors import GraphAttributeError
from graphls.ir.registry import nearest
from graphls.source import user_location

_NAMES = """
abs acos acosh add asin asinh atan atan2 atanh bmm broadcast_to ceil clamp cos cosh div einsum eq erf exp expm1 floor
full full_like greater greater_equal isfinite less less_equal linspace log log10 log1p log2 logical_and logical_not
logical_or logical_xor masked_fill matmul maximum mean minimum mul ne neg not_equal ones ones_like permute pow prod
reciprocal reshape round rsqrt sigmoid sign sin sinh sqrt square sub sum swapaxes tan tanh tril triu trunc where zeros
zeros_like
"""
SAME = _NAMES.split()
"""Functions of the same name and meaning."""

__all__ = [*SAME]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        hint = "" if name.startswith("__") else nearest(name, __all__)
        raise GraphAttributeError(f"graphls does not offer mindspore.mint.{name}{hint}.", user_location())
    return getattr(ops, name)
