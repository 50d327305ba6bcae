"""Functions of PyTorch that are called on tensors of graphls: the error, which names the function of graphls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from graphls.frontend.names.habits import TORCH

Function = Callable[..., Any]


def name_of(function: Function) -> str:
    """The public path of a function of PyTorch, such as torch.nn.functional.relu."""
    overrides: Any = getattr(sys.modules.get("torch"), "overrides", None)  # it is loaded where its functions are called
    name = overrides.resolve_name(function) if overrides is not None else None
    return str(name or f"torch.{getattr(function, '__name__', function)}").removeprefix("torch._C.")


def counterpart(name: str) -> str:
    """The advice for a function by its path, as `; use ops.relu`; where none is known, where the counterparts are."""
    from graphls.frontend.names.lazy import elsewhere

    word = name.rpartition(".")[2]
    if word in TORCH:
        return f"; use {TORCH[word]}"
    return elsewhere(word) or elsewhere(word.rstrip("_")) or "; functions of graphls are in graphls.ops"
