"""Single operations outside of a trace: with NumPy, or in ONNX Runtime where NumPy is slow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np

from graphls.base.errors import GraphlsError
from graphls.ir.registry import Operation
from graphls.ir.types import Type, float32, type_of
from graphls.passes.inference import recognised

Array = np.ndarray[Any, Any]
Compute = Callable[[tuple[Array, ...]], tuple[Any, ...]]


def computed_by(
    operation: Operation, kinds: tuple[Type, ...], attrs: Mapping[str, Any], types: tuple[Type, ...]
) -> Compute:
    """A function that evaluates an operation on such operands: the results, of these `types`, 16-bit floats as float32.

    Others than the first may be functions, which give the result when it is read: the positions of a maximum take
    several times as long as that.

    Which way it is computed depends on the operation, its attributes and types alone, so that the same operands always
    give the same bits. Sessions compute float32, which 16-bit floats are computed in by NumPy as well.
    """
    if pays(operation, kinds, attrs, types):
        return partial(_in_sessions, operation, attrs, types)
    return lambda arrays: operation.evaluate(arrays, attrs, types)


def pays(operation: Operation, kinds: tuple[Type, ...], attrs: Mapping[str, Any], types: tuple[Type, ...]) -> bool:
    """Whether a session computes an operation, on operands of these kinds."""
    least = operation.session_from
    if least is None or not all(kind.dtype is float32 or kind.dtype.is_half for kind in kinds):
        return False
    return operation.flops(kinds, types, attrs) >= least and has_runtime()


def _in_sessions(
    operation: Operation, attrs: Mapping[str, Any], types: tuple[Type, ...], arrays: tuple[Array, ...]
) -> tuple[Any, ...]:
    """The first result, and functions that give the others."""
    wide = tuple([array.astype(np.float32, copy=False) for array in arrays])
    result = partial(_in_a_session, operation, wide, attrs, types)
    return result(0), *[partial(result, index) for index in range(1, len(types))]


def _in_a_session(
    operation: Operation, arrays: tuple[Array, ...], attrs: Mapping[str, Any], types: tuple[Type, ...], index: int
) -> Array:
    """One result of a session; of NumPy where the session fails, as without memory, so that NumPy reports the fault."""
    from graphls.runtime.onnxruntime.operators import cached, operation_graph, operation_model

    kinds = tuple(map(type_of, arrays))
    try:
        key = operation, kinds, index, *sorted(attrs.items())
        session = cached(key, lambda: operation_model(recognised(operation_graph(operation, kinds, attrs, index))))
        return session.run(arrays)[0]
    except Exception:
        result: Array = operation.evaluate(arrays, attrs, types)[index]
        return result


@cache
def has_runtime() -> bool:
    """Whether a usable runtime is installed."""
    from graphls.runtime.onnxruntime.runtime import load_runtime

    try:
        load_runtime()
    except GraphlsError:
        return False
    return True
