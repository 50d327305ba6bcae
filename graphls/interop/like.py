"""The weights of a network under the names, and in the layouts, of a model of PyTorch of the same structure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.interop.matching import Tensors, find_prefix, listed, names_of, recipe_for
from graphls.interop.parameter_mapping import ParameterMapping, Recipe, parameter_mappings
from graphls.interop.sources import Array, Arrays, tensors_of, weights_of
from graphls.interop.transposition import transposed_modules
from graphls.nn.cell import Cell


def arrays_like(net: Cell, like: object, is_no_weight: Callable[[str, Array], bool]) -> Arrays:
    """The weights of a network as the model `like` has them: a module, a file or a dict of tensors.

    Tensors that are one in a module are written under all their names; counters and other tensors that are not weights
    are those of the model. Raises GraphValueError where a weight has no counterpart, or one of another shape.
    """
    weights = weights_of(like)
    tensors = Tensors(weights.arrays, {}, {}, transposed_modules(like))
    mappings = [mapping for mapping in parameter_mappings(net) if not mapping.is_fixed]
    prefix = find_prefix(names_of(mappings), tensors.arrays)
    arrays: Arrays = {}
    strangers, written = dict[int, str](), set[int]()
    for mapping in mappings:
        recipe = recipe_for(mapping, tensors.arrays, prefix)
        if recipe is None:
            strangers.setdefault(id(mapping.parameter), repr(mapping.path))
            continue
        written.add(id(mapping.parameter))
        for name, array in _parts(mapping, *recipe, tensors, arrays):
            arrays[name] = array
    for names in (names for _, names in tensors_of(like).values()):
        source = next((name for name in names if name in arrays), None)
        arrays.update({name: arrays[source] for name in names if source is not None and name in weights.arrays})
    absent = [name for name in weights.arrays if name not in arrays]
    arrays.update({name: weights.arrays[name] for name in absent if is_no_weight(name, weights.arrays[name])})
    missing = [repr(name) for name in absent if name not in arrays]
    lacking = [path for number, path in strangers.items() if number not in written]  # a tied one has other names
    if lacking or missing:
        parts = [f"it has nothing for {listed(lacking)}"] if lacking else []
        parts += [f"no parameter is {listed(missing)}"] if missing else []
        raise GraphValueError(f"The model to save like is not that of the network: {'; '.join(parts)}.")
    return {name: np.asarray(arrays[name], weights.arrays[name].dtype, order="C") for name in weights.arrays}


def _parts(
    mapping: ParameterMapping, recipe: Recipe, names: Iterable[str], tensors: Tensors, arrays: Arrays
) -> Iterator[tuple[str, Array]]:
    """The tensors that hold a parameter: one, the part of one that has three, or several that it joins."""
    array, start = mapping.parameter.asnumpy(), 0
    array = array.squeeze(2) if mapping.has_axis else array
    for name in names:
        if len(tensors.originals[name]) > 1:
            text = f"{mapping.path!r} is stored in parts, {listed(map(repr, tensors.originals[name]))}"
            raise GraphValueError(f"{text}; remove the normalisation of the weight from the model first.")
        place, is_other = tensors.matrix(name) if mapping.is_matrix else (tensors.arrays[name], False)
        original = tensors.originals[name][0]
        if recipe.part is not None and place.ndim:
            size = len(place) // 3
            piece = np.array(place)
            if original in arrays:
                piece = np.array(arrays[original].T if is_other else arrays[original])
            rows = slice(recipe.part * size, (recipe.part + 1) * size)
            _check(mapping, array, original, piece[rows])
            piece[rows] = array
        else:
            end = start + len(place) if place.ndim and len(recipe.names) > 1 else None
            piece, start = (array[start:end], end or 0) if end is not None else (array, 0)
            _check(mapping, piece, original, place)
        yield original, piece.T if is_other else piece


def _check(mapping: ParameterMapping, array: Array, name: str, place: Array) -> None:
    if array.shape != place.shape:
        text = f"{mapping.path!r} has the shape {array.shape} and {name!r} of the model {place.shape}"
        raise GraphValueError(f"{text}; save it like a model of the same sizes.")

