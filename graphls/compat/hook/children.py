"""Processes that are spawned: the import hook goes with them.

A spawned process unpickles what it is to do in a fresh interpreter, and first of all the dict that
`multiprocessing.spawn.get_preparation_data` makes. So that dict gets an object whose unpickling installs the hook.
"""

from __future__ import annotations

import sys
from multiprocessing import spawn
from typing import Any

from graphls.runtime.context import forced_device

KEY = "graphls.compat"


class Installation:
    """Pickles as a call that installs the hook where it is loaded, which comes before the child knows its path.

    A device that everything runs on here is that of the child.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        lines = f"import sys\nsys.path[:] = {sys.path!r}\nfrom graphls.compat import install\ninstall()\n"
        lines += f"from graphls.context import force_device\nforce_device({forced_device()!r})\n"
        return exec, (lines, {})


def tell_children() -> None:
    """Let processes that this one spawns have the hook."""
    if not hasattr(spawn.get_preparation_data, "of_python"):
        spawn.get_preparation_data = _with_installation(spawn.get_preparation_data)


def tell_children_no_more() -> None:
    """Let processes that this one spawns be as Python makes them."""
    spawn.get_preparation_data = getattr(spawn.get_preparation_data, "of_python", spawn.get_preparation_data)


def _with_installation(of_python: Any) -> Any:
    def get_preparation_data(name: str) -> dict[str, Any]:
        return {KEY: Installation(), **of_python(name)}

    vars(get_preparation_data)["of_python"] = of_python
    return get_preparation_data
