"""Writes the list of MindSpore's names for `graphls.compat`: every module with its names, and the settings of contexts.

`make mindspore-names` runs it in an environment of its own, as MindSpore wants a NumPy below 2; PYTHONHASHSEED=0 gives
sets always the same order.

Facts alone are written, of the modules that can be imported on a CPU. Each module is a section of NAMES:

    [nn.layer.basic]                  its path without `mindspore`
    class nn.cell.Cell: Dense Flatten  classes of these bases; `:enum.Enum` is one of Python, `:enum` one of C++
    def: dropout                      functions
    object: stack                     what else is made here
    alias mint.nn: Linear=Dense       what a public module offers, by its name there where that is another
    import common.tensor: Tensor      what another module makes
    value LIMIT 3                     a plain value; also `Class.ATTRIBUTE`
    all: Dense Dropout                `__all__`
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
from collections import defaultdict
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).parent.parent / "graphls"
NAMES = FOLDER / "compat" / "hook" / "mindspore_names.txt"
SETTINGS = FOLDER / "runtime" / "context" / "mindspore_settings.json"
PACKAGE = "mindspore"
LEFT_OUT = ("_akg", "ops_generate", "ops._op_impl", "_extends.parallel_compile")
"""Modules that build MindSpore or register kernels of Ascend, and that no other module imports."""
OF_PYTHON = ("__all__", "__annotations__", "__cached__", "__doc__", "__file__", "__name__", "__package__", "__path__")
"""Names that a module has by Python."""
LONGEST = 600
"""Characters of a plain value; longer ones are objects."""

Place = tuple[str, str]
"""A module, without `mindspore`, and a name in it."""


def modules(package: ModuleType) -> Iterator[tuple[str, ModuleType]]:
    """Each module below a package that can be imported, by its path without `mindspore`."""
    for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        path = inner(info.name)
        if path in LEFT_OUT:
            continue
        try:
            module = importlib.import_module(info.name)
        except (ImportError, SystemExit):
            continue
        yield path, module
        if info.ispkg:
            yield from modules(module)


def inner(path: str) -> str:
    """The path of a module without `mindspore`."""
    return path.removeprefix(PACKAGE).lstrip(".")


class Names:
    """The names of all modules, and which of them are the same object."""

    def __init__(self, modules: Mapping[str, ModuleType]) -> None:
        self.modules = modules
        self.names = {path: self._names(module) for path, module in modules.items()}
        self.assigned = {path: frozenset(_assigned(module)) for path, module in modules.items()}
        self.places: dict[object, list[Place]] = defaultdict(list)
        for path, names in self.names.items():
            for name, value in names.items():
                self.places[_key(name, value)].append((path, name))

    def _names(self, module: ModuleType) -> dict[str, Any]:
        own = {name: value for name, value in vars(module).items() if name not in OF_PYTHON and _is_name(name, value)}
        return {name: value for name, value in sorted(own.items()) if _is_of_mindspore(value)}

    def home(self, name: str, value: Any) -> Place:
        """The path where an object is defined: its `__module__`, a module that assigns it, or the shortest path."""
        places = self.places[_key(name, value)]
        stated = inner(str(getattr(value, "__module__", None)))
        own = getattr(value, "__qualname__", name)
        ranks = [(p[0] != stated or p[1] != own, p[1] not in self.assigned[p[0]], len(p[0]), p) for p in places]
        return min(ranks)[-1]

    def alias(self, home: Place) -> Place | None:
        """Another public place of an object; None where it is public under its name in a package around its home."""
        module, name = home
        value = self.names[module][name]
        if is_plain(value):
            return None
        places = (p for p in self.places[_key(name, value)] if p[0] != module and "._" not in f".{p[0]}")
        public = [(path, other) for path, other in places if other in getattr(self.modules[path], "__all__", ())]
        if any(other == name and f"{module}.".startswith(f"{path}.") for path, other in public):
            return None
        return min(public, key=lambda place: (place[0].count("."), place[1] != name, place), default=None)

    def section(self, path: str) -> Iterator[str]:
        """The lines of a module."""
        lines: dict[str, list[str]] = defaultdict(list)
        values: list[str] = []
        for name, value in self.names[path].items():
            home = self.home(name, value)
            if home != (path, name):
                lines[f"import {home[0]}"].append(name if home[1] == name else f"{name}={home[1]}")
            elif isinstance(value, type):
                lines[f"class {_bases(value)}".strip()].append(name)
                values += attributes(name, value)
            elif is_plain(value):
                values.append(written(name, value))
            else:
                lines["def" if inspect.isroutine(value) else "object"].append(name)
            alias = self.alias(home) if home == (path, name) else None
            if alias is not None:
                lines[f"alias {alias[0]}"].append(name if alias[1] == name else f"{name}={alias[1]}")
        if hasattr(self.modules[path], "__all__"):
            lines["all"] = sorted(set(self.modules[path].__all__) & set(self.names[path]))
        yield f"[{path}]"
        yield from (f"{kind}: {' '.join(names)}" for kind, names in sorted(lines.items()))
        yield from values


def _key(name: str, value: Any) -> object:
    """The key that two names of the same object share."""
    return (name, repr(value)) if is_plain(value) else id(value)


def is_plain(value: object) -> bool:
    """Returns whether a value consists of numbers, texts, True, False and None alone, and is short."""
    if isinstance(value, Enum) or type(value) not in (int, float, str, bool, type(None), tuple, list, dict, set):
        return False
    if (type(value) is int and 2**40 <= value < 2**48) or "'/" in repr(value):  # an address, or a path of this machine
        return False
    try:
        return len(repr(value)) <= LONGEST and bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False


def _is_name(name: str, value: object) -> bool:
    """Returns whether a name is public: one with two underscores is, if it has a plain value."""
    return not name.startswith("__") or is_plain(value)


def _is_of_mindspore(value: Any) -> bool:
    """Returns whether an object belongs to MindSpore, by its `__module__`, and is not a module."""
    if isinstance(value, ModuleType):
        return False
    made_of = value if isinstance(value, type) or inspect.isroutine(value) else type(value)
    module = str(getattr(made_of, "__module__", None) or PACKAGE)
    is_own = module.partition(".")[0] in (PACKAGE, "pybind11_builtins")
    return is_own or is_plain(value) or made_of in (set, frozenset, dict, list, tuple)


def _assigned(module: ModuleType) -> Iterator[str]:
    """The names that the source of a module assigns or defines."""
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):
        return
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif not isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def _bases(kind: type) -> str:
    """The bases of a class that a stand-in needs: those of MindSpore, errors and enumerations."""
    if hasattr(kind, "__members__") and not issubclass(kind, Enum):
        return ":enum"
    is_mixed = issubclass(kind, Enum)
    return ",".join(name for base in kind.__bases__ if (name := _base(base, is_mixed)))


def _base(base: type, is_mixed: bool) -> str:
    if base.__module__.partition(".")[0] == PACKAGE:
        return f"{inner(base.__module__)}.{base.__qualname__}"
    is_needed = issubclass(base, (BaseException, Enum)) or (is_mixed and base in (int, str))
    return f":{base.__module__}.{base.__qualname__}" if is_needed else ""


def attributes(name: str, kind: type) -> Iterator[str]:
    """The plain attributes of a class, and the members of an enumeration."""
    members: Mapping[str, Any] = getattr(kind, "__members__", {})
    if isinstance(members, Mapping) and members:
        # `value` may be a method of an enumeration's own.
        values = {key: value._value_ if isinstance(value, Enum) else value.value for key, value in members.items()}
    else:
        values = {key: value for key, value in vars(kind).items() if not key.endswith("_")}
    yield from (written(f"{name}.{key}", value) for key, value in sorted(values.items()) if is_plain(value))


def written(name: str, value: object) -> str:
    """The line of a plain value."""
    return f"value {name} {value!r}"


def settings() -> dict[str, dict[str, Any]]:
    """The settings of contexts: for each the default and the classes of its values, where these are checked."""
    context = importlib.import_module(f"{PACKAGE}.context")
    parallel = importlib.import_module(f"{PACKAGE}.parallel._auto_parallel_context")
    keys = {*parallel._get_auto_parallel_context_func_map, *parallel._set_auto_parallel_context_func_map}
    parallel_context = parallel.auto_parallel_context()
    methods = {name[4:] for name in dir(parallel_context) if name.startswith(("get_", "set_"))}
    return {
        "set_context": _settings(context.get_context, _checked(context.set_context)),
        "set_auto_parallel_context": _settings(
            context.get_auto_parallel_context, dict.fromkeys(keys, ()) | _checked(context.set_auto_parallel_context)
        ),
        "auto_parallel_context": _settings(
            lambda name: getattr(parallel_context, f"get_{name}")(), dict.fromkeys(methods - keys, ())
        ),
    }


def _checked(setter: Any) -> dict[str, tuple[type, ...]]:
    """The classes of values that a function checks."""
    classes = next(c.cell_contents for c in setter.__closure__ if isinstance(c.cell_contents, dict))["kwargs"]
    return {name: kinds if isinstance(kinds, tuple) else (kinds,) for name, kinds in classes.items()}


def _settings(getter: Any, checked: Mapping[str, tuple[type, ...]]) -> dict[str, Any]:
    """Settings by name: the default, that of the first class where there is none that can be asked for."""
    settings = {}
    for name, kinds in sorted(checked.items()):
        try:
            default = getter(name)
        except (ValueError, KeyError, AttributeError, RuntimeError):
            default = None
        if default is None and kinds:
            default = kinds[0]()
        settings[name] = [default, [kind.__name__ for kind in kinds or (type(default),) if default is not None]]
    return settings


def main() -> None:
    """Write both files."""
    package = importlib.import_module(PACKAGE)
    loaded = {"": package, **dict(modules(package))}
    names = Names(loaded)
    head = f"The names of MindSpore {package.__version__}, written by tools/mindspore_names.py."
    lines = [head, *(line for path in sorted(loaded) for line in names.section(path))]
    NAMES.write_text("\n".join(lines) + "\n", encoding="utf-8")
    SETTINGS.write_text(json.dumps(settings(), indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
