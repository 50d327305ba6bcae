"""Arrays as a model takes them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphls.command_line.training.model import Input
from graphls.files.tables import Array
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.tensors.tensor import Tensor


def fitting(array: Array, wanted: Input, source: str) -> Array:
    """A batch of an input in the dtype that the model takes; raises for another kind, another shape, and for nan."""
    what = f"{wanted.name!r}"
    array = of_numbers(array, what, source)
    row = wanted.row
    if row is not None and (array.ndim != len(row) + 1 or not _agree(array.shape[1:], row)):
        sizes = str(tuple("any" if size is None else size for size in row)).replace("'", "")
        text = f"The rows of {what} in {source} have the shape {array.shape[1:]}, and the model takes {sizes}"
        raise GraphValueError(f"{text}; reshape the data.")
    if array.dtype.kind in "fV" and np.isnan(array).any():
        at = int(np.flatnonzero(np.isnan(array).reshape(len(array), -1).any(axis=1))[0])
        raise GraphValueError(f"{what} in {source} is nan in row {at}; take such rows out or fill them.")
    return _cast(array, wanted, source)


def _agree(shape: Sequence[int], declared: Sequence[int | None]) -> bool:
    return all(known is None or size == known for size, known in zip(shape, declared, strict=True))


def _cast(array: Array, wanted: Input, source: str) -> Array:
    kind = np.dtype(wanted.dtype.numpy)
    if array.dtype == kind:
        return array
    if wanted.dtype.is_float:
        return array.astype(kind)
    is_bool = wanted.dtype.kind == "bool"
    if is_bool and array.dtype.kind in "iu" and np.isin(array, (0, 1)).all():
        return array.astype(kind)
    if is_bool or array.dtype.kind not in "iub":
        text = f"{wanted.name!r} in {source} is {array.dtype}, and the model takes {wanted.dtype.long_name}"
        raise GraphTypeError(f"{text}; convert the data.")
    limits = np.iinfo(kind)
    if array.size and not limits.min <= int(array.min()) <= int(array.max()) <= limits.max:
        text = f"{wanted.name!r} in {source} goes from {array.min()} to {array.max()}"
        raise GraphValueError(f"{text}, which {wanted.dtype.long_name} does not hold; give smaller numbers.")
    return array.astype(kind)


def of_numbers(array: object, what: str, source: str) -> Array:
    """An array of numbers with rows; raises GraphTypeError for text and other objects, GraphValueError without rows."""
    found = array.asnumpy() if isinstance(array, Tensor) else np.asarray(array)
    if found.dtype.kind in "Mmc":
        raise GraphTypeError(f"{what} in {source} is of the type {found.dtype}; give real numbers.")
    if found.dtype.kind in "USO":
        bad = next((text for text in found.reshape(-1) if not _is_number(text)), "objects")
        raise GraphTypeError(f"{what} in {source} holds {str(bad)!r}, which is no number; give numbers only.")
    if found.ndim == 0:
        raise GraphValueError(f"{what} in {source} is one number; give one for each row.")
    return found


def _is_number(text: object) -> bool:
    try:
        float(str(text))
    except ValueError:
        return False
    return True
