"""Loads weights of PyTorch and Hugging Face into networks of graphls, and saves them for these."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graphls.base.checks import boolean
from graphls.base.errors import GraphValueError
from graphls.base.files.files import as_path, write_bytes
from graphls.base.refusals import refusal
from graphls.frontend.names.traps import EPSILON, MOMENTUM, CallArguments, Trap, warn_where
from graphls.interop.formats import safetensors as safetensors_format
from graphls.interop.like import arrays_like
from graphls.interop.matching import (
    Match,
    Matches,
    Tensors,
    cast_changes,
    check_network,
    check_pattern,
    check_rename,
    converted,
    distinct_matches,
    find_prefix,
    fits_transposed,
    listed,
    match_for,
    misfit,
    names_of,
    nearest,
    outward,
    outward_names,
)
from graphls.interop.optimizers import load_optimizer_state_dict, optimizer_state_dict, save_optimizer_state_dict
from graphls.interop.parameter_mapping import ParameterMapping, parameter_mappings
from graphls.interop.report import Loaded, Report, counted
from graphls.interop.sources import Array, weights_of
from graphls.interop.transposition import transposed_modules, transposed_pattern
from graphls.nn.cell import Cell
from graphls.nn.normalization import BatchNorm2d, LayerNorm

__all__ = [
    "Report", "load_optimizer_state_dict", "load_state_dict", "optimizer_state_dict", "save_optimizer_state_dict",
    "save_state_dict", "state_dict",
]  # fmt: skip

NO_WEIGHTS = re.compile(r"(.*\.)?(num_batches_tracked|position_ids|token_type_ids|masked_bias|inv_freq)")
"""Tensors that PyTorch stores with the weights: counters, positions and frequencies."""
MASKS = re.compile(r"(.*\.)?(attn|attention)\.bias")
"""Masks in older files, which have four axes, while a bias has one."""
SETTINGS: tuple[tuple[type[Cell], str, Trap], ...] = (
    (LayerNorm, "epsilon", EPSILON),
    (BatchNorm2d, "momentum", MOMENTUM),
)
"""Settings of cells that are checked after loading, and the mistake that they may be."""


def load_state_dict(
    net: Cell, source: object, *, strict: bool = True, rename: Mapping[str, str] | None = None,
    tied: Mapping[str, str] | None = None, transposed: str | None = None,
) -> Report:  # fmt: skip
    """Load the weights of a model of PyTorch into a network; returns a report that prints as a table.

    `source` is a file of safetensors, the `.safetensors.index.json` of several, a folder with one of these as Hugging
    Face has it, a file of `torch.save` with nothing but tensors (`.pt`, `.pth`, `.bin`), a dict of arrays or of tensors
    of any library, or a module. Nothing in a file is executed.

    A parameter takes the tensor that has its path of attributes, in PyTorch's words: `weight` and `bias` for the
    `gamma` and `beta` of normalisations, `running_mean` and `running_var` for the moving statistics, `weight` for an
    `embedding_table`, `linear1` and `linear2` in layers of transformers. A prefix of all names on one side, such as
    `module.`, `model.` or `transformer.`, may be missing on the other. Projections of query, key and value may be
    joined on one side and separate on the other. The parts that `weight_norm` and `spectral_norm` store become the
    weight that they stand for. Weights that are stored as (inputs, outputs), as by the Conv1D of GPT-2, are detected by
    their bias, those of a module by its classes; `transposed` is a regular expression for the names of others. Floats
    and integers are converted to the dtype of the parameter.

    `rename` maps regular expressions to their replacements in the names of the source, one after the other. `tied` maps
    names that the source lacks, after renames, to those of the same tensor: `{"lm_head.weight": "wte.weight"}`.

    With `strict`, all parameters are loaded and all tensors used, or it raises GraphValueError with the names of the
    others; without, the report has them. It raises GraphValueError too for a tensor of another shape or kind, for two
    different ones that are one parameter, and for a damaged file, GraphFileError for one that cannot be read, and
    GraphTypeError for other arguments. After an error the network is unchanged. Warns of a LayerNorm with MindSpore's
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
    renames = check_rename("load_state_dict", rename), check_rename("load_state_dict", tied)
    pattern = check_pattern("load_state_dict", transposed) or transposed_modules(source)
    tensors = Tensors(weights.arrays, *renames, pattern)
    mappings = parameter_mappings(net)
    prefix = find_prefix(names_of(mappings), tensors.arrays)
    candidates = [(mapping, match_for(mapping, tensors, prefix)) for mapping in mappings]
    matches = distinct_matches([(mapping, match) for mapping, match in candidates if match is not None])
    _check_fit(matches, weights.origin, tensors)
    report = _report(weights.origin, matches, candidates, tensors)
    if strict and (report.missing or report.unused):
        raise GraphValueError(_mismatch(report, {mapping.path: mapping for mapping in mappings}, tensors))
    arrays = [(mapping.parameter, converted(mapping.parameter, match)) for mapping, match in matches]
    for parameter, array in arrays:
        parameter.storage.replace(array)
    _warn(net)
    return report


def state_dict(
    net: Cell, *, rename: Mapping[str, str] | None = None, transposed: str | None = None
) -> dict[str, Array]:
    """The weights of a network by PyTorch's names and in its layouts, as copies in NumPy arrays.

    A shared parameter appears under each of its names. `rename` maps regular expressions to their replacements, one
    after the other, and weights whose names match `transposed` are stored as (inputs, outputs). In PyTorch,
    `module.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})` loads them. Raises
    GraphTypeError and GraphValueError for invalid arguments.

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
    mappings = outward_names([mapping for mapping in parameter_mappings(net) if not mapping.is_fixed], renames)
    return {name: outward(p, p.parameter.asnumpy(), name, pattern) for name, p in mappings.items()}


def save_state_dict(
    net: Cell, path: object, *, rename: Mapping[str, str] | None = None, transposed: str | None = None,
    like: object = None,
) -> None:  # fmt: skip
    """Write `state_dict` to a file of safetensors, which PyTorch and Hugging Face read.

    `like` is the module of PyTorch that will load the file, or its weights as `load_state_dict` takes them, in place of
    `rename` and `transposed`: the file has its names, prefix, layouts and dtypes, projections joined or separate as
    there, and tied tensors under all their names. Raises GraphValueError for a model of another structure.

    Raises as `state_dict`, GraphFileError if the file cannot be written, GraphRuntimeError if safetensors is not
    installed, GraphTypeError for a path that is neither a string nor a path, GraphValueError if two parameters would
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
    check_network("save_state_dict", net)
    if like is not None and (rename is not None or transposed is not None):
        raise GraphValueError("like= says names and layouts, so save_state_dict takes no rename= and no transposed=.")
    named = state_dict(net, rename=rename, transposed=transposed) if like is None else None
    arrays = arrays_like(net, like, _is_no_weight) if named is None else named
    write_bytes(as_path(path), safetensors_format.encode(arrays, {"format": "pt"}))


def _check_fit(matches: Matches, origin: str, tensors: Tensors) -> None:
    """Raise GraphValueError for tensors whose shape or kind of numbers is not that of their parameter."""
    wrong = [(match, text) for mapping, match in matches if (text := misfit(mapping.parameter, mapping.path, match))]
    if wrong:
        projections = (_projection(name, tensors) for match, _ in wrong for name in match.names)
        pattern = transposed_pattern(m.names[0] for p, m in matches if fits_transposed(p.parameter, m))
        transposed = f"; transposes fit: transposed=r'{pattern}'" if pattern else ""
        advice = next(filter(None, projections), transposed)
        misfits = listed(text for _, text in wrong)
        raise GraphValueError(f"The weights in {origin} do not fit the network: {misfits}{advice}.")


def _projection(name: str, tensors: Tensors) -> str:
    """Advice for an LSTM that projects its hidden states; "" for any other tensor."""
    of = re.sub(r"weight_hh(_l\d+(_reverse)?)$", r"weight_hr\1", name)
    if of == name or of not in tensors.arrays:
        return ""
    size = tensors.arrays[of].shape[0]
    return f"; {of!r} is of an LSTM with proj_size={size}, and {refusal('projections').rstrip('.')}"


def _report(
    origin: str, matches: Matches, candidates: Sequence[tuple[ParameterMapping, Match | None]], tensors: Tensors
) -> Report:
    loaded = {id(mapping.parameter) for mapping, _ in matches}
    missing = {id(p.parameter): p.path for p, _ in candidates if id(p.parameter) not in loaded and not p.is_fixed}
    used = {name for _, match in candidates if match is not None for name in match.names}
    rest = {part: array for name, array in tensors.arrays.items() for part in tensors.originals[name]}
    rest = {part: array for part, array in rest.items() if part not in used}
    ignored = tuple(name for name, array in rest.items() if _is_no_weight(name, array))
    return Report(
        origin,
        tuple(
            Loaded(p.path, p.parameter.shape, m.names, (*m.changes, *cast_changes(p.parameter, m))) for p, m in matches
        ),
        tuple(missing.values()),
        tuple(name for name in rest if name not in ignored),
        ignored,
    )


def _is_no_weight(name: str, array: Array) -> bool:
    return bool(NO_WEIGHTS.fullmatch(name) or (array.ndim == 4 and MASKS.fullmatch(name)))


def _mismatch(report: Report, mappings: Mapping[str, ParameterMapping], tensors: Tensors) -> str:
    """The error sentence for missing parameters and unused tensors, with the closest names and likely ties."""
    parts = []
    if report.missing:
        missing = [_with_nearest(path, mappings[path].name, report.unused) for path in report.missing]
        parts.append(f"it has no tensors for {counted(len(missing), 'parameter')}, {listed(missing)}")
    if report.unused:
        parts.append(f"no parameter takes {len(report.unused)} of its tensors, {listed(map(repr, report.unused))}")
    text = f"The weights in {report.origin} are not those of the network: {'; '.join(parts)}"
    ties = {} if report.unused else _likely_ties((mappings[path] for path in report.missing), tensors)
    tied = f"; if the model ties them, give tied={ties!r}" if ties else ""
    return f"{text}{tied}; give rename={{pattern: replacement}} for names of the weights, or strict=False."


def _likely_ties(missing: Iterable[ParameterMapping], tensors: Tensors) -> dict[str, str]:
    """For matrices without tensors, the one tensor of the same shape, if there is just one and it may be tied."""
    ties: dict[str, str] = {}
    for mapping in missing:
        same = [name for name, array in tensors.arrays.items() if array.shape == mapping.parameter.shape]
        if mapping.name.endswith("weight") and len(mapping.parameter.shape) == 2 and len(same) == 1:
            ties[mapping.name] = same[0]
    return ties


def _with_nearest(path: str, name: str, unused: Sequence[str]) -> str:
    shown = repr(path) if path == name else f"{path!r} ({name!r} in PyTorch)"
    near = nearest(name, unused)
    return f"{shown} (the nearest is {near!r})" if near else shown


def _warn(net: Cell) -> None:
    """Warn of settings of the network with which weights of PyTorch are unlikely to have been trained."""
    for kind, attribute, trap in SETTINGS:
        paths: dict[Any, list[str]] = {}
        for path, cell in net.cells_and_names():
            if isinstance(cell, kind):
                paths.setdefault(getattr(cell, attribute), []).append(path)
        for value, those in paths.items():
            arguments = CallArguments({attribute: value}, frozenset())
            warn_where(trap, f"{kind.__name__} {listed(map(repr, those))}", arguments)
