"""Memory descriptors, memories and primitives of oneDNN, by its C interface."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from ctypes import byref, c_float, c_int, c_int64, c_void_p
from enum import IntEnum
from itertools import accumulate
from math import prod
from typing import Any
from weakref import finalize

from graphls.ir.types import LOW, DType, Type, bfloat16, float32, int8, int32, uint8
from graphls.runtime.onednn.elementwise.algorithms import MUL
from graphls.runtime.onednn.library import library

MOST_AXES = 12
F32 = 3
DATA_TYPES: Mapping[DType, int] = {**dict.fromkeys(LOW, F32), bfloat16: 2, float32: F32, int32: 4, int8: 5, uint8: 6}
"""The dtypes that memories have, as `dnnl_data_type_t`: float32 represents the numbers of low ones."""

BLOCK = 16
"""Channels of a block in the layouts that most kernels have, as many numbers as an instruction takes."""
BLOCKED: Mapping[int, int] = {3: 56, 4: 78, 5: 121}
"""Row-major order with channels in blocks, as `dnnl_format_tag_t`, by numbers of axes."""
SIZES: Mapping[int, int] = {number: dtype.itemsize for dtype, number in DATA_TYPES.items()}
"""The bytes of an element of each data type."""

_Dims = c_int64 * MOST_AXES


class Role(IntEnum):
    """Which operand or result of a primitive a memory is (`DNNL_ARG_...`)."""

    SOURCE = 1
    SOURCE_1 = 2
    SOURCE_2 = 3
    RESULT = 17
    RESULT_1 = 18
    RESULT_2 = 19
    WEIGHTS = 33
    WEIGHTS_1 = 34
    BIAS = 41
    MEAN = 49
    VARIANCE = 50
    SCALE = 51
    SHIFT = 52
    WORKSPACE = 64
    SOURCE_GRADIENT = 129
    RESULT_GRADIENT = 145
    WEIGHTS_GRADIENT = 161
    BIAS_GRADIENT = 169
    SCALE_GRADIENT = 255
    SHIFT_GRADIENT = 256
    SEVERAL = 1024
    SCALES = 4096
    POST_OPERATION = 32768


class Query(IntEnum):
    """What a primitive descriptor says of its memories (`dnnl_query_..._md`)."""

    SOURCE = 129
    SOURCE_GRADIENT = 130
    WEIGHTS = 131
    WEIGHTS_GRADIENT = 132
    RESULT = 133
    RESULT_GRADIENT = 134


class Argument(ctypes.Structure):
    """`dnnl_exec_arg_t`: a role and a memory."""

    _fields_ = (("role", c_int), ("memory", c_void_p))


def dims(numbers: Sequence[int]) -> Any:
    """Numbers as `dnnl_dims_t`."""
    return _Dims(*numbers)


class Descriptor:
    """The shape, the dtype and the layout of a memory; those that are equal hold their elements in the same places."""

    def __init__(self, handle: c_void_p) -> None:
        # ctypes passes the object as this and keeps it alive until the call is over, which it does not for a handle.
        self.handle = self._as_parameter_ = handle
        finalize(self, library().c.dnnl_memory_desc_destroy, handle).atexit = False

    @classmethod
    def plain(cls, shape: Sequence[int], dtype: int = F32) -> Descriptor:
        """Row-major order."""
        return cls.strided(shape, row_major(shape), dtype)

    @classmethod
    def of(cls, kind: Type) -> Descriptor:
        """Values of a type in row-major order."""
        return cls.plain(kind.shape, DATA_TYPES[kind.dtype])

    @classmethod
    def any_of(cls, kind: Type) -> Descriptor:
        """Values of a type in the layout that the primitive likes best."""
        return cls.any(kind.shape, DATA_TYPES[kind.dtype])

    @classmethod
    def strided(cls, shape: Sequence[int], strides: Sequence[int], dtype: int = F32) -> Descriptor:
        """Any strides, in elements; a scalar has one axis."""
        shape, strides = (shape or (1,)), (strides or (1,))
        handle, create = c_void_p(), library().c.dnnl_memory_desc_create_with_strides
        _call("describe a memory", create, byref(handle), len(shape), dims(shape), dtype, dims(strides))
        return cls(handle)

    @classmethod
    def any(cls, shape: Sequence[int], dtype: int = F32) -> Descriptor:
        """The layout that the primitive likes best, which its own descriptor tells."""
        return cls._tagged(shape, dtype, 1)

    @classmethod
    def common(cls, shape: Sequence[int], dtype: int = F32) -> Descriptor:
        """The layout for images in which all kernels are fast: blocks of channels, if they fill them."""
        is_blocked = len(shape) in BLOCKED and shape[1] % BLOCK == 0
        return cls.blocked(shape, dtype) if is_blocked else cls.plain(shape, dtype)

    @classmethod
    def blocked(cls, shape: Sequence[int], dtype: int = F32) -> Descriptor:
        """Blocks of channels, the last of which zeros fill."""
        return cls._tagged(shape, dtype, BLOCKED[len(shape)])

    @classmethod
    def _tagged(cls, shape: Sequence[int], dtype: int, tag: int) -> Descriptor:
        handle, create = c_void_p(), library().c.dnnl_memory_desc_create_with_tag
        _call("describe a memory", create, byref(handle), len(shape), dims(shape), dtype, tag)
        return cls(handle)

    @property
    def is_slow(self) -> bool:
        """Whether oneDNN has only its slow reference for elements with a number: in blocks that some kernels choose,
        or that channels do not fill."""
        if self.is_plain:
            return False
        one = Descriptor.plain((1,) * len(self.shape))
        return Primitive("elementwise", "binary", library().engine, MUL, self, one, self, None).is_reference

    @property
    def is_plain(self) -> bool:
        """Whether it is row-major order."""
        return self.equals(Descriptor.plain(self.shape, self.dtype))

    @property
    def is_dense(self) -> bool:
        """Whether there is nothing but the elements: no padding, and no gaps."""
        return self.size == prod(self.shape) * SIZES[self.dtype]

    @property
    def dtype(self) -> int:
        """The data type of the elements."""
        kind = c_int()
        _call("read a descriptor", library().c.dnnl_memory_desc_query, self.handle, 258, byref(kind))
        return kind.value

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        query, count, sizes = library().c.dnnl_memory_desc_query, c_int(), ctypes.POINTER(c_int64)()
        _call("read a descriptor", query, self.handle, 256, byref(count))
        _call("read a descriptor", query, self.handle, 257, byref(sizes))
        return tuple(sizes[: count.value])

    def with_dtype(self, dtype: int) -> Descriptor:
        """The same layout of elements of another data type, which the result of an elementwise kernel has."""
        if dtype == self.dtype:
            return self
        if self.is_plain:
            return Descriptor.plain(self.shape, dtype)
        shape, engine = self.shape, library().engine
        one = Descriptor.plain((1,) * len(shape))
        kernel = Primitive("elementwise", "binary", engine, MUL, self, one, Descriptor.any(shape, dtype), None)
        return kernel.layout(Query.RESULT)

    @property
    def size(self) -> int:
        """Bytes, padding of blocks included."""
        function = library().c.dnnl_memory_desc_get_size
        function.restype = ctypes.c_size_t
        return int(function(self.handle))

    def equals(self, other: Descriptor) -> bool:
        """Whether both hold their elements in the same places."""
        return bool(library().c.dnnl_memory_desc_equal(self.handle, other.handle))

    def permuted(self, permutation: Sequence[int]) -> Descriptor:
        """The same memory with its axes in another order; axis i of the result is axis `permutation[i]`."""
        handle, inverse = c_void_p(), [0] * len(permutation)
        for new, old in enumerate(permutation):
            inverse[old] = new
        function = library().c.dnnl_memory_desc_permute_axes
        _call("permute axes", function, byref(handle), self.handle, (c_int * len(inverse))(*inverse))
        return Descriptor(handle)

    def reshaped(self, shape: Sequence[int]) -> Descriptor | None:
        """The same memory in another shape; None where the layout does not allow it."""
        shape, handle = (shape or (1,)), c_void_p()
        status = library().c.dnnl_memory_desc_reshape(byref(handle), self.handle, len(shape), dims(shape))
        return None if status else Descriptor(handle)

    def part(self, shape: Sequence[int], offsets: Sequence[int]) -> Descriptor | None:
        """A box of the memory; None where the layout does not allow it."""
        handle = c_void_p()
        function = library().c.dnnl_memory_desc_create_submemory
        status = function(byref(handle), self.handle, dims(shape), dims(offsets))
        return None if status else Descriptor(handle)


class Memory:
    """A descriptor at an address."""

    def __init__(self, descriptor: Descriptor, address: int) -> None:
        self.descriptor, self.handle = descriptor, c_void_p()
        lib = library()
        _call("make a memory", lib.c.dnnl_memory_create, byref(self.handle), descriptor.handle, lib.engine,
              c_void_p(address))  # fmt: skip
        finalize(self, lib.c.dnnl_memory_destroy, self.handle).atexit = False

    def move(self, address: int) -> None:
        """Let it lie at another address from now on."""
        _call("move a memory", library().c.dnnl_memory_set_data_handle, self.handle, c_void_p(address))


class Primitive:
    """A kernel that is ready to run: the first one that oneDNN has whose name does not begin with `unlike`."""

    def __init__(self, kind: str, create: str, *arguments: object, unlike: str | None = None) -> None:
        lib = library()
        self.kind, self.described = kind, c_void_p()
        self._as_parameter_ = self.described
        _call(f"prepare a {kind}", getattr(lib.c, f"dnnl_{create}_primitive_desc_create"), byref(self.described),
              *arguments)  # fmt: skip
        finalize(self, lib.c.dnnl_primitive_desc_destroy, self.described).atexit = False
        while unlike and self.implementation.startswith(unlike):
            if lib.c.dnnl_primitive_desc_next_impl(self.described):
                break
        self.handle = c_void_p()
        _call(f"make a {kind}", lib.c.dnnl_primitive_create, byref(self.handle), self.described)
        finalize(self, lib.c.dnnl_primitive_destroy, self.handle).atexit = False

    def layout(self, query: Query) -> Descriptor:
        """The descriptor of one of its memories."""
        return self._described(int(query), 0)

    def _described(self, query: int, index: int) -> Descriptor:
        function, clone = library().c.dnnl_primitive_desc_query_md, c_void_p()
        function.restype = c_void_p
        known = function(self.described, query, index)
        _call("describe a memory", library().c.dnnl_memory_desc_clone, byref(clone), c_void_p(known))
        return Descriptor(clone)

    def layout_of(self, role: int) -> Descriptor:
        """The descriptor of the memory of a role."""
        return self._described(255, int(role))

    @property
    def is_reference(self) -> bool:
        """Whether the kernel is the slow one that oneDNN has for everything."""
        return self.implementation.startswith("ref")

    @property
    def implementation(self) -> str:
        """The name of the kernel, such as "jit:avx512_core"; "ref" ones are slow."""
        text = ctypes.c_char_p()
        library().c.dnnl_primitive_desc_query(self.described, 8, 0, byref(text))
        return (text.value or b"").decode()


class Attributes:
    """The attributes of a primitive: operations on its result before it is written."""

    def __init__(self) -> None:
        c = library().c
        self.handle, self.operations, self.count = c_void_p(), c_void_p(), 0
        self._as_parameter_ = self.handle
        _call("make attributes", c.dnnl_primitive_attr_create, byref(self.handle))
        finalize(self, c.dnnl_primitive_attr_destroy, self.handle).atexit = False
        _call("make attributes", c.dnnl_post_ops_create, byref(self.operations))
        finalize(self, c.dnnl_post_ops_destroy, self.operations).atexit = False

    def function(self, algorithm: int, alpha: float, beta: float) -> None:
        """Append a function of the result."""
        c = library().c
        append = c.dnnl_post_ops_append_eltwise
        _call("append an operation", append, self.operations, algorithm, *floats(alpha, beta))
        _call("set attributes", c.dnnl_primitive_attr_set_post_ops, self.handle, self.operations)
        self.count += 1

    def scale(self, role: int, axes: Iterable[int] = ()) -> None:
        """Multiply an operand by a number, or by one for each element along axes, a memory of `Role.SCALES | role`."""
        mask = sum(1 << axis for axis in axes)
        _call("set attributes", library().c.dnnl_primitive_attr_set_scales_mask, self.handle, role, mask)

    def binary(self, algorithm: int, operand: Descriptor) -> int:
        """Append an operation with another memory; returns the role of that."""
        c = library().c
        _call("append an operation", c.dnnl_post_ops_append_binary, self.operations, algorithm, operand)
        _call("set attributes", c.dnnl_primitive_attr_set_post_ops, self.handle, self.operations)
        self.count += 1
        return Role.POST_OPERATION * self.count | Role.SOURCE_1


def arguments(memories: Mapping[int, Memory]) -> Any:
    """Memories by their roles as an array of `dnnl_exec_arg_t`."""
    return (Argument * len(memories))(*(Argument(role, memory.handle) for role, memory in memories.items()))


def floats(*numbers: float) -> tuple[c_float, ...]:
    """Numbers as C passes them."""
    return tuple(map(c_float, numbers))


def handles(descriptors: Iterable[Descriptor]) -> Any:
    """An array of the handles of descriptors."""
    known = [descriptor.handle for descriptor in descriptors]
    return (c_void_p * len(known))(*known)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of row-major order, in elements."""
    return tuple(accumulate((1, *reversed(shape[1:])), lambda a, b: a * b))[::-1] if shape else ()


def _call(task: str, function: object, *args: object) -> None:
    library().call(task, function, *args)
