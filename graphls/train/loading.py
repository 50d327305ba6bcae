"""Entries of a checkpoint, and loading them into the parameters of a network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from graphls.base.checks import boolean
from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.base.reporting import warn
from graphls.base.sharing.locks import holding_all
from graphls.frontend.tensors import random
from graphls.frontend.tensors.parameter import BY_PATHS, Parameter
from graphls.frontend.tensors.tensor import Array, Tensor, TensorLike, array_of, is_tensor
from graphls.interop.formats.checkpoint import Entry
from graphls.interop.formats.shards import StoredTensor
from graphls.ir.types import DType
from graphls.nn.cell import Cell
from graphls.nn.parameter_names import check_distinct

Named = Iterable[tuple[Any, Any]]


def entries_of(
    save_obj: object, append_dict: Mapping[str, object] | None, choice_func: Callable[[str], bool] | None,
    copy: Callable[[str, Any], Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Copies of everything to save, consistent in time, by name; the entries of `append_dict` come last.

    `copy` is what copies a value, by default `entry_of`.

    Raises GraphTypeError for objects that cannot be saved, GraphValueError for malformed lists and for names and
    strings with lone surrogates.
    """
    items = [*named(save_obj), *_checked_appendix(append_dict).items()]
    _check_names(save_obj, append_dict or {}, choice_func)
    with holding_all(value.storage for _, value in items if isinstance(value, Parameter)):
        return _copied_entries(save_obj, append_dict, choice_func, copy or entry_of)


def _copied_entries(
    save_obj: object, append_dict: Mapping[str, object] | None, choice_func: Callable[[str], bool] | None,
    copy: Callable[[str, Any], Any],
) -> dict[str, Any]:  # fmt: skip
    entries: dict[str, Any] = {}
    for name, value in named(save_obj):
        if not isinstance(name, str):
            raise GraphTypeError(f"The name of an entry is a string, not {name!r}.")
        if choice_func is not None and choice_func(name) is False:
            continue
        entries[name] = copy(name, value)
    for name, value in _checked_appendix(append_dict).items():
        entries.pop(name, None)
        entries[name] = copy(name, value)
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
    """Refuse lone surrogates, which represent bytes in file names and have no form in checkpoints."""
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


def _check_names(
    save_obj: object, append_dict: Mapping[str, object], choice_func: Callable[[str], bool] | None
) -> None:
    """Raise GraphValueError where two values of one name are saved, or an entry of `append_dict` hides a weight."""
    values: dict[str, object] = {}
    for name, value in named(save_obj):
        if not isinstance(name, str) or (choice_func is not None and choice_func(name) is False):
            continue
        if values.setdefault(name, value) is not value:
            if isinstance(save_obj, Cell):
                check_distinct(save_obj, [name])
            text = f"Two elements of the list are called {name!r}, and a checkpoint has one entry for each name"
            raise GraphValueError(f"{text}; give each element a name of its own.")
    for name, entry in append_dict.items():
        weight = values.get(name)
        if isinstance(weight, Parameter) and weight.requires_grad and weight is not entry:
            text = f"An entry of append_dict is called {name!r} as a weight is, which would be lost"
            raise GraphValueError(f"{text}; give the entry another name.")


RANDOM_STATE, COUNTER = "random_state", "global_step"


def load_param_into_net(
    net: Cell, parameter_dict: Mapping[str, object], strict_load: bool = False, remove_redundancy: bool = False
) -> tuple[list[str], list[str]]:
    """Set the parameters of a network from those with the same names.

    Returns (names in the network without a value, unused names in `parameter_dict`). Compiled steps continue with the
    new values. Without `strict_load`, floats and integers are converted to the parameter's dtype, and where one prefix,
    ending in a dot, leads to all missing parameters, it is used, with a warning. The entry `random_state` sets the
    random numbers of compiled steps where the network has an optimizer, so that training continues exactly. There is
    one process, so `remove_redundancy` changes nothing.

    Raises GraphTypeError for arguments of another kind and GraphRuntimeError for other shapes and dtypes; then nothing
    has been loaded.

    Examples:
        >>> from graphls import nn
        >>> from graphls.train import load_checkpoint, load_param_into_net, save_checkpoint
        >>> save_checkpoint(nn.SequentialCell(nn.Dense(2, 3)), "base.ckpt")
        >>> missing, unused = load_param_into_net(nn.SequentialCell(nn.Dense(2, 3)), load_checkpoint("base.ckpt"))
        >>> missing, unused
        ([], [])
    """
    _check_arguments(net, parameter_dict)
    strict = boolean("load_param_into_net", "strict_load", strict_load)
    boolean("load_param_into_net", "remove_redundancy", remove_redundancy)
    targets = list(net.get_parameters())
    sources = {name: name for name in {p.name for p in targets} if name in parameter_dict}
    if not strict:
        sources.update(_match_by_prefix([p for p in targets if p.name not in sources], parameter_dict))
    if RANDOM_STATE in parameter_dict and COUNTER in sources and RANDOM_STATE not in sources:
        targets.append(random.random_state())
        sources[RANDOM_STATE] = RANDOM_STATE
    _warn_of_twins([p.name for p in targets if p.name in sources])
    values = [(p, _checked_array(p, parameter_dict[sources[p.name]], strict)) for p in targets if p.name in sources]
    for parameter, value in values:
        if isinstance(value, StoredTensor):
            parameter.storage.replace(value)
        else:
            parameter.set_data(value)
    missing = [p.name for p in targets if p.name not in sources]
    if missing:
        warn(f"{len(missing)} parameters of the network are not in the checkpoint and stay as they are: {missing}.")
    used = set(sources.values())
    return missing, [name for name in parameter_dict if name not in used]


def _check_arguments(net: object, parameter_dict: object) -> None:
    function = "load_param_into_net"
    if not isinstance(net, Cell):
        raise GraphTypeError(f"For {function!r}, the argument 'net' should be a Cell, but got {type(net)}.")
    if not isinstance(parameter_dict, dict):
        raise GraphTypeError(
            f"For {function!r}, the argument 'parameter_dict' should be a dict, but got {type(parameter_dict)}.",
        )
    for name, value in parameter_dict.items():
        if not isinstance(name, str) or not isinstance(value, (Tensor, str)):
            raise GraphTypeError(
                "For 'parameter_dict', the element in the argument 'parameter_dict' should be a 'str' and 'Parameter' "
                f", but got {type(name)} and {type(value)}.",
            )


def _match_by_prefix(missing: list[Parameter], parameter_dict: Mapping[str, object]) -> dict[str, str]:
    """The names of missing parameters with the shortest prefix that leads to all of them."""
    if not missing:
        return {}
    first = "." + missing[0].name
    prefixes = [name[: -len(first) + 1] for name in parameter_dict if name.endswith(first)]
    for prefix in sorted(prefixes, key=len):
        if all(_has_shape(parameter_dict.get(prefix + p.name), p) for p in missing):
            warn(f"The names in the checkpoint begin with {prefix!r}, unlike those in the network; it is ignored.")
            return {p.name: prefix + p.name for p in missing}
    return {}


def _warn_of_twins(names: list[str]) -> None:
    """Warn of parameters of one name, which all get the same values."""
    twins = [name for name, count in Counter(names).items() if count > 1]
    if twins:
        warn(f"Several parameters of the network are called {twins[0]!r} and get the same values; {BY_PATHS}.")


def _has_shape(value: object, parameter: Parameter) -> bool:
    return isinstance(value, Tensor) and value.shape == parameter.shape


def _checked_array(parameter: Parameter, value: Any, strict: bool) -> Array | StoredTensor:
    """The array of a value that fits a parameter, or what reads it, as far as a step needs it."""
    if isinstance(value, str):
        raise GraphRuntimeError(f"{parameter.name} is a string in the checkpoint, not a tensor.")
    shape, expected = value.shape, parameter.shape
    if shape != expected and (shape[: len(expected)] != expected or set(shape[len(expected) :]) != {1}):
        raise _misfit(parameter, "shape", expected, shape)
    if value.dtype is not parameter.dtype and (strict or not _converts(value.dtype, parameter.dtype)):
        raise _misfit(parameter, "type", parameter.dtype, value.dtype)
    stored = value.storage.current if isinstance(value, Parameter) else None
    if isinstance(stored, StoredTensor) and stored.shape == expected and value.dtype is parameter.dtype:
        return stored
    array: Array = value.asnumpy().reshape(expected)
    return array


def _converts(source: DType, target: DType) -> bool:
    integers = ("int", "uint")
    return (source.is_float and target.is_float) or (source.kind in integers and target.kind in integers)


def _misfit(parameter: Parameter, what: str, expected: object, actual: object) -> GraphRuntimeError:
    return GraphRuntimeError(
        f"For 'load_param_into_net', {parameter.name} in the argument 'net' should have the same {what} as "
        f"{parameter.name} in the argument 'parameter_dict', but got its {what} {expected} in the argument 'net' and "
        f"{actual} in the argument 'parameter_dict'; check that the checkpoint belongs to this network.",
    )
