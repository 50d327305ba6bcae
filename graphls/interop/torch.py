"""Weights of PyTorch and Hugging Face in networks of graphls, and the way back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graphls.base.checks import boolean
from graphls.base.errors import GraphValueError
from graphls.base.files.files import as_path, write_bytes
from graphls.frontend.names.traps import EPSILON, MOMENTUM, CallArguments, Trap, warn_where
from graphls.interop.fitting import (
    Chosen,
    cast_changes,
    check_network,
    check_pattern,
    chosen_rows,
    converted,
    listed,
    misfit,
    outward,
    outward_names,
)
from graphls.interop.formats import safetensors as safetensors_format
from graphls.interop.matching import Found, Tensors, check_rename, found_for, names_of, nearest, prefixes
from graphls.interop.optimizers import load_optimizer_state_dict, optimizer_state_dict, save_optimizer_state_dict
from graphls.interop.parameter_mapping import Place, places
from graphls.interop.report import Loaded, Report, counted
from graphls.interop.sources import Array, weights_of
from graphls.nn.cell import Cell
from graphls.nn.normalization import BatchNorm2d, LayerNorm

__all__ = [
    "Report", "load_optimizer_state_dict", "load_state_dict", "optimizer_state_dict", "save_optimizer_state_dict",
    "save_state_dict", "state_dict",
]  # fmt: skip

NO_WEIGHTS = re.compile(r"(.*\.)?(num_batches_tracked|position_ids|token_type_ids|masked_bias|inv_freq)")
"""Tensors that PyTorch keeps beside weights: counters, positions and frequencies."""
MASKS = re.compile(r"(.*\.)?(attn|attention)\.bias")
"""Masks of older files, which have four axes, where a bias has one."""
SETTINGS: tuple[tuple[type[Cell], str, Trap], ...] = (
    (LayerNorm, "epsilon", EPSILON),
    (BatchNorm2d, "momentum", MOMENTUM),
)
"""What is looked at behind loading: a kind of cells, its setting, and what that may mean elsewhere."""


def load_state_dict(
    net: Cell, source: object, *, strict: bool = True, rename: Mapping[str, str] | None = None,
    tied: Mapping[str, str] | None = None, transposed: str | None = None,
) -> Report:  # fmt: skip
    """Give the parameters of a network the weights of a model of PyTorch; returns a report that prints as a table.

    `source` is a file of safetensors, the `.safetensors.index.json` of several, a folder with one of these as Hugging
    Face has it, a file of `torch.save` with nothing but tensors (`.pt`, `.pth`, `.bin`), a dict of arrays or of tensors
    of any library, or a module. Nothing in a file is executed.

    A parameter takes the tensor that has its path of attributes, in PyTorch's words: `weight` and `bias` for the
    `gamma` and `beta` of normalisations, `running_mean` and `running_var` for the moving statistics, `weight` for an
    `embedding_table`, `linear1` and `linear2` in layers of transformers. A beginning that all names of one side have,
    such as `module.`, `model.` or `transformer.`, may lack on the other. Projections of query, key and value may be
    joined on one side and separate on the other. The parts that `weight_norm` and `spectral_norm` keep become the
    weight that they stand for. Weights that are stored as (inputs, outputs), as by the Conv1D of GPT-2, show themselves
    by their bias; `transposed` is a regular expression for names of others. Floats and integers are converted to the
    dtype of the parameter.

    `rename` maps regular expressions to what they become in the names of the source, one after the other. `tied` maps
    names that lack in the source, after renames, to those of the same tensor: `{"lm_head.weight": "wte.weight"}`.

    With `strict`, all parameters are loaded and all tensors used, or it raises GraphValueError with the names of both;
    without, the report has them. It raises GraphValueError too for a tensor of another shape or kind, for two that
    differ and are one parameter, and for a file that is damaged, GraphFileError for one that cannot be read, and
    GraphTypeError for other arguments. Where it raises, the network is as it was. Warns of a LayerNorm with MindSpore's
    epsilon of 1e-7 and of a momentum that looks like PyTorch's (see docs/differences.md).

    Examples:
        >>> import numpy as np
        >>> from graphls import nn
        >>> from graphls.interop.torch import load_state_dict
        >>> weights = {"0.weight": np.ones((2, 3), np.float32), "0.bias": np.zeros(2, np.float32)}
        >>> net = nn.SequentialCell(nn.Dense(3, 2))
        >>> report = load_state_dict(net, weights)
        >>> len(report.loaded), report.missing, report.unused
        (2, (), ())
    """
    check_network("load_state_dict", net)
    boolean("load_state_dict", "strict", strict)
    weights = weights_of(source)
    given = check_rename("load_state_dict", rename), check_rename("load_state_dict", tied)
    tensors = Tensors(weights.arrays, *given, check_pattern("load_state_dict", transposed))
    rows = places(net)
    beginning = prefixes(names_of(rows), tensors.arrays)
    found = [(place, found_for(place, tensors, beginning)) for place in rows]
    chosen = chosen_rows([(place, each) for place, each in found if each is not None])
    _check_fit(chosen, weights.origin, tensors)
    report = _report(weights.origin, chosen, found, tensors)
    if strict and (report.missing or report.unused):
        raise GraphValueError(_lacks(report, {place.path: place.name for place in rows}))
    ready = [(place.parameter, converted(place.parameter, each)) for place, each in chosen]
    for parameter, array in ready:
        parameter.storage.replace(array)
    _warn(net)
    return report


def state_dict(
    net: Cell, *, rename: Mapping[str, str] | None = None, transposed: str | None = None
) -> dict[str, Array]:
    """The weights of a network by PyTorch's names and in its layouts, as NumPy arrays of their own.

    A parameter that several cells share is there under each of its names. `rename` maps regular expressions to what
    they become, one after the other, and weights whose names fit `transposed` are stored as (inputs, outputs). In
    PyTorch, `module.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})` takes them.
    Raises GraphTypeError and GraphValueError for arguments that do not fit.

    Examples:
        >>> from graphls import nn
        >>> from graphls.interop.torch import state_dict
        >>> weights = state_dict(nn.SequentialCell(nn.Dense(3, 2), nn.BatchNorm1d(2)))
        >>> {name: array.shape for name, array in weights.items()}
        {'0.weight': (2, 3), '0.bias': (2,), '1.running_mean': (2,), '1.running_var': (2,), '1.weight': (2,),
         '1.bias': (2,)}
    """
    check_network("state_dict", net)
    renames, pattern = check_rename("state_dict", rename), check_pattern("state_dict", transposed)
    rows = [place for place in places(net) if not place.is_fixed]
    return {name: outward(p, p.parameter.asnumpy(), name, pattern) for name, p in outward_names(rows, renames).items()}


def save_state_dict(
    net: Cell, path: object, *, rename: Mapping[str, str] | None = None, transposed: str | None = None
) -> None:
    """Write `state_dict` to a file of safetensors, which PyTorch and Hugging Face read.

    Raises as `state_dict`, GraphFileError where the file cannot be written, GraphRuntimeError where safetensors is not
    installed.

    Raises GraphTypeError for a path that is neither a string nor a path, GraphValueError where two parameters would
    have one name.

    Examples:
        >>> from graphls import nn
        >>> from graphls.interop.torch import load_state_dict, save_state_dict
        >>> save_state_dict(nn.Dense(3, 2, weight_init="ones"), "dense.safetensors")
        >>> net = nn.Dense(3, 2)
        >>> report = load_state_dict(net, "dense.safetensors")
        >>> net.weight.asnumpy()
        array([[1., 1., 1.],
               [1., 1., 1.]], dtype=float32)
    """
    arrays = state_dict(net, rename=rename, transposed=transposed)
    write_bytes(as_path(path), safetensors_format.encode(arrays, {"format": "pt"}))


def _check_fit(chosen: Chosen, origin: str, tensors: Tensors) -> None:
    """Raise GraphValueError for tensors whose shape or kind of numbers is not that of their parameter."""
    wrong = [(found, text) for place, found in chosen if (text := misfit(place.parameter, place.path, found))]
    if wrong:
        projections = (_projection(name, tensors) for found, _ in wrong for name in found.names)
        advice = next(filter(None, projections), "")
        misfits = listed(text for _, text in wrong)
        raise GraphValueError(f"The weights in {origin} do not fit the network: {misfits}{advice}.")


def _projection(name: str, tensors: Tensors) -> str:
    """What to do about an LSTM that projects its hidden states; "" for a tensor of anything else."""
    of = re.sub(r"weight_hh(_l\d+(_reverse)?)$", r"weight_hr\1", name)
    if of == name or of not in tensors.arrays:
        return ""
    size = tensors.arrays[of].shape[0]
    return (
        f"; {of!r} is of an LSTM with proj_size={size}, and nn.LSTM projects nothing: write that as a cell, of "
        "nn.LSTMCell and nn.Dense"
    )


def _report(origin: str, chosen: Chosen, found: Iterable[tuple[Place, Found | None]], tensors: Tensors) -> Report:
    rows = [*found]
    loaded = {id(place.parameter) for place, _ in chosen}
    missing = {
        id(place.parameter): place.path for place, _ in rows if id(place.parameter) not in loaded and not place.is_fixed
    }
    used = {name for _, each in rows if each is not None for name in each.names}
    rest = {part: array for name, array in tensors.arrays.items() for part in tensors.originals[name]}
    rest = {part: array for part, array in rest.items() if part not in used}
    ignored = tuple(name for name, array in rest.items() if _is_no_weight(name, array))
    return Report(
        origin,
        tuple(
            Loaded(p.path, p.parameter.shape, f.names, (*f.changes, *cast_changes(p.parameter, f))) for p, f in chosen
        ),
        tuple(missing.values()),
        tuple(name for name in rest if name not in ignored),
        ignored,
    )


def _is_no_weight(name: str, array: Array) -> bool:
    return bool(NO_WEIGHTS.fullmatch(name) or (array.ndim == 4 and MASKS.fullmatch(name)))


def _lacks(report: Report, names: Mapping[str, str]) -> str:
    """What lacks on both sides, with what may have been meant."""
    parts = []
    if report.missing:
        missing = [_with_nearest(path, names[path], report.unused) for path in report.missing]
        parts.append(f"it has nothing for {counted(len(missing), 'parameter')}, {listed(missing)}")
    if report.unused:
        parts.append(f"no parameter takes {len(report.unused)} of its tensors, {listed(map(repr, report.unused))}")
    text = f"The weights in {report.origin} are not those of the network: {'; '.join(parts)}"
    return f"{text}; give rename={{pattern: replacement}} for names of the weights, or strict=False."


def _with_nearest(path: str, name: str, unused: Sequence[str]) -> str:
    shown = repr(path) if path == name else f"{path!r} ({name!r} in PyTorch)"
    near = nearest(name, unused)
    return f"{shown}, to which {near!r} is nearest" if near else shown


def _warn(net: Cell) -> None:
    """Warn of settings of the network that weights of PyTorch were hardly trained with."""
    for kind, attribute, trap in SETTINGS:
        paths: dict[Any, list[str]] = {}
        for path, cell in net.cells_and_names():
            if isinstance(cell, kind):
                paths.setdefault(getattr(cell, attribute), []).append(path)
        for value, those in paths.items():
            arguments = CallArguments({attribute: value}, frozenset())
            warn_where(trap, f"{kind.__name__} {listed(map(repr, those))}", arguments)
