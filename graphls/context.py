"""The settings of a process, as MindSpore's context keeps them: eager or graphs, the device, dumps of graphs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from graphls.context_keys import DEVICES, GRAPH_MODE, KEYS, PYNATIVE_MODE, require_known
from graphls.context_parallel import (
    ParallelMode,
    get_auto_parallel_context,
    reset_auto_parallel_context,
    set_auto_parallel_context,
)
from graphls.ir.errors import GraphRuntimeError
from graphls.source import located, user_location

__all__ = [
    "GRAPH_MODE",
    "PYNATIVE_MODE",
    "ParallelMode",
    "get_auto_parallel_context",
    "get_context",
    "reset_auto_parallel_context",
    "reset_context",
    "set_auto_parallel_context",
    "set_context",
    "set_device",
]

_given: dict[str, Any] = {}


def set_context(**kwargs: Any) -> None:
    """Change settings of this process; those that are not named stay as they are.

    `mode` is GRAPH_MODE (0), in which calling a cell compiles it, or PYNATIVE_MODE (1), in which it runs step by step.
    `device_target` is "CPU" or "GPU". With `save_graphs` every compilation writes its stages, as IR text, to a folder
    of its own in `save_graphs_path`. The other keys of MindSpore are checked and change nothing.

    Raises GraphValueError for an unknown key and for a value that does not fit, GraphTypeError for one of another
    class, GraphRuntimeError for a device that is not there; then nothing has changed.
    """
    for name, value in kwargs.items():
        require_known("set_context", name, KEYS)
        KEYS[name].check("set_context", name, value)
    if "device_target" in kwargs:
        _check_device(kwargs["device_target"])
    _given.update(kwargs)
    _take_effect(kwargs)


def get_context(attr_key: str) -> Any:
    """The value of a setting; raises GraphValueError for a name that is none."""
    require_known("get_context", attr_key, KEYS)
    if attr_key == "device_target" and attr_key not in _given:
        return next(name for name, device in DEVICES.items() if device == default_device())
    return _given.get(attr_key, KEYS[attr_key].default)


def reset_context() -> None:
    """Give every setting its default again."""
    changed = list(_given)
    _given.clear()
    _take_effect(changed)


def set_device(device_target: str, device_id: int | None = None) -> None:
    """Choose the device that compiled steps run on; raises as `set_context`."""
    set_context(device_target=device_target, **({} if device_id is None else {"device_id": device_id}))


def default_device() -> str:
    """The device that cells run on when they are called: "cpu" or "cuda"."""
    target = _given.get("device_target")
    return os.environ.get("GRAPHLS_DEVICE", "cpu") if target is None else str(DEVICES[target])


def is_eager() -> bool:
    """Whether cells run step by step when they are called."""
    return _given.get("mode") == PYNATIVE_MODE


def _check_device(target: str) -> None:
    device = DEVICES[target]
    if device is None:
        message = f"The device_target {target!r} is not available; graphls runs on 'CPU' and 'GPU'."
        raise GraphRuntimeError(message, user_location())
    if device != "cpu":
        from graphls.backends.ort import check_device

        try:
            check_device(device)
        except GraphRuntimeError as error:
            raise located(error) from None


def _take_effect(changed: Iterable[str]) -> None:
    if not {"save_graphs", "save_graphs_path"}.isdisjoint(changed):
        from graphls.passes.manager import dump_to

        dump_to(get_context("save_graphs_path") if get_context("save_graphs") else None)
