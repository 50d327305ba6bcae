"""Lazy lookup of public names, so that `import graphls` stays light."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from graphls.base.aliases import ALIASES
from graphls.base.errors import GraphAttributeError
from graphls.frontend.names.habits import PACKAGE, instead

OFFERING = (
    "graphls.runtime.context",
    "graphls.step.calling.jit",
    "graphls.frontend.tensors.dtypes",
    "graphls.train",
    "graphls.train.callbacks",
    "graphls.train.callbacks.checkpoint",
    "graphls.train.model",
    "graphls.train.serialization",
    "graphls.onnx.pytorch",
)
"""Modules whose public names are attributes of `graphls`, too."""

MODULES = {
    **{name: f"graphls.{name}" for name in ("compat", "dataset", "onnx", "train")},
    **{path.removeprefix("graphls."): path for path in ALIASES if path.count(".") == 1},
    "random": "graphls.frontend.tensors.random",
}
"""Modules that `graphls` has as attributes without importing them."""

MISSING = object()
"""The result of `find` for a name that no module offers."""


def attribute(name: str, own: Iterable[str]) -> Any:
    """The attribute `name` of `graphls`; raises GraphAttributeError, which suggests the closest name."""
    if name in MODULES:
        return import_module(MODULES[name])
    value = find(name, OFFERING) if not name.startswith("_") else MISSING
    if value is MISSING:
        known = [*own, *MODULES, *public_names(OFFERING)] if not name.startswith("_") else []
        advice = elsewhere(name) or instead(name, PACKAGE, known)
        raise GraphAttributeError(f"graphls has no {name!r}{advice}.")
    return value


def elsewhere(name: str) -> str:
    """`; use ops.zeros` for a function or a cell without better advice, else nothing."""
    if name.startswith("_") or name in PACKAGE:
        return ""
    rooms = (room for room in ("ops", "nn") if name in dir(import_module(f"graphls.{room}")))
    return next((f"; use {room}.{name}" for room in rooms), "")


def find(name: str, modules: Iterable[str]) -> Any:
    """The object of the first module that offers a name; MISSING, which `is_missing` tests, where none does.

    A module with `__all__`, or a `__dir__` of its own, offers the names listed there, another one its own definitions.
    """
    for module in map(import_module, modules):
        if _offers(module, name):
            value = getattr(module, name, MISSING)
            if value is not MISSING and not isinstance(value, ModuleType):
                return value
    return MISSING


def _offers(module: ModuleType, name: str) -> bool:
    fields = vars(module)
    if "__all__" in fields or "__dir__" in fields:
        return name in (fields.get("__all__") or dir(module))
    return _is_own(module, fields.get(name))


def _is_own(module: ModuleType, value: object) -> bool:
    """Whether a value of a module is defined in it rather than imported."""
    return not isinstance(value, ModuleType) and getattr(value, "__module__", module.__name__) == module.__name__


def offering(items: Mapping[str, object]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module that offers the items of a mapping, and nothing else."""

    def get(name: str) -> Any:
        if name in items:
            return items[name]
        raise AttributeError(name)

    return get, lambda: sorted(items)


def is_missing(value: object) -> bool:
    """Whether a result of `find` is MISSING."""
    return value is MISSING


def public_names(modules: Iterable[str]) -> list[str]:
    """All names that the modules offer."""
    names: dict[str, None] = {}
    for module in map(import_module, modules):
        names.update(dict.fromkeys(vars(module).get("__all__") or _own_names(module)))
    return list(names)


def _own_names(module: ModuleType) -> list[str]:
    return [name for name in dir(module) if not name.startswith("_") and _offers(module, name)]
