"""Process settings as in MindSpore's context: eager or graph mode, the device, graph dumps."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import graphls.runtime.engines  # noqa: F401  which are found by their names
from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.base.files.files import as_path
from graphls.base.location import user_location
from graphls.base.reporting import warn
from graphls.base.sharing.settings import Settings
from graphls.ir.engines import check_engine, check_mesh
from graphls.ir.plan import DEFAULT
from graphls.passes.manager import dump_to
from graphls.runtime.cache import LIMIT, default_folder, keep_in, limit_to
from graphls.runtime.context.device_layout import DeviceLayout
from graphls.runtime.context.keys import DEVICES, GRAPH_MODE, KEYS, PYNATIVE_MODE, require_known
from graphls.runtime.context.parallel import (
    ParallelMode,
    get_auto_parallel_context,
    parallel_layout,
    reset_auto_parallel_context,
    set_auto_parallel_context,
)
from graphls.runtime.devices import Cuda, kind_of
from graphls.runtime.onnxruntime.cuda_libraries import current_driver
from graphls.runtime.threads import limit_threads

__all__ = [
    "GRAPH_MODE", "PYNATIVE_MODE", "ParallelMode", "get_auto_parallel_context", "get_context",
    "reset_auto_parallel_context", "reset_context", "set_auto_parallel_context", "set_cache_dir", "set_context",
    "set_deterministic", "set_device",
]  # fmt: skip

_settings = Settings({name: key.default for name, key in KEYS.items()})


class Replacement:
    """The policy for a missing device: an error, or another device after one warning.

    It belongs to the settings of the process and changes under their lock.
    """

    is_allowed = False
    warned: ClassVar[set[str]] = set()
    devices: ClassVar[dict[str, str]] = {}
    forced = ""


def set_context(**kwargs: Any) -> None:
    """Change settings of this process; those that are not named stay as they are.

    `mode` is GRAPH_MODE (0), in which calling a cell compiles it, or PYNATIVE_MODE (1), in which it runs step by step.
    `device_target` is "CPU" or "GPU"; where scripts of MindSpore run, any other is the one of them that is there, and
    stays what `get_context` gives. With `save_graphs` every compilation writes its stages, as IR text, to a folder
    of its own in `save_graphs_path`. `device_id`, `max_device_memory` and `deterministic` ("ON") say on which GPU steps
    run, how much of its memory each may take, and that they give the same bits in every run. With
    `enable_compile_cache` compiled steps are kept in `compile_cache_path`, see `set_cache_dir`. `engine` runs what it
    takes of the steps on a CPU, "auto" is the fastest one, see docs/engines.md. On a `mesh` of devices, graphls.Mesh,
    steps run with states divided by the level of ZeRO `zero`, as `compile` says. `runtime_num_threads` is the most
    threads on which steps on a CPU compute that are compiled from then on; 0 leaves it to the engine. The other keys of
    MindSpore are checked and change nothing.

    Raises GraphValueError for an unknown key and for a value that does not fit, GraphTypeError for one of another
    class, GraphRuntimeError for a device or an engine that is not there; then nothing has changed.

    Raises GraphKeyError for an engine that there is not.

    Examples:
        >>> import graphls
        >>> from graphls import context
        >>> context.set_context(mode=context.GRAPH_MODE, save_graphs=False)
        >>> context.get_context("save_graphs")
        False
        >>> context.reset_context()
    """
    for name, value in kwargs.items():
        require_known("set_context", name, KEYS)
        KEYS[name].check("set_context", name, value)
    with _settings.lock:
        if "device_target" in kwargs:
            _find_device(kwargs["device_target"])
        if "engine" in kwargs:
            mesh = kwargs.get("mesh", _settings["mesh"])
            if mesh is not None:
                check_mesh(kwargs["engine"], mesh, "cpu")
            check_engine(kwargs["engine"], "cpu")
        _settings.update(kwargs)
        _take_effect(kwargs)


def get_context(attr_key: str) -> Any:
    """The value of a setting; raises GraphValueError for a name that is none.

    Examples:
        >>> from graphls import context
        >>> context.get_context("device_target")
        'CPU'
    """
    require_known("get_context", attr_key, KEYS)
    if attr_key == "device_target" and _settings.explicit_value(attr_key) is None:
        return next(name for name, device in DEVICES.items() if device == kind_of(default_device()))
    return _settings[attr_key]


def reset_context() -> None:
    """Give every setting its default again."""
    with _settings.lock:
        _take_effect(_settings.reset())


@contextmanager
def kept_context() -> Iterator[None]:
    """Give every setting, behind a block, the value that it has now."""
    try:
        with _settings.preserved():
            yield
    finally:
        with _settings.lock:
            _take_effect(KEYS)


def set_device(device_target: str, device_id: int | None = None) -> None:
    """Choose the device that compiled steps run on; raises as `set_context`.

    Examples:
        >>> from graphls import context
        >>> context.set_device("CPU")
        >>> context.get_context("device_target")
        'CPU'
        >>> context.reset_context()
    """
    set_context(device_target=device_target, **({} if device_id is None else {"device_id": device_id}))


def set_cache_dir(path: str | os.PathLike[str] | None, limit: int = LIMIT) -> None:
    """Keep compiled steps in a folder, so that the next start of a script takes them from there.

    Beyond `limit` bytes, by default 4 GiB, those go that were not used for longest. None leaves it to the environment
    variable GRAPHLS_CACHE, without which nothing is kept. Raises GraphTypeError and GraphValueError for what is not a
    path or not a number of bytes. See docs/cache.md.

    Examples:
        >>> import graphls
        >>> graphls.set_cache_dir("steps")  # what is compiled from here on is kept there, and found by the next start
        >>> graphls.set_cache_dir(None)
    """
    if path is None:
        set_context(enable_compile_cache=False)
        return
    folder = as_path(path)
    with _settings.lock:
        limit_to(_bytes(limit))
        set_context(enable_compile_cache=True, compile_cache_path=str(folder))


def _bytes(limit: object) -> int:
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise GraphTypeError(f"The limit of a cache is a number of bytes, not {limit!r}.")
    if limit < 1:
        raise GraphValueError(f"The limit of a cache is 1 byte or more, not {limit}.")
    return limit


def default_device() -> str | Cuda:
    """The device that cells run on when they are called: "cpu" or a GPU."""
    target = _settings.explicit_value("device_target")
    if Replacement.forced:
        device = Replacement.forced
    elif target is None:
        device = os.environ.get("GRAPHLS_DEVICE", "cpu")
    else:
        device = Replacement.devices.get(target) or str(DEVICES[target])
    return cuda_of_context() if device == "cuda" else device


def default_engine(device: str | Cuda) -> str:
    """The engine of steps that name none: on a CPU that of the settings, or of GRAPHLS_ENGINE in the environment.

    Where settings of parallel training let one process drive several devices, it is the one that does.
    """
    if _settings.explicit_value("engine") is None and parallel_layout().mesh is not None:
        return "xla"
    name = _settings.explicit_value("engine") or os.environ.get("GRAPHLS_ENGINE")
    return DEFAULT if device != "cpu" or name is None else str(name)


def default_layout() -> DeviceLayout:
    """The mesh of steps that name none and what it divides: by `set_context`, or by settings of parallel training."""
    layout = parallel_layout()
    if _settings.explicit_value("mesh") is None and (layout.mesh is not None or not _settings["zero"]):
        return layout
    return DeviceLayout(_settings["mesh"], _settings["zero"])


def cuda_of_context() -> Cuda:
    """The GPU that `device_id` says, with its `max_device_memory`, and with `deterministic` kernels."""
    limit = _settings.explicit_value("max_device_memory")
    return Cuda(
        id=_card(_settings["device_id"]),
        memory_limit=None if limit is None else int(float(limit.rstrip(" GB")) * 2**30) or None,
        deterministic=_settings["deterministic"] == "ON",
    )


def _card(number: int) -> int:
    """The GPU of a number; where scripts of MindSpore run and it is not there, the first one, after one warning."""
    if not Replacement.is_allowed or number < max(1, len(current_driver().cards)):
        return number
    if f"GPU {number}" not in Replacement.warned:
        Replacement.warned.add(f"GPU {number}")
        warn(f"There is no GPU {number}; graphls runs on GPU 0 instead.")
    return 0


def set_deterministic(deterministic: bool) -> None:
    """Whether steps on a GPU give the same bits in every run; raises as `set_context`.

    Raises GraphTypeError for what is neither True nor False.

    Examples:
        >>> from graphls import context
        >>> context.set_deterministic(True)
        >>> context.reset_context()
    """
    if not isinstance(deterministic, bool):
        raise GraphTypeError(f"set_deterministic takes True or False, not {deterministic!r}.")
    set_context(deterministic="ON" if deterministic else "OFF")


def replace_missing_devices(is_allowed: bool) -> None:
    """Whether `set_context(device_target=...)` takes devices that are not there, and runs on what is there."""
    with _settings.lock:
        Replacement.is_allowed = is_allowed
        Replacement.warned.clear()


def force_device(device: str) -> None:
    """Run on a device, "cpu" or "cuda", whatever `device_target` says; "" ends that.

    Raises GraphRuntimeError for a device that is not there; then nothing has changed.
    """
    fault = _fault_of(next(name for name, known in DEVICES.items() if known == device)) if device else None
    if fault is not None:
        raise fault
    with _settings.lock:
        Replacement.forced = device


def forced_device() -> str:
    """The device that everything runs on, whatever `device_target` says; "" where that decides."""
    return Replacement.forced


def is_eager() -> bool:
    """Whether cells run step by step when they are called."""
    return bool(_settings.explicit_value("mode") == PYNATIVE_MODE)


def _find_device(target: str) -> None:
    """Find what runs for a target; raises GraphRuntimeError where that is not there and nothing may take its place."""
    if Replacement.forced:
        return
    fault = _fault_of(target)
    if fault is None or not Replacement.is_allowed:
        Replacement.devices.pop(target, None)
        if fault is not None:
            raise fault.at(user_location())
        return
    device = "CPU" if DEVICES[target] == "cuda" or _fault_of("GPU") else "GPU"
    Replacement.devices[target] = str(DEVICES[device])
    if target not in Replacement.warned:
        Replacement.warned.add(target)
        warn(f"The device_target {target!r} is not there; graphls runs on the {device} instead.")


def _fault_of(target: str) -> GraphRuntimeError | None:
    """The fault of a device; None where it is available."""
    device = DEVICES[target]
    if device is None:
        return GraphRuntimeError(f"The device_target {target!r} is not available; graphls runs on 'CPU' and 'GPU'.")
    if device != "cpu":
        from graphls.runtime.onnxruntime.runtime import check_device

        try:
            check_device(device)
        except GraphRuntimeError as error:
            return error
    return None


def _take_effect(changed: Iterable[str]) -> None:
    if not {"save_graphs", "save_graphs_path"}.isdisjoint(changed):
        dump_to(get_context("save_graphs_path") if get_context("save_graphs") else None)
    if not {"enable_compile_cache", "compile_cache_path"}.isdisjoint(changed):
        keep_in(_cache_folder())
    if "runtime_num_threads" in changed:
        limit_threads(_settings.explicit_value("runtime_num_threads"))


def _cache_folder() -> Path | None:
    path = get_context("compile_cache_path")
    if not get_context("enable_compile_cache"):
        return None
    return Path(path) if path else default_folder()
