"""What becomes of a program: compiled, run, and compared with NumPy and with the same graph in float64."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphls
from graphls import GraphlsError
from graphls.ir.errors import VerifyError
from graphls.ir.graph import Graph
from graphls.ir.interpret import interpret
from graphls.runtime.onnxruntime import guard
from tests.fuzz.programs import Program
from tests.fuzz.wide import Wide, unreliable

Array = np.ndarray[Any, Any]

FAULTS = ("died", "hung", "error", "refused", "wrong")
"""What a program must not end in; the others are "same", "elsewhere", "undecided" and "rejected"."""

QUICK = {"float16": 4e-3, "bfloat16": 3e-2}
NOISES = 8


@dataclass(frozen=True)
class Verdict:
    """How a program ended; `text` says more of a fault, and `graph` is what was lowered, where it came that far."""

    outcome: str
    text: str = ""
    graph: Graph | None = None


def judge(program: Program, engine: str = "onnxruntime") -> Verdict:
    """Compile and run a program, on an engine where that takes it, and compare its numbers."""
    with warnings.catch_warnings(record=True) as told, unguarded():
        warnings.simplefilter("always")
        try:
            verdict = _judged(program, engine)
            refusals = [str(w.message) for w in told if "could not optimize" in str(w.message)]
            return Verdict("refused", refusals[0]) if refusals else verdict
        except GraphlsError as error:
            return Verdict(_of_error(error), str(error)[:2000])
        except Exception as error:
            return Verdict("error", f"{type(error).__name__}: {error}"[:2000])


@contextmanager
def unguarded() -> Iterator[None]:
    """Sessions are opened without a trial, so that a program that ends the process does."""
    is_unusual = guard.is_unusual
    guard.is_unusual = lambda model: False
    try:
        yield
    finally:
        guard.is_unusual = is_unusual


def is_refused(error: GraphlsError) -> bool:
    """Whether a runtime has refused what it was given."""
    return "ONNX Runtime" in str(error)


def _of_error(error: GraphlsError) -> str:
    if is_refused(error):
        return "refused"
    return "error" if isinstance(error, VerifyError) else "rejected"


def _judged(program: Program, engine: str) -> Verdict:
    options: Any = {} if program.passes is None else {"passes": program.passes}
    step = graphls.compile(program.cell, *program.inputs, engine=engine, **options)
    inputs = [np.asarray(x.asnumpy()) for x in program.inputs]
    states = {name: p.storage.read().copy() for name, p in step.parameters.items()}
    found = [np.asarray(r) for r in step._session.run(inputs)]
    found += [step.parameters[w.state.name].storage.read() for w in step.graph.writes]
    outputs, after = interpret(step.graph, inputs, states)
    expected = [*outputs, *(after[w.state.name] for w in step.graph.writes)]
    text = compared(step.stages["01_gradient"], inputs, states, found, expected)
    if text is None:
        return Verdict("undecided")
    return Verdict("wrong", text, step.graph) if text else Verdict("same")


def compared(
    graph: Graph, inputs: Sequence[Array], states: dict[str, Array], found: Sequence[Array], expected: Sequence[Array]
) -> str | None:
    """What is wrong in the results of the runtime, or of NumPy; None where rounding decides all that differs."""
    exact = Wide(graph, inputs, states)
    suspects = [i for i, e in enumerate(exact.results) if not (_agree(found[i], e) and _agree(expected[i], e))]
    if not suspects:
        return ""
    noisy = [Wide(graph, inputs, states, rounds=True)]
    noisy += [Wide(graph, inputs, states, np.random.default_rng(i)) for i in range(NOISES)]
    shaky = unreliable(graph, exact, noisy)
    values = [*graph.outputs, *(w.value for w in graph.writes)]
    sure = [i for i in suspects if values[i] not in shaky]
    faults = [_fault(i, exact, noisy, found[i], expected[i]) for i in sure]
    if any(faults):
        return "\n".join(filter(None, faults))
    return "" if len(sure) == len(suspects) else None


def _agree(found: Array, exact: Array) -> bool:
    if found.dtype.kind in "iub":
        return np.array_equal(found, exact)
    near = QUICK.get(found.dtype.name, 2e-5)
    return np.allclose(found.astype(np.float64), exact, rtol=near, atol=near / 10, equal_nan=True)


def _fault(number: int, exact: Wide, noisy: Sequence[Wide], found: Array, expected: Array) -> str:
    """What is wrong in one result, or nothing."""
    truth = exact.results[number]
    others = np.stack([run.results[number] for run in noisy])
    for name, array in (("NumPy", expected), ("the runtime", found)):
        if array.shape != truth.shape or not _is_near(array, truth, others, expected).all():
            return f"result {number}: {name} gives {array!r}\nwhere float64 gives {truth!r}, NumPy {expected!r}"
    return ""


def _is_near(array: Array, truth: Array, others: Array, expected: Array) -> Any:
    """Whether each element is as near to the truth as rounding can leave it, which the noisy runs say."""
    if array.dtype.kind in "iub":
        return np.equal(array, truth)
    a, e = array.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        spread = np.abs(others - truth).max(0)
        own = 0.0 if array is expected else np.abs(e - truth)
        allowed = 32 * spread + 4 * own + 64 * QUICK.get(array.dtype.name, 1e-6) * np.abs(truth)
        near = np.abs(a - truth) <= allowed
    regular = np.isfinite(truth) & np.isfinite(others).all(0) & np.isfinite(e)
    return np.where(regular, near, True)
