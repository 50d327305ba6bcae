"""The recurrent units that oneDNN has kernels for: their iterations, forward and backward, as patterns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from graphls.ir.types import DType, bfloat16, float32
from graphls.passes.simplify.recurrent import CELL, LSTM, PRODUCT, RNN, gru
from graphls.runtime.onednn.elementwise.algorithms import TANH


class Gradients(NamedTuple):
    """The patterns of an iteration backwards.

    `inputs` and `states` are the gradients of the products of inputs and states with the weights of each gate, and
    `carried` those of the states, with `product` for the product of the former with the weights.
    """

    inputs: Mapping[str, str]
    states: Mapping[str, str]
    carried: tuple[str, ...]


class Bounds(NamedTuple):
    """Sizes up to which the kernels of a unit are at least as fast as the kernels of single operations in a loop.

    `weights` are those of inputs and states together for each iteration, as their order changes once for all, and
    `gates` the numbers of all gates of all examples in an iteration.
    """

    weights: float
    gates: float = inf


@dataclass(frozen=True)
class Unit:
    """A recurrent unit: its name, that of its kernels, and its gates in the order of oneDNN.

    `states` are the patterns of its states after an iteration, `values` those of the values that its backward reads,
    and `factors` those of the numbers by which `gradients` multiplies, of values that the forward has stacked.
    `gradients` is called with the gradient of the output of an iteration. The kernel of a unit whose biases are `joint`
    takes their sums; that of another one has the last gate's bias of the states apart. `bounds` are measured.
    """

    name: str
    kernel: str
    gates: tuple[str, ...]
    states: tuple[str, ...]
    values: Mapping[str, str]
    factors: Mapping[str, str]
    gradients: Callable[[str], Gradients]
    bounds: Mapping[DType, Bounds]
    joint: bool = True
    activation: int | None = None


def _derivative(gate: str) -> str:
    """The derivative of a sigmoid by its value."""
    return f"mul({gate}, sub(1.0, {gate}))"


def _lstm_gradients(total: str) -> Gradients:
    cell = f"add(cell, mul({total}, to_cell))"
    gates = {
        "INPUT": f"mul({cell}, to_input)", "FORGET": f"mul({cell}, to_forget)", "CELL": f"mul({cell}, to_candidate)",
        "OUTPUT": f"mul({total}, to_output)",
    }  # fmt: skip
    return Gradients(gates, gates, ("product", f"mul({cell}, forget)"))


def _gru_gradients(total: str) -> Gradients:
    old = f"mul({total}, update)"
    new = f"mul(add({total}, neg({old})), to_new)"
    gates = {"UPDATE": f"mul({total}, to_update)", "RESET": f"mul({new}, to_reset)", "NEW": new}
    return Gradients(gates, {**gates, "NEW": f"mul({new}, reset)"}, (f"add({old}, product)",))


def _rnn_gradients(total: str) -> Gradients:
    gates = {"GATE": f"mul({total}, to_sum)"}
    return Gradients(gates, gates, ("product",))


_LSTM_FACTORS = {
    "to_cell": "mul(output, sub(1.0, square(tanh)))",
    "to_output": f"mul(tanh, {_derivative('output')})",
    "to_input": f"mul(candidate, {_derivative('input')})",
    "to_candidate": "mul(input, sub(1.0, square(candidate)))",
    "to_forget": f"mul(c, {_derivative('forget')})",
}
_GRU_FACTORS = {
    "to_new": "sub(1.0, square(new))",
    "to_update": f"mul(difference, {_derivative('update')})",
    "to_reset": f"mul(inner, {_derivative('reset')})",
}
_GRU_PRODUCTS = (f"add({PRODUCT}, b)", PRODUCT, "matmul_add(h, r, b, transpose_b=True)")

UNITS = (
    Unit("LSTM", "lstm", ("INPUT", "FORGET", "CELL", "OUTPUT"), (LSTM["state"], CELL), LSTM, _LSTM_FACTORS,
         _lstm_gradients, {float32: Bounds(1 << 15), bfloat16: Bounds(1 << 13)}),
    *(Unit("GRU", "lbr_gru", ("UPDATE", "RESET", "NEW"), (values["state"],), values, _GRU_FACTORS, _gru_gradients,
           {float32: Bounds(1 << 13), bfloat16: Bounds(1 << 13, 1 << 11)}, joint=False)
      for values in map(gru, _GRU_PRODUCTS)),
    Unit("RNN", "vanilla_rnn", ("GATE",), (RNN["tanh"],), {"state": RNN["tanh"]},
         {"to_sum": "sub(1.0, square(state))"}, _rnn_gradients,
         {float32: Bounds(1 << 12, 1 << 11), bfloat16: Bounds(1 << 11)}, activation=TANH),
)  # fmt: skip
"""An RNN with ReLU is none of them: the kernel of oneDNN makes 0 of nan."""
