"""Cell calls in a trace: scopes, casts of inputs and outputs, and call records."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from graphls.base.errors import GraphlsError
from graphls.frontend.tensors.pytree import leaves, map_leaves
from graphls.frontend.tensors.tensor import Symbol
from graphls.frontend.trace.branches import explore
from graphls.frontend.trace.calls import CallRecord, CellCall, Recorded
from graphls.frontend.trace.casting import in_dtype
from graphls.frontend.trace.cell_passes import run_passes
from graphls.frontend.trace.recompute import recomputed
from graphls.frontend.trace.states import StateSymbol, copies
from graphls.frontend.trace.tracer import Tracer


def call_cell(tracer: Tracer, cell: object, args: tuple[object, ...], options: Mapping[str, object]) -> Any:
    """Run a cell's construct inside the trace."""
    frame, start = tracer.here.frame, len(tracer.writes)
    recorded = frame.replayed("call")
    # The second branch of a condition replays what was before it: a cell that ran there does not run again.
    if recorded is not None:
        tracer.repeat_writes(recorded.writes)
        _remember(tracer, cell, args, options, recorded.outputs, start)
        return copies(recorded.outputs)
    tracer.cells[id(cell)] = cell
    outputs = _run(tracer, cell, args, options)
    frame.record(Recorded("call", copies(outputs), tuple(tracer.writes[start:])))
    _remember(tracer, cell, args, options, outputs, start)
    return outputs


def _run(tracer: Tracer, cell: Any, args: tuple[object, ...], options: Mapping[str, object]) -> Any:
    here, first, name = tracer.here, len(tracer.here.builder.nodes), _name(tracer, cell)
    start = len(tracer.writes)
    changes = {
        "cell": cell,
        "scope": f"{here.scope}.{name}".strip("."),
        "phase": cell._phase or here.phase,
        "stage": here.stage if cell.pipeline_stage is None else cell.pipeline_stage,
        "float_type": cell._float_type,
        "casting": None if cell._float_type else cell._casting or here.casting,
    }
    with tracer.inside(**changes) as call:
        if cell._recipe is not None:
            tracer.recipes[call.scope] = cell
        try:
            outputs = explore(tracer, lambda: _constructed(tracer, cell, args, options))
        except GraphlsError as error:
            if here.cell is not None:
                name_cell(error, cell, name)
            raise
        if cell._passes:
            run_passes(tracer, cell, first, start, outputs)
        if cell._is_recomputed:
            results, nodes = outputs, here.builder.nodes[first:]
            outputs = explore(tracer, lambda: recomputed(tracer, nodes, results))
    if here.cell is not None:
        _rename(tracer, cell, outputs)
    if name or here.cell is None:
        values = tuple(leaf.graph_value for leaf in leaves(outputs) if type(leaf) is Symbol)
        tracer.cell_calls.append(CellCall(call.scope, type(cell).__name__, values))
    return outputs


def _name(tracer: Tracer, cell: Any) -> str:
    """The path to a cell from the running one, through containers that do not run themselves."""
    caller, name = tracer.here.cell, str(cell._scope_name)
    if caller is None:
        return ""
    if caller._cells.get(name) is cell:
        return name
    if id(caller) not in tracer.paths:
        tracer.paths[id(caller)] = {id(inner): path for path, inner in caller.cells_and_names()}
    return tracer.paths[id(caller)].get(id(cell), name)


def _constructed(tracer: Tracer, cell: Any, args: tuple[object, ...], options: Mapping[str, object]) -> Any:
    """The results of a cell's construct, between casts of its inputs and outputs."""
    arguments = map_leaves(tracer.cast_input, copies((args, options)))
    outputs, output_type = cell._trace_construct(*arguments[0], **arguments[1]), cell._output_type
    return outputs if output_type is None else map_leaves(lambda leaf: in_dtype(leaf, output_type), outputs)


def _rename(tracer: Tracer, cell: Any, outputs: object) -> None:
    """Name the result of a cell after the cell, where it only has the name of its primitive."""
    scope, e = cell._scope_name, tracer.builder
    if not isinstance(outputs, Symbol) or isinstance(outputs, StateSymbol) or not scope or not e.nodes:
        return
    value, last = outputs.graph_value, e.nodes[-1]
    if value in last.outputs and re.fullmatch(rf"{last.primitive.name}(_\d+)?", value.name):
        e.names.taken.discard(value.name)
        value.name = e.names.fresh(scope.lstrip("_"))


def _remember(
    tracer: Tracer, cell: object, args: tuple[object, ...], options: Mapping[str, object], outputs: object, start: int
) -> None:
    """Record a call that may be differentiated."""
    if not options:
        record = CallRecord(cell, copies(args), copies(outputs), start, len(tracer.writes))
        tracer.here.records[-1].append(record)


_OURS = __name__.partition(".")[0] + "."


def name_cell(error: GraphlsError, cell: Any, name: str) -> None:
    """Add the cell that an error leaves to its message, by its name in the calling cell.

    The innermost cell is described, if its class is one of graphls: `body.6 Dense(256, 10), made at model.py:12`.
    """
    if error.has_text:
        return
    is_ours = type(cell).__module__.startswith(_OURS)
    error.within(name, _described(cell) if is_ours and error.path is None else "")


def _described(cell: Any) -> str:
    """The description of a cell: its first sizes, and its line: Dense(256, 10), made at model.py:12."""
    values = re.findall(r"\w+=(\([^)]*\)|[^,]+)", cell.extend_repr())
    sizes = takewhile(lambda value: re.fullmatch(r"\d+|\(.*\)", value), values[:3])
    line = cell.__dict__.get("_made_at")
    return f"{type(cell).__name__}({', '.join(sizes)}){f', made at {line}' if line else ''}"
