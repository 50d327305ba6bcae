"""Names at the top of `mindspore` that `graphls` does not have at its top: settings without effect, and helpers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.sharing.settings import Settings
from graphls.compat.hook.mindspore_names import __version__
from graphls.compat.operators.functional import typeof
from graphls.compat.parallel import parameter_broadcast, set_algo_parameters
from graphls.frontend.tensors.dynamic_sizes import OpenSize as Symbol
from graphls.frontend.tensors.random import get_seed, set_seed
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.nn.cell import Cell
from graphls.nn.declared_inputs import check_declared, declared_inputs, has_declarations
from graphls.ops.arrays.scattering import RowTensor
from graphls.ops.control_flow import vmap
from graphls.ops.directions import jacfwd, jacrev, jvp, vjp
from graphls.train import background

__all__ = [
    "COMPATIBLE", "LAX", "STRICT", "RowTensor", "RowTensorInner", "Symbol", "async_ckpt_thread_status",
    "enable_dynamic", "get_offload_context", "get_ps_context", "initial_seed", "jacfwd", "jacrev", "jvp", "manual_seed",
    "no_inline", "parameter_broadcast", "recompute", "reset_ps_context", "run_check", "security", "set_algo_parameters",
    "set_dump", "set_offload_context", "set_ps_context", "set_recursion_limit", "typeof", "vjp", "vmap",
]  # fmt: skip

RECOMPUTING = ("context_fn", "early_stop", "output_recompute", "use_reentrant")
"""Options of `recompute` that concern only MindSpore's implementation."""

STRICT, COMPATIBLE, LAX = 0, 1, 2
"""Levels of Python syntax that MindSpore's compiler accepts; graphls runs construct as Python."""


RowTensorInner = RowTensor


class security:
    """Build options of MindSpore."""

    @staticmethod
    def enable_security() -> bool:
        """False: no feature is disabled for security."""
        return False


def set_recursion_limit(recursion_limit: int = 10000) -> None:
    """Raise Python's recursion limit to this number, since construct runs as Python while it is traced."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), recursion_limit))


def run_check() -> None:
    """Print the version, and whether a small computation is correct."""
    print(f"MindSpore version:  {__version__} (as graphls offers it)")
    product = Tensor(np.ones((2, 3), np.float32)) @ Tensor(np.ones((3, 2), np.float32))
    is_right = bool((product.asnumpy() == 3).all())
    print(f"The result of multiplication calculation is {'correct' if is_right else 'wrong'}.")


def enable_dynamic(**kwargs: object) -> Callable[[Callable[..., object]], Callable[..., Any]]:
    """Declare dynamic shapes of a function's arguments by name: `@enable_dynamic(x=Tensor(shape=[None, 3], ...))`.

    It is compiled for each new shape, as without the decorator. Raises GraphTypeError for a declaration without a
    dynamic size, GraphValueError for an unknown argument, and both in a call with arguments that are not as declared.
    """
    if not kwargs or not all(isinstance(item, Tensor) and has_declarations(item) for item in kwargs.values()):
        raise GraphTypeError(f"enable_dynamic takes tensors with a dynamic size by name, not {kwargs}.")

    def decorate(function: Callable[..., object]) -> Callable[..., Any]:
        declared = declared_inputs(function, (), kwargs)

        @wraps(function)
        def checked(*args: object, **options: object) -> object:
            check_declared(function, declared, args, options)
            return function(*args, **options)

        return checked

    return decorate


def no_inline(fn: Any = None) -> Any:
    """The function itself: the decorator concerns only MindSpore's compiler."""
    return fn if fn is not None else (lambda function: function)


def recompute(block: Cell, *args: Tensor, **kwargs: object) -> Any:
    """The result of a cell, which is recomputed for gradients instead of stored.

    Options of MindSpore's implementation have no effect. Raises GraphTypeError for anything but a cell.
    """
    if not isinstance(block, Cell):
        raise GraphTypeError(f"recompute takes a Cell, not {block!r}.")
    inputs = {name: value for name, value in kwargs.items() if name not in RECOMPUTING}
    before, block.__dict__["_is_recomputed"] = block._is_recomputed, True
    try:
        return block(*args, **inputs)
    finally:
        block.__dict__["_is_recomputed"] = before


def set_dump(target: TensorLike, enabled: bool = True) -> None:
    """Does nothing: the setting `save_graphs` writes the stages of a step."""


def async_ckpt_thread_status() -> bool:
    """Waits until no thread writes a checkpoint; returns False."""
    background.settle()
    return False


def manual_seed(seed: int) -> None:
    """Restart all random numbers, as `set_seed` does."""
    set_seed(seed)


def initial_seed() -> int:
    """The seed; 0 if none was set."""
    return get_seed() or 0


_offload = Settings({})
_servers = Settings({"enable_ps": False})


def set_offload_context(offload_config: Mapping[str, object]) -> None:
    """Store settings of offloaded memory, which have no effect here."""
    _offload.update(offload_config)


def get_offload_context() -> dict[str, Any]:
    """The settings that `set_offload_context` has stored."""
    return _offload.values()


def set_ps_context(**kwargs: object) -> None:
    """Store settings of parameter servers; raises GraphValueError for one that enables them."""
    if kwargs.get("enable_ps"):
        raise GraphValueError("graphls trains in one process, without parameter servers.")
    _servers.update(kwargs)


def get_ps_context(attr_key: str) -> Any:
    """A setting of parameter servers."""
    return _servers[attr_key]


def reset_ps_context() -> None:
    """Reset the settings of parameter servers."""
    _servers.reset()
