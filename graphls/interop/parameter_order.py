"""Which parameter of a network is which of an optimizer of PyTorch, which numbers them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.interop.matching import Rename, names_of, prefixes, present_for, renamed
from graphls.interop.optimizer_sources import OptimizerState
from graphls.interop.parameter_mapping import Place, Recipe, places
from graphls.interop.sources import Array, Arrays
from graphls.nn.cell import Cell
from graphls.nn.optimizers.base import Optimizer

ADVICE = "give names=[name for name, _ in module.named_parameters()], in the order of the groups of PyTorch"


@dataclass(frozen=True, eq=False)
class Row:
    """A parameter of an optimizer at its place in the network, and which of PyTorch make it; none where none do."""

    place: Place
    recipe: Recipe
    names: tuple[str, ...]
    positions: tuple[int, ...]


def places_of(optimizer: Optimizer, net: Cell) -> list[list[Place]]:
    """The places of each parameter of an optimizer, group after group.

    Raises GraphValueError for a parameter that is not in the network.
    """
    found: dict[int, list[Place]] = {}
    for place in places(net):
        found.setdefault(id(place.parameter), []).append(place)
    parameters = in_order(optimizer)
    absent = [p.name for p in parameters if id(p) not in found]
    if absent:
        raise GraphValueError(f"The optimizer updates {absent[0]!r}, which is no parameter of the network.")
    return [found[id(p)] for p in parameters]


def in_order(optimizer: Optimizer) -> list[Parameter]:
    """The parameters group after group, as PyTorch numbers them."""
    return [p for group in optimizer.groups for p in group.parameters]


def names_in_order(
    state: OptimizerState, optimizer: Optimizer, rows: Sequence[Sequence[Place]], names: object, rename: Rename
) -> tuple[tuple[str, ...], Rename]:
    """What PyTorch calls the parameters with the numbers of a state, and renames that are still to be made.

    They are those that the user gives, those in the groups, those of the weights in the same file where there is one
    group, or by their order the parameters of the optimizer here. Raises GraphTypeError and GraphValueError where
    the names are no names, or not as many.
    """
    if names is not None:
        return _given(names, state), rename
    if (known := state.given_names()) is not None:
        return known, rename
    if len(state.groups) == 1 and state.weights:
        return _names_by_weights(state, rows, rename), rename
    theirs, ours = [len(g["params"]) for g in state.groups], [len(g.parameters) for g in optimizer.groups]
    if theirs != ours:
        raise GraphValueError(
            f"The groups of PyTorch in {state.origin} have {theirs} parameters, and those here {ours}; {ADVICE}."
        )
    return tuple(each[0].name for each in rows), {}


def _given(names: object, state: OptimizerState) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise GraphTypeError(f"The names of the parameters are a list of strings, not {names!r}.")
    listed = tuple(names)
    if not all(isinstance(name, str) for name in listed):
        raise GraphTypeError(f"The names of the parameters are strings, not {listed!r}.")
    if len(listed) != len(state.numbers):
        count = len(state.numbers)
        raise GraphValueError(f"There are {len(listed)} names, and {state.origin} has {count} parameters; {ADVICE}.")
    return listed


def _names_by_weights(state: OptimizerState, rows: Sequence[Sequence[Place]], rename: Rename) -> tuple[str, ...]:
    """The names of the weights that the parameters are made of, which lie in the order of the parameters."""
    known = {renamed(name, rename): name for name in _without_aliases(state.weights)}
    order = {name: i for i, name in enumerate(known)}
    beginning = prefixes(names_of(place for each in rows for place in each), known)
    used: set[str] = set()
    for each in rows:
        found = [f[1] for place in each if (f := present_for(place, known, beginning)) is not None]
        used.update(*sorted(found, key=lambda present: order[present[0]])[:1])
    if len(used) != len(state.numbers):
        raise GraphValueError(
            f"The weights in {state.origin} make the parameters of the optimizer of {len(used)} tensors, and its state "
            f"has {len(state.numbers)} parameters; {ADVICE}."
        )
    return tuple(original for name, original in known.items() if name in used)


def _without_aliases(weights: Arrays) -> list[str]:
    """Names of weights, and of those that share their memory, which are one parameter, the first."""
    first: dict[object, str] = {}
    for name, array in weights.items():
        first.setdefault(_memory(array) if array.size else name, name)
    return [*first.values()]


def _memory(array: Array) -> object:
    return array.__array_interface__["data"][0], array.shape, array.strides


def matched(rows: Sequence[Sequence[Place]], names: Sequence[str], rename: Rename) -> tuple[list[Row], list[Place]]:
    """The parameters that names of PyTorch are for, and those that none is for.

    Raises GraphValueError where renames make two names one.
    """
    known: dict[str, int] = {}
    for i, name in enumerate(names):
        if (new := renamed(name, rename)) in known:
            raise GraphValueError(f"{names[known[new]]!r} and {name!r} are both {new!r}; change the names or 'rename'.")
        known[new] = i
    beginning = prefixes(names_of(place for each in rows for place in each), known)
    found: list[Row] = []
    absent: list[Place] = []
    for each in rows:
        own = [(place, f) for place in each if (f := present_for(place, known, beginning)) is not None]
        if not own:
            absent.append(each[0])
            continue
        place, (recipe, present) = own[0]
        found.append(Row(place, recipe, tuple(present), tuple(known[name] for name in present)))
    return found, absent
