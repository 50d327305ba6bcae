"""Networks with adapters: frozen weights, and beside the products with them trained products of low rank."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from graphls.base.checks import positive, positive_int
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.interop.adapters.finding import Site, sites
from graphls.ir.graph import Graph
from graphls.ir.types import float32
from graphls.nn.cell import Cell
from graphls.nn.initializer import Uniform, Zero
from graphls.passes.adapters.lora import Lora, adapter_names, adapter_shapes
from graphls.passes.adapters.weights import matches

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Adapters:
    """What a cell knows of its adapters; as a pass of the cell it puts them beside the products.

    `others` are the paths of the parameters that are trained as well, `before` of those that were trained before.
    """

    rank: int
    alpha: float
    sites: tuple[Site, ...]
    others: tuple[str, ...] = ()
    before: tuple[str, ...] = ()

    def rewrite(self, graph: Graph, training: bool) -> Graph:
        """The graph with a product of low rank beside each product with a weight that has an adapter."""
        return Lora(self.rank, (), self.alpha).run(graph)


def lora(
    net: Cell, *inputs: object, rank: int = 8, match: str | Sequence[str] = "*", alpha: float | None = None,
    trainable: str | Sequence[str] = (),
) -> list[str]:  # fmt: skip
    """Freeze a network and put trained adapters of low rank beside its products; returns the names of the modules.

    A product with a weight W, `x @ W`, becomes `x @ W + alpha / rank * (x @ A) @ B` (Hu and others, 2021). `match` is
    a pattern as of files, or several, of the names of weights or modules; `alpha` is the rank where nothing is said.
    `trainable` are patterns of parameters that stay trained themselves, as a new classifier is. A is spread evenly up
    to 1 / sqrt(inputs) by the seed of `set_seed`, and B is 0: the network gives what it gave before. Weights that are
    used otherwise as well, as those of an embedding, have no adapter. An ONNX model says how its weights are used;
    another network is run on `inputs` to see that. What compiles or optimizes the network is
    made afterwards, of `net.trainable_params()`, which are the adapters.

    Raises GraphTypeError and GraphValueError for arguments that do not fit, for a network that has adapters or rounded
    products, and where no weight matches.

    Examples:
        >>> import numpy as np
        >>> from graphls import adapters, nn
        >>> net = nn.SequentialCell(nn.Dense(8, 8), nn.ReLU(), nn.Dense(8, 2))
        >>> adapters.lora(net, np.ones((1, 8), np.float32), rank=2)
        ['0', '2']
        >>> [(p.name, p.shape) for p in net.trainable_params()]
        [('0.lora_A.weight', (2, 8)), ('0.lora_B.weight', (8, 2)), ('2.lora_A.weight', (2, 8)),
         ('2.lora_B.weight', (2, 2))]
    """
    require_cell("lora", net)
    if any(cell._passes for _, cell in net.cells_and_names()):
        text = "The network has adapters or rounded products already"
        raise GraphValueError(f"{text}; merge adapters first, by graphls.adapters.merge(net).")
    rank = positive_int("lora", "rank", rank)
    alpha = float(rank) if alpha is None else positive("lora", "alpha", alpha)
    found = sites(net, inputs)
    chosen = [site for site in found if matches(match, site.path, site.module)]
    if not chosen:
        raise GraphValueError(f"No weight of a product matches {match!r}{_near(match, found)}.")
    attach(net, chosen, rank, alpha, _trainable(net, trainable))
    return [site.module for site in chosen]


def attach(net: Cell, chosen: Sequence[Site], rank: int, alpha: float, others: Iterable[str]) -> None:
    """Freeze a network but for some parameters, and give it adapters at these places."""
    parameters = dict(net.parameters_and_names())
    before = tuple(path for path, parameter in parameters.items() if parameter.requires_grad)
    trained = tuple(others)
    for path, parameter in parameters.items():
        parameter.requires_grad = path in trained
    for site in chosen:
        weight = parameters[site.path]
        shapes = adapter_shapes(weight.shape, site.axis, rank)
        bound = 1 / math.sqrt(math.prod(shapes[0][1:]) or 1)
        dtype = float32 if weight.dtype.is_half else weight.dtype
        prefix = weight.name.removesuffix(site.path) if weight.name.endswith(site.path) else ""
        for path, initial, shape in zip(adapter_names(site.path), (Uniform(bound), Zero()), shapes, strict=True):
            array = np.asarray(initial(shape)).astype(dtype.numpy)
            net.insert_param_to_cell(path, Parameter(array, prefix + path), check_name_contain_dot=False)
    net.__dict__["_passes"] += (Adapters(rank, alpha, tuple(chosen), trained, before),)
    net._changed()


def merge(net: Cell) -> None:
    """Add the adapters of a network to its weights and take them away; what was trained before is trained again.

    An ONNX model is saved by `graphls.onnx.save` then. 16-bit weights are rounded once. Raises GraphTypeError for what
    is no cell, GraphValueError for a network without adapters.

    Examples:
        >>> import numpy as np
        >>> from graphls import adapters, nn
        >>> net = nn.SequentialCell(nn.Dense(8, 8))
        >>> names = adapters.lora(net, np.ones((1, 8), np.float32), rank=2)
        >>> adapters.merge(net)
        >>> [p.name for p in net.trainable_params()]
        ['0.weight', '0.bias']
    """
    cell, adapters = holder(net)
    parameters = dict(cell.parameters_and_names())
    for site in adapters.sites:
        weight, names = parameters[site.path], adapter_names(site.path)
        first, second = (parameters[name].asnumpy() for name in names)
        change = adapters.alpha / adapters.rank * _product(first, second, site.axis, weight.shape)
        weight.set_data((weight.asnumpy().astype(change.dtype) + change).astype(weight.dtype.numpy))
    detach(cell, adapters)


def detach(cell: Cell, adapters: Adapters) -> None:
    """Take adapters away from a cell; what was trained before is trained again."""
    for site in adapters.sites:
        for name in adapter_names(site.path):
            delattr(cell, name)
    cell.__dict__["_passes"] = tuple(each for each in cell._passes if each is not adapters)
    for path, parameter in cell.parameters_and_names():
        parameter.requires_grad = path in adapters.before
    cell._changed()


def _product(first: Array, second: Array, axis: int | None, shape: tuple[int, ...]) -> Array:
    """A and B as a change of the weight."""
    product = second.reshape(len(second), -1) @ first.reshape(len(first), -1)
    return product.T if axis == 0 else product.reshape(shape)


def require_cell(name: str, net: object) -> None:
    """Raise GraphTypeError for what is no cell."""
    if not isinstance(net, Cell):
        raise GraphTypeError(f"{name} takes a Cell, not {type(net).__name__}.")


def adapters_of(cell: Cell) -> Adapters | None:
    """The adapters that a cell itself has."""
    return next((each for each in cell._passes if isinstance(each, Adapters)), None)


def holder(net: Cell) -> tuple[Cell, Adapters]:
    """The cell with adapters that a network is or holds; raises GraphTypeError and GraphValueError without one."""
    require_cell("This", net)
    cells = [cell for _, cell in net.cells_and_names() if adapters_of(cell) is not None]
    if len(cells) != 1:
        count = "several parts of the network have" if cells else "the network has no"
        raise GraphValueError(f"One part of a network has adapters, as graphls.adapters.lora gives; {count} adapters.")
    adapters = adapters_of(cells[0])
    assert adapters is not None
    return cells[0], adapters


def _trainable(net: Cell, patterns: str | Sequence[str]) -> Iterator[str]:
    """The paths of parameters that patterns mean; raises GraphValueError for a pattern that means none."""
    for pattern in (patterns,) if isinstance(patterns, str) else patterns:
        found = [path for path, parameter in net.parameters_and_names() if matches(pattern, path, parameter.name)]
        if not found:
            raise GraphValueError(f"No parameter of the network matches {pattern!r}, as `trainable` asks.")
        yield from found


def _near(match: str | Sequence[str], found: Sequence[Site]) -> str:
    """What to write for a pattern that means no weight."""
    names = list(dict.fromkeys(name for site in found for name in (site.module, site.path)))
    pattern = match if isinstance(match, str) else next(iter(match), "")
    near = get_close_matches(pattern, names, 3, 0.3) or names[:3]
    return f"; there are {', '.join(map(repr, near))}" if near else "; the network has no product with a weight"
