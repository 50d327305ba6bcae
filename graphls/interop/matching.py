"""Which tensors of a file make which parameters, and in which layout they are there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.interop.normalized import Parts, made_weights
from graphls.interop.parameter_mapping import Place, Recipe
from graphls.interop.sources import Array, Arrays

_WRAPPERS = re.compile(r"(?:^|(?<=\.))(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
"""Parts of names that `torch.compile` and sharding put in."""
Rename = Mapping[str, str]


@dataclass(frozen=True)
class Found:
    """The array for a parameter, the names of what it was made of, and what was done to that."""

    array: Array
    names: tuple[str, ...]
    changes: tuple[str, ...]


def renamed(name: str, rename: Rename) -> str:
    """A name of a file after the renames, which are regular expressions."""
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
            text = f"For {function!r}, 'rename' has {pattern!r}: {replacement!r}, which is no regular expression"
            raise GraphValueError(f"{text}: {error}.") from None
    return rename


class Tensors:
    """The tensors of a file under the names that they have after renames, and those that are stored transposed.

    Raises GraphValueError where renames make two names one, and for `tied` names that are not there.
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
        for name, array, parts in [*made_weights(self.arrays)]:
            self.originals[name] = tuple(self.originals.pop(part)[0] for part in parts)
            self.arrays[name] = array
            for part in parts:
                del self.arrays[part]
        for name, kept in tied.items():
            if kept not in self.arrays:
                near = nearest(kept, self.arrays)
                text = f"{name!r} is tied to {kept!r}, which is not among the weights"
                raise GraphValueError(f"{text}; the nearest is {near!r}." if near else f"{text}.")
            self.arrays[name], self.originals[name] = self.arrays[kept], self.originals[kept]

    def matrix(self, name: str) -> tuple[Array, bool]:
        """A matrix as (outputs, inputs), and whether that is its transpose."""
        array = self.arrays[name]
        is_other = array.ndim == 2 and self._is_transposed(name, array)
        return (array.T, True) if is_other else (array, False)

    def _is_transposed(self, name: str, array: Array) -> bool:
        if self.transposed is not None and re.search(self.transposed, self.originals[name][0]):
            return True
        known = self._orientation(name, array)
        return self._transposed_modules.get(_module(name), False) if known is None else known

    def _orientation(self, name: str, array: Array) -> bool | None:
        """Whether a matrix is (inputs, outputs), as its bias shows; None where that shows nothing."""
        bias = self.arrays.get(f"{name.removesuffix('weight')}bias")
        rows, columns = array.shape
        if rows == columns or bias is None or bias.ndim != 1 or not name.endswith(".weight"):
            return None
        return bool(len(bias) == columns)

    @cached_property
    def _transposed_modules(self) -> dict[str, bool]:
        """Whether modules of a name, such as c_proj in all layers, are stored transposed, where all agree."""
        found: dict[str, set[bool]] = {}
        for name, array in self.arrays.items():
            if array.ndim == 2 and (known := self._orientation(name, array)) is not None:
                found.setdefault(_module(name), set()).add(known)
        return {module: True in sides for module, sides in found.items() if len(sides) == 1}


def _module(name: str) -> str:
    return name.removesuffix(".weight").rpartition(".")[2]


@dataclass(frozen=True)
class Prefixes:
    """What names of the file begin with and those of the network do not, or the other way round."""

    of_file: str = ""
    of_network: str = ""

    def of(self, name: str) -> Iterator[str]:
        """What a name of the network may be in the file."""
        yield name
        yield self.of_file + name
        yield name.removeprefix(self.of_network)


def prefixes(wanted: Iterable[str], known: Mapping[str, object]) -> Prefixes:
    """The beginning under which most of the names that are not there as they are stand in the file, if it is one."""
    absent = {name for name in wanted if name not in known}
    of_file, of_network = _beginnings(known, absent), _beginnings(absent, known)
    best = max([*of_file.values(), *of_network.values()], default=0)
    first = [Prefixes(of_file=prefix) for prefix, count in of_file.items() if count == best]
    both = first + [Prefixes(of_network=prefix) for prefix, count in of_network.items() if count == best]
    return both[0] if len(both) == 1 else Prefixes()


def _beginnings(names: Iterable[str], ends: Iterable[str]) -> dict[str, int]:
    """How many names become one of the ends without a beginning that ends in a dot, by that beginning."""
    ends, counts = set(ends), dict[str, int]()
    for name in names:
        for dot in (i + 1 for i, letter in enumerate(name) if letter == "."):
            if name[dot:] in ends:
                counts[name[:dot]] = counts.get(name[:dot], 0) + 1
    return counts


def found_for(place: Place, tensors: Tensors, beginning: Prefixes) -> Found | None:
    """What a file has for a place, in the layout of the parameter; None where it has nothing."""
    present = present_for(place, tensors.arrays, beginning)
    return None if present is None else made_of(place, *present, tensors)


def present_for(place: Place, known: Mapping[str, object], beginning: Prefixes) -> tuple[Recipe, list[str]] | None:
    """The first recipe whose names are all known, and what they are; None where there is none."""
    for recipe in place.recipes():
        names = [next((each for each in beginning.of(name) if each in known), None) for name in recipe.names]
        present = [name for name in names if name is not None]
        if len(present) == len(names):
            return recipe, present
    return None


def names_of(rows: Iterable[Place]) -> Iterator[str]:
    """What parameters may be called in a file."""
    return (name for place in rows for each in place.recipes() for name in each.names)


def made_of(place: Place, recipe: Recipe, names: Sequence[str], tensors: Tensors) -> Found:
    """The array that a recipe makes of tensors."""
    pairs = [tensors.matrix(name) if place.is_matrix else (tensors.arrays[name], False) for name in names]
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
    if place.has_axis and array.ndim == 3:
        array = array[:, :, None, :]
        changes.append("axis 2 added")
    return Found(array, tuple(part for name in names for part in tensors.originals[name]), tuple(changes))


def _joined(arrays: Sequence[Array], names: Sequence[str]) -> Array:
    try:
        return np.concatenate(arrays)
    except ValueError:
        shapes = ", ".join(f"{name!r} {array.shape}" for name, array in zip(names, arrays, strict=True))
        raise GraphValueError(f"These cannot be joined to one parameter: {shapes}.") from None


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like this one, if one is."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, list(known), 1, 0.4)), None)
