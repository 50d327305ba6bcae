"""What `set_inputs` tells of the inputs of a cell, and whether those of a call are as it told."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.dynamic_sizes import ANY_RANK, Declared, OpenSize, Size
from graphls.frontend.tensors.pytree import leaves
from graphls.frontend.tensors.tensor import Tensor, is_tensor
from graphls.ir.registry import nearest
from graphls.ir.types import Type, type_of

Told = Sequence[Any] | Mapping[str, Any]
"""Examples of inputs by position or by name, in which tensors may have open sizes."""


def told_inputs(construct: Callable[..., object], inputs: tuple[object, ...], named: dict[str, object]) -> Told:
    """The inputs that are told of, by position or by name, for a bound `construct`.

    Raises GraphValueError for both at once and for names that are no argument, GraphTypeError for too many.
    """
    if inputs and named:
        raise GraphValueError("set_inputs takes all inputs by position, or some by name, but not both.")
    parameters = inspect.signature(construct).parameters
    for name in named:
        if name not in parameters:
            near = nearest(name, parameters)
            raise GraphValueError(f"There is no input {name!r} to declare; there are {', '.join(parameters)}{near}.")
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters.values())
    if len(inputs) > len(parameters) and not takes_any:
        raise GraphTypeError(f"set_inputs declares {len(inputs)} inputs, and construct takes {len(parameters)}.")
    return named or inputs


def is_open(inputs: object) -> bool:
    """Whether tensors among inputs only declare what they look like, so that nothing can be compiled for them yet."""
    return any(_declaration(leaf) is not None for leaf in leaves(inputs))


def _declaration(leaf: object) -> Declared | None:
    """What a tensor declares; None for one with values and for anything else."""
    buffer = getattr(leaf, "_buffer", None) if isinstance(leaf, Tensor) else None
    return buffer if isinstance(buffer, Declared) else None


def check_told(construct: Callable[..., object], told: Told, args: Sequence[object], named: dict[str, object]) -> None:
    """Raise GraphTypeError or GraphValueError unless the inputs of a call are as `set_inputs` told.

    Tensors have the dtype that was told, the number of axes, and every size that is not open; anything else is equal.
    """
    if not isinstance(told, Mapping) and len(args) != len(told):
        takes_any = any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(construct).parameters.values())
        error = GraphValueError if takes_any else GraphTypeError
        raise error(f"set_inputs declared {len(told)} inputs, and the cell is called with {len(args)}; declare each.")
    given = _by_name(construct, args, named) if isinstance(told, Mapping) else dict(enumerate(args))
    unique: dict[int, int] = {}
    for name, expected in told.items() if isinstance(told, Mapping) else enumerate(told):
        if name in given:
            _check(f"number {name + 1}" if isinstance(name, int) else repr(name), expected, given[name], unique)


def _by_name(construct: Callable[..., object], args: Sequence[object], named: dict[str, object]) -> dict[Any, Any]:
    return dict(inspect.signature(construct).bind(*args, **named).arguments)


def _check(place: str, expected: Any, given: Any, unique: dict[int, int]) -> None:
    """Check one input, or what stands in a tuple or list; `unique` are the sizes of unique Symbols that were met."""
    if isinstance(expected, (tuple, list)) and isinstance(given, (tuple, list)):
        for item, its in zip(expected, given, strict=False):  # of mutable inputs of any length, one is told of
            _check(f"{place}, inside,", item, its, unique)
    elif isinstance(expected, Tensor):
        kind = given.type if isinstance(given, Tensor) else type_of(given) if is_tensor(given) else None
        if kind is None or kind.dtype is not expected.dtype:
            text = f"Input {place} was declared as {expected.dtype!r} and is {given if kind is None else kind}"
            raise GraphTypeError(f"{text}; cast it, or declare it so.")
        declared = _declaration(expected)
        _check_sizes(place, declared.sizes if declared else expected.shape, kind, unique)
    elif type(expected) is not type(given) or expected != given:
        error = GraphTypeError if type(expected) is not type(given) else GraphValueError
        raise error(f"Input {place} was declared as {expected!r} and is {given!r}; declare it so.")


def _check_sizes(place: str, sizes: Sequence[Size], kind: Type, unique: dict[int, int]) -> None:
    if tuple(sizes) == (ANY_RANK,):
        return
    if len(sizes) != kind.rank or not all(_fits(*pair, unique) for pair in zip(sizes, kind.shape, strict=True)):
        text = f"Input {place} was declared with the sizes {list(sizes)} and is {kind}"
        raise GraphValueError(f"{text}; give such an input, or declare it so.")


def _fits(size: Size, given: int, unique: dict[int, int]) -> bool:
    if isinstance(size, OpenSize):
        return size.fits(given) and (not size.unique or unique.setdefault(id(size), given) == given)
    return size in (None, -1, given)
