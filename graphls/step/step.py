"""The compiled step: a callable with its graph, plan, parameters and session."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphls.base.errors import GraphTypeError
from graphls.base.files.files import as_path, write_text
from graphls.base.reporting import checked
from graphls.base.sharing.storage import Version
from graphls.distributed.own_parts import own_shapes
from graphls.frontend.tensors.configuration import Configuration
from graphls.frontend.tensors.tape import COMPILED, note
from graphls.frontend.tensors.tensor import Tensor
from graphls.frontend.trace.inputs import InputCheck
from graphls.frontend.trace.trace import Traced, fill_outputs
from graphls.ir.graph import Graph, walk
from graphls.ir.text import dump
from graphls.ir.types import Type
from graphls.nn.cell import Cell
from graphls.passes.schedule.host_calls import calls_for_results
from graphls.runtime.step import Step
from graphls.step.dependencies import Dependent
from graphls.step.export.network_prediction import is_place, wished_prediction
from graphls.step.extra_outputs import ExtraOutputs
from graphls.step.host_effects import HostEffects
from graphls.step.repeated import RepeatedStep

if TYPE_CHECKING:
    from onnx import ModelProto

    from graphls.inspect.diagnosis.diagnosis import Diagnosis
    from graphls.inspect.diagnosis.explanation import OverflowExplanation
    from graphls.inspect.diagnosis.gradients import GradientRanges
    from graphls.inspect.diagnosis.precision_explanation import PrecisionExplanation
    from graphls.inspect.diagnosis.recipe_search import RecipeSearch
    from graphls.inspect.diagnosis.recording import Recording
    from graphls.inspect.profile import Profile
    from graphls.inspect.summary import Summary
    from graphls.inspect.summary.plan import StepPlan
    from graphls.passes import Pipeline
    from graphls.passes.precision.recipes import Recipe
    from graphls.runtime.engine_choice import Choice
    from graphls.runtime.onnxruntime.placement import Placement
    from graphls.step.export.predict import Prediction, ReadPrediction
    from graphls.step.export.read import Origin


class Compiled(Dependent):
    """A compiled step: call it with inputs of the types it was compiled for.

    `graph` is the final IR (`print(step.graph)`), `stages` the IR after each pass by name, `parameters` the
    parameters by the names of their states, `origin` the bundle that `load_step` has read it from. `engine_choice` is
    the engine that `engine="auto"` has chosen, with the reason; None for a step whose engine was named.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import ops
        >>> x, w = np.ones((2, 3), np.float32), np.ones((3, 1), np.float32)
        >>> step = graphls.compile(lambda x, w: ops.relu(x @ w), x, w)
        >>> step(x, w)
        Tensor(shape=[2, 1], dtype=Float32, value=[[3.]
         [3.]])
        >>> step.output_types
        f32[2,1]
        >>> [node.primitive.name for node in step.graph.nodes]
        ['matmul', 'relu']
    """

    def __init__(
        self, traced: Traced, inputs: Sequence[object], pipeline: Pipeline, stages: dict[str, Graph], step: Step,
        effects: HostEffects, choice: Choice | None = None,
    ) -> None:  # fmt: skip
        graph = step.graph
        super().__init__(graph, traced.parameters, traced.cells)
        self._extra = ExtraOutputs(traced.outputs, graph)
        self._traced = traced
        self._pipeline = pipeline
        self._effects = effects
        self._step = step.with_session()
        self.stages = stages
        self.engine_choice = choice
        parts = own_shapes(graph) if len(self._step.plan.segments) == 1 else {}
        self._inputs = InputCheck(graph, tuple(inputs), parts)
        self._types = [value.type for value in graph.outputs]
        self._diagnosis: Diagnosis | None = None
        self.origin: Origin | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The state of a copy: all but the session and the diagnosis."""
        return {**self.__dict__, "_step": self._step.without_session(), "_diagnosis": None}

    def __setstate__(self, state: Mapping[str, object]) -> None:
        self.__dict__.update(state)
        self._step = self._step.with_session()

    def __call__(self, *inputs: object, **named: object) -> Any:
        """Run one step; tensors come back unread, and states stay in the session.

        Raises GraphTypeError or GraphValueError for inputs that do not fit, and GraphRuntimeError where `requires_grad`
        of a parameter that it trains has changed; the state is then unchanged.
        """
        if named:
            text = f"A compiled step takes its inputs by position, not by name ({', '.join(named)})."
            raise GraphTypeError(text)
        if self.trained.changes != Configuration.gradient_changes or self.trained.changed:
            self.trained.check()
        outputs, tensors, shown = self._step.session.run(self._inputs(inputs), self._presented)
        self._effects(shown)
        note(COMPILED, inputs, {}, tensors)
        return outputs

    def _presented(self, results: list[Any]) -> tuple[Any, tuple[Tensor, ...], list[Any]]:
        """What a call returns, the tensors in it and of extra outputs, and the results that effects show."""
        tensors = [*map(_tensor, results, self._types)]
        outputs = fill_outputs(self._traced.outputs, self._extra.split(tensors))
        return outputs, tuple(tensors), results[len(tensors) :]

    @property
    def extra_outputs(self) -> dict[str, np.ndarray[Any, Any]]:
        """The outputs that passes have added, by the names of the values, as arrays of the last call.

        It is empty where they added none. Raises GraphRuntimeError before the first call.
        """
        return self._extra.arrays()

    @property
    def version(self) -> Version:
        """The counter of completed steps."""
        version: Version = self._session.version
        return version

    @property
    def rounds_tensors(self) -> bool:
        """Whether a recipe rounds tensors of the step to a low dtype, of 8 bits or 4."""
        if not any(value.type.dtype.is_low for node in walk(self.graph) for value in node.outputs):
            return False
        from graphls.inspect.diagnosis.roundings import roundings

        return bool(roundings(self.graph))

    @property
    def plan(self) -> StepPlan:
        """The segments of the step, the engine of each, and what crosses between them, as a table when printed.

        On XLA it also has the kernels, with the nodes that XLA fused into each.
        """
        from graphls.inspect.summary.plan import StepPlan

        return StepPlan(self._step.plan, getattr(self._session, "kernels", None))

    @property
    def _session(self) -> Any:
        """The session that runs the step."""
        return self._step.session

    @property
    def output_types(self) -> Any:
        """The types of what the step returns, nested as that is."""
        return fill_outputs(self._traced.outputs, self._types)

    @property
    def onnx(self) -> ModelProto:
        """The step as an ONNX model; the states are inputs and outputs of it.

        Its operators tell viewers such as Netron the phase, the cell and the user's line that they come from.
        """
        from graphls.step.export import step_model

        return step_model.complete_model(self._step)

    def save(self, path: str | os.PathLike[str], opset: int | None = None, native_low: bool = False) -> None:
        """Write the ONNX model to a file, at once or not at all; raises GraphFileError where it cannot be written.

        `opset` is the version of the operators of ONNX, 17 to 25: by default the one that the session runs, which is
        the best of the runtime at hand. Constants that a file of 2 GiB does not hold are written beside it, to a file
        with `.data` behind the name. Raises GraphValueError for another opset.

        With `native_low`, tensors that are rounded to float8 and float4 have ONNX's types for these, for viewers and
        other tools, in place of float32 with the same numbers, which any runtime has kernels for. By default the opset
        is then the first, from 21 on, that has all of these types: 23 has float4_e2m1fn, 24 has float8_e8m0fnu.

        Raises GraphTypeError for a file that is neither a string nor a path.
        """
        from graphls.step.export import step_model

        step_model.save(self._step, as_path(path), opset, native_low)

    def export(
        self, directory: str | os.PathLike[str], *, inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None, opset: int | None = None, predict: Cell | bool = True,
        any_rows: bool = False, loops: Sequence[str] = (),
    ) -> Path:  # fmt: skip
        """Write the step as a folder that any ONNX Runtime trains from, in any language, and return its path.

        It has the model, `step.onnx`; its states as they are now, `state.safetensors`; the graph as text, `step.ir`;
        and `step.json`, which says what they are made of. Inputs are called as the arguments that they are, outputs
        `loss`, `overflow`, `scale` or by their keys and positions, unless `inputs` or `outputs` name them; what becomes
        of a state `weight` is the output `weight:next`. `predict.onnx` is the network in evaluation mode with the same
        states as inputs, for any number of rows where it can: that of WithLossCell, or the cell `predict`, which takes
        the first inputs of the step; with `predict=False`, and where the step has no such network, there is none.
        With `any_rows` the step, too, takes any number of rows of all its inputs; `load_step` takes that which it was
        compiled for. `opset` is as in `save`. `loops` are the languages, "python" and "javascript", of which the folder
        gets a program that trains it. See docs/everywhere.md, and `load_step`.

        Raises GraphValueError for names that do not fit and for a step that calls Python or other ranks,
        GraphFileError where a file cannot be written; `step.json` is written last, so that it never tells of others.

        Raises GraphTypeError for a directory that is neither a string nor a path.
        """
        from graphls.step.export import step_model
        from graphls.step.export.write import Source, write_bundle

        cells, graph = self._traced.cells, step_model.graph_of(self._step)
        cell = next(iter(cells), None)
        if any_rows:
            lowered = step_model.lowered_for_any_rows(self._step, cell, self._pipeline, opset)
        else:
            lowered = step_model.lowered(self._step, opset)
        prediction: Prediction | ReadPrediction | None
        prediction = wished_prediction(predict, cells, graph, self.parameters, opset)
        if self.origin is not None:
            inputs = self.origin.inputs if inputs is None else inputs
            outputs = self.origin.outputs if outputs is None else outputs
            prediction = self.origin.prediction() if predict is True else prediction
        source = Source(graph, lowered, cell, self._traced.outputs, is_place, self.parameters, prediction)
        folder = as_path(directory)
        checked(write_bundle, source, folder, inputs, outputs, loops)
        return folder

    def export_stablehlo(self, path: str | os.PathLike[str], platforms: Sequence[str] | None = None) -> Path:
        """Write the step as a portable program of StableHLO, which JAX runs without graphls, and return its path.

        `jax.export.deserialize` reads it. It takes inputs and states as dicts by name, and returns outputs and states
        as dicts, and whether all indices were in range: `outputs, states, in_range = program.call(inputs, states)`.
        The file with `.json` behind the name has the names, dtypes and shapes, their order in the flat function, and
        the random arrays, which are inputs. `platforms` are among "cpu", "cuda", "rocm" and "tpu"; by default, the
        program is for CPUs, NVIDIA's GPUs and TPUs, where JAX can lower the step for them. See docs/export.md.

        Raises GraphRuntimeError where JAX is not installed, GraphValueError, with the line, for a step that calls
        Python or other ranks, GraphFileError where a file cannot be written, and GraphTypeError for a path that is
        neither a string nor a path.
        """
        from graphls.step.export import step_model
        from graphls.step.export.stablehlo import Source, write_stablehlo

        cell, file = next(iter(self._traced.cells), None), as_path(path)
        source = Source(step_model.graph_of(self._step), cell, self._traced.outputs, is_place)
        checked(write_stablehlo, source, file, platforms)
        return file

    def show(
        self, path: str | os.PathLike[str] = "step.html", profile: Profile | None = None,
        values: Recording | None = None,
    ) -> Path:  # fmt: skip
        """Write a page that shows every stage of this step, as one HTML file, and return its path.

        It opens from disk in any browser and needs no network. With a `profile` of this step (see `profile`) it shows
        the share of time of every node, cell and phase, with the `values` of a run (see `record`) what each value was.
        Raises GraphFileError where the file cannot be written.
        """
        from graphls.inspect.viz.html import write_page

        return checked(write_page, path, self.stages, None, profile, None, self._notes(), values, self._computes_on)

    def dump(self, directory: str | os.PathLike[str]) -> None:
        """Write every stage as text (`.ir`) and as DOT, all as a page (`index.html`), and the model as `step.onnx`.

        There is no model of a step that calls Python for a result. Each file is written at once or not at all; raises
        GraphFileError for the first that cannot be written.

        Raises GraphTypeError for a directory that is neither a string nor a path.
        """
        from graphls.inspect.viz.dot import to_dot

        folder = as_path(directory)
        for name, graph in self.stages.items():
            checked(write_text, folder / f"{name}.ir", dump(graph))
            checked(write_text, folder / f"{name}.dot", to_dot(graph))
        self.show(folder / "index.html")
        if not calls_for_results(self.graph):
            self.save(folder / "step.onnx")

    def repeated(self, count: int) -> RepeatedStep:
        """This step `count` times in one call, on inputs that are stacked along a first axis, with the same numbers.

        Raises GraphValueError for a count below 1 and where the step sets the state of its random numbers itself.
        """

        return checked(RepeatedStep, self._step, self._effects, self.trained, count)

    def explain_overflow(self, *inputs: object) -> OverflowExplanation:
        """What overflowed in a step on these inputs, where, in which phase, and which scale would have fitted.

        For use after a skipped step, with the same inputs. The step is compiled once more, with a watch on every
        float value, and runs on the state as it is; no state changes. See docs/overflow.md. Raises as a call does.
        """
        return self._diagnose().explain_overflow(inputs)

    def explain_precision(self, *inputs: object) -> PrecisionExplanation:
        """What the step loses where a recipe rounds its tensors to 8 bits or 4, on these inputs; the worst first.

        For each tensor the shares that saturate and that become zero, the signal to quantization noise ratio, the
        scales with their history, a histogram on the range of the format, and what would mend it. The step is compiled
        once more, with these tensors as results, and runs on the state as it is; no state changes. Raises as a call
        does, and GraphValueError where the step rounds no tensor to a low dtype.
        """
        return checked(self._diagnose().explain_precision, inputs)

    def search_recipe(
        self, *inputs: object, recipes: Sequence[Recipe], budget: float = 0.02, noise: float | None = None,
        batches: Iterable[Sequence[object]] = (),
    ) -> RecipeSearch:  # fmt: skip
        """Which layers can be low, and by which of `recipes`: what rounding does to the loss and the gradient decides.

        The step is compiled once, so that each run chooses: one without any recipe, and one for each layer with each
        recipe. A layer takes a recipe by the bits that it saves, times its operations, for the harm that it does, as
        far as all choices together, which are measured again, raise the loss by `budget` of itself at most, with the
        standard error, and bring `noise` at most: the square of the change of a parameter's gradient over that of the
        gradient, a mean over all elements. By default this is a tenth of the noise among batches, which comes from the
        `batches`, more of such inputs, or from the halves of one batch.

        Search in a step that has trained for a while, since a first loss says nothing, and on several batches, each of
        which takes as many runs. In a step without gradients noise is that of the outputs, 0.01 at most by default, and
        the loss is not asked. Delayed scaling is measured with scales of the tensors themselves. The network, its
        states and this step stay as they are; the result is printed as lines of Python, and `apply(net)` gives the
        recipes to a network. See docs/low_precision.md. Raises as a call does, GraphTypeError and GraphValueError for
        other arguments, and GraphValueError where no layer has a product that a recipe rounds, where the step rounds by
        a recipe already, and where its gradient is 0 or not finite.
        """
        return checked(self._diagnose().search_recipe, self._batches(inputs, batches), recipes, budget, noise)

    @staticmethod
    def _batches(inputs: tuple[object, ...], batches: object) -> list[tuple[object, ...]]:
        """The inputs of several calls, each a tuple."""
        several: list[Any] = list(batches) if isinstance(batches, Iterable) else [None]
        if not all(isinstance(batch, (tuple, list)) for batch in several):
            raise GraphTypeError("batches has a tuple of the inputs of the step for each batch, such as [(x, y)].")
        return [inputs, *(tuple(batch) for batch in several)]

    def gradient_ranges(self, *inputs: object) -> GradientRanges:
        """For each parameter the range of its gradient, times the loss scale, in the dtype that it is computed in.

        No state changes. Raises as a call does, and GraphValueError where the step takes no gradients.
        """
        return self._diagnose().gradient_ranges(inputs)

    def record(self, *inputs: object) -> Recording:
        """Statistics of all floats of the step on these inputs, low ones too: what the next call of it would compute.

        The plan of the step runs on copies of its states, once for each gigabyte of its values; no state changes. See
        docs/seeing_a_step.md. Raises as a call does.
        """
        from graphls.inspect.diagnosis.record import record

        return checked(record, self._step, self._inputs(inputs))

    def summary(self) -> Summary:
        """A summary of the step by cells: shapes, parameters, operations and memory, as a table when printed."""
        from graphls.inspect.summary import summarise

        return summarise(self.graph, self._traced, self._notes())

    def placement(self, runtime: str | None = None, device: str | None = None) -> Placement:
        """Which operators of the step have a kernel on a device, "cpu" or "cuda", and which fall to the CPU.

        It is predicted, for the device of the session or another, and for the ONNX Runtime at hand or another version,
        from the tables of kernels; nothing of these needs to be there. Printed, it lists what is not on the device,
        with the user's lines. Raises GraphValueError for a device or a version without a table. See docs/cuda.md.
        """
        from graphls.step.export import step_model

        return step_model.placement(self._step, runtime, device)

    def profile(self, *inputs: object, steps: int = 20) -> Profile:
        """Where the time and the memory of a step on these inputs go, measured over some steps on a copy of its state.

        No state changes. Raises as a call does, GraphValueError for a number of steps below 1, and GraphRuntimeError
        where one step fills the profile of the runtime. See docs/profiling.md.
        """
        from graphls.inspect.profile.measure import measure

        return checked(measure, self._step, self._inputs(inputs), steps)

    def _diagnose(self) -> Diagnosis:
        if self._diagnosis is None:
            from graphls.inspect.diagnosis.diagnosis import Diagnosis

            self._diagnosis = Diagnosis(self._step, self.cells, self._traced.graph, self._pipeline, self._inputs)
        return self._diagnosis

    def __repr__(self) -> str:
        return f"<Compiled {self.graph!r}>"

    def _repr_html_(self) -> str:
        from graphls.inspect.summary import page_of

        return page_of(self.graph, self._traced, self._notes())

    @property
    def _computes_on(self) -> str:
        """The device of ONNX Runtime, or "numpy" for the reference interpreter, which has none."""
        return getattr(self._session, "device", "numpy")

    def _notes(self) -> tuple[str, ...]:
        """Sentences on the choice of the engine, and on operators that do not run on the device of the session."""
        choice = () if self.engine_choice is None else (str(self.engine_choice),)
        return choice if self._session.device == "cpu" else (*choice, *self.placement().sentences)


def _tensor(result: object, type: Type) -> Tensor:
    return Tensor.on_host(result, type) if isinstance(result, np.ndarray) else Tensor.on_device(result, type)
