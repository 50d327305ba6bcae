"""Matches the tensors of a file with the parameters of a network, by names and layouts, and checks that they fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.interop.parameter_mapping import ParameterMapping, Recipe
from graphls.interop.sources import Array, Arrays
from graphls.ir.types import DType, type_of
from graphls.nn.cell import Cell

Parts = tuple[str, ...]
SHOWN = 8
"""The number of names that an error lists."""


def _scaled(scale: Array, direction: Array) -> Array | None:
    """A unit vector times a scale, which has size 1 along the axes of the vector's norm."""
    if scale.ndim not in (0, direction.ndim):
        return None
    axes = tuple(i for i in range(direction.ndim) if scale.ndim == 0 or scale.shape[i] == 1)
    if not axes or any(i not in axes and scale.shape[i] != size for i, size in enumerate(direction.shape)):
        return None
    length: Array = np.sqrt(np.sum(direction * direction, axes, keepdims=True))
    weight: Array = direction * (scale / length)
    return weight


def _spectral(weight: Array, left: Array, right: Array) -> Array | None:
    """A weight divided by its largest singular value, of which the two vectors are the singular vectors."""
    if left.ndim != 1 or right.ndim != 1 or len(left) not in weight.shape[:2] or weight.size != left.size * right.size:
        return None
    rows = weight if len(left) == len(weight) else np.moveaxis(weight, 1, 0)  # transposed convolutions
    normalized: Array = weight / np.dot(left, rows.reshape(len(left), -1) @ right)
    return normalized


FORMS: tuple[tuple[Parts, Callable[..., Array | None]], ...] = (
    (("{name}_orig", "{name}_u", "{name}_v"), _spectral),
    (("{name}_g", "{name}_v"), _scaled),
    (("parametrizations.{name}.original", "parametrizations.{name}.0._u", "parametrizations.{name}.0._v"), _spectral),
    (("parametrizations.{name}.original0", "parametrizations.{name}.original1"), _scaled),
)
"""The names of the parts of a weight that `weight_norm` or `spectral_norm` recomputes, and the rule that forms it."""
_FIRST = [
    re.compile(r"(?P<before>(?:.*\.)?)" + re.escape(parts[0]).replace(r"\{name\}", r"(?P<name>\w+)"))
    for parts, _ in FORMS
]


def normalized_weights(arrays: Mapping[str, Array]) -> Iterator[tuple[str, Array, Parts]]:
    """Each weight that is stored in parts: its name, its value, and the names of its parts."""
    for path in arrays:
        for pattern, (parts, rule) in zip(_FIRST, FORMS, strict=True):
            match = pattern.fullmatch(path)
            if match is None:
                continue
            before, name = match["before"], match["name"]
            names = tuple(before + part.format(name=name) for part in parts)
            if all(each in arrays for each in names):
                weight = rule(*(arrays[each] for each in names))
                if weight is not None:
                    yield before + name, weight, names


_WRAPPERS = re.compile(r"(?:^|(?<=\.))(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
"""Parts of names that `torch.compile` and sharding insert."""
Rename = Mapping[str, str]


@dataclass(frozen=True)
class Match:
    """The array for a parameter, the names of the tensors that form it, and the changes to these."""

    array: Array
    names: tuple[str, ...]
    changes: tuple[str, ...]


def renamed(name: str, rename: Rename) -> str:
    """A name in a file after the renames, which are regular expressions."""
    name = _WRAPPERS.sub("", name)
    for pattern, replacement in rename.items():
        name = re.sub(pattern, replacement, name)
    return name


def check_rename(function: str, rename: object) -> Rename:
    """Renames that are regular expressions; raises GraphTypeError or GraphValueError for others."""
    if rename is None:
        return {}
    if not isinstance(rename, Mapping) or not all(isinstance(t, str) for pair in rename.items() for t in pair):
        raise GraphTypeError(f"For {function!r}, 'rename' is a dict of patterns and replacements, not {rename!r}.")
    for pattern, replacement in rename.items():
        try:
            re.compile(pattern)
            re.sub(f"{pattern}|", replacement, "")
        except (re.error, IndexError) as error:
            text = f"For {function!r}, 'rename' has {pattern!r}: {replacement!r}, which is not a regular expression"
            raise GraphValueError(f"{text}: {error}.") from None
    return rename


class Tensors:
    """The tensors of a file by name after renames, and the detection of transposed ones.

    Raises GraphValueError if two names are equal after the renames, and for `tied` names that are missing.
    """

    def __init__(self, arrays: Arrays, rename: Rename, tied: Mapping[str, str], transposed: str | None) -> None:
        self.arrays: Arrays = {}
        self.originals: dict[str, Parts] = {}
        self.transposed = transposed
        for original, array in arrays.items():
            name = renamed(original, rename)
            if name in self.arrays:
                text = f"Renaming makes {self.originals[name][0]!r} and {original!r} both {name!r}; change the pattern"
                raise GraphValueError(f"{text}.")
            self.arrays[name], self.originals[name] = array, (original,)
        for name, array, parts in [*normalized_weights(self.arrays)]:
            self.originals[name] = tuple(self.originals.pop(part)[0] for part in parts)
            self.arrays[name] = array
            for part in parts:
                del self.arrays[part]
        for name, source in tied.items():
            if source not in self.arrays:
                near = nearest(source, self.arrays)
                text = f"{name!r} is tied to {source!r}, which is not among the weights"
                raise GraphValueError(f"{text}; the nearest is {near!r}." if near else f"{text}.")
            self.arrays[name], self.originals[name] = self.arrays[source], self.originals[source]

    def matrix(self, name: str) -> tuple[Array, bool]:
        """A matrix as (outputs, inputs), and whether it was transposed for that."""
        array = self.arrays[name]
        is_other = array.ndim == 2 and self._is_transposed(name, array)
        return (array.T, True) if is_other else (array, False)

    def _is_transposed(self, name: str, array: Array) -> bool:
        if self.transposed is not None and re.search(self.transposed, self.originals[name][0]):
            return True
        known = self._orientation(name, array)
        return self._transposed_modules.get(_module(name), False) if known is None else known

    def _orientation(self, name: str, array: Array) -> bool | None:
        """Tells whether a matrix is (inputs, outputs), by the size of its bias; None if that is ambiguous."""
        bias = self.arrays.get(f"{name.removesuffix('weight')}bias")
        rows, columns = array.shape
        if rows == columns or bias is None or bias.ndim != 1 or not name.endswith(".weight"):
            return None
        return bool(len(bias) == columns)

    @cached_property
    def _transposed_modules(self) -> dict[str, bool]:
        """For module names such as c_proj, whether their matrices are stored transposed, if they all agree."""
        orientations: dict[str, set[bool]] = {}
        for name, array in self.arrays.items():
            if array.ndim == 2 and (known := self._orientation(name, array)) is not None:
                orientations.setdefault(_module(name), set()).add(known)
        return {module: True in sides for module, sides in orientations.items() if len(sides) == 1}


def _module(name: str) -> str:
    return name.removesuffix(".weight").rpartition(".")[2]


@dataclass(frozen=True)
class Prefix:
    """A prefix of the names of the file that those of the network lack, or the other way round."""

    of_file: str = ""
    of_network: str = ""

    def of(self, name: str) -> Iterator[str]:
        """The possible names in the file for a name of the network."""
        yield name
        yield self.of_file + name
        yield name.removeprefix(self.of_network)


def find_prefix(names: Iterable[str], known: Mapping[str, object]) -> Prefix:
    """The prefix under which the file has most of the missing names, if there is only one such prefix."""
    absent = {name for name in names if name not in known}
    of_file, of_network = _prefix_counts(known, absent), _prefix_counts(absent, known)
    best = max([*of_file.values(), *of_network.values()], default=0)
    first = [Prefix(of_file=prefix) for prefix, count in of_file.items() if count == best]
    both = first + [Prefix(of_network=prefix) for prefix, count in of_network.items() if count == best]
    return both[0] if len(both) == 1 else Prefix()


def _prefix_counts(names: Iterable[str], ends: Iterable[str]) -> dict[str, int]:
    """The number of names that become one of the ends without a prefix that ends in a dot, by prefix."""
    ends, counts = set(ends), dict[str, int]()
    for name in names:
        for dot in (i + 1 for i, letter in enumerate(name) if letter == "."):
            if name[dot:] in ends:
                counts[name[:dot]] = counts.get(name[:dot], 0) + 1
    return counts


def match_for(mapping: ParameterMapping, tensors: Tensors, prefix: Prefix) -> Match | None:
    """The array of a file for a parameter, in its layout; None if the file has none."""
    recipe = recipe_for(mapping, tensors.arrays, prefix)
    return None if recipe is None else assembled(mapping, *recipe, tensors)


def recipe_for(
    mapping: ParameterMapping, known: Mapping[str, object], prefix: Prefix
) -> tuple[Recipe, list[str]] | None:
    """The first recipe whose names are all known, and these names; None if there is no such recipe."""
    for recipe in mapping.recipes():
        names = [next((each for each in prefix.of(name) if each in known), None) for name in recipe.names]
        present = [name for name in names if name is not None]
        if len(present) == len(names):
            return recipe, present
    return None


def names_of(rows: Iterable[ParameterMapping]) -> Iterator[str]:
    """The possible names of parameters in a file."""
    return (name for mapping in rows for each in mapping.recipes() for name in each.names)


def assembled(mapping: ParameterMapping, recipe: Recipe, names: Sequence[str], tensors: Tensors) -> Match:
    """The array that a recipe forms from tensors."""
    pairs = [tensors.matrix(name) if mapping.is_matrix else (tensors.arrays[name], False) for name in names]
    array, changes = pairs[0][0], ["transposed"] if pairs[0][1] else []
    if len(pairs) > 1:
        array = _joined([each for each, _ in pairs], names)
        changes.append("joined")
    if any(len(tensors.originals[name]) > 1 for name in names):
        changes.append("normalised")
    if recipe.part is not None and array.ndim:
        size = len(array) // 3
        array = array[recipe.part * size : (recipe.part + 1) * size]
        changes.append(f"rows {recipe.part * size} to {(recipe.part + 1) * size - 1}")
    if mapping.has_axis and array.ndim == 3:
        array = array[:, :, None, :]
        changes.append("axis 2 added")
    return Match(array, tuple(part for name in names for part in tensors.originals[name]), tuple(changes))


def _joined(arrays: Sequence[Array], names: Sequence[str]) -> Array:
    try:
        return np.concatenate(arrays)
    except ValueError:
        shapes = ", ".join(f"{name!r} {array.shape}" for name, array in zip(names, arrays, strict=True))
        raise GraphValueError(f"These cannot be joined to one parameter: {shapes}.") from None


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is closest to this one, if any is close."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, list(known), 1, 0.4)), None)


def check_network(function: str, net: object) -> None:
    """Raise GraphTypeError for anything but a network."""
    if not isinstance(net, Cell):
        raise GraphTypeError(f"For {function!r}, the argument 'net' is a Cell, not {net!r}.")


def check_pattern(function: str, pattern: object) -> str | None:
    """A regular expression or None; raises GraphTypeError or GraphValueError for anything else."""
    if pattern is not None and not isinstance(pattern, str):
        raise GraphTypeError(f"For {function!r}, 'transposed' is a regular expression, not {pattern!r}.")
    check_rename(function, {pattern: ""} if pattern else {})
    return pattern


Matches = Sequence[tuple[ParameterMapping, Match]]


def distinct_matches(matches: Matches) -> Matches:
    """One match for each parameter; raises GraphValueError if a shared one would get different tensors."""
    first: dict[int, tuple[ParameterMapping, Match]] = {}
    for mapping, match in matches:
        other = first.setdefault(id(mapping.parameter), (mapping, match))[1]
        if other.names != match.names and not np.array_equal(other.array, match.array):
            text = f"{other.names[0]!r} and {match.names[0]!r} differ, and both are for {mapping.path!r}"
            raise GraphValueError(f"{text}, one parameter that cells of the network share.")
    return list(first.values())


def misfit(parameter: Parameter, path: str, match: Match) -> str:
    """The difference of an array from a parameter in shape or kind of numbers; "" if it fits."""
    shape, source = match.array.shape, " + ".join(map(repr, match.names))
    if shape != parameter.shape:
        return f"{path!r} has the shape {parameter.shape} and {source} has {shape}"
    dtype = type_of(match.array).dtype
    same = dtype.is_float if parameter.dtype.is_float else _kind(dtype) == _kind(parameter.dtype)
    return "" if same else f"{path!r} holds {parameter.dtype!r} and {source} {dtype!r}"


def fits_transposed(parameter: Parameter, match: Match) -> bool:
    """Whether an array has another shape than its parameter, and its transpose has the same."""
    shape = match.array.shape
    return len(shape) == 2 and shape != parameter.shape and shape[::-1] == parameter.shape


def _kind(dtype: DType) -> str:
    return "int" if dtype.kind == "uint" else dtype.kind


def cast_changes(parameter: Parameter, match: Match) -> Iterator[str]:
    """The change of an array whose dtype differs from the parameter's, for the report."""
    if match.array.dtype != parameter.dtype.numpy:
        yield f"from {match.array.dtype}"


def converted(parameter: Parameter, match: Match) -> Array:
    """A copy of the array in the dtype of the parameter."""
    return np.array(match.array, parameter.dtype.numpy, order="C")


def outward_names(rows: Iterable[ParameterMapping], renames: Rename) -> dict[str, ParameterMapping]:
    """Mappings by name in PyTorch after renames; raises GraphValueError if two would have one name."""
    mappings: dict[str, ParameterMapping] = {}
    for mapping in rows:
        name = mapping.name
        for old, new in renames.items():
            name = re.sub(old, new, name)
        if name in mappings:
            raise GraphValueError(f"Two parameters of the network are called {name!r} in PyTorch; change the rename.")
        mappings[name] = mapping
    return mappings


def outward(mapping: ParameterMapping, array: Array, name: str, pattern: str | None) -> Array:
    """A parameter's array, or one of its shape, in PyTorch's layout."""
    array = array.squeeze(2) if mapping.has_axis else array
    is_other = mapping.is_matrix and pattern is not None and re.search(pattern, name)
    return np.ascontiguousarray(array.T) if is_other else array


def listed(texts: Iterable[str]) -> str:
    """Texts with commas between them, of many only the first."""
    each = [*texts]
    more = f" and {len(each) - SHOWN} more" if len(each) > SHOWN else ""
    return ", ".join(each[:SHOWN]) + more
