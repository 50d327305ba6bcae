"""Import paths that users write, such as `graphls.amp`, for modules of other packages."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

ALIASES = {
    "graphls.adapters": "graphls.interop.adapters",
    "graphls.amp": "graphls.nn.amp",
    "graphls.api": "graphls.step.api",
    "graphls.communication": "graphls.distributed.communication",
    "graphls.context": "graphls.runtime.context",
    "graphls.diagnosis": "graphls.inspect.diagnosis",
    "graphls.initializer": "graphls.nn.initializer",
    "graphls.ir.errors": "graphls.base.errors",
    "graphls.log": "graphls.base.log",
    "graphls.profile": "graphls.inspect.profile",
    "graphls.quantization": "graphls.nn.quantization",
    "graphls.tensors": "graphls.frontend.tensors",
    "graphls.testing": "graphls.inspect.testing",
    "graphls.train.inference": "graphls.step.export.inference",
    "graphls.viz": "graphls.inspect.viz",
}
"""Import paths of users and the real modules; submodules follow. Each is one module object under both names."""


class _Finder(MetaPathFinder, Loader):
    """Finds an alias, and loads the real module for it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name.startswith("graphls.") and real_name(name) != name else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        # The import statement writes the alias's spec into the module that it is given; `exec_module` takes it back.
        real = __import__(real_name(spec.name), fromlist=("",))
        spec.loader_state = real.__spec__
        return real

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def real_name(name: str) -> str:
    """The real module name of an import path: `graphls.nn.amp.build` for `graphls.amp.build`."""
    head, dot, suffix = name, "", ""
    while head:
        if head in ALIASES:
            return ALIASES[head] + dot + suffix
        head, _, last = head.rpartition(".")
        dot, suffix = ".", last + (dot + suffix if suffix else "")
    return name


def install() -> None:
    """Let import statements find the aliases, once in each process."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
