"""A function of tensors, compiled, against the same function on plain Python numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import graphls
from graphls.ir import walk

BACKENDS = ["numpy", "onnxruntime"]


def tensor(number: Any) -> Any:
    """A float32 for a float, an int64 for an int."""
    return graphls.Tensor(np.float32(number) if isinstance(number, float) else np.int64(number))


def compiled(function: Callable[..., Any], arguments: Sequence[Any], backend: str = "numpy") -> graphls.Compiled:
    return graphls.compile(function, *map(tensor, arguments), backend=backend)


def assert_agrees(
    function: Callable[..., Any], cases: Sequence[Sequence[Any]], backend: str = "numpy", rtol: float = 1e-5
) -> graphls.Compiled:
    """One compiled step gives what Python gives in all cases."""
    step = compiled(function, cases[0], backend)
    for arguments in cases:
        given, wanted = step(*map(tensor, arguments)), function(*arguments)
        given, wanted = (item if isinstance(item, tuple) else (item,) for item in (given, wanted))
        given, wanted = [float(g) for g in given], [float(w) for w in wanted]
        np.testing.assert_allclose(given, wanted, rtol=rtol, err_msg=str(arguments))
    return step


def count(step: graphls.Compiled, name: str) -> int:
    """How many nodes of a kind are in the final graph, regions included."""
    return sum(node.primitive.name == name for node in walk(step.graph))
