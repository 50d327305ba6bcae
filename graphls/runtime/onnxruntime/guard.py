"""Opens sessions in a trial process first where a model might crash the runtime.

Optimizers of ONNX Runtime have crashed the process, or refused the model, for unusual combinations of operators. So a
model with a pair of adjacent operators that no test has run is tried in a process of its own, with fewer optimizations
where that crashes; and one that is refused gets fewer optimizations as well.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from onnx import GraphProto, ModelProto

from graphls.base.errors import GraphlsError, GraphRuntimeError
from graphls.base.files.files import read_bytes, write_parts
from graphls.base.reporting import warn
from graphls.runtime.lowering.protos import subgraphs

TRIED = Path(__file__).with_name("tried_neighbours.txt")
TRIAL = Path(__file__).with_name("trial.py")
LEVELS = ("ORT_ENABLE_ALL", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_BASIC", "ORT_DISABLE_ALL")
LARGEST = 1 << 26
"""Bytes beyond which a model is not tried, as the trial would take long."""

MOST_LOOKUPS = 10_000_000, 40_000_000
"""Operators times tensors up to which a model gets all optimizations, and basic ones: about 3 and 10 seconds."""

PATIENCE = 20.0
"""Seconds after which a trial counts as survived: a slow step is not a crash."""

BODIES = ("If", "Loop", "Scan")
_ELEMENTWISE = (
    "Abs Acos Acosh And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Cos Cosh Div "
    "Equal Erf Exp Floor Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Log Max Min Mod Neg Not Or Pow Reciprocal "
    "Round Sign Sin Sinh Sqrt Sub Sum Tan Where Xor"
)
_REDUCTIONS = "ArgMax ArgMin ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum"
ALIKE = dict.fromkeys(_ELEMENTWISE.split(), "Elementwise") | dict.fromkeys(_REDUCTIONS.split(), "Reduction")
"""Operators that optimizers move and fuse in the same ways, or not at all."""

Opener = Callable[[Any], Any]
_survived: dict[str, str] = {}


def open_guarded(runtime: Any, model: ModelProto, device: str, open_with: Opener) -> Any:
    """The session of `open_with(level)`, at the highest level of optimizations that the runtime survives.

    Models for other devices than the CPU are not tried, as a second process would take memory of the device.
    Raises GraphRuntimeError where the runtime refuses the model at every level, or crashes at each.
    """
    levels = LEVELS[LEVELS.index(first_level(model.graph)) :]
    if device == "cpu" and is_unusual(model):
        levels = levels[levels.index(_survived_level(runtime, model, levels)) :]
    return _open(runtime, levels, open_with)


def first_level(graph: GraphProto) -> str:
    """The level of all optimizations; a lower one for graphs on which they would take long.

    Each optimization looks up the results of every operator among all outputs of the graph, and its operands among the
    values that branches and loops may read.
    """
    has_bodies = any(node.op_type in BODIES for node in graph.node)
    lookups = len(graph.node) * (len(graph.output) + (len(graph.input) if has_bodies else 0))
    if lookups > MOST_LOOKUPS[1]:
        return "ORT_DISABLE_ALL"
    return "ORT_ENABLE_BASIC" if lookups > MOST_LOOKUPS[0] else "ORT_ENABLE_ALL"


def _open(runtime: Any, levels: tuple[str, ...], open_with: Opener) -> Any:
    refusal: Exception | None = None
    for level in levels:
        try:
            session = open_with(getattr(runtime.GraphOptimizationLevel, level))
        except GraphlsError:
            raise  # fewer optimizations do not help
        except Exception as error:
            refusal = refusal or error
            continue
        if refusal is not None:
            warn(f"ONNX Runtime could not optimize the step, which may be slow: {first_line(refusal)}")
        return session
    assert refusal is not None
    raise GraphRuntimeError(f"ONNX Runtime refused the step: {first_line(refusal)}") from refusal


def first_line(error: Exception) -> str:
    """The first line of an error's text, or its type where it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@cache
def _tried() -> frozenset[str]:
    """The pairs of adjacent operators that tests and random programs have run; see `make neighbours`."""
    lines = TRIED.read_text(encoding="utf-8").splitlines()
    pairs = (line.partition(": ") for line in lines)
    return frozenset(f"{first} {second}" for first, _, others in pairs for second in others.split())


def is_unusual(model: ModelProto) -> bool:
    """Whether a model has a pair of adjacent operators that has not been tried."""
    return not _tried().issuperset(neighbours(model))


def neighbours(model: ModelProto) -> set[str]:
    """The pairs of adjacent operators, "maker reader", of a model.

    Inputs and constants count as operators, `empty` where they have no elements. An operator with branches or a body
    is written with ^ where only those read the value.
    """
    sizes = {tensor.name: "empty" if 0 in tensor.dims else "constant" for tensor in model.graph.initializer}
    for info in model.graph.input:
        sizes[info.name] = "empty" if any(not d.dim_value for d in info.type.tensor_type.shape.dim) else "input"
    return set(_neighbours(model.graph, sizes))


def _neighbours(graph: GraphProto, makers: dict[str, str]) -> Iterator[str]:
    makers = makers | dict.fromkeys((info.name for info in graph.input if info.name not in makers), "parameter")
    for node in graph.node:
        kind = ALIKE.get(node.op_type, node.op_type)
        yield from (f"{makers.get(name, 'none')} {kind}" for name in node.input)
        if node.op_type in BODIES:
            for _, body in subgraphs(node):
                yield from _captured(body, makers, f"{node.op_type}^")
                yield from _neighbours(body, makers)
        makers.update(dict.fromkeys(node.output, kind))
    for info in graph.output:
        yield f"{makers.get(info.name, 'none')} output"


def _captured(body: GraphProto, makers: dict[str, str], reader: str) -> Iterator[str]:
    for node in body.node:
        yield from (f"{makers[name]} {reader}" for name in node.input if name in makers)
        for _, inner in subgraphs(node):
            yield from _captured(inner, makers, reader)


def _survived_level(runtime: Any, model: ModelProto, levels: tuple[str, ...]) -> str:
    """The highest of the levels at which the runtime opens a model and runs it once without a crash."""
    if model.ByteSize() > LARGEST:
        return levels[0]
    data = model.SerializeToString(deterministic=True)
    key = hashlib.sha256(f"{runtime.__version__} {levels[0]} ".encode() + data).hexdigest()
    level = _survived.get(key) or _remembered(key)
    if level not in levels:
        level = next((level for level in levels if _survives(runtime, data, level)), "")
        if not level:
            raise GraphRuntimeError(
                "ONNX Runtime ends the process on this step, with and without optimizations; compile it with "
                'backend="numpy", and tell the authors of graphls of it.'
            )
        _remember(key, level)
    if level != levels[0]:
        warn("ONNX Runtime would end the process if it optimized this step in full; it runs with fewer optimizations.")
    _survived[key] = level
    return level


def _survives(runtime: Any, model: bytes, level: str) -> bool:
    """Whether a process survives that opens the model and runs it on zeros; true where none can be started."""
    packages = Path(runtime.__file__).parents[1]
    command = [sys.executable, "-I", str(TRIAL), str(packages), level]
    try:
        run = subprocess.run(command, input=model, capture_output=True, timeout=PATIENCE, check=False)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return True
    return 0 <= run.returncode < 128


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "graphls" / "trials"


def _remembered(key: str) -> str | None:
    try:
        of_key, _, level = read_bytes(_folder() / key).decode("ascii").partition(" ")
    except (OSError, RuntimeError, UnicodeError):
        return None
    return level if of_key == key else None


def _remember(key: str, level: str) -> None:
    """Save the result of a trial for other runs; where no file can be written, each run tries for itself."""
    try:
        _folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        write_parts(_folder() / key, [f"{key} {level}".encode("ascii")], follows_links=False)
    except (OSError, RuntimeError):
        return
