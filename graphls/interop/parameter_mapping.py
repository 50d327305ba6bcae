"""Where the parameters of a network stand, and what they are called and look like in PyTorch."""

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
"""What PyTorch calls parameters and inner cells of a cell, and of those that derive from it, if not the same."""

SEPARATE = ("q_proj", "k_proj", "v_proj"), ("query", "key", "value"), ("q", "k", "v"), ("q_lin", "k_lin", "v_lin")
"""What the projections of query, key and value are called, each by itself."""
JOINED = ("in_proj", "c_attn", "qkv", "qkv_proj", "query_key_value", "Wqkv")
"""What they are called as one, whose rows are those of query, key and value in this order."""
_PROJECTION = re.compile(r"(?P<parent>(?:.*\.)?)(?P<module>\w+)(?P<dot>[._])(?P<kind>weight|bias)")


@dataclass(frozen=True)
class Recipe:
    """Tensors of a file that make a parameter: their rows one after the other, and of those `part` of three."""

    names: tuple[str, ...]
    part: int | None = None


@dataclass(frozen=True)
class Place:
    """A parameter where it stands: its path of attributes in the network, and its name in PyTorch.

    `is_matrix` says that it is (outputs, inputs) as in `nn.Linear`, `has_axis` that it has an axis of size 1 in the
    place 2 that PyTorch's has not, and `is_fixed` that it belongs to a normalisation whose scale and shift stay 1 and
    0, which PyTorch has no parameters for.
    """

    parameter: Parameter
    path: str
    name: str
    is_matrix: bool
    has_axis: bool
    is_fixed: bool

    def recipes(self) -> Iterator[Recipe]:
        """What makes the parameter, the likeliest first; older files call the weights of a norm gamma and beta."""
        yield Recipe((self.name,))
        if (own := self.path.rpartition(".")[2]) != self.name.rpartition(".")[2]:
            yield Recipe((f"{self.name.rpartition('.')[0]}.{own}".lstrip("."),))
        if self.is_matrix or self.name.endswith("bias"):
            yield from _projections(self.name)


def _projections(name: str) -> Iterator[Recipe]:
    """Recipes for projections that stand joined here and separate in a file, or the other way round."""
    found = _PROJECTION.fullmatch(name)
    if found is None:
        return
    parent, module, kind = found["parent"], found["module"], found["kind"]
    if module in JOINED:
        for names in SEPARATE:
            for dot in "._":
                yield Recipe(tuple(f"{parent}{each}{dot}{kind}" for each in names))
    for names in SEPARATE:
        if module in names:
            yield from (Recipe((f"{parent}{each}.{kind}",), names.index(module)) for each in JOINED)
            yield Recipe((f"{parent}in_proj_{kind}",), names.index(module))


def places(net: Cell) -> list[Place]:
    """Each parameter of a network wherever it stands: one that several cells share has several places."""
    found: list[Place] = []
    waiting: list[tuple[Cell, str, str, frozenset[int]]] = [(net, "", "", frozenset())]
    while waiting:
        cell, path, name, around = waiting.pop()
        names = names_of(cell)
        found += _own(cell, path, name, names)
        around |= {id(cell)}
        inner = [
            (child, f"{path}{attribute}.", f"{name}{names.get(attribute, attribute)}.", around)
            for attribute, child in cell.name_cells().items()
            if id(child) not in around
        ]
        waiting += reversed(inner)
    return found


def names_of(cell: Cell) -> Mapping[str, str]:
    """What parts of a cell are called in PyTorch, where that is another name."""
    return next((NAMES[kind] for kind in type(cell).__mro__ if kind in NAMES), {})


def _own(cell: Cell, path: str, name: str, names: Mapping[str, str]) -> Iterator[Place]:
    """The places of the parameters that are a cell's own."""
    is_fixed = getattr(cell, "affine", True) is False
    for attribute, parameter in cell.parameters_and_names(expand=False):
        # Those in a tuple, as of recurrent layers, have the names that their cell has given them, behind its path.
        own = attribute.rpartition(".")[2]
        yield Place(
            parameter, path + own, name + names.get(own, own),
            is_matrix=own.endswith("weight") and isinstance(cell, (Dense, Linear, MultiheadAttention)),
            has_axis=own == "weight" and isinstance(cell, (Conv1d, Conv1dTranspose)),
            is_fixed=is_fixed and own in _NORM,
        )  # fmt: skip
