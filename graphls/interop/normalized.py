"""Weights that PyTorch makes of others in each step, by `weight_norm` and `spectral_norm`, made of them once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from graphls.interop.sources import Array

Parts = tuple[str, ...]


def _scaled(scale: Array, direction: Array) -> Array | None:
    """A direction of length 1 times a scale, which has one element along the axes that the length is taken of."""
    if scale.ndim not in (0, direction.ndim):
        return None
    axes = tuple(i for i in range(direction.ndim) if scale.ndim == 0 or scale.shape[i] == 1)
    if not axes or any(i not in axes and scale.shape[i] != size for i, size in enumerate(direction.shape)):
        return None
    length: Array = np.sqrt(np.sum(direction * direction, axes, keepdims=True))
    made: Array = direction * (scale / length)
    return made


def _spectral(weight: Array, left: Array, right: Array) -> Array | None:
    """A weight divided by its largest singular value, to which the two vectors belong."""
    if left.ndim != 1 or right.ndim != 1 or len(left) not in weight.shape[:2] or weight.size != left.size * right.size:
        return None
    rows = weight if len(left) == len(weight) else np.moveaxis(weight, 1, 0)  # as of transposed convolutions
    made: Array = weight / np.dot(left, rows.reshape(len(left), -1) @ right)
    return made


FORMS: tuple[tuple[Parts, Callable[..., Array | None]], ...] = (
    (("{name}_orig", "{name}_u", "{name}_v"), _spectral),
    (("{name}_g", "{name}_v"), _scaled),
    (("parametrizations.{name}.original", "parametrizations.{name}.0._u", "parametrizations.{name}.0._v"), _spectral),
    (("parametrizations.{name}.original0", "parametrizations.{name}.original1"), _scaled),
)
"""What the parts of a weight of a name are called, and what makes the weight of them."""
_FIRST = [
    re.compile(r"(?P<before>(?:.*\.)?)" + re.escape(parts[0]).replace(r"\{name\}", r"(?P<name>\w+)"))
    for parts, _ in FORMS
]


def made_weights(arrays: Mapping[str, Array]) -> Iterator[tuple[str, Array, Parts]]:
    """Each weight that is there in parts: its name, itself, and the names of its parts."""
    for path in arrays:
        for pattern, (parts, rule) in zip(_FIRST, FORMS, strict=True):
            found = pattern.fullmatch(path)
            if found is None:
                continue
            before, name = found["before"], found["name"]
            names = tuple(before + part.format(name=name) for part in parts)
            if all(each in arrays for each in names):
                weight = rule(*(arrays[each] for each in names))
                if weight is not None:
                    yield before + name, weight, names
