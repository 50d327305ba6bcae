"""Recurrent cells: one time of a recurrent layer, with weights of its own, and the gates of both."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from graphls import ops
from graphls.initializer import Uniform, initializer
from graphls.ir.checks import boolean, positive_int
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import DTypeLike, float32
from graphls.nn.cell import Cell
from graphls.ops.layers import lstm_step
from graphls.ops.operands import apply, operand_of, tensor_of
from graphls.tensors.dispatch import promoted
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Tensor, TensorLike, is_tensor

__all__ = ["GRUCell", "LSTMCell", "RNNCell"]


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


def plain_gates(cell: str, nonlinearity: TensorLike) -> Gates:
    """The gates for a nonlinearity; raises GraphValueError for any but "tanh" and "relu"."""
    if not isinstance(nonlinearity, str) or nonlinearity not in PLAIN_GATES:
        text = f"For {cell!r}, the 'nonlinearity' must be 'tanh' or 'relu', but got {nonlinearity!r}."
        raise GraphValueError(text)
    return PLAIN_GATES[nonlinearity]


def linear(x: TensorLike, weight: TensorLike, *biases: TensorLike) -> Tensor:
    """x @ weight.T, and biases added to it."""
    x, weight = promoted(operand_of(x), operand_of(weight))
    y = apply("matmul", x, weight, transpose_b=True)
    for bias in biases:
        y = ops.add(y, bias)
    return y


class RecurrentCell(Cell):
    """What recurrent cells share: weights `weight_ih` and `weight_hh`, biases `bias_ih` and `bias_hh`, and checks.

    The rows of all of them belong to the gates in order. They begin evenly spread up to 1 / sqrt(hidden_size).
    """

    def __init__(self, input_size: int, hidden_size: int, has_bias: bool, gates: Gates, dtype: Any) -> None:
        super().__init__()
        name = type(self).__name__
        self.input_size = positive_int(name, "input_size", input_size)
        self.hidden_size = positive_int(name, "hidden_size", hidden_size)
        self.has_bias = boolean(name, "has_bias", has_bias)
        self.gates = gates
        rows = gates.rows * hidden_size
        self.weight_ih = new_parameter("weight_ih", (rows, input_size), hidden_size, dtype)
        self.weight_hh = new_parameter("weight_hh", (rows, hidden_size), hidden_size, dtype)
        if has_bias:
            self.bias_ih = new_parameter("bias_ih", (rows,), hidden_size, dtype)
            self.bias_hh = new_parameter("bias_hh", (rows,), hidden_size, dtype)

    def next_state(self, x: TensorLike, hx: TensorLike) -> tuple[Tensor, ...]:
        """The state after the input x."""
        x = float_input(type(self).__name__, x, 2, self.input_size)
        state = state_of_shape(type(self).__name__, hx, self.gates.states, (x.shape[0], self.hidden_size))
        given = linear(x, self.weight_ih, *((self.bias_ih,) if self.has_bias else ()))
        recurrent = linear(state[0], self.weight_hh, *((self.bias_hh,) if self.has_bias else ()))
        return self.gates.step(given, recurrent, state)

    def extend_repr(self) -> str:
        return f"input_size={self.input_size}, hidden_size={self.hidden_size}, has_bias={self.has_bias}"


class RNNCell(RecurrentCell):
    """h' = tanh(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh), or relu of that.

    Called as `cell(x, h)`, with x of (N, input_size) and h of (N, hidden_size). Raises GraphTypeError and
    GraphValueError for arguments and inputs that do not fit.
    """

    def __init__(
        self, input_size: int, hidden_size: int, has_bias: bool = True, nonlinearity: str = "tanh", dtype: Any = float32
    ) -> None:
        super().__init__(input_size, hidden_size, has_bias, plain_gates("RNNCell", nonlinearity), dtype)

    def construct(self, x: TensorLike, hx: TensorLike) -> Tensor:
        return self.next_state(x, hx)[0]


class LSTMCell(RecurrentCell):
    """A long short-term memory: c' = sigmoid(f) * c + sigmoid(i) * tanh(g), h' = sigmoid(o) * tanh(c').

    i, f, g and o are the four parts of x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh. Called as
    `cell(x, (h, c))`, which gives (h', c'). Raises GraphTypeError and GraphValueError for what does not fit.
    """

    def __init__(self, input_size: int, hidden_size: int, has_bias: bool = True, dtype: Any = float32) -> None:
        super().__init__(input_size, hidden_size, has_bias, LSTM_GATES, dtype)

    def construct(self, x: TensorLike, hx: TensorLike) -> tuple[Tensor, ...]:
        return self.next_state(x, hx)


class GRUCell(RecurrentCell):
    """A gated recurrent unit: h' = n + z * (h - n), with n = tanh(x_n + r * h_n), r = sigmoid(x_r + h_r) and z alike.

    x_r, x_z and x_n are the parts of x @ weight_ih.T + bias_ih, h_r, h_z and h_n those of h @ weight_hh.T + bias_hh.
    Called as `cell(x, h)`. Raises GraphTypeError and GraphValueError for arguments and inputs that do not fit.
    """

    def __init__(self, input_size: int, hidden_size: int, has_bias: bool = True, dtype: Any = float32) -> None:
        super().__init__(input_size, hidden_size, has_bias, GRU_GATES, dtype)

    def construct(self, x: TensorLike, hx: TensorLike) -> Tensor:
        return self.next_state(x, hx)[0]


def new_parameter(name: str, shape: tuple[int, ...], hidden_size: int, dtype: DTypeLike) -> Parameter:
    """A weight or bias of a recurrent layer."""
    return Parameter(initializer(Uniform(1 / math.sqrt(hidden_size)), shape, dtype), name=name)


def float_input(name: str, x: TensorLike, rank: int, size: int) -> Tensor:
    """A float tensor of that rank with `size` numbers along the last axis; raises where it is another."""
    tensor = tensor_of(x)
    if not tensor.dtype.is_float:
        raise GraphTypeError(f"{name} takes floats, not {tensor.type}.")
    if tensor.ndim != rank or tensor.shape[-1] != size:
        text = f"{name} takes an input of rank {rank} with {size} features, not {tensor.type}."
        raise GraphValueError(text)
    return tensor


def state_of_shape(name: str, hx: TensorLike, count: int, shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    """A state as so many tensors of one shape; a single one may stand for itself. Raises where it is another."""
    given = hx if isinstance(hx, (tuple, list)) else (hx,)
    if len(given) != count or not all(map(is_tensor, given)):
        wanted = "one tensor" if count == 1 else "a tuple of two tensors, hidden and cell state"
        raise GraphTypeError(f"The state of {name} is {wanted}, not {type(hx).__name__}.")
    tensors = tuple(map(tensor_of, given))
    for tensor in tensors:
        if tensor.shape != shape:
            raise GraphValueError(f"A state of {name} has shape {shape} here, not {tensor.shape}.")
    return tensors
