"""Files of adapters as PEFT has them: a safetensors file with the tensors, and a JSON file that says what they are."""

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
from graphls.interop.adapters.finding import Site, sites
from graphls.interop.adapters.lora import Adapters, adapters_of, attach, detach, holder, require_cell
from graphls.interop.formats.checkpoint import Entry
from graphls.interop.formats.safetensors import decode, encode
from graphls.nn.cell import Cell
from graphls.passes.adapters.lora import adapter_names

PREFIX, TENSORS, CONFIGURATION = "base_model.model.", "adapter_model.safetensors", "adapter_config.json"
_ADAPTER = re.compile(r"(?P<module>.+)\.lora_(?P<which>[AB])(?:\.default)?\.weight")
Pairs = dict[str, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]
_STRANGE = ("use_dora", "rank_pattern", "alpha_pattern", "layer_replication", "lora_bias")
"""Settings of PEFT, off by default, that make something else of the tensors."""


def save_adapters(net: Cell, path: object) -> None:
    """Write the adapters of a network, and what else it trains, so that `load_adapters` and PEFT read them.

    `path` is a file that ends with `.safetensors`, or a folder for `adapter_model.safetensors`; `adapter_config.json`
    lies beside. Names are PEFT's: `base_model.model.<module>.lora_A.weight` of the shape [rank, inputs] and
    `lora_B.weight` of [outputs, rank]. Raises GraphValueError for a network without adapters, GraphFileError where a
    file cannot be written, GraphRuntimeError where safetensors is not installed.

    Raises GraphTypeError for a path that is neither a string nor a path.

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
    whole = float(adapters.alpha).is_integer()
    settings = {
        "peft_type": "LORA",
        "r": adapters.rank,
        "lora_alpha": int(adapters.alpha) if whole else adapters.alpha,
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
    """Give a network the adapters of a file of `save_adapters` or PEFT; returns the names of the modules.

    A network that has adapters gets the numbers only. Another is frozen first and gets adapters where the file has
    some, as by `lora`, which says what `inputs` are for. A module of the file is the one of the network that is called
    so, or the only one whose name ends so, or that ends its name.

    Raises GraphFileError for a file that cannot be read, GraphValueError for one that does not fit the network, or that
    holds what graphls does not compute, such as DoRA.

    Raises GraphTypeError for what is no cell and for a path that is neither a string nor a path.

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
        found = {site.module: site for site in sites(net, inputs)}
        meant = {_fitting(module, found) for module in pairs}
        chosen = [site for module, site in found.items() if module in meant]
        paths = dict(net.parameters_and_names())
        attach(net, chosen, rank, alpha, [_fitting(name, paths) for name in others])
    cell, adapters = holder(net)
    try:
        _fill(cell, adapters, pairs, others)
    except GraphlsError:
        if is_new:
            detach(cell, adapters)
        raise
    return [site.module for site in adapters.sites]


def _fill(cell: Cell, adapters: Adapters, pairs: Pairs, others: Mapping[str, Any]) -> None:
    """Give the adapters of a cell, and what else is trained, the numbers of a file."""
    parameters = dict(cell.parameters_and_names())
    modules = {site.module: site for site in adapters.sites}
    for module, arrays in pairs.items():
        for name, array in zip(adapter_names(modules[_fitting(module, modules)].path), arrays, strict=True):
            _set(parameters[name], array)
    for name, array in others.items():
        _set(parameters[_fitting(name, parameters)], array)


def _files(path: Path) -> tuple[Path, Path]:
    """The two files that a path means."""
    tensors = path if path.suffix == ".safetensors" else path / TENSORS
    return tensors, tensors.with_name(CONFIGURATION)


def _decoded(path: Path) -> dict[str, Entry]:
    try:
        return decode(read_bytes(path))
    except GraphValueError as error:
        raise GraphValueError(f"{path} holds no adapters: {error.message}.") from None


def _settings(path: Path) -> dict[str, Any]:
    """What the JSON file says, nothing without one; raises GraphValueError for what graphls does not compute."""
    try:
        found = parse_json(read_bytes(path)) if os.path.lexists(path) else {}
    except ValueError as error:
        raise GraphFileError(f"What adapters are cannot be read from {path}: {error}.") from None
    strange = [name for name in _STRANGE if found.get(name)] if isinstance(found, dict) else ["no settings"]
    if strange:
        raise GraphValueError(f"{path} has {', '.join(strange)}, which graphls does not compute; it takes plain LoRA.")
    return dict(found)


def _sorted(entries: Mapping[str, Entry]) -> tuple[Pairs, dict[str, Any]]:
    """A and B by module, and the other tensors; raises GraphValueError where one of a pair is missing."""
    halves: dict[str, dict[str, Any]] = {}
    others: dict[str, Any] = {}
    for name, array in entries.items():
        name = name.removeprefix(PREFIX)
        match = _ADAPTER.fullmatch(name)
        if match is None:
            others[name] = array
        else:
            halves.setdefault(match["module"], {})[match["which"]] = array
    lonely = [module for module, pair in halves.items() if len(pair) != 2]
    strange = [name for name in others if ".lora_" in name]
    flat = [f"{module!r} of shape {a.shape}" for module, pair in halves.items() for a in pair.values() if a.ndim < 2]
    if lonely or strange or flat or not halves:
        what = f"of {lonely[0]!r} it has one tensor of two" if lonely else f"it has {strange or flat or 'no adapters'}"
        raise GraphValueError(f"The file holds no adapters that graphls computes: {what}.")
    return {module: (pair["A"], pair["B"]) for module, pair in halves.items()}, others


def _size(pairs: Pairs, settings: Mapping[str, Any]) -> tuple[int, float]:
    """The rank and alpha of adapters; raises GraphValueError where they have several ranks."""
    ranks = {len(first) for first, _ in pairs.values()}
    rank = min(ranks)
    numbers = [settings.get(name, rank) for name in ("r", "lora_alpha")]
    if not all(isinstance(number, (int, float)) and math.isfinite(number) for number in numbers):
        raise GraphValueError(f"The rank and alpha of adapters are numbers, not {numbers[0]!r} and {numbers[1]!r}.")
    if len(ranks) != 1 or numbers[0] != rank:
        raise GraphValueError(f"The adapters have the ranks {sorted(ranks)}, and graphls takes one for all.")
    return rank, numbers[1] * math.sqrt(rank) if settings.get("use_rslora") else float(numbers[1])


def _fitting(name: str, known: Mapping[str, Site | Parameter]) -> str:
    """The one of the known names that a name of a file means; raises GraphValueError for none and for several."""
    if name in known:
        return name
    found = list(_endings(name, known))
    if len(found) != 1:
        listed = f"; {', '.join(map(repr, found))} could be meant" if found else ""
        raise GraphValueError(f"The network has nothing that is called {name!r}, as the file of adapters has{listed}.")
    return found[0]


def _endings(name: str, known: Mapping[str, Site | Parameter]) -> Iterator[str]:
    return (other for other in known if other.endswith(f".{name}") or name.endswith(f".{other}"))


def _set(parameter: Parameter, array: Any) -> None:
    if isinstance(array, str) or array.shape != parameter.shape:
        shape = getattr(array, "shape", "a text")
        raise GraphValueError(f"The file of adapters has {shape} for {parameter.name!r}, which is a {parameter.type}.")
    parameter.set_data(array)
