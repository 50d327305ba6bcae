"""Settings that all datasets share: the seed, the number of workers, how far reading runs ahead."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeVar

from graphls.base.errors import GraphValueError
from graphls.base.sharing import settings
from graphls.dataset import checks
from graphls.dataset.checks import MOST_WORKERS
from graphls.dataset.randomness import SEED, current_seed

MAXIMUM_SEED = 2**32 - 1


_settings = settings.Settings(
    {
        "prefetch_size": 16,
        "workers": 1,
        "auto_num_workers": False,
        "auto_offload": False,
        "autotune_interval": 0,
        "callback_timeout": 60,
        "debug_mode": False,
        "do_copy": False,
        "enable_autotune": False,
        "enable_shared_mem": True,
        "enable_watchdog": True,
        "fast_recovery": True,
        "monitor_sampling_interval": 1000,
        "multiprocessing_timeout_interval": 300,
        "numa_enable": False,
        "parallel_convert": False,
        "sending_batches": 0,
        "start_method": "fork",
    }
)


_Setting = TypeVar("_Setting")


def _getter(name: str, kind: Callable[[Any], _Setting]) -> Callable[[], _Setting]:
    """The function that gives a remembered setting."""

    def get() -> _Setting:
        return kind(_settings[name])

    get.__name__ = get.__qualname__ = f"get_{name}"
    get.__doc__ = f"What `set_{name}` was given; {_settings[name]} at first."
    get.__annotations__ = {"return": kind.__name__}
    return get


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


def _integer(name: str, value: object, low: int, high: int) -> int:
    number = checks.integer(name, value, -math.inf, math.inf)
    if not low <= number <= high:
        raise GraphValueError(f"{name} given is not within the required range [{low}, {high}].")
    return number


def set_seed(seed: int) -> None:
    """The seed of everything that datasets draw, instead of that of `graphls.set_seed`; iterators take it when made.

    Raises GraphTypeError for anything but an integer, GraphValueError for one that has more than 32 bits.
    """
    SEED.update({"value": _integer("Seed", seed, 0, MAXIMUM_SEED), "setting": object()})


def get_seed() -> int:
    """The seed that an iterator made now draws from."""
    return current_seed()


def set_prefetch_size(size: int) -> None:
    """How many rows (batches, where the pipeline ends in batches) an iterator reads ahead; 16 at first.

    Raises GraphValueError for a number that is below 1 or too large.
    """
    _settings.update({"prefetch_size": _integer("Prefetch size", size, 1, 2**31 - 1)})


def get_prefetch_size() -> int:
    """How many rows an iterator reads ahead."""
    return int(_settings["prefetch_size"])


def set_num_parallel_workers(num: int) -> None:
    """The number of workers of every node that is not given one; 1 at first, which means no worker besides the reader.

    Results do not depend on it.

    Raises GraphValueError for a number that is below 1 or too large.
    """
    _settings.update({"workers": _integer("Number of parallel workers", num, 1, MOST_WORKERS)})


def get_num_parallel_workers() -> int:
    """The number of workers of a node that is not given one."""
    return int(_settings["workers"])


def set_auto_num_workers(enable: bool) -> None:
    """Accepted and remembered; the number of workers stays what it is."""
    _remember("auto_num_workers", enable, bool)


def set_enable_autotune(enable: bool, filepath_prefix: str | None = None) -> None:
    """Accepted and remembered; nothing is tuned, and no file is written."""
    _remember("enable_autotune", enable, bool)


def set_enable_shared_mem(enable: bool) -> None:
    """Accepted and remembered; rows from worker processes come through pipes, without a limit of their size."""
    _remember("enable_shared_mem", enable, bool)


def set_enable_watchdog(enable: bool) -> None:
    """Accepted and remembered; a worker process that dies is always noticed."""
    _remember("enable_watchdog", enable, bool)


def set_multiprocessing_timeout_interval(interval: int) -> None:
    """Accepted and remembered; a slow worker is waited for without warnings."""
    _remember("multiprocessing_timeout_interval", interval, int)


def set_monitor_sampling_interval(interval: int) -> None:
    """Accepted and remembered; nothing is monitored."""
    _remember("monitor_sampling_interval", interval, int)


def set_numa_enable(numa_enable: bool) -> None:
    """Accepted and remembered; threads are not bound to memory nodes."""
    _remember("numa_enable", numa_enable, bool)


def _remember(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise checks.type_error(name, value, [kind])
    _settings.update({name: value})


def set_debug_mode(debug_mode_flag: bool, debug_hook_list: list[object] | None = None) -> None:
    """Accepted and remembered; rows are the same in any mode, and an error shows the lines of the user's code."""
    _remember("debug_mode", debug_mode_flag, bool)


def set_iterator_mode(do_copy: bool = False, parallel_convert: bool = False) -> None:
    """Accepted and remembered; a row is an array of its own in any mode."""
    _remember("do_copy", do_copy, bool)
    _remember("parallel_convert", parallel_convert, bool)


def get_iterator_mode() -> dict[str, bool]:
    """What `set_iterator_mode` was given; both False at first."""
    return {name: bool(_settings[name]) for name in ("do_copy", "parallel_convert")}


def set_fast_recovery(fast_recovery: bool) -> None:
    """Accepted and remembered; a run that goes on makes no row that it does not give."""
    _remember("fast_recovery", fast_recovery, bool)


def set_auto_offload(offload: bool) -> None:
    """Accepted and remembered; operations on rows run on the CPU."""
    _remember("auto_offload", offload, bool)


def set_callback_timeout(timeout: int) -> None:
    """Accepted and remembered; callbacks of datasets may take their time."""
    _remember("callback_timeout", timeout, int)


def set_autotune_interval(interval: int) -> None:
    """Accepted and remembered; nothing is tuned."""
    _remember("autotune_interval", interval, int)


def set_sending_batches(batch_num: int) -> None:
    """Accepted and remembered; batches are made when they are asked for, and ahead."""
    _remember("sending_batches", batch_num, int)


class ErrorSamplesMode(IntEnum):
    """What becomes of a row that cannot be made.

    Examples:
        >>> from graphls.dataset import config
        >>> config.get_error_samples_mode()
        <ErrorSamplesMode.RETURN: 0>
    """

    RETURN, REPLACE, SKIP = range(3)


def set_error_samples_mode(error_samples_mode: ErrorSamplesMode) -> None:
    """What becomes of a row that cannot be made: its error ends the pass (RETURN), the only mode there is.

    Raises GraphTypeError for anything but a mode, GraphValueError for one of the others.
    """
    if checks.choice("error_samples_mode", error_samples_mode, ErrorSamplesMode) is not ErrorSamplesMode.RETURN:
        text = f"A row that fails ends the pass; {error_samples_mode.name} is not offered, filter such rows out before."
        raise GraphValueError(text)


def get_error_samples_mode() -> ErrorSamplesMode:
    """RETURN: the error of a row ends the pass."""
    return ErrorSamplesMode.RETURN


def set_multiprocessing_start_method(start_method: str = "fork") -> None:
    """Accepted and remembered; raises GraphValueError for anything but "fork" and "spawn"."""
    if start_method not in ("fork", "spawn"):
        raise GraphValueError(f'A start_method is "fork" or "spawn", not {start_method!r}.')
    _remember("start_method", start_method, str)


def get_multiprocessing_start_method() -> str:
    """What `set_multiprocessing_start_method` was given; "fork" at first."""
    return str(_settings["start_method"])
