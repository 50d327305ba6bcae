"""Names at the top of `mindspore` that graphls needs none of, or has in other places."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.sharing.settings import Settings
from graphls.compat.hook.known import __version__
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
"""Options of `recompute` that say how MindSpore does it."""

STRICT, COMPATIBLE, LAX = 0, 1, 2
"""Levels of what MindSpore's compiler takes of Python; graphls runs construct as Python."""


RowTensorInner = RowTensor


class security:
    """What MindSpore was built with."""

    @staticmethod
    def enable_security() -> bool:
        """False: nothing is left out for security."""
        return False


def set_recursion_limit(recursion_limit: int = 10000) -> None:
    """Let Python nest so many calls, if it lets fewer now, since construct runs as Python while it is traced."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), recursion_limit))


def run_check() -> None:
    """Print the version, and whether a small computation gives what it must."""
    print(f"MindSpore version:  {__version__} (as graphls offers it)")
    found = Tensor(np.ones((2, 3), np.float32)) @ Tensor(np.ones((3, 2), np.float32))
    is_right = bool((found.asnumpy() == 3).all())
    print(f"The result of multiplication calculation is {'correct' if is_right else 'wrong'}.")


def enable_dynamic(**kwargs: object) -> Callable[[Callable[..., object]], Callable[..., Any]]:
    """Hold a function to what its arguments look like, by name: `@enable_dynamic(x=Tensor(shape=[None, 3], ...))`.

    It is compiled for each shape that comes, as without. Raises GraphTypeError for what declares no open size,
    GraphValueError for a name that is no argument, and both in a call whose arguments are not as declared.
    """
    if not kwargs or not all(isinstance(told, Tensor) and has_declarations(told) for told in kwargs.values()):
        raise GraphTypeError(f"enable_dynamic takes tensors with an open size by name, and not {kwargs}.")

    def decorate(function: Callable[..., object]) -> Callable[..., Any]:
        told = declared_inputs(function, (), kwargs)

        @wraps(function)
        def checked(*args: object, **options: object) -> object:
            check_declared(function, told, args, options)
            return function(*args, **options)

        return checked

    return decorate


def no_inline(fn: Any = None) -> Any:
    """The function itself: it says how MindSpore compiles."""
    return fn if fn is not None else (lambda function: function)


def recompute(block: Cell, *args: Tensor, **kwargs: object) -> Any:
    """What a cell gives, which for gradients is computed again instead of kept; options of how change nothing.

    Raises GraphTypeError for what is no cell.
    """
    if not isinstance(block, Cell):
        raise GraphTypeError(f"recompute takes a Cell, not {block!r}.")
    given = {name: value for name, value in kwargs.items() if name not in RECOMPUTING}
    was, block.__dict__["_is_recomputed"] = block._is_recomputed, True
    try:
        return block(*args, **given)
    finally:
        block.__dict__["_is_recomputed"] = was


def set_dump(target: TensorLike, enabled: bool = True) -> None:
    """Nothing: `graphls` writes stages of a step where `save_graphs` says so."""


def async_ckpt_thread_status() -> bool:
    """False, as soon as no thread writes a checkpoint any more."""
    background.settle()
    return False


def manual_seed(seed: int) -> None:
    """Start all random numbers anew, as `set_seed`."""
    set_seed(seed)


def initial_seed() -> int:
    """The seed that was set; 0 before that."""
    return get_seed() or 0


_offload = Settings({})
_servers = Settings({"enable_ps": False})


def set_offload_context(offload_config: Mapping[str, object]) -> None:
    """Keep settings of memory beside the device, which decide nothing here."""
    _offload.update(offload_config)


def get_offload_context() -> dict[str, Any]:
    """What `set_offload_context` has kept."""
    return _offload.values()


def set_ps_context(**kwargs: object) -> None:
    """Keep settings of parameter servers; raises GraphValueError for one that turns them on."""
    if kwargs.get("enable_ps"):
        raise GraphValueError("graphls trains in one process, without parameter servers.")
    _servers.update(kwargs)


def get_ps_context(attr_key: str) -> Any:
    """A setting of parameter servers."""
    return _servers[attr_key]


def reset_ps_context() -> None:
    """Forget the settings of parameter servers."""
    _servers.reset()
