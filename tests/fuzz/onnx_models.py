"""Random ONNX models of other programs' kinds: many versions, odd names, empty axes, branches, loops and functions.

A model is built value by value: each operator that is drawn is run at once by ONNX's reference evaluator on the values
so far, so that shapes are known without rules for them. One that it refuses, or that gives what is not finite, is left.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

Array = np.ndarray[Any, Any]
Draw = np.random.Generator

OPSETS = (7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23)
ODD = ("x", "x.1", "a/b:0", "class", "self", "números", "a b", "%y", "__call__", "0", "construct", "weight", "-", "x_1")
SIZES = (0, 1, 1, 2, 2, 3, 3, 4)
MOST_ELEMENTS, LARGEST = 400, 1e4


@dataclass
class Model:
    """A model and what it is run on."""

    proto: ModelProto
    inputs: dict[str, Array]


@dataclass
class Builder:
    """Operators and the values that they gave, in a graph or in one inside of it, which sees what is `around`."""

    draw: Draw
    opset: int
    values: dict[str, Array] = field(default_factory=dict)
    nodes: list[NodeProto] = field(default_factory=list)
    held: dict[str, Array] = field(default_factory=dict)
    functions: list[FunctionProto] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    depth: int = 0

    def name(self) -> str:
        """A name that is free, which is often an odd one."""
        wish = str(self.draw.choice(ODD))
        while wish in self.taken:
            wish += str(self.draw.integers(10))
        self.taken.add(wish)
        return wish

    def hold(self, array: Any, shared: bool = True) -> str:
        """An initializer, or a Constant node, that holds an array; one that is there already may do."""
        array = np.asarray(array)
        for name, other in self.held.items() if shared else ():
            if other.dtype == array.dtype and other.shape == array.shape and np.array_equal(other, array):
                return name
        name = self.name()
        if self.draw.random() < 0.2:
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
        else:
            self.held[name] = array
        self.values[name] = array
        return name

    def integers(self, *numbers: int) -> str:
        """A known vector of integers."""
        return self.hold(np.array(numbers, np.int64))

    def any(self, kind: str = "f", ranks: Sequence[int] = (0, 1, 2, 3, 4, 5)) -> str:
        """A value of a kind, the last ones more often than the first."""
        found = [n for n, a in self.values.items() if a.dtype.kind == kind and a.ndim in ranks and n not in self.held]
        if not found:
            raise LookupError(kind)
        return found[min(len(found) - 1, int(len(found) * self.draw.random() ** 0.6))]

    def like(self, x: str) -> str:
        """A value that broadcasts with another one: one that is there, or a new weight."""
        shape = self.values[x].shape
        fitting = [n for n, a in self.values.items() if a.dtype == self.values[x].dtype and _broadcast(a.shape, shape)]
        if fitting and self.draw.random() < 0.6:
            return str(self.draw.choice(fitting))
        own = [1 if self.draw.random() < 0.3 else size for size in shape]
        return self.weight(*own[int(self.draw.integers(len(own) + 1)) :])

    def weight(self, *shape: int, low: float = -1.5, high: float = 1.5) -> str:
        """A float initializer, which can be trained."""
        return self.hold(self.draw.uniform(low, high, shape).astype(np.float32), shared=False)

    def axis(self, x: str) -> int:
        """An axis of a value, counted from either side."""
        rank = self.values[x].ndim
        return int(self.draw.integers(-rank, rank)) if rank else 0

    def axes(self, x: str) -> list[int]:
        """Some axes of a value."""
        rank = self.values[x].ndim
        chosen = [i for i in range(rank) if self.draw.random() < 0.5]
        return [i - rank if self.draw.random() < 0.3 else i for i in chosen]

    def flag(self, probability: float = 0.5) -> bool:
        """True so often."""
        return bool(self.draw.random() < probability)

    def add(self, kind: str, inputs: Sequence[str], outputs: int = 1, domain: str = "", **attributes: Any) -> list[str]:
        """Append an operator; raises whatever its reference does, and ValueError for what is large or not finite."""
        names = [self.name() for _ in range(outputs)]
        node = helper.make_node(kind, inputs, names, domain=domain, name=self.name(), **attributes)
        found = self.run([node], names)
        fits = "kernel_shape" not in attributes or 0 not in found[0].shape  # where there is no window, graphls refuses
        if not fits or any(a.size > MOST_ELEMENTS for a in found) or not all(map(_is_tame, found)):
            raise ValueError("large, or not finite")
        self.nodes.append(node)
        self.values.update(zip(names, found, strict=True))
        return names

    def run(self, nodes: Sequence[NodeProto], wanted: Sequence[str]) -> list[Array]:
        """What operators give for the values so far."""
        read = [name for name in _names_read(nodes) if name in self.values]
        inputs = [_info(name, self.values[name]) for name in read]
        model = self.model(helper.make_graph(list(nodes), "g", inputs, [onnx.ValueInfoProto(name=n) for n in wanted]))
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = ReferenceEvaluator(model).run(list(wanted), {name: self.values[name] for name in read})
        return [np.asarray(a) for a in found]

    def model(self, graph: GraphProto) -> ModelProto:
        """A model of a graph, with the functions that there are."""
        opsets = [helper.make_opsetid("", self.opset), *([helper.make_opsetid("mine", 1)] if self.functions else [])]
        return helper.make_model(graph, opset_imports=opsets, functions=self.functions, ir_version=10)

    def inner(self, **given: Array) -> Builder:
        """What builds a graph inside of an operator."""
        return Builder(self.draw, self.opset, {**self.values, **given}, taken=self.taken, depth=self.depth + 1)

    def graph(self, inputs: dict[str, Array], outputs: Sequence[str]) -> GraphProto:
        """The graph of what was built."""
        given = {name: self.values[name] for name in outputs}
        infos = [[_info(name, array) for name, array in part.items()] for part in (inputs, given)]
        constants = [numpy_helper.from_array(array, name) for name, array in self.held.items()]
        return helper.make_graph(self.nodes, self.name(), *infos, constants)


def _is_tame(array: Array) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all() and np.abs(array).max(initial=0) < LARGEST)


def _info(name: str, array: Array) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _names_read(nodes: Sequence[NodeProto]) -> list[str]:
    read = {name for node in nodes for name in node.input}
    for node in nodes:
        read |= {n for a in node.attribute if a.HasField("g") for n in _names_read(a.g.node)}
    return sorted(read - {""})


def _broadcast(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(one, other) is not None
    except ValueError:
        return False


Rule = Callable[[Builder], object]

_UNARY = {
    "Abs Neg Sin Cos Tanh Sigmoid Relu Softplus Softsign Elu Selu LeakyRelu HardSigmoid Identity Atan ThresholdedRelu "
    "Exp Floor Ceil Reciprocal Sqrt Log Tan Asin Acos": 7,
    "Erf Sign Sinh Cosh Asinh Atanh Shrink": 9, "Round": 11, "Celu": 12, "HardSwish": 14, "Mish": 18, "Gelu": 20,
}  # fmt: skip
_EDGED = ["Sqrt", "Log", "Asin", "Acos", "Atanh"]
"""Functions whose slope is infinite at the end of where they are defined; their operands lie within, as those of
Sigmoid alone do not, which is 0 or 1 in float32 for large numbers."""
_BINARY = {"Add Sub Mul Div Pow": 7, "Max Min Mean Sum": 8}
_COMPARED = {"Greater Less": 9, "Equal": 11, "GreaterOrEqual LessOrEqual": 12}
_REDUCED = [f"Reduce{kind}" for kind in ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSumExp", "SumSquare"]]


def _one_of(b: Builder, kinds: dict[str, int]) -> str:
    return str(b.draw.choice([kind for text, since in kinds.items() if since <= b.opset for kind in text.split()]))


def _unary(b: Builder) -> object:
    kind, x = _one_of(b, _UNARY), b.any()
    if kind in _EDGED:
        (x,) = b.add("Sigmoid", b.add("Tanh", [x]))
    return b.add(kind, [x])


def _binary(b: Builder) -> object:
    x = b.any()
    operands = [x, b.like(x)]
    b.draw.shuffle(operands)
    kind = _one_of(b, _BINARY)
    if kind == "Pow":  # whose slope at a base of 0 is infinite
        operands[:1] = b.add("Exp", operands[:1])
    return b.add(kind, operands)


def _compare(b: Builder) -> object:
    x = b.any()
    return b.add(_one_of(b, _COMPARED), [x, b.like(x)])


def _select(b: Builder) -> object:
    x = b.any()
    (flags,) = b.add("Greater", [x, b.like(x)])
    return b.add("Where", [flags, x, b.like(x)])


def _reduce(b: Builder) -> object:
    x, kind = b.any(), str(b.draw.choice(_REDUCED))
    axes, keepdims = b.axes(x), int(b.draw.integers(2))
    if not b.values[x].size and kind != "ReduceSum":  # others of nothing end the process of ONNX Runtime 1.31
        raise LookupError("elements")
    if b.opset < (13 if kind == "ReduceSum" else 18):
        return b.add(kind, [x], keepdims=keepdims, **({"axes": axes} if axes else {}))
    noop = {"noop_with_empty_axes": 1} if b.flag(0.2) else {}
    return b.add(kind, [x, b.integers(*axes)] if axes or b.flag() else [x], keepdims=keepdims, **noop)


def _softmax(b: Builder) -> object:
    x = b.any(ranks=(1, 2, 3, 4))
    axis = b.axis(x) if b.opset >= 11 else int(b.draw.integers(b.values[x].ndim))
    return b.add(str(b.draw.choice(["Softmax", "LogSoftmax", "Softmax", "Hardmax"])), [x], axis=axis)


def _reshape(b: Builder) -> object:
    x = b.any()
    shape = list(b.values[x].shape)
    if b.flag() and len(shape) > 1:
        shape = [int(np.prod(shape[:-1])), shape[-1]]
    if shape and b.flag():
        shape[int(b.draw.integers(len(shape)))] = -1
    return b.add("Reshape", [x, b.integers(*shape)])


def _transpose(b: Builder) -> object:
    x = b.any()
    perm = [int(i) for i in b.draw.permutation(b.values[x].ndim)]
    return b.add("Transpose", [x], **({"perm": perm} if perm and b.flag(0.8) else {}))


def _squeeze(b: Builder) -> object:
    x = b.any()
    if b.flag():
        rank = b.values[x].ndim + 1
        kind, axes = "Unsqueeze", [int(b.draw.integers(-rank if b.opset >= 11 else 0, rank))]
    else:
        kind, axes = "Squeeze", [i for i, n in enumerate(b.values[x].shape) if n == 1 and b.flag(0.7)]
    if b.opset < 13:
        return b.add(kind, [x], **({"axes": axes} if axes else {}))
    return b.add(kind, [x, b.integers(*axes)] if axes else [x])


def _widen(b: Builder) -> object:
    x = b.any(ranks=(0, 1, 2, 3))
    shape = b.values[x].shape
    if b.flag():
        wide = [int(b.draw.choice(SIZES)) if n == 1 else n for n in shape]
        wide = [2] * int(b.draw.integers(2)) + [1 if b.flag(0.2) else n for n in wide]
        return b.add("Expand", [x, b.integers(*wide)])
    return b.add("Tile", [x, b.integers(*(int(n) for n in b.draw.integers(0, 3, len(shape))))])


def _join(b: Builder) -> object:
    x = b.any(ranks=(1, 2, 3, 4))
    axis = b.axis(x) if b.opset >= 11 else int(b.draw.integers(b.values[x].ndim))
    shape = list(b.values[x].shape)
    shape[axis] = int(b.draw.choice(SIZES))
    parts = [x, b.weight(*shape), x][: int(b.draw.integers(1, 4))]
    return b.add("Concat", parts, axis=axis)


def _split(b: Builder) -> object:
    x = b.any(ranks=(1, 2, 3))
    axis = b.axis(x) if b.opset >= 11 else int(b.draw.integers(b.values[x].ndim))
    first = int(b.draw.integers(b.values[x].shape[axis] + 1))
    sizes = [first, b.values[x].shape[axis] - first]
    if b.opset < 13:
        return b.add("Split", [x], 2, axis=axis, split=sizes)
    return b.add("Split", [x, b.integers(*sizes)], 2, axis=axis)


def _slice(b: Builder) -> object:
    x = b.any(ranks=(1, 2, 3, 4))
    axes = b.axes(x)
    starts, ends = ([int(n) for n in b.draw.integers(-4, 5, len(axes))] for _ in range(2))
    ends = [int(b.draw.choice([n, 2**31 - 1, 9])) for n in ends]
    if b.opset < 10:
        return b.add("Slice", [x], axes=axes, starts=starts, ends=ends)
    steps = [int(n) for n in b.draw.choice([1, 1, 2, -1, -2], len(axes))]
    ends = [-(2**31) if step < 0 and b.flag() else end for step, end in zip(steps, ends, strict=True)]
    more = [b.integers(*axes), b.integers(*steps)]
    return b.add("Slice", [x, b.integers(*starts), b.integers(*ends), *more])


def _gather(b: Builder) -> object:
    x = b.any(ranks=(1, 2, 3))
    axis = b.axis(x) if b.opset >= 11 else int(b.draw.integers(b.values[x].ndim))
    size = b.values[x].shape[axis]
    low = -size if b.opset >= 11 else 0
    if b.opset >= 11 and b.flag(0.4):
        places = b.draw.integers(low, size, b.values[x].shape)
        return b.add("GatherElements", [x, b.hold(places)], axis=axis)
    shape = tuple(int(n) for n in b.draw.choice([1, 2, 3], int(b.draw.integers(3))))
    return b.add("Gather", [x, b.hold(np.asarray(b.draw.integers(low, size, shape), np.int64))], axis=axis)


def _scatter(b: Builder) -> object:
    x = b.any(ranks=(1, 2, 3))
    shape = b.values[x].shape
    if b.opset < 11 or 0 in shape:
        raise LookupError("Scatter")
    if b.flag():
        axis = b.axis(x)
        places = np.argsort(b.draw.random(shape), axis).astype(np.int64)
        reduction = {"reduction": str(b.draw.choice(["add", "mul"]))} if b.opset >= 16 and b.flag() else {}
        return b.add("ScatterElements", [x, b.hold(places), b.weight(*shape)], axis=axis, **reduction)
    rows = b.draw.permutation(shape[0])[: int(b.draw.integers(1, shape[0] + 1))].reshape(-1, 1).astype(np.int64)
    return b.add("ScatterND", [x, b.hold(rows), b.weight(len(rows), *shape[1:])])


def _pad(b: Builder) -> object:
    x = b.any(ranks=(1, 2, 3, 4))
    pads = [int(n) for n in b.draw.choice([0, 0, 1, 2, -1], 2 * b.values[x].ndim)]
    mode = str(b.draw.choice(["constant", "constant", "reflect", "edge"]))
    if mode == "reflect":  # which has as many elements as there are beside the first, or the last
        pads = [min(n, max(size - 1, 0)) for n, size in zip(pads, 2 * b.values[x].shape, strict=True)]
    if b.opset < 11:
        return b.add("Pad", [x], pads=[max(n, 0) for n in pads], mode=mode, value=0.5)
    more = [b.hold(np.float32(b.draw.choice([0, 0.5])))] if mode == "constant" and b.flag() else []
    return b.add("Pad", [x, b.integers(*pads), *more], mode=mode)


def _matmul(b: Builder) -> object:
    x = b.any(ranks=(1, 2, 3))
    inner = b.values[x].shape[-1]
    w = b.weight(inner, int(b.draw.choice(SIZES)))
    if b.values[x].ndim == 2 and b.flag():
        columns = b.values[w].shape[1]
        more = [b.weight(*([columns] if b.flag() else [1]))] if b.opset < 11 or b.flag() else []
        alpha, beta = (float(n) for n in b.draw.choice([1.0, 0.5], 2))
        return b.add("Gemm", [x, w, *more], alpha=alpha, beta=beta)
    if b.opset >= 12 and b.values[x].ndim == 2 and b.flag(0.4):
        return b.add("Einsum", [x, w], equation=str(b.draw.choice(["ij,jk->ik", "ij,jk->ki", "ij,jk", "ij,jk->i"])))
    return b.add("MatMul", [x, w])


def _image(b: Builder) -> str:
    """A value of (N, C, ...) with elements."""
    found = [n for n, a in b.values.items() if a.ndim in (3, 4) and a.size and a.dtype.kind == "f" and n not in b.held]
    if found and b.flag(0.8):
        return str(b.draw.choice(found))
    x = b.any()
    if not 2 <= b.values[x].size <= 64:
        raise LookupError("images")
    half = b.values[x].size // 2 if b.values[x].size % 2 == 0 else b.values[x].size
    return b.add("Reshape", [x, b.integers(1, b.values[x].size // half, half, 1)])[0]


def _convolve(b: Builder) -> object:
    x = _image(b)
    channels, *sizes = b.values[x].shape[1:]
    kernel = [int(b.draw.integers(1, 3)) for _ in sizes]
    groups = channels if b.flag(0.3) else 1
    where: dict[str, Any] = {"kernel_shape": kernel, "strides": [int(b.draw.integers(1, 3)) for _ in sizes]}
    where["pads"] = [int(b.draw.integers(2)) for _ in range(2 * len(sizes))]
    if b.flag(0.5):
        w = b.weight(groups * 2, channels // groups, *kernel)
        return b.add("Conv", [x, w, *([b.weight(groups * 2)] if b.flag() else [])], group=groups, **where)
    if b.flag(0.3):
        return b.add("ConvTranspose", [x, b.weight(channels, 2, *kernel)], **where)
    if b.flag():  # of which a window that lies in the padding has no maximum, and one larger than the image no place
        where["kernel_shape"] = kernel = [min(k, size) for k, size in zip(kernel, sizes, strict=True)]
        where["pads"] = [min(n, k - 1) for n, k in zip(where["pads"], 2 * kernel, strict=True)]
        return b.add("MaxPool", [x], **where)
    return b.add("AveragePool", [x], count_include_pad=int(b.draw.integers(2)), **where)


def _normalize(b: Builder) -> object:
    if b.opset >= 17 and b.flag():
        x = b.any(ranks=(1, 2, 3))
        w = [b.weight(b.values[x].shape[-1]) for _ in range(2)]
        return b.add("LayerNormalization", [x, *w[: 1 + b.flag()]], axis=-1)
    x = _image(b)
    channels = b.values[x].shape[1]
    scale, bias, mean = (b.weight(channels) for _ in range(3))
    if b.flag(0.3):
        return b.add("InstanceNormalization", [x, scale, bias])
    if b.flag(0.3):
        return b.add("GlobalAveragePool", [x])  # the reference has another rank for GlobalMaxPool
    statistics = mean, b.weight(channels, low=0.5, high=2)
    made = b.add("BatchNormalization", [x, scale, bias, *statistics])
    for name in statistics:  # which nothing else reads: where it does, graphls has a state of its own for them
        del b.values[name]
    return made


def _resize(b: Builder) -> object:
    x = _image(b)
    if b.opset < 13 or b.values[x].ndim != 4:
        raise LookupError("Resize")
    scales = np.array([1, 1, *b.draw.choice([0.5, 1, 2, 1.5], 2)], np.float32)
    modes = {"mode": str(b.draw.choice(["nearest", "linear", "cubic"]))}
    modes["coordinate_transformation_mode"] = str(b.draw.choice(["half_pixel", "asymmetric", "align_corners"]))
    return b.add("Resize", [x, "", b.hold(scales)], **modes)


def _order(b: Builder) -> object:
    x = b.any(ranks=(1, 2, 3))
    axis, size = b.axis(x) if b.opset >= 11 else 0, b.values[x].shape[0]
    if b.flag(0.4) and b.opset >= 11:
        size = b.values[x].shape[axis]
        return b.add("TopK", [x, b.integers(int(b.draw.integers(1, size + 1)))], 2, axis=axis, largest=int(b.flag()))
    if b.flag(0.4) and b.opset >= 11:
        more = {"exclusive": int(b.flag()), "reverse": int(b.flag())}
        return b.add("CumSum", [x, b.hold(np.int64(axis))], **more)
    return b.add(str(b.draw.choice(["ArgMax", "ArgMin"])), [x], axis=axis, keepdims=int(b.flag()))


def _convert(b: Builder) -> object:
    kind = str(b.draw.choice(["i", "b", "f"]))
    x = b.any(kind)
    if kind == "f":
        if b.flag(0.4) and b.opset >= 14:
            return b.add("Trilu", [x], upper=int(b.flag()))
        low, high = (b.hold(np.float32(n)) for n in (-0.7, 0.9))
        return b.add("Clip", [x, low if b.flag() else "", high]) if b.opset >= 11 else b.add("Clip", [x], max=0.9)
    return b.add("Cast", [x], to=TensorProto.FLOAT)


def _flatten(b: Builder) -> object:
    x = b.any(ranks=(1, 2, 3, 4))
    return b.add("Flatten", [x], axis=int(b.draw.integers(b.values[x].ndim + 1)))


def _of_shape(b: Builder) -> object:
    (shape,) = b.add("Shape", [b.any()])
    if b.flag() and b.opset >= 9:
        value = numpy_helper.from_array(np.array([0.5], np.float32))
        return b.add("ConstantOfShape", [shape], value=value)
    return b.add("Size", [b.any()])


def _recurrent(b: Builder) -> object:
    x = b.any(ranks=(3,))
    _, batch, size = b.values[x].shape
    if not b.values[x].size:
        raise LookupError("sequences")
    kind, gates = [("RNN", 1), ("GRU", 3), ("LSTM", 4)][int(b.draw.integers(3))]
    hidden = int(b.draw.integers(1, 3))
    inputs = [x, b.weight(1, gates * hidden, size), b.weight(1, gates * hidden, hidden)]
    inputs += [b.weight(1, 2 * gates * hidden) if b.flag() else "", "", b.weight(1, batch, hidden) if b.flag() else ""]
    while not inputs[-1]:
        inputs.pop()
    more = {"linear_before_reset": 1} if kind == "GRU" and b.flag() else {}
    return b.add(kind, inputs, 2, hidden_size=hidden, **more)


def _body(b: Builder, x: str) -> str:
    """A few operators inside of another one, of which the last gives what has the shape of a value."""
    y = x
    for _ in range(int(b.draw.integers(1, 4))):
        kind = str(b.draw.choice(["Tanh", "Sigmoid", "Sin", "Add", "Mul"]))
        (y,) = b.add(kind, [y, b.hold(np.float32(b.draw.uniform(-1, 1)))] if kind in ("Add", "Mul") else [y])
    own = [n for n, a in b.values.items() if a.dtype == np.float32 and _broadcast(a.shape, b.values[x].shape)]
    other = str(b.draw.choice(own))
    if np.broadcast_shapes(b.values[other].shape, b.values[x].shape) == b.values[x].shape:
        (y,) = b.add("Mul", [y, other])
    return b.add("Tanh", [y])[0]


def _condition(b: Builder) -> str:
    x = b.any()
    (total,) = b.add("ReduceSum", [x], keepdims=0)
    return b.add("Less", [total, b.hold(np.float32(b.draw.uniform(-2, 2)))])[0]


def _if(b: Builder) -> object:
    if b.opset < 11 or b.depth > 1:
        raise LookupError("If")
    x, flag = b.any(), _condition(b) if b.flag(0.8) else b.hold(np.bool_(b.flag()))
    bodies = []
    for _ in range(2):
        inner = b.inner()
        bodies.append(inner.graph({}, [_body(inner, x)]))
    return b.add("If", [flag], then_branch=bodies[0], else_branch=bodies[1])


def _loop(b: Builder) -> object:
    if b.opset < 11 or b.depth > 1:
        raise LookupError("Loop")
    x = b.any()
    i, condition, v = (b.name() for _ in range(3))
    given = {i: np.asarray(np.int64(0)), condition: np.asarray(np.bool_(True)), v: b.values[x]}
    inner = b.inner(**given)
    y = _body(inner, v)
    if b.flag(0.3):
        (total,) = inner.add("ReduceSum", [y], keepdims=0)
        (goes_on,) = inner.add("Less", [total, inner.hold(np.float32(b.draw.uniform(-1, 3)))])
    else:
        (goes_on,) = inner.add("Identity", [condition])
    outputs = [goes_on, y]
    collects = b.flag(0.4)
    if collects:
        outputs += inner.add("Identity", [y])
    most = b.hold(np.asarray(np.int64(b.draw.choice([0, 1, 3, 9])) if not collects else np.int64(2)))
    return b.add("Loop", [most, "", x], 1 + collects, body=inner.graph(given, outputs))


def _scan(b: Builder) -> object:
    if b.opset < 11 or b.depth > 1:
        raise LookupError("Scan")
    x = b.any(ranks=(1, 2, 3))
    if not b.values[x].shape[0]:
        raise LookupError("rows")
    state, row = b.name(), b.name()
    given = {state: np.zeros(b.values[x].shape[1:], np.float32), row: b.values[x][0]}
    inner = b.inner(**given)
    (total,) = inner.add("Add", [state, row])
    after = inner.add("Tanh", [total])[0]
    graph = inner.graph(given, [after, _body(inner, row)])
    directions = {"scan_input_directions": [1]} if b.flag(0.3) else {}
    return b.add("Scan", [b.weight(*b.values[x].shape[1:]), x], 2, num_scan_inputs=1, body=graph, **directions)


def _function(b: Builder) -> object:
    if b.opset < 13 or b.depth:
        raise LookupError("functions")
    if not b.functions or b.flag(0.3):
        kinds = [str(b.draw.choice(["Tanh", "Sigmoid", "Sin", "Neg"])) for _ in range(2)]
        nodes = [helper.make_node(kinds[0], ["a"], ["c"]), helper.make_node("Mul", ["c", "b"], ["d"])]
        nodes.append(helper.make_node(kinds[1], ["d"], ["y"]))
        name = f"F{len(b.functions)}"
        b.functions.append(
            helper.make_function("mine", name, ["a", "b"], ["y"], nodes, [helper.make_opsetid("", b.opset)])
        )
    x = b.any()
    function = b.functions[int(b.draw.integers(len(b.functions)))]
    return b.add(function.name, [x, b.like(x)], domain="mine")


RULES: tuple[Rule, ...] = (
    _unary, _unary, _unary, _binary, _binary, _binary, _compare, _select, _reduce, _reduce, _softmax, _reshape,
    _transpose, _squeeze, _widen, _join, _split, _slice, _gather, _scatter, _pad, _matmul, _matmul, _convolve,
    _convolve, _normalize, _resize, _order, _convert, _flatten, _of_shape, _recurrent, _if, _loop, _scan, _function,
)  # fmt: skip
FAILURES = (Exception,)
"""What the reference evaluator raises for operators that do not fit: of all kinds."""


def random_model(seed: int) -> Model:
    """The model of a seed: up to 12 operators, whose unread results are its outputs."""
    draw = np.random.default_rng(seed)
    b = Builder(draw, int(draw.choice(OPSETS)))
    inputs = {}
    for _ in range(int(draw.integers(1, 4))):
        shape = tuple(int(n) for n in draw.choice(SIZES, int(draw.integers(0, 5))))
        inputs[b.name()] = draw.uniform(-1.5, 1.5, shape).astype(np.float32)
    b.values.update(inputs)
    wanted = int(draw.integers(1, 13))
    for _ in range(6 * wanted):
        before = len(b.nodes)
        kept = dict(b.values), dict(b.held), list(b.functions)
        try:
            RULES[int(draw.integers(len(RULES)))](b)
        except FAILURES:
            del b.nodes[before:]
            b.values, b.held, b.functions = kept
        if len(b.nodes) >= wanted:
            break
    made = {name for node in b.nodes if node.op_type != "Constant" for name in node.output}
    outputs = sorted(made - set(_names_read(b.nodes)))
    if not outputs:
        outputs = b.add("Identity", [next(iter(inputs))])
    return Model(b.model(b.graph(inputs, outputs)), inputs)
