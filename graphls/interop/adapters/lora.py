"""Networks with adapters: frozen weights, and trained products of low rank beside the products with them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Protocol, runtime_checkable

import numpy as np

from graphls.base.checks import positive, positive_int
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.trace.trace import trace
from graphls.ir.graph import Graph, Node
from graphls.ir.types import float32
from graphls.nn.cell import Cell
from graphls.nn.initializer import Uniform, Zero
from graphls.passes.adapters.lora import Lora, adapter_names, adapter_shapes
from graphls.passes.adapters.weights import WeightFinder, matches


@dataclass(frozen=True)
class Site:
    """A weight that can have an adapter: its path, the module that the adapter is named after, and the contracted axis.

    Kernels of convolutions have no such axis.
    """

    path: str
    module: str
    axis: int | None


@runtime_checkable
class KnowsProducts(Protocol):
    """A cell that knows the uses of its weights without a run, as that of an ONNX model."""

    def products(self) -> dict[str, tuple[str, int | None]]:
        """By path of the weight, the name of the module and the contracted axis."""


def sites(net: Cell, inputs: Sequence[object]) -> list[Site]:
    """The weights that can have adapters: by a trace on inputs, or without these by the `products` of cells."""
    return list(_traced(net, inputs) if inputs else _declared(net))


def _declared(net: Cell) -> Iterator[Site]:
    paths = {id(parameter): path for path, parameter in net.parameters_and_names()}
    cells = [(path, cell) for path, cell in net.cells_and_names() if isinstance(cell, KnowsProducts)]
    if not cells:
        text = f"How {type(net).__name__} uses its weights shows when it runs; give inputs like those it takes"
        raise GraphValueError(f"{text}: lora(net, x, ...).")
    for prefix, cell in cells:
        assert isinstance(cell, Cell) and isinstance(cell, KnowsProducts)
        own = dict(cell.parameters_and_names())
        for path, (module, axis) in cell.products().items():
            yield Site(paths[id(own[path])], ".".join(filter(None, (prefix, module))), axis)


def _traced(net: Cell, inputs: Sequence[object]) -> Iterator[Site]:
    traced = trace(net, tuple(inputs))
    paths = {id(parameter): path for path, parameter in net.parameters_and_names()}
    analysis = _ProductAnalysis(traced.graph)
    analysis.run()
    for name, axis in analysis.axes.items():
        path = paths.get(id(traced.parameters[name]))
        if path is not None and name not in analysis.elsewhere:
            yield Site(path, path.removesuffix(".weight"), axis)


class _ProductAnalysis(WeightFinder):
    """Collects the weights of products, and the states that other nodes read, without changing the graph."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.axes: dict[str, int | None] = {}
        self.elsewhere: set[str] = set()

    def visit(self, node: Node) -> Node:
        product = self.product(node)
        if product is not None and product.groups == 1:
            self.axes.setdefault(product.state.name, product.axis)
        states = [self.origin(value)[0] for value in node.inputs]
        for i, state in enumerate(states):
            if state.is_state and not (product is not None and i == 1) and not self.passes_on(node):
                self.elsewhere.add(state.name)
        return node


Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Adapters:
    """The adapters of a cell, and the pass of the cell that adds them to the products.

    `others` are the paths of other trained parameters, `before` of the parameters that were trained before.
    """

    rank: int
    alpha: float
    sites: tuple[Site, ...]
    others: tuple[str, ...] = ()
    before: tuple[str, ...] = ()

    def rewrite(self, graph: Graph, training: bool) -> Graph:
        """The graph with a low-rank product added to each product with a weight that has an adapter."""
        return Lora(self.rank, (), self.alpha).run(graph)


def lora(
    net: Cell, *inputs: object, rank: int = 8, match: str | Sequence[str] = "*", alpha: float | None = None,
    trainable: str | Sequence[str] = (),
) -> list[str]:  # fmt: skip
    """Freeze a network and add trained low-rank adapters to its products; returns the names of the modules.

    A product with a weight W, `x @ W`, becomes `x @ W + alpha / rank * (x @ A) @ B` (Hu and others, 2021). `match` is
    a pattern like those of file names, or several, for the names of weights or modules; `alpha` is the rank by default.
    `trainable` are patterns of parameters that stay trained themselves, such as those of a new classifier. A is uniform
    up to 1 / sqrt(inputs) by the seed of `set_seed`, and B is 0, so that the outputs stay the same. Weights with other
    uses, such as those of an embedding, get no adapter. An ONNX model knows the uses of its weights; another network is
    run on `inputs` for them. Create optimizers and steps afterwards, from `net.trainable_params()`, which are the
    adapters.

    Raises GraphTypeError and GraphValueError for invalid arguments, for a network with adapters or rounded products,
    and if no weight matches.

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
    candidates = sites(net, inputs)
    selected = [site for site in candidates if matches(match, site.path, site.module)]
    if not selected:
        raise GraphValueError(f"No weight of a product matches {match!r}{_suggestion(match, candidates)}.")
    attach(net, selected, rank, alpha, _trainable(net, trainable))
    return [site.module for site in selected]


def attach(net: Cell, selected: Sequence[Site], rank: int, alpha: float, others: Iterable[str]) -> None:
    """Freeze a network except some parameters, and add adapters at these sites."""
    parameters = dict(net.parameters_and_names())
    before = tuple(path for path, parameter in parameters.items() if parameter.requires_grad)
    trained = tuple(others)
    for path, parameter in parameters.items():
        parameter.requires_grad = path in trained
    for site in selected:
        weight = parameters[site.path]
        shapes = adapter_shapes(weight.shape, site.axis, rank)
        bound = 1 / math.sqrt(math.prod(shapes[0][1:]) or 1)
        dtype = float32 if weight.dtype.is_half else weight.dtype
        prefix = weight.name.removesuffix(site.path) if weight.name.endswith(site.path) else ""
        for path, initial, shape in zip(adapter_names(site.path), (Uniform(bound), Zero()), shapes, strict=True):
            array = np.asarray(initial(shape)).astype(dtype.numpy)
            net.insert_param_to_cell(path, Parameter(array, prefix + path), check_name_contain_dot=False)
    net.__dict__["_passes"] += (Adapters(rank, alpha, tuple(selected), trained, before),)
    net._changed()


def merge(net: Cell) -> None:
    """Merge the adapters of a network into its weights; the parameters that were trained before are trained again.

    `graphls.onnx.save` can then save an ONNX model. 16-bit weights are rounded once. Raises GraphTypeError for anything
    but a cell, GraphValueError for a network without adapters.

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
    """Remove adapters from a cell; the parameters that were trained before are trained again."""
    for site in adapters.sites:
        for name in adapter_names(site.path):
            delattr(cell, name)
    cell.__dict__["_passes"] = tuple(each for each in cell._passes if each is not adapters)
    for path, parameter in cell.parameters_and_names():
        parameter.requires_grad = path in adapters.before
    cell._changed()


def _product(first: Array, second: Array, axis: int | None, shape: tuple[int, ...]) -> Array:
    """The product of A and B in the layout of the weight."""
    product = second.reshape(len(second), -1) @ first.reshape(len(first), -1)
    return product.T if axis == 0 else product.reshape(shape)


def require_cell(name: str, net: object) -> None:
    """Raise GraphTypeError for anything but a cell."""
    if not isinstance(net, Cell):
        raise GraphTypeError(f"{name} takes a Cell, not {type(net).__name__}.")


def adapters_of(cell: Cell) -> Adapters | None:
    """The adapters of a cell itself, None if it has none."""
    return next((each for each in cell._passes if isinstance(each, Adapters)), None)


def holder(net: Cell) -> tuple[Cell, Adapters]:
    """The cell of a network with adapters; raises GraphTypeError, and GraphValueError unless there is exactly one."""
    require_cell("This", net)
    cells = [cell for _, cell in net.cells_and_names() if adapters_of(cell) is not None]
    if len(cells) != 1:
        count = "several parts of the network have" if cells else "the network has no"
        raise GraphValueError(f"One part of a network has adapters, as graphls.adapters.lora gives; {count} adapters.")
    adapters = adapters_of(cells[0])
    assert adapters is not None
    return cells[0], adapters


def _trainable(net: Cell, patterns: str | Sequence[str]) -> Iterator[str]:
    """The paths of parameters that match patterns; raises GraphValueError for a pattern without a match."""
    for pattern in (patterns,) if isinstance(patterns, str) else patterns:
        paths = [path for path, parameter in net.parameters_and_names() if matches(pattern, path, parameter.name)]
        if not paths:
            raise GraphValueError(f"No parameter of the network matches {pattern!r}, as in `trainable`.")
        yield from paths


def _suggestion(match: str | Sequence[str], candidates: Sequence[Site]) -> str:
    """The closest names for a pattern that matches no weight."""
    names = list(dict.fromkeys(name for site in candidates for name in (site.module, site.path)))
    pattern = match if isinstance(match, str) else next(iter(match), "")
    near = get_close_matches(pattern, names, 3, 0.3) or names[:3]
    return f"; there are {', '.join(map(repr, near))}" if near else "; the network has no product with a weight"
