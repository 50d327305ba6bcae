"""Divisions that OpenVINO keeps as what they are.

It makes x / y into x * (1 / y), which is rounded twice (2026.4.1): 41 / 41 is less than 1 then, and its floor 0.
So it is still where one of them is a constant.
"""

from __future__ import annotations

from typing import Any

NO_PRODUCT = "nonconvertable_divide_0"
"""What its own passes call operators by which they mark divisions."""

MOST = 64
"""Operators to look at for whether something is a constant; graphls has computed what is made of constants alone."""


def keep_quotients(model: Any) -> None:
    """Mark the divisions of a model, but for those of or by constants.

    Those are made part of the kernel before them, which takes the constant for the divisor wherever it stands, and
    divides the first element only.
    """
    for operator in (found for found in model.get_ops() if found.get_type_name() == "Divide"):
        if not any(_is_constant(value.get_node()) for value in operator.input_values()):
            operator.get_rt_info()[NO_PRODUCT] = True


def _is_constant(operator: Any) -> bool:
    """Whether it takes nothing but constants."""
    waiting, seen = [operator], 0
    while waiting and seen < MOST:
        found, seen = waiting.pop(), seen + 1
        if found.get_type_name() == "Parameter":
            return False
        waiting += [value.get_node() for value in found.input_values()]
    return not waiting
