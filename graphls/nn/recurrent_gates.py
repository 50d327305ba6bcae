"""One time of a recurrent layer: the next state from two products and the state before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from graphls import ops
from graphls.ir.errors import GraphValueError
from graphls.ops.operands import apply, operand_of
from graphls.ops.recurrence import lstm_step
from graphls.tensors.dispatch import promoted
from graphls.tensors.tensor import Tensor

State = tuple[Tensor, ...]


@dataclass(frozen=True)
class Gates:
    """How many rows of the weights each hidden number has, how many tensors a state has, and what follows from it.

    `step(given, recurrent, state)` takes the products of input and hidden state with their weights. Where `joint`, only
    their sum counts, and so both biases can be added before the first time.
    """

    rows: int
    states: int
    joint: bool
    step: Callable[[Tensor, Tensor, State], State]


def _lstm(given: Tensor, recurrent: Tensor, state: State) -> State:
    """Input, forget, cell and output gate (Hochreiter and Schmidhuber, 1997)."""
    return lstm_step(ops.add(given, recurrent), state[1])


def _gru(given: Tensor, recurrent: Tensor, state: State) -> State:
    """Reset, update and new gate (Cho et al., 2014), the reset one behind the product."""
    (hidden,), size = state, given.shape[-1] // 3
    x_reset, x_update, x_new = ops.split(given, size, axis=-1)
    h_reset, h_update, h_new = ops.split(recurrent, size, axis=-1)
    new = ops.tanh(ops.add(x_new, ops.mul(ops.sigmoid(ops.add(x_reset, h_reset)), h_new)))
    update = ops.sigmoid(ops.add(x_update, h_update))
    return (ops.add(new, ops.mul(update, ops.sub(hidden, new))),)


def _plain(activation: Callable[[Any], Tensor]) -> Gates:
    return Gates(1, 1, True, lambda given, recurrent, state: (activation(ops.add(given, recurrent)),))


LSTM_GATES = Gates(4, 2, True, _lstm)
GRU_GATES = Gates(3, 1, False, _gru)
PLAIN_GATES = {"tanh": _plain(ops.tanh), "relu": _plain(ops.relu)}


def plain_gates(cell: str, nonlinearity: Any) -> Gates:
    """The gates for a nonlinearity; raises GraphValueError for any but "tanh" and "relu"."""
    if not isinstance(nonlinearity, str) or nonlinearity not in PLAIN_GATES:
        text = f"For {cell!r}, the 'nonlinearity' must be 'tanh' or 'relu', but got {nonlinearity!r}."
        raise GraphValueError(text)
    return PLAIN_GATES[nonlinearity]


def linear(x: Any, weight: Any, *biases: Any) -> Tensor:
    """x @ weight.T, and biases added to it."""
    x, weight = promoted(operand_of(x), operand_of(weight))
    y = apply("matmul", x, weight, transpose_b=True)
    for bias in biases:
        y = ops.add(y, bias)
    return y
