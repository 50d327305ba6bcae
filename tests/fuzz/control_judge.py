"""Constructs with branches and loops, compiled or step by step, against the same text as Python runs it on NumPy."""

from __future__ import annotations

import ast
import linecache
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

import graphls
from graphls import GraphlsError, Parameter, Tensor, nn, ops
from graphls.context import PYNATIVE_MODE, reset_context, set_context
from graphls.frontend.tensors.pytree import leaves
from graphls.runtime.engines import OnnxRuntime
from graphls.runtime.onednn.engine import Onednn
from tests.fuzz.control_flow import source
from tests.fuzz.judge import FAULTS, Verdict, is_refused

Array = np.ndarray[Any, Any]
EAGER = "eager"
"""In place of an engine: cells run step by step."""
STEPS, NEAR = (1e-6, 1e-5), 2e-4
RESULTS = "the number", "the vector", "the weight behind it", "the slope by the weight", "that by x", "that by y"
WEIGHTS = np.array([1.0, -0.5, 0.25])
"""What the elements of a vector count in the number that is differentiated."""


def _assign(target: Array, value: Any) -> None:
    target[...] = value


NUMPY = SimpleNamespace(sin=np.sin, tanh=np.tanh, sum=np.sum, maximum=np.maximum, assign=_assign)
"""What NumPy has by the names of `graphls.ops`."""


@dataclass(frozen=True)
class Inputs:
    """The weight, the two vectors and the whole number that a construct gets."""

    arrays: tuple[Array, Array, Array]
    n: int

    @classmethod
    def of(cls, seed: int) -> Inputs:
        rng = np.random.default_rng(seed)
        arrays = rng.uniform(-2, 2, (3, 3)).astype(np.float32).astype(np.float64)
        return cls(tuple(arrays), Random(seed).randint(0, 4))  # type: ignore[arg-type]


def engines() -> str:
    """What can run the constructs here: step by step, NumPy, and the runtimes that are installed."""
    versions = {"onnxruntime": OnnxRuntime().version(), "onednn": Onednn().version()}
    return ",".join([EAGER, "numpy", *(name for name, version in versions.items() if version)])


def judge_control_flow(seed: int, engine: str) -> Verdict:
    """Run the construct of a seed on engines, with commas between them, and compare it with NumPy's."""
    verdicts = [judge_text(source(seed), Inputs.of(seed), each) for each in engine.split(",")]
    return next((verdict for verdict in verdicts if verdict.outcome in FAULTS), verdicts[-1])


def judge_text(text: str, inputs: Inputs, engine: str) -> Verdict:
    """Run a construct on an engine, or step by step, and compare its results, its state and its slopes."""
    try:
        found = _of_graphls(text, inputs, engine)
    except GraphlsError as error:
        return Verdict("refused" if is_refused(error) else "rejected", f"{error}"[:2000])
    except Exception as error:
        return Verdict("error", f"{type(error).__name__}: {error}"[:2000])
    values, slopes = expected(text, inputs)
    for name, got, truth in zip(RESULTS, found, [*values, *slopes], strict=True):
        if not np.all((np.abs(got - truth) <= NEAR * (1 + np.abs(truth))) | np.isnan(truth)):
            return Verdict("wrong", f"{name} is {got!r}, not {truth!r} on {engine}\n{text}{inputs}")
    return Verdict("undecided" if all(np.isnan(truth).all() for truth in values) else "same")


def _of_graphls(text: str, inputs: Inputs, engine: str) -> list[Array]:
    """The number, the vector and the weight afterwards, and the slopes by the weight and by both vectors."""
    weight, x, y = (array.astype(np.float32) for array in inputs.arrays)
    cell = defined(text, {"nn": nn, "Parameter": Parameter, "ops": ops})(Tensor(weight))
    arguments = Tensor(x), Tensor(y), Tensor(inputs.n, graphls.int64)

    def loss(x: Any, y: Any, n: Any) -> Any:
        number, vector = cell(x, y, n)
        return number + ops.sum(vector * Tensor(WEIGHTS.astype(np.float32))), number, vector

    def step(x: Any, y: Any, n: Any) -> Any:
        differentiated = ops.value_and_grad(loss, (0, 1), cell.trainable_params(), True)
        (_, number, vector), (by_input, by_weight) = differentiated(x, y, n)
        return number, vector, by_weight, by_input

    if engine != EAGER:
        number, vector, *slopes = leaves(graphls.compile(step, *arguments, engine=engine)(*arguments))
        return [np.asarray(t.asnumpy(), np.float64) for t in (number, vector, cell.w, *slopes)]
    set_context(mode=PYNATIVE_MODE)
    try:
        found = [*cell(*arguments), Tensor(cell.w.asnumpy())]
        cell.w.set_data(Tensor(weight))
        slopes = leaves(step(*arguments))[2:]
    finally:
        reset_context()
    return [np.asarray(t.asnumpy(), np.float64) for t in (*found, *slopes)]


def defined(text: str, names: dict[str, Any]) -> Any:
    """The class of a text, whose lines can be read as those of a file."""
    file = f"<control flow {zlib.crc32(text.encode())}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), names)
    return names["Random"]


def expected(text: str, inputs: Inputs) -> tuple[list[Array], list[Array]]:
    """What float64 gives, and differences for slopes; nan where the numbers are near a decision or a kink."""
    plain = type("Cell", (), {})
    of_numpy = defined(text, {"nn": SimpleNamespace(Cell=plain), "Parameter": lambda w, name: w, "ops": NUMPY})

    def run(arrays: Any) -> list[Array]:
        weight, x, y = (np.array(a) for a in arrays)
        cell = of_numpy(weight)
        number, vector = cell.construct(x, y, inputs.n)
        return [np.asarray(number), np.asarray(vector), np.asarray(cell.w)]

    values = run(inputs.arrays)
    shaken = np.random.default_rng(inputs.n).uniform(-3e-6, 3e-6, (4, 3, 3))
    others = [run([a + d for a, d in zip(inputs.arrays, part, strict=True)]) for part in shaken]
    for i, value in enumerate(values):
        spread = np.max([np.abs(other[i] - value) for other in others], 0)
        values[i] = np.where(spread > NEAR / 2 * (1 + np.abs(value)), np.nan, value)
    return values, [_slope(run, inputs.arrays, i) for i in range(3)]


def _slope(run: Any, arrays: Any, number: int) -> Array:
    """The slope by one of the arrays; nan in elements where differences of two sizes, or of both sides, disagree."""

    def total(element: int, change: float) -> float:
        moved = [np.array(a) for a in arrays]
        moved[number][element] += change
        value, vector, _ = run(moved)
        return float(value + np.sum(vector * WEIGHTS))

    slopes = np.empty(3)
    for element in range(3):
        at = total(element, 0.0)
        found = [(total(element, h) - at) / h for step in STEPS for h in (step, -step)]
        is_smooth = max(found) - min(found) <= 1e-3 * (1 + abs(found[0]))
        slopes[element] = (found[0] + found[1]) / 2 if is_smooth else np.nan
    return slopes


def reduced_text(seed: int, outcome: str, engine: str) -> str:
    """The construct of a seed without the statements that the outcome does not need."""
    inputs, text = Inputs.of(seed), ast.unparse(ast.parse(source(seed)))

    def ends_alike(text: str) -> bool:
        try:
            return any(judge_text(text, inputs, each).outcome == outcome for each in engine.split(","))
        except Exception:  # NumPy misses what was cut
            return False

    shorter: str | None = text
    while shorter is not None:
        text = shorter
        shorter = next(filter(ends_alike, _shorter(text)), None)
    return f"{text}\n{inputs}"


def _shorter(text: str) -> Iterator[str]:
    """The text without each of its statements, and with what is below it in its place."""
    for number, node in enumerate(ast.walk(ast.parse(text))):
        for field in ("body", "orelse"):
            statements = getattr(node, field, None)
            for i, statement in enumerate(statements if isinstance(statements, list) else ()):
                for others in ([], getattr(statement, "body", None), getattr(statement, "orelse", None)):
                    if others is None or isinstance(statement, ast.ClassDef):
                        continue
                    tree = ast.parse(text)
                    copy = next(n for j, n in enumerate(ast.walk(tree)) if j == number)
                    getattr(copy, field)[i : i + 1] = others
                    try:
                        yield ast.unparse(ast.parse(ast.unparse(tree)))
                    except SyntaxError:
                        continue
