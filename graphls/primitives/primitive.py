"""The base class of primitives: types, NumPy rule, gradient, ONNX rule and facts of an operation in one class."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from inspect import signature
from math import prod
from typing import Any, ClassVar

import numpy as np

from graphls.base.errors import GraphMemoryError, GraphTypeError, GraphValueError
from graphls.ir.registry import Operation, nearest, register
from graphls.ir.types import TOKEN, DType, Type, bool_, broadcast_shapes, float32, type_of
from graphls.primitives.faults import (
    check_attributes,
    check_members,
    is_builtin,
    listed,
    mismatch,
    missing_rule,
    raise_from_rule,
)

MOST_ELEMENTS = 2**47
"""The number of bytes that a process can address: no tensor has as many elements."""

_PACKAGE = __name__.partition(".")[0] + "."

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Sample:
    """A test case of a primitive: operand types, attributes and the range of values.

    Float operands are drawn uniformly from [low, high), integer ones from range(int(low), int(high))
    and bools evenly. `gradient` is true if the function is smooth enough there for a finite difference.

    Examples:
        >>> from graphls.primitives import Sample, f32
        >>> use = Sample((f32(2, 3),), {"axis": (0,)}, low=0.5)
        >>> [str(kind) for kind in use.types], dict(use.attrs)
        (['f32[2,3]'], {'axis': (0,)})
    """

    types: tuple[Type, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    low: float = -1.0
    high: float = 1.0
    gradient: bool = True
    integers: tuple[int, int] = (-4, 5)


def sample(
    *types: Type, low: float = -1.0, high: float = 1.0, gradient: bool = True, integers: tuple[int, int] = (-4, 5),
    **attrs: Any,
) -> Sample:  # fmt: skip
    """A Sample, written like a call: `sample(f32(2, 3), axis=(0,))`.

    Examples:
        >>> from graphls.primitives import f32, sample
        >>> use = sample(f32(2, 3), axis=(0,))
        >>> dict(use.attrs)
        {'axis': (0,)}
    """
    return Sample(types, attrs, low, high, gradient, integers)


def f32(*shape: int) -> Type:
    """The type of a float32 array of that shape, for samples.

    Examples:
        >>> from graphls.primitives import f32
        >>> str(f32(2, 3))
        'f32[2,3]'
    """
    return Type(float32, shape)


def of(dtype: DType, *shape: int) -> Type:
    """The type of an array of another dtype, for samples: `of(int64, 3)`.

    Examples:
        >>> import graphls
        >>> from graphls.primitives import of
        >>> str(of(graphls.int64, 3))
        'i64[3]'
    """
    return Type(dtype, shape)


class Primitive(Operation):
    """An operation of the IR.

    A subclass states `samples` and a docstring, and defines
      infer(*types, **attrs)         the type of the output, or a tuple of types
      numpy(*arrays, **attrs)        the output, or a tuple; half inputs arrive as float32
      vjp(e, g, *inputs, *outputs, **attrs)   the gradient of each input from the gradient `g` of the output
                                     (a tuple, with None for unused outputs, where there are several); None
                                     for an input without one. `e` is a Builder. Shapes that broadcasting made
                                     wide are summed by the gradient pass, not here.
      onnx                           the name of an ONNX operator with the same operands and attributes, or
                                     a rule `onnx(e, *names, **attrs)` over an Emitter `e`.
    Defining the class registers its one instance under `name`, which is the class name in snake case.

    `flops_per_element` of 0 means that it only moves or selects elements; for another count, define a method `flops`.
    All other facts have defaults, which a subclass overrides (`Operation` lists them). `is_view`, `may_be_operand`,
    `moves`, `is_transparent` and `selects` are derived where a class does not set them.

    Examples:
        >>> import numpy as np
        >>> from graphls.primitives import Primitive, f32, sample
        >>> from graphls.tensors import apply
        >>> class Mirror(Primitive):
        ...     '''The elements in the opposite order.'''
        ...     name = "mirror"
        ...     samples = (sample(f32(3), gradient=False),)
        ...     def infer(self, x):
        ...         return x
        ...     def numpy(self, x):
        ...         return np.flip(x)
        >>> apply("mirror", np.float32([1, 3]))
        Tensor(shape=[2], dtype=Float32, value=[3. 1.])
    """

    samples: ClassVar[tuple[Sample, ...]] = ()

    def __init_subclass__(cls, abstract: bool = False, **options: Any) -> None:
        super().__init_subclass__()
        for option in options:
            raise GraphTypeError(f"A class of a primitive has no option {option!r}{nearest(option, ['abstract'])}.")
        if not cls.__module__.startswith(_PACKAGE):
            check_members(cls, dir(Primitive))
        if not abstract:
            if "name" not in cls.__dict__:
                cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
            register(cls())

    keywords: ClassVar[Callable[..., Any] | None] = None
    """The function whose parameters are the attributes that a rule takes as `**name`, if any."""

    def infer(self, *types: Any, **attrs: Any) -> Any:
        """The type of the output; raises GraphlsError where the operands do not fit."""
        raise missing_rule(self, "infer")

    def numpy(self, *arrays: Any, **attrs: Any) -> Any:
        """The output as a NumPy array."""
        raise missing_rule(self, "numpy")

    @property
    def may_be_operand(self) -> bool:
        """True if a result may share the buffer of an operand of its size, which must then outlive it.

        A runtime drops a move that moves nothing and turns others into views, such as the transposition of one row.
        The ONNX rule of a user's class may emit anything.
        """
        if self.is_view:
            return True
        return not self.elementwise and (self.flops_per_element == 0 or not type(self).__module__.startswith(_PACKAGE))

    @property
    def takes_low(self) -> bool:
        """True if it only moves or selects elements: numbers of low dtypes are computed in another dtype."""
        return self.flops_per_element == 0

    def check_attributes(self, attrs: Mapping[str, object]) -> None:
        """Raise GraphTypeError for attributes that the type rule, or else the ONNX rule, does not take."""
        own = type(self).infer is not Primitive.infer
        rules = type(self).infer if own else type(self).onnx, self.keywords
        check_attributes(self.name, tuple(filter(callable, rules)), attrs)

    def result_types(
        self, types: tuple[Type, ...], attrs: Mapping[str, Any], regions: tuple[Any, ...] = ()
    ) -> tuple[Type, ...]:
        """The types of the outputs, always as a tuple."""
        if regions:
            raise GraphTypeError(f"{self.name} takes no regions.")
        if TOKEN in types and not self.takes_tokens:
            raise GraphTypeError(f"{self.name} takes no tokens; order it behind one with a control edge.")
        if any(t.stacked for t in types) and not self.takes_stacks:
            raise GraphTypeError(f"{self.name} takes no stacks, which are for loops only.")
        if not self.takes_low:
            self._check_not_low(types)
        try:
            result = self.infer(*types, **attrs)
        except TypeError as error:
            if isinstance(error, GraphTypeError):
                raise
            self.check_attributes(attrs)
            reason = str(error).partition(".infer() ")[2] or str(error)
            parameters = ", ".join(signature(self.infer).parameters)
            text = f"{self.name} does not take these operands: {reason}"
            raise GraphTypeError(f"{text}; it takes {parameters}.") from None
        except Exception as error:
            raise_from_rule(self, "infer", error)
        results = result if isinstance(result, tuple) else (result,)
        if not all(isinstance(kind, Type) for kind in results):
            expected = "a Type is expected for each result, such as x.with_shape((2, 3))"
            raise mismatch(self, "infer", listed(results), expected)
        for kind in results:
            if kind.size >= MOST_ELEMENTS or (not kind.size and prod(n or 1 for n in kind.shape) >= MOST_ELEMENTS):
                raise GraphMemoryError(f"{self.name} would make {kind}, which no memory holds; give smaller sizes.")
        return results

    def _check_not_low(self, types: tuple[Type, ...]) -> None:
        for kind in types:
            if kind.dtype.is_low:
                text = f"{self.name} computes, which is not done in {kind.dtype.long_name}"
                raise GraphTypeError(f"{text}; cast {kind} to float32 or bfloat16 first.")

    def evaluate(self, arrays: tuple[Any, ...], attrs: Mapping[str, Any], types: tuple[Type, ...]) -> tuple[Any, ...]:
        """The outputs, always as a tuple; half inputs are computed in float32.

        Raises GraphTypeError where the results of a plugin's primitive are not of the types of its type rule.
        """
        results = self.computed(arrays, attrs)
        if not is_builtin(self):
            actual = tuple(map(_type_or_object, results))
            expected = tuple(t.with_dtype(float32) if t.dtype.is_half and self.half != "native" else t for t in types)
            if actual not in (expected, types):
                raise mismatch(self, "numpy", listed(actual), f"its type rule says {listed(expected)}")
        return results

    def computed(
        self, arrays: tuple[Any, ...], attrs: Mapping[str, Any], rule: Callable[..., Any] | None = None
    ) -> tuple[Any, ...]:
        """The results of the NumPy rule, or of another, always as a tuple; half inputs are computed in float32."""
        if self.half != "native":
            arrays = tuple([a.astype(np.float32) if _is_half(a.dtype) else a for a in arrays])
        try:
            result = (rule or self.numpy)(*arrays, **attrs)
        except Exception as error:
            raise_from_rule(self, "xla" if rule and hasattr(self, "xla") else "numpy", error)
        return result if isinstance(result, tuple) else (result,)

    def run_regions(
        self, arrays: tuple[Any, ...], attrs: Mapping[str, Any], types: tuple[Type, ...],
        run: Callable[[int, tuple[Any, ...]], tuple[Any, ...]],
    ) -> tuple[Any, ...]:  # fmt: skip
        """The outputs of a node with regions, which `run(index, arrays)` runs; the default runs none."""
        return self.evaluate(arrays, attrs, types)

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, Any]) -> int:
        """The floating point operations of one run, without those of its regions.

        A sum, product, comparison or elementary function of one element is one operation, so a multiplication with an
        addition is two (as Golub and Van Loan count in Matrix Computations, chapter 1). Without a rule of its own, a
        primitive takes `flops_per_element` for each element of its largest result, and none where no operand
        and no result is of floats.
        """
        if not any(t.dtype.is_float for t in (*inputs, *outputs)):
            return 0
        return self.flops_per_element * max((t.size for t in outputs if t != TOKEN), default=0)

    def region_runs(self, attrs: Mapping[str, Any], flops: tuple[int, ...]) -> tuple[int, ...]:
        """The number of runs of each region, from the operation counts of all of them: by default, once."""
        return (1,) * len(flops)


def no_gradient(primitive: Primitive, e: Any, g: Any, *values: Any, **attrs: Any) -> tuple[None, ...]:
    """The gradient rule `vjp` of a primitive with derivative zero: no operand has a gradient."""
    return (None,) * len(primitive.samples[0].types)


def float_elements(*types: Type) -> int:
    """The number of floats in arrays of these types."""
    return sum(t.size for t in types if t.dtype.is_float)


def _type_or_object(result: object) -> object:
    """The type of an array or a number of NumPy; anything else as it is."""
    return type_of(np.asarray(result)) if isinstance(result, (np.ndarray, np.generic)) else result


@cache
def _is_half(dtype: np.dtype[Any]) -> bool:
    return dtype.name in ("float16", "bfloat16")


def same_dtype(name: str, *types: Type) -> DType:
    """The common dtype of all operands; raises GraphTypeError where they differ.

    Examples:
        >>> import graphls
        >>> from graphls.primitives import of, same_dtype
        >>> same_dtype("mine", of(graphls.int8, 2), of(graphls.int8))
        Int8
    """
    first = types[0].dtype
    for other in types[1:]:
        if other.dtype is not first:
            listed = " and ".join(map(str, types))
            raise GraphTypeError(f"{name} takes operands of one dtype, not {listed}; cast one of them.")
    return first


def require_float(name: str, *types: Type) -> DType:
    """The common float dtype of all operands; raises GraphTypeError for any other.

    Examples:
        >>> from graphls.primitives import f32, require_float
        >>> require_float("mine", f32(2), f32(3))
        Float32
    """
    dtype = same_dtype(name, *types)
    if not dtype.is_float:
        raise GraphTypeError(f"{name} takes floating point operands, not {types[0]}; cast them first.")
    return dtype


def normalise_axis(axis: int, rank: int) -> int:
    """The axis counted from the front; raises GraphValueError where an array of that rank has no such axis.

    Examples:
        >>> from graphls.primitives import normalise_axis
        >>> normalise_axis(-1, 3)
        2
    """
    if not -rank <= axis < rank:
        raise GraphValueError(f"There is no axis {axis} in an array of rank {rank}.")
    return axis % rank


def normalise_axes(axis: tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    """The axes in ascending order, all of them for None; raises GraphValueError for a missing or repeated one.

    Examples:
        >>> from graphls.primitives import normalise_axes
        >>> normalise_axes((-1, 0), 3), normalise_axes(None, 2)
        ((0, 2), (0, 1))
    """
    if axis is None:
        return tuple(range(rank))
    axes = tuple(sorted(normalise_axis(a, rank) for a in axis))
    if len(set(axes)) < len(axes):
        raise GraphValueError(f"The axes {axis} name one axis of an array of rank {rank} twice.")
    return axes


class Elementwise(Primitive, abstract=True):
    """Operands of one dtype that broadcast together; the result has their dtype.

    Examples:
        >>> import numpy as np
        >>> from graphls.primitives import Elementwise, f32, sample
        >>> from graphls.tensors import apply
        >>> class Between(Elementwise):
        ...     '''The middle between two numbers.'''
        ...     name = "between"
        ...     samples = (sample(f32(2, 3), f32(3), gradient=False),)
        ...     def numpy(self, x, y):
        ...         return (x + y) / x.dtype.type(2)
        >>> apply("between", np.float32([1, 3]), np.float32([3, 5]))
        Tensor(shape=[2], dtype=Float32, value=[2. 4.])
    """

    elementwise = True

    def infer(self, *types: Type) -> Type:
        expected = len(self.samples[0].types)
        if len(types) != expected:
            raise GraphTypeError(f"{self.name} takes {expected} operands, not {len(types)}.")
        dtype = same_dtype(self.name, *types)
        if dtype is bool_:
            raise GraphTypeError(f"{self.name} takes numbers, not {types[0]}; cast it first.")
        return Type(dtype, broadcast_shapes(*(t.shape for t in types)))


class FloatElementwise(Elementwise, abstract=True):
    """An elementwise primitive of floats only.

    Examples:
        >>> import numpy as np
        >>> from graphls.primitives import FloatElementwise, f32, sample
        >>> from graphls.testing import check_primitive
        >>> class Bell(FloatElementwise):
        ...     "The bell curve exp(-x * x), elementwise; floats."
        ...
        ...     samples = (sample(f32(2, 3)),)
        ...
        ...     def numpy(self, x):
        ...         return np.exp(-x * x)
        ...
        ...     def vjp(self, e, g, x, out):
        ...         return e.mul(g, e.mul(out, e.neg(e.add(x, x))))
        ...
        ...     def onnx(self, e, x):
        ...         return e.Exp(e.Neg(e.Mul(x, x)))
        >>> check_primitive(Bell)
    """

    def infer(self, *types: Type) -> Type:
        result = super().infer(*types)
        require_float(self.name, *types)
        return result
