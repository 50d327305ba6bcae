"""What a checkpoint is made of: names with arrays and strings, of whatever a script wants to save."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.reporting import warn
from graphls.base.sharing.locks import holding_all
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import TensorLike, array_of, is_tensor
from graphls.interop.formats.checkpoint import Entry
from graphls.nn.cell import Cell

Named = Iterable[tuple[Any, Any]]


def entries_of(
    save_obj: object, append_dict: Mapping[str, object] | None, choice_func: Callable[[str], bool] | None
) -> dict[str, Entry]:
    """Copies of everything to save, all of one moment, by name; the entries of `append_dict` come last.

    Raises GraphTypeError for objects that cannot be saved, GraphValueError for malformed lists and for names and
    strings with single surrogates.
    """
    items = [*named(save_obj), *_checked_appendix(append_dict).items()]
    with holding_all(value.storage for _, value in items if isinstance(value, Parameter)):
        return _copied(save_obj, append_dict, choice_func)


def _copied(
    save_obj: object, append_dict: Mapping[str, object] | None, choice_func: Callable[[str], bool] | None
) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for name, value in named(save_obj):
        if not isinstance(name, str):
            raise GraphTypeError(f"The name of what is saved is a string, not {name!r}.")
        if choice_func is not None and choice_func(name) is False:
            continue
        entry = entry_of(name, value)
        _warn_of_twin(name, entries.get(name), entry)
        entries[name] = entry
    for name, value in _checked_appendix(append_dict).items():
        entries.pop(name, None)
        entries[name] = entry_of(name, value)
    for name, entry in entries.items():
        _check_text(name, entry)
    return entries


def named(save_obj: Any) -> Named:
    """The names and values of a cell, a dict or a list of {'name': ..., 'data': ...}."""
    if isinstance(save_obj, Cell):
        return [(parameter.name, parameter) for parameter in save_obj.get_parameters()]
    if isinstance(save_obj, dict):
        return save_obj.items()
    if not isinstance(save_obj, list):
        is_step = hasattr(save_obj, "parameters") and hasattr(save_obj, "stages")
        advice = "; give the cell that was compiled, whose parameters the step trains" if is_step else ""
        raise GraphTypeError(
            "For 'save_checkpoint', the parameter 'save_obj' must be nn.Cell, list or dict, "
            f"but got {type(save_obj)}{advice}.",
        )
    for item in save_obj:
        if not isinstance(item, dict) or not {"name", "data"} <= item.keys():
            raise GraphValueError(
                "For 'save_checkpoint', each element of the list 'save_obj' must be a dict {'name': str, 'data': "
                f"Parameter or Tensor}}, but got {item!r}.",
            )
    return [(item["name"], item["data"]) for item in save_obj]


def entry_of(name: str, value: TensorLike) -> Entry:
    """A copy of a tensor, an array, a number or a string; raises GraphTypeError for anything else.

    A number is stored as its tensor would be: an int as int64, a float as float32, each of shape ().
    """
    if isinstance(value, str):
        return value
    if not is_tensor(value) and not isinstance(value, (bool, int, float)):
        raise GraphTypeError(f"A checkpoint holds tensors, numbers and strings; {name!r} is a {type(value).__name__}.")
    return np.array(array_of(value))


def _check_text(name: str, entry: Entry) -> None:
    """Refuse single surrogates, which stand for bytes in names of files and in no format of checkpoints."""
    try:
        name.encode()
        if isinstance(entry, str):
            entry.encode()
    except UnicodeEncodeError as error:
        raise GraphValueError(
            f"A checkpoint holds Unicode only, and {name!r} has the single surrogate {error.object[error.start]!r} in "
            "its name or text; replace that.",
        ) from None


def _checked_appendix(append_dict: object) -> dict[str, Any]:
    if append_dict is None:
        return {}
    if not isinstance(append_dict, dict):
        raise GraphTypeError(
            f"For 'save_checkpoint', the argument 'append_dict' must be dict, but got {type(append_dict)}.",
        )
    for name in append_dict:
        if not isinstance(name, str):
            raise GraphTypeError(f"For 'save_checkpoint', the keys of 'append_dict' must be string, but got {name!r}.")
    return append_dict


def _warn_of_twin(name: str, known: Entry | None, entry: Entry) -> None:
    if known is not None and not _are_same(known, entry):
        warn(f"Two parameters are called {name!r} and differ; a checkpoint holds one of each name, so one is lost.")


def _are_same(first: Entry, second: Entry) -> bool:
    if isinstance(first, str) or isinstance(second, str):
        return isinstance(first, str) and isinstance(second, str) and first == second
    return (first.dtype, first.shape, first.tobytes()) == (second.dtype, second.shape, second.tobytes())
