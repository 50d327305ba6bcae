"""What an optimizer here takes of the state of one of PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.interop.counterparts import Counterpart
from graphls.interop.fitting import misfit
from graphls.interop.matching import Tensors, made_of
from graphls.interop.optimizer_sources import OptimizerState, number_of
from graphls.interop.parameter_mapping import Place
from graphls.interop.parameter_order import ADVICE, Row
from graphls.interop.report import Loaded, Report
from graphls.interop.sources import Array, Arrays, array_of
from graphls.nn.optimizers.base import Optimizer

OPTIONAL = ("max_exp_avg_sq", "grad_avg", "momentum_buffer")
"""States that PyTorch keeps only with some settings."""


class Loading:
    """What an optimizer takes of a state."""

    def __init__(
        self, optimizer: Optimizer, counterpart: Counterpart, state: OptimizerState, rows: Sequence[Row],
        pattern: str | None,
    ) -> None:  # fmt: skip
        self.optimizer, self.counterpart, self.state, self.pattern = optimizer, counterpart, state, pattern
        self.rows = rows
        self.by_position = [self._known(state.states.get(number, {})) for number in state.numbers]
        present = {key for own in self.by_position for key in own}
        self.keys = [k for k in counterpart.states if hasattr(optimizer, counterpart.states[k])]
        self.needed = [key for key in self.keys if key in present or key not in OPTIONAL]
        self.filled = [row for row in rows if all(self._has_all(position) for position in row.positions)]

    @staticmethod
    def _known(own: Mapping[str, Any]) -> dict[str, Any]:
        """The states of a parameter; those that are None have not begun."""
        return {key: value for key, value in own.items() if value is not None}

    def _has_all(self, position: int) -> bool:
        return all(key in self.by_position[position] for key in self.needed)

    def report(self, absent: Sequence[Place], names: Sequence[str]) -> Report:
        """What is loaded, and what lacks on both sides."""
        without = [row.place.path for row in self.rows if row not in self.filled]
        without = [] if self.counterpart.begins_without_state else without
        used = {position for row in self.rows for position in row.positions}
        unused = [names[i] for i, own in enumerate(self.by_position) if own and i not in used]
        loaded = tuple(self._loaded(row) for row in self.filled if self.needed)
        missing = (*(place.path for place in absent), *without)
        return Report(self.state.origin, loaded, missing, tuple(unused), ())

    def _loaded(self, row: Row) -> Loaded:
        found = made_of(row.place, row.recipe, row.names, self._tensors(self.needed[0]))
        names = tuple(f"{key} of {name}" for key in self.needed for name in row.names)
        return Loaded(row.place.path, row.place.parameter.shape, names, found.changes)

    def _tensors(self, key: str) -> Tensors:
        """The states of one name, by the names of the parameters; a number becomes an array of the others' shape."""
        arrays: Arrays = {}
        for row in self.filled:
            for name, position in zip(row.names, row.positions, strict=True):
                array = array_of(self.by_position[position][key])
                if key == "mu_product":
                    array = np.full_like(array_of(self.by_position[position]["exp_avg"]), array.reshape(()))
                arrays[name] = array
        return Tensors(arrays, {}, {}, self.pattern)

    def count(self, given: int | None) -> int | None:
        """The number of updates so far; None where nothing says it.

        Raises GraphValueError where parameters differ in it and the formula or the settings depend on it.
        """
        positions = [position for row in self.filled for position in row.positions]
        found = {int(number_of(own["step"])) for i in positions if "step" in (own := self.by_position[i])}
        if len(found) > 1 and (self.counterpart.counts or self.optimizer.dynamic_lr):
            counts = " and ".join(map(str, sorted(found)))
            raise GraphValueError(
                f"Parameters in {self.state.origin} were updated {counts} times, and an optimizer here counts for all "
                "of them together.",
            )
        if found and given is not None and max(found) != given:
            raise GraphValueError(f"{self.state.origin} says that there were {max(found)} updates, not {given}.")
        if not found and given is None and self.optimizer.dynamic_lr:
            raise GraphValueError(
                f"The state in {self.state.origin} does not say how many updates there were, on which the learning "
                "rate depends; give global_step=.",
            )
        return max(found) if found else given

    def arrays(self) -> Iterator[tuple[Parameter, Array]]:
        """The states here and what they become; raises GraphValueError for those that do not fit."""
        indices = {id(p): i for i, p in enumerate(self.optimizer.parameters)}
        found: list[tuple[Parameter, Array]] = []
        for key in self.needed:
            states, tensors = getattr(self.optimizer, self.counterpart.states[key]), self._tensors(key)
            for row in self.filled:
                own = states[indices[id(row.place.parameter)]]
                each = made_of(row.place, row.recipe, row.names, tensors)
                if text := misfit(own, f"{key} of {row.place.path}", each):
                    raise GraphValueError(f"The state in {self.state.origin} does not fit: {text}; {ADVICE}.")
                found.append((own, np.array(each.array, own.dtype.numpy, order="C")))
        self._check_sums(found)
        return iter([*found, *self._begun(indices)])

    def _check_sums(self, found: Sequence[tuple[Parameter, Array]]) -> None:
        """Raise GraphValueError for sums of 0, by which an Adagrad here divides that does not begin with 0."""
        if not getattr(self.optimizer, "starts_at_zero", True) and not all(a.all() for _, a in found):
            name = type(self.optimizer).__name__
            raise GraphValueError(f"Some sums in {self.state.origin} are 0; make {name} with accum=0.0.")

    def _begun(self, indices: Mapping[int, int]) -> Iterator[tuple[Parameter, Array]]:
        """Whether the velocities of an SGD have begun."""
        filled = {id(row.place.parameter) for row in self.filled if self.needed}
        for place, stat in zip(self.optimizer.parameters, getattr(self.optimizer, "stat", ()), strict=False):
            yield stat, np.full(stat.shape, 0.0 if id(place) in filled else 1.0, stat.dtype.numpy)


def counts_after(optimizer: Optimizer, count: int | None) -> Iterator[tuple[Parameter, Array]]:
    """The states that count updates, after so many."""
    if count is None:
        return
    yield optimizer.global_step, np.full(optimizer.global_step.shape, count, np.int32)
    for name in ("beta1", "beta2"):
        if isinstance(power := getattr(optimizer, f"{name}_power", None), Parameter):
            yield power, np.full(power.shape, getattr(optimizer, name) ** count, power.dtype.numpy)
