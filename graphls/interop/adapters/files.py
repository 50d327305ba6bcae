"""Reads and writes adapters in PEFT's format: a safetensors file with the tensors, and a JSON file with settings."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from graphls.base.errors import GraphFileError, GraphlsError, GraphValueError
from graphls.base.files.files import as_path, parse_json, read_bytes, write_bytes, write_text
from graphls.frontend.tensors.parameter import Parameter
from graphls.interop.adapters.lora import Adapters, Site, adapters_of, attach, detach, holder, require_cell, sites
from graphls.interop.formats.checkpoint import Entry
from graphls.interop.formats.safetensors import decode, encode
from graphls.nn.cell import Cell
from graphls.passes.adapters.lora import adapter_names

PREFIX, TENSORS, CONFIGURATION = "base_model.model.", "adapter_model.safetensors", "adapter_config.json"
_ADAPTER = re.compile(r"(?P<module>.+)\.lora_(?P<which>[AB])(?:\.default)?\.weight")
Pairs = dict[str, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]
_UNSUPPORTED = ("use_dora", "rank_pattern", "alpha_pattern", "layer_replication", "lora_bias")
"""Settings of PEFT, off by default, that change the meaning of the tensors."""


def save_adapters(net: Cell, path: object) -> None:
    """Write the adapters of a network, and its other trained parameters, in the format of `load_adapters` and PEFT.

    `path` is a file that ends with `.safetensors`, or a folder for `adapter_model.safetensors`; `adapter_config.json`
    is written beside it. Names are PEFT's: `base_model.model.<module>.lora_A.weight` of the shape [rank, inputs] and
    `lora_B.weight` of [outputs, rank]. Raises GraphValueError for a network without adapters, GraphFileError if a file
    cannot be written, GraphRuntimeError if safetensors is not installed, GraphTypeError for a path that is neither a
    string nor a path.

    Examples:
        >>> import os
        >>> import numpy as np
        >>> from graphls import adapters, nn
        >>> net = nn.SequentialCell(nn.Dense(8, 8))
        >>> names = adapters.lora(net, np.ones((1, 8), np.float32), rank=2)
        >>> adapters.save_adapters(net, "adapters")
        >>> sorted(os.listdir("adapters"))
        ['adapter_config.json', 'adapter_model.safetensors']
    """
    cell, adapters = holder(net)
    parameters = dict(cell.parameters_and_names())
    entries = {PREFIX + path: parameters[path].asnumpy() for path in adapters.others}
    for site in adapters.sites:
        for own, name in zip(adapter_names(site.path), adapter_names(f"{site.module}.weight"), strict=True):
            entries[PREFIX + name] = parameters[own].asnumpy()
    is_integral = float(adapters.alpha).is_integer()
    settings = {
        "peft_type": "LORA",
        "r": adapters.rank,
        "lora_alpha": int(adapters.alpha) if is_integral else adapters.alpha,
        "target_modules": [site.module for site in adapters.sites],
        "modules_to_save": sorted({path.rpartition(".")[0] or path for path in adapters.others}) or None,
        "lora_dropout": 0.0,
        "bias": "none",
        "inference_mode": True,
    }
    tensors, configuration = _files(as_path(path))
    write_bytes(tensors, encode(entries))
    write_text(configuration, json.dumps(settings, indent=2) + "\n")


def load_adapters(net: Cell, path: object, *inputs: object) -> list[str]:
    """Load the adapters of a file of `save_adapters` or PEFT into a network; returns the names of the modules.

    A network with adapters gets only the numbers. Another one is frozen first and gets the adapters of the file, as by
    `lora`, whose documentation explains `inputs`. A module of the file is the one of the network with that name, or the
    only one whose name ends with it, or which is the end of it.

    Raises GraphFileError for a file that cannot be read, GraphValueError for one that does not fit the network, or that
    needs another method than LoRA, such as DoRA, GraphTypeError for anything but a cell, and for a path that is neither
    a string nor a path.

    Examples:
        >>> import numpy as np
        >>> from graphls import adapters, nn
        >>> x = np.ones((1, 8), np.float32)
        >>> net = nn.SequentialCell(nn.Dense(8, 8))
        >>> names = adapters.lora(net, x, rank=2)
        >>> adapters.save_adapters(net, "adapters")
        >>> adapters.load_adapters(nn.SequentialCell(nn.Dense(8, 8)), "adapters", x)
        ['0']
    """
    require_cell("load_adapters", net)
    tensors, configuration = _files(as_path(path))
    pairs, others = _sorted(_decoded(tensors))
    settings = _settings(configuration)
    is_new = adapters_of(net) is None
    if is_new:
        rank, alpha = _size(pairs, settings)
        modules = {site.module: site for site in sites(net, inputs)}
        names = {_matching(module, modules) for module in pairs}
        selected = [site for module, site in modules.items() if module in names]
        paths = dict(net.parameters_and_names())
        attach(net, selected, rank, alpha, [_matching(name, paths) for name in others])
    cell, adapters = holder(net)
    try:
        _fill(cell, adapters, pairs, others)
    except GraphlsError:
        if is_new:
            detach(cell, adapters)
        raise
    return [site.module for site in adapters.sites]


def _fill(cell: Cell, adapters: Adapters, pairs: Pairs, others: Mapping[str, Any]) -> None:
    """Set the adapters of a cell, and its other trained parameters, to the numbers of a file."""
    parameters = dict(cell.parameters_and_names())
    modules = {site.module: site for site in adapters.sites}
    for module, arrays in pairs.items():
        for name, array in zip(adapter_names(modules[_matching(module, modules)].path), arrays, strict=True):
            _set(parameters[name], array)
    for name, array in others.items():
        _set(parameters[_matching(name, parameters)], array)


def _files(path: Path) -> tuple[Path, Path]:
    """The two files of a path."""
    tensors = path if path.suffix == ".safetensors" else path / TENSORS
    return tensors, tensors.with_name(CONFIGURATION)


def _decoded(path: Path) -> dict[str, Entry]:
    try:
        return decode(read_bytes(path))
    except GraphValueError as error:
        raise GraphValueError(f"{path} holds no adapters: {error.message}.") from None


def _settings(path: Path) -> dict[str, Any]:
    """The settings of the JSON file, {} without one; raises GraphValueError for unsupported ones."""
    try:
        settings = parse_json(read_bytes(path)) if os.path.lexists(path) else {}
    except ValueError as error:
        raise GraphFileError(f"The settings of adapters cannot be read from {path}: {error}.") from None
    unsupported = [n for n in _UNSUPPORTED if settings.get(n)] if isinstance(settings, dict) else ["no settings"]
    if unsupported:
        text = f"{path} has {', '.join(unsupported)}, which graphls does not compute"
        raise GraphValueError(f"{text}; it takes plain LoRA.")
    return dict(settings)


def _sorted(entries: Mapping[str, Entry]) -> tuple[Pairs, dict[str, Any]]:
    """A and B by module, and the other tensors; raises GraphValueError for an incomplete pair."""
    halves: dict[str, dict[str, Any]] = {}
    others: dict[str, Any] = {}
    for name, array in entries.items():
        name = name.removeprefix(PREFIX)
        match = _ADAPTER.fullmatch(name)
        if match is None:
            others[name] = array
        else:
            halves.setdefault(match["module"], {})[match["which"]] = array
    single = [module for module, pair in halves.items() if len(pair) != 2]
    unknown = [name for name in others if ".lora_" in name]
    flat = [f"{module!r} of shape {a.shape}" for module, pair in halves.items() for a in pair.values() if a.ndim < 2]
    if single or unknown or flat or not halves:
        what = f"of {single[0]!r} it has one tensor of two" if single else f"it has {unknown or flat or 'no adapters'}"
        raise GraphValueError(f"The file holds no adapters that graphls computes: {what}.")
    return {module: (pair["A"], pair["B"]) for module, pair in halves.items()}, others


def _size(pairs: Pairs, settings: Mapping[str, Any]) -> tuple[int, float]:
    """The rank and alpha of adapters; raises GraphValueError for different ranks."""
    ranks = {len(first) for first, _ in pairs.values()}
    rank = min(ranks)
    numbers = [settings.get(name, rank) for name in ("r", "lora_alpha")]
    if not all(isinstance(number, (int, float)) and math.isfinite(number) for number in numbers):
        raise GraphValueError(f"The rank and alpha of adapters are numbers, not {numbers[0]!r} and {numbers[1]!r}.")
    if len(ranks) != 1 or numbers[0] != rank:
        raise GraphValueError(f"The adapters have the ranks {sorted(ranks)}, and graphls takes one for all.")
    return rank, numbers[1] * math.sqrt(rank) if settings.get("use_rslora") else float(numbers[1])


def _matching(name: str, known: Mapping[str, Site | Parameter]) -> str:
    """The known name that matches a name of a file; raises GraphValueError unless there is exactly one."""
    if name in known:
        return name
    matches = list(_endings(name, known))
    if len(matches) != 1:
        listed = f"; {', '.join(map(repr, matches))} could be meant" if matches else ""
        raise GraphValueError(f"The network has nothing that is called {name!r}, as the file of adapters has{listed}.")
    return matches[0]


def _endings(name: str, known: Mapping[str, Site | Parameter]) -> Iterator[str]:
    return (other for other in known if other.endswith(f".{name}") or name.endswith(f".{other}"))


def _set(parameter: Parameter, array: Any) -> None:
    if isinstance(array, str) or array.shape != parameter.shape:
        shape = getattr(array, "shape", "a text")
        raise GraphValueError(f"The file of adapters has {shape} for {parameter.name!r}, which is a {parameter.type}.")
    parameter.set_data(array)
