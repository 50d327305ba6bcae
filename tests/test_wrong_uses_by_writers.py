"""Wrong uses by those who write passes and primitives: each is a GraphlsError that names the rule or the pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Tensor
from graphls.ir import Builder, Graph, Value, registry
from graphls.ir.errors import GraphlsError
from graphls.ir.types import float32, int32, int64
from graphls.passes import lookup
from graphls.primitives import Primitive, Type, f32, sample
from graphls.tensors import apply
from graphls.testing import check_primitive

X = np.arange(6, dtype=np.float32).reshape(2, 3)
VALUE = Value("x", Type(float32, (2, 3)))
RIGHT: dict[str, Any] = {
    "infer": lambda self, x: x,
    "numpy": lambda self, x: x * 2,
    "vjp": lambda self, e, g, x, y: e.mul(g, 2.0),
    "onnx": lambda self, e, x: e.Add(x, x),
}


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_operations", dict(registry._operations))


def define(**rules: Any) -> type[Primitive]:
    """A primitive `twice` with other rules; None takes one away."""
    members = {name: rule for name, rule in {**RIGHT, **rules}.items() if rule is not None}
    return type("Twice", (Primitive,), {"__doc__": "Twice as much.", "samples": (sample(f32(2, 3)),), **members})


def at_once() -> Any:
    return apply("twice", Tensor(X))


def compiled() -> Any:
    return graphls.compile(lambda x: apply("twice", x), X)(X)


def by_numpy() -> Any:
    return graphls.compile(lambda x: apply("twice", x), X, backend="numpy")(X)


def gradient() -> Any:
    return graphls.grad(lambda x: apply("twice", x).sum())(Tensor(X))


def cases() -> Iterator[tuple[str, Any, Callable[[], Any], str]]:
    """A rule, what is in its place, what is done then, and what the error says; `gives`, `raised`: of that rule."""
    for run in (at_once, compiled):
        yield "infer", None, run, "The primitive twice has no type rule; give its class one, `infer`"
        yield "infer", lambda self, x: x.dtype, run, r"gives DType Float32 where a Type is expected"
        yield "infer", lambda self, x: x.dims, run, r"raised AttributeError: .*'dims'; mend `infer`"
        yield "infer", lambda self, x: x.shape[7], run, r"raised IndexError: .*; mend `infer` of Twice"
    for run in (at_once, by_numpy):
        yield "numpy", None, run, "The primitive twice has no NumPy rule; give its class one, `numpy`"
        yield "infer", lambda self, x: x.with_dtype(int32), run, r"NumPy rule of .* gives f32\[2,3\] where.*i32\[2,3\]"
        yield "numpy", lambda self, x: x.sum(0), run, r"gives f32\[3\] where its type rule says f32"
        yield "numpy", lambda self, x: x.astype(float), run, r"gives f64\[2,3\] where"
        yield "numpy", lambda self, x: None, run, r"gives NoneType None where"
        yield "numpy", lambda self, x: (x, x), run, r"gives f32\[2,3\], f32\[2,3\] where"
        yield "numpy", lambda self, x: x.reshape(7), run, r"raised ValueError: .*; mend `numpy`"
        yield "numpy", lambda self, x: {}["a"], run, r"raised KeyError: 'a'; mend `numpy` of Twice"
    yield "vjp", lambda self, e, g, x, y: 1.0, gradient, r"gives float 1.0 where a gradient, or None"
    yield "vjp", lambda self, e, g, x, y: (g, g), gradient, r"gives f32\[2,3\], f32\[2,3\] where"
    yield "vjp", lambda self, e, g, x, y: e.sum(g, axis=(0,)), gradient, r"gives f32\[3\] where"
    yield "vjp", lambda self, e, g, x, y: e.cast(g, dtype=int32), gradient, r"gives i32\[2,3\]"
    yield "vjp", lambda self, e, g: g, gradient, r"raised TypeError: .*; mend `vjp` of Twice"
    yield "vjp", lambda self, e, g, x, y: e.no_such(g), gradient, "There is no primitive 'no_such'"
    yield "onnx", None, compiled, "The primitive twice has no ONNX rule; give its class one, `onnx`"
    yield "onnx", "NoSuch", compiled, r"gives operators that ONNX refuses \(No Op registered for NoSuch"
    yield "onnx", lambda self, e, x: e.Celu(x), compiled, r"is not a method is e.operator\('Celu', \[x\]\); mend"
    yield "onnx", lambda self, e, x: None, compiled, r"gives NoneType None where the name of a tensor"
    yield "onnx", lambda self, e, x: "other", compiled, r"gives str 'other' where the name of a tensor"
    yield "onnx", lambda self, e, x: (x, x), compiled, r"gives str 'x0', str 'x0' where the name"
    yield "onnx", lambda self, e, x: e.Greater(x, x), compiled, r"gives bool\[2,3\] where its type rule"
    yield "onnx", lambda self, e, x: e.cast(x, int64), compiled, r"gives i64\[2,3\] where its type rule"
    yield "onnx", lambda self, e, x: e.ReduceSum(x, e.ints([0])), compiled, r"gives f32\[1,3\] where"
    yield "onnx", lambda self, e, x: e.Add(x, e.ints([1])), compiled, r"gives operators that ONNX refuses"
    yield "onnx", lambda self, e, x: e.Add(x), compiled, r"gives operators that ONNX refuses"
    yield "onnx", lambda self, e, x: e.Relu(x, axis=3), compiled, "Unrecognized attribute: axis for operator Relu"
    yield "onnx", lambda self, e, x: e.Relu(x, axis={}), compiled, "Relu cannot have an attribute 'axis' of {}"
    yield "onnx", lambda self, e, x: e.Add(x, 1.0), compiled, "Add takes names of tensors, not 1.0; make a"
    yield "onnx", lambda self, e, x: x.dims, compiled, r"raised AttributeError: .*; mend `onnx` of Twice"


@pytest.mark.parametrize(("rule", "given", "run", "text"), tuple(cases()))
def test_a_wrong_rule_is_named_with_its_primitive(rule: str, given: Any, run: Callable[[], Any], text: str) -> None:
    define(**{rule: given})
    if text.startswith(("gives", "raised")):
        text = f"rule of the primitive twice {text}"
    with pytest.raises(GraphlsError, match=text) as caught:
        run()
    assert "test_wrong_uses_by_writers.py" in str(caught.value)


def test_right_rules_and_16_bits() -> None:
    define()
    for run in (at_once, compiled, by_numpy):
        assert np.array_equal(run().asnumpy(), 2 * X)
    assert np.array_equal(gradient().asnumpy(), np.full_like(X, 2))
    half = X.astype(np.float16)
    for backend in ("onnxruntime", "numpy"):
        step = graphls.compile(lambda x: apply("twice", x), half, backend=backend)
        assert np.array_equal(step(half).asnumpy(), 2 * half)
    assert np.array_equal(apply("twice", Tensor(half)).asnumpy(), 2 * half)
    check_primitive("twice")


def test_samples_are_made_by_sample() -> None:
    with pytest.raises(AssertionError, match=r"Each of its `samples` must be made by `sample`"):
        check_primitive(define(samples=(f32(2, 3),)))


def changed(**changes: Callable[[Graph], Any]) -> Callable[[Graph], Graph]:
    return lambda graph: graph.replace(**{name: make(graph) for name, make in changes.items()})


def on_nodes(**changes: Any) -> Callable[[Graph], Graph]:
    return changed(nodes=lambda graph: tuple(replace(node, **changes) for node in graph.nodes))


def without_names(graph: Graph) -> Graph:
    e = Builder()
    y = e.mul(graph.outputs[0], graph.outputs[0])
    return graph.replace(nodes=(*graph.nodes, *e.nodes), outputs=(y,))


def in_place(graph: Graph) -> Graph:
    graph.nodes = ()  # type: ignore[misc]
    return graph


def node_in_place(graph: Graph) -> Graph:
    graph.nodes[0].attrs = {}  # type: ignore[misc]
    return graph


EXTRA = Value("extra", Type(float32, (2,)))
PASSES: tuple[tuple[Callable[[Graph], Any], str], ...] = (
    (lambda graph: None, "The pass 'mine' returned NoneType and must return a Graph"),
    (without_names, r"'mine' does not verify; Builder\(Names.of\(graph\)\) .* The name %mul is used twice"),
    (changed(outputs=lambda g: g.outputs[0]), r"the pass 'mine' is malformed: its outputs are %mul: f32\[2,3\], "),
    (changed(outputs=lambda g: ("mul",)), "pass 'mine' is malformed: its outputs have 'mul', which is not a Value"),
    (changed(nodes=lambda g: g.outputs), r"is malformed: its nodes have %mul: f32\[2,3\], which is not a Node"),
    (changed(nodes=lambda g: None), "is malformed: its nodes are None, and must be a tuple of Nodes"),
    (changed(node=lambda g: ()), "A graph has no 'node'; it has name, inputs, states, nodes, writes, outputs."),
    (on_nodes(primitive="add"), "malformed: the primitive of a node is 'add', and must be what graphls.passes.lookup"),
    (on_nodes(attrs={"strange": 1}), "the pass 'mine' does not verify"),
    (changed(nodes=lambda g: g.nodes[::-1]), "'mine' does not verify. %add is used before it is defined"),
    (changed(inputs=lambda g: (*g.inputs, Value("q", "f32[2]"))), "the type of 'q' is 'f32.2.', and must be a Type"),  # type: ignore[arg-type]
    (changed(inputs=lambda g: (*g.inputs, EXTRA)), r"pass 'mine' made inputs f32\[2,3\], f32\[2\] of f32\[2,3\]; it"),
    (changed(states=lambda g: (Value("extra", EXTRA.type, True),)), "added the state 'extra', which is not a param"),
    (in_place, "The pass 'mine' changes a graph or a node in place .*; make new ones with graph.replace"),
    (node_in_place, "The pass 'mine' changes a graph or a node in place .*; make new ones with graph.replace"),
    (lambda graph: graph.state("weight"), "The graph has no state 'weight'"),
    (lambda graph: Builder().add(VALUE, "one"), "A constant is a number or an array of numbers, not 'one'"),
    (lambda graph: Builder().ad(VALUE, VALUE), "There is no primitive 'ad'; did you mean 'add'"),
    (lambda graph: lookup(3), "There is no primitive 3"),  # type: ignore[arg-type]
)


@pytest.mark.parametrize(("run", "text"), PASSES)
def test_a_wrong_pass_is_named(run: Callable[[Graph], Graph], text: str) -> None:
    @dataclass(frozen=True)
    class Mine:
        name = "mine"

        def run(self, graph: Graph) -> Graph:
            return run(graph)

    with pytest.raises(GraphlsError, match=text):
        graphls.compile(lambda x: (x + 1) * 2, X, passes=[Mine()])


def test_a_class_of_passes_is_no_pass() -> None:
    @dataclass(frozen=True)
    class Mine:
        name = "mine"

        def run(self, graph: Graph) -> Graph:
            return graph

    with pytest.raises(GraphlsError, match=r"Mine is a class of passes; give a pass of it, Mine\(\)"):
        graphls.compile(lambda x: x + 1, X, passes=[Mine])
