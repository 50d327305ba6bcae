"""Calls every public function with random arguments: `python -m tests.fuzz [--examples 100] [names]`.

Each call must end in a GraphlsError, or compute the same at once in NumPy and compiled on ONNX Runtime. Every function
has a process of its own, so that one that crashes is reported like any other fault. Not part of the test suite.
"""

from __future__ import annotations

import argparse
import inspect
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import graphls
from graphls import GraphlsError, Tensor, ops
from graphls.frontend.tensors.pytree import leaves, map_leaves

RANDOM = {"graphls.ops.randomness.random", "graphls.ops.randomness.distributions"}
# They take functions, cells or parameters, or draw random numbers.
OTHERS = {
    "GradOperation", "HyperMap", "Map", "MultitypeFuncGraph", "Partial", "assign", "assign_add", "assign_sub", "depend",
    "derivative", "dropout", "get_grad", "grad", "gumbel_softmax", "jacfwd", "jacrev", "jvp", "partial", "rrelu",
    "value_and_grad", "vjp", "vmap",
}  # fmt: skip
NAMES = [
    name
    for name in ops.__all__
    if name not in OTHERS and inspect.isfunction(getattr(ops, name)) and getattr(ops, name).__module__ not in RANDOM
]
DTYPES = ["float32", "float16", "bfloat16", "float64", "int32", "int64", "uint8", "int8", "bool"]
TOLERANCE = {"float64": 1e-5, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}

JUNK = st.sampled_from(["a", None, [], {}, object, -7, 1e30, (), "mean"])
AXIS = st.one_of(st.integers(-4, 3), st.lists(st.integers(-3, 2), max_size=3).map(tuple), st.none())
SHAPE = st.lists(st.integers(-1, 4), max_size=4).map(tuple)
NUMBER = st.sampled_from([0, 1, 2, 3, -1, 0.0, 0.5, 1.0, 2.0, -0.5, float("inf"), float("nan")])
BY_NAME = {
    **dict.fromkeys(("axis", "dim", "dims", "axis0", "axis1", "start_dim", "end_dim", "permutation"), AXIS),
    **dict.fromkeys(("shape", "size"), SHAPE),
    **dict.fromkeys(("dtype", "type"), st.sampled_from([*DTYPES, graphls.float32, "float33"])),
    "reduction": st.sampled_from(["none", "mean", "sum", "batchmean", "avg"]),
    "pad_mode": st.sampled_from(["same", "valid", "pad", "full"]),
    **dict.fromkeys(("kernel_size", "stride", "padding", "dilation", "groups", "depth"), st.integers(0, 3)),
}
SEQUENCES = ("tensors", "x")
INTEGERS = ("input_indices", "index", "indices", "target", "labels", "targets", "condition")


@st.composite
def tensor(draw: Any, shape: tuple[int, ...], integers: bool = False) -> Tensor:
    """A tensor near a shape: that itself, one that broadcasts to it, or another one."""
    kind = draw(st.sampled_from(["int32", "int64"] if integers and draw(st.booleans()) else DTYPES))
    near = st.sampled_from([shape, shape, shape, shape[1:], shape[:-1], tuple(1 for _ in shape)])
    shape = draw(st.one_of(near, st.lists(st.integers(0, 3), max_size=4).map(tuple)))
    quarters = draw(arrays(np.int64, shape, elements=st.integers(-16, 16))) / 4
    special = draw(st.sampled_from([None] * 12 + [np.inf, -np.inf, np.nan, -0.0]))
    if kind not in TOLERANCE:
        whole = quarters.astype(np.int64)
        return Tensor(np.abs(whole) if kind in ("uint8", "bool") else whole, kind)
    if special is not None and quarters.size:
        quarters.flat[0] = special
    return Tensor(quarters, kind)


@st.composite
def argument(draw: Any, parameter: inspect.Parameter, shape: tuple[int, ...]) -> Any:
    """Something that may fit a parameter."""
    if draw(st.integers(0, 24)) == 0:
        return draw(JUNK)
    if parameter.name in BY_NAME:
        return draw(BY_NAME[parameter.name])
    if isinstance(parameter.default, bool):
        return draw(st.booleans())
    if isinstance(parameter.default, (int, float)):
        return draw(NUMBER)
    if isinstance(parameter.default, str):
        return draw(st.sampled_from([parameter.default, "tanh", "none"]))
    if parameter.name in SEQUENCES and draw(st.integers(0, 5)) == 0:
        return draw(st.lists(tensor(shape), max_size=3))
    if draw(st.integers(0, 7)) == 0:
        return draw(st.one_of(NUMBER, AXIS, SHAPE))
    return draw(tensor(shape, parameter.name in INTEGERS))


@st.composite
def call(draw: Any, function: Callable[..., Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a call; those with defaults are often left out."""
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=4)))
    args, options = [], {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is not inspect.Parameter.empty:
            if draw(st.integers(0, 2)) == 0:
                options[parameter.name] = draw(argument(parameter, shape))
        elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            args.append(draw(SHAPE))
        else:
            args.append(draw(argument(parameter, shape)))
    return tuple(args), options


def outcome(run: Callable[[], Any]) -> Any:
    """What a call gives, or the GraphlsError it ends in."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return run()
    except GraphlsError as error:
        return error


def compare(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    """One call at once and compiled; raises AssertionError where they differ."""
    function = getattr(ops, name)
    eager = outcome(lambda: function(*args, **options))
    if not isinstance(eager, GraphlsError) and not any(isinstance(leaf, Tensor) for leaf in leaves(eager)):
        return  # ONNX Runtime takes no graph without outputs
    if isinstance(eager, GraphlsError):
        assert eager.location is not None, f"the error has no line: {eager}"
    compiled = outcome(lambda: graphls.compile(function_of(function, options), *args)(*args))
    if isinstance(eager, GraphlsError) or isinstance(compiled, GraphlsError):
        unlike = "refused the step" in str(compiled) or not isinstance(eager, GraphlsError)
        assert not unlike or is_static(compiled), f"at once {eager!r}, compiled {compiled!r}"
        return
    for found, wanted in zip(leaves(compiled), leaves(eager), strict=True):
        agree(found, wanted, args)


def function_of(function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    return lambda *args: function(*args, **options)


def is_static(error: Any) -> bool:
    """Whether a compiled function lacks what only numbers that are known can give, such as a shape."""
    words = ("is not static", "the graph computes")
    return isinstance(error, graphls.TraceError) or any(word in str(error) for word in words)


def agree(found: Any, wanted: Any, args: tuple[Any, ...]) -> None:
    """Two leaves of results are the same, as far as their dtype says."""
    if not isinstance(wanted, Tensor):
        assert found == wanted, f"compiled {found!r}, at once {wanted!r}"
        return
    assert found.type == wanted.type, f"compiled {found.type}, at once {wanted.type}"
    a, b = (np.asarray(t.asnumpy()) for t in (found, wanted))
    if not wanted.dtype.is_float:
        whole = all(np.isfinite(np.asarray(t.asnumpy(), float)).all() for t in leaves(args) if isinstance(t, Tensor))
        assert not whole or np.array_equal(a, b), f"compiled {a}, at once {b}"
        return
    tolerance = TOLERANCE[wanted.dtype.long_name]
    finite = np.abs(b.astype(float))[np.isfinite(b.astype(float))]
    np.testing.assert_allclose(
        a.astype(float), b.astype(float), rtol=tolerance, atol=tolerance * max(1.0, finite.max(initial=0))
    )


def fuzz(name: str, examples: int, log: str) -> None:
    """Examples of one function, the last of which stands in the log if the process ends."""
    function = getattr(ops, name)

    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(call(function))
    def check(drawn: Any) -> None:
        args, options = drawn
        Path(log).write_text(f"{map_leaves(repr, args)} {map_leaves(repr, options)}", encoding="utf-8")
        compare(name, args, options)

    check()


def report(name: str, examples: int) -> bool:
    """Run one function in a process of its own; print what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "last")
        code = f"from tests.fuzz.functions import fuzz; fuzz({name!r}, {examples}, {log!r})"
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        if run.returncode == 0:
            return True
        died = f"process ended with {run.returncode} in {Path(log).read_text()}" if run.returncode < 0 else ""
        print(f"FAULT {name}: {died}\n{run.stderr[-1800:]}\n", flush=True)
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--examples", type=int, default=100)
    options = parser.parse_args()
    faults = [name for name in options.names if not report(name, options.examples)]
    print(f"{len(options.names)} functions, {options.examples} calls of each, faults in: {', '.join(faults) or 'none'}")
    return 1 if faults else 0
