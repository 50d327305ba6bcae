"""The import hook: every `mindspore` path becomes a module that takes its names from graphls.

A name that graphls does not offer (`offers.py`) is an error where code tests whether it exists, and otherwise where it
is used (`import_intent.py`, `stand_in.py`): so a file that names more than it uses can be imported. Spawned processes
inherit the hook.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution
from multiprocessing import spawn
from os import PathLike
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from graphls.base.errors import GraphAttributeError, GraphImportError, GraphRuntimeError
from graphls.compat.hook.import_intent import (
    ATTRIBUTE_ERRORS,
    IMPORT_ERRORS,
    frame_of_importer,
    is_guarded,
    is_import_from,
    is_star,
    is_statement,
)
from graphls.compat.hook.mindspore_names import __version__, section_of
from graphls.compat.hook.resolution import (
    forget,
    hides_module,
    is_provided,
    modules_in,
    not_offered,
    offer,
    offered,
    public,
    stand_in,
)
from graphls.frontend.names.lazy import is_missing
from graphls.frontend.names.traps import expect_mindspore
from graphls.runtime.context import PYNATIVE_MODE, forced_device, replace_missing_devices, set_context
from graphls.runtime.context.parallel import force_one_rank

PACKAGE = "mindspore"


class Mirror(ModuleType):
    """A module of MindSpore whose attributes are looked up in modules of graphls on access."""

    def __init__(self, name: str) -> None:
        super().__init__(name, f"What graphls offers of {name}.")
        self.__path__: list[str] = []
        self._stand_ins: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        path = _inner(self.__name__)
        frame = sys._getframe(1)
        if name == "__all__":  # a star imports all names that MindSpore has, other readers get those that exist
            is_all = is_star(frame) and not is_guarded(frame, IMPORT_ERRORS | ATTRIBUTE_ERRORS)
            return list(dict.fromkeys((*offered(path), *public(path)))) if is_all else offered(path)
        if name.startswith("__") and name not in (section_of(path) or ()):
            raise AttributeError(name)
        value = lookup(self.__name__, name)
        if is_missing(value):
            return self._missing(name, frame)
        vars(self)[name] = value  # the next time it is an attribute
        return value

    def _missing(self, name: str, frame: FrameType) -> Any:
        """The stand-in for a name; raises an error where code tests whether the name exists."""
        path = _inner(self.__name__)
        if frame.f_globals.get("__name__") == "importlib._bootstrap":  # `from module import name`, which reads it again
            raise AttributeError(name)
        if is_import_from(frame) and is_guarded(frame, IMPORT_ERRORS):
            raise GraphImportError(not_offered(path, name))
        if not is_statement(frame) or (not is_import_from(frame) and is_guarded(frame, ATTRIBUTE_ERRORS)):
            raise GraphAttributeError(not_offered(path, name))
        if is_star(frame) and name not in self._stand_ins:
            return stand_in(path, name)  # not recorded, since the script has not named it
        if name not in self._stand_ins:
            self._stand_ins[name] = self._module(name) or stand_in(path, name)
        return self._stand_ins[name]

    @property
    def not_offered(self) -> list[str]:
        """An error for each name that code has named here and that is not offered."""
        path = _inner(self.__name__)
        return [not_offered(path, name) for name, value in self._stand_ins.items() if not isinstance(value, Mirror)]

    def _module(self, name: str) -> ModuleType | None:
        """The module of MindSpore of that name, without any offered names; None if there is no such module."""
        full = f"{self.__name__}.{name}"
        return sys.modules.setdefault(full, Mirror(full)) if section_of(_inner(full)) else None

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute, except a submodule that would hide a function of the same name after its import."""
        if not isinstance(value, Mirror) or not hides_module(_inner(self.__name__), name):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        path = _inner(self.__name__)
        return sorted({*vars(self), *modules_in(path), *offered(path)})


class Finder(MetaPathFinder, Loader):
    """Finds and creates the modules of MindSpore.

    A module for which graphls has no names becomes a module of stand-ins if a statement imports it outside of a `try`;
    else it raises GraphImportError.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module of MindSpore; None for any other."""
        if fullname.partition(".")[0] != PACKAGE:
            return None
        if not is_provided(_inner(fullname)) and not _may_stand_in():
            if _is_lookup(sys._getframe(1)):
                return None
            raise GraphImportError(not_offered(*_inner(fullname).rpartition(".")[::2]))
        return ModuleSpec(fullname, self, is_package=True)

    def find_distributions(self, context: Any = None) -> Iterator[Distribution]:
        """The distribution of MindSpore, by which `importlib.metadata` knows its version."""
        if context is None or context.name in (None, PACKAGE):
            yield _Distribution()

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module, empty: names are looked up on access."""
        return Mirror(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Load `PIL.Image` with the root module, as MindSpore does and programs rely on; there is no code to run."""
        if module.__name__ == PACKAGE:
            with suppress(ImportError):
                import_module("PIL.Image")


class _Distribution(Distribution):
    """The distribution of MindSpore for `importlib.metadata`: its name and version."""

    def read_text(self, filename: str) -> str | None:
        """The text of a file beside the package."""
        return f"Name: {PACKAGE}\nVersion: {__version__}\n" if filename == "METADATA" else None

    def locate_file(self, path: str | PathLike[str]) -> Any:
        """The path of a file of the package, relative to the folder of packages."""
        return Path(path)


def _may_stand_in() -> bool:
    """Tells whether a module is being imported by a statement outside of a `try`, so that it may be a stand-in."""
    frame = sys._getframe(2)
    importer = frame_of_importer(frame)
    return is_statement(importer) and not is_guarded(importer, IMPORT_ERRORS) and not _is_lookup(frame)


def _is_lookup(frame: FrameType | None) -> bool:
    """Tells whether a module is only looked up, and may be missing.

    That is so in `importlib.util.find_spec`, and in `from package import name`, which looks for a module of that name
    before it reads the attribute.
    """
    while frame is not None and frame.f_globals.get("__name__", "").startswith("importlib."):
        if frame.f_code.co_name == "_handle_fromlist" or frame.f_globals["__name__"] == "importlib.util":
            return True
        frame = frame.f_back
    return False


def lookup(module: str, name: str) -> Any:
    """The value of a name of a module of MindSpore: a submodule, or an object of graphls; see `is_missing`."""
    path = _inner(module)
    child = f"{path}.{name}".lstrip(".")
    is_module = is_provided(child) and not hides_module(path, name)
    return import_module(f"{module}.{name}") if is_module else offer(path, name)


def _inner(module: str) -> str:
    return module.removeprefix(PACKAGE).lstrip(".")


_finder = Finder()


def is_installed() -> bool:
    """Tells whether `import mindspore` imports graphls."""
    return _finder in sys.meta_path


def install() -> None:
    """Let `import mindspore`, and everything below it, import graphls in this process, in MindSpore 2's eager mode.

    Processes that this one spawns inherit that. A missing `device_target` is replaced by an existing one, after a
    warning, and so are settings of several devices. An installed MindSpore is left alone. Raises GraphRuntimeError if
    that is imported already.
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
        _install_in_children()


def uninstall() -> None:
    """Remove the import hook and the modules that it created; the mode stays as it is."""
    if is_installed():
        sys.meta_path.remove(_finder)
        replace_missing_devices(False)
        expect_mindspore(False)
        force_one_rank(False)
        _uninstall_in_children()
    forget()
    for name in [name for name, module in sys.modules.items() if isinstance(module, Mirror)]:
        del sys.modules[name]


CHILDREN_KEY = "graphls.compat"


class Installation:
    """Pickles as a call that installs the hook where it is unpickled, which happens before the child has its path.

    A spawned process unpickles its task in a fresh interpreter, and first of all the dict that
    `multiprocessing.spawn.get_preparation_data` returns; that dict gets an object of this class. A device that is
    forced here is forced in the child.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        lines = f"import sys\nsys.path[:] = {sys.path!r}\nfrom graphls.compat import install\ninstall()\n"
        lines += f"from graphls.context import force_device\nforce_device({forced_device()!r})\n"
        return exec, (lines, {})


def _install_in_children() -> None:
    """Install the hook in processes that this one spawns."""
    if not hasattr(spawn.get_preparation_data, "of_python"):
        spawn.get_preparation_data = _with_installation(spawn.get_preparation_data)


def _uninstall_in_children() -> None:
    """Spawn processes without the hook again."""
    spawn.get_preparation_data = getattr(spawn.get_preparation_data, "of_python", spawn.get_preparation_data)


def _with_installation(of_python: Any) -> Any:
    def get_preparation_data(name: str) -> dict[str, Any]:
        data = of_python(name)
        if name == "ignore":  # asked by a fork server, which in Python 3.14 imports the script before it has the hook
            return {key: value for key, value in data.items() if key != "init_main_from_path"}
        return {CHILDREN_KEY: Installation(), **data}

    vars(get_preparation_data)["of_python"] = of_python
    return get_preparation_data
