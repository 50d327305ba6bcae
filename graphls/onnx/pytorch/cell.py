"""The cell of a module of PyTorch: its exports in both modes over one set of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from inspect import Parameter as Argument
from inspect import Signature
from typing import Any, ClassVar, SupportsIndex

from onnx import ModelProto

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import is_tensor
from graphls.nn.cell import Cell
from graphls.onnx.analysis import KnownConstants
from graphls.onnx.cell import OnnxCell, checked_input
from graphls.onnx.importing.files import Original
from graphls.onnx.interpreter import Interpreter
from graphls.onnx.program import Program, program_of
from graphls.onnx.pytorch.structure import Structure, filled, leaves_of
from graphls.onnx.pytorch.writing import write_back
from graphls.onnx.selection import BUFFERS
from graphls.onnx.tensors import Stored
from graphls.onnx.values import Dynamic, Input, plain, value_of
from graphls.ops.operands import tensor_of
from graphls.ops.state import assign, stop_gradient

_OPENING = "from_torch(..., dynamic_shapes=...) opens other axes than the first"
Arguments = tuple[tuple[str, Structure], ...]
"""The arguments of `forward` that have tensors, by name, with the structure of each."""


@dataclass
class ModeSource:
    """What a mode is read from, again in copies: the bytes of its model, and the names of its tensors.

    `updates` names the new value of each buffer that the forward pass writes.
    """

    data: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    results: Structure
    updates: dict[str, str]


@dataclass(eq=False)
class Mode:
    """A module in training or in evaluation mode, whose named constants are parameters of the cell."""

    source: ModeSource
    training: bool
    parameters: Mapping[str, Parameter]
    program: Program = field(init=False)
    constants: dict[Stored, Input] = field(init=False)

    def __post_init__(self) -> None:
        model = ModelProto.FromString(self.source.data)
        outputs = (*self.source.outputs, *self.source.updates.values())
        self.program = program_of(model, None, outputs, has_own_states=False)
        analysis = KnownConstants()
        analysis.block(self.program.main)
        free = [stored for stored in self.program.stored if stored not in analysis.known]
        self.constants = {s: self.parameters[s.name] for s in free if s.name in self.parameters}

    def constant(self, stored: Stored) -> Input:
        """The parameter of a tensor of the module, else its value."""
        if stored not in self.constants:
            self.constants[stored] = value_of(stored.array)
        return self.constants[stored]

    def _input(self, name: str, value: Any) -> Any:
        """An input that fits; raises GraphlsError for another type, or another size of an axis that is fixed."""
        declared = self.program.types.get(name)
        checked = checked_input(name, declared, value)
        dims = declared.tensor_type.shape.dim if declared is not None else ()
        for axis, (dim, size) in enumerate(zip(dims, tensor_of(value).shape, strict=True)):
            if dim.HasField("dim_value") and dim.dim_value != size:
                text = f"Axis {axis} of the input {name!r} has the size {size}, and is exported with {dim.dim_value}"
                cause = "the module uses it as a number, as len(x) does, where x.shape[0] keeps it open"
                raise GraphValueError(f"{text}; {cause if not axis else _OPENING}.")
        return checked

    def run(self, leaves: Sequence[Any]) -> Any:
        """The results of the module for the tensors of its inputs; writes the buffers that it updates."""
        block, by_name = self.program.main, dict(zip(self.source.inputs, leaves, strict=True))
        operands = [self._input(name, by_name[name]) for name in block.inputs]
        values = [plain(value) for value in Interpreter(self, is_exact=True).run(block, operands)]
        for value in values:
            if isinstance(value, Dynamic):
                value.refuse()
        count = len(self.source.outputs)
        for name, value in zip(self.source.updates, values[count:], strict=True):
            assign(self.parameters[name], stop_gradient(value))
        return filled(self.source.results, [tensor_of(y) if is_tensor(y) else y for y in values[:count]])


class TorchCell(OnnxCell):
    """A network that is a module of PyTorch; `graphls.from_torch` creates it.

    Its parameters and buffers have their names in the module. In training mode it computes what the module does in its
    own training mode, in evaluation mode what it does there. `graphls.onnx.save` writes the model for evaluation.
    """

    arguments: ClassVar[Arguments]
    modes: list[Mode]

    def __init__(
        self, sources: Sequence[ModeSource], parameters: Mapping[str, Parameter],
        written: Mapping[str, Sequence[str]], buffers: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """A cell of the module in evaluation mode and perhaps in training mode.

        `written` are the parameters that `to_torch` writes, with all their names in the module.
        """
        Cell.__init__(self)
        self.__dict__.update(_frozen_reasons=dict.fromkeys(buffers, BUFFERS))
        self.__dict__.update(_fixed={}, _fallback=None, _with_sources=None, _names_tensors=False)
        self.__dict__.update(original=Original(sources[0].data), _sources=tuple(sources), _written=dict(written))
        self._params.update(parameters)
        self._changed()
        self._read_modes()

    def _read_modes(self) -> None:
        parameters = {name: value for name, value in self._params.items() if isinstance(value, Parameter)}
        modes = [Mode(source, bool(i), parameters) for i, source in enumerate(self.__dict__["_sources"])]
        self.__dict__.update(modes=modes, program=modes[0].program, _constants=modes[0].constants, shaping=[])

    @property
    def mode(self) -> Mode:
        """The module as the cell runs it now: the last of its modes in training, the first in evaluation."""
        return self.modes[-1] if self.training else self.modes[0]

    def _construct(self, values: Sequence[Any]) -> Any:
        leaves = [
            leaf
            for (name, structure), value in zip(self.arguments, values, strict=True)
            for leaf in leaves_of(structure, value, name)
        ]
        for leaf in leaves:
            if not is_tensor(leaf):
                raise GraphTypeError(f"The inputs of a module of PyTorch are tensors here, not {type(leaf).__name__}.")
        return self.mode.run(leaves)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return Cell.__call__(self, *args, **options)

    def to_torch(self, module: Any) -> None:
        """Write the current parameters, and the buffers that training updates, into a module of PyTorch, in place.

        The module is the one that the cell comes from or another whose tensors have the same names, shapes and dtypes;
        tensors that are one here are written under all their names. Raises GraphTypeError for what is not a module,
        GraphValueError where a tensor is missing or differs in shape or dtype; then nothing is written.
        """
        parameters = self.modes[0].parameters
        write_back([(parameters[name], names) for name, names in self.__dict__["_written"].items()], module)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[object, ...]:
        return _empty, (self.arguments,), self.__getstate__()

    def __getstate__(self) -> dict[str, Any]:
        derived = ("modes", "program", "_constants")
        return {name: value for name, value in Cell.__getstate__(self).items() if name not in derived}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        self._read_modes()


def require_computable(kind: str, modes: Sequence[Mode]) -> None:
    """Raise GraphValueError where a mode of a module has operators that graphls does not compute."""
    faults = {fault.partition(" '")[0]: fault for mode in modes for fault in mode.program.faults}
    if faults:
        listed = ", ".join(list(faults.values())[:8])
        raise GraphValueError(f"PyTorch exports {kind} with operators that graphls does not compute: {listed}.")


@cache
def cell_class(arguments: Arguments) -> type[TorchCell]:
    """The class of cells whose `construct` takes arguments of these names and structures."""

    def construct(self: TorchCell, *values: Any) -> Any:
        return self._construct(values)

    names = [name for name, _ in arguments]
    parameters = [Argument(name, Argument.POSITIONAL_OR_KEYWORD) for name in ("self", *names)]
    construct.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    attributes = {
        "construct": construct, "arguments": arguments, "argument_names": tuple(names), "__module__": __name__,
        "__doc__": TorchCell.__doc__,
    }  # fmt: skip
    return type("TorchCell", (TorchCell,), attributes)


def _empty(arguments: Arguments) -> TorchCell:
    """A cell of this class that a copy or a pickle fills with its attributes."""
    kind = cell_class(arguments)
    return kind.__new__(kind)
