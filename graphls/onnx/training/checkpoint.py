"""The state of a training: parameters, gradients, the state of the optimizer, and properties of the user."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from graphls.base.errors import GraphKeyError, GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Array, TensorLike
from graphls.onnx.training.memory import Device, HostMemory, Row
from graphls.onnx.training.parameters import Content, Kind, Property, read, write


class CheckpointState:
    """The state of a training between its steps; create it by `CheckpointState.load_checkpoint`.

    Raises GraphTypeError where it is created in another way.

    Examples:
        >>> import numpy as np
        >>> from graphls import nn, train
        >>> from graphls.onnx import artifacts
        >>> from graphls.onnx.training import CheckpointState
        >>> train.export(nn.Dense(4, 3), np.ones((1, 4), np.float32), file_name="net.onnx", file_format="ONNX")
        >>> loss, adam = artifacts.LossType.MSELoss, artifacts.OptimType.AdamW
        >>> options = {"loss": loss, "optimizer": adam, "artifact_directory": "artifacts"}
        >>> artifacts.generate_artifacts("net.onnx", ["weight", "bias"], **options)
        >>> state = CheckpointState.load_checkpoint("artifacts/checkpoint")
        >>> [(name, parameter.data.shape) for name, parameter in state.parameters]
        [('bias', (3,)), ('weight', (3, 4))]
    """

    def __init__(self, content: Content) -> None:
        if not isinstance(content, Content):
            raise GraphTypeError("A CheckpointState is made by CheckpointState.load_checkpoint(path).")
        self._content = content
        self._kinds = {kind.name: kind for kind in content.kinds}
        self._rows: dict[str, Row] = {}
        self._gradients: Row | None = None
        self._moments: dict[str, Row] = {}
        self._step = HostMemory(1, np.dtype(np.int64))
        self._is_nominal = not content.values and bool(content.kinds)
        self._allocate(Device("cpu"))

    @classmethod
    def load_checkpoint(cls, checkpoint_uri: object) -> CheckpointState:
        """The state in a file that `artifacts` or `save_checkpoint` wrote, nominal or complete.

        Raises GraphFileError for a file that cannot be read, GraphValueError for one of another kind.
        """
        return cls(read(checkpoint_uri))

    @classmethod
    def save_checkpoint(
        cls, state: CheckpointState, checkpoint_uri: object, include_optimizer_state: bool = False
    ) -> None:
        """Write a state to a file atomically, with the moments and the step of the optimizer if these are included.

        Raises GraphFileError where that cannot be, GraphRuntimeError for a nominal state.
        """
        state._require_values()
        current = state._content
        content = Content(current.kinds, {name: state._get(name) for name in state._kinds}, current.properties)
        if include_optimizer_state:
            content.optimizer = current.optimizer
            names = state._names(True)
            content.moments = {name: row.joined(names) for name, row in state._moments.items()} or current.moments
        write(content, checkpoint_uri)

    @property
    def parameters(self) -> Parameters:
        """The parameters by name."""
        return Parameters(self)

    @property
    def properties(self) -> Properties:
        """Numbers and strings of the user by name, which checkpoints contain."""
        return Properties(self)

    def _allocate(self, device: Device) -> None:
        """Move all parameters to the memory of a device."""
        values = {} if self._is_nominal else {name: self._get(name) for name in self._kinds}
        self._rows = {}
        for key in dict.fromkeys(_key(kind) for kind in self._kinds.values()):
            shapes = {kind.name: kind.shape for kind in self._kinds.values() if _key(kind) == key}
            self._rows[key] = Row(shapes, key.rpartition(" ")[2], device)
        if values:
            self._set(values)

    def _row(self, name: str) -> Row:
        return self._rows[_key(self._kinds[name])]

    def _get(self, name: str) -> Array:
        """The value of a parameter: in its memory or, before it is allocated, of the file."""
        return self._row(name).get(name) if self._rows else self._content.values[name]

    def _set(self, values: dict[str, Array]) -> None:
        for key, row in self._rows.items():
            its = {name: value for name, value in values.items() if _key(self._kinds[name]) == key}
            if its:
                row.set(its)

    def _names(self, trained_only: bool) -> list[str]:
        return [kind.name for kind in self._content.kinds if kind.is_trained or not trained_only]

    def _require_values(self) -> None:
        if self._is_nominal:
            text = "A nominal checkpoint has no values of parameters"
            raise GraphRuntimeError(f"{text}; give them by module.copy_buffer_to_parameters(buffer, False) first.")


def _key(kind: Kind) -> str:
    """The key of the row of a parameter: trained and frozen parameters of a dtype have a row each."""
    return f"{'trained' if kind.is_trained else 'frozen'} {kind.dtype}"


class Parameter:
    """A parameter of a state."""

    def __init__(self, kind: Kind, state: CheckpointState) -> None:
        self._kind = kind
        self._state = state

    @property
    def name(self) -> str:
        """Its name in the model."""
        return self._kind.name

    @property
    def data(self) -> Array:
        """A copy of its value."""
        return self._state._get(self.name)

    @data.setter
    def data(self, value: TensorLike) -> None:
        """Set its value; raises GraphValueError for another shape or dtype."""
        array, kind = np.asarray(value), self._kind
        if (array.shape, array.dtype.name) != (kind.shape, kind.dtype):
            declared, other = f"{kind.dtype}{list(kind.shape)}", f"{array.dtype}{list(array.shape)}"
            raise GraphValueError(f"The parameter {self.name!r} is {declared}, and is not set to {other}.")
        self._state._require_values()
        self._state._set({self.name: array})

    @property
    def grad(self) -> Array | None:
        """A copy of its gradient; None where it has none."""
        gradients = self._state._gradients
        return gradients.get(self.name) if gradients is not None and self.requires_grad else None

    @property
    def requires_grad(self) -> bool:
        """True for a trained parameter."""
        return self._kind.is_trained

    def __repr__(self) -> str:
        return f"Parameter(name={self.name}, requires_grad={self.requires_grad})"


class Parameters:
    """The parameters of a state, by name."""

    def __init__(self, state: CheckpointState) -> None:
        self._state = state

    def __getitem__(self, name: str) -> Parameter:
        """A parameter; raises GraphKeyError for a name that none has."""
        if name not in self:
            raise GraphKeyError(f"Parameter {name} not found.")
        self._state._require_values()
        return Parameter(self._state._kinds[name], self._state)

    def __setitem__(self, name: str, value: TensorLike) -> None:
        """Set the value of a parameter; raises GraphKeyError and, for another shape or dtype, GraphValueError."""
        self[name].data = value

    def __contains__(self, name: object) -> bool:
        return name in self._state._kinds

    def __iter__(self) -> Iterator[tuple[str, Parameter]]:
        """Pairs of names and parameters, in the order of the names."""
        return ((name, self[name]) for name in sorted(self._state._kinds))

    def __len__(self) -> int:
        return len(self._state._kinds)

    def __repr__(self) -> str:
        return str(sorted(self._state._kinds))


class Properties:
    """The properties of a state: integers, floats and strings by name."""

    def __init__(self, state: CheckpointState) -> None:
        self._properties = state._content.properties

    def __getitem__(self, name: str) -> Property:
        """A property; raises GraphKeyError for a name that none has."""
        if name not in self:
            raise GraphKeyError(f"Property {name} not found.")
        return self._properties[name]

    def __setitem__(self, name: str, value: Property) -> None:
        """Set a property; raises GraphTypeError for a value of another type than integer, float and string."""
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise GraphTypeError(f"A property is an integer, a float or a string, not {value!r}.")
        self._properties[name] = value

    def __contains__(self, name: object) -> bool:
        return name in self._properties

    def __iter__(self) -> Iterator[tuple[str, Property]]:
        """Pairs of names and values, in the order of the names."""
        return iter(sorted(self._properties.items()))

    def __len__(self) -> int:
        return len(self._properties)

    def __repr__(self) -> str:
        return str(sorted(self._properties))
