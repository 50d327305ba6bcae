"""The parameters that a compiled step trains, which must require gradients as they did when the step was traced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from graphls.base.errors import GraphRuntimeError
from graphls.base.reporting import warn
from graphls.frontend.tensors.configuration import Configuration
from graphls.frontend.tensors.parameter import Parameter
from graphls.ir.graph import Graph
from graphls.nn.optimizers.base import Optimizer


class TrainedParameters:
    """The parameters that a step writes or that its optimizers have, and those that it only reads.

    A step is compiled for the `requires_grad` of the first: a change makes it out of date. Of the others it warns,
    once, where one is to be trained from now on. Parameters count their changes (`Configuration.gradient_changes`), so
    that a step without any compares one number.
    """

    def __init__(self, graph: Graph, parameters: Mapping[str, Parameter], cells: Iterable[object]) -> None:
        optimized = [p for cell in cells if isinstance(cell, Optimizer) for p in cell.parameters]
        trained = {id(p): p for p in [*(parameters[write.state.name] for write in graph.writes), *optimized]}
        self.changes = Configuration.gradient_changes
        self.flags = [(parameter, parameter.requires_grad) for parameter in trained.values()]
        self.frozen = [p for p in parameters.values() if optimized and not p.requires_grad and id(p) not in trained]
        self.changed: list[Parameter] = []

    def have_changed(self) -> bool:
        """Whether one that the step trains or leaves is to be left or trained by now."""
        if self.changes != Configuration.gradient_changes:
            self.changes = Configuration.gradient_changes
            self.changed = [parameter for parameter, flag in self.flags if parameter.requires_grad is not flag]
            self._warn_of_others()
        return bool(self.changed)

    def check(self) -> None:
        """Raise GraphRuntimeError, with the line of the change, for a step that is out of date."""
        if not self.have_changed():
            return
        first = self.changed[0]
        names = [p.name for p in self.changed if p.requires_grad is first.requires_grad]
        text = f"{_subject(first, names)}, but this step was compiled before and never changes"
        raise GraphRuntimeError(f"{text}; compile it again, or set requires_grad back.")

    def _warn_of_others(self) -> None:
        """Warn of parameters that are to be trained and that no optimizer of the step has."""
        unfrozen = [parameter for parameter in self.frozen if parameter.requires_grad]
        if unfrozen:
            self.frozen = [parameter for parameter in self.frozen if not parameter.requires_grad]
            names = [parameter.name for parameter in unfrozen]
            advice = "make an optimizer of all parameters that it shall train, and a step of that"
            warn(f"{_subject(unfrozen[0], names)}, and no optimizer of this step has it; {advice}.")


def _subject(first: Parameter, names: Sequence[str]) -> str:
    """The sentence that names parameters, what was set, and the line that set it for the first of them."""
    others = f" (and of {repr(names[1]) if len(names) == 2 else f'{len(names) - 1} others'})" if len(names) > 1 else ""
    line = first._set_at
    return f"requires_grad of {names[0]!r}{others} was set to {first.requires_grad}{f' at {line}' if line else ''}"
