"""Matrices that a model of PyTorch stores as (inputs, outputs), by the classes of its modules and by shapes."""

from __future__ import annotations

import re
from collections.abc import Iterable

_TRANSPOSED = "Conv1D"
"""The class of Hugging Face whose weights are (inputs, outputs)."""


def transposed_modules(source: object) -> str | None:
    """The pattern of the weights of a module that are stored as (inputs, outputs); None if there are none."""
    listed = getattr(source, "named_modules", None)
    paths = [path for path, part in listed() if type(part).__name__ == _TRANSPOSED] if callable(listed) else []
    return transposed_pattern(f"{path}.weight" for path in paths)


def transposed_pattern(names: Iterable[str]) -> str | None:
    """A regular expression for the weights of all modules that are called as those of these weights; None for none."""
    endings: dict[str, None] = {}
    for name in names:
        module = name.removesuffix(".weight").rpartition(".")[2]
        endings[f"{module}.weight" if name.endswith(".weight") else name] = None
    one_of = "|".join(map(re.escape, endings))
    return rf"(^|\.)({one_of})$" if endings else None
