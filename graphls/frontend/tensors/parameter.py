"""Parameters: tensors that outlive a step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from graphls.base.checks import not_negative_int
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.location import Location, user_location
from graphls.base.reporting import checked
from graphls.base.sharing.arrays import copy, full
from graphls.base.sharing.storage import Storage
from graphls.frontend.registry import function
from graphls.frontend.tensors.configuration import Configuration
from graphls.frontend.tensors.executor import current_tracer
from graphls.frontend.tensors.tape import SAME, note
from graphls.frontend.tensors.tensor import Array, Symbol, Tensor, array_of
from graphls.ir.sharding import Sharding
from graphls.ir.types import DType, DTypeLike, as_dtype, type_of


class DeviceSetting:
    """An attribute that gives its default until it is set."""

    def __init__(self, default: object) -> None:
        self.default = default
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, parameter: DeviceSettings | None, owner: type | None = None) -> Any:
        return self if parameter is None else parameter.device_settings.get(self.name, self.default)

    def __set__(self, parameter: DeviceSettings, value: object) -> None:
        parameter.device_settings[self.name] = value


class DeviceSettings:
    """The settings of MindSpore's parameters; `device_settings` holds those that were set."""

    __slots__ = ()

    device_settings: dict[str, Any]

    cache_enable = DeviceSetting(False)
    comm_fusion = DeviceSetting(1)
    is_param_ps = DeviceSetting(False)
    parallel_optimizer = DeviceSetting(True)
    parallel_optimizer_comm_recompute = DeviceSetting(False)
    pipeline_stage = DeviceSetting(0)
    sliced = DeviceSetting(False)
    unique = DeviceSetting(False)

    def add_pipeline_stage(self, stage: int) -> None:
        """Accept a further stage of a pipeline in which the parameter is read, which the graph says anyway.

        Raises GraphTypeError for anything but an int, GraphValueError for one below 0.
        """
        not_negative_int("Parameter", "pipeline_stage", stage)


class Parameter(DeviceSettings, Tensor):
    """A tensor that outlives a step: a weight, a moment, a counter.

    `name` is the name in the graph; a cell that the parameter becomes part of sets it to the path of its
    attribute. `requires_grad` says whether `trainable_params` lists it. Inside `construct` a parameter is read
    by using it and written by `ops.assign` or by assigning to the cell's attribute. The other arguments are those of
    MindSpore for several devices: with `parallel_optimizer=False` they do not divide the parameter, with
    `layerwise_parallel` ranks do not reduce its gradient, and the rest changes nothing.

    Raises GraphTypeError for a value, a name or a flag of another type, GraphValueError for a `bool` and for a name
    that cannot be one.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> weight = graphls.Parameter(np.zeros(2, np.float32), name="weight")
        >>> weight.set_data(graphls.Tensor([1.0, 2.0])).asnumpy().tolist()
        [1.0, 2.0]
        >>> weight.name, weight.requires_grad
        ('weight', True)
    """

    __slots__ = ("__weakref__", "_requires_grad", "_set_at", "device_settings", "layerwise_parallel", "name", "storage")

    def __init__(
        self, default_input: object, name: str | None = None, requires_grad: bool = True,
        layerwise_parallel: bool = False, parallel_optimizer: bool = True, storage_format: str = "",
        device: str | None = None,
    ) -> None:  # fmt: skip
        if name is not None and not isinstance(name, str):
            message = f"The type of the Parameter's name should be 'string' or 'None', but got {type(name)}."
            raise GraphValueError(message)
        flags = {"layerwise_parallel": layerwise_parallel, "parallel_optimizer": parallel_optimizer}
        _check(default_input, requires_grad=requires_grad, **flags)
        array = array_of(default_input)
        self._type = type_of(array)
        self._array, self._buffer = None, None
        self.storage = Storage(checked(copy, array))
        self.name = name or "Parameter"
        self._requires_grad = requires_grad
        self._set_at: Location | None = None
        self.layerwise_parallel = layerwise_parallel
        self.device_settings = {} if parallel_optimizer else {"parallel_optimizer": False}

    @property
    def requires_grad(self) -> bool:
        """Whether it is trained: an optimizer leaves a parameter without it, and its moments, unchanged.

        A change counts from the next step on. A cell is compiled again for it, and a step of `graphls.compile`, which
        never changes, raises GraphRuntimeError.
        """
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value is not self._requires_grad:
            self._requires_grad = value
            self._set_at = user_location()
            Configuration.note_gradient_change()

    @property
    def sharding(self) -> tuple[str | tuple[str, ...] | None, ...]:
        """For each axis the mesh axes that divide it on a mesh of devices, or None: `("model", None)`.

        A change counts from the next compilation on; () or None says that the parameter is whole. Raises
        GraphValueError for another number of axes and for a mesh axis that stands twice, GraphTypeError for anything
        but a tuple or list of names, tuples of names and None.
        """
        axes = self.device_settings.get("sharding", ((),) * len(self.shape))
        return tuple(names if len(names) > 1 else next(iter(names), None) for names in axes)

    @sharding.setter
    def sharding(self, axes: Sequence[str | Iterable[str] | None] | None) -> None:
        sharding = Sharding.of_axes([None] * len(self.shape) if axes in (None, (), []) else axes)
        if (fault := sharding.fault(self.shape, None)) is not None:
            raise GraphValueError(f"Parameter {self.name!r} {fault}.")
        self.device_settings["sharding"] = sharding.axes
        Configuration.note_change()

    @classmethod
    def holding(cls, array: Any, name: str) -> Parameter:
        """A parameter that takes ownership of an array, which must not be shared; only a read-only one is copied.

        What is no array of NumPy is a buffer with a shape and a dtype, which is read when it is needed.
        """
        parameter = cls(np.empty(0, array.dtype), name)
        parameter._type = type_of(array)
        is_array = isinstance(array, np.ndarray)
        parameter.storage = Storage(checked(np.require, array, None, ["C", "A", "W"]) if is_array else array)
        return parameter

    @property
    def array(self) -> Array:
        return self.storage.read()

    def asnumpy(self) -> Array:
        """A copy of the current value; raises TraceError in a trace, where the value belongs to each step."""
        return self.storage.copy() if current_tracer() is None else self.value().asnumpy()

    def item(self) -> Any:
        """The only element as a Python number; raises as `asnumpy`, and GraphValueError where there are more."""
        return super().item() if current_tracer() is None else self.value().item()

    def tolist(self) -> Any:
        """The current value as nested lists; raises as `asnumpy`."""
        return self.asnumpy().tolist()

    def __bool__(self) -> bool:
        return super().__bool__() if current_tracer() is None else bool(self.value())

    @property
    def data(self) -> Tensor:
        """The parameter itself, so that `weight.data.fill_(0.0)` writes it; `weight.data = x` is `set_data`."""
        return self

    @data.setter
    def data(self, data: object) -> None:
        self.set_data(data)

    def value(self) -> Tensor:
        """The current value as a tensor of its own; in a trace, the value at this point of the step."""
        tracer = current_tracer()
        if tracer is not None:
            return Symbol(tracer.current(self))
        tensor = Tensor.on_host(self.storage.copy(), self.type)
        note(SAME, (self,), {}, tensor)
        return tensor

    def set_dtype(self, dtype: DTypeLike) -> DType:
        """Hold the same numbers in another dtype; a step that was compiled before computes in the one it has."""
        new = as_dtype(dtype)
        array = array_of(self.asnumpy(), new)
        self.storage.dtype = array.dtype
        self.storage.replace(array)
        self._type = self._type.with_dtype(new)
        Configuration.note_change()
        return new

    def set_data(self, data: object, slice_shape: bool = False) -> Parameter:
        """Hold other data of the same shape; its dtype is converted to the parameter's.

        With `slice_shape` the shape may be another one; a step that was compiled before goes on with the old data.
        Without, raises GraphValueError where the shape differs.
        """
        array = array_of(data, self.dtype)
        if array.shape != self.shape and slice_shape:
            self.storage, self._type = Storage(copy(array)), type_of(array)
            Configuration.note_change()
        elif array.shape != self.shape:
            message = f"Parameter {self.name!r} holds {self.type} and cannot take the shape {array.shape}."
            raise GraphValueError(message)
        self.storage.replace(copy(array))
        return self

    def _become(self, other: Tensor) -> None:
        function("assign")(self, other)

    def clone(self, init: object = "same") -> Parameter:
        """A new parameter with the same data, or with "zeros", "ones" or a number everywhere."""
        if isinstance(init, str) and init == "same":
            data = self.asnumpy()
        else:
            number = array_of({"zeros": 0, "ones": 1}.get(init, init) if isinstance(init, str) else init, self.dtype)
            data = full(self.shape, number, self.dtype.numpy)
        parameter = Parameter(data, self.name, self.requires_grad, self.layerwise_parallel)
        parameter.device_settings.update(self.device_settings)
        return parameter

    def __repr__(self) -> str:
        flag = f"requires_grad={self.requires_grad}"
        return f"Parameter (name={self.name}, shape={self.shape}, dtype={self.dtype!r}, {flag})"

    def __str__(self) -> str:
        return repr(self)


def _check(default_input: object, **flags: object) -> None:
    """Raise GraphTypeError or GraphValueError for data that MindSpore refuses, and for flags that are not bools."""
    if isinstance(default_input, tuple):
        kinds = "['Tensor', 'int', 'float', 'numpy.ndarray', 'list']"
        message = f"The type of the argument 'default_input' must be in {kinds}. But got type {type(default_input)}."
        raise GraphTypeError(message)
    if isinstance(default_input, bool):
        raise GraphValueError("Parameter data can not be `bool`; give a tensor of it.")
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise GraphTypeError(f"The argument `{name}` must be bool type, not {value!r}.")


BY_PATHS = "name all by their paths: `for path, parameter in net.parameters_and_names(): parameter.name = path`"
"""The advice where parameters of a network share a name."""


class ParameterTuple(tuple[Parameter, ...]):
    """Parameters with different names, in order; raises GraphTypeError and GraphValueError otherwise.

    Examples:
        >>> from graphls import Parameter, ParameterTuple, tensor
        >>> weights = ParameterTuple([Parameter(tensor([1.0]), name="w"), Parameter(tensor([2.0]), name="b")])
        >>> [weight.name for weight in weights]
        ['w', 'b']
    """

    def __new__(cls, parameters: Iterable[Parameter]) -> ParameterTuple:
        if not isinstance(parameters, Iterable):
            raise GraphTypeError(f"A ParameterTuple holds parameters, not {parameters!r}.")
        items = tuple(parameters)
        seen: set[str] = set()
        for item in items:
            if not isinstance(item, Parameter):
                raise GraphTypeError(f"A ParameterTuple holds parameters, not {item!r}.")
            if item.name in seen:
                text = f"The name {item.name!r} already exists, that of another parameter among these"
                raise GraphValueError(f"{text}; {BY_PATHS}, or set `name` of one of them.")
            seen.add(item.name)
        return super().__new__(cls, items)

    def clone(self, prefix: str, init: object = "same") -> ParameterTuple:
        """New parameters named `prefix.name`, with data by `init` (see Parameter.clone)."""
        clones = [p.clone(init) for p in self]
        for clone in clones:
            clone.name = f"{prefix}.{clone.name}"
        return ParameterTuple(clones)
