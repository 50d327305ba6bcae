"""The laws of primitives, built in or from plugins, which hold on each of their samples.

Each is a function of the primitive, a sample and a float dtype, in which the float32 operands of the sample are drawn;
it raises AssertionError, or whatever a rule of the primitive raises. `LAWS` lists them with their dtypes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import onnx
import onnxruntime

from graphls.base.errors import GraphlsError, GraphTypeError
from graphls.inspect.testing.samples import assert_close, draw, in_dtype, run, single
from graphls.ir import Builder, DType, Graph, Value, dump, interpret, parse, verify
from graphls.ir.registry import Operation, lookup
from graphls.ir.types import bfloat16, float16, float32, float64, type_of
from graphls.primitives.primitive import Array, Elementwise, Primitive, Sample
from graphls.runtime.lowering import Lowered, lower
from graphls.runtime.lowering.target import KernelCheck, trust_kernels
from graphls.runtime.onnxruntime.kernel_checks import is_right

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 300.0, -300.0, 6e4, -6e4, 1e-7, np.inf, -np.inf, np.nan]
Law = Callable[[Primitive, Sample, DType], None]


def model_of(graph: Graph, device: str = "cpu", kernel_is_right: KernelCheck = trust_kernels) -> Lowered:
    """The model of a graph at the opset that `compile` writes for the installed runtime."""
    return lower(graph, device=device, kernel_is_right=kernel_is_right, runtime=onnxruntime.__version__)


def is_stated(primitive: Primitive) -> None:
    """A docstring whose first line is one sentence, samples and a gradient rule stand in the class."""
    first = (type(primitive).__doc__ or "").partition("\n")[0]
    if not (first.endswith(".") and len(first) > 10):
        text = "The first line of the docstring must be one sentence of some words that ends with a full stop"
        raise AssertionError(f"{text}, not {first!r}.")
    if not primitive.samples:
        raise AssertionError("It has no samples to try; write `samples = (sample(f32(2, 3)),)`.")
    if not all(isinstance(sample, Sample) for sample in primitive.samples):
        raise AssertionError("Each of its `samples` must be made by `sample`, such as `sample(f32(2, 3), axis=1)`.")
    if primitive.vjp is None:
        raise AssertionError("It has no gradient rule; define `vjp`, which returns None where there is no gradient.")


def has_types_of_numpy(primitive: Primitive, sample: Sample, dtype: DType) -> None:
    """The type rule says of which types the results of the NumPy rule are."""
    types = in_dtype(sample, dtype)
    inferred = primitive.result_types(types, sample.attrs)
    with np.errstate(all="ignore"):
        results = primitive.computed(tuple(draw(sample, types)), sample.attrs)
    wide = [t.with_dtype(float32) if t.dtype.is_half and primitive.half != "native" else t for t in inferred]
    computed = [type_of(np.asarray(r)) for r in results]
    if computed != wide:
        stated, actual = ", ".join(map(str, wide)), ", ".join(map(str, computed))
        raise AssertionError(f"The type rule says {stated}, and NumPy makes {actual}.")


def reads_back(primitive: Primitive, sample: Sample, dtype: DType) -> None:
    """Its text form reads back as the same text."""
    text = dump(single(primitive, sample, in_dtype(sample, dtype)))
    again = dump(verify(parse(text)))
    if again != text:
        raise AssertionError(f"The text reads back as another:\n{text}\n{again}")


def is_smooth(sample: Sample) -> bool:
    """Whether a sample has a gradient that finite differences can check."""
    return sample.gradient and any(t.dtype.is_float for t in sample.types)


def has_gradient(primitive: Primitive, sample: Sample, dtype: DType) -> None:
    """The gradient rule gives the slope that finite differences measure."""
    e, inputs, results = _on_operands(primitive, sample, dtype)
    _check_gradients(e, inputs, results, draw(sample, in_dtype(sample, dtype)))


def has_second_gradient(primitive: Primitive, sample: Sample, dtype: DType) -> None:
    """The gradient of the gradient is the slope of the first."""
    e, inputs, results = _on_operands(primitive, sample, dtype)
    seeds = _seeds(results, "g")
    all_gradients = backpropagate(e, zip(results, seeds, strict=True), inputs)
    gradients = [g for g in all_gradients if g is not None]
    random = np.random.default_rng(9)
    weights = [np.asarray(random.normal(size=v.type.shape)) for v in results]
    _check_gradients(e, [*inputs, *seeds], gradients, [*draw(sample, in_dtype(sample, dtype)), *weights])


def _on_operands(primitive: Primitive, sample: Sample, dtype: DType) -> tuple[Builder, list[Value], list[Value]]:
    """A builder with the primitive, its operands and its float results."""
    inputs = [Value(f"x{i}", t) for i, t in enumerate(in_dtype(sample, dtype))]
    e = Builder()
    outputs = e.emit(primitive, tuple(inputs), sample.attrs)
    return e, inputs, [v for v in outputs if v.type.dtype.is_float]


def _seeds(results: Sequence[Value], prefix: str) -> list[Value]:
    return [Value(f"{prefix}{i}", v.type) for i, v in enumerate(results)]


def _check_gradients(e: Builder, inputs: list[Value], results: list[Value], arrays: list[Array]) -> None:
    """Check the gradients of random weighted sums of the results against central differences."""
    seeds = _seeds(results, f"seed{len(inputs)}_")
    function = Graph("f", tuple(inputs), (), tuple(e.nodes), (), tuple(results))
    gradients = backpropagate(e, zip(results, seeds, strict=True), inputs)
    indexed = [(i, g) for i, g in enumerate(gradients) if g is not None]
    gradient_graph = Graph("gradient", (*inputs, *seeds), (), tuple(e.nodes), (), tuple(g for _, g in indexed))
    verify(gradient_graph)
    for direction in range(2):
        random = np.random.default_rng(direction)
        weights = [np.asarray(random.normal(size=v.type.shape)) for v in results]
        steps = [np.asarray(random.normal(size=a.shape)) if a.dtype == float else None for a in arrays]
        values = interpret(gradient_graph, [*arrays, *weights])[0]
        slope = sum(float(np.sum(g * steps[i])) for (i, _), g in zip(indexed, values, strict=True))
        measured = _measured_slope(function, arrays, steps, weights)
        if not abs(slope - measured) <= max(1e-5 * abs(measured), 1e-5):
            raise AssertionError(f"In a random direction the rule gives {slope:.9g}, and differences {measured:.9g}.")


def _measured_slope(
    function: Graph, arrays: Sequence[Array], steps: Sequence[Array | None], weights: Sequence[Array]
) -> float:
    """The central difference of the weighted sum of the results, along the steps."""
    sums = []
    for h in (1e-5, -1e-5):
        moved = [a if s is None else a + h * s for a, s in zip(arrays, steps, strict=True)]
        values = interpret(function, moved)[0]
        sums.append(sum(float(np.sum(w * v)) for w, v in zip(weights, values, strict=True)))
    return (sums[0] - sums[1]) / 2e-5


def agrees_with_numpy(primitive: Primitive, sample: Sample, dtype: DType) -> None:
    """The ONNX model agrees with NumPy."""
    types = in_dtype(sample, dtype)
    graph = single(primitive, sample, types)
    lowered = _checked(model_of(graph, kernel_is_right=is_right))
    _assert_all_close(lowered, graph, draw(sample, types), [v.type.dtype for v in graph.outputs])


def _assert_all_close(lowered: Lowered, graph: Graph, arrays: list[Array], units: Sequence[DType]) -> None:
    expected = interpret(graph, arrays)[0]
    for output, value, unit in zip(run(lowered, graph, arrays), expected, units, strict=True):
        assert_close(output, value, unit)


def _checked(lowered: Lowered) -> Lowered:
    onnx.checker.check_model(lowered.model, full_check=True)
    return lowered


def agrees_in_bfloat16(primitive: Primitive, sample: Sample, dtype: DType) -> None:
    """The ONNX model agrees with NumPy between casts from and to float32, as runtimes take no bfloat16 arrays."""
    narrow = {t: t.with_dtype(bfloat16) for t in sample.types if t.dtype is float32}
    inputs = tuple(Value(f"x{i}", t) for i, t in enumerate(sample.types))
    e = Builder()
    operands = [e.cast(v, dtype=bfloat16) if v.type in narrow else v for v in inputs]
    results = e.emit(primitive, tuple(operands), sample.attrs)
    outputs = tuple(e.cast(v, dtype=float32) if v.type.dtype is bfloat16 else v for v in results)
    graph = verify(Graph("bfloat16", inputs, (), tuple(e.nodes), (), outputs))
    lowered = _checked(model_of(graph, kernel_is_right=is_right))
    _assert_all_close(lowered, graph, draw(sample, sample.types), [bfloat16] * len(outputs))


def is_well_typed_in_native_half(primitive: Primitive, sample: Sample, dtype: DType) -> None:
    """The model that computes float16 as such, as on a GPU, has types that fit."""
    _checked(model_of(single(primitive, sample, in_dtype(sample, dtype)), device="cuda"))


def agrees_on_a_gpu(primitive: Primitive, sample: Sample, dtype: DType) -> None:
    """The model for a GPU agrees with NumPy in float32, which the CPU computes as a GPU does.

    No kernel is trusted, as those of a GPU may be wrong.
    """
    graph = single(primitive, sample, in_dtype(sample, dtype))
    lowered = _checked(model_of(graph, device="cuda", kernel_is_right=lambda *_: False))
    for node in lowered.model.graph.node:
        pads = next((list(a.ints) for a in node.attribute if a.name == "pads" and node.op_type.startswith("Conv")), [])
        if pads[: len(pads) // 2] != pads[len(pads) // 2 :]:
            raise AssertionError(f"The padding {pads} is uneven, for which CUDA's kernels write elsewhere.")
    _assert_all_close(lowered, graph, draw(sample, sample.types), [float32] * len(graph.outputs))


def keeps_special_numbers(primitive: Primitive, dtype: DType) -> None:
    """An elementwise primitive of floats agrees with NumPy at infinities, nan, zeros and large numbers."""
    count = len(primitive.samples[0].types)
    grid = np.meshgrid(*[np.array(SPECIAL * (3 if count == 1 else 1))] * count)
    check_special(primitive, [g.reshape(-1).astype(dtype.numpy) for g in grid], primitive.samples[0].attrs)


def check_special(primitive: Primitive, arrays: list[Array], attrs: Mapping[str, object]) -> None:
    """Check the ONNX model against NumPy on these operands, within roundings of their float dtype."""
    graph = single(primitive, Sample((), attrs), tuple(map(type_of, arrays)))
    dtype = next(t.dtype for t in map(type_of, arrays) if t.dtype.is_float)
    lowered = model_of(graph, kernel_is_right=is_right)
    _assert_all_close(lowered, graph, arrays, [dtype] * len(graph.outputs))


def is_elementwise(primitive: Operation) -> bool:
    """Whether special numbers can be tried on it, element by element."""
    return isinstance(primitive, Elementwise) and primitive.samples[0].types[0].dtype.is_float


FLOATS = (float32, float16, float64)
LAWS: dict[Law, tuple[DType, ...]] = {
    has_types_of_numpy: FLOATS,
    reads_back: (float32,),
    has_gradient: (float64,),
    has_second_gradient: (float64,),
    agrees_with_numpy: FLOATS,
    agrees_in_bfloat16: (bfloat16,),
    is_well_typed_in_native_half: (float16,),
    agrees_on_a_gpu: (float32,),
}
OF_SMOOTH: tuple[Law, ...] = (has_gradient, has_second_gradient)
"""Laws that hold only for samples at which the primitive has a gradient."""


def check(primitive: type[Primitive] | Primitive | str) -> None:
    """Try every law on every sample; raises AssertionError that names the primitive, the law and the sample."""
    __tracebackhide__ = True
    instance = _instance(primitive)
    _hold(instance, is_stated, "", partial(is_stated, instance))
    for law, dtype, number, sample in _trials(instance):
        place = f" on its sample {number} ({', '.join(map(str, sample.types))}) in {dtype.numpy.name}"
        _hold(instance, law, place, partial(law, instance, sample, dtype))
    for dtype in FLOATS if is_elementwise(instance) else ():
        trial = partial(keeps_special_numbers, instance, dtype)
        _hold(instance, keeps_special_numbers, f" in {dtype.numpy.name}", trial)


def _instance(primitive: object) -> Primitive:
    known = lookup(primitive) if isinstance(primitive, str) else primitive
    instance = known() if isinstance(known, type) and issubclass(known, Primitive) else known
    if not isinstance(instance, Primitive):
        raise GraphTypeError(f"check_primitive takes a subclass of Primitive, or its name, not {primitive!r}.")
    return instance


def _trials(primitive: Primitive) -> Iterator[tuple[Law, DType, int, Sample]]:
    for number, sample in enumerate(primitive.samples):
        for law, dtypes in LAWS.items():
            if is_smooth(sample) or law not in OF_SMOOTH:
                yield from ((law, dtype, number, sample) for dtype in dtypes)


def _hold(primitive: Primitive, law: Callable[..., None], place: str, trial: Callable[[], None]) -> None:
    __tracebackhide__ = True
    try:
        trial()
    except Exception as error:
        sentence = (law.__doc__ or "").partition("\n")[0]
        kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
        message = f"{primitive.name} breaks a law{place}: {sentence}\n{kind}{str(error).strip()}"
        raise AssertionError(message) from (None if isinstance(error, (AssertionError, GraphlsError)) else error)


def backpropagate(e: Builder, seeds: Iterable[tuple[Value, Value]], values: Sequence[Value]) -> list[Value | None]:
    """The gradients of some values from those of some results, through the nodes that `e` holds so far."""
    nodes, gradients = list(e.nodes), dict[Value, Value]()

    def accumulate(value: Value, gradient: Value) -> None:
        gradients[value] = e.add(gradients[value], gradient) if value in gradients else gradient

    for value, seed in seeds:
        accumulate(value, seed)
    for node in reversed(nodes):
        outputs = tuple(gradients.get(v) for v in node.outputs)
        if all(g is None for g in outputs) or not node.inputs:
            continue
        g = outputs if len(outputs) > 1 else outputs[0]
        if node.primitive.vjp is None:
            raise GraphTypeError(f"{node.primitive.name} has no gradient rule; define its method vjp.")
        with e.operators():
            results = node.primitive.vjp(e, g, *node.inputs, *node.outputs, **node.attrs)
        results = results if isinstance(results, tuple) else (results,)
        if len(results) != len(node.inputs):
            counts = f"{len(results)} gradients for {len(node.inputs)} operands"
            raise GraphTypeError(f"The rule vjp of {node.primitive.name}: {counts}; return one for each, or None.")
        for value, gradient in zip(node.inputs, results, strict=True):
            if gradient is not None:
                accumulate(value, unbroadcast(e, gradient, value))
    return [gradients.get(v) for v in values]


def unbroadcast(e: Builder, gradient: Value, value: Value) -> Value:
    """The gradient of a broadcast operand, summed to the shape of the operand."""
    if gradient.type.dtype is not value.type.dtype:
        raise GraphTypeError(f"The gradient {gradient.type} of an operand {value.type} has another dtype; cast it.")
    shape, target = gradient.type.shape, value.type.shape
    if shape == target:
        return gradient
    padded = (1,) * (len(shape) - len(target)) + target
    if len(padded) != len(shape) or any(m not in (1, n) for n, m in zip(shape, padded, strict=True)):
        raise GraphTypeError(f"The gradient {gradient.type} of an operand {value.type} has another shape.")
    axes = tuple(i for i, (n, m) in enumerate(zip(shape, padded, strict=True)) if n != m)
    summed: Value = e.reshape(e.sum(gradient, axis=axes, keepdims=True), shape=target)
    return summed
