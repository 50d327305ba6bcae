"""State dicts of cells: parameters by their paths of attributes, saved and loaded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from graphls.base.errors import GraphRuntimeError, GraphTypeError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import array_of

ADVICE = "strict=False leaves out what lacks, and graphls.interop.torch.load_state_dict takes weights of PyTorch"


class IncompatibleKeys(NamedTuple):
    """The names that a dict lacks, and those that the cell lacks."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class StateDicts:
    """The methods `state_dict` and `load_state_dict` of cells, as MindSpore's cells have them."""

    def parameters_and_names(self, name_prefix: str = "", expand: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Every parameter once, with its path of attributes."""
        raise NotImplementedError

    def state_dict(
        self, *, destination: OrderedDict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> OrderedDict[str, Any]:
        """The parameters by their paths, behind a prefix: themselves, which change with the cell.

        They are added to `destination`, if any. `keep_vars` is accepted and changes nothing.
        """
        states: OrderedDict[str, Any] = OrderedDict() if destination is None else destination
        states.update((prefix + path, parameter) for path, parameter in self.parameters_and_names())
        return states

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Set parameters from tensors or arrays by their paths; returns the missing and the unexpected names.

        Raises GraphRuntimeError for another shape and, if `strict`, for missing or unexpected names; then nothing has
        changed. Raises GraphTypeError for anything but a dict.
        """
        if not isinstance(state_dict, Mapping):
            raise GraphTypeError(f"For 'load_state_dict', the 'state_dict' is a dict of tensors, not {state_dict!r}.")
        own = dict(self.parameters_and_names())
        missing = [path for path in own if path not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        arrays = {path: array_of(state_dict[path]) for path in own if path in state_dict}
        wrong = [
            f"{path!r} has the shape {own[path].shape} and is given {array.shape}"
            for path, array in arrays.items()
            if array.shape != own[path].shape
        ]
        if strict and missing:
            wrong.append(f"the dict lacks {', '.join(map(repr, missing))}")
        if strict and unexpected:
            wrong.append(f"the cell lacks {', '.join(map(repr, unexpected))}")
        if wrong:
            text = f"The dict does not fit the {type(self).__name__}: {'; '.join(wrong)}"
            raise GraphRuntimeError(f"{text}; {ADVICE}.")
        for path, array in arrays.items():
            own[path].set_data(array)
        return IncompatibleKeys(missing, unexpected)
