"""Settings shared by all datasets: the seed, the number of workers, the number of rows read ahead."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import IntEnum
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

from graphls.base.errors import GraphValueError
from graphls.base.refusals import refusal
from graphls.base.sharing import settings
from graphls.dataset import checks
from graphls.dataset.checks import MOST_WORKERS
from graphls.dataset.randomness import SEED, current_seed

MAXIMUM_SEED = 2**32 - 1


_settings = settings.Settings({
    "prefetch_size": 16, "workers": 1, "start_method": "fork", "auto_num_workers": False, "enable_autotune": False,
    "enable_shared_mem": True, "enable_watchdog": True, "multiprocessing_timeout_interval": 300,
    "monitor_sampling_interval": 1000, "numa_enable": False, "debug_mode": False, "do_copy": False,
    "parallel_convert": False, "fast_recovery": True, "auto_offload": False, "callback_timeout": 60,
    "autotune_interval": 0, "sending_batches": 0,
})  # fmt: skip
"""Every setting with its default."""
_Setting = TypeVar("_Setting")
_Setter = TypeVar("_Setter", bound=Callable[..., None])


def _remembers(*names: str) -> Callable[[_Setter], _Setter]:
    """Make a setter of a declaration, whose first arguments are settings of these names without any other effect."""
    kinds = {name: type(_settings[name]) for name in names}

    def setter_of(declaration: _Setter) -> _Setter:
        parameters = signature(declaration)

        @wraps(declaration)
        def setter(*args: object, **options: object) -> None:
            declaration(*args, **options)
            bound = parameters.bind(*args, **options)
            bound.apply_defaults()
            for (name, kind), value in zip(kinds.items(), bound.arguments.values(), strict=False):
                _remember(name, value, kind)

        return cast("_Setter", setter)

    return setter_of


def _remember(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise checks.type_error(name, value, [kind])
    _settings.update({name: value})


def _getter(name: str, kind: Callable[[Any], _Setting]) -> Callable[[], _Setting]:
    """The function that returns a remembered setting."""

    def get() -> _Setting:
        return kind(_settings[name])

    get.__name__ = get.__qualname__ = f"get_{name}"
    get.__doc__ = f"The value of `set_{name}`; {_settings[name]} by default."
    get.__annotations__ = {"return": kind.__name__}
    return get


def _integer(name: str, value: object, low: int, high: int) -> int:
    number = checks.integer(name, value, -math.inf, math.inf)
    if not low <= number <= high:
        raise GraphValueError(f"{name} given is not within the required range [{low}, {high}].")
    return number


def set_seed(seed: int) -> None:
    """Set the seed of all draws of datasets, instead of that of `graphls.set_seed`, for iterators created later.

    Raises GraphTypeError for anything but an integer, GraphValueError for one of more than 32 bits.
    """
    SEED.update({"value": _integer("Seed", seed, 0, MAXIMUM_SEED), "setting": object()})


def get_seed() -> int:
    """The seed of an iterator that is created now."""
    return current_seed()


def set_prefetch_size(size: int) -> None:
    """Set the number of rows (batches, where the pipeline ends in batches) that an iterator reads ahead, at first 16.

    Raises GraphValueError for a number that is below 1 or too large.
    """
    _settings.update({"prefetch_size": _integer("Prefetch size", size, 1, 2**31 - 1)})


def get_prefetch_size() -> int:
    """The number of rows that an iterator reads ahead."""
    return int(_settings["prefetch_size"])


def set_num_parallel_workers(num: int) -> None:
    """Set the number of workers of nodes without one of their own; at first 1, no worker besides the reader.

    Results do not depend on it.

    Raises GraphValueError for a number that is below 1 or too large.
    """
    _settings.update({"workers": _integer("Number of parallel workers", num, 1, MOST_WORKERS)})


def get_num_parallel_workers() -> int:
    """The number of workers of a node without one of its own."""
    return int(_settings["workers"])


# -- settings that are accepted and remembered, and change nothing --------------------------------------------


@_remembers("auto_num_workers")
def set_auto_num_workers(enable: bool) -> None:
    """Accepted and remembered; the number of workers does not change."""


@_remembers("enable_autotune")
def set_enable_autotune(enable: bool, filepath_prefix: str | None = None) -> None:
    """Accepted and remembered; nothing is tuned, and no file is written."""


@_remembers("enable_shared_mem")
def set_enable_shared_mem(enable: bool) -> None:
    """Accepted and remembered; rows from worker processes come through pipes, without a limit of their size."""


@_remembers("enable_watchdog")
def set_enable_watchdog(enable: bool) -> None:
    """Accepted and remembered; a worker process that dies is always noticed."""


@_remembers("multiprocessing_timeout_interval")
def set_multiprocessing_timeout_interval(interval: int) -> None:
    """Accepted and remembered; slow workers cause no warnings."""


@_remembers("monitor_sampling_interval")
def set_monitor_sampling_interval(interval: int) -> None:
    """Accepted and remembered; nothing is monitored."""


@_remembers("numa_enable")
def set_numa_enable(numa_enable: bool) -> None:
    """Accepted and remembered; threads are not bound to memory nodes."""


@_remembers("debug_mode")
def set_debug_mode(debug_mode_flag: bool, debug_hook_list: list[object] | None = None) -> None:
    """Accepted and remembered; rows are the same in any mode, and an error shows the lines of the user's code."""


@_remembers("do_copy", "parallel_convert")
def set_iterator_mode(do_copy: bool = False, parallel_convert: bool = False) -> None:
    """Accepted and remembered; a row is a new array in any mode."""


@_remembers("fast_recovery")
def set_fast_recovery(fast_recovery: bool) -> None:
    """Accepted and remembered; a resumed run never computes rows that it does not return."""


@_remembers("auto_offload")
def set_auto_offload(offload: bool) -> None:
    """Accepted and remembered; operations on rows run on the CPU."""


@_remembers("callback_timeout")
def set_callback_timeout(timeout: int) -> None:
    """Accepted and remembered; callbacks of datasets have no time limit."""


@_remembers("autotune_interval")
def set_autotune_interval(interval: int) -> None:
    """Accepted and remembered; nothing is tuned."""


@_remembers("sending_batches")
def set_sending_batches(batch_num: int) -> None:
    """Accepted and remembered; batches are computed on request, and ahead."""


get_auto_num_workers = _getter("auto_num_workers", bool)
get_enable_autotune = _getter("enable_autotune", bool)
get_enable_shared_mem = _getter("enable_shared_mem", bool)
get_enable_watchdog = _getter("enable_watchdog", bool)
get_multiprocessing_timeout_interval = _getter("multiprocessing_timeout_interval", int)
get_monitor_sampling_interval = _getter("monitor_sampling_interval", int)
get_numa_enable = _getter("numa_enable", bool)
get_debug_mode = _getter("debug_mode", bool)
get_fast_recovery = _getter("fast_recovery", bool)
get_auto_offload = _getter("auto_offload", bool)
get_callback_timeout = _getter("callback_timeout", int)
get_autotune_interval = _getter("autotune_interval", int)


def get_iterator_mode() -> dict[str, bool]:
    """The values of `set_iterator_mode`; both False by default."""
    return {name: bool(_settings[name]) for name in ("do_copy", "parallel_convert")}


class ErrorSamplesMode(IntEnum):
    """The treatment of a row that fails.

    Examples:
        >>> from graphls.dataset import config
        >>> config.get_error_samples_mode()
        <ErrorSamplesMode.RETURN: 0>
    """

    RETURN, REPLACE, SKIP = range(3)


def set_error_samples_mode(error_samples_mode: ErrorSamplesMode) -> None:
    """Set the treatment of a row that fails: its error ends the pass (RETURN), the only mode that is offered.

    Raises GraphTypeError for anything but a mode, GraphValueError for the other modes.
    """
    if checks.choice("error_samples_mode", error_samples_mode, ErrorSamplesMode) is not ErrorSamplesMode.RETURN:
        raise GraphValueError(refusal("bad rows", f"ErrorSamplesMode.{error_samples_mode.name}"))


def get_error_samples_mode() -> ErrorSamplesMode:
    """RETURN: the error of a row ends the pass."""
    return ErrorSamplesMode.RETURN


def set_multiprocessing_start_method(start_method: str = "fork") -> None:
    """Accepted and remembered; raises GraphValueError for anything but "fork" and "spawn"."""
    if start_method not in ("fork", "spawn"):
        raise GraphValueError(f'A start_method is "fork" or "spawn", not {start_method!r}.')
    _remember("start_method", start_method, str)


def get_multiprocessing_start_method() -> str:
    """The value of `set_multiprocessing_start_method`; "fork" by default."""
    return str(_settings["start_method"])
