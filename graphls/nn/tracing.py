"""Tracing of cells and functions (`trace_graph`), and evaluation mode for a block (`evaluating`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from graphls.base.errors import GraphTypeError
from graphls.frontend.tensors.configuration import Configuration
from graphls.frontend.trace.inputs import static_inputs
from graphls.frontend.trace.trace import Traced, trace
from graphls.frontend.trace.tracer import current_tracer
from graphls.ir.sharding import Mesh
from graphls.nn.cell import Cell, input_names


def trace_graph(
    cell: Callable[..., object], *inputs: object, names: Sequence[str] | None = None, mesh: Mesh | None = None
) -> Traced:
    """Trace a cell or function on inputs like these; the graph has no backward yet.

    `names` are those of the inputs, by default the parameters of a cell. On a `mesh` of devices the graph has the
    shardings of parameters and those that `ops.shard` requires.

    Raises GraphTypeError for anything but a cell or a function, and inside of `construct`.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import ops
        >>> traced = graphls.trace_graph(lambda x: ops.relu(x) * 2, np.ones((2, 3), np.float32))
        >>> [node.primitive.name for node in traced.graph.nodes]
        ['relu', 'constant', 'mul']
    """
    if current_tracer() is not None:
        raise GraphTypeError("A step is compiled outside of construct; call the cell instead.")
    if not callable(cell):
        raise GraphTypeError(f"compile takes a cell or a function, not {type(cell).__name__}.")
    if hasattr(cell, "named_buffers") and hasattr(cell, "forward") and not isinstance(cell, Cell):
        text = f"compile takes a cell or a function, and {type(cell).__name__} is a module of PyTorch"
        raise GraphTypeError(f"{text}; write it as a nn.Cell, which graphls.interop.torch gives its weights.")
    if names is None:
        names = input_names(cell, len(inputs)) if isinstance(cell, Cell) else []
    return trace(cell, tuple(map(static_inputs, inputs)), names, _graph_name(cell), mesh)


def _graph_name(cell: object) -> str:
    name = type(cell).__name__ if isinstance(cell, Cell) else getattr(cell, "__name__", "main")
    return name if name.isidentifier() else "main"


@contextmanager
def evaluating(net: object) -> Iterator[None]:
    """Put every cell of a network in evaluation mode for a block, and restore each afterwards."""
    cells = [cell for _, cell in net.cells_and_names()] if isinstance(net, Cell) else []
    flags = [cell.training for cell in cells]
    _set_training(cells, [False] * len(cells))
    try:
        yield
    finally:
        _set_training(cells, flags)


def _set_training(cells: list[Cell], flags: list[bool]) -> None:
    for cell, flag in zip(cells, flags, strict=True):
        cell.__dict__["training"] = flag
    Configuration.note_change()
