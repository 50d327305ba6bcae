"""Items of user code as arrays, and rows stacked into batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.tensor import Tensor

Array = np.ndarray[Any, Any]
Row = tuple[Array, ...]
NUMBERS = frozenset((bool, int, float))


def as_array(item: Any) -> Array:
    """An item of a row: a number, text, bytes, a nest of numbers, an array or a tensor, which is not copied.

    Numbers become what NumPy makes of them: int64, float64, bool. Raises GraphTypeError for other objects,
    GraphValueError for nests whose rows differ in length.
    """
    kind = type(item)
    if kind is np.ndarray:
        return item  # type: ignore[no-any-return]
    if kind in NUMBERS or isinstance(item, np.generic):
        return np.asarray(item)
    if isinstance(item, Tensor):
        return item.asnumpy()
    array = _made(item)
    if array.dtype.kind == "O":
        raise GraphTypeError(f"a column holds numbers, text or bytes, not {type(item).__name__} objects")
    return array


def _made(item: Any) -> Array:
    if isinstance(item, (list, tuple)):
        item = [as_array(part) if isinstance(part, Tensor) else part for part in item]
    try:
        return np.asarray(item)
    except ValueError:
        raise GraphValueError("the rows of a nested list must have the same length") from None


def row_of(item: Any, width: int) -> Row:
    """The columns of an item: those of a tuple or a list, or the item itself where there is one column.

    A list is one value where one column is wanted, unless an array is all it holds. Raises GraphValueError where the
    number of columns is not `width`.
    """
    kind = type(item)
    if kind is not tuple and not (isinstance(item, (tuple, list)) and not _is_value(item, width)):
        item = (item,)
    if len(item) != width:
        raise GraphValueError(f"it gave {len(item)} columns where column_names has {width}")
    return tuple([as_array(value) for value in item])


def _is_value(item: Any, width: int) -> bool:
    if width != 1 or isinstance(item, tuple):
        return False
    return not (len(item) == 1 and isinstance(item[0], (np.ndarray, Tensor)))


def stacked(arrays: Sequence[Array], place: int, name: str) -> Array:
    """The arrays of a column of one shape and dtype as one, with a new first axis; texts may differ in length.

    Raises GraphValueError where shapes or dtypes differ, GraphTypeError for arrays of objects.
    """
    kinds = {array.dtype for array in arrays}
    if np.dtype(object) in kinds:
        raise GraphTypeError(f"column {name!r} holds numbers, text or bytes, not objects")
    if len(kinds) > 1 and not ({kind.kind for kind in kinds} <= {"U"} or {kind.kind for kind in kinds} <= {"S"}):
        raise _unlike("types", map(str, kinds), place, name)
    try:
        return np.array(arrays)
    except ValueError:
        raise _unlike("shapes", (str(array.shape) for array in arrays), place, name) from None


def _unlike(what: str, found: Iterable[str], place: int, name: str) -> GraphValueError:
    listed = " and ".join(sorted(set(found)))
    return GraphValueError(f"Cannot batch tensors with different {what} in column {place} ({name!r}): {listed}")
