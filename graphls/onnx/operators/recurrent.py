"""RNN, GRU and LSTM: a scan over time for each direction, with the product of all inputs computed before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from graphls import ops
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Tensor
from graphls.onnx.operators.activations import hard_sigmoid
from graphls.onnx.table import operator
from graphls.onnx.values import Floats, Input, OptionalInput, Strings
from graphls.ops.network.layers import linear
from graphls.ops.operands import tensor_of

Function = Callable[[Tensor], Tensor]
States = tuple[Tensor, ...]

_FEW = 4
"""Steps up to which they are unrolled."""
_DEFAULTS: dict[str, tuple[float, float]] = {
    "affine": (1.0, 0.0), "elu": (1.0, 0.0), "hardsigmoid": (0.2, 0.5), "leakyrelu": (0.01, 0.0),
    "scaledtanh": (1.0, 1.0), "thresholdedrelu": (1.0, 0.0),
}  # fmt: skip


def _function(name: str, alpha: float | None, beta: float | None) -> Function:
    """An activation with its parameters."""
    a, b = _DEFAULTS.get(name, (0.0, 0.0))
    a, b = a if alpha is None else alpha, b if beta is None else beta
    functions: dict[str, Function] = {
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
    if name not in functions:
        raise GraphValueError(f"the activation {name!r} is not known.")
    return functions[name]


@dataclass(frozen=True)
class Direction:
    """One direction: its weights, biases and activations, whether it runs backwards, and how many gates it has."""

    w: Tensor
    r: Tensor
    b: Tensor | None
    functions: Sequence[Function]
    is_reverse: bool
    gates: int

    def parts(self, x: Tensor) -> list[Tensor]:
        """The parts of a vector that belong to each gate."""
        return list(ops.split(x, x.shape[-1] // self.gates, -1))


def _directions(
    direction: str,
    gates: int,
    w: Input,
    r: Input,
    b: OptionalInput,
    names: Strings | None,
    alphas: Floats | None,
    betas: Floats | None,
    default: Strings,
) -> list[Direction]:
    """The directions of an operator with its attributes."""
    count = 2 if direction == "bidirectional" else 1
    activations = list(names or list(default) * count)
    if len(activations) == len(default) * count // 2 and count == 2:
        activations = activations * 2
    alpha, beta = iter(alphas or ()), iter(betas or ())
    functions = []
    for name in map(str.lower, activations):
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


Step = Callable[[Direction, States, States, Tensor], States]
"""The next states from the direction, its biases within iterations, the states, and the products of the inputs."""


def _run(
    x: Input,
    lengths: OptionalInput,
    starts: list[States],
    directions: list[Direction],
    step: Step,
    layout: int,
    joint: bool = True,
) -> tuple[Tensor, ...]:
    """All outputs over time, (time, directions, batch, size), and the last of each state, (directions, batch, size)."""
    x = ops.transpose(x, (1, 0, 2)) if layout else tensor_of(x)
    outputs, states = [], []
    for direction, start in zip(directions, starts, strict=True):
        rows, last = _one_way(x, lengths, start, direction, step, joint)
        outputs.append(rows)
        states.append(last)
    y = ops.stack(outputs, 1)
    lasts = [ops.stack(column, 0) for column in zip(*states, strict=True)]
    if not layout:
        return (y, *lasts)
    return (ops.transpose(y, (2, 0, 1, 3)), *(ops.transpose(last, (1, 0, 2)) for last in lasts))


def _one_way(
    x: Tensor, lengths: OptionalInput, start: States, direction: Direction, step: Step, joint: bool
) -> tuple[Tensor, list[Tensor]]:
    """One direction; past the end of a sequence the state stays, and the output is 0.

    The biases are added to the products of the inputs, but that of the states within iterations unless they are joint.
    """
    biases = () if direction.b is None else tuple(ops.split(direction.b, direction.b.shape[0] // 2, 0))
    before, inside = (biases, ()) if joint else (biases[:1], biases[1:])
    projected = linear(x, direction.w, *before)
    turned = lengths if direction.is_reverse else None
    if turned is not None:
        projected = ops.reverse_sequence(projected, turned, 0, 1)
    move = partial(step, direction, inside)
    count = x.shape[0]
    times = None if lengths is None else Tensor(np.arange(count, dtype=np.int64))

    def once(state: States, element: tuple[Tensor, Tensor | None]) -> tuple[States, Tensor]:
        part, time = element
        after = move(state, part)
        if lengths is None or time is None:
            return after, after[0]
        is_on = ops.reshape(ops.less(time, ops.cast(lengths, "int64")), (-1, 1))
        shown = ops.where(is_on, after[0], ops.zeros_like(after[0]))
        return tuple(ops.where(is_on, new, old) for new, old in zip(after, state, strict=True)), shown

    is_backwards = direction.is_reverse and turned is None
    last, rows = ops.scan(once, start, (projected, times), reverse=is_backwards, unroll=count <= _FEW)
    return rows if turned is None else ops.reverse_sequence(rows, turned, 0, 1), list(last)


def _starts(x: Input, size: int, count: int, layout: int, *initial: OptionalInput) -> list[States]:
    """The initial states of each direction; zeros where the model has none."""
    x = tensor_of(x)
    batch = x.shape[0] if layout else x.shape[1]

    def start(state: OptionalInput, i: int) -> Tensor:
        if state is None:
            return ops.zeros((batch, size), x.dtype)
        return (ops.transpose(state, (1, 0, 2)) if layout else tensor_of(state))[i]

    return [tuple(start(state, i) for state in initial) for i in range(count)]


def _clipped(x: Tensor, clip: float | None) -> Tensor:
    y: Tensor = x if clip is None else ops.clip_by_value(x, -clip, clip)
    return y


@operator("RNN", since=7)
def rnn(
    x: Input, w: Input, r: Input, b: OptionalInput = None, lengths: OptionalInput = None, start: OptionalInput = None,
    *, hidden_size: int = 0, activation_alpha: Floats | None = None, activation_beta: Floats | None = None,
    activations: Strings | None = None, clip: float | None = None, direction: str = "forward", layout: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    def step(way: Direction, _: States, state: States, projected: Tensor) -> States:
        return (way.functions[0](_clipped(projected + linear(state[0], way.r), clip)),)

    ways = _directions(direction, 1, w, r, b, activations, activation_alpha, activation_beta, ("Tanh",))
    starts = _starts(x, tensor_of(r).shape[-1], len(ways), layout, start)
    return _run(x, lengths, starts, ways, step, layout)


@operator("GRU", since=7)
def gru(
    x: Input, w: Input, r: Input, b: OptionalInput = None, lengths: OptionalInput = None, start: OptionalInput = None,
    *, hidden_size: int = 0, activation_alpha: Floats | None = None, activation_beta: Floats | None = None,
    activations: Strings | None = None, clip: float | None = None, direction: str = "forward", layout: int = 0,
    linear_before_reset: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    def step(way: Direction, bias: States, state: States, projected: Tensor) -> States:
        (h,), (f, g), size = state, way.functions, state[0].shape[-1]
        if linear_before_reset:
            (z, r, candidate), (own_z, own_r, inner) = way.parts(projected), way.parts(linear(h, way.r, *bias))
            z, r = (f(_clipped(a + b, clip)) for a, b in ((z, own_z), (r, own_r)))
            inner = r * inner
        else:
            gates, candidate = ops.split(projected, [2 * size, size], -1)
            own, last = ops.split(way.r, [2 * size, size], 0)
            shifts = [ops.split(b, [2 * size, size], 0) for b in bias]
            z, r = ops.split(f(_clipped(gates + linear(h, own, *(b[0] for b in shifts)), clip)), size, -1)
            inner = linear(r * h, last, *(b[1] for b in shifts))
        n = g(_clipped(candidate + inner, clip))
        return (n + z * (h - n),)

    ways = _directions(direction, 3, w, r, b, activations, activation_alpha, activation_beta, ("Sigmoid", "Tanh"))
    starts = _starts(x, tensor_of(r).shape[-1], len(ways), layout, start)
    return _run(x, lengths, starts, ways, step, layout, joint=False)


@operator("LSTM", since=7)
def lstm(
    x: Input, w: Input, r: Input, b: OptionalInput = None, lengths: OptionalInput = None, start: OptionalInput = None,
    cell: OptionalInput = None, p: OptionalInput = None, *, hidden_size: int = 0,
    activation_alpha: Floats | None = None, activation_beta: Floats | None = None, activations: Strings | None = None,
    clip: float | None = None, direction: str = "forward", input_forget: int = 0, layout: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    return long_short_term_memory(
        tensor_of(x), w, r, b, lengths, start, cell, p, activation_alpha, activation_beta, activations, clip, direction,
        input_forget, layout,
    )  # fmt: skip


def long_short_term_memory(
    x: Tensor, w: Input, r: Input, b: OptionalInput, lengths: OptionalInput, start: OptionalInput, cell: OptionalInput,
    p: OptionalInput, activation_alpha: Floats | None, activation_beta: Floats | None, activations: Strings | None,
    clip: float | None, direction: str, input_forget: int, layout: int, rounded: Function = lambda h: h,
) -> tuple[Tensor, ...]:  # fmt: skip
    """LSTM; `rounded` is applied to each state before its product."""
    default = ("Sigmoid", "Tanh", "Tanh")
    ways = _directions(direction, 4, w, r, b, activations, activation_alpha, activation_beta, default)
    size = tensor_of(r).shape[-1]
    # Peepholes, one number for each element of the cell: of the input gate, the output gate and the forget gate.
    peepholes = [None if p is None else ops.split(tensor_of(p)[i], size, 0) for i in range(len(ways))]

    def step(way: Direction, _: States, state: States, projected: Tensor) -> States:
        (h, c), (f, g, last) = state, way.functions
        peephole = peepholes[next(i for i, each in enumerate(ways) if each is way)]
        i, o, forget, n = way.parts(projected + linear(rounded(h), way.r))
        i = f(_clipped(i if peephole is None else i + peephole[0] * c, clip))
        forget = 1 - i if input_forget else f(_clipped(forget if peephole is None else forget + peephole[2] * c, clip))
        c = forget * c + i * g(_clipped(n, clip))
        o = f(_clipped(o if peephole is None else o + peephole[1] * c, clip))
        return o * last(c), c

    return _run(x, lengths, _starts(x, size, len(ways), layout, start, cell), ways, step, layout)
