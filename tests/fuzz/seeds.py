"""The kinds of programs that seeds stand for."""

from __future__ import annotations

from collections.abc import Sequence

from graphls.ir.plan import DEFAULT
from tests.fuzz import pairs, programs
from tests.fuzz.control_judge import engines, judge_control_flow
from tests.fuzz.judge import Verdict, judge
from tests.fuzz.onnx_judge import judge_model
from tests.fuzz.onnx_models import random_model
from tests.fuzz.programs import Program

CONTROL_FLOW, ONNX = "control-flow", "onnx"
KINDS = {"programs": 1, "pairs": 100, CONTROL_FLOW: 1, ONNX: 1}
"""How many seeds are one program, by the kind of programs."""


def program_of(kind: str, seeds: Sequence[int]) -> Program:
    """The program of these seeds."""
    return pairs.program(seeds) if kind == "pairs" else programs.program(*seeds)


def judge_seeds(kind: str, seeds: Sequence[int], engine: str) -> Verdict:
    """How the program, or the ONNX model, of these seeds ends on an engine, or on several with commas between them."""
    if kind == ONNX:
        return judge_model(random_model(*seeds), engine)
    return judge_control_flow(seeds[0], engine) if kind == CONTROL_FLOW else judge(program_of(kind, seeds), engine)


def usual_engine(kind: str) -> str:
    """What runs programs of a kind unless somebody says another one: those with branches and loops, all there are."""
    return engines() if kind == CONTROL_FLOW else DEFAULT
