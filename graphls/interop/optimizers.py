"""Loads states of PyTorch's optimizers into those of graphls, and saves them for PyTorch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from graphls.base.checks import boolean
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.files.files import as_path, write_bytes
from graphls.interop.counterparts import Counterpart, asgd_rate, check_settings, counterpart_of, settings_of
from graphls.interop.formats.torch import encode
from graphls.interop.matching import check_network, check_pattern, check_rename, listed, outward, outward_names
from graphls.interop.optimizer_loading import Loading, counts_after
from graphls.interop.optimizer_sources import OptimizerState, optimizer_state_of
from graphls.interop.parameter_mapping import ParameterMapping
from graphls.interop.parameter_order import ADVICE, mappings_of, matched, names_in_order
from graphls.interop.report import Report, counted
from graphls.interop.sources import Array, Arrays
from graphls.nn.cell import Cell
from graphls.nn.optimizers.base import Optimizer

__all__ = ["load_optimizer_state_dict", "optimizer_state_dict", "save_optimizer_state_dict"]

LOADING = "load_optimizer_state_dict"
Named = dict[str, ParameterMapping]
"""Parameters by name in PyTorch."""


def load_optimizer_state_dict(
    optimizer: Optimizer, net: Cell, source: object, *, names: Sequence[str] | None = None, strict: bool = True,
    changed: Collection[str] = (), rename: Mapping[str, str] | None = None, transposed: str | None = None,
    global_step: int | None = None,
) -> Report:  # fmt: skip
    """Load the moments and update count of an optimizer of PyTorch; returns a report that prints as a table.

    `source` is the `state_dict` of an optimizer of `torch.optim`, the optimizer itself, or a file of `torch.save` with
    one, alone or as `optimizer`, `optimizer_state_dict`, `optim` or `optimizer_states` beside the weights. Nothing in a
    file is executed. `net` is the network whose parameters the optimizer updates; load its weights by
    `load_state_dict`. Moments take the layout of their parameter: transposed, joined or in parts as the weight is, for
    which `rename` and `transposed` are as there.

    PyTorch numbers parameters in the order of its groups, and `names` are their names in that order. By default, they
    are those in the groups (of an optimizer created from `named_parameters()`), those of the weights in the same file
    if there is one group, or else the parameters of the optimizer here in their order, as in PyTorch.

    These are the same: SGD and `nn.SGD`, or `nn.Momentum` without dampening; AdamW and `nn.AdamW`, also Adam without
    weight decay; Adadelta, Rprop and ASGD. Adam, Adamax and Adagrad differ from `nn.Adam`, `nn.AdaMax` and `nn.Adagrad`
    in the term to which `eps` is added, and load with `changed=("eps",)`. RMSprop, Adagrad, NAdam and RAdam of
    `mindspore.experimental.optim` are PyTorch's.

    Raises GraphValueError for an optimizer that updates by another formula; for different settings of groups, such as
    "lr", "betas" or "weight_decay", unless `changed` has their names (learning rates are those of the coming
    update); with `strict` for parameters without a state and for states without a parameter; for states of another
    shape; for parameters that were updated a different number of times; and for a state of SGD without
    `global_step`, the number of updates so far, if a schedule depends on it. Raises GraphFileError for a file that
    cannot be read and GraphTypeError for other arguments. After an error the optimizer is unchanged.

    Examples:
        >>> import numpy as np
        >>> from graphls import nn
        >>> from graphls.interop.torch import load_optimizer_state_dict
        >>> net = nn.Dense(3, 2, has_bias=False)
        >>> optimizer = nn.SGD(net.trainable_params(), 0.1, momentum=0.9)
        >>> group = {"lr": 0.1, "momentum": 0.9, "dampening": 0, "weight_decay": 0, "nesterov": False, "params": [0]}
        >>> state = {0: {"momentum_buffer": np.ones((2, 3), np.float32)}}
        >>> report = load_optimizer_state_dict(optimizer, net, {"state": state, "param_groups": [group]})
        >>> optimizer.accum[0].asnumpy()
        array([[1., 1., 1.],
               [1., 1., 1.]], dtype=float32)
    """
    _check_arguments(LOADING, optimizer, net, changed, global_step)
    boolean(LOADING, "strict", strict)
    renames, pattern = check_rename(LOADING, rename), check_pattern(LOADING, transposed)
    state, counterpart = optimizer_state_of(source), counterpart_of(optimizer)
    _check_kind(state, optimizer, counterpart)
    mappings = mappings_of(optimizer, net)
    listed_names, renames = names_in_order(state, optimizer, mappings, names, renames)
    rows, absent = matched(mappings, listed_names, renames)
    loading = Loading(optimizer, counterpart, state, rows, pattern)
    report = loading.report(absent, listed_names)
    if strict and (report.missing or report.unused):
        raise GraphValueError(_mismatch(report))
    count = loading.count(global_step)
    check_settings(optimizer, counterpart, state, rows, count or 0, changed)
    for parameter, array in [*loading.arrays(), *counts_after(optimizer, count)]:
        parameter.storage.replace(array)
    return report


def optimizer_state_dict(
    optimizer: Optimizer, net: Cell, *, names: Sequence[str] | None = None, changed: Collection[str] = (),
    rename: Mapping[str, str] | None = None, transposed: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The state of an optimizer as `state_dict` of `torch.optim` returns it, with NumPy arrays in place of tensors.

    Parameters are numbered in the order of the optimizer's groups, or within each group in that of `names`, the names
    of PyTorch. `rename` and `transposed` are as for `state_dict` of the weights. The groups have the settings of
    the coming update. `save_optimizer_state_dict` writes it for PyTorch.

    Raises GraphTypeError for arguments of another kind, and GraphValueError for an optimizer with another formula than
    those of PyTorch, for settings that mean something else there unless `changed` has their names, for `names` that
    lack a parameter, and for a group in which only some parameters decay, which PyTorch needs as two groups.

    Examples:
        >>> from graphls import nn
        >>> from graphls.interop.torch import optimizer_state_dict
        >>> net = nn.Dense(3, 2)
        >>> state = optimizer_state_dict(nn.Adadelta(net.trainable_params()), net)
        >>> state["param_groups"]
        [{'params': [0, 1], 'lr': 1.0, 'weight_decay': 0.0, 'maximize': False, 'rho': 0.9, 'eps': 1e-06}]
        >>> {name: array.shape for name, array in state["state"][0].items()}
        {'step': (), 'square_avg': (2, 3), 'acc_delta': (2, 3)}
    """
    _check_arguments("optimizer_state_dict", optimizer, net, changed, None)
    renames = check_rename("optimizer_state_dict", rename)
    pattern = check_pattern("optimizer_state_dict", transposed)
    counterpart, count = counterpart_of(optimizer), int(optimizer.global_step.item())
    named = outward_names([each[0] for each in mappings_of(optimizer, net)], renames)
    groups = _named_groups(optimizer, named, names)
    settings = [_group_settings(optimizer, counterpart, group, count, changed) for group in groups]
    numbers = iter(range(len(named)))
    states: dict[int, dict[str, Array]] = {}
    for group, own in zip(groups, settings, strict=True):
        own["params"] = [next(numbers) for _ in group]
        for number, (name, mapping) in zip(own["params"], group.items(), strict=True):
            tensors = _state_arrays(optimizer, counterpart, mapping, own, count)
            states[number] = {key: _in_torch_layout(mapping, array, name, pattern) for key, array in tensors.items()}
    rows = [{"params": own.pop("params"), **own} for own in settings]
    return {"state": {number: state for number, state in states.items() if state}, "param_groups": rows}


def save_optimizer_state_dict(
    optimizer: Optimizer, net: Cell, path: object, *, names: Sequence[str] | None = None, changed: Collection[str] = (),
    rename: Mapping[str, str] | None = None, transposed: str | None = None,
) -> None:  # fmt: skip
    """Write `optimizer_state_dict` to a file that `torch.load` reads, for `load_state_dict` of the optimizer there.

    Raises as `optimizer_state_dict`, GraphFileError if the file cannot be written, and GraphTypeError for a path that
    is neither a string nor a path.

    Examples:
        >>> from graphls import nn
        >>> from graphls.interop.torch import load_optimizer_state_dict, save_optimizer_state_dict
        >>> net = nn.Dense(3, 2)
        >>> save_optimizer_state_dict(nn.AdamW(net.trainable_params()), net, "optimizer.pt")
        >>> report = load_optimizer_state_dict(nn.AdamW(net.trainable_params()), net, "optimizer.pt")
        >>> [each.parameter for each in report.loaded]
        ['weight', 'bias']
    """
    state = optimizer_state_dict(optimizer, net, names=names, changed=changed, rename=rename, transposed=transposed)
    write_bytes(as_path(path), encode(state))


def _check_arguments(function: str, optimizer: object, net: object, changed: object, global_step: object) -> None:
    if not isinstance(optimizer, Optimizer):
        raise GraphTypeError(f"For {function!r}, the argument 'optimizer' is an Optimizer, not {optimizer!r}.")
    check_network(function, net)
    if isinstance(changed, str) or not isinstance(changed, Collection):
        raise GraphTypeError(f"For {function!r}, 'changed' has names of settings, as in ('lr',), not {changed!r}.")
    if global_step is not None and (isinstance(global_step, bool) or not isinstance(global_step, int)):
        raise GraphTypeError(f"For {function!r}, 'global_step' is a number of updates, not {global_step!r}.")
    if isinstance(global_step, int) and global_step < 0:
        raise GraphValueError(f"For {function!r}, 'global_step' is a number of updates of 0 or more.")


def _check_kind(state: OptimizerState, optimizer: Optimizer, counterpart: Counterpart) -> None:
    if (kind := state.kind()) != counterpart.kind:
        own = type(optimizer).__name__
        raise GraphValueError(
            f"The state in {state.origin} is of {kind}, and {own} updates as {counterpart.kind} of PyTorch does."
        )


def _mismatch(report: Report) -> str:
    """The error sentence for missing and unused states."""
    parts = []
    if report.missing:
        count = counted(len(report.missing), "parameter")
        parts.append(f"it has no state for {count}, {listed(map(repr, report.missing))}")
    if report.unused:
        count = counted(len(report.unused), "state")
        parts.append(f"no parameter takes {count}, of {listed(map(repr, report.unused))}")
    text = f"The state in {report.origin} is not that of the optimizer: {'; '.join(parts)}"
    return f"{text}; {ADVICE}, or strict=False."


def _named_groups(optimizer: Optimizer, named: Named, names: Sequence[str] | None) -> list[Named]:
    """The parameters of each group by name, in the order of PyTorch."""
    if names is not None:
        order = {name: i for i, name in enumerate(names)}
        absent = [name for name in named if name not in order]
        if absent:
            raise GraphValueError(f"The names have no {absent[0]!r}, which is a parameter of the optimizer.")
        named = dict(sorted(named.items(), key=lambda pair: order[pair[0]]))
    number = {id(p): i for i, group in enumerate(optimizer.groups) for p in group.parameters}
    count = len(optimizer.groups)
    return [{n: p for n, p in named.items() if number[id(p.parameter)] == i} for i in range(count)]


def _group_settings(
    optimizer: Optimizer, counterpart: Counterpart, group: Named, count: int, changed: Collection[str]
) -> dict[str, Any]:
    """The settings of a group; raises GraphValueError if they mean something else in PyTorch."""
    each = [settings_of(optimizer, counterpart, mapping.parameter, count) for mapping in group.values()]
    for name, mapping in group.items():
        if settings_of(optimizer, counterpart, mapping.parameter, count) != each[0]:
            raise GraphValueError(
                f"In a group, {name!r} and {next(iter(group))!r} differ in weight decay, and these are two groups in "
                "PyTorch; give the optimizer groups with a weight_decay each.",
            )
    if counterpart.kind == "Rprop" and each[0]["weight_decay"]:
        raise GraphValueError("Rprop of PyTorch has no weight decay, and that here has one.")
    differences = {n: text for n, text in counterpart.differences(optimizer, each[0], count) if n not in changed}
    if differences:
        raise GraphValueError(
            f"PyTorch would continue differently: {listed(differences.values())}; changed={tuple(differences)!r} "
            "writes its state nevertheless.",
        )
    if counterpart.kind == "Adagrad":
        each[0].setdefault("eps", 1e-10)  # PyTorch's default; the formula here has no eps
    if counterpart.kind == "Rprop":  # which has no decay in PyTorch
        del each[0]["weight_decay"]
    return each[0]


def _state_arrays(
    optimizer: Optimizer, counterpart: Counterpart, mapping: ParameterMapping, settings: Mapping[str, Any], count: int
) -> Arrays:
    """The state of a parameter by PyTorch's names."""
    index = next(i for i, p in enumerate(optimizer.parameters) if p is mapping.parameter)
    used = [key for key in counterpart.states if _is_used(key, optimizer, counterpart, settings)]
    arrays = {key: getattr(optimizer, counterpart.states[key])[index].asnumpy() for key in used}
    if counterpart.kind == "SGD" and not count and not any(array.any() for array in arrays.values()):
        return {}  # before the first update; a loaded state may lack a count
    if "mu_product" in arrays:
        arrays["mu_product"] = arrays["mu_product"].reshape(-1)[:1].reshape(())
    step = {} if counterpart.kind == "SGD" else {"step": np.array(count, np.float32)}
    return {**step, **arrays, **_asgd_states(settings, count)}


def _is_used(key: str, optimizer: Optimizer, counterpart: Counterpart, settings: Mapping[str, Any]) -> bool:
    """Tells whether PyTorch stores a state with these settings."""
    if key == "grad_avg":
        return bool(settings["centered"])
    if key == "momentum_buffer":
        return bool(settings["momentum"])
    return hasattr(optimizer, counterpart.states[key])


def _asgd_states(settings: Mapping[str, Any], count: int) -> Arrays:
    """Further states of ASGD: the rate and the averaging coefficient of the coming update."""
    if "lambd" not in settings:
        return {}
    mu = 1 / max(1.0, count - settings["t0"])
    return {"eta": np.array(asgd_rate(settings, count), np.float32), "mu": np.array(mu, np.float32)}


def _in_torch_layout(mapping: ParameterMapping, array: Array, name: str, pattern: str | None) -> Array:
    """A state in PyTorch's layout, if it has the shape of its parameter."""
    return outward(mapping, array, name, pattern) if array.shape == mapping.parameter.shape else array
