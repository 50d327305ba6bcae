"""The long short-term memory as a function of flat weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphls.ir.errors import GraphValueError
from graphls.ops.control_flow import scan
from graphls.ops.creation import zeros
from graphls.ops.elementwise import add, mul, tanh
from graphls.ops.network import dropout as dropped
from graphls.ops.network import matmul, sigmoid
from graphls.ops.operands import float_of, tensor_of
from graphls.ops.record import operator_class
from graphls.ops.shapes import concat, cut, reshape, split, stack, swapaxes
from graphls.tensors.tensor import Tensor

Layer = tuple[Tensor, Tensor, list[Tensor]]
"""Weights of the input and of the hidden state, and biases."""


def lstm_step(total: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """The next hidden and cell state by input, forget, cell and output gate (Hochreiter and Schmidhuber, 1997)."""
    i, f, g, o = split(total, total.shape[-1] // 4, axis=-1)
    after = add(mul(sigmoid(f), cell), mul(sigmoid(i), tanh(g)))
    return mul(sigmoid(o), tanh(after)), after


def lstm(
    input: Any, h: Any, c: Any, w: Any, hidden_size: int, num_layers: int, bidirectional: bool, dropout: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The hidden states at all times, and the last hidden and cell states, of layers above each other.

    The input is (T, N, input size), both states (directions * layers, N, hidden size). `w` holds, for each layer and
    direction, the weights of the input, (4 * hidden, inputs), and of the state, and behind all of them the biases, if
    any: one for each, or two. `dropout` acts between layers. Raises GraphValueError where sizes do not fit.
    """
    x, directions = float_of(input), 2 if bidirectional else 1
    hidden, cell = tensor_of(h), tensor_of(c)
    count = directions * num_layers
    if x.ndim != 3 or not hidden.shape == cell.shape == (count, x.shape[1], hidden_size):
        message = f"LSTM of {x.type} takes {count} states of {hidden_size} numbers, not {hidden.type}, {cell.type}."
        raise GraphValueError(message)
    layers = _layers(reshape(tensor_of(w), (-1,)), x.shape[2], hidden_size, num_layers, directions)
    states: list[tuple[Tensor, Tensor]] = []
    for layer in range(num_layers):
        x = dropped(x, dropout) if layer and dropout else x
        outputs = []
        for direction in range(directions):
            number = layer * directions + direction
            state, output = _one_direction(x, hidden[number], cell[number], next(layers), bool(direction))
            states.append(state)
            outputs.append(output)
        x = concat(outputs, -1)
    return x, stack([state[0] for state in states]), stack([state[1] for state in states])


def _layers(flat: Tensor, inputs: int, hidden: int, num_layers: int, directions: int) -> Iterator[Layer]:
    sizes = [inputs if layer == 0 else hidden * directions for layer in range(num_layers) for _ in range(directions)]
    rows, total = 4 * hidden, sum(4 * hidden * (size + hidden) for size in sizes)
    biases = (flat.size - total) / (rows * len(sizes))
    if biases not in (0, 1, 2):
        message = f"LSTM takes {total} weights and one bias or two of {rows} for each layer, not {flat.type}."
        raise GraphValueError(message)
    at, behind = 0, total
    for size in sizes:
        middle, end = at + rows * size, at + rows * (size + hidden)
        pair = reshape(cut(flat, 0, at, middle), (rows, size)), reshape(cut(flat, 0, middle, end), (rows, hidden))
        yield *pair, [cut(flat, 0, behind + i * rows, behind + (i + 1) * rows) for i in range(int(biases))]
        at, behind = end, behind + int(biases) * rows


def _one_direction(x: Tensor, h: Tensor, c: Tensor, layer: Layer, reverse: bool) -> Any:
    first, second, biases = layer
    given = matmul(x, swapaxes(first, 0, 1))
    for bias in biases:
        given = add(given, bias)
    recurrent = swapaxes(second, 0, 1)

    def step(state: tuple[Tensor, Tensor], part: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        after = lstm_step(add(part, matmul(state[0], recurrent)), state[1])
        return after, after[0]

    return scan(step, (h, c), given, reverse=reverse)


def _lstm(
    input: Any,
    h: Any,
    c: Any,
    w: Any,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    has_bias: bool,
    bidirectional: bool,
    dropout: float,
    proj_size: int = 0,
) -> tuple[Tensor, ...]:
    if proj_size:
        raise GraphValueError(f"LSTM has no projection: 'proj_size' is 0, not {proj_size!r}.")
    found = lstm(input, h, c, w, hidden_size, num_layers, bool(bidirectional), dropout)
    kept = zeros((1, 1), found[0].dtype)
    return (*found, kept, kept)


_lstm.__doc__ = f"{lstm.__doc__}\n\nThe two results behind these hold nothing, as gradients need nothing."
operator_class("LSTM", "input_size hidden_size num_layers has_bias bidirectional dropout proj_size")(_lstm)
