"""Recurrent layers: over whole sequences, and over one step of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeAlias

from graphls import ops
from graphls.base.checks import boolean, positive_int, probability
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.reporting import warn
from graphls.frontend.registry import compiler
from graphls.frontend.tensors import executor
from graphls.frontend.tensors.parameter import Parameter, ParameterTuple
from graphls.frontend.tensors.tensor import Tensor, TensorLike, is_tensor
from graphls.ir.types import DTypeLike, float32
from graphls.nn.cell import Cell
from graphls.nn.cell_calls import Running
from graphls.nn.dense import Dropout
from graphls.nn.initializer import Uniform, initializer
from graphls.ops.network.layers import linear, lstm_step, rounded_once
from graphls.ops.operands import Operand, tensor_of

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell"]


State = tuple[Tensor, ...]
LONG = 12
"""Time steps up to which a layer runs step by step in eager mode."""


@dataclass(frozen=True)
class Gates:
    """The gates of a recurrent unit: rows of the weights and tensors of the state for each hidden number.

    `act(projected, recurrent, state)` computes the next state from the products of input and hidden state with their
    weights. Where `joint`, only their sum counts, and so both biases can be added before the first step.
    """

    rows: int
    states: int
    joint: bool
    act: Callable[[Tensor, Tensor, State], State]

    def step(self, projected: Tensor, recurrent: Tensor, state: State) -> State:
        """The state after these products; of 16-bit floats it is computed in float32 and rounded once."""
        return rounded_once(lambda g, r, *old: self.act(g, r, old), projected, recurrent, *state)


def _lstm(projected: Tensor, recurrent: Tensor, state: State) -> State:
    """Input, forget, cell and output gate (Hochreiter and Schmidhuber, 1997)."""
    return lstm_step(ops.add(projected, recurrent), state[1])


def _gru(projected: Tensor, recurrent: Tensor, state: State) -> State:
    """Reset, update and new gate (Cho et al., 2014), the reset one after the product."""
    (hidden,), size = state, projected.shape[-1] // 3
    x_reset, x_update, x_new = ops.split(projected, size, axis=-1)
    h_reset, h_update, h_new = ops.split(recurrent, size, axis=-1)
    new = ops.tanh(ops.add(x_new, ops.mul(ops.sigmoid(ops.add(x_reset, h_reset)), h_new)))
    update = ops.sigmoid(ops.add(x_update, h_update))
    return (ops.add(new, ops.mul(update, ops.sub(hidden, new))),)


def _tanh(projected: Tensor, recurrent: Tensor, state: State) -> State:
    return (ops.tanh(ops.add(projected, recurrent)),)


def _relu(projected: Tensor, recurrent: Tensor, state: State) -> State:
    return (ops.relu(ops.add(projected, recurrent)),)


LSTM_GATES = Gates(4, 2, True, _lstm)
GRU_GATES = Gates(3, 1, False, _gru)
PLAIN_GATES = {"tanh": Gates(1, 1, True, _tanh), "relu": Gates(1, 1, True, _relu)}


def plain_gates(cell: str, nonlinearity: TensorLike) -> Gates:
    """The gates for a nonlinearity; raises GraphValueError for any but "tanh" and "relu"."""
    if not isinstance(nonlinearity, str) or nonlinearity not in PLAIN_GATES:
        text = f"For {cell!r}, the 'nonlinearity' must be 'tanh' or 'relu', but got {nonlinearity!r}."
        raise GraphValueError(text)
    return PLAIN_GATES[nonlinearity]


States: TypeAlias = "TensorLike | tuple[TensorLike, TensorLike]"
"""The hidden state, and of an LSTM also its cell state."""


class RecurrentCell(Cell):
    """The base of recurrent cells: weights `weight_ih` and `weight_hh`, biases `bias_ih` and `bias_hh`, and checks.

    The rows of all of them belong to the gates in order. They begin evenly spread up to 1 / sqrt(hidden_size).
    """

    _shown = "input_size hidden_size has_bias"

    def __init__(self, input_size: int, hidden_size: int, has_bias: bool, gates: Gates, dtype: DTypeLike) -> None:
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

    def next_state(self, x: TensorLike, hx: States | None) -> tuple[Tensor, ...]:
        """The state after the input x."""
        x = float_input(type(self).__name__, x, 2, self.input_size)
        state = state_of_shape(type(self).__name__, hx, self.gates.states, (x.shape[0], self.hidden_size))
        projected = linear(x, self.weight_ih, *((self.bias_ih,) if self.has_bias else ()))
        recurrent = linear(state[0], self.weight_hh, *((self.bias_hh,) if self.has_bias else ()))
        return self.gates.step(projected, recurrent, state)


class RNNCell(RecurrentCell):
    """h' = tanh(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh), or relu of that.

    Called as `cell(x, h)`, with x of (N, input_size) and h of (N, hidden_size). Raises GraphTypeError and
    GraphValueError for arguments and inputs that do not fit.
    """

    def __init__(
        self, input_size: int, hidden_size: int, has_bias: bool = True, nonlinearity: str = "tanh",
        dtype: DTypeLike = float32,
    ) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, has_bias, plain_gates("RNNCell", nonlinearity), dtype)

    def construct(self, x: TensorLike, hx: States | None) -> Tensor:
        return self.next_state(x, hx)[0]


class LSTMCell(RecurrentCell):
    """A long short-term memory: c' = sigmoid(f) * c + sigmoid(i) * tanh(g), h' = sigmoid(o) * tanh(c').

    i, f, g and o are the four parts of x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh. Called as
    `cell(x, (h, c))`, which returns (h', c'). Raises GraphTypeError and GraphValueError for inputs that do not fit.
    """

    def __init__(self, input_size: int, hidden_size: int, has_bias: bool = True, dtype: DTypeLike = float32) -> None:
        super().__init__(input_size, hidden_size, has_bias, LSTM_GATES, dtype)

    def construct(self, x: TensorLike, hx: States | None) -> tuple[Tensor, ...]:
        return self.next_state(x, hx)


class GRUCell(RecurrentCell):
    """A gated recurrent unit: h' = n + z * (h - n), with n = tanh(x_n + r * h_n), r = sigmoid(x_r + h_r) and z alike.

    x_r, x_z and x_n are the parts of x @ weight_ih.T + bias_ih, h_r, h_z and h_n those of h @ weight_hh.T + bias_hh.
    Called as `cell(x, h)`. Raises GraphTypeError and GraphValueError for arguments and inputs that do not fit.
    """

    def __init__(self, input_size: int, hidden_size: int, has_bias: bool = True, dtype: DTypeLike = float32) -> None:
        super().__init__(input_size, hidden_size, has_bias, GRU_GATES, dtype)

    def construct(self, x: TensorLike, hx: States | None) -> Tensor:
        return self.next_state(x, hx)[0]


def new_parameter(name: str, shape: tuple[int, ...], hidden_size: int, dtype: DTypeLike) -> Parameter:
    """A weight or bias of a recurrent layer."""
    return Parameter(initializer(Uniform(1 / math.sqrt(hidden_size)), shape, dtype), name=name)


def float_input(name: str, x: TensorLike, rank: int, size: int) -> Tensor:
    """A float tensor of that rank with `size` numbers along the last axis; raises for any other."""
    tensor = tensor_of(x)
    if not tensor.dtype.is_float:
        raise GraphTypeError(f"{name} takes floats, not {tensor.type}.")
    if tensor.ndim != rank or tensor.shape[-1] != size:
        text = f"{name} takes an input of rank {rank} with {size} features, not {tensor.type}."
        raise GraphValueError(text)
    return tensor


def state_of_shape(name: str, hx: States | None, count: int, shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    """A state as `count` tensors of one shape; a single one needs no tuple. Raises for any other."""
    states = hx if isinstance(hx, (tuple, list)) else (hx,)
    if len(states) != count or not all(map(is_tensor, states)):
        expected = "one tensor" if count == 1 else "a tuple of two tensors, hidden and cell state"
        raise GraphTypeError(f"The state of {name} is {expected}, not {type(hx).__name__}.")
    tensors = tuple(map(tensor_of, states))
    for tensor in tensors:
        if tensor.shape != shape:
            raise GraphValueError(f"A state of {name} has shape {shape} here, not {tensor.shape}.")
    return tensors


class RecurrentLayer(Cell):
    """The base of recurrent layers: stacked layers in one direction or both, each a scan over the sequence.

    The products of the inputs with their weights are one product for all time steps; a scan computes what depends on
    the step before. Layer k has `weight_ih_l{k}`, `weight_hh_l{k}`, `bias_ih_l{k}` and `bias_hh_l{k}`, with the suffix
    `_reverse` for the other direction. They are initialised evenly up to 1 / sqrt(hidden_size).
    """

    _shown = "input_size hidden_size num_layers has_bias batch_first bidirectional"
    gates: Gates

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, has_bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, dtype: DTypeLike = float32,
    ) -> None:  # fmt: skip
        super().__init__()
        name = type(self).__name__
        self.input_size = positive_int(name, "input_size", input_size)
        self.hidden_size = positive_int(name, "hidden_size", hidden_size)
        self.num_layers = positive_int(name, "num_layers", num_layers)
        self.has_bias = boolean(name, "has_bias", has_bias)
        self.batch_first = boolean(name, "batch_first", batch_first)
        self.bidirectional = boolean(name, "bidirectional", bidirectional)
        self.dropout_op = Dropout(p=_dropout(name, dropout, num_layers))
        self._add_parameters(dtype)

    def _add_parameters(self, dtype: DTypeLike) -> None:
        rows, hidden = self.gates.rows * self.hidden_size, self.hidden_size
        suffixes = [f"l{k}{end}" for k in range(self.num_layers) for end in ("", "_reverse")[: self.directions]]
        sizes = [self.input_size if s.startswith("l0") else hidden * self.directions for s in suffixes]

        def parameter(name: str, suffix: str, *shape: int) -> Parameter:
            return new_parameter(f"{name}_{suffix}", shape, hidden, dtype)

        self.w_ih_list = ParameterTuple(
            parameter("weight_ih", s, rows, n) for s, n in zip(suffixes, sizes, strict=True)
        )
        self.w_hh_list = ParameterTuple(parameter("weight_hh", s, rows, hidden) for s in suffixes)
        biased = suffixes if self.has_bias else []
        self.b_ih_list = ParameterTuple(parameter("bias_ih", s, rows) for s in biased)
        self.b_hh_list = ParameterTuple(parameter("bias_hh", s, rows) for s in biased)

    @property
    def directions(self) -> int:
        """The number of directions that the sequence is read in."""
        return 2 if self.bidirectional else 1

    def construct(
        self, x: Tensor, hx: States | None = None, seq_length: TensorLike | None = None
    ) -> tuple[Tensor, Any]:
        x = float_input(type(self).__name__, x, 3, self.input_size)
        x = ops.swapaxes(x, 0, 1) if self.batch_first else x
        running = self._running(x, seq_length)
        states = self._states(x, hx)
        last: list[State] = []
        for layer in range(self.num_layers):
            outputs = []
            for number in range(layer * self.directions, (layer + 1) * self.directions):
                start = tuple(state[number] for state in states)
                state, output = self._run_direction(number, x, start, running)
                last.append(state)
                outputs.append(output)
            x = outputs[0] if len(outputs) == 1 else ops.concat(outputs, axis=-1)
            x = self.dropout_op(x) if layer < self.num_layers - 1 else x
        after = tuple(ops.stack(part) for part in zip(*last, strict=True))
        return ops.swapaxes(x, 0, 1) if self.batch_first else x, after if len(after) > 1 else after[0]

    def _running(self, x: Tensor, seq_length: TensorLike | None) -> Tensor | None:
        """The mask of sequences that have not ended at each time, bool (T, N, 1); None where all are complete."""
        if seq_length is None:
            return None
        lengths = tensor_of(seq_length)
        name, count = type(self).__name__, x.shape[1]
        if lengths.dtype.kind not in ("int", "uint"):
            raise GraphTypeError(f"The seq_length of {name} holds integers, not {lengths.type}.")
        if lengths.shape != (count,):
            text = f"The seq_length of {name} has a length for each of {count} sequences, not {lengths.type}."
            raise GraphValueError(text)
        steps = ops.reshape(ops.arange(x.shape[0]), (-1, 1, 1))
        return ops.less(steps, ops.reshape(lengths, (1, -1, 1)))

    def _states(self, x: Tensor, hx: States | None) -> State:
        shape = (self.num_layers * self.directions, x.shape[1], self.hidden_size)
        if hx is None:
            return (ops.zeros(shape, x.dtype),) * self.gates.states
        return state_of_shape(type(self).__name__, hx, self.gates.states, shape)

    def _run_direction(self, number: int, x: Tensor, start: State, running: Tensor | None) -> tuple[State, Tensor]:
        """The last state and the hidden states of all time steps, for the weights with this number."""
        gates, biases = self.gates, (self.b_ih_list[number], self.b_hh_list[number]) if self.has_bias else ()
        weights = (self.w_ih_list[number], self.w_hh_list[number], *biases)
        is_reverse = bool(number % self.directions)
        if _is_long(x):
            state, output = _compiled_scan(gates, is_reverse)(x, running, start, tuple(map(tensor_of, weights)))
        else:
            state, output = _scan_direction(gates, is_reverse, x, running, start, weights)
        return state, output if running is None else ops.where(running, output, ops.zeros_like(output))


def _scan_direction(
    gates: Gates, is_reverse: bool, x: Tensor, running: Tensor | None, start: State, weights: tuple[Any, ...]
) -> tuple[State, Tensor]:
    """The last state and the hidden states of all time steps, for the weights and biases of one direction."""
    of_input, of_hidden, *biases = weights
    before, inside = (biases, []) if gates.joint else (biases[:1], biases[1:])
    projected = linear(x, of_input, *before)
    start = tuple(ops.cast(state, projected.dtype) for state in start)
    hidden_weights = tuple(tensor_of(w) for w in (of_hidden, *inside))

    def step(state: State, element: tuple[Tensor, Tensor | None]) -> tuple[State, Tensor]:
        part, is_running = element
        after = gates.step(part, linear(state[0], *hidden_weights), state)
        if is_running is not None:
            after = tuple(ops.where(is_running, new, old) for new, old in zip(after, state, strict=True))
        return after, after[0]

    result: tuple[State, Tensor] = ops.scan(step, start, (projected, running), reverse=is_reverse)
    return result


@cache
def _compiled_scan(gates: Gates, is_reverse: bool) -> Callable[..., tuple[State, Tensor]]:
    """`_scan_direction`, compiled for each combination of input types."""
    return compiler().derived_cache(_scan_direction, (), partial(_scan_direction, gates, is_reverse))


def _is_long(x: Tensor) -> bool:
    """Returns whether a sequence outside of a trace is worth a graph, whose compilation takes as long as 10 steps.

    With mixed precision it runs step by step, since the network decides the dtypes.
    """
    cell = executor.executor()
    return x.shape[0] > LONG and (cell is None or (isinstance(cell, Running) and cell.casting is None))


class RNN(RecurrentLayer):
    """h' = tanh(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh), or relu of that, along sequences.

    Takes x of (T, N, input_size), or (N, T, input_size) where `batch_first`; the state before the first time, zeros if
    none is given, of (directions * num_layers, N, hidden_size); and the length of each sequence, (N,), if they differ.
    Returns the hidden states of the last layer at all time steps, followed by those of the other direction, with zeros
    after the end of a sequence; and the last state. In training, `dropout` acts between layers. Raises GraphTypeError
    and GraphValueError for arguments and inputs that do not fit.
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, has_bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, dtype: DTypeLike = float32, *, nonlinearity: str = "tanh",
    ) -> None:  # fmt: skip
        self.gates = plain_gates("RNN", nonlinearity)
        super().__init__(input_size, hidden_size, num_layers, has_bias, batch_first, dropout, bidirectional, dtype)


class LSTM(RecurrentLayer):
    """The long short-term memory of LSTMCell along sequences; used as RNN.

    Its state is a tuple of two, hidden and cell state.
    """

    gates = LSTM_GATES


class GRU(RecurrentLayer):
    """The gated recurrent unit of GRUCell along sequences; used as RNN."""

    gates = GRU_GATES


def _dropout(name: str, dropout: Operand, num_layers: int) -> float:
    probability(name, "dropout", dropout)
    if dropout == 1:
        raise GraphValueError(f"For {name!r}, the 'dropout' must be in [0, 1), but got 1.")
    if dropout and num_layers == 1:
        warn(f"The dropout of {name} acts between layers, and there is one layer only.")
    return float(dropout)
