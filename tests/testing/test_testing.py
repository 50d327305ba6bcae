"""The helpers for testing passes, which are public."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from graphls.ir import Builder, Graph, Names, parse
from graphls.ir.errors import GraphKeyError, GraphValueError
from graphls.passes import manager, register_pass
from graphls.passes.simplify.dce import Dce
from graphls.testing import assert_same_values, check_pass, random_inputs, run_case, same_bits

BEFORE = "graph @g(%x: f32[2]) {\n  %a = exp(%x) : f32[2]\n  %y = neg(%x) : f32[2]\n  return %y\n}\n"
AFTER = "graph @g(%x: f32[2]) {\n  %y = neg(%x) : f32[2]\n  return %y\n}\n"


def case(folder: Path, header: str, before: str, after: str) -> Path:
    path = folder / "case.ir"
    path.write_text(f"{header}\n{before}-----\n{after}")
    return path


@pytest.mark.parametrize("passes", ["dce", Dce()])
def test_check_pass(passes: object) -> None:
    assert len(check_pass(passes, BEFORE, AFTER).nodes) == 1  # type: ignore[arg-type]


def test_check_pass_shows_the_difference() -> None:
    with pytest.raises(AssertionError) as caught:
        check_pass("dce", BEFORE, BEFORE)
    assert str(caught.value) == (
        "The pass made another graph.\nNodes: 0 added, 1 removed, 0 changed, 1 the same.\n"
        "  graph @g(%x: f32[2]) {\n-   %a = exp(%x) : f32[2]  // forward\n    %y = neg(%x) : f32[2]  // forward\n  ..."
    )


def test_check_pass_shows_the_texts_where_only_names_differ() -> None:
    with pytest.raises(AssertionError) as caught:
        check_pass("dce", BEFORE, AFTER.replace("%y", "%z"))
    assert "\nNo difference in 1 node, but in names, lines of users or order.\n--- expected\n" in str(caught.value)
    assert "\n-  %z = neg(%x) : f32[2]  // forward\n" in str(caught.value)
    assert "\n+  %y = neg(%x) : f32[2]  // forward\n" in str(caught.value)


def test_a_case_that_holds(tmp_path: Path) -> None:
    run_case(case(tmp_path, "// pass: dce\n// keeps values\n// a remark", BEFORE, AFTER))


def test_a_case_that_does_not_hold(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="The pass made another graph"):
        run_case(case(tmp_path, "// pass: dce", BEFORE, BEFORE))
    with pytest.raises(AssertionError, match="The pass made another graph"):
        run_case(case(tmp_path, "// pass: dce", BEFORE, ""))


def test_bless_rewrites_the_lower_half_only(tmp_path: Path) -> None:
    path = case(tmp_path, "// pass: dce\n// a remark", BEFORE, "nonsense")
    run_case(path, bless=True)
    upper, lower = path.read_text().split("-----\n")
    assert upper == f"// pass: dce\n// a remark\n{BEFORE}"
    assert lower == AFTER.replace("f32[2]\n  ret", "f32[2]  // forward\n  ret")
    run_case(path)


def test_bless_writes_a_half_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "new.ir"
    path.write_text(f"// pass: dce\n{BEFORE}")
    run_case(path, bless=True)
    run_case(path)


FAULTY = "graph @g(%x: f32[2]) {\n  %y = neg(%x) : f32[3]\n  return %y\n}\n"


def test_an_error_can_be_expected(tmp_path: Path) -> None:
    run_case(case(tmp_path, "// pass: dce", FAULTY, "error: neg gives f32[2] here\n"))


def test_bless_writes_an_error_and_keeps_one_that_fits(tmp_path: Path) -> None:
    path = case(tmp_path, "// pass: dce", FAULTY, "error: something else\n")
    with pytest.raises(AssertionError, match="something else"):
        run_case(path)
    run_case(path, bless=True)
    error = path.read_text().rpartition("-----\n")[2]
    assert error.startswith("error: The input graph of the pipeline does not verify. Neg gives f32[2] here")
    assert error.count("\n") == 1
    path = case(tmp_path, "// pass: dce", FAULTY, "error: gives f32[2]\n")
    run_case(path, bless=True)
    assert path.read_text().endswith("error: gives f32[2]\n")


def test_an_error_that_does_not_come(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="expected 'error: gives"):
        run_case(case(tmp_path, "// pass: dce", BEFORE, "error: gives\n"))


def test_an_error_that_nobody_expects_comes_through(tmp_path: Path) -> None:
    with pytest.raises(GraphKeyError, match="There is no pass 'dze'"):
        run_case(case(tmp_path, "// pass: dze", BEFORE, AFTER))


def test_a_case_names_its_pass(tmp_path: Path) -> None:
    with pytest.raises(GraphValueError, match=r"case\.ir names no pass"):
        run_case(case(tmp_path, "// passes: dce", BEFORE, AFTER))


def test_syntax_errors_count_lines_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(SyntaxError, match=r"case\.ir:3:8: There is no primitive 'nag'"):
        run_case(case(tmp_path, "// pass: dce", AFTER.replace("neg", "nag"), AFTER))
    with pytest.raises(SyntaxError, match=r"case\.ir:9:8: There is no primitive 'nag'"):
        run_case(case(tmp_path, "// pass: dce", BEFORE, AFTER.replace("neg", "nag")).resolve())


def test_same_values_sees_the_sign_of_zero_and_nan() -> None:
    plus = parse("graph @g(%x: f32[]) {\n  %z = sub(%x, %x) : f32[]\n  return %z\n}")
    minus = parse("graph @g(%x: f32[]) {\n  %z = sub(%x, %x) : f32[]\n  %y = neg(%z) : f32[]\n  return %y\n}")
    assert_same_values(plus, plus)
    assert_same_values(plus, minus, tolerance=1e-9)
    with pytest.raises(AssertionError, match=r"The graphs differ in output 0 \(seed 0"):
        assert_same_values(plus, minus)


@pytest.fixture
def lossy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that changes values a little: exp(x) becomes exp(x + 1e-3), and integers n become -n."""
    monkeypatch.setattr(manager, "_passes", dict(manager._passes))

    @register_pass
    @dataclass(frozen=True)
    class Lossy:
        name = "lossy"

        def run(self, graph: Graph) -> Graph:
            e = Builder(Names.of(graph))
            for node in graph.nodes:
                x = node.inputs[0]
                e.append(replace(node, inputs=(e.add(x, 1e-3) if x.type.dtype.is_float else e.neg(x),)))
            return graph.replace(nodes=tuple(e.nodes))


EXP = "graph @g(%x: f32[2,3]) {\n  %y = exp(%x) : f32[2,3]\n  return %y\n}\n"
ABS = "graph @g(%n: i32[]) {\n  %y = neg(%n) : i32[]\n  return %y\n}\n"


@pytest.mark.usefixtures("lossy")
@pytest.mark.parametrize(
    ("header", "before", "message"),
    [
        (
            "// keeps values 1e-5",
            EXP,
            r"case\.ir says '// keeps values 1e-05', and 'lossy' does not\. The graphs differ in output 0 \(seed 0\): "
            r"at \[\d, \d\] it is [\d.]+ before and [\d.]+ after; 6 of 6 elements differ, by at most 0\.00\d+ "
            r"\(relatively 0\.001\), and 1e-05 is allowed, relatively and absolutely\.\n\[\[",
        ),
        (
            "// keeps values",
            EXP,
            r"'// keeps values', and .* 6 of 6 elements differ, .*, and every bit must be the same\.\n",
        ),
        (
            "// keeps values 1",
            ABS,
            r"at its only element it is -?\d before and -?\d after; 1 of 1 elements differ, by at most \d "
            r"\(relatively 2\), and every bit must be the same for int32\.",
        ),
    ],
)
def test_a_case_says_how_values_differ_and_what_is_allowed(
    header: str, before: str, message: str, tmp_path: Path
) -> None:
    path = case(tmp_path, f"// pass: lossy\n{header}", before, "")
    with pytest.raises(AssertionError):
        run_case(path)  # the graphs differ
    with pytest.raises(AssertionError, match=message):
        run_case(path, bless=True)


def test_same_values_sees_states() -> None:
    text = "graph @g(%x: f32[]) {\n  state @w: f32[]\n  @w <- %x\n  return\n}"
    assert_same_values(parse(text), parse(text))
    with pytest.raises(AssertionError, match="The graphs differ in state @w"):
        assert_same_values(parse(text), parse(text.replace("  @w <- %x\n", "")))
    with pytest.raises(AssertionError, match="differ in their inputs, states or outputs"):
        assert_same_values(parse(text), parse(text.replace("@w", "@v")))


def test_random_inputs_follow_types_and_seed() -> None:
    graph = parse("graph @g(%x: f16[3], %i: u8[40], %b: bool[], %h: bf16[2]) {\n  state @w: i64[2]\n  return\n}")
    inputs, states = random_inputs(graph, 1)
    assert [a.dtype.name for a in inputs] == ["float16", "uint8", "bool", "bfloat16"]
    assert inputs[1].max() == 3
    assert states["w"].shape == (2,)
    again, other = random_inputs(graph, 1)[0], random_inputs(graph, 2)[0]
    assert all(map(same_bits, inputs, again))
    assert not same_bits(inputs[0], other[0])


def test_special_inputs_hold_infinities_and_nan() -> None:
    (numbers,), _ = random_inputs(parse("graph @g(%x: f16[999]) {\n  return\n}"), special=True)
    assert {"inf", "-inf", "nan", "-0.0"} <= {str(n) for n in numbers.tolist()}


def test_same_bits() -> None:
    nan = np.array([np.nan, 1.0], np.float32)
    assert same_bits(nan, np.negative(nan) * np.array([1, -1], np.float32))
    assert not same_bits(nan, nan.astype(np.float64))
    assert not same_bits(nan, nan.reshape(2, 1))
    assert not same_bits(np.array(0.0), np.array(-0.0))
    assert same_bits(np.zeros((0, 2)), np.zeros((0, 2)))
    assert not same_bits(np.zeros((0, 2)), np.zeros((2, 0)))
