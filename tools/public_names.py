"""Write docs/public_names.txt, the public names of graphls with their parameters: `make pages`.

`python -m tools.public_names` writes it, too. Public is what the reference of the site describes, and the other paths
by which users import it. Each name has one line; docs/releases.md says which changes of a line a release may have. With
`--check` nothing is written, and a file that is not current is an error that names the first lines of the difference.
"""

from __future__ import annotations

import difflib
import enum
import inspect
import operator
import sys
import types
import typing
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from graphls.frontend.names import lazy
from graphls.ir.types import DType
from graphls.ops.record import OPERATORS
from tools.site import reference

FILE = Path(__file__).parents[1] / "docs" / "public_names.txt"
MODULES = (
    "graphls.compat.pytest", "graphls.dataset.samplers", "graphls.dataset.transforms.c_transforms",
    "graphls.dataset.transforms.py_transforms", "graphls.dataset.vision.c_transforms",
    "graphls.dataset.vision.py_transforms", "graphls.dataset.vision.utils", "graphls.passes.windows",
)  # fmt: skip
"""Modules that users import and that have no page of their own in the reference."""
SPECIAL = {name for name in dir(operator) if name.startswith("__")} | {
    "__array__", "__bool__", "__call__", "__complex__", "__enter__", "__exit__", "__float__", "__int__", "__iter__",
    "__len__", "__next__", "__reversed__",
}  # fmt: skip
SPECIAL = (SPECIAL | {f"__r{name[2:]}" for name in SPECIAL}) - {*dir(object), *dir(types.ModuleType)}
"""The special methods that are listed: those of operators and statements."""
EMPTY = inspect.Parameter.empty


def listed() -> str:
    """The text of the file."""
    lines = [line for path in sorted(paths()) for line in _lines(path)]
    return "\n".join([HEAD, *lines]) + "\n"


HEAD = """\
# The public names of graphls with their parameters and defaults, sorted; `a = b` is another path of b.
# Made by `python -m tools.public_names`. docs/releases.md says which lines a release may change.
"""


@cache
def paths() -> dict[str, str]:
    """Every public path, with the one under which its object is listed: that of the reference if it has one."""
    every = dict(reference.entries())
    others = [f"graphls.{name}" for name in lazy.public_names(lazy.OFFERING)]
    others += ["graphls.ops.primitive.Operator", *(f"graphls.ops.{name}" for name in OPERATORS)]
    others += [f"{module}.{name}" for module in MODULES for name in reference.listed(module)]
    first = {id(reference.item(path)): main for path, main in every.items()}
    for path in others:
        item = reference.item(path)
        every.setdefault(path, path if reference.is_value(item) else first.setdefault(id(item), path))
    return every


def _lines(path: str) -> Iterator[str]:
    item, main = reference.item(path), paths()[path]
    if path != main:
        yield f"{path} = {main}"
    elif isinstance(item, types.ModuleType):
        yield f"{path}: module {item.__name__}" if item.__name__ != path else f"{path}: module"
    elif inspect.isclass(item) and not typing.get_origin(item):  # Python 3.10 calls list[int] a class
        yield from Listed(path, item).lines
    elif inspect.isroutine(item):
        yield f"{path}({parameters(item)})"
    else:
        yield f"{path}: {_value(item)}"


def _value(item: object) -> str:
    """A constant: small ones as they are, others by their type."""
    if isinstance(item, (bool, int, float, str)) and not isinstance(item, enum.Enum):
        return repr(item)
    return "a type" if typing.get_origin(item) else type(item).__name__


class Listed:
    """The lines of a class: what makes an object, what a call takes, then its own public methods and attributes."""

    def __init__(self, path: str, kind: type) -> None:
        self.path, self.kind = path, kind

    @property
    def lines(self) -> Iterator[str]:
        """One line for the class and one for each member that is not listed for a base class already."""
        if issubclass(self.kind, enum.Enum):
            yield f"class {self.path}: {' '.join(self.kind.__members__)}"
            return
        is_called = self.members == ["__call__"]
        call = self._member("__call__") if is_called else ""
        bases = ", ".join(base.__name__ for base in self.kind.__bases__) if issubclass(self.kind, BaseException) else ""
        yield f"class {self.path}{self._constructor}{call}{f': {bases}' if bases else ''}"
        yield from (f"{self.path}.{name}{self._member(name)}" for name in self.members[is_called:])

    @property
    def _constructor(self) -> str:
        """The parameters of the class; none for errors, which users catch."""
        return "" if issubclass(self.kind, BaseException) else f"({parameters(self.kind)})"

    @property
    def members(self) -> list[str]:
        """The members that are public and that no public base class has with the same line."""
        return [name for name in sorted(self.names) if self._is_public(name) and not self._is_inherited(name)]

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all members, with those that only annotations have."""
        annotated = (name for base in self.kind.__mro__ for name in inspect.get_annotations(base))
        return frozenset({*dir(self.kind), *annotated})

    def _is_public(self, name: str) -> bool:
        owner = next((base for base in self.kind.__mro__ if name in vars(base)), self.kind)
        return (name in SPECIAL or not name.startswith("_")) and owner.__module__.startswith("graphls")

    def _is_inherited(self, name: str) -> bool:
        """Whether the nearest public base class with that member lists it as an attribute, or with the same line."""
        bases = (Listed("", base) for base in self.kind.__mro__[1:] if id(base) in _listed_classes())
        base = next((base for base in bases if name in base.names), None)
        return base is not None and base._member(name) in ("", self._member(name))

    def _member(self, name: str) -> str:
        value = inspect.getattr_static(self.kind, name, EMPTY)
        function = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if not callable(function) or isinstance(function, type):
            return ""
        skipped = 0 if isinstance(value, staticmethod) else 1
        return f"({parameters(function, skipped)})"


@cache
def _listed_classes() -> frozenset[int]:
    items = (reference.item(path) for path in paths())
    return frozenset(id(item) for item in items if inspect.isclass(item))


def parameters(function: Callable[..., Any], skipped: int = 0) -> str:
    """The parameters with their defaults, without types, from a number on."""
    shown: list[str] = []
    is_starred = False
    for p in list(inspect.signature(function).parameters.values())[skipped:]:
        if p.kind is p.KEYWORD_ONLY and not is_starred:
            shown.append("*")
        is_starred = is_starred or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        mark = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
        shown.append(f"{mark}{p.name}" + ("" if p.default is EMPTY else f"={_default(p.default)}"))
    return ", ".join(shown)


def _default(value: object) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_default, value))}{',' * (len(value) == 1)})"
    if type(value) in (bool, int, float, str, type(None)):
        return repr(value)
    if isinstance(value, DType):
        return value.long_name
    return str(getattr(value, "__name__", "..."))


def main() -> str | None:
    """Write or check the file; returns an error message or None."""
    current = listed()
    if "--check" not in sys.argv[1:]:
        FILE.write_text(current, encoding="utf-8")
        return None
    written = FILE.read_text(encoding="utf-8") if FILE.exists() else ""
    changes = list(difflib.unified_diff(written.splitlines(), current.splitlines(), lineterm="", n=0))[2:]
    lines = "\n".join(line for line in changes if not line.startswith("@@"))
    advice = "docs/public_names.txt is not current: `python -m tools.public_names` writes it."
    return f"{lines}\n{advice}" if changes else None


if __name__ == "__main__":
    sys.exit(main())
