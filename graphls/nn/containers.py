"""Cells that hold other cells: in a sequence that runs, in a list, in a dict."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeAlias, TypeVar, cast, overload

from graphls import ops
from graphls.base.checks import integer
from graphls.base.errors import GraphIndexError, GraphKeyError, GraphTypeError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.nn.cell import Cell
from graphls.ops.operands import axis_of, tensor_of

__all__ = ["CellDict", "CellList", "SequentialCell", "TimeDistributed"]


Self = TypeVar("Self", bound="CellSequence")


class CellSequence(Cell):
    """Cells in an order, under the names "0", "1", ... or the keys of an OrderedDict."""

    def __len__(self) -> int:
        return len(self._cells)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Cell]:
        return iter(list(self._cells.values()))

    @overload
    def __getitem__(self, index: int) -> Cell: ...

    @overload
    def __getitem__(self: Self, index: slice) -> Self: ...

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self._part(list(self._cells.items())[index])
        return self._cells[self._key(index)]

    def __setitem__(self, index: int, cell: Cell) -> None:
        self._insert(self._key(index), cell, self._prefix())

    def __delitem__(self, index: int | slice) -> None:
        keys = list(self._cells)[index] if isinstance(index, slice) else [self._key(index)]
        remaining = [(key, cell) for key, cell in self._cells.items() if key not in keys]
        self._rebuild([cell for _, cell in remaining] if _are_numbers(self._cells) else remaining)

    def append(self: Self, cell: Cell) -> Self:
        """Add a cell at the end; returns the container. Raises GraphTypeError for anything but a cell."""
        self._insert(str(len(self)), cell, self._prefix())
        return self

    def insert(self, index: int, cell: Cell) -> None:
        """Add a cell before another; all are renumbered, and their parameters renamed.

        Raises GraphIndexError for an index that is out of range, GraphTypeError for anything but a cell.
        """
        if not isinstance(index, int):
            raise GraphTypeError(f"An index of cells is an integer, not {index!r}.")
        if not -len(self) <= index <= len(self):
            raise GraphIndexError(f"There is no index {index} among {len(self)} cells.")
        cells = list(self._cells.values())
        cells.insert(index, _checked(cell))
        self._rebuild(cells)

    def _key(self, index: TensorLike) -> str:
        if isinstance(index, Tensor) and index.dtype.kind in ("int", "uint"):
            index = int(index)
        if isinstance(index, bool) or not isinstance(index, int):
            raise GraphTypeError(f"Cells are indexed by integers and slices, not by {index!r}.")
        if not -len(self) <= index < len(self):
            raise GraphIndexError(f"There is no cell {index} among {len(self)}.")
        keys: list[str] = list(self._cells)
        return keys[index]

    def _prefix(self) -> str:
        """The prefix of parameter names of cells that are added later, as in MindSpore's checkpoints.

        MindSpore finds the keys of the first two cells in the names of their parameters: after "s.0.w" and "s.1.w" it
        is "s.", and after "s.0.inner.0.w" alone "s.0.inner.", as the last "0" counts.
        """
        firsts = ((key, p) for key, cell in self._cells.items() for _, p in islice(cell.parameters_and_names(), 1))
        words = [(key, parameter.name.split(".")) for key, parameter in islice(firsts, 2)]
        prefix = ""
        for at in (at for key, first in words[:1] for at, word in enumerate(first) if word == key):
            prefix = "".join(f"{word}." for word in words[0][1][:at])
            if any(second[at : at + 1] == [key] for key, second in words[1:]):
                break
        return prefix

    def _insert(self, key: str, cell: Any, prefix: str = "") -> None:
        self.insert_child_to_cell(key, _checked(cell))
        if prefix and self._auto_prefix:
            cell.update_parameters_name(f"{prefix}{key}.")

    def _fill(self, cells: Iterable[object], prefix: str = "") -> None:
        """Insert cells by number, or pairs of a key and a cell."""
        for number, item in enumerate(cells):
            key, cell = item if isinstance(item, tuple) else (str(number), item)
            self._insert(key, cell, prefix)

    def _rebuild(self, cells: Iterable[object]) -> None:
        prefix = self._prefix()
        for key in list(self._cells):
            delattr(self, key)
        self._fill(cells, prefix)

    def _part(self: Self, items: list[tuple[str, Cell]]) -> Self:
        """A container of some of the cells, whose parameters keep their names."""
        part = type(self).__new__(type(self))
        Cell.__init__(part, auto_prefix=False)
        part._fill(items)
        part.__dict__["_auto_prefix"] = self._auto_prefix
        return part


class SequentialCell(CellSequence):
    """Cells that run in sequence.

    The first takes the input, of any shape, and each of the others the result of the one before. Cells are passed as
    arguments, as one list, or as one OrderedDict whose keys name them. Raises GraphTypeError for anything but cells.
    """

    def __init__(self, *args: Cell | Iterable[Cell]) -> None:
        super().__init__()
        only = args[0] if len(args) == 1 else None
        if isinstance(only, Mapping):
            self._fill(only.items())
        else:
            self._fill(only if isinstance(only, (list, CellSequence)) else args)

    def construct(self, x: TensorLike) -> Any:
        for cell in self._cells.values():
            x = cell(x)
        return x


class CellList(CellSequence):
    """Cells in a list, which `construct` of the cell that holds it indexes or iterates over.

    They are passed as arguments or as one list. Raises GraphTypeError for anything but cells.
    """

    def __init__(self, *args: Cell | Iterable[Cell], auto_prefix: bool = True) -> None:
        super().__init__(auto_prefix=auto_prefix)
        is_list = len(args) == 1 and isinstance(args[0], (list, tuple, CellSequence))
        self.extend(cast("Iterable[Cell]", args[0] if is_list else args))

    def extend(self, cells: Iterable[Cell]) -> CellList:
        """Add cells at the end; returns the list. Raises GraphTypeError for anything but an iterable of cells."""
        if not isinstance(cells, Iterable):
            raise GraphTypeError(f"extend takes cells in an iterable, not {cells!r}.")
        prefix = self._prefix()
        for cell in list(cells):
            self._insert(str(len(self)), cell, prefix)
        return self

    def __iadd__(self, cells: Iterable[Cell]) -> CellList:
        return self.extend(cells)


CellItems: TypeAlias = "CellDict | Mapping[str, Cell] | Iterable[tuple[str, Cell]]"


class CellDict(Cell):
    """Cells by name, which `construct` of the cell that holds it looks up.

    They are passed as a mapping or as pairs. Raises GraphTypeError for keys that are not strings and values that are
    not cells, GraphKeyError for keys that are empty, hold a dot or name an attribute of every cell.
    """

    def __init__(self, *args: CellItems) -> None:
        super().__init__()
        if len(args) > 1:
            raise GraphTypeError(f"CellDict takes one mapping or iterable of pairs, not {len(args)}.")
        if args:
            self.update(args[0])

    def update(self, cells: CellItems) -> None:
        """Add or exchange cells, from a mapping, another CellDict or pairs."""
        try:
            pairs = list(cells.items() if isinstance(cells, (Mapping, CellDict)) else cells)
            pairs = [(key, cell) for key, cell in pairs]
        except (TypeError, ValueError):
            raise GraphTypeError(f"CellDict takes a mapping or pairs, not {cells!r}.") from None
        for key, cell in pairs:
            self[key] = cell

    def __setitem__(self, key: str, cell: Cell) -> None:
        self._check_key(key)
        self.insert_child_to_cell(key, _checked(cell))

    def _check_key(self, key: TensorLike) -> None:
        if not isinstance(key, str):
            raise GraphTypeError(f"The key of a cell is a string, not {key!r}.")
        if not key or "." in key:
            raise GraphKeyError(f"The key of a cell is not empty and has no dot, as {key!r}.")
        if key not in self._cells and hasattr(self, key):
            raise GraphKeyError(f"The key {key!r} is an attribute of every cell; take another.")

    def __getitem__(self, key: str) -> Cell:
        if key not in self._cells:
            raise GraphKeyError(f"There is no cell {key!r} among {', '.join(self._cells) or 'none'}.")
        return self._cells[key]  # type: ignore[no-any-return]

    def __delitem__(self, key: str) -> None:
        self[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._cells)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._cells))

    def __contains__(self, key: object) -> bool:
        return key in self._cells

    def keys(self) -> Iterable[str]:
        """The names of the cells."""
        return OrderedDict(self._cells).keys()

    def values(self) -> Iterable[Cell]:
        """The cells."""
        return OrderedDict(self._cells).values()

    def items(self) -> Iterable[tuple[str, Cell]]:
        """The cells with their names."""
        return OrderedDict(self._cells).items()

    def pop(self, key: str) -> Cell:
        """Remove a cell and return it; raises GraphKeyError where there is none."""
        cell = self[key]
        del self[key]
        return cell

    def clear(self) -> None:
        """Remove all cells."""
        for key in self:
            del self[key]


def _checked(cell: object) -> Cell:
    if not isinstance(cell, Cell):
        raise GraphTypeError(f"A container of cells holds cells, not {cell!r}.")
    return cell


def _are_numbers(keys: Iterable[str]) -> bool:
    return all(key.isdigit() for key in keys)


class TimeDistributed(Cell):
    """A layer, a cell or an operator, applied to each slice along `time_axis`, with the results stacked along it.

    With `reshape_with_axis` the layer sees all time steps at once: their axis is moved beside that one and joined
    with it, and split from it again in the result. Raises GraphTypeError for a layer that is not callable and for axes
    that are not integers.
    """

    _shown = "time_axis reshape_with_axis"

    def __init__(self, layer: object, time_axis: int, reshape_with_axis: int | None = None) -> None:
        super().__init__()
        if not callable(layer):
            message = f"For 'TimeDistributed', the 'layer' must be a cell or an operator, but got {layer!r}."
            raise GraphTypeError(message)
        self.layer = layer
        self.time_axis = integer("TimeDistributed", "time_axis", time_axis)
        self.reshape_with_axis = (
            None if reshape_with_axis is None else integer("TimeDistributed", "reshape_with_axis", reshape_with_axis)
        )

    def construct(self, inputs: Tensor) -> Tensor:
        x = tensor_of(inputs)
        time = axis_of(self.time_axis, x.ndim)
        if self.reshape_with_axis is None:
            return ops.stack([self.layer(part) for part in ops.unstack(x, time)], time)
        return self._joined(x, time, axis_of(self.reshape_with_axis, x.ndim))

    def _joined(self, x: Tensor, time: int, other: int) -> Tensor:
        beside = x.ndim - 2 if other == x.ndim - 1 else other + 1 if time > other else other - 1
        moved, first = ops.moveaxis(x, time, beside), min(beside, other)
        pair = moved.shape[first : first + 2]
        y = self.layer(ops.reshape(moved, (*moved.shape[:first], pair[0] * pair[1], *moved.shape[first + 2 :])))
        return ops.reshape(y, (*y.shape[:first], *pair, *y.shape[first + 1 :]))
