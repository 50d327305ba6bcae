"""Which gradients travel together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from graphls.context.parallel import get_auto_parallel_context
from graphls.ir.errors import GraphValueError
from graphls.tensors.parameter import Parameter

SIZE = 25 << 20
"""How many bytes of gradients travel together where nobody says it."""

ALONE = (0,)


def buckets(parameters: Sequence[Parameter], fusion_type: int = 1) -> tuple[tuple[int, ...], ...]:
    """For each gradient a number, 0 for one that travels alone, and how many bytes with that number travel together.

    Gradients of parameters with equal `comm_fusion` do. `all_reduce_fusion_config=[20, 35]`, and
    `comm_fusion={"allreduce": {"mode": "index", "config": [20, 35]}}`, let those of the first 20 parameters, of the
    next 15, and the others go together, whatever their size; the modes "size", with a config in MB, and "auto" cut by
    size. `comm_fusion={"openstate": False}` lets each go alone. Raises GraphValueError for other settings.
    """
    numbers = [0 if fusion_type == 0 else getattr(p, "comm_fusion", 1) for p in parameters]
    fusion = get_auto_parallel_context("comm_fusion")
    if not fusion.get("openstate", True):
        return (ALONE,) * len(numbers)
    cuts, size = _setting(fusion.get("allreduce", {}), get_auto_parallel_context("all_reduce_fusion_config"))
    if not cuts:
        return tuple((number, size) if number else ALONE for number in numbers)
    keys = [(number, bisect_right(cuts, i)) for i, number in enumerate(numbers)]
    known = {key: i for i, key in enumerate(dict.fromkeys(keys), 1)}
    return tuple((known[key],) if key[0] else ALONE for key in keys)


def _setting(setting: dict[str, Any], indices: Sequence[int]) -> tuple[list[int], int]:
    """The numbers of parameters before which to cut, and the bytes that travel together."""
    mode, config = setting.get("mode", "auto"), setting.get("config")
    if mode == "auto":
        return _indices(indices), SIZE
    if mode == "size" and isinstance(config, (int, float)) and config >= 0:
        return [], int(config * (1 << 20))
    if mode == "index" and isinstance(config, (list, tuple)):
        return _indices(config), SIZE
    text = "The allreduce of comm_fusion has the mode 'auto', 'size' with a config in MB, or 'index' with a list"
    raise GraphValueError(f"{text} of numbers of parameters, not {setting}.")


def _indices(indices: Sequence[int]) -> list[int]:
    cuts = list(indices)
    if not all(type(i) is int and i >= 0 for i in cuts) or sorted(set(cuts)) != cuts:
        raise GraphValueError(f"Numbers of parameters at which gradients are parted rise from 0, unlike {cuts}.")
    return cuts
