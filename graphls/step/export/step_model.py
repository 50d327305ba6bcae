"""The ONNX model of a compiled step, and the placement of its operators."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from onnx import ModelProto

from graphls.base.errors import GraphValueError
from graphls.base.reporting import checked
from graphls.ir.graph import Graph, walk
from graphls.nn.cell import Cell
from graphls.passes import Pipeline
from graphls.passes.schedule.host_calls import calls_for_results, without_calls, without_effects
from graphls.passes.simplify.dce import Dce
from graphls.runtime.lowering import Lowered, lower
from graphls.runtime.lowering.kernel_tables import NEWEST_CHOSEN, OLDEST_RUNTIME
from graphls.runtime.lowering.metadata import described
from graphls.runtime.lowering.types import LOW_OPSETS
from graphls.runtime.lowering.weights import complete, write_model
from graphls.runtime.onnxruntime.placement import Placement, place
from graphls.runtime.onnxruntime.runtime import installed_version
from graphls.runtime.step import Step
from graphls.step.export.network_prediction import dynamic_step


def graph_of(step: Step) -> Graph:
    """The graph that a model holds: without effects such as prints."""
    quiet = without_effects(step.graph)
    return step.graph if quiet is step.graph else Dce().run(quiet)


def lowered(step: Step, opset: int | None = None) -> Lowered:
    """The model of the session or, at another opset, a model for any runtime."""
    graph = graph_of(step)
    of_session: Lowered | None = getattr(step.session, "unblocked", None) if graph is step.graph else None
    return of_session if of_session is not None and opset is None else _lower(step, graph, opset)


def _lower(step: Step, graph: Graph, opset: int | None) -> Lowered:
    """A model for the runtime at hand or, at another opset, for any."""
    return lower(graph, device=step.session.device, opset=opset, runtime=None if opset else installed_version())


def _lowered_natively(step: Step, opset: int | None) -> Lowered:
    """A model with tensors of the low dtypes of the step; raises GraphValueError for an opset that lacks one."""
    graph = graph_of(step)
    values = (*graph.inputs, *graph.states, *(v for node in walk(graph) for v in node.outputs))
    since = {v.type.dtype: LOW_OPSETS[v.type.dtype] for v in values if v.type.dtype.is_low}
    opset = opset or max((NEWEST_CHOSEN, *since.values()))
    for dtype, first in since.items():
        if opset < first:
            text = f"ONNX has {dtype.long_name} from opset {first} on, not in {opset}"
            raise GraphValueError(f"{text}; take a later one, or save without native_low.")
    return lower(graph, device=step.session.device, opset=opset, native_low=True)


def lowered_for_any_rows(step: Step, cell: object, pipeline: Pipeline, opset: int | None) -> Lowered:
    """A model for any number of rows; raises GraphValueError for the step of a function."""
    if not isinstance(cell, Cell) or type(cell).__name__ != step.graph.name:
        raise GraphValueError("Only the step of a cell is exported for any number of rows; make a cell of it.")
    return dynamic_step(cell, step.graph.inputs, pipeline, partial(_lower, step, opset=opset))


def complete_model(step: Step) -> ModelProto:
    """The model with all of its constants; see `Compiled.onnx`."""
    model = lowered(step)
    return complete(described(model, graph_of(step)), model.outside)


def save(step: Step, path: Path, opset: int | None, native_low: bool) -> None:
    """Write the model to a file; see `Compiled.save`."""
    model = _lowered_natively(step, opset) if native_low else lowered(step, opset)
    checked(write_model, path, described(model, graph_of(step)), model.outside)


def placement(step: Step, runtime: str | None, device: str | None) -> Placement:
    """Which operators of the step have a kernel on a device; see `Compiled.placement`."""
    own, here = step.session.device, installed_version()
    device, version = device or own, runtime or here or OLDEST_RUNTIME
    graph = without_calls(step.graph) if calls_for_results(step.graph) else graph_of(step)
    if (device, version) == (own, here) and graph is step.graph:
        model = lowered(step)
    else:
        model = lower(graph, device=device, runtime=version)
    return place(model.model, version, device, model.origins, low_products=model.low_products)
