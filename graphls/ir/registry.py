"""What the IR needs to know of a primitive, and the table that finds one by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from graphls.ir.errors import GraphKeyError
from graphls.ir.types import Type


class Operation(Protocol):
    """A primitive as the IR sees it: a name, a type rule and a NumPy rule."""

    @property
    def name(self) -> str:
        """The name in the text form."""

    @property
    def on_host(self) -> bool:
        """Whether the results are made in NumPy before a step and fed to it."""

    @property
    def is_view(self) -> bool:
        """Whether the results are the first operands, in other words or another shape, without memory of their own."""

    def result_types(
        self, types: tuple[Type, ...], attrs: Mapping[str, Any], regions: tuple[Any, ...]
    ) -> tuple[Type, ...]:
        """The types of the outputs; raises GraphlsError where the inputs do not fit."""

    def evaluate(
        self, arrays: tuple[Any, ...], attrs: Mapping[str, Any], types: tuple[Type, ...]
    ) -> tuple[Any, ...]:
        """The outputs, of these `types`, as NumPy arrays."""

    def run_regions(
        self,
        arrays: tuple[Any, ...],
        attrs: Mapping[str, Any],
        types: tuple[Type, ...],
        run: Callable[[int, tuple[Any, ...]], tuple[Any, ...]],
    ) -> tuple[Any, ...]:
        """The outputs of a node with regions; `run(number, arrays)` gives what a region yields for its parameters."""

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """How many floating point operations one run takes, without those of its regions."""

    def region_runs(self, attrs: Mapping[str, Any], flops: tuple[int, ...]) -> tuple[int, ...]:
        """How often each region counts, given how many operations each of them takes."""


_operations: dict[str, Operation] = {}


def register(operation: Operation) -> None:
    """Make a primitive known by its name, in place of one that had it before."""
    _operations[operation.name] = operation


def lookup(name: str) -> Operation:
    """The primitive of that name; raises GraphKeyError that suggests the nearest one."""
    try:
        return _operations[name]
    except KeyError:
        raise GraphKeyError(f"There is no primitive {name!r}{nearest(name, _operations)}.") from None


def operations() -> tuple[Operation, ...]:
    """Every primitive, by name."""
    return tuple(_operations[name] for name in sorted(_operations))


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'` for the closest known name, or nothing."""
    from difflib import get_close_matches

    found = get_close_matches(name, list(known), 1)
    return f"; did you mean {found[0]!r}" if found else ""
