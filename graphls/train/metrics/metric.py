"""The base class of metrics, with checks of their inputs and arguments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from functools import wraps
from typing import Any, ClassVar, TypeVar

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Tensor

Array = np.ndarray[Any, Any]
Method = TypeVar("Method", bound=Callable[..., Any])


def as_array(x: object) -> Array:
    """A tensor, a list or an array as an array; raises GraphTypeError for anything else."""
    if isinstance(x, Tensor):
        return x.asnumpy()
    if isinstance(x, (list, np.ndarray)):
        return np.asarray(x)
    raise GraphTypeError(f"A metric takes tensors, lists and arrays, not {type(x).__name__}.")


class Metric(ABC):
    """A number, or several, about all batches of an evaluation: `clear`, `update` for each batch, `eval`.

    `indexes` are the positions of the outputs of the evaluation network that `update` takes, or None for all.

    Examples:
        >>> import numpy as np
        >>> from graphls.train import Metric
        >>> class Largest(Metric):
        ...     def clear(self):
        ...         self.largest = 0.0
        ...     def update(self, *inputs):
        ...         self.largest = max(self.largest, float(inputs[0].max()))
        ...     def eval(self):
        ...         return self.largest
        >>> metric = Largest()
        >>> metric.clear()
        >>> metric.update(np.array([0.5, 2.0]))
        >>> metric.eval()
        2.0
    """

    _convert_data = staticmethod(as_array)

    inputs: ClassVar[tuple[str, ...]] = ("predicted value", "true value")
    """The arguments of `update`, by name."""

    def __init__(self) -> None:
        self._indexes: list[int] | None = None

    @property
    def indexes(self) -> list[int] | None:
        """The positions of the outputs that `update` takes."""
        return self._indexes

    def set_indexes(self, indexes: object) -> Metric:
        """Take these outputs of the evaluation network, such as [0, 2]; returns the metric.

        Raises GraphValueError for anything but a list of integers of 0 or more.
        """
        if not isinstance(indexes, list) or not all(type(i) is int for i in indexes):
            message = "For 'set_indexes', the argument 'indexes' should be a list and all its elements should be int, "
            raise GraphValueError(f"{message}but got {indexes!r}.")
        self._indexes = indexes
        return self

    @abstractmethod
    def clear(self) -> None:
        """Forget all batches."""

    @abstractmethod
    def update(self, *inputs: object) -> None:
        """Add one batch."""

    @abstractmethod
    def eval(self) -> Any:
        """The metric of all batches since `clear`; raises GraphRuntimeError where there were none."""

    def __call__(self, *inputs: object) -> Any:
        """The metric of one batch alone; earlier batches are forgotten."""
        self.clear()
        self.update(*inputs)
        return self.eval()

    def _arrays(self, inputs: tuple[object, ...]) -> list[Array]:
        """The inputs of `update` as arrays; raises GraphValueError for another number of them."""
        self._check_number(inputs)
        return [as_array(x) for x in inputs]

    def _check_number(self, inputs: tuple[object, ...]) -> None:
        if len(inputs) != len(self.inputs):
            raise GraphValueError(
                f"For '{type(self).__name__}.update', it needs {len(self.inputs)} inputs "
                f"({', '.join(self.inputs)}), but got {len(inputs)}.",
            )

    def _check_not_empty(self, count: object) -> None:
        if not count:
            name = type(self).__name__
            raise GraphRuntimeError(
                f"The '{name}' can not be calculated, because the number of samples is 0; call update before eval, "
                "with inputs that are not empty.",
            )


def rearrange_inputs(update: Method) -> Method:
    """Make an `update` take only the outputs that `set_indexes` has named, for metrics of your own.

    Examples:
        >>> import numpy as np
        >>> from graphls.train import Metric, rearrange_inputs
        >>> class Mean(Metric):
        ...     def clear(self):
        ...         self.values = []
        ...     @rearrange_inputs
        ...     def update(self, *inputs):
        ...         self.values.append(float(np.mean(inputs[0])))
        ...     def eval(self):
        ...         return sum(self.values) / len(self.values)
        >>> metric = Mean().set_indexes([1])
        >>> metric.clear()
        >>> metric.update(np.array([9.0]), np.array([1.0, 2.0]))
        >>> metric.eval()
        1.5
    """

    @wraps(update)
    def rearranged(self: Metric, *inputs: object) -> Any:
        indexes = self.indexes
        return update(self, *(inputs if indexes is None else [inputs[i] for i in indexes]))

    return rearranged  # type: ignore[return-value]


def is_one_hot(x: Array) -> bool:
    """Returns whether x holds zeros, and a single 1 along axis 1."""
    return bool(x.ndim > 1 and np.isin(x, (0, 1)).all() and (x.sum(axis=1) == 1).all())


class Mean(Metric):
    """A sum over all batches, divided by the number of samples."""

    def __init__(self) -> None:
        super().__init__()
        self.clear()

    def clear(self) -> None:
        self._sum = 0.0
        self._samples_num = 0

    def eval(self) -> float:
        self._check_not_empty(self._samples_num)
        return self._sum / self._samples_num


def wrong(owner: object, text: str) -> GraphValueError:
    """The error for inputs or arguments that do not fit a metric."""
    return GraphValueError(f"For '{type(owner).__name__}', {text}.")


def misfit(owner: object, expected: str, *arrays: Array) -> GraphValueError:
    """The error for arrays of the wrong shapes."""
    shapes = " and ".join(str(array.shape) for array in arrays)
    return GraphValueError(f"{type(owner).__name__} takes {expected}, not {shapes}.")


def check_type(owner: object, name: str, value: object, kind: type) -> None:
    """Raise GraphTypeError unless the value is of exactly this type, so that True is not an int."""
    if type(value) is not kind:
        raise GraphTypeError(
            f"For '{type(owner).__name__}', the argument {name!r} must be {kind.__name__}, not {value!r}.",
        )


def check_choice(owner: object, name: str, value: object, choices: Collection[str]) -> None:
    """Raise GraphTypeError for anything but a str, and GraphValueError for one that is not among the choices."""
    check_type(owner, name, value, str)
    if value not in choices:
        raise wrong(owner, f"the argument {name!r} must be one of {', '.join(choices)}, not {value!r}")
