"""Recurrent layers: RNN, LSTM and GRU over whole sequences."""

from __future__ import annotations

from typing import Any

from graphls import ops
from graphls.ir.checks import boolean, positive_int
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.reporting import warn
from graphls.ir.types import DTypeLike, float32
from graphls.nn.cell import Cell
from graphls.nn.dropout import Dropout
from graphls.nn.recurrent_cells import (
    GRU_GATES,
    LSTM_GATES,
    Gates,
    State,
    float_input,
    linear,
    new_parameter,
    plain_gates,
    state_of_shape,
)
from graphls.ops.operands import Operand, tensor_of
from graphls.ops.random import check_probability
from graphls.tensors.parameter import Parameter, ParameterTuple
from graphls.tensors.tensor import Tensor, TensorLike

__all__ = ["GRU", "LSTM", "RNN"]


class RecurrentLayer(Cell):
    """What recurrent layers share: layers above each other, in one direction or both, each a scan over the sequence.

    The products of the inputs with their weights are one product for all times; a scan holds what depends on the time
    before. Layer k has `weight_ih_l{k}`, `weight_hh_l{k}`, `bias_ih_l{k}` and `bias_hh_l{k}`, with `_reverse` behind
    for the other direction. They begin evenly spread up to 1 / sqrt(hidden_size).
    """

    def __init__(
        self,
        gates: Gates,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        has_bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        dtype: DTypeLike = float32,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.gates = gates
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

        def made(name: str, suffix: str, *shape: int) -> Parameter:
            return new_parameter(f"{name}_{suffix}", shape, hidden, dtype)

        self.w_ih_list = ParameterTuple(made("weight_ih", s, rows, n) for s, n in zip(suffixes, sizes, strict=True))
        self.w_hh_list = ParameterTuple(made("weight_hh", s, rows, hidden) for s in suffixes)
        biased = suffixes if self.has_bias else []
        self.b_ih_list = ParameterTuple(made("bias_ih", s, rows) for s in biased)
        self.b_hh_list = ParameterTuple(made("bias_hh", s, rows) for s in biased)

    @property
    def directions(self) -> int:
        """How many directions the sequence is read in."""
        return 2 if self.bidirectional else 1

    def construct(self, x: Tensor, hx: Any = None, seq_length: Any = None) -> tuple[Tensor, Any]:
        x = float_input(type(self).__name__, x, 3, self.input_size)
        x = ops.swapaxes(x, 0, 1) if self.batch_first else x
        running = self._running(x, seq_length)
        states = self._states(x, hx)
        last: list[State] = []
        for layer in range(self.num_layers):
            outputs = []
            for number in range(layer * self.directions, (layer + 1) * self.directions):
                start = tuple(state[number] for state in states)
                state, output = self._one_direction(number, x, start, running)
                last.append(state)
                outputs.append(output)
            x = outputs[0] if len(outputs) == 1 else ops.concat(outputs, axis=-1)
            x = self.dropout_op(x) if layer < self.num_layers - 1 else x
        after = tuple(ops.stack(part) for part in zip(*last, strict=True))
        return ops.swapaxes(x, 0, 1) if self.batch_first else x, after if len(after) > 1 else after[0]

    def _running(self, x: Tensor, seq_length: TensorLike) -> Tensor | None:
        """Whether each sequence is still running at each time, bool (T, N, 1); None where all run to the end."""
        if seq_length is None:
            return None
        lengths = tensor_of(seq_length)
        name, count = type(self).__name__, x.shape[1]
        if lengths.dtype.kind not in ("int", "uint"):
            raise GraphTypeError(f"The seq_length of {name} holds integers, not {lengths.type}.")
        if lengths.shape != (count,):
            text = f"The seq_length of {name} has a length for each of {count} sequences, not {lengths.type}."
            raise GraphValueError(text)
        times = ops.reshape(ops.arange(x.shape[0]), (-1, 1, 1))
        return ops.less(times, ops.reshape(lengths, (1, -1, 1)))

    def _states(self, x: Tensor, hx: TensorLike) -> State:
        shape = (self.num_layers * self.directions, x.shape[1], self.hidden_size)
        if hx is None:
            return (ops.zeros(shape, x.dtype),) * self.gates.states
        return state_of_shape(type(self).__name__, hx, self.gates.states, shape)

    def _one_direction(self, number: int, x: Tensor, start: State, running: Tensor | None) -> tuple[State, Tensor]:
        """The last state and the hidden states of all times, for the weights with this number."""
        gates, weight = self.gates, self.w_hh_list[number]
        biases = [self.b_ih_list[number], self.b_hh_list[number]] if self.has_bias else []
        before, inside = (biases, []) if gates.joint else (biases[:1], biases[1:])
        given = linear(x, self.w_ih_list[number], *before)
        start = tuple(ops.cast(state, given.dtype) for state in start)

        def step(state: State, element: tuple[Tensor, Tensor | None]) -> tuple[State, Tensor]:
            part, is_running = element
            after = gates.step(part, linear(state[0], weight, *inside), state)
            if is_running is not None:
                after = tuple(ops.where(is_running, new, old) for new, old in zip(after, state, strict=True))
            return after, after[0]

        state, output = ops.scan(step, start, (given, running), reverse=bool(number % self.directions))
        return state, output if running is None else ops.where(running, output, ops.zeros_like(output))

    def extend_repr(self) -> str:
        return (
            f"input_size={self.input_size}, hidden_size={self.hidden_size}, num_layers={self.num_layers}, "
            f"has_bias={self.has_bias}, batch_first={self.batch_first}, bidirectional={self.bidirectional}"
        )


class RNN(RecurrentLayer):
    """h' = tanh(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh), or relu of that, along sequences.

    Takes x of (T, N, input_size), or (N, T, input_size) where `batch_first`; the state before the first time, zeros if
    none is given, of (directions * num_layers, N, hidden_size); and the length of each sequence, (N,), if they differ.
    Gives the hidden states of the last layer at all times, with those of the other direction behind them and zeros
    behind the end of a sequence, and the last state. In training, `dropout` acts between layers. Raises GraphTypeError
    and GraphValueError for arguments and inputs that do not fit.
    """

    def __init__(self, *args: Any, nonlinearity: str = "tanh", **kwargs: Any) -> None:
        super().__init__(plain_gates("RNN", nonlinearity), *args, **kwargs)


class LSTM(RecurrentLayer):
    """The long short-term memory of LSTMCell along sequences; used as RNN.

    Its state is a tuple of two, hidden and cell state.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(LSTM_GATES, *args, **kwargs)


class GRU(RecurrentLayer):
    """The gated recurrent unit of GRUCell along sequences; used as RNN."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(GRU_GATES, *args, **kwargs)


def _dropout(name: str, dropout: Operand, num_layers: int) -> float:
    check_probability(name, dropout)
    if dropout == 1:
        raise GraphValueError(f"For {name!r}, the 'dropout' must be in [0, 1), but got 1.")
    if dropout and num_layers == 1:
        warn(f"The dropout of {name} acts between layers, and there is one layer only.")
    return float(dropout)
