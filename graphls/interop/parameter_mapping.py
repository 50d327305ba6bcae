"""Maps the parameters of a network to their names and layouts in PyTorch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from graphls.frontend.tensors.parameter import Parameter
from graphls.nn.activations import PReLU
from graphls.nn.cell import Cell
from graphls.nn.convolution import Conv1d, Conv1dTranspose
from graphls.nn.dense import Dense, Embedding, EmbeddingLookup, Linear
from graphls.nn.normalization import BatchNorm2d, GroupNorm, InstanceNorm2d, LayerNorm, RMSNorm
from graphls.nn.transformer import MultiheadAttention, TransformerLayer

_NORM = {"gamma": "weight", "beta": "bias"}
NAMES: dict[type[Cell], Mapping[str, str]] = {
    BatchNorm2d: {**_NORM, "moving_mean": "running_mean", "moving_variance": "running_var"},
    GroupNorm: _NORM,
    InstanceNorm2d: _NORM,
    LayerNorm: _NORM,
    RMSNorm: _NORM,
    Embedding: {"embedding_table": "weight"},
    EmbeddingLookup: {"embedding_table": "weight"},
    PReLU: {"w": "weight"},
    TransformerLayer: {"dense1": "linear1", "dense2": "linear2"},
}
"""PyTorch's names of parameters and inner cells of a cell, and of derived ones, where they differ."""

SEPARATE = ("q_proj", "k_proj", "v_proj"), ("query", "key", "value"), ("q", "k", "v"), ("q_lin", "k_lin", "v_lin")
"""Names of separate projections of query, key and value."""
JOINED = ("in_proj", "c_attn", "qkv", "qkv_proj", "query_key_value", "Wqkv")
"""Names of joined projections, whose rows are those of query, key and value in this order."""
_PROJECTION = re.compile(r"(?P<parent>(?:.*\.)?)(?P<module>\w+)(?P<dot>[._])(?P<kind>weight|bias)")


@dataclass(frozen=True)
class Recipe:
    """The tensors of a file that form a parameter: their concatenated rows, or one `part` of three of these."""

    names: tuple[str, ...]
    part: int | None = None


@dataclass(frozen=True)
class ParameterMapping:
    """A parameter with its path of attributes in the network, its name in PyTorch and its layout.

    `is_matrix` tells that it is (outputs, inputs) as in `nn.Linear`, `has_axis` that it has an axis 2 of size 1 that
    PyTorch's lacks, and `is_fixed` that it belongs to a normalisation with the constant scale 1 and shift 0, for which
    PyTorch has no parameters.
    """

    parameter: Parameter
    path: str
    name: str
    is_matrix: bool
    has_axis: bool
    is_fixed: bool

    def recipes(self) -> Iterator[Recipe]:
        """The recipes of the parameter, the likeliest first; older files call the weights of a norm gamma and beta."""
        yield Recipe((self.name,))
        if (own := self.path.rpartition(".")[2]) != self.name.rpartition(".")[2]:
            yield Recipe((f"{self.name.rpartition('.')[0]}.{own}".lstrip("."),))
        if self.is_matrix or self.name.endswith("bias"):
            yield from _projections(self.name)


def _projections(name: str) -> Iterator[Recipe]:
    """Recipes for projections that are joined here and separate in a file, or the other way round."""
    match = _PROJECTION.fullmatch(name)
    if match is None:
        return
    parent, module, kind = match["parent"], match["module"], match["kind"]
    if module in JOINED:
        for names in SEPARATE:
            for dot in "._":
                yield Recipe(tuple(f"{parent}{each}{dot}{kind}" for each in names))
    for names in SEPARATE:
        if module in names:
            yield from (Recipe((f"{parent}{each}.{kind}",), names.index(module)) for each in JOINED)
            yield Recipe((f"{parent}in_proj_{kind}",), names.index(module))


def parameter_mappings(net: Cell) -> list[ParameterMapping]:
    """The mappings of all parameters of a network: one for each path, so several for a shared parameter."""
    mappings: list[ParameterMapping] = []
    waiting: list[tuple[Cell, str, str, frozenset[int]]] = [(net, "", "", frozenset())]
    while waiting:
        cell, path, name, around = waiting.pop()
        names = names_of(cell)
        mappings += _own(cell, path, name, names)
        around |= {id(cell)}
        inner = [
            (child, f"{path}{attribute}.", f"{name}{names.get(attribute, attribute)}.", around)
            for attribute, child in cell.name_cells().items()
            if id(child) not in around
        ]
        waiting += reversed(inner)
    return mappings


def names_of(cell: Cell) -> Mapping[str, str]:
    """PyTorch's names of the parts of a cell, where they differ."""
    return next((NAMES[kind] for kind in type(cell).__mro__ if kind in NAMES), {})


def _own(cell: Cell, path: str, name: str, names: Mapping[str, str]) -> Iterator[ParameterMapping]:
    """The mappings of a cell's own parameters."""
    is_fixed = getattr(cell, "affine", True) is False
    for attribute, parameter in cell.parameters_and_names(expand=False):
        # Parameters in a tuple, as in recurrent layers, have the names that their cell has set, after its path.
        own = attribute.rpartition(".")[2]
        yield ParameterMapping(
            parameter, path + own, name + names.get(own, own),
            is_matrix=own.endswith("weight") and isinstance(cell, (Dense, Linear, MultiheadAttention)),
            has_axis=own == "weight" and isinstance(cell, (Conv1d, Conv1dTranspose)),
            is_fixed=is_fixed and own in _NORM,
        )  # fmt: skip
