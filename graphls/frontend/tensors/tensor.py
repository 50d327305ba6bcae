"""Tensors, and the symbols that represent them while a cell is traced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from graphls.base.errors import GraphAttributeError, GraphTypeError, GraphValueError, TraceError
from graphls.frontend.names.habits import TENSOR, instead
from graphls.frontend.names.torch_functions import counterpart, name_of
from graphls.frontend.registry import function
from graphls.frontend.tensors.configuration import Configuration
from graphls.frontend.tensors.dynamic_sizes import Declared, Size, known_sizes, zeros
from graphls.frontend.tensors.executor import current_tracer
from graphls.frontend.tensors.foreign import offered_array, offers_array
from graphls.frontend.tensors.methods import METHODS, Methods
from graphls.frontend.tensors.tape import SAME, note
from graphls.ir.graph import Value
from graphls.ir.types import DType, DTypeLike, Type, as_dtype, float32, type_of
from graphls.primitives.low_precision import as_low

Array = np.ndarray[Any, Any]
TensorLike: TypeAlias = "Tensor | Array | np.generic | float | Sequence[TensorLike]"
"""Objects that become tensors: tensors, arrays, numbers, and sequences of them."""
_DLPACK_CPU = 1
"""The number of this kind of memory in DLPack."""


class DeferredData:
    """Deferred data of a tensor, computed at the first read."""

    def __init__(self, compute: Callable[[], Array]) -> None:
        self.numpy = compute


def array_of(data: object, dtype: DType | None = None) -> Array:
    """An array of a number, nested lists of numbers, an array or a tensor; bare floats are float32, ints int64.

    Arrays may be another library's (see `offered_array`). Raises GraphTypeError for anything else.
    """
    if isinstance(data, Tensor):
        array = data.asnumpy()
    elif isinstance(data, (np.ndarray, np.generic)):
        array = np.asarray(data)
    elif offers_array(data):
        array = offered_array(data)
    else:
        array = _array_of_numbers(float(data) if type(data) is int and abs(data) >= 2**64 else data)
        array = _in_dtype(array, float32) if array.dtype == np.float64 and dtype is None else array
    as_dtype(array.dtype)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array if dtype is None else _in_dtype(array, dtype)


def _in_dtype(array: Array, dtype: DType) -> Array:
    """The array in a dtype, where numbers that it does not reach become infinite, or in a low dtype its largest."""
    if array.dtype == dtype.numpy:
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        return as_low(array, dtype) if dtype.is_low else array.astype(dtype.numpy)


def _array_of_numbers(data: object) -> Array:
    if isinstance(data, (list, tuple)):
        data = [item.asnumpy() if isinstance(item, Tensor) else item for item in data]
    try:
        array = np.array(data)
    except ValueError:
        raise GraphValueError("The rows of a tensor must have the same length.") from None
    if array.dtype.kind not in "biufV":
        raise GraphTypeError(f"A tensor is made of numbers, not of {type(data).__name__}.")
    return array


class Tensor(Methods):
    """An array with a dtype and a static shape; inside `construct`, a value of the graph.

    `input_data` is a number, nested lists of numbers, a tensor, or an array of NumPy or of a library whose arrays have
    `__array__` or `__dlpack__`. `dtype` converts it; without it Python floats become float32 and ints int64, and arrays
    keep their dtype. An array is copied; `from_numpy` shares its memory. Without data, the tensor has a `shape`, and
    zeros or the values of `init`, a name or an Initializer; where a size is None, or without a shape, the tensor only
    declares the type of inputs, and has no values. Raises GraphTypeError for data that is not numeric, GraphValueError
    for data with a shape. `const_arg` changes nothing: a tensor that is not an input of a trace is a constant in it.

    Examples:
        >>> import graphls
        >>> x = graphls.Tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> x.shape, x.dtype
        ((2, 2), Float32)
        >>> (x @ x + 1).sum(axis=0).asnumpy().tolist()
        [24.0, 34.0]
        >>> x[:, 1].asnumpy().tolist()
        [2.0, 4.0]
    """

    __slots__ = ("_array", "_buffer", "_type")
    __array_priority__ = 100

    def __init__(
        self, input_data: object = None, dtype: DTypeLike | None = None, shape: Size | Sequence[Size] = None,
        init: object = None, const_arg: bool = False,
    ) -> None:  # fmt: skip
        self._buffer: Any = None
        if input_data is None:
            self._declare(shape, dtype, init)
            return
        if shape is not None:
            raise GraphValueError(f"Data gives a tensor its shape; leave out shape={shape!r}, or reshape the tensor.")
        array = array_of(input_data, as_dtype(dtype) if dtype is not None else None)
        is_shared = array is input_data or (offers_array(input_data) and not isinstance(input_data, Tensor))
        self._array: Array | None = array.copy() if is_shared else array
        self._type = type_of(self._array)

    def _declare(self, shape: object, dtype: DTypeLike | None, init: object) -> None:
        """Initialize without data: with the values of `init`, else zeros, or none where a size is dynamic."""
        if shape is None and dtype is None:
            raise GraphTypeError("A tensor is made of numbers, not of None; give data or a shape.")
        declared, sizes = known_sizes(shape)
        kind = as_dtype(dtype or float32)
        if min(sizes, default=0) < 0:
            if dtype is None or init is not None:
                raise GraphValueError("A tensor with dynamic sizes needs a dtype, and has no values: leave out init.")
            self._type = Type(kind, sizes)
            self._array, self._buffer = None, Declared(self._type, declared)
            return
        self._array = zeros(sizes, kind) if init is None else function("initializer")(init, sizes, kind).array
        self._type = type_of(self._array)

    @classmethod
    def on_host(cls, array: Array, type: Type) -> Tensor:
        """A tensor of an array of that type, which it does not copy."""
        tensor = cls.__new__(cls)
        tensor._array, tensor._buffer, tensor._type = array, None, type
        return tensor

    @classmethod
    def on_device(cls, buffer: object, type: Type) -> Tensor:
        """A tensor whose data stays where it is until it is read by `buffer.numpy()`."""
        tensor = cls.__new__(cls)
        tensor._array, tensor._buffer, tensor._type = None, buffer, type
        return tensor

    def alias(self) -> Tensor:
        """Another tensor of the same data, which is not copied."""
        tensor = Tensor.__new__(Tensor)
        tensor._array, tensor._buffer, tensor._type = self._array, self._buffer, self._type
        note(SAME, (self,), {}, tensor)
        return tensor

    @staticmethod
    def from_numpy(array: Array) -> Tensor:
        """A tensor of a NumPy array, or of another library's where it lies on the host, whose memory it shares.

        Examples:
            >>> import numpy as np
            >>> import graphls
            >>> array = np.zeros(3, np.float32)
            >>> x = graphls.from_numpy(array)
            >>> array[0] = 5
            >>> x
            Tensor(shape=[3], dtype=Float32, value=[5. 0. 0.])
        """
        data = array_of(array)
        return Tensor.on_host(data, type_of(data))

    @property
    def array(self) -> Array:
        """The data as a NumPy array, not to be changed."""
        if self._array is None:
            self._array = np.asarray(self._buffer.numpy(), self.type.dtype.numpy)
            self._buffer = None
        return self._array

    @property
    def type(self) -> Type:
        """Dtype and shape together."""
        return self._type

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return self.type.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.type.shape)

    @property
    def size(self) -> int:
        """The number of elements; 0 where the tensor only declares its shape."""
        return 0 if self.type.shape and min(self.type.shape) < 0 else self.type.size

    @property
    def T(self) -> Tensor:
        """The tensor with its axes in reverse order."""
        result: Tensor = self.transpose()
        return result

    @property
    def mT(self) -> Tensor:
        """The tensor with its last two axes exchanged; raises GraphValueError where it has fewer."""
        result: Tensor = self.swapaxes(-1, -2)
        return result

    @property
    def H(self) -> Tensor:
        """The same as `mT`: no element is complex."""
        return self.mT

    @property
    def strides(self) -> tuple[int, ...]:
        """The bytes from one element to the next along each axis."""
        return tuple(self.itemsize * elements for elements in self.stride())

    @property
    def has_init(self) -> bool:
        """Whether `init_data` has yet to create the data: always False."""
        return False

    @property
    def itemsize(self) -> int:
        """The size of an element in bytes."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The size of all elements in bytes."""
        return self.size * self.itemsize

    def asnumpy(self) -> Array:
        """The data as a NumPy array; waits for the step that makes it."""
        return self.array

    def item(self) -> Any:
        """The only element as a Python number; raises GraphValueError where there are more."""
        array = self.array
        if array.size != 1:
            raise GraphValueError(f"item() takes a tensor of one element, not {self.type}.")
        return array.item()

    def tolist(self) -> Any:
        """The data as nested lists."""
        return self.array.tolist()

    def astype(self, dtype: DTypeLike) -> Tensor:
        """The tensor in another dtype."""
        result: Tensor = function("primitive")("cast", self, dtype=as_dtype(dtype))
        return result

    to = astype

    def init_data(self, slice_index: object = None, shape: object = None, opt_shard_group: object = None) -> Tensor:
        """The tensor itself: initial values are there from the start. The arguments change nothing."""
        return self

    def copy(self) -> Tensor:
        """A tensor with the same data."""
        result: Tensor = function("primitive")("depend", self)
        return result

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self.asnumpy()
        return array if dtype is None else array.astype(dtype)

    def __dlpack__(self, **options: Any) -> Any:
        """The data for another library, as `numpy.from_dlpack(tensor)` and `torch.from_dlpack(tensor)` take it.

        It is the array of the tensor itself, which is not to be changed, or a copy where that is read-only; of a
        Parameter it is always a copy. Raises BufferError for a dtype that NumPy does not hand over, such as bfloat16.
        """
        array = self.asnumpy()
        return (array if array.flags.writeable else array.copy()).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The memory of the host, to which `__dlpack__` copies data of a device."""
        return _DLPACK_CPU, 0

    @classmethod
    def __torch_function__(
        cls, function: Callable[..., Any], types: object, args: Sequence[object] = (), kwargs: object = None
    ) -> NoReturn:
        """Refuse a function of PyTorch that is called on tensors of graphls: the error names that of graphls.

        PyTorch calls it in place of the function. Its operators, as in `torch_tensor + x`, take the TypeError as an
        answer and leave the operation to the tensor of graphls, for which the other one is an array.
        """
        name = name_of(function)
        operands = [item for arg in args for item in (arg if isinstance(arg, (list, tuple)) else (arg,))]
        symbol = next((item for item in operands if isinstance(item, Symbol)), None)
        if symbol is None:
            advice = f"{counterpart(name)}, or torch.as_tensor(x) for its numbers"
            raise GraphTypeError(f"{name} takes tensors of PyTorch, and this is one of graphls{advice}.")
        text = f"{name} cannot take a {symbol.type} that the graph computes while the cell is traced"
        raise TraceError(f"{text}{counterpart(name)}.")

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.dtype.kind not in ("int", "uint"):
            raise GraphTypeError(f"An index is an integer, not {self.type}.")
        return int(self.item())

    def __bool__(self) -> bool:
        if self.size != 1:
            raise GraphValueError(f"Only a tensor of shape () or (1,) is true or false, not {self.type}.")
        return bool(self.array.item())

    def __len__(self) -> int:
        if not self.shape:
            raise GraphTypeError("A tensor without axes has no length.")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __contains__(self, element: object) -> bool:
        """Whether an element is equal; raises TraceError in a trace, where it would have to be a Python bool."""
        return bool((self == element).any())

    def __getitem__(self, index: object) -> Tensor:
        result: Tensor = function("getitem")(self, index)
        return result

    def __setitem__(self, index: object, value: object) -> None:
        """Replace the elements at an index; see `ops.setitem`, and in a trace `Symbol`."""
        self._become(function("setitem")(self, index, value))

    def assign_value(self, value: object) -> Tensor:
        """Take the value of another tensor; returns itself."""
        self._become(Tensor(value, self.dtype))
        return self

    def _become(self, other: Tensor) -> None:
        if current_tracer() is not None:
            raise TraceError(
                "In a trace, elements can be assigned only to tensors that the graph computes, and this is a constant; "
                "use ops.setitem(tensor, index, value), or start from ops.zeros.",
            )
        self._array, self._buffer = other.array, None
        note(SAME, (other,), {}, self)
        Configuration.note_change()

    def __repr__(self) -> str:
        value = "not given" if isinstance(self._buffer, Declared) else self.array
        return f"Tensor(shape={list(self.shape)}, dtype={self.dtype!r}, value={value})"

    def __str__(self) -> str:
        return repr(self) if isinstance(self._buffer, Declared) else str(self.array)

    def value(self) -> Tensor:
        """The tensor itself, as `Parameter.value` gives the value of a parameter."""
        return self

    def __format__(self, specification: str) -> str:
        """The text, or the only element as a number in a format: `f"{loss:.4f}"`; raises as `item`."""
        return format(self.item(), specification) if specification else str(self)

    def __hash__(self) -> int:
        return id(self)

    if not TYPE_CHECKING:  # methods.pyi has them all, so that a wrong name is an error in an editor, too

        def __getattr__(self, name: str) -> Any:
            """Raise GraphAttributeError, which suggests the closest method; methods are functions of `graphls.ops`."""
            if name.startswith("__"):  # what NumPy and copying ask every object for
                raise AttributeError(name)
            raise GraphAttributeError(f"A tensor has no {name!r}{instead(name, TENSOR, METHODS)}.")


class Symbol(Tensor):
    """A value of the graph that is being traced; assigning elements replaces the value."""

    __slots__ = ("_value",)

    def __init__(self, value: Value) -> None:
        self._value = value

    @property
    def graph_value(self) -> Value:
        """The value in the IR."""
        return self._value

    @property
    def type(self) -> Type:
        return self.graph_value.type

    def _become(self, other: Tensor) -> None:
        tracer = current_tracer()
        if tracer is None:
            raise _not_static(self, "used after its trace has ended", "return it from construct")
        self._value = tracer.value(other)

    @property
    def array(self) -> Array:
        raise _not_static(self, "read as numbers", "keep it a tensor, or read it after the step has run")

    def item(self) -> Any:
        raise _not_static(self, "made a Python number", "use tensor operations, or read it after the step has run")

    def __index__(self) -> int:
        raise _not_static(self, "used as a Python index", "use ops.gather")

    def __bool__(self) -> bool:
        if self.size != 1:
            raise GraphValueError(f"Only a tensor of shape () or (1,) is true or false, not {self.type}.")
        tracer = current_tracer()
        if tracer is None:
            raise _not_static(self, "used after its trace has ended", "return it from construct")
        return tracer.decide(self.graph_value)

    def __repr__(self) -> str:
        return f"Tensor(shape={list(self.shape)}, dtype={self.dtype!r}, in the graph)"

    __str__ = __repr__


def _not_static(symbol: Tensor, what: str, instead: str) -> TraceError:
    return TraceError(f"A {symbol.type} that the graph computes cannot be {what} while the cell is traced; {instead}.")


def is_tensor(item: object) -> bool:
    """Whether an object is a tensor or an array, and so can be an input of a graph."""
    return isinstance(item, (Tensor, np.ndarray, np.generic))


def is_number(item: object) -> bool:
    """Whether an object is a bool, an int or a float of Python."""
    return isinstance(item, (bool, int, float))


def as_known(item: object) -> Any:
    """An array of another library as a NumPy array of the same memory; other objects as they are."""
    return item if is_tensor(item) or not offers_array(item) else offered_array(item)


from_numpy = Tensor.from_numpy


def tensor(input_data: object, dtype: DTypeLike | None = None) -> Tensor:
    """A Tensor; the same as `Tensor(input_data, dtype)`.

    Examples:
        >>> import graphls
        >>> graphls.tensor([1, 2.5])
        Tensor(shape=[2], dtype=Float32, value=[1.  2.5])
        >>> graphls.tensor([1, 2], graphls.float16)
        Tensor(shape=[2], dtype=Float16, value=[1. 2.])
    """
    return Tensor(input_data, dtype)
