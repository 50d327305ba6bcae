"""Elementwise nodes as binary kernels: a chain of nodes is one kernel with operations behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from graphls.ir.graph import Node, Value
from graphls.runtime.onednn.binding import DATA_TYPES, Attributes, Descriptor, Primitive, Role
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program import Group, Program, View
from graphls.runtime.onednn.registry import CONDITIONS, RULES

ADD, MUL, MAX, MIN, DIV, SUB, GREATER_EQUAL, GREATER, LESS_EQUAL, LESS = range(0x1FFF0, 0x1FFFA)
RELU, TANH, ELU, SQUARE, ABS, SQRT, LINEAR, SOFT_RELU, HARD_SIGMOID, LOGISTIC, EXP = range(0x20, 0x2B)
POW = 0x30

MOST = 16
"""The most nodes of a chain; oneDNN takes 32 operations behind a kernel, and a node may need two."""

FUNCTIONS: Mapping[str, tuple[int, float, float]] = {
    "neg": (LINEAR, -1.0, 0.0), "abs": (ABS, 0.0, 0.0), "square": (SQUARE, 0.0, 0.0), "sqrt": (SQRT, 0.0, 0.0),
    "tanh": (TANH, 0.0, 0.0), "sigmoid": (LOGISTIC, 0.0, 0.0), "reciprocal": (POW, 1.0, -1.0),
}  # fmt: skip
"""Functions of one operand: the algorithm of oneDNN and its two numbers."""

COMPOSED: Mapping[str, tuple[str, ...]] = {"rsqrt": ("sqrt", "reciprocal")}
"""Functions that are made of several; the power -0.5 of -inf would be 0."""

NAN_AS_NUMBER: Mapping[str, int] = {"relu": RELU, "exp": EXP}
"""Algorithms that make a number of nan, though of no number one that is below it."""

BINARY: Mapping[str, int] = {"add": ADD, "sub": SUB, "mul": MUL, "div": DIV}

NAMES = (*FUNCTIONS, *COMPOSED, *NAN_AS_NUMBER, *BINARY, "relu_gradient")


def takes(node: Node) -> bool:
    """Whether a kernel broadcasts the operands of a node: only the second one, either one but of a quotient."""
    shape, name = node.output.type.shape, node.primitive.name
    if name == "relu_gradient":
        return node.inputs[1].type.shape == shape and _is_read(node.inputs[0], shape)
    if node.inputs[0].type.shape == shape or name in ("add", "mul"):
        return shape in (v.type.shape for v in node.inputs)
    return name == "sub" and node.inputs[1].type.shape == shape and _is_read(node.inputs[0], shape)


def joins(group: Group, node: Node) -> bool:
    """Whether a node can be an operation behind the kernel of a group whose result it reads."""
    name, value, head = node.primitive.name, group.outputs[0], group.nodes[0].primitive.name
    shape = node.output.type.shape
    if head not in NAMES or len(group.nodes) >= MOST or value.type.shape != shape:
        return False
    if name in FUNCTIONS or name in COMPOSED:
        return True
    is_fit = name in BINARY and (name != "div" or node.inputs[0] is value)
    return is_fit and all(_is_read(v, shape) for v in node.inputs)


def _is_read(value: Value, shape: Sequence[int]) -> bool:
    """Whether an operation behind a kernel reads an operand as it should.

    oneDNN 3.2 takes channels for rows where each has one element: a sum with 1 x 4 x 1 in a result of 3 x 4 x 1.
    """
    sizes = (*(1,) * (len(shape) - value.type.rank), *value.type.shape)
    is_by_channel = len(shape) > 2 and sizes[1] > 1 and value.type.size == sizes[1] and shape[0] > 1
    return not (is_by_channel and prod(shape[2:]) == 1)


def elementwise(program: Program, nodes: Sequence[Node]) -> None:
    """The rule of a chain: a kernel for its first node, and an operation behind it for each of the others.

    Where oneDNN has only its slow reference for that, such as for a sum by rows behind a product of blocks, the last
    node is a kernel of its own.
    """
    chain = _Chain(program, nodes[0])
    value = nodes[0].output
    for node in nodes[1:]:
        chain.append(node, value)
        value = node.output
    kernel = chain.kernel()
    if kernel.is_reference and len(nodes) > 1:
        elementwise(program, nodes[:-1])
        elementwise(program, nodes[-1:])
    else:
        chain.run(kernel, value)


RULES.update(dict.fromkeys(NAMES, elementwise))
CONDITIONS.update(dict.fromkeys(NAMES, takes))


class _Operand(NamedTuple):
    """An operand of a chain: its sizes, with as many axes as the result, and where it lies; in row-major order if it
    is broadcast, else in the layout of the first operand."""

    sizes: tuple[int, ...]
    view: View


class _Operation(NamedTuple):
    """A function of the result so far, with its two numbers, or what is done with it and an operand."""

    algorithm: int
    numbers: tuple[float, float] = (0.0, 0.0)
    operand: _Operand | None = None


class _Chain:
    """A binary kernel on `first` and `second`, in the layout of the first, and the operations behind it."""

    first: View
    second: _Operand
    algorithm: int

    def __init__(self, program: Program, node: Node) -> None:
        self.program, self.shape = program, node.output.type.shape or (1,)
        self.dtype = DATA_TYPES[node.output.type.dtype]
        self.operations: list[_Operation] = []
        name = node.primitive.name
        if name in BINARY:
            self._begin_binary(node)
        elif name == "relu_gradient":
            # (-y < 0) * g, as oneDNN says of nan that it is greater than 0.
            self._begin(node.inputs[1], -1.0)
            self.operations.append(_Operation(LESS, operand=self._number(0.0)))
            self._multiply(node.inputs[0])
        else:
            self._begin(node.inputs[0], 1.0)
            if name not in NAN_AS_NUMBER:
                self._apply(name)
            else:  # max(f(x), x), where the maximum is its second operand if one is nan; no number x is above f(x)
                self.operations.append(_Operation(NAN_AS_NUMBER[name]))
                self._operate(MAX, node.inputs[0])

    def _begin(self, value: Value, factor: float) -> None:
        self.first, self.algorithm, self.second = self.program.read(value), MUL, self._number(factor)

    def _begin_binary(self, node: Node) -> None:
        x, y = node.inputs
        name, shape = node.primitive.name, node.output.type.shape
        if x.type.shape != shape and name == "sub":  # (-y) + x is the same number
            self._begin(y, -1.0)
            self._operate(ADD, x)
            return
        x, y = (x, y) if x.type.shape == shape else (y, x)
        self.first, self.algorithm = self.program.read(x), BINARY[name]
        self.second = self._operand(y)

    def _number(self, number: float) -> _Operand:
        rank = len(self.shape)
        return _Operand((1,) * rank, self.program.number(number, rank))

    def _operand(self, value: Value) -> _Operand:
        sizes = (*(1,) * (len(self.shape) - value.type.rank), *value.type.shape)
        if sizes != self.shape:
            return _Operand(sizes, self.program.plain(value))
        if value.type.rank == len(self.shape):
            return _Operand(sizes, self.program.read(value, self.first.layout))
        wide = self.program.reshaped(value, Descriptor.plain(sizes, self.dtype))
        return _Operand(sizes, self.program.converted(wide, self.first.layout))

    def _multiply(self, value: Value) -> None:
        """Multiply by an operand; one that is broadcast is the second operand of a kernel of its own, which is fast."""
        operand = self._operand(value)
        if operand.sizes == self.shape:
            self.operations.append(_Operation(MUL, operand=operand))
            return
        result = self.program.scratch(self.first.layout)
        self._call(self.kernel(), result)
        self.first, self.algorithm, self.second, self.operations = result, MUL, operand, []

    def append(self, node: Node, value: Value) -> None:
        """Append an operation on the result so far, which is a value."""
        name = node.primitive.name
        if name not in BINARY:
            self._apply(name)
            return
        is_first = node.inputs[0] is value
        other = node.inputs[1 if is_first else 0]
        if name == "sub" and not is_first:
            self._apply("neg")
            self._operate(ADD, other)
        else:
            self._operate(BINARY[name], other)

    def _apply(self, name: str) -> None:
        for part in COMPOSED.get(name, (name,)):
            algorithm, *numbers = FUNCTIONS[part]
            self.operations.append(_Operation(algorithm, (numbers[0], numbers[1])))

    def _operate(self, algorithm: int, value: Value) -> None:
        self.operations.append(_Operation(algorithm, operand=self._operand(value)))

    def _operands(self) -> list[_Operand]:
        return [self.second, *(o.operand for o in self.operations if o.operand is not None)]

    def kernel(self) -> Primitive:
        """The kernel of the chain."""
        self._layouts = _Layouts(
            self.first.layout, self.shape, self.dtype, [operand.sizes for operand in self._operands()]
        )
        attributes = Attributes()
        self._roles: list[int] = [Role.SOURCE_1]
        for operation in self.operations:
            if operation.operand is None:
                attributes.function(operation.algorithm, *operation.numbers)
            else:
                wished = self._layouts.wished(operation.operand.sizes)
                self._roles.append(attributes.binary(operation.algorithm, wished))
        first = self._layouts.first
        return Primitive("elementwise", "binary", library().engine, self.algorithm, first,
                         self._layouts.wished(self.second.sizes), first, attributes)  # fmt: skip

    def run(self, kernel: Primitive, value: Value) -> None:
        """Append the call of the kernel, whose result is a value."""
        self._call(kernel, self.program.written(value, self.first.layout))

    def _call(self, kernel: Primitive, result: View) -> None:
        layouts, program = self._layouts, self.program
        views: dict[int, View] = {Role.SOURCE: View(self.first.buffer, layouts.first)}
        for role, operand in zip(self._roles, self._operands(), strict=True):
            buffer = operand.view.buffer
            if operand.sizes == self.shape:
                views[role] = View(buffer, layouts.first)
            else:
                views[role] = program.converted(View(buffer, layouts.plain(operand.sizes)), kernel.layout_of(role))
        program.run(kernel, {**views, Role.RESULT: View(result.buffer, layouts.first)})


class _Layouts:
    """The layouts of the operands of a kernel, over as few axes as in row-major order say the same.

    Neighbouring axes along which all operands are whole, or broadcast, are one: 8 x 8 x 128 x 128 and 8 x 8 x 128 x 1
    are 8192 x 128 and 8192 x 1, for which there is a fast kernel. Axes of size 1 are none.
    """

    def __init__(
        self, first: Descriptor, shape: Sequence[int], dtype: int, operands: Sequence[Sequence[int]]
    ) -> None:  # fmt: skip
        self.shape, self.dtype = tuple(shape), dtype
        self.groups = [[axis] for axis in range(len(shape))]
        if first.is_plain:
            self.groups = _merged(shape, operands)
        self.first = self.plain(shape) if first.is_plain else first
        self.chooses = not first.is_plain

    def plain(self, sizes: Sequence[int]) -> Descriptor:
        """Row-major order over the axes that are left."""
        return Descriptor.plain([prod(sizes[axis] for axis in group) for group in self.groups], self.dtype)

    def wished(self, sizes: Sequence[int]) -> Descriptor:
        """The layout to ask with: of a broadcast operand of blocks the kernel chooses it."""
        if tuple(sizes) == self.shape:
            return self.first
        plain = self.plain(sizes)
        return Descriptor.any(plain.shape, self.dtype) if self.chooses else plain


def _merged(shape: Sequence[int], operands: Sequence[Sequence[int]]) -> list[list[int]]:
    """Axes in groups along which every operand is whole, or every one of them has size 1."""
    groups: list[list[int]] = []
    last: tuple[bool, ...] | None = None
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        are_whole = tuple(sizes[axis] == size for sizes in operands)
        if are_whole == last:
            groups[-1].append(axis)
        else:
            groups.append([axis])
        last = are_whole
    return groups or [[0]]
