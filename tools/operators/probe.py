"""Finds by trial the arguments, dtypes, gradient and devices that a function or cell supports."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice, product
from typing import Any

import numpy as np

import graphls
from graphls import ops
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import leaves, map_leaves
from graphls.frontend.tensors.tensor import Tensor
from graphls.ir.types import DTYPES, DType, bool_, float32, float64, int32
from graphls.nn.cell import Cell

SHAPES = ((2, 4), (4, 4), (2, 4, 6), (2, 4, 6, 6), (4, 4, 4), (4, 4, 4, 4), (2, 4, 6, 6, 6), (4,), (2, 3), ())
ATTEMPTS = 40
DATA = tuple(d for d in DTYPES if d.kind != "token")


@dataclass(frozen=True)
class Slot:
    """A tensor among the arguments: floats in the dtype that is tried, or int32 ones."""

    shape: tuple[int, ...]
    integers: bool = False

    def tensor(self, dtype: DType, number: int = 0) -> Tensor:
        """Numbers that differ with `number`, the last of them 1; square matrices have an inverse."""
        if self.integers:
            return Tensor(np.ones(self.shape, np.int32))
        values = np.linspace(0.3 + 0.03 * number, 0.8 - 0.05 * number, int(np.prod(self.shape))).reshape(self.shape)
        values.flat[-1] = 1.0
        if len(self.shape) > 1 and self.shape[-1] == self.shape[-2]:
            values = values + np.eye(self.shape[-1])
        return Tensor(values > 0.5 if dtype is bool_ else values, dtype)


@dataclass(frozen=True)
class Finding:
    """The findings: dtypes of tensors, whether there is a gradient, and whether it lowers for each device."""

    dtypes: tuple[DType, ...]
    gradient: bool
    cpu: bool
    cuda: bool


def probe(function: Callable[..., Any]) -> Finding | None:
    """The findings for a function of tensors; None if no arguments fit."""
    arguments = _example(function, function)
    return None if arguments is None else _finding(function, arguments)


def probe_cell(kind: type[Cell]) -> Finding | None:
    """The findings for a cell; None if none could be constructed or no inputs fit."""
    for cell in islice(_cells(kind), 3):
        arguments = _example(cell, cell.construct)
        if arguments is not None:
            return _finding(cell, arguments)
    return None


def _cells(kind: type[Cell]) -> Iterator[Cell]:
    for arguments in islice(product(*map(_settings, _required(kind))), ATTEMPTS):
        try:
            yield kind(*chain(*arguments))
        except Exception:  # these arguments do not fit
            continue


def _settings(parameter: inspect.Parameter) -> list[tuple[Any, ...]]:
    """Candidate arguments for one parameter: several for `*args`, one for any other."""
    if parameter.kind is parameter.VAR_POSITIONAL:
        return [(4, 4)]
    others = (4, 1, (4,), 0.5, Tensor(np.ones(4, np.float32)), "relu", (1, 1), graphls.nn.ReLU())
    return [(value,) for value in ((0.5, *others) if parameter.annotation == "float" else others)]


def _required(function: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = inspect.signature(function).parameters.values()
    return [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]


def _example(called: Callable[..., Any], signed: Callable[..., Any]) -> Any:
    """Arguments that fit the parameters of `signed` without a default and, where those do not do, the one after."""
    required = _required(signed)
    others = [p for p in inspect.signature(signed).parameters.values() if p not in required]
    positional = [p for p in others if p.kind is p.POSITIONAL_OR_KEYWORD]
    for parameters, shape in product((required, [*required, *positional[:1]]), SHAPES):
        choices = [(1, 0.5) if p.annotation == "float" else _candidates(p.name, shape) for p in parameters]
        for arguments in islice(product(*choices), ATTEMPTS):
            if _traced(called, arguments, float32) is not None:
                return arguments
    return None


def _candidates(name: str, shape: tuple[int, ...]) -> tuple[Any, ...]:
    floats, same, fewer = Slot(shape), Slot(shape, True), Slot(shape[:1], True)
    fitting: dict[str, tuple[Any, ...]] = {
        **dict.fromkeys(("axis", "dim", "axis0", "axis1", "dims"), (0, 1)),
        **dict.fromkeys(("shape", "size"), (shape,)),
        **dict.fromkeys(("dtype", "type"), (float32,)),
        **dict.fromkeys(("index", "indices", "input_indices"), (same, fewer)),
        **dict.fromkeys(("variable", "input_x"), (floats, Parameter(np.ones(shape, np.float32), name="example"))),
        **dict.fromkeys(("paddings", "crops"), (((0, 0),),)),
        "permutation": (tuple(range(len(shape))),),
    }
    pair = (floats, floats)
    return fitting.get(name, (floats, same, fewer, 1, pair, Slot(shape[1:2]), Slot(shape[:1]), Slot(()), 2, shape))


def _traced(function: Callable[..., Any], arguments: Any, dtype: DType) -> Any:
    """The trace of a call with tensors in a dtype, or None where it cannot be made."""
    try:
        return graphls.trace_graph(_of_tensors(function, arguments), *_tensors(arguments, dtype))
    except Exception:  # candidates may not fit at all
        return None


def _slots(arguments: Any) -> list[Slot]:
    return [leaf for leaf in leaves(arguments) if isinstance(leaf, Slot)]


def _tensors(arguments: Any, dtype: DType) -> list[Tensor]:
    return [slot.tensor(dtype, number) for number, slot in enumerate(_slots(arguments))]


def _of_tensors(function: Callable[..., Any], arguments: Any) -> Callable[..., Any]:
    """The function of the tensors among its arguments only."""

    def called(*tensors: Any) -> Any:
        arrays = iter(tensors)
        return function(*map_leaves(lambda leaf: next(arrays) if isinstance(leaf, Slot) else leaf, arguments))

    return called


def _finding(function: Callable[..., Any], arguments: Any) -> Finding:
    slots = _slots(arguments)
    floats = any(not slot.integers for slot in slots)
    dtypes = tuple(d for d in DATA if _traced(function, arguments, d) is not None) if floats else (int32,)
    graph = _traced(function, arguments, float32).graph
    gradient = floats and _has_gradient(function, arguments)
    return Finding(dtypes if slots else (), gradient, _lowers(graph, "cpu"), _lowers(graph, "cuda"))


def _lowers(graph: Any, device: str) -> bool:
    from graphls.runtime.lowering import lower

    try:
        lower(graph, device=device)
    except graphls.GraphlsError:
        return False
    return True


def _has_gradient(function: Callable[..., Any], arguments: Any) -> bool:
    """Returns whether some float operand has a nonzero gradient, at numbers up to 1 or above 1."""
    tensors = _tensors(arguments, float64)
    higher = [ops.add(t, 1.0) if t.dtype.is_float else t for t in tensors]
    return _has_slope(function, arguments, tensors) or _has_slope(function, arguments, higher)


def _has_slope(function: Callable[..., Any], arguments: Any, tensors: list[Tensor]) -> bool:
    """Returns whether a weighted sum of the float results has a nonzero gradient at these tensors."""
    places = tuple(i for i, slot in enumerate(_slots(arguments)) if not slot.integers)

    def total(*tensors: Any) -> Any:
        results = leaves(_of_tensors(function, arguments)(*tensors))
        floats = [r for r in results if isinstance(r, Tensor) and r.dtype.is_float]
        return ops.addn([ops.sum(ops.mul(r, 2 + np.cos(np.arange(r.size)).reshape(r.shape))) for r in floats])

    graphls.set_seed(1)
    try:
        step = graphls.compile(lambda *t: graphls.grad(total, places)(*t), *tensors, backend="numpy")
        gradients = leaves(step(*tensors))
    except Exception:  # there is no float result, or one without a gradient rule
        return False
    return any(np.any(g.asnumpy() != 0) for g in gradients)
