"""The import hook: every `mindspore` path becomes a module that takes its names from graphls.

What graphls does not offer (`offers.py`) is an error where code asks whether it is there, and otherwise where it is
used (`import_intent.py`, `stand_in.py`): so a file that names more than it uses can be imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution
from os import PathLike
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from graphls.base.errors import GraphAttributeError, GraphImportError, GraphRuntimeError
from graphls.compat.hook.children import tell_children, tell_children_no_more
from graphls.compat.hook.import_intent import (
    ATTRIBUTE_ERRORS,
    IMPORT_ERRORS,
    frame_of_importer,
    is_guarded,
    is_import_from,
    is_star,
    is_statement,
)
from graphls.compat.hook.known import section_of
from graphls.compat.hook.offers import (
    forget,
    hides_module,
    is_there,
    modules_in,
    not_offered,
    offer,
    offered,
    public,
    stand_in,
)
from graphls.compat.version import __version__
from graphls.frontend.names.lazy import is_missing
from graphls.frontend.names.traps import expect_mindspore
from graphls.runtime.context import PYNATIVE_MODE, replace_missing_devices, set_context
from graphls.runtime.context.parallel import force_one_rank

PACKAGE = "mindspore"


class Mirror(ModuleType):
    """A module of MindSpore whose attributes are looked up in modules of graphls when they are asked for."""

    def __init__(self, name: str) -> None:
        super().__init__(name, f"What graphls offers of {name}.")
        self.__path__: list[str] = []
        self._stand_ins: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        path = _inner(self.__name__)
        frame = sys._getframe(1)
        if name == "__all__":  # of which a star imports all that MindSpore has, and what only asks has what is there
            is_all = is_star(frame) and not is_guarded(frame, IMPORT_ERRORS | ATTRIBUTE_ERRORS)
            return list(dict.fromkeys((*offered(path), *public(path)))) if is_all else offered(path)
        if name.startswith("__") and name not in (section_of(path) or ()):
            raise AttributeError(name)
        found = lookup(self.__name__, name)
        if is_missing(found):
            return self._missing(name, frame)
        vars(self)[name] = found  # the next time it is an attribute
        return found

    def _missing(self, name: str, frame: FrameType) -> Any:
        """What stands in for a name; raises where code asks whether it is there."""
        path = _inner(self.__name__)
        if frame.f_globals.get("__name__") == "importlib._bootstrap":  # of `from module import name`, which asks again
            raise AttributeError(name)
        if is_import_from(frame) and is_guarded(frame, IMPORT_ERRORS):
            raise GraphImportError(not_offered(path, name))
        if not is_statement(frame) or (not is_import_from(frame) and is_guarded(frame, ATTRIBUTE_ERRORS)):
            raise GraphAttributeError(not_offered(path, name))
        if is_star(frame) and name not in self._stand_ins:
            return stand_in(path, name)  # which nobody has named, as reports say it
        if name not in self._stand_ins:
            self._stand_ins[name] = self._module(name) or stand_in(path, name)
        return self._stand_ins[name]

    @property
    def not_offered(self) -> list[str]:
        """An error for each name that code has named here and that is not offered."""
        path = _inner(self.__name__)
        return [not_offered(path, name) for name, found in self._stand_ins.items() if not isinstance(found, Mirror)]

    def _module(self, name: str) -> ModuleType | None:
        """The module of MindSpore that a name is, if it is one, of which nothing is offered."""
        full = f"{self.__name__}.{name}"
        return sys.modules.setdefault(full, Mirror(full)) if section_of(_inner(full)) else None

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute, but for a module inside whose name is that of a function, which `import` would hide."""
        if not isinstance(value, Mirror) or not hides_module(_inner(self.__name__), name):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        path = _inner(self.__name__)
        return sorted({*vars(self), *modules_in(path), *offered(path)})


class Finder(MetaPathFinder, Loader):
    """Finds and makes the modules of MindSpore.

    One that graphls has nothing for is a module of stand-ins, where a statement imports it outside of a `try`; else it
    raises GraphImportError.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module of MindSpore; None for any other."""
        if fullname.partition(".")[0] != PACKAGE:
            return None
        if not is_there(_inner(fullname)) and not _may_stand_in():
            if _asks_only(sys._getframe(1)):
                return None
            raise GraphImportError(not_offered(*_inner(fullname).rpartition(".")[::2]))
        return ModuleSpec(fullname, self, is_package=True)

    def find_distributions(self, context: Any = None) -> Iterator[Distribution]:
        """The distribution of MindSpore, whose version `importlib.metadata` tells those who ask for it."""
        if context is None or context.name in (None, PACKAGE):
            yield _Distribution()

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module, empty: names are looked up later."""
        return Mirror(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing, as there is no code, but that MindSpore loads `PIL.Image`, which programs rely on."""
        if module.__name__ == PACKAGE:
            with suppress(ImportError):
                import_module("PIL.Image")


class _Distribution(Distribution):
    """What `importlib.metadata` has of MindSpore: its name and version."""

    def read_text(self, filename: str) -> str | None:
        """The text of a file beside the package."""
        return f"Name: {PACKAGE}\nVersion: {__version__}\n" if filename == "METADATA" else None

    def locate_file(self, path: str | PathLike[str]) -> Any:
        """The path of a file of the package, relative to where packages are."""
        return Path(path)


def _may_stand_in() -> bool:
    """Whether the statement that imports a module now only names it, and names a module by it."""
    frame = sys._getframe(2)
    importer = frame_of_importer(frame)
    return is_statement(importer) and not is_guarded(importer, IMPORT_ERRORS) and not _asks_only(frame)


def _asks_only(frame: FrameType | None) -> bool:
    """Whether a module need not be there.

    That is so in `importlib.util.find_spec`, and in `from package import name`, which looks for a module of that name
    before it asks for an attribute.
    """
    while frame is not None and frame.f_globals.get("__name__", "").startswith("importlib."):
        if frame.f_code.co_name == "_handle_fromlist" or frame.f_globals["__name__"] == "importlib.util":
            return True
        frame = frame.f_back
    return False


def lookup(module: str, name: str) -> Any:
    """What a module of MindSpore offers under a name: a module inside of it, or what graphls has; see `is_missing`."""
    path = _inner(module)
    child = f"{path}.{name}".lstrip(".")
    is_module = is_there(child) and not hides_module(path, name)
    return import_module(f"{module}.{name}") if is_module else offer(path, name)


def _inner(module: str) -> str:
    return module.removeprefix(PACKAGE).lstrip(".")


_finder = Finder()


def is_installed() -> bool:
    """Whether `import mindspore` imports graphls."""
    return _finder in sys.meta_path


def install() -> None:
    """Let `import mindspore`, and everything below it, import graphls in this process, in MindSpore 2's eager mode.

    Processes that this one spawns get the same. A `device_target` that is not there is replaced by one that is, after a
    warning, and so are settings of several devices. A MindSpore that is installed is left alone. Raises
    GraphRuntimeError where that is imported already.
    """
    imported = sys.modules.get(PACKAGE)
    if imported is not None and not isinstance(imported, Mirror):
        raise GraphRuntimeError("MindSpore itself is imported already; install graphls.compat before.")
    if not is_installed():
        sys.meta_path.insert(0, _finder)
        set_context(mode=PYNATIVE_MODE)
        replace_missing_devices(True)
        expect_mindspore(True)
        force_one_rank(True)
        tell_children()


def uninstall() -> None:
    """Let `import mindspore` find what Python finds, and forget what it was; the mode stays as it is."""
    if is_installed():
        sys.meta_path.remove(_finder)
        replace_missing_devices(False)
        expect_mindspore(False)
        force_one_rank(False)
        tell_children_no_more()
    forget()
    for name in [name for name, module in sys.modules.items() if isinstance(module, Mirror)]:
        del sys.modules[name]
