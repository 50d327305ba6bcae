"""What a module of MindSpore offers: names of graphls, plain values, enumerations, errors, and stand-ins."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from difflib import get_close_matches
from enum import Enum, IntEnum
from functools import cache, partial
from importlib import import_module
from typing import Any, cast

from graphls.compat.hal import of_kind
from graphls.compat.hook.known import Place, attributes_of, bases_of, home_of, paths, places, section_of
from graphls.compat.hook.names import PATHS, rooms
from graphls.compat.hook.stand_in import StandIn, stand_in_class
from graphls.frontend.names.lazy import MISSING, find, is_missing, public_names

_completed: list[tuple[type, str]] = []
"""Classes of graphls with the attributes of MindSpore's that they were given."""


@cache
def is_there(path: str) -> bool:
    """Whether anything of a module, or of one inside of it, is offered."""
    section = section_of(path)
    if path in _packages() or section is None:
        return path in _packages()
    names = [*section.own, *section.public, *(section.imported if rooms(path) else ())]
    return any(not is_missing(offer(path, name)) for name in names) or bool(rooms(path) and modules_in(path))


@cache
def _packages() -> frozenset[str]:
    """The modules of the table, and those around them."""
    return frozenset(path[:end] for path in PATHS for end, letter in enumerate(f"{path}.") if letter == ".")


def hides_module(path: str, name: str) -> bool:
    """Whether a module of MindSpore has something that is offered under a name, which may be a module's as well."""
    section = section_of(path)
    return section is not None and name in section and not is_missing(offer(path, name))


@cache
def offer(path: str, name: str) -> Any:
    """What is offered under a name of a module, without `mindspore`, which is no module; see `is_missing`."""
    home = home_of((path, name))
    for module, other in places(path, name):
        found = find(other, rooms(module) if home else _listing(path, rooms(module)))
        if not is_missing(found):
            return _complete(found, home)
    return MISSING if home is None else _plain(home)


def _listing(path: str, modules: Iterable[str]) -> list[str]:
    """Those that list their names, of the modules for one that MindSpore 2.10 has; others offer what that has."""
    is_known = section_of(path) is not None
    return [m for m in modules if not is_known or {"__all__", "__dir__"} & vars(import_module(m)).keys()]


def _complete(found: Any, home: Place | None) -> Any:
    """Give a class of graphls the plain attributes that MindSpore's class has and that it lacks."""
    if home is not None and isinstance(found, type) and not issubclass(found, Enum):
        for name, value in attributes_of(home).items():
            if not hasattr(found, name):
                setattr(found, name, value)
                _completed.append((found, name))
    return found


def forget() -> None:
    """Take away what classes of graphls were given, and forget what was used."""
    offer.cache_clear()
    REACHED.clear()
    while _completed:
        delattr(*_completed.pop())


def _plain(home: Place) -> Any:
    """The value, enumeration or error that a name is; see `is_missing` for anything else."""
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
def class_of(home: Place) -> type | None:
    """The class that is there, or stands in, for one of MindSpore by where it is made; None for what is no class."""
    given = bases_of(home)
    if given is None:
        return None
    known = dict.fromkeys(base for place in given if (base := _base(place)) is not None)
    bases = tuple(base for base in known if not any(issubclass(other, base) for other in known if other is not base))
    attributes = attributes_of(home)
    if any(issubclass(base, Enum) for base in bases):
        return cast(Any, bases[-1])(home[1], attributes, type=bases[0] if bases[1:] else None)  # type: ignore[no-any-return]
    return stand_in_class(f"mindspore.{home[0]}.{home[1]}", bases, attributes, partial(_reached, *home))


def _base(place: Place) -> type | None:
    """The base of a class of MindSpore: of Python, of graphls, or what stands in for it."""
    path, name = place
    if name == ":enum":
        return IntEnum
    if name.startswith(":"):
        module, _, name = name[1:].rpartition(".")
        return getattr(import_module(module), name)  # type: ignore[no-any-return]
    found, home = offer(path, name), home_of(place)
    if isinstance(found, type):
        return found
    return class_of(home) if home is not None and is_missing(found) else None


def stand_in(path: str, name: str) -> Any:
    """What stands in for a name that is not offered: a class for one of MindSpore, else an object."""
    home = home_of((path, name))
    kind = class_of(home) if home is not None else None
    return kind or StandIn(f"mindspore.{path}.{name}".replace("..", "."), partial(_reached, path, name))


REACHED: set[str] = set()
"""The errors of names that are not offered and were used."""


def _reached(path: str, name: str) -> str:
    """The error of a name that is used."""
    REACHED.add(not_offered(path, name))
    return not_offered(path, name)


@cache
def offered(path: str) -> list[str]:
    """The names that a module offers, without the modules inside of it."""
    names = dict.fromkeys((*public_names(_listing(path, PATHS.get(path, ()))), *public(path)))
    return [name for name in names if not is_missing(offer(path, name))]


@cache
def modules_in(path: str) -> list[str]:
    """The modules directly inside of one of which something is offered."""
    prefix = f"{path}.".lstrip(".")
    inner = dict.fromkeys(other.removeprefix(prefix) for other in (*PATHS, *paths()) if other.startswith(prefix))
    return [name for name in inner if name and "." not in name and name[0] != "_" and is_there(prefix + name)]


def public(path: str) -> Iterable[str]:
    """The names of a module that a star imports of MindSpore."""
    section = section_of(path)
    return section.public if section else ()


@cache
def not_offered(path: str, name: str) -> str:
    """One sentence that a module has no such name here, with the nearest one."""
    there = path
    while there and not is_there(there):
        there = there.rpartition(".")[0]
    full = f"mindspore.{path}.{name}".replace("..", ".")
    return f"graphls does not offer {full}{_nearest(name, [*modules_in(there), *offered(there)])}."


def _nearest(name: str, known: list[str]) -> str:
    """`; the nearest is 'x'`: the name in other capitals, or one that shares most of its letters, if there is any."""
    same = [other for other in known if other.lower() == name.lower() and other != name]
    found = same or get_close_matches(name, known, 1, cutoff=0.7)
    return f"; the nearest is {found[0]!r}" if found else ""
