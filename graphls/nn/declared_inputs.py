"""Declared inputs of cells (`set_inputs`), and the check of a call's inputs against them."""

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

DeclaredInputs = Sequence[Any] | Mapping[str, Any]
"""Example inputs by position or by name, whose tensors may have open sizes."""


def declared_inputs(
    construct: Callable[..., object], inputs: tuple[object, ...], named: dict[str, object]
) -> DeclaredInputs:
    """The declared inputs of a bound `construct`, by position or by name.

    Raises GraphValueError for both at once and for unknown names, GraphTypeError for too many.
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


def has_declarations(inputs: object) -> bool:
    """Returns whether any tensor among inputs is only a declaration, without values to compile for."""
    return any(_declaration(leaf) is not None for leaf in leaves(inputs))


def _declaration(leaf: object) -> Declared | None:
    """The declaration that a tensor is; None for a tensor with values and for anything else."""
    buffer = getattr(leaf, "_buffer", None) if isinstance(leaf, Tensor) else None
    return buffer if isinstance(buffer, Declared) else None


def check_declared(
    construct: Callable[..., object], declared: DeclaredInputs, args: Sequence[object], named: dict[str, object]
) -> None:
    """Raise GraphTypeError or GraphValueError unless the inputs of a call match the declared ones.

    Tensors match in dtype, number of axes and every size that is not open; anything else must be equal.
    """
    if not isinstance(declared, Mapping) and len(args) != len(declared):
        takes_any = any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(construct).parameters.values())
        error = GraphValueError if takes_any else GraphTypeError
        text = f"set_inputs declared {len(declared)} inputs, and the cell is called with {len(args)}"
        raise error(f"{text}; declare each.")
    arguments = _by_name(construct, args, named) if isinstance(declared, Mapping) else dict(enumerate(args))
    unique: dict[int, int] = {}
    for name, expected in declared.items() if isinstance(declared, Mapping) else enumerate(declared):
        if name in arguments:
            _check(f"number {name + 1}" if isinstance(name, int) else repr(name), expected, arguments[name], unique)


def _by_name(construct: Callable[..., object], args: Sequence[object], named: dict[str, object]) -> dict[Any, Any]:
    return dict(inspect.signature(construct).bind(*args, **named).arguments)


def _check(path: str, expected: Any, value: Any, unique: dict[int, int]) -> None:
    """Check one input, or an item of a tuple or list; `unique` has the sizes of unique Symbols seen so far."""
    if isinstance(expected, (tuple, list)) and isinstance(value, (tuple, list)):
        for item, its in zip(expected, value, strict=False):  # mutable inputs of any length declare one item
            _check(f"{path}, inside,", item, its, unique)
    elif isinstance(expected, Tensor):
        kind = value.type if isinstance(value, Tensor) else type_of(value) if is_tensor(value) else None
        if kind is None or kind.dtype is not expected.dtype:
            text = f"Input {path} was declared as {expected.dtype!r} and is {value if kind is None else kind}"
            raise GraphTypeError(f"{text}; cast it, or declare it so.")
        declared = _declaration(expected)
        _check_sizes(path, declared.sizes if declared else expected.shape, kind, unique)
    elif type(expected) is not type(value) or expected != value:
        error = GraphTypeError if type(expected) is not type(value) else GraphValueError
        raise error(f"Input {path} was declared as {expected!r} and is {value!r}; declare it so.")


def _check_sizes(path: str, sizes: Sequence[Size], kind: Type, unique: dict[int, int]) -> None:
    if tuple(sizes) == (ANY_RANK,):
        return
    if len(sizes) != kind.rank or not all(_fits(*pair, unique) for pair in zip(sizes, kind.shape, strict=True)):
        text = f"Input {path} was declared with the sizes {list(sizes)} and is {kind}"
        raise GraphValueError(f"{text}; give such an input, or declare it so.")


def _fits(size: Size, actual: int, unique: dict[int, int]) -> bool:
    if isinstance(size, OpenSize):
        return size.fits(actual) and (not size.unique or unique.setdefault(id(size), actual) == actual)
    return size in (None, -1, actual)
