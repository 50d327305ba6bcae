"""Maps the parameter numbers of an optimizer of PyTorch to the parameters of a network."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.interop.matching import Rename, find_prefix, names_of, recipe_for, renamed
from graphls.interop.optimizer_sources import OptimizerState
from graphls.interop.parameter_mapping import ParameterMapping, Recipe, parameter_mappings
from graphls.interop.sources import Array, Arrays
from graphls.nn.cell import Cell
from graphls.nn.optimizers.base import Optimizer

Mappings = Sequence[Sequence[ParameterMapping]]
"""The mappings of each parameter of an optimizer."""
ADVICE = "give names=[name for name, _ in module.named_parameters()], in the order of the groups of PyTorch"


@dataclass(frozen=True, eq=False)
class Row:
    """A parameter of an optimizer, and the names and positions of the parameters of PyTorch that form it."""

    mapping: ParameterMapping
    recipe: Recipe
    names: tuple[str, ...]
    positions: tuple[int, ...]


def mappings_of(optimizer: Optimizer, net: Cell) -> list[list[ParameterMapping]]:
    """The mappings of each parameter of an optimizer, group after group.

    Raises GraphValueError for a parameter that is not in the network.
    """
    mappings: dict[int, list[ParameterMapping]] = {}
    for mapping in parameter_mappings(net):
        mappings.setdefault(id(mapping.parameter), []).append(mapping)
    parameters = in_order(optimizer)
    absent = [p.name for p in parameters if id(p) not in mappings]
    if absent:
        raise GraphValueError(f"The optimizer updates {absent[0]!r}, which is not a parameter of the network.")
    return [mappings[id(p)] for p in parameters]


def in_order(optimizer: Optimizer) -> list[Parameter]:
    """The parameters group after group, in the order of PyTorch's numbers."""
    return [p for group in optimizer.groups for p in group.parameters]


def names_in_order(
    state: OptimizerState, optimizer: Optimizer, rows: Mappings, names: object, rename: Rename
) -> tuple[tuple[str, ...], Rename]:
    """PyTorch's names of the parameters in the order of a state, and the renames that still apply to them.

    They are the `names` of the user, those in the groups, those of the weights in the same file if there is one group,
    or else the parameters of the optimizer here in their order. Raises GraphTypeError and GraphValueError for names
    that are not strings, and for a wrong number of them.
    """
    if names is not None:
        return _checked_names(names, state), rename
    if (known := state.parameter_names()) is not None:
        return known, rename
    if len(state.groups) == 1 and state.weights:
        return _names_by_weights(state, rows, rename), rename
    theirs, ours = [len(g["params"]) for g in state.groups], [len(g.parameters) for g in optimizer.groups]
    if theirs != ours:
        raise GraphValueError(
            f"The groups of PyTorch in {state.origin} have {theirs} parameters, and those here {ours}; {ADVICE}."
        )
    return tuple(each[0].name for each in rows), {}


def _checked_names(names: object, state: OptimizerState) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise GraphTypeError(f"The names of the parameters are a list of strings, not {names!r}.")
    listed = tuple(names)
    if not all(isinstance(name, str) for name in listed):
        raise GraphTypeError(f"The names of the parameters are strings, not {listed!r}.")
    if len(listed) != len(state.numbers):
        count = len(state.numbers)
        raise GraphValueError(f"There are {len(listed)} names, and {state.origin} has {count} parameters; {ADVICE}.")
    return listed


def _names_by_weights(state: OptimizerState, rows: Mappings, rename: Rename) -> tuple[str, ...]:
    """The names of the weights that form the parameters, which are stored in the order of the parameters."""
    known = {renamed(name, rename): name for name in _without_aliases(state.weights)}
    order = {name: i for i, name in enumerate(known)}
    prefix = find_prefix(names_of(mapping for each in rows for mapping in each), known)
    used: set[str] = set()
    for each in rows:
        recipes = (recipe_for(mapping, known, prefix) for mapping in each)
        names = [recipe[1] for recipe in recipes if recipe is not None]
        used.update(*sorted(names, key=lambda present: order[present[0]])[:1])
    if len(used) != len(state.numbers):
        raise GraphValueError(
            f"The parameters of the optimizer take {len(used)} tensors of the weights in {state.origin}, and its state "
            f"has {len(state.numbers)} parameters; {ADVICE}."
        )
    return tuple(original for name, original in known.items() if name in used)


def _without_aliases(weights: Arrays) -> list[str]:
    """Names of weights, one for each parameter: of those that share memory, the first."""
    first: dict[object, str] = {}
    for name, array in weights.items():
        first.setdefault(_memory(array) if array.size else name, name)
    return [*first.values()]


def _memory(array: Array) -> object:
    return array.__array_interface__["data"][0], array.shape, array.strides


def matched(rows: Mappings, names: Sequence[str], rename: Rename) -> tuple[list[Row], list[ParameterMapping]]:
    """The parameters with matching names of PyTorch, and those without.

    Raises GraphValueError if two names are equal after the renames.
    """
    known: dict[str, int] = {}
    for i, name in enumerate(names):
        if (new := renamed(name, rename)) in known:
            raise GraphValueError(f"{names[known[new]]!r} and {name!r} are both {new!r}; change the names or 'rename'.")
        known[new] = i
    prefix = find_prefix(names_of(mapping for each in rows for mapping in each), known)
    matches: list[Row] = []
    absent: list[ParameterMapping] = []
    for each in rows:
        own = [(mapping, f) for mapping in each if (f := recipe_for(mapping, known, prefix)) is not None]
        if not own:
            absent.append(each[0])
            continue
        mapping, (recipe, present) = own[0]
        matches.append(Row(mapping, recipe, tuple(present), tuple(known[name] for name in present)))
    return matches, absent
