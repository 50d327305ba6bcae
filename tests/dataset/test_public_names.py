"""The names that datasets offer to users, with their parameters, as `public_names.txt` lists them."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from graphls.dataset import Dataset, GeneratorDataset, Sampler
from graphls.dataset.transforms import TensorOperation
from graphls.frontend.names.lazy import public_names

BASES = (Dataset, GeneratorDataset, Sampler, TensorOperation)
LIST = Path(__file__).parent / "public_names.txt"
MODULES = (
    "", ".config", ".samplers", ".mindrecord", ".text", ".transforms", ".transforms.c_transforms",
    ".transforms.py_transforms", ".vision", ".vision.c_transforms", ".vision.py_transforms", ".vision.utils",
)  # fmt: skip


def parameters(value: Any) -> str:
    """The parameters that `help()` shows, a default as =; nothing for what cannot be called."""
    if not callable(value) or (isinstance(value, type) and issubclass(value, BaseException)):
        return ""
    found = inspect.signature(value).parameters.values()
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    shown = (f"{stars.get(p.kind, '')}{p.name}{'=' if p.default is not p.empty else ''}" for p in found)
    return f"({', '.join(shown)})"


def described(path: str, value: Any) -> Iterator[str]:
    """A name, and the methods of a class that no base which has them already is listed for."""
    if not isinstance(value, type) or issubclass(value, (int, str)):
        yield f"{path} {' '.join(value.__members__)}" if isinstance(value, type) else f"{path}{parameters(value)}"
        return
    yield f"{path}{parameters(value)}"
    known = {name for base in BASES if value is not base and issubclass(value, base) for name in dir(base)}
    if not issubclass(value, BaseException) and (value in BASES or not issubclass(value, TensorOperation)):
        for name in sorted({*dir(value)} - known):
            if not name.startswith("_") and callable(getattr(value, name)):
                yield f"{path}.{name}{parameters(getattr(value, name))}"


def offers() -> Iterator[str]:
    """Everything that graphls.dataset offers."""
    for module in (f"graphls.dataset{name}" for name in MODULES):
        found = importlib.import_module(module)
        for name in sorted(public_names((module,))):
            yield from described(f"{module}.{name}", getattr(found, name))


def test_every_name_is_there_with_its_parameters() -> None:
    known = set(LIST.read_text(encoding="utf-8").splitlines())
    found = set(offers())
    assert not sorted(known - found), "names that are gone or have other parameters"
    assert not sorted(found - known), "names that are new: add them to public_names.txt"
