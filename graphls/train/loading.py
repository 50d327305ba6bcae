"""Loading what a checkpoint holds into the parameters of a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphls.base.checks import boolean
from graphls.base.errors import GraphRuntimeError, GraphTypeError
from graphls.base.reporting import warn
from graphls.frontend.tensors import random
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Array, Tensor
from graphls.ir.types import DType
from graphls.nn.cell import Cell

RANDOM_STATE, COUNTER = "random_state", "global_step"


def load_param_into_net(
    net: Cell, parameter_dict: Mapping[str, object], strict_load: bool = False, remove_redundancy: bool = False
) -> tuple[list[str], list[str]]:
    """Give the parameters of a network the values of those with the same names.

    Returns (names in the network that got none, names in `parameter_dict` that fitted nowhere). Steps that are compiled
    already go on with the new values. Without `strict_load`, floats and integers are converted to the parameter's
    dtype, and where one prefix, ending in a dot, leads to all parameters that are missing, those are taken, with a
    warning. The entry `random_state` is given to the random numbers of compiled steps where the network has an
    optimizer, so that training goes on as it would have. There is one process, so `remove_redundancy` changes nothing.

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
        sources.update(_behind_a_prefix([p for p in targets if p.name not in sources], parameter_dict))
    if RANDOM_STATE in parameter_dict and COUNTER in sources and RANDOM_STATE not in sources:
        targets.append(random.random_state())
        sources[RANDOM_STATE] = RANDOM_STATE
    values = [(p, _fitting(p, parameter_dict[sources[p.name]], strict)) for p in targets if p.name in sources]
    for parameter, value in values:
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


def _behind_a_prefix(missing: list[Parameter], parameter_dict: Mapping[str, object]) -> dict[str, str]:
    """Where the parameters that are missing stand, if one prefix leads to all of them; the shortest counts."""
    if not missing:
        return {}
    first = "." + missing[0].name
    prefixes = [name[: -len(first) + 1] for name in parameter_dict if name.endswith(first)]
    for prefix in sorted(prefixes, key=len):
        if all(_has_shape(parameter_dict.get(prefix + p.name), p) for p in missing):
            warn(f"The names in the checkpoint begin with {prefix!r}, those in the network do not; they are taken so.")
            return {p.name: prefix + p.name for p in missing}
    return {}


def _has_shape(value: object, parameter: Parameter) -> bool:
    return isinstance(value, Tensor) and value.shape == parameter.shape


def _fitting(parameter: Parameter, value: Any, strict: bool) -> Array:
    """The array of a value that a parameter can take."""
    if isinstance(value, str):
        raise GraphRuntimeError(f"{parameter.name} is a string in the checkpoint, not a tensor.")
    shape, wanted = value.shape, parameter.shape
    if shape != wanted and (shape[: len(wanted)] != wanted or set(shape[len(wanted) :]) != {1}):
        raise _misfit(parameter, "shape", wanted, shape)
    if value.dtype is not parameter.dtype and (strict or not _converts(value.dtype, parameter.dtype)):
        raise _misfit(parameter, "type", parameter.dtype, value.dtype)
    array: Array = value.asnumpy().reshape(wanted)
    return array


def _converts(source: DType, target: DType) -> bool:
    integers = ("int", "uint")
    return (source.is_float and target.is_float) or (source.kind in integers and target.kind in integers)


def _misfit(parameter: Parameter, what: str, wanted: object, found: object) -> GraphRuntimeError:
    return GraphRuntimeError(
        f"For 'load_param_into_net', {parameter.name} in the argument 'net' should have the same {what} as "
        f"{parameter.name} in the argument 'parameter_dict', but got its {what} {wanted} in the argument 'net' and "
        f"{found} in the argument 'parameter_dict'; check that the checkpoint belongs to this network.",
    )
