"""Primitives of the graph's structure: constants, ordering, overflow status, branches, regions, gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.build import Builder
from graphls.ir.graph import Graph, Value
from graphls.ir.sharding import Sharding
from graphls.ir.types import TOKEN, Type, as_dtype, bool_, int32, type_of
from graphls.primitives.emitter import Emitter
from graphls.primitives.faults import listed
from graphls.primitives.namespaces import namespace
from graphls.primitives.primitive import Array, Primitive, f32, float_elements, no_gradient, sample


class Constant(Primitive):
    """An array known at compile time, in the attribute `value`."""

    half = "native"
    flops_per_element = 0
    is_constant = True
    samples = (
        sample(value=np.array([1.5, -2.0], np.float32)),
        sample(value=np.arange(40, dtype=np.int32).reshape(5, 8)),
        sample(value=np.array(True)),
    )

    def infer(self, value: Array) -> Type:
        return type_of(value)

    def numpy(self, value: Array) -> Array:
        return value

    def vjp(self, e: Builder, g: Value, out: Value, value: Array) -> Any:
        return ()

    def onnx(self, e: Emitter, value: Array) -> str:
        return e.const(value)


class Depend(Primitive):
    """The operand itself, available only after the values of the node's control edges.

    `recompute` marks an operand of a recomputation in the backward, which its edges keep from merging with the forward.
    """

    half = "native"
    flops_per_element = 0
    integer_gradient = "whole"
    samples = (sample(f32(2, 3)), sample(f32(2, 3), recompute=True))
    onnx = "Identity"

    def infer(self, x: Type, recompute: bool = False) -> Type:
        return x

    def numpy(self, x: Array, recompute: bool = False) -> Array:
        return x

    def xla(self, jax: Any, x: Any, recompute: bool = False) -> Any:
        """XLA merges equal operations, but none of one operand with one of the other side of a barrier."""
        return jax.lax.optimization_barrier(x) if recompute else x

    def vjp(self, e: Builder, g: Value, x: Value, out: Value, recompute: bool = False) -> Any:
        return g


MeshAxes = tuple[tuple[str, ...], ...]


class Shard(Primitive):
    """The operand itself, which the mesh of the graph divides by `axes`: mesh axes for each axis, none for a whole one.

    It computes nothing. Where the engine runs on a mesh, it moves the parts of the operand to their devices. The
    gradient is divided alike, or by `gradient_axes`.
    """

    half = "native"
    flops_per_element = 0
    integer_gradient = "whole"
    samples = (sample(f32(2, 3), axes=((), ())), sample(f32(4), axes=((),), gradient_axes=((),)))
    onnx = "Identity"

    def result_sharding(self, attrs: Mapping[str, Any]) -> Sharding:
        return Sharding(attrs["axes"])

    def infer(self, x: Type, axes: MeshAxes, gradient_axes: MeshAxes | None = None) -> Type:
        for each in (axes, axes if gradient_axes is None else gradient_axes):
            if len(each) != x.rank:
                raise GraphValueError(f"{x} has {x.rank} axes, and its sharding is for {len(each)}.")
        return x

    def numpy(self, x: Array, axes: MeshAxes, gradient_axes: MeshAxes | None = None) -> Array:
        return x

    def vjp(
        self, e: Builder, g: Value, x: Value, out: Value, axes: MeshAxes, gradient_axes: MeshAxes | None = None
    ) -> Any:
        return e.shard(g, axes=axes if gradient_axes is None else gradient_axes)


class StopGradient(Primitive):
    """The operand itself, through which no gradient flows."""

    half = "native"
    flops_per_element = 0
    samples = (sample(f32(2, 3), gradient=False),)
    onnx = "Identity"
    vjp = no_gradient

    def infer(self, x: Type) -> Type:
        return x

    def numpy(self, x: Array) -> Array:
        return x


class CheckLabels(Primitive):
    """The labels themselves, which must be finite or, with `classes`, in range(classes) or equal to `ignored`.

    Sessions check labels that are inputs of a step before it runs.
    """

    half = "native"
    flops_per_element = 0
    integer_gradient = "whole"
    samples = (
        sample(f32(2, 3)),
        sample(Type(int32, (4,)), integers=(0, 3), classes=3),
        sample(Type(int32, (9,)), integers=(-1, 3), classes=3, ignored=-1),
    )
    onnx = "Identity"

    def infer(self, labels: Type, classes: int | None = None, ignored: int | None = None) -> Type:
        return labels

    def numpy(self, labels: Array, classes: int | None = None, ignored: int | None = None) -> Array:
        if classes is None:
            finite = np.isfinite(labels)
            if not finite.all():
                raise GraphValueError(f"{int((~finite).sum())} labels are nan or infinite; mend or drop them.")
        elif labels.size and not (labels.min() >= 0 and labels.max() < classes):
            wrong = labels[((labels < 0) | (labels >= classes)) & (labels != ignored)]
            if wrong.size:
                raise GraphValueError(f"The label {wrong[0]} is not in range({classes}).")
        return labels

    def xla(self, jax: Any, labels: Any, **attrs: Any) -> Any:
        return labels

    def vjp(
        self, e: Builder, g: Value, labels: Value, out: Value, classes: int | None = None, ignored: int | None = None
    ) -> Any:
        return g


class OverflowStart(Primitive):
    """A cleared overflow status; nodes between it and `overflow_get` are in its window.

    Given a token, it clears that status again.
    """

    half = "native"
    flops_per_element = 0
    takes_tokens = True

    def infer(self, *status: Type) -> Type:
        if any(t != TOKEN for t in status) or len(status) > 1:
            raise GraphTypeError("overflow_start takes nothing or one token.")
        return TOKEN

    def numpy(self, *status: Array) -> Array:
        return np.zeros((), np.int32)

    def onnx(self, e: Emitter, *status: str) -> str:
        return ""


class OverflowGet(Primitive):
    """True if a float operand has an infinity or nan, or a bool one is true; reads a status, if that comes first.

    `mode` is "outputs" where only the user's operands count, "window" where the overflow pass adds every float value
    computed in the window.
    """

    half = "exact"
    is_check = True
    takes_tokens = True
    takes_values = True
    takes_low = True
    samples = (
        sample(f32(2, 3), gradient=False),
        sample(f32(4), f32(0, 2), gradient=False),
        sample(f32(4), Type(bool_), gradient=False),
        sample(f32(3), low=3e38, high=3.4e38, gradient=False),
    )

    def infer(self, *operands: Type, mode: str = "outputs") -> Type:
        if mode not in ("outputs", "window"):
            raise GraphValueError(f"The mode of overflow_get is 'outputs' or 'window', not {mode!r}.")
        for operand in self.checked(operands):
            if operand == TOKEN:
                raise GraphTypeError("overflow_get takes one token, and it comes first.")
        return Type(bool_)

    @staticmethod
    def checked(operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """The operands without the token."""
        types = [v.type if isinstance(v, Value) else v for v in operands]
        return operands[1:] if types and types[0] == TOKEN else operands

    def numpy(self, *arrays: Array, mode: str = "outputs") -> Array:
        xp = namespace(*arrays)
        floats = [~xp.isfinite(a).all() for a in arrays if as_dtype(a.dtype).is_float]
        raised = [a.any() for a in arrays if a.dtype.kind == "b"]
        result: Array = xp.asarray(xp.stack([xp.asarray(False), *raised, *floats]).any())
        return result

    def vjp(self, e: Builder, g: Value, *operands: Any, mode: str = "outputs") -> Any:
        return (None,) * (len(operands) - 1)

    def onnx(self, e: Emitter, *values: Value, mode: str = "outputs") -> str:
        result = e.any_not_finite([v for v in values if v.type.dtype.is_float and v.type.size])
        for value in (v for v in values if v.type == Type(bool_)):
            result = e.Or(result, e.form(value, bool_))
        return result

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """One for each float among the operands."""
        return float_elements(*inputs)


class Cond(Primitive):
    """The results of the first region where the operand is true, of the second where it is false."""

    half = "native"
    flops_per_element = 0
    is_branch = True
    region_names = ("then", "else")

    def result_types(
        self, types: tuple[Type, ...], attrs: Mapping[str, Any], regions: tuple[Any, ...] = ()
    ) -> tuple[Type, ...]:
        if types != (Type(bool_),):
            raise GraphTypeError(f"cond takes one bool[], not {', '.join(map(str, types)) or 'nothing'}.")
        if len(regions) != 2 or any(r.inputs for r in regions):
            raise GraphTypeError("cond takes two regions without parameters.")
        first, second = (tuple(v.type for v in r.outputs) for r in regions)
        if first != second:
            raise GraphTypeError(
                f"The regions of cond yield {listed(first)} and {listed(second)}, which must be the same."
            )
        return first

    def run_regions(
        self, arrays: tuple[Any, ...], attrs: Mapping[str, Any], types: tuple[Type, ...],
        run: Callable[[int, tuple[Any, ...]], tuple[Any, ...]],
    ) -> tuple[Any, ...]:  # fmt: skip
        return run(0 if bool(arrays[0]) else 1, ())

    def xla_regions(
        self, jax: Any, arrays: tuple[Any, ...], attrs: Mapping[str, Any], types: tuple[Type, ...], run: Any
    ) -> Any:
        return jax.lax.cond(arrays[0], lambda: run(0, ()), lambda: run(1, ()))

    def vjp(self, e: Builder, g: Any, condition: Value, *outputs: Value) -> Any:
        raise AssertionError("the gradient pass differentiates the regions of cond itself")

    def onnx(self, e: Emitter, condition: str) -> tuple[str, ...]:
        return e.branch(condition)

    def region_runs(self, attrs: Mapping[str, Any], flops: tuple[int, ...]) -> tuple[int, ...]:
        """One of them runs; the one with more operations counts."""
        return (1, 0) if flops[0] >= flops[1] else (0, 1)


class Grouped(Primitive, abstract=True):
    """The results of one region without parameters, which runs once."""

    half = "native"
    flops_per_element = 0

    def run_regions(
        self, arrays: tuple[Any, ...], attrs: Mapping[str, Any], types: tuple[Type, ...],
        run: Callable[[int, tuple[Any, ...]], tuple[Any, ...]],
    ) -> tuple[Any, ...]:  # fmt: skip
        return run(0, ())

    def xla_regions(
        self, jax: Any, arrays: tuple[Any, ...], attrs: Mapping[str, Any], types: tuple[Type, ...], run: Any
    ) -> Any:
        return run(0, ())

    def region_runs(self, attrs: Mapping[str, Any], flops: tuple[int, ...]) -> tuple[int, ...]:
        """The region runs once."""
        return (1,)


class Segment(Grouped):
    """The results of the region, which the engine of that name runs as one segment of a plan."""

    is_segment = True
    region_names = ("segment",)

    def result_types(
        self, types: tuple[Type, ...], attrs: Mapping[str, Any], regions: tuple[Any, ...] = ()
    ) -> tuple[Type, ...]:
        if types or len(regions) != 1 or regions[0].inputs:
            raise GraphTypeError("segment takes no operands, and one region without parameters.")
        if not isinstance(attrs.get("engine"), str):
            raise GraphTypeError("segment has an attribute `engine`, the name of what runs it.")
        if not isinstance(attrs.get("stage", 0), int):
            raise GraphTypeError("The attribute `stage` of a segment is the number of a stage of a pipeline.")
        return tuple(v.type for v in regions[0].outputs)

    def vjp(self, e: Builder, g: Any, *outputs: Value) -> Any:
        raise GraphValueError("A plan has no gradient; apply the gradient pass before the pass partition.")

    def onnx(self, e: Emitter, engine: str, stage: int | None = None) -> tuple[str, ...]:
        raise GraphValueError("A plan is lowered segment by segment; `flattened` gives the whole graph.")


class CustomGradient(Primitive):
    """The first `outputs` operands themselves, with the gradient of the others defined by the region.

    The region takes the operands (results first, then inputs) and the gradients of the results, and yields a gradient
    for each input. Cells with a `bprop` become this.
    """

    half = "native"
    flops_per_element = 0
    is_view = True
    moves = False
    region_names = ("gradient",)

    def result_types(
        self, types: tuple[Type, ...], attrs: Mapping[str, Any], regions: tuple[Any, ...] = ()
    ) -> tuple[Type, ...]:
        count = attrs["outputs"]
        if len(regions) != 1:
            raise GraphTypeError("custom_gradient takes one region.")
        expected = (*types, *types[:count])
        parameters = tuple(v.type for v in regions[0].inputs)
        if parameters != expected:
            raise GraphTypeError(f"The region of custom_gradient takes {listed(expected)}, not {listed(parameters)}.")
        return types[:count]

    def evaluate(self, arrays: tuple[Any, ...], attrs: Mapping[str, Any], types: tuple[Type, ...]) -> tuple[Any, ...]:
        return arrays[: attrs["outputs"]]

    def xla_regions(
        self, jax: Any, arrays: tuple[Any, ...], attrs: Mapping[str, Any], types: tuple[Type, ...], run: Any
    ) -> Any:
        return arrays[: attrs["outputs"]], np.array(True)

    def vjp(self, e: Builder, g: Any, *values: Value) -> Any:
        raise AssertionError("the gradient pass inlines the region of custom_gradient itself")

    def onnx(self, e: Emitter, *names: str, outputs: int) -> tuple[str, ...]:
        return tuple(e.Identity(name) for name in names[:outputs])

    def region_runs(self, attrs: Mapping[str, Any], flops: tuple[int, ...]) -> tuple[int, ...]:
        """It never runs: the gradient pass inlines it into the backward."""
        return (0,)


class Gradient(Primitive):
    """Gradients that the gradient pass replaces by the backward graph.

    Operands are `of` results, their `of` sensitivities, `wrt` values to differentiate with respect to, and
    then values that count as constants. The outputs are the gradients of the `wrt` values.
    """

    half = "native"
    flops_per_element = 0

    def infer(self, *types: Type, of: int, wrt: int) -> Any:
        results, seeds, sources = types[:of], types[of : 2 * of], types[2 * of : 2 * of + wrt]
        if len(sources) != wrt:
            raise GraphTypeError("gradient has fewer operands than `of` and `wrt` require.")
        for result, seed in zip(results, seeds, strict=True):
            if result != seed:
                raise GraphTypeError(f"The sensitivity of a {result} is a {result}, not a {seed}.")
        return tuple(sources)

    def evaluate(self, arrays: tuple[Any, ...], attrs: Mapping[str, Any], types: tuple[Type, ...]) -> tuple[Any, ...]:
        raise GraphValueError("A graph with gradient nodes cannot run; apply the gradient pass first.")

    def onnx(self, e: Emitter, *names: str, of: int, wrt: int) -> str:
        text = "A graph with gradient nodes cannot be lowered"
        raise GraphValueError(f"{text}; apply the gradient pass, as passes='mine, default' does.")


def region(name: str, inputs: tuple[Value, ...], nodes: Any, outputs: tuple[Value, ...]) -> Graph:
    """A region: a graph without states."""
    return Graph(name, inputs, (), tuple(nodes), (), outputs)


class Composition(Grouped):
    """The results of the region, for which ONNX has one operator since some opset.

    `operator` is its name and `since` that opset; the operands are its inputs, except those at the positions `absent`,
    and the other attributes are its own. The region, which has no parameters, defines the results: a model at an
    earlier opset contains its nodes. The pass `recognise` creates these.
    """

    is_inlined = True
    region_names = ("composition",)

    def result_types(
        self, types: tuple[Type, ...], attrs: Mapping[str, Any], regions: tuple[Any, ...] = ()
    ) -> tuple[Type, ...]:
        if len(regions) != 1 or regions[0].inputs:
            raise GraphTypeError("composition takes one region without parameters.")
        if not isinstance(attrs.get("operator"), str) or not isinstance(attrs.get("since"), int):
            raise GraphTypeError("composition has an `operator`, the name of one of ONNX, and `since`, its opset.")
        return tuple(v.type for v in regions[0].outputs)

    def vjp(self, e: Builder, g: Any, *values: Value, **attrs: Any) -> Any:
        raise GraphValueError("A composition has no gradient; apply the gradient pass before the pass recognise.")

    def onnx(
        self, e: Emitter, *names: str, operator: str, since: int, absent: tuple[int, ...] = (), **attributes: Any
    ) -> tuple[str, ...]:
        if e.opset < since:
            return e.inlined()
        inputs = list(names)
        for position in absent:
            inputs.insert(position, "")
        return e.results(operator, inputs, attributes, len(e.out_types))
