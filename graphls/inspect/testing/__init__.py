"""Unit tests for passes and primitives: graphs as text before and after a pass, both run on the same numbers.

`check_primitive` tests the laws of all primitives on the samples of one.
`reduce_graph` cuts a graph down to what a fault needs, `run_apart` reproduces the fault in a process that may crash.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import unified_diff
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from graphls.base.errors import GraphlsError, GraphValueError
from graphls.base.files.files import read_bytes, write_text
from graphls.inspect.testing.agreement import disagreement, same_bits
from graphls.inspect.testing.reduction import Ending, reduce_graph, run_apart
from graphls.ir.graph import Graph
from graphls.ir.interpret import interpret
from graphls.ir.parse import parse
from graphls.ir.text import dump
from graphls.ir.types import Type
from graphls.passes import Pass, Pipeline, Rewrite, as_pipeline
from graphls.primitives.primitive import Primitive

__all__ = [
    "Ending", "assert_same_values", "check_pass", "check_primitive", "check_rewrite", "random_inputs", "reduce_graph",
    "run_apart", "run_case", "same_bits",
]  # fmt: skip

Array = np.ndarray[Any, Any]

_RULE = "-----"
_SPECIAL = (np.inf, -np.inf, np.nan, 0.0, -0.0, 6e4, -6e4, 1e-7)


def check_pass(passes: Pass | Pipeline | str, before: str, after: str) -> Graph:
    r"""Assert that a pass (or a pipeline, or its text) turns the graph `before` into the graph `after`.

    Returns the resulting graph. Raises AssertionError with the difference where it is another one (of the
    texts, where the structure is the same), and whatever the pass itself raises.

    Raises GraphTypeError for objects that are not passes and for graphs that are not texts.

    Examples:
        >>> from graphls.testing import check_pass
        >>> before = '''
        ... graph @main(%x: f32[2]) {
        ...   %unused = exp(%x) : f32[2]
        ...   %y = log(%x) : f32[2]
        ...   return %y
        ... }
        ... '''
        >>> graph = check_pass("dce", before, before.replace("  %unused = exp(%x) : f32[2]\n", ""))
        >>> len(graph.nodes)
        1
    """
    __tracebackhide__ = True
    graph = as_pipeline(passes).run(parse(before, file="before"), keep=False).graph
    _assert_same_text(dump(parse(after, file="after")), dump(graph))
    return graph


def check_primitive(primitive: type[Primitive] | Primitive | str) -> None:
    """Assert that the laws of the primitives of graphls hold for a primitive, on each of its samples.

    The type rule says what the NumPy rule computes, in float16, float32 and float64; first and second gradients are the
    slopes that finite differences measure in float64, where the sample says that there is one; the ONNX model, at the
    opset that `compile` writes for the installed runtime, agrees with NumPy in those dtypes and in bfloat16, for a GPU
    too, and elementwise ones at infinities and nan as well; the text form reads back. Accepts a subclass of Primitive,
    an instance or a name; each sample takes milliseconds.

    Raises AssertionError that names the law, the sample and the dtype, and GraphTypeError for anything else.

    Examples:
        >>> from graphls.testing import check_primitive
        >>> check_primitive("exp")  # raises where a law does not hold
    """
    __tracebackhide__ = True
    from graphls.inspect.testing.laws import check

    check(primitive)


def check_rewrite(rewrite: Rewrite, graph: Graph | str, *, tolerance: float = 1e-5) -> int:
    """Assert that a replacement computes what its pattern does, at every match in a graph; returns the number of these.

    Both sides run in the reference interpreter on random numbers of the types of the match; floats may differ by
    `tolerance`, relatively or absolutely. Matches of the same types and numbers are tried once. Raises AssertionError
    that says where they differ or, where nothing matches, what is nearest to a match, and GraphTypeError where the
    types of both sides differ.

    Examples:
        >>> from graphls.passes import rewrite
        >>> from graphls.testing import check_rewrite
        >>> double = rewrite("add(x, x)", "mul(x, 2.0)")
        >>> graph = '''
        ... graph @main(%a: f32[4]) {
        ...   %y = add(%a, %a) : f32[4]
        ...   return %y
        ... }
        ... '''
        >>> check_rewrite(double, graph)
        1
    """
    __tracebackhide__ = True
    parsed = parse(graph) if isinstance(graph, str) else graph
    matches = rewrite.pattern.find(parsed)
    if not matches:
        near = rewrite.pattern.nearest(parsed)
        raise AssertionError(f"{rewrite.name} matches nowhere{'' if near is None else f'; nearest: {near}'}.")
    tried = set()
    for match in matches:
        types = tuple((name, value.type) for name, value in match.values.items())
        if (key := (types, repr(match.numbers))) not in tried:
            tried.add(key)
            try:
                assert_same_values(*rewrite.sides(match), tolerance=tolerance)
            except AssertionError as error:
                raise AssertionError(f"{rewrite.name} changes values at {match.nodes[0]}. {error}") from None
    return len(matches)


def run_case(path: str | PathLike[str], bless: bool = False) -> None:
    """Check one case file, or rewrite its lower half where `bless` is true.

    The file starts with a line `// pass: fold, cse`. The graph before stands above a line of dashes
    (-----), below it stands the graph after, or `error: ` and words of the expected message.
    With a line `// keeps values`, both graphs also run on random numbers and must give the same bits;
    `// keeps values 1e-6` allows that relative or absolute difference. Raises AssertionError that shows what differs
    between the graphs or, where values do, the file, the place, by how much, and what is allowed.

    Raises GraphTypeError for a case whose head names no pass.

    Examples:
        >>> from pathlib import Path
        >>> from graphls.testing import run_case
        >>> _ = Path("case.ir").write_text('''// pass: dce
        ... graph @main(%x: f32[2]) {
        ...   %unused = exp(%x) : f32[2]
        ...   return %x
        ... }
        ... -----
        ... graph @main(%x: f32[2]) {
        ...   return %x
        ... }
        ... ''')
        >>> run_case("case.ir")
    """
    __tracebackhide__ = True
    case = _Case.read(Path(path))
    before = parse(case.before, file=str(path))
    try:
        after = as_pipeline(case.passes).run(before, keep=False).graph
    except GraphlsError as error:
        if case.expected_error is None and not bless:
            raise
        case.check(f"error: {str(error).splitlines()[0]}\n", str(error), bless)
        return
    case.check(dump(after), "", bless)
    if case.tolerance is not None:
        _keep_values(case, before, after)


def _keep_values(case: _Case, before: Graph, after: Graph) -> None:
    """Assert that both graphs have the same values; the error names the file and its line of the tolerance."""
    __tracebackhide__ = True
    try:
        assert_same_values(before, after, tolerance=case.tolerance or 0.0)
    except AssertionError as error:
        line = f"// keeps values{f' {case.tolerance:g}' if case.tolerance else ''}"
        raise AssertionError(f"{case.path} says '{line}', and {case.passes!r} does not. {error}") from None


@dataclass
class _Case:
    path: Path
    passes: str
    tolerance: float | None
    before: str
    after: str

    @classmethod
    def read(cls, path: Path) -> _Case:
        text = read_bytes(path).decode("utf-8")
        before, _, after = re.sub(r"(?m)^-----+$", _RULE, text).partition(f"\n{_RULE}\n")
        passes = re.search(r"(?m)^// pass: (.+)$", before)
        if passes is None:
            raise GraphValueError(f"{path} names no pass; write a line like '// pass: fold, dce' at its top.")
        keeps = re.search(r"(?m)^// keeps values(?: +(\S+))?$", before)
        tolerance = float(keeps[1] or 0) if keeps else None
        return cls(path, passes[1], tolerance, before.rstrip() + "\n", after)

    @property
    def expected_error(self) -> str | None:
        return self.after.strip().removeprefix("error:").strip() if self.after.startswith("error:") else None

    def check(self, actual: str, message: str, bless: bool) -> None:
        __tracebackhide__ = True
        if bless:
            self.bless(actual, message)
        elif self.expected_error is not None:
            is_raised = message and self.expected_error in message
            assert is_raised, f"expected {self.after.strip()!r}, and there was {actual!r}"
        else:
            _assert_same_text(self.expected_text(), actual)

    def bless(self, actual: str, message: str) -> None:
        if not (message and self.expected_error and self.expected_error in message):
            write_text(self.path, f"{self.before}{_RULE}\n{actual}")

    def expected_text(self) -> str:
        """The lower half as `dump` writes it; line numbers of syntax errors count from the file's top."""
        above = "\n" * (self.before.count("\n") + 1)
        return dump(parse(above + self.after, file=str(self.path))) if self.after.strip() else ""


def _assert_same_text(expected: str, actual: str) -> None:
    __tracebackhide__ = True
    assert expected == actual, f"The pass made another graph.\n{_difference(expected, actual)}"


def _difference(expected: str, actual: str) -> str:
    """The structural difference from the expected graph; where there is none, the lines that differ."""
    difference = parse(expected).diff(parse(actual)) if expected else None
    if difference:
        return str(difference)
    diff = "\n".join(unified_diff(expected.splitlines(), actual.splitlines(), "expected", "made", lineterm="", n=99))
    return diff if difference is None else f"{difference}\n{diff}"


def random_inputs(graph: Graph, seed: int = 0, *, special: bool = False) -> tuple[list[Array], dict[str, Array]]:
    r"""Arrays for the inputs of a graph, and for its states by name; the same ones for the same seed.

    Floats are normally distributed, integers from 0 to 3. `special` puts infinities, nan, zeros of both
    signs, and very large and small numbers among the floats.

    Examples:
        >>> from graphls.ir import parse
        >>> from graphls.testing import random_inputs
        >>> graph = parse("graph @main(%x: f32[2,3]) {\n  return %x\n}\n")
        >>> (x,), states = random_inputs(graph)
        >>> x.shape, x.dtype, states
        ((2, 3), dtype('float32'), {})
    """
    rng = np.random.default_rng(seed)
    inputs = [_random(v.type, rng, special) for v in graph.inputs]
    return inputs, {v.name: _random(v.type, rng, special) for v in graph.states}


def _random(kind: Type, rng: np.random.Generator, special: bool) -> Array:
    if kind.dtype.kind == "bool":
        return np.asarray(rng.random(kind.shape) < 0.5)
    if not kind.dtype.is_float:
        return np.asarray(rng.integers(0, 4, kind.shape)).astype(kind.dtype.numpy)
    numbers = np.asarray(rng.standard_normal(kind.shape))
    if special:
        numbers = np.where(rng.random(kind.shape) < 0.5, rng.choice(_SPECIAL, kind.shape), numbers)
    return numbers.astype(kind.dtype.numpy)


def assert_same_values(before: Graph, after: Graph, *, tolerance: float = 0.0, runs: int = 3) -> None:
    r"""Assert that two graphs with the same inputs and states give the same outputs and new states.

    Both run in the reference interpreter, `runs` times on different random numbers. Without a `tolerance`
    they also run on infinities, nan and the like, and every bit must be the same (but one nan is as good as
    another). With one, floats may differ by that much, relatively or absolutely. Raises AssertionError that says
    where they differ most, by how much, and what is allowed.

    Examples:
        >>> from graphls.ir import parse
        >>> from graphls.testing import assert_same_values
        >>> text = "graph @main(%x: f32[2]) {\n  %y = abs(%x) : f32[2]\n  return %y\n}\n"
        >>> assert_same_values(parse(text), parse(text))
    """
    __tracebackhide__ = True
    same = _signature(before) == _signature(after)
    assert same, f"The graphs differ in their inputs, states or outputs: {_signature(before)}, {_signature(after)}."
    for seed in range(runs):
        for special in (False,) if tolerance else (False, True):
            inputs, states = random_inputs(before, seed, special=special)
            first, second = interpret(before, inputs, states), interpret(after, inputs, states)
            results = [(f"output {i}", a, b) for i, (a, b) in enumerate(zip(first[0], second[0], strict=True))]
            results += [(f"state @{name}", a, second[1][name]) for name, a in first[1].items()]
            for name, a, b in results:
                difference = disagreement(a, b, tolerance)
                numbers = f"seed {seed}{', with infinities and the like' if special else ''}"
                assert not difference, f"The graphs differ in {name} ({numbers}): {difference}.\n{a}\n{b}"


def _signature(graph: Graph) -> tuple[Any, ...]:
    states = {v.name: v.type for v in graph.states}
    return [v.type for v in graph.inputs], states, [v.type for v in graph.outputs]
