"""Models at every opset that the lowering can write: valid by ONNX, and with the same numbers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import graphls
from graphls.inspect.testing.samples import assert_close, draw, in_dtype, run, single
from graphls.ir import Builder, Graph, Value, interpret, verify
from graphls.ir.errors import GraphValueError
from graphls.ir.types import Type, bfloat16, float32
from graphls.runtime.lowering import lower
from graphls.runtime.lowering.kernel_tables import NEWEST, OLDEST, best_opset, chosen_opset, ir_version, signature
from graphls.runtime.lowering.protos import operators
from graphls.runtime.onnxruntime.kernel_checks import is_right
from graphls.runtime.onnxruntime.kernel_search import element_types
from tests.networks.steps import build
from tests.primitives.test_every_primitive import CASES

OPSETS = range(OLDEST, NEWEST + 1)


@cache
def newest_here() -> int:
    """The newest opset whose models the runtime at hand opens."""
    x = Value("x", Type(float32, (2,)))
    e = Builder()
    graph = Graph("g", (x,), (), tuple(e.nodes), (), (e.neg(x),))
    for opset in reversed(OPSETS):
        model = lower(verify(Graph("g", (x,), (), tuple(e.nodes), (), graph.outputs)), opset=opset).model
        try:
            onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        except Exception:
            continue
        return opset
    raise AssertionError("no opset is known")


def meaning_of(model: onnx.ModelProto, opset: int) -> object:
    """What models have in common that compute the same, whatever opset they name."""
    nodes = (node for node in operators(model.graph.node) if not node.domain)
    versions = tuple(onnx.defs.get_schema(node.op_type, opset).since_version for node in nodes)
    return versions, model.graph.SerializeToString(deterministic=True)


@pytest.mark.parametrize(("primitive", "sample"), CASES)
def test_the_model_is_valid_at_every_opset(primitive: Any, sample: Any) -> None:
    for dtype, device in ((float32, "cpu"), (bfloat16, "cuda")):
        graph, checked = single(primitive, sample, in_dtype(sample, dtype)), set[object]()
        for opset in OPSETS:
            model = lower(graph, device=device, opset=opset).model
            assert model.ir_version == ir_version(opset) and model.opset_import[0].version == opset
            if (meaning := meaning_of(model, opset)) in checked:
                continue
            checked.add(meaning)
            onnx.checker.check_model(model, full_check=dtype is float32)
            kinds = element_types(model)
            for proto in operators(model.graph.node):
                its = signature(proto.op_type, opset)
                assert its is not None, f"{proto.op_type} is not an operator of opset {opset}"
                inputs, outputs = ([kinds.get(n, "") for n in names] for names in (proto.input, proto.output))
                assert not its.refuses(its.types(inputs, outputs))


@pytest.mark.parametrize(("primitive", "sample"), CASES)
def test_the_numbers_are_the_same_at_every_opset(primitive: Any, sample: Any) -> None:
    graph = single(primitive, sample, sample.types)
    arrays = draw(sample, sample.types)
    expected = interpret(graph, arrays)[0]
    opsets = sorted({17, 18, 21, newest_here()})
    models = {opset: lower(graph, kernel_is_right=is_right, opset=opset) for opset in opsets}
    different = {meaning_of(lowered.model, opset): lowered for opset, lowered in models.items()}
    for lowered in different.values():
        for found, wanted in zip(run(lowered, graph, arrays), expected, strict=True):
            assert_close(found, wanted, float32)


@pytest.mark.parametrize("opset", [16, 26, 0, True, "18"])
def test_other_opsets_are_refused(opset: Any) -> None:
    with pytest.raises(GraphValueError, match="A model can be written at opset 17 to 25, not"):
        chosen_opset(opset, None)


def test_an_opset_is_refused_that_the_package_of_onnx_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx.defs, "onnx_opset_version", lambda: 21)
    with pytest.raises(GraphValueError, match="knows opsets up to 21, not 22; run pip install --upgrade onnx"):
        chosen_opset(22, None)


@pytest.mark.parametrize(
    ("runtime", "opset"),
    [("1.18.0", 18), ("1.19.2", 18), ("1.23.2", 18), ("1.24.1", 18), ("1.30.0", 21), ("1.31.1", 21)],
)
def test_the_opset_is_the_one_that_has_most_kernels(runtime: str, opset: int) -> None:
    assert best_opset(runtime) == opset == chosen_opset(None, runtime)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("width", [1, 3])
def test_a_pad_before_an_average_is_no_part_of_it(opset: int, width: int) -> None:
    """ONNX Runtime 1.19 leaves its zeros out of the mean, and all versions refuse one as wide as the windows."""
    if opset > newest_here():
        pytest.skip("the runtime does not know this opset")
    x = Value("x", Type(float32, (1, 1, 4, 4)))
    e = Builder()
    size = 4 + 2 * width
    bounds = {"starts": (0, 0, width, width), "stops": (1, 1, 4 + width, 4 + width), "steps": (1, 1, 1, 1)}
    wide = e.slice_gradient(x, shape=(1, 1, size, size), **bounds)
    means = [e.avg_pool(wide, kernel=(3, 3), pads=pads) for pads in ((0, 0, 0, 0), (1, 1, 1, 1), (1, 0, 0, 1))]
    graph = verify(Graph("g", (x,), (), tuple(e.nodes), (), tuple(means)))
    array = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
    for found, wanted in zip(run(lower(graph, opset=opset), graph, [array]), interpret(graph, [array])[0], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_a_pad_before_a_convolution_on_a_gpu_is_no_part_of_it() -> None:
    """Uneven padding of CUDA's kernels writes to another buffer."""
    x, w = Value("x", Type(float32, (1, 1, 4, 4))), Value("w", Type(float32, (1, 1, 3, 3)))
    e = Builder()
    wide = e.slice_gradient(x, shape=(1, 1, 5, 5), starts=(0, 0, 1, 0), stops=(1, 1, 5, 4), steps=(1, 1, 1, 1))
    y = e.convolution(wide, w)
    graph = verify(Graph("g", (x, w), (), tuple(e.nodes), (), (y,)))
    assert [n.op_type for n in lower(graph, device="cuda").model.graph.node] == ["Pad", "Reshape", "Conv"]
    assert [n.op_type for n in lower(graph).model.graph.node] == ["Pad", "Conv"]


def outputs_at(step: Any, feeds: Any, opset: int, folder: Any) -> list[Any]:
    """What a saved step gives, at an opset, on the CPU."""
    file = folder / f"step{opset}.onnx"
    step.save(file, opset=opset)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, {i.name: feeds[i.name] for i in session.get_inputs()}))


@pytest.mark.parametrize(
    ("name", "form"), [("lenet", "O2"), ("lstm", "float32"), ("mixture", "float16"), ("attention", "bfloat16")]
)
def test_a_saved_step_has_the_same_bits_at_every_opset(name: str, form: str, tmp_path: Any) -> None:
    cell, inputs = build(name, form)
    step = graphls.compile(cell, *inputs)
    lowered = lower(step.graph)
    feeds = dict(zip(lowered.inputs, inputs, strict=True))
    feeds |= {tensor: step.parameters[state].storage.read() for state, tensor in lowered.states.items()}
    expected = outputs_at(step, feeds, 18, tmp_path)
    for opset in sorted({17, 21, newest_here()}):
        found = outputs_at(step, feeds, opset, tmp_path)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(found, expected, strict=True))
