"""What others must know of a primitive is a field of it, also of a user's: nobody keeps lists of names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls.ir import Type, dump, parse, registry
from graphls.ir.errors import GraphValueError
from graphls.ir.registry import Operation, lookup, operations
from graphls.nn.amp.precision import lowered, widened
from graphls.passes import parse_pipeline
from graphls.primitives.primitive import Primitive, f32, sample
from graphls.runtime.lowering.lowering import lower

PACKAGE = Path(graphls.__file__).parent


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Primitives that a test defines are forgotten behind it."""
    monkeypatch.setattr(registry, "_operations", dict(registry._operations))
    yield


def with_fact(fact: str) -> set[str]:
    return {each.name for each in operations() if getattr(each, fact)}


def test_the_facts_of_the_primitives_that_there_are() -> None:
    assert with_fact("is_constant") == {"constant"}
    collectives = {
        "all_gather", "all_reduce", "all_reduce_where", "all_to_all", "barrier", "broadcast", "gather_shards",
        "neighbor_exchange", "reduce_scatter", "reduce_shards", "reduce_to",
    }  # fmt: skip
    assert with_fact("is_collective") == collectives
    assert with_fact("calls_python") == {"print", "pure_callback", "py_func"} | collectives
    assert with_fact("has_effect") == {"print", "py_func"} | collectives
    assert with_fact("is_branch") == {"cond"}
    assert with_fact("is_loop") == {"scan", "while_loop"}
    assert with_fact("is_check") == {"overflow_get"}
    assert with_fact("is_convolution") == {"convolution", "convolution_add", "convolution_input_gradient"}
    assert with_fact("is_view") == {"check_labels", "custom_gradient", "depend", "reshape", "shard", "stop_gradient"}
    views = with_fact("is_view") - {"custom_gradient"}
    assert with_fact("moves") == views | {"broadcast_to", "reverse", "transpose"}
    assert with_fact("native_low") == {"cast", "dequantize", "quantize", "round_stochastically"}
    assert with_fact("is_transparent") == with_fact("moves") | {"cast"}
    assert with_fact("selects") == with_fact("is_transparent") | {"slice"}
    assert {each.name: each.factors for each in operations() if len(each.factors) > 1} == {"mul": (0, 1)}
    assert with_fact("factors") == with_fact("is_transparent") | {"mul", "div"}
    assert with_fact("bounds") == {"maximum", "minimum"}
    assert with_fact("is_commutative") == {
        "add", "bitwise_and", "bitwise_or", "bitwise_xor", "equal", "logaddexp", "logical_and", "logical_or",
        "logical_xor", "maximum", "minimum", "mul", "not_equal",
    }  # fmt: skip
    assert with_fact("neutral") == {"add", "sub", "mul", "div", "pow", "logical_and", "logical_or"}
    assert with_fact("takes_indices") == {
        "gather", "gather_elements", "gather_elements_gradient", "gather_gradient", "scatter_max", "scatter_min",
        "scatter_mul",
    }  # fmt: skip
    assert {each.name for each in operations() if each.integer_gradient == "divided"} == {
        "max", "maximum", "min", "minimum",
    }  # fmt: skip


def test_what_moves_gives_the_elements_of_its_operand() -> None:
    for primitive in operations():
        for each in primitive.samples if primitive.moves and isinstance(primitive, Primitive) else ():
            (kind,) = each.types
            x = np.arange(kind.size).reshape(kind.shape).astype(kind.dtype.numpy)
            if primitive.name == "check_labels":
                x = np.zeros_like(x)
            (y,) = primitive.evaluate((x,), each.attrs, primitive.result_types((kind,), each.attrs))
            assert not y.size or set(np.unique(y)) == set(np.unique(x)), primitive.name


def test_every_primitive_whose_indices_may_be_out_of_range_says_so() -> None:
    """What an ONNX rule calls says it."""
    for primitive in operations():
        is_known = isinstance(primitive, Primitive) and not primitive.is_collective
        if is_known and any(w in primitive.name for w in ("gather", "scatter", "index")):
            assert primitive.takes_indices, primitive.name


def test_mixed_precision_has_primitives_and_what_is_made_of_several() -> None:
    assert lowered("O1") == {
        "batch_matmul", "convolution", "convolution_add", "convolution_input_gradient", "ger", "matmul", "matmul_add",
        "prelu", "relu",
    }  # fmt: skip
    assert {"exp", "softmax", "mse_loss", "layer_norm"} < widened("auto")
    assert not widened("O1") and len(lowered("auto")) == 12 and len(widened("auto")) == 36


def test_a_primitive_of_a_user_takes_part_in_what_its_facts_say(known: None) -> None:
    class OwnMove(Primitive):
        """The elements from behind."""

        half = "exact"
        moves = True
        widened_at = ("auto",)
        samples = (sample(f32(3)),)

        def infer(self, x: Type) -> Type:
            return x

        def numpy(self, x: Any) -> Any:
            return x[::-1]

    assert lookup("own_move").is_transparent and lookup("own_move").factors == (0,)
    assert "own_move" in widened("auto")
    graph = parse("""
graph @g(%x: f32[3]) {
  %c = constant() {value=array(f32[3], [1.0, 1.0, 1.0])} : f32[3]
  %m = own_move(%c) : f32[3]
  %y = mul(%x, %m) : f32[3]
  return %y
}
""")
    assert "return %x" in dump(parse_pipeline("fold, dce").run(graph).graph)


def test_a_primitive_without_an_onnx_rule_is_an_error_with_the_line_of_the_user(known: None) -> None:
    class OwnNumbers(Primitive):
        """What only NumPy computes."""

        samples = (sample(f32(3)),)

        def infer(self, x: Type) -> Type:
            return x

        def numpy(self, x: Any) -> Any:
            return x + 1

    graph = parse("graph @g(%x: f32[3]) {\n  %y = own_numbers(%x) : f32[3]  // forward | net.py:7\n  return %y\n}")
    with pytest.raises(GraphValueError, match=r"own_numbers has no ONNX rule.*net\.py:7"):
        lower(graph)


def test_what_is_no_primitive_of_ours_has_every_fact() -> None:
    class Other(Operation):
        name = "other"

    other = Other()
    assert not (other.is_view or other.moves or other.is_branch or other.is_loop or other.factors)
    with pytest.raises(NotImplementedError):
        other.evaluate((), {}, ())


def comparisons(tree: ast.AST) -> Iterator[ast.Compare]:
    """Where `primitive.name` is looked up in several names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            if ast.unparse(node.left).endswith(("primitive.name", "operation.name")):
                yield node


def test_nobody_keeps_a_list_of_the_names_of_primitives() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{each.lineno}: {ast.unparse(each)}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if re.search(r"(primitive|operation)\.name\)*\s+(not\s+)?in\b", text := path.read_text(encoding="utf-8"))
        for each in comparisons(ast.parse(text))
    ]
    assert not found, found


@pytest.mark.parametrize("name", sorted(with_fact("is_commutative") | {"sub", "less"}))
def test_operands_of_commutative_primitives_may_change_places(name: str) -> None:
    primitive, random = lookup(name), np.random.default_rng(1)
    assert isinstance(primitive, Primitive)
    kind = primitive.samples[0].types[0].dtype.numpy
    x, y = (random.integers(-3, 4, 40).astype(kind) for _ in range(2))
    (there,), (back,) = primitive.computed((x, y), {}), primitive.computed((y, x), {})
    assert np.array_equal(there, back) == primitive.is_commutative
