"""Resolves names of MindSpore to objects of graphls, plain values, enumerations, errors or stand-ins."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from difflib import get_close_matches
from enum import Enum, IntEnum
from functools import cache, partial
from importlib import import_module
from typing import Any, cast

from graphls.compat.hal import of_kind
from graphls.compat.hook.mindspore_names import (
    QualifiedName,
    attributes_of,
    bases_of,
    home_of,
    paths,
    qualified_names,
    section_of,
)
from graphls.compat.hook.providers import PATHS, providers
from graphls.compat.hook.stand_in import StandIn, stand_in_class
from graphls.frontend.names.lazy import MISSING, find, is_missing, public_names

_completed: list[tuple[type, str]] = []
"""Classes of graphls with the attributes of MindSpore's classes that were added to them."""


@cache
def is_provided(path: str) -> bool:
    """Tells whether any name of a module, or of one inside of it, is offered."""
    section = section_of(path)
    if path in _packages() or section is None:
        return path in _packages()
    names = [*section.own, *section.public, *(section.imported if providers(path) else ())]
    return any(not is_missing(offer(path, name)) for name in names) or bool(providers(path) and modules_in(path))


@cache
def _packages() -> frozenset[str]:
    """The modules of the table, and the packages around them."""
    return frozenset(path[:end] for path in PATHS for end, letter in enumerate(f"{path}.") if letter == ".")


def hides_module(path: str, name: str) -> bool:
    """Tells whether a module offers an object under a name, which may be the name of a submodule as well."""
    section = section_of(path)
    return section is not None and name in section and not is_missing(offer(path, name))


@cache
def offer(path: str, name: str) -> Any:
    """The object, no submodule, that is offered under a name of a module, without `mindspore`; see `is_missing`."""
    home = home_of((path, name))
    for module, other in qualified_names(path, name):
        modules = providers(module)
        value = find(other, modules if home else _listing(path, modules))
        if not is_missing(value):
            return _complete(value, home)
    return MISSING if home is None else _plain(home)


def _listing(path: str, modules: Iterable[str]) -> list[str]:
    """The modules that list their names; all modules for a path that MindSpore 2.10 does not have."""
    is_known = section_of(path) is not None
    return [m for m in modules if not is_known or {"__all__", "__dir__"} & vars(import_module(m)).keys()]


def _complete(value: Any, home: QualifiedName | None) -> Any:
    """Add to a class of graphls the plain attributes that MindSpore's class has and that it lacks."""
    if home is not None and isinstance(value, type) and not issubclass(value, Enum):
        for name, attribute in attributes_of(home).items():
            if not hasattr(value, name):
                setattr(value, name, attribute)
                _completed.append((value, name))
    return value


def forget() -> None:
    """Remove the attributes that were added to classes of graphls, and the record of used names."""
    offer.cache_clear()
    REACHED.clear()
    while _completed:
        delattr(*_completed.pop())


def _plain(home: QualifiedName) -> Any:
    """The plain value, enumeration or error of a name; see `is_missing` for other objects."""
    text = section_of(home[0]).values.get(home[1])  # type: ignore[union-attr]
    if text is not None:
        return ast.literal_eval(text)
    package, _, module = home[0].partition(".")
    is_of_devices = package == "device_context" or home[0] == "runtime.executor"
    if is_of_devices and section_of(home[0]).kinds[home[1]] == "def ":  # type: ignore[union-attr]
        return of_kind(module.partition(".")[0].upper(), home[1])
    kind = class_of(home)
    return kind if kind is not None and issubclass(kind, (Enum, BaseException)) else MISSING


@cache
def class_of(home: QualifiedName) -> type | None:
    """The class, or its stand-in, for a class of MindSpore by its defining name; None for other objects."""
    base_names = bases_of(home)
    if base_names is None:
        return None
    known = dict.fromkeys(base for qualified in base_names if (base := _base(qualified)) is not None)
    bases = tuple(base for base in known if not any(issubclass(other, base) for other in known if other is not base))
    attributes = attributes_of(home)
    if any(issubclass(base, Enum) for base in bases):
        return cast(Any, bases[-1])(home[1], attributes, type=bases[0] if bases[1:] else None)  # type: ignore[no-any-return]
    return stand_in_class(f"mindspore.{home[0]}.{home[1]}", bases, attributes, partial(_reached, *home))


def _base(qualified: QualifiedName) -> type | None:
    """The base of a class of MindSpore: of Python, of graphls, or a stand-in."""
    path, name = qualified
    if name == ":enum":
        return IntEnum
    if name.startswith(":"):
        module, _, name = name[1:].rpartition(".")
        return getattr(import_module(module), name)  # type: ignore[no-any-return]
    value, home = offer(path, name), home_of(qualified)
    if isinstance(value, type):
        return value
    return class_of(home) if home is not None and is_missing(value) else None


def stand_in(path: str, name: str) -> Any:
    """The stand-in for a name that is not offered: a class for a class of MindSpore, else an object."""
    home = home_of((path, name))
    kind = class_of(home) if home is not None else None
    return kind or StandIn(f"mindspore.{path}.{name}".replace("..", "."), partial(_reached, path, name))


REACHED: set[str] = set()
"""The errors of names that are not offered and were used."""


def _reached(path: str, name: str) -> str:
    """Record the use of a name that is not offered; returns the error sentence."""
    REACHED.add(not_offered(path, name))
    return not_offered(path, name)


@cache
def offered(path: str) -> list[str]:
    """The names that a module offers, without its submodules."""
    names = dict.fromkeys((*public_names(_listing(path, PATHS.get(path, ()))), *public(path)))
    return [name for name in names if not is_missing(offer(path, name))]


@cache
def modules_in(path: str) -> list[str]:
    """The direct submodules of a module that offer anything."""
    prefix = f"{path}.".lstrip(".")
    inner = dict.fromkeys(other.removeprefix(prefix) for other in (*PATHS, *paths()) if other.startswith(prefix))
    return [name for name in inner if name and "." not in name and name[0] != "_" and is_provided(prefix + name)]


def public(path: str) -> Iterable[str]:
    """The names that `from module import *` imports from MindSpore."""
    section = section_of(path)
    return section.public if section else ()


@cache
def not_offered(path: str, name: str) -> str:
    """The error sentence for a name that is not offered, with the closest one that is."""
    package = path
    while package and not is_provided(package):
        package = package.rpartition(".")[0]
    full = f"mindspore.{path}.{name}".replace("..", ".")
    return f"graphls does not offer {full}{_nearest(name, [*modules_in(package), *offered(package)])}."


def _nearest(name: str, known: list[str]) -> str:
    """`; the nearest is 'x'`: the name in other capitals, or one that shares most of its letters, if there is any."""
    same = [other for other in known if other.lower() == name.lower() and other != name]
    matches = same or get_close_matches(name, known, 1, cutoff=0.7)
    return f"; the nearest is {matches[0]!r}" if matches else ""
