"""The import hook: every `mindspore` path becomes a module that takes its names from graphls."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from graphls.compat.names import PATHS
from graphls.context import PYNATIVE_MODE, set_context
from graphls.ir.errors import GraphAttributeError, GraphImportError, GraphRuntimeError
from graphls.lazy import find, is_missing, public_names
from graphls.source import user_location

PACKAGE = "mindspore"
OFFERED_DUNDERS = ("__all__", "__version__")


class Mirror(ModuleType):
    """A module of MindSpore whose attributes are looked up in modules of graphls when they are asked for."""

    def __init__(self, name: str) -> None:
        super().__init__(name, f"What graphls offers of {name}.")
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in OFFERED_DUNDERS:
            raise AttributeError(name)
        if name == "__all__":
            return [name for name in offered(self.__name__) if not is_missing(lookup(self.__name__, name))]
        found = lookup(self.__name__, name)
        if is_missing(found):
            raise GraphAttributeError(not_offered(self.__name__, name), user_location())
        vars(self)[name] = found  # the next time it is an attribute
        return found

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *offered(self.__name__)})


class Finder(MetaPathFinder, Loader):
    """Finds and makes the modules of MindSpore; one that graphls has nothing for raises GraphImportError."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module of MindSpore; None for any other."""
        package, _, inner = fullname.partition(".")
        if package != PACKAGE:
            return None
        if inner not in PATHS:
            raise GraphImportError(not_offered(*fullname.rpartition(".")[::2]), user_location())
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module, empty: names are looked up later."""
        return Mirror(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: there is no code."""


def lookup(module: str, name: str) -> Any:
    """What a module of MindSpore offers under a name: a module inside of it, or what graphls has; see `is_missing`."""
    if _inner(f"{module}.{name}") in PATHS:
        return import_module(f"{module}.{name}")
    return find(name, PATHS[_inner(module)])


def offered(module: str) -> list[str]:
    """The names that a module of MindSpore offers."""
    prefix = f"{_inner(module)}.".lstrip(".")
    modules = (path.removeprefix(prefix) for path in PATHS if path and path.startswith(prefix))
    return [*(name for name in modules if "." not in name), *public_names(PATHS[_inner(module)])]


def not_offered(module: str, name: str) -> str:
    """One sentence that a module of MindSpore has no such name here, with the nearest one."""
    return f"graphls does not offer {module}.{name}{_nearest(name, offered(module))}."


def _nearest(name: str, known: Sequence[str]) -> str:
    """`; the nearest is 'x'`: the name in other capitals, or that with the most letters in common."""
    same = [other for other in known if other.lower() == name.lower()]
    found = same or get_close_matches(name, known, 1, cutoff=0.4)
    return f"; the nearest is {found[0]!r}" if found else ""


def _inner(module: str) -> str:
    return module.removeprefix(PACKAGE).lstrip(".")


_finder = Finder()


def install() -> None:
    """Let `import mindspore`, and everything below it, import graphls in this process, in MindSpore 2's eager mode.

    A MindSpore that is installed is left alone. Raises GraphRuntimeError where that is imported already.
    """
    imported = sys.modules.get(PACKAGE)
    if imported is not None and not isinstance(imported, Mirror):
        raise GraphRuntimeError("MindSpore itself is imported already; install graphls.compat before.", user_location())
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
        set_context(mode=PYNATIVE_MODE)


def uninstall() -> None:
    """Let `import mindspore` find what Python finds, and forget what it was; the mode stays as it is."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for name in [name for name, module in sys.modules.items() if isinstance(module, Mirror)]:
        del sys.modules[name]
