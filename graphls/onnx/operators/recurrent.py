"""RNN, GRU and LSTM: each direction is a scan over time, in which what needs no state is computed before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from graphls import ops
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Tensor
from graphls.onnx.operators.activations import hard_sigmoid
from graphls.onnx.table import operator
from graphls.ops.operands import tensor_of

Function = Callable[[Any], Any]
Step = Callable[[tuple[Any, ...], Any], tuple[Any, ...]]

_FEW = 4
"""Steps up to which they are written out."""
_DEFAULTS: dict[str, tuple[float, float]] = {
    "affine": (1.0, 0.0), "elu": (1.0, 0.0), "hardsigmoid": (0.2, 0.5), "leakyrelu": (0.01, 0.0),
    "scaledtanh": (1.0, 1.0), "thresholdedrelu": (1.0, 0.0),
}  # fmt: skip


def _function(name: str, alpha: float | None, beta: float | None) -> Function:
    """An activation with its numbers."""
    a, b = _DEFAULTS.get(name, (0.0, 0.0))
    a, b = a if alpha is None else alpha, b if beta is None else beta
    known: dict[str, Function] = {
        "affine": lambda x: x * a + b,
        "elu": lambda x: ops.elu(x, a),
        "hardsigmoid": lambda x: hard_sigmoid(x, alpha=a, beta=b),
        "leakyrelu": lambda x: ops.where(ops.less(x, 0), x * a, x),
        "relu": ops.relu,
        "scaledtanh": lambda x: ops.tanh(x * b) * a,
        "sigmoid": ops.sigmoid,
        "softplus": lambda x: ops.softplus(x, threshold=np.inf),
        "softsign": ops.softsign,
        "tanh": ops.tanh,
        "thresholdedrelu": lambda x: ops.where(ops.greater(x, a), x, ops.zeros_like(x)),
    }
    if name not in known:
        raise GraphValueError(f"the activation {name!r} is not known.")
    return known[name]


@dataclass(frozen=True)
class Direction:
    """One direction: its weights, biases and activations, whether it runs backwards, and how many gates it has."""

    w: Any
    r: Any
    b: Any
    functions: Sequence[Function]
    is_reverse: bool
    gates: int

    def parts(self, x: Any) -> list[Any]:
        """A vector of all gates, cut into them."""
        return list(ops.split(x, x.shape[-1] // self.gates, -1))


def _directions(
    direction: str, gates: int, w: Any, r: Any, b: Any, names: Any, alphas: Any, betas: Any, default: Sequence[str]
) -> list[Direction]:
    """The directions of an operator with its attributes."""
    count = 2 if direction == "bidirectional" else 1
    given = list(names or list(default) * count)
    if len(given) == len(default) * count // 2 and count == 2:
        given = given * 2
    alpha, beta = iter(alphas or ()), iter(betas or ())
    functions = []
    for name in map(str.lower, given):
        takes = (name in _DEFAULTS, name in ("affine", "hardsigmoid", "scaledtanh"))
        numbers = (next(n, None) if t else None for n, t in zip((alpha, beta), takes, strict=True))
        functions.append(_function(name, *numbers))
    each = len(default)
    return [
        Direction(
            tensor_of(w)[i], tensor_of(r)[i], None if b is None else tensor_of(b)[i],
            functions[i * each : (i + 1) * each], direction == "reverse" or i == 1, gates,
        )
        for i in range(count)
    ]  # fmt: skip


def _run(
    x: Any, lengths: Any, starts: list[list[Any]], directions: list[Direction], step: Callable[..., Any], layout: int
) -> tuple[Any, ...]:
    """All outputs over time, (time, directions, batch, size), and the last of each state, (directions, batch, size)."""
    x = ops.transpose(x, (1, 0, 2)) if layout else tensor_of(x)
    outputs, states = [], []
    for direction, start in zip(directions, starts, strict=True):
        rows, last = _one_way(x, lengths, start, direction, step)
        outputs.append(rows)
        states.append(last)
    y = ops.stack(outputs, 1)
    lasts = [ops.stack(column, 0) for column in zip(*states, strict=True)]
    if not layout:
        return (y, *lasts)
    return (ops.transpose(y, (2, 0, 1, 3)), *(ops.transpose(last, (1, 0, 2)) for last in lasts))


def _one_way(
    x: Tensor, lengths: Any, start: list[Any], direction: Direction, step: Callable[..., Any]
) -> tuple[Any, list[Any]]:
    """One direction; behind the end of a sequence the state stays, and the output is 0."""
    bias = None if direction.b is None else ops.split(direction.b, direction.b.shape[0] // 2, 0)
    projected = ops.matmul(x, ops.transpose(direction.w))
    if direction.is_reverse:
        projected = ops.flip(projected, (0,)) if lengths is None else ops.reverse_sequence(projected, lengths, 0, 1)
    move = partial(step, direction, bias)
    count, hidden = x.shape[0], ops.transpose(direction.r)
    times = Tensor(np.arange(count, dtype=np.int64))

    def once(state: tuple[Any, ...], element: tuple[Any, Any]) -> tuple[tuple[Any, ...], Any]:
        after = move(hidden, state, element[0])
        if lengths is None:
            return after, after[0]
        is_on = ops.reshape(ops.less(element[1], ops.cast(lengths, "int64")), (-1, 1))
        shown = ops.where(is_on, after[0], ops.zeros_like(after[0]))
        return tuple(ops.where(is_on, new, old) for new, old in zip(after, state, strict=True)), shown

    last, rows = ops.scan(once, tuple(start), (projected, times), unroll=count <= _FEW)
    if direction.is_reverse:
        rows = ops.flip(rows, (0,)) if lengths is None else ops.reverse_sequence(rows, lengths, 0, 1)
    return rows, list(last)


def _starts(x: Any, size: int, count: int, layout: int, *given: Any) -> list[list[Any]]:
    """The states at the start for each direction; zeros where none are given."""
    x = tensor_of(x)
    batch = x.shape[0] if layout else x.shape[1]
    found = []
    for i in range(count):
        states = []
        for state in given:
            state = None if state is None else ops.transpose(state, (1, 0, 2)) if layout else tensor_of(state)
            states.append(ops.zeros((batch, size), x.dtype) if state is None else state[i])
        found.append(states)
    return found


def _clipped(x: Any, clip: float | None) -> Any:
    return x if clip is None else ops.clip_by_value(x, -clip, clip)


@operator("RNN", since=7)
def rnn(
    x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, start: Any = None, *, hidden_size: int = 0,
    activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None, clip: float | None = None,
    direction: str = "forward", layout: int = 0,
) -> Any:  # fmt: skip
    def step(way: Direction, bias: Any, hidden: Any, state: Any, projected: Any) -> Any:
        total = projected + ops.matmul(state[0], hidden)
        total = total if bias is None else total + bias[0] + bias[1]
        return (way.functions[0](_clipped(total, clip)),)

    ways = _directions(direction, 1, w, r, b, activations, activation_alpha, activation_beta, ("Tanh",))
    starts = _starts(x, tensor_of(r).shape[-1], len(ways), layout, start)
    return _run(x, lengths, starts, ways, step, layout)


@operator("GRU", since=7)
def gru(
    x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, start: Any = None, *, hidden_size: int = 0,
    activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None, clip: float | None = None,
    direction: str = "forward", layout: int = 0, linear_before_reset: int = 0,
) -> Any:  # fmt: skip
    def step(way: Direction, bias: Any, hidden: Any, state: Any, projected: Any) -> Any:
        (h,), (f, g), size = state, way.functions, state[0].shape[-1]
        projected = projected if bias is None else projected + bias[0]
        gates, candidate = ops.split(projected, [2 * size, size], -1)
        own, last = ops.split(hidden, [2 * size, size], 1)
        gates = gates + ops.matmul(h, own)
        gates = gates if bias is None else gates + bias[1][: 2 * size]
        z, r = ops.split(f(_clipped(gates, clip)), size, -1)
        inner = ops.matmul(h if linear_before_reset else r * h, last)
        inner = inner if bias is None else inner + bias[1][2 * size :]
        n = g(_clipped(candidate + (r * inner if linear_before_reset else inner), clip))
        return (n + z * (h - n),)

    ways = _directions(direction, 3, w, r, b, activations, activation_alpha, activation_beta, ("Sigmoid", "Tanh"))
    starts = _starts(x, tensor_of(r).shape[-1], len(ways), layout, start)
    return _run(x, lengths, starts, ways, step, layout)


@operator("LSTM", since=7)
def lstm(
    x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, start: Any = None, cell: Any = None, p: Any = None, *,
    hidden_size: int = 0, activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None,
    clip: float | None = None, direction: str = "forward", input_forget: int = 0, layout: int = 0,
) -> Any:  # fmt: skip
    default = ("Sigmoid", "Tanh", "Tanh")
    ways = _directions(direction, 4, w, r, b, activations, activation_alpha, activation_beta, default)
    size = tensor_of(r).shape[-1]
    # Peepholes, one number for each element of the cell: of the input gate, the output gate and the forget gate.
    peeps = [(None,) * 3 if p is None else ops.split(tensor_of(p)[i], size, 0) for i in range(len(ways))]

    def step(way: Direction, bias: Any, hidden: Any, state: Any, projected: Any) -> Any:
        (h, c), (f, g, last) = state, way.functions
        of_input, of_output, of_forget = peeps[next(i for i, each in enumerate(ways) if each is way)]
        total = projected + ops.matmul(h, hidden)
        i, o, forget, n = way.parts(total if bias is None else total + bias[0] + bias[1])
        i = f(_clipped(i if p is None else i + of_input * c, clip))
        forget = 1 - i if input_forget else f(_clipped(forget if p is None else forget + of_forget * c, clip))
        c = forget * c + i * g(_clipped(n, clip))
        o = f(_clipped(o if p is None else o + of_output * c, clip))
        return o * last(c), c

    return _run(x, lengths, _starts(x, size, len(ways), layout, start, cell), ways, step, layout)
