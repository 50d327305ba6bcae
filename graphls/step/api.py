"""The compile pipeline on one screen: trace, passes, proof, session, step."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError
from graphls.base.files.files import as_path
from graphls.base.reporting import checked
from graphls.base.sharing.locks import compiling
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.trace.inputs import InputCheck, read_inputs
from graphls.frontend.trace.trace import PLACE, Traced
from graphls.ir.engines import AUTO, require_mesh, runs_meshes
from graphls.ir.plan import is_plan
from graphls.ir.sharding import Mesh
from graphls.nn.tracing import trace_graph as trace_graph
from graphls.passes import Pipeline, PipelineResult, as_pipeline
from graphls.passes.distributed.sharding_proof import verify_shardings
from graphls.passes.distributed.shardings import Axes, Shardings
from graphls.passes.manager import DEFAULT_PASSES
from graphls.passes.overflow.overflow import with_mode
from graphls.passes.precision.proof import verify_low_precision
from graphls.passes.schedule.host_calls import verify_host_calls
from graphls.passes.windows import verify_windows
from graphls.runtime.context import cuda_of_context, default_engine, default_layout
from graphls.runtime.context.device_layout import DeviceLayout
from graphls.runtime.context.parallel import shard_threshold
from graphls.runtime.devices import Cuda
from graphls.runtime.engine_choice import choose_engine
from graphls.runtime.simulation import as_simulated, end_if_simulated
from graphls.runtime.step import Step
from graphls.runtime.target import ExecutionTarget
from graphls.step.export.manifest import tree_of
from graphls.step.export.read import read_bundle
from graphls.step.extra_outputs import check_stages
from graphls.step.host_effects import HostEffects
from graphls.step.lint import Lint, warn_of_placement
from graphls.step.recipes import drop_unread, for_recipes
from graphls.step.shards import divide_states, for_mesh, for_ranks, on_mesh, shardings_of
from graphls.step.step import Compiled

GRAPH_PASSES = "gradient, join, hoist, overflow, fold, cse, merge, select, dce, order"
CPU_PASSES = "gradient, join, hoist, overflow, fold, cse, merge, factor, dce, order"
_DEFAULT = re.compile(r"((?:^|,)\s*)default(?=\s*(?:,|$))")


def compile(
    cell: Callable[..., object], *inputs: object, device: str | Cuda = "cpu", passes: object = None,
    backend: str = "onnxruntime", overflow_mode: str | None = None, engine: str | None = None, mesh: Mesh | None = None,
    zero: int | None = None, input_shardings: Sequence[Axes | None] = (),
) -> Compiled:  # fmt: skip
    """Compile a cell, or a function of tensors, for inputs like these into one static step.

    `inputs` give shapes and dtypes; numbers and None among them become constants. `device` is "cpu", "cuda" or
    `graphls.Cuda(...)`, which says on which GPU and how; "cuda" is the GPU that `set_context` says. `passes` is a
    pipeline text or a sequence of passes, in place of the default one, for which the word `default` in a text stands:
    "mine, default" runs a pass of yours before all others. `backend` is "onnxruntime", or "numpy" for the
    reference interpreter, which needs no runtime. `overflow_mode` says what raises the status of loss scaling:
    "outputs" (the default), what the step checks, or "window", every float value made in the window; in `passes` of
    your own it is the mode of the overflow pass. `engine` runs what it takes of the step, "onnxruntime" the rest; by
    default it is what `set_context` says. "auto" is the fastest one, which the attribute `engine_choice` of the step
    names. See docs/engines.md.

    On a `mesh` of devices, which the engine "xla" runs, the mesh axis "data" divides the first axis of each input that
    it divides evenly; `input_shardings` says otherwise for the inputs in order, as `ops.shard` takes it: ("data", None)
    for a matrix, () for a whole input, None for what it would be. Parameters are divided as their `sharding` says, and
    the states of optimizers as their parameters. `zero` is the level of ZeRO: "data" also divides the states of
    optimizers (1), gradients (2) and parameters (3). By default mesh and level are what `set_context` says.

    Raises GraphlsError with the user's line for code that cannot be traced and for shapes and dtypes that do not
    fit, GraphRuntimeError where a runtime or device is missing.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import nn
        >>> step = graphls.compile(nn.Dense(2, 1, "ones", has_bias=False), np.ones((3, 2), np.float32))
        >>> step(np.array([[1, 2], [3, 4], [5, 6]], np.float32)).asnumpy().tolist()
        [[3.0], [7.0], [11.0]]
    """
    device = cuda_of_context() if device == "cuda" else device
    engine = default_engine(device) if engine is None else engine
    inputs = read_inputs(inputs)
    layout = default_layout() if mesh is None else default_layout().on(require_mesh(mesh))
    target, level = as_simulated(
        ExecutionTarget(backend, device, engine, layout.mesh), layout.zero if zero is None else zero
    )
    layout, shardings = replace(layout.on(target.mesh), zero=level), _of_inputs(input_shardings)
    if zero is not None or shardings:
        Shardings(level, layout.data, shardings).require(target.mesh)
    target.check()
    with compiling():
        return _compiled(cell, inputs, target, passes, overflow_mode, layout, shardings)


def _of_inputs(shardings: object) -> tuple[Any, ...]:
    if not isinstance(shardings, (tuple, list)):
        text = "'input_shardings' has a sharding for each input in order, such as [('data', None), ()]"
        raise GraphTypeError(f"{text}, and cannot be {shardings!r}.")
    return tuple(shardings)


def _compiled(
    cell: Callable[..., object], inputs: Sequence[object], target: ExecutionTarget, passes: object,
    overflow_mode: str | None, layout: DeviceLayout, input_shardings: tuple[Axes | None, ...],
) -> Compiled:  # fmt: skip
    traced = trace_graph(cell, *inputs, mesh=target.mesh)
    passes = "default" if passes is None else passes
    named = _named(passes, _default_passes(target))
    pipeline = for_recipes(_pipeline(named, overflow_mode), traced)
    if named != passes:
        pipeline = for_ranks(pipeline, traced.parameters, shard_threshold())
    if target.mesh is not None and not any(isinstance(each, Shardings) for each in pipeline.passes):
        pipeline = for_mesh(pipeline, shardings_of(layout, traced, input_shardings))
    result = pipeline.run(traced.graph, source="trace")
    drop_unread(traced, result.graph)
    check_stages(traced, result.stages)
    verify_windows(result.graph)
    verify_shardings(result.graph)
    verify_low_precision(result.graph, {scope: cell._recipe for scope, cell in traced.recipes.items()})
    verify_host_calls(result.graph)
    divide_states(result.graph, traced.parameters)
    Lint(cell, traced, result.graph).warn()
    return open_step(traced, inputs, pipeline, result, target)


def open_step(
    traced: Traced, inputs: Sequence[object], pipeline: Pipeline, result: PipelineResult, target: ExecutionTarget
) -> Compiled:
    """The compiled step of a final graph: its partition is the last stage, and its session runs that."""
    effects = HostEffects(result.graph)
    choice = None
    if target.engine == AUTO:
        read_examples = partial(InputCheck(result.graph, tuple(inputs)), tuple(inputs))
        choice = choose_engine(target, effects.graph, traced.parameters, read_examples)
        target = replace(target, engine=choice.engine)
    partitioned = target.partitioned(effects.graph)
    end_if_simulated(partitioned)
    if is_plan(partitioned):
        result = result.with_stage("partition", partitioned)
    step = Step(result.graph, effects.graph, partitioned, traced.parameters, traced.outputs, target)
    compiled = Compiled(traced, inputs, pipeline, result.stages, step, effects, choice)
    if target.device != "cpu":
        warn_of_placement(compiled)
    return compiled


def load_step(
    directory: str | os.PathLike[str], states: str | os.PathLike[str] | None = None, *, device: str | Cuda = "cpu",
    backend: str = "onnxruntime", engine: str | None = None, mesh: Mesh | None = None,
) -> Compiled:  # fmt: skip
    """The step that `Compiled.export` has written to a directory, ready to go on from the states there.

    `states` is a file of safetensors in place of `state.safetensors`, such as one that a loop in another language has
    saved. The numbers are those that the step would have given where it was exported. Its `parameters`, by name, are
    new ones: `save_checkpoint(step.parameters, path)` writes them for networks. `device`, `backend` and `engine` are
    as in `compile`. A step on a mesh runs on one of other sizes, such as Mesh(data=1, model=1), if `mesh` says so, and
    on one device where the engine has no meshes.

    Raises GraphFileError for a file that cannot be read; GraphValueError for one that is damaged, of a newer version or
    of another export, for states that are missing or of other shapes, and for a mesh that cannot divide the step.

    Raises GraphTypeError for a directory that is neither a string nor a path.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import nn
        >>> net = nn.Dense(2, 1, weight_init="zeros", bias_init="zeros")
        >>> train = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.1))
        >>> x, y = np.ones((4, 2), np.float32), np.ones((4, 1), np.float32)
        >>> step = graphls.compile(train, x, y)
        >>> step(x, y)
        Tensor(shape=[], dtype=Float32, value=1.0)
        >>> folder = step.export("step")
        >>> again = graphls.load_step("step")
        >>> again(x, y)  # the second step, in a process that need not have the classes
        Tensor(shape=[], dtype=Float32, value=0.15999998152256012)
    """
    device = cuda_of_context() if device == "cuda" else device
    engine = default_engine(device) if engine is None else engine
    target = ExecutionTarget(backend, device, engine)
    target.check()
    bundle = checked(read_bundle, as_path(directory), None if states is None else as_path(states))
    graph = on_mesh(bundle.graph, mesh, runs_meshes("numpy" if backend == "numpy" else engine))
    parameters = {name: Parameter.holding(array, name) for name, array in bundle.states.items()}
    replace(target, mesh=graph.mesh).check()
    traced = Traced(graph, parameters, tree_of(bundle.origin.manifest.results, PLACE))
    pipeline = as_pipeline(())
    examples = [np.zeros(value.type.shape, value.type.dtype.numpy) for value in graph.inputs]
    with compiling():
        result = pipeline.run(graph, source="step")
        step = open_step(traced, examples, pipeline, result, target)
    step.origin = bundle.origin
    return step


def _default_passes(target: ExecutionTarget) -> str:
    if (target.backend, target.device) == ("onnxruntime", "cpu"):
        return CPU_PASSES
    return GRAPH_PASSES if isinstance(target.device, Cuda) and target.device.graph else DEFAULT_PASSES


def _named(passes: object, default: str) -> object:
    """Passes where the word `default` of a text stands for the default ones."""
    return _DEFAULT.sub(rf"\1{default}", passes) if isinstance(passes, str) else passes


def _pipeline(passes: Any, overflow_mode: str | None) -> Pipeline:
    pipeline = as_pipeline(passes)
    return pipeline if overflow_mode is None else with_mode(pipeline, overflow_mode)
