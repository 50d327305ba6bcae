"""The Emitter, with which ONNX rules append operators to the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NoReturn, Protocol, TypeAlias

from graphls.base.errors import GraphTypeError
from graphls.ir.graph import Value
from graphls.ir.types import DType, Type, Typed

Attribute: TypeAlias = "bool | int | float | str | Sequence[int]"


class Operand(Typed, str):
    """The name of an operand of a rule for ONNX, with the type in which it is computed.

    Examples:
        >>> from graphls.primitives import Operand, f32
        >>> x = Operand("x", f32(2, 3))
        >>> x, x.rank, x.type.shape
        ('x', 2, (2, 3))
    """

    def __new__(cls, name: str, type: Type) -> Operand:
        operand = super().__new__(cls, name)
        operand.type = type
        return operand

    def _refuse(self, other: object) -> NoReturn:
        text = f"The operand {str(self)!r} of an ONNX rule is the name of a tensor, without operators of Python"
        raise GraphTypeError(f"{text}; call operators of ONNX, such as e.Add(x, y).")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __truediv__ = __rtruediv__ = __matmul__ = __rmatmul__ = __pow__ = __rpow__ = _refuse


class Append(Protocol):
    """Appends an operator to the model and returns the name of its result."""

    def __call__(self, *inputs: str, **attributes: Attribute) -> str:
        """The inputs are names of tensors, "" for an omitted one."""


class Operator:
    """An operator of ONNX as a method of an Emitter: `e.MatMul(a, b)`, `e.Softmax(x, axis=-1)`."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, e: Emitter, owner: type) -> Append:
        return partial(_append, e, self.name)


def _append(e: Emitter, kind: str, *inputs: str, **attributes: Attribute) -> str:
    return e.operator(kind, inputs, attributes)


class Emitter(Protocol):
    """The interface of the lowering to ONNX rules, which refer to tensors by name.

    Operators that the rules use are methods; any other is `operator("Celu", [x], {"alpha": 0.5})`, and one with
    several results is `results`. The operands of your rules are names with `type`, `dtype`, `shape` and `rank`.
    `in_types` and `out_types` are the types in which the operands and results of the current node are computed.
    `is_gpu` is true in a model for a GPU.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls.primitives import Emitter, FloatElementwise, f32, sample
        >>> from graphls.tensors import apply
        >>> class Fading(FloatElementwise):
        ...     "x / (1 + x * x), elementwise; floats."
        ...
        ...     samples = (sample(f32(2, 3)),)
        ...
        ...     def numpy(self, x):
        ...         return x / (1 + x * x)
        ...
        ...     def onnx(self, e: Emitter, x: str) -> str:
        ...         return e.Div(x, e.Add(e.Mul(x, x), e.const(1, e.in_types[0].dtype)))
        >>> x = graphls.tensor([1.0, -2.0])
        >>> step = graphls.compile(lambda x: apply("fading", x), x)
        >>> step(x), [node.op_type for node in step.onnx.graph.node]
        (Tensor(shape=[2], dtype=Float32, value=[ 0.5 -0.4]), ['Mul', 'Add', 'Div'])
    """

    in_types: tuple[Type, ...]
    out_types: tuple[Type, ...]

    Abs: ClassVar[Operator] = Operator()
    Add: ClassVar[Operator] = Operator()
    And: ClassVar[Operator] = Operator()
    ArgMax: ClassVar[Operator] = Operator()
    Atan: ClassVar[Operator] = Operator()
    AveragePool: ClassVar[Operator] = Operator()
    Ceil: ClassVar[Operator] = Operator()
    Concat: ClassVar[Operator] = Operator()
    Conv: ClassVar[Operator] = Operator()
    ConvTranspose: ClassVar[Operator] = Operator()
    Cos: ClassVar[Operator] = Operator()
    CumSum: ClassVar[Operator] = Operator()
    Div: ClassVar[Operator] = Operator()
    Einsum: ClassVar[Operator] = Operator()
    Equal: ClassVar[Operator] = Operator()
    Erf: ClassVar[Operator] = Operator()
    Exp: ClassVar[Operator] = Operator()
    Expand: ClassVar[Operator] = Operator()
    Floor: ClassVar[Operator] = Operator()
    Gather: ClassVar[Operator] = Operator()
    GatherElements: ClassVar[Operator] = Operator()
    Gemm: ClassVar[Operator] = Operator()
    Greater: ClassVar[Operator] = Operator()
    GreaterOrEqual: ClassVar[Operator] = Operator()
    Identity: ClassVar[Operator] = Operator()
    IsNaN: ClassVar[Operator] = Operator()
    Less: ClassVar[Operator] = Operator()
    Log: ClassVar[Operator] = Operator()
    LogSoftmax: ClassVar[Operator] = Operator()
    MatMul: ClassVar[Operator] = Operator()
    Max: ClassVar[Operator] = Operator()
    Min: ClassVar[Operator] = Operator()
    Mod: ClassVar[Operator] = Operator()
    Mul: ClassVar[Operator] = Operator()
    Neg: ClassVar[Operator] = Operator()
    Not: ClassVar[Operator] = Operator()
    Or: ClassVar[Operator] = Operator()
    Pad: ClassVar[Operator] = Operator()
    Reciprocal: ClassVar[Operator] = Operator()
    ReduceL1: ClassVar[Operator] = Operator()
    ReduceL2: ClassVar[Operator] = Operator()
    ReduceSum: ClassVar[Operator] = Operator()
    Relu: ClassVar[Operator] = Operator()
    Reshape: ClassVar[Operator] = Operator()
    Round: ClassVar[Operator] = Operator()
    ScatterElements: ClassVar[Operator] = Operator()
    Shape: ClassVar[Operator] = Operator()
    Sigmoid: ClassVar[Operator] = Operator()
    Sign: ClassVar[Operator] = Operator()
    Sin: ClassVar[Operator] = Operator()
    Slice: ClassVar[Operator] = Operator()
    Softmax: ClassVar[Operator] = Operator()
    Softsign: ClassVar[Operator] = Operator()
    Sqrt: ClassVar[Operator] = Operator()
    Squeeze: ClassVar[Operator] = Operator()
    Sub: ClassVar[Operator] = Operator()
    Sum: ClassVar[Operator] = Operator()
    Tanh: ClassVar[Operator] = Operator()
    Transpose: ClassVar[Operator] = Operator()
    Unsqueeze: ClassVar[Operator] = Operator()
    Where: ClassVar[Operator] = Operator()
    Xor: ClassVar[Operator] = Operator()

    @property
    def is_gpu(self) -> bool:
        """True in a model for a GPU, which has its own kernels and gaps among them."""

    @property
    def runs_as_written(self) -> bool:
        """True if the runtime keeps the emitted operators, so that rules choose the fastest form."""

    @property
    def opset(self) -> int:
        """The ONNX opset version of the model."""

    def operator(
        self, kind: str, inputs: Sequence[str], attributes: Mapping[str, Any] | None = None, domain: str = ""
    ) -> str:
        """Append an operator of ONNX, or of another domain such as "com.microsoft"; returns the name of its result."""

    def results(
        self, kind: str, inputs: Sequence[str], attributes: Mapping[str, Any], count: int, domain: str = ""
    ) -> tuple[str, ...]:
        """Append an operator with several results; returns their names."""

    def cast(self, name: str, dtype: DType, saturate: bool = True) -> str:
        """The tensor in another dtype; `saturate` is of casts to low dtypes."""

    def const(self, value: Any, dtype: DType | None = None) -> str:
        """A constant array or number; equal constants are stored once."""

    def constant(self, value: Any, dtype: DType | None = None) -> str:
        """Another name of `const`, as Builders have it."""

    def scalar(self, value: float) -> str:
        """A number as a constant of the dtype in which the current node is computed."""

    def ints(self, values: Iterable[int]) -> str:
        """A constant int64 list, the form of shapes and axes."""

    @property
    def has_signs(self) -> bool:
        """True unless products alone read the result of the current node, which do not tell the signs of zeros."""

    @property
    def may_be_nan(self) -> bool:
        """True if a nan of the current node, in a dtype that has none, is multiplied by a scale that is nan as well."""

    @property
    def has_negative(self) -> bool:
        """False if the current node is a maximum or a rounding of numbers that are never negative, nor -0."""

    def is_right(self, operator: str, dtype: DType | None = None) -> bool:
        """True if the kernel of an operator is correct, in the dtype of the current node or another."""

    def is_padded(self, name: str) -> bool:
        """True if a tensor is the result of Pad."""

    def has_kernel(self, operator: str, dtype: DType | None = None, domain: str = "") -> bool:
        """True if the device has a kernel of an operator, for the dtype of the current node or another.

        Of another domain than ONNX's, such as "com.microsoft", it is false in a model for any runtime.
        """

    def form(self, value: Value, dtype: DType) -> str:
        """The tensor of a value in this dtype, for rules that take values."""

    def any_not_finite(self, values: Sequence[Value]) -> str:
        """A bool: true if a float tensor among the values contains an infinity or nan."""

    def branch(self, condition: str) -> tuple[str, ...]:
        """The two regions of the current node as an If."""

    def inlined(self) -> tuple[str, ...]:
        """The region of the current node, inlined; returns its results."""

    def scan(self, names: Sequence[str]) -> tuple[str, ...]:
        """The region of the current node as a Scan along arrays."""

    def while_loop(self, names: Sequence[str]) -> tuple[str, ...]:
        """The regions of the current node as a Loop."""

    def if_iterations(self, stack: str, some: Callable[[], str]) -> str:
        """The result of the current node where a stack has any element, else zeros."""
