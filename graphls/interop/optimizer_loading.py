"""Loads the state of an optimizer of PyTorch into one of graphls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.interop.counterparts import Counterpart
from graphls.interop.matching import Tensors, assembled, misfit
from graphls.interop.optimizer_sources import OptimizerState, number_of
from graphls.interop.parameter_mapping import ParameterMapping
from graphls.interop.parameter_order import ADVICE, Row
from graphls.interop.report import Loaded, Report
from graphls.interop.sources import Array, Arrays, array_of
from graphls.nn.optimizers.base import Optimizer

OPTIONAL = ("max_exp_avg_sq", "grad_avg", "momentum_buffer")
"""States that PyTorch stores only with some settings."""


class Loading:
    """The states of an optimizer of PyTorch, matched with those of an optimizer here."""

    def __init__(
        self, optimizer: Optimizer, counterpart: Counterpart, state: OptimizerState, rows: Sequence[Row],
        pattern: str | None,
    ) -> None:  # fmt: skip
        self.optimizer, self.counterpart, self.state, self.pattern = optimizer, counterpart, state, pattern
        self.rows = rows
        self.by_position = [self._known(state.states.get(number, {})) for number in state.numbers]
        present = {key for own in self.by_position for key in own}
        self.keys = [k for k in counterpart.states if hasattr(optimizer, counterpart.states[k])]
        self.required = [key for key in self.keys if key in present or key not in OPTIONAL]
        self.filled = [row for row in rows if all(self._has_all(position) for position in row.positions)]

    @staticmethod
    def _known(own: Mapping[str, Any]) -> dict[str, Any]:
        """The states of a parameter; those that are None are not initialised."""
        return {key: value for key, value in own.items() if value is not None}

    def _has_all(self, position: int) -> bool:
        return all(key in self.by_position[position] for key in self.required)

    def report(self, absent: Sequence[ParameterMapping], names: Sequence[str]) -> Report:
        """The report of loaded, missing and unused states."""
        without = [row.mapping.path for row in self.rows if row not in self.filled]
        without = [] if self.counterpart.begins_without_state else without
        used = {position for row in self.rows for position in row.positions}
        unused = [names[i] for i, own in enumerate(self.by_position) if own and i not in used]
        loaded = tuple(self._loaded(row) for row in self.filled if self.required)
        missing = (*(mapping.path for mapping in absent), *without)
        return Report(self.state.origin, loaded, missing, tuple(unused), ())

    def _loaded(self, row: Row) -> Loaded:
        match = assembled(row.mapping, row.recipe, row.names, self._tensors(self.required[0]))
        names = tuple(f"{key} of {name}" for key in self.required for name in row.names)
        return Loaded(row.mapping.path, row.mapping.parameter.shape, names, match.changes)

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

    def count(self, global_step: int | None) -> int | None:
        """The number of updates so far, by the state or `global_step`; None if it is unknown.

        Raises GraphValueError if parameters differ in it and the formula or the settings depend on it.
        """
        positions = [position for row in self.filled for position in row.positions]
        steps = {int(number_of(own["step"])) for i in positions if "step" in (own := self.by_position[i])}
        if len(steps) > 1 and (self.counterpart.counts or self.optimizer.dynamic_lr):
            counts = " and ".join(map(str, sorted(steps)))
            raise GraphValueError(
                f"Parameters in {self.state.origin} were updated {counts} times, and an optimizer here counts for all "
                "of them together.",
            )
        if steps and global_step is not None and max(steps) != global_step:
            raise GraphValueError(f"{self.state.origin} says that there were {max(steps)} updates, not {global_step}.")
        if not steps and global_step is None and self.optimizer.dynamic_lr:
            raise GraphValueError(
                f"The state in {self.state.origin} does not say how many updates there were, on which the learning "
                "rate depends; give global_step=.",
            )
        return max(steps) if steps else global_step

    def arrays(self) -> Iterator[tuple[Parameter, Array]]:
        """The states here and their new values; raises GraphValueError for values that do not fit."""
        indices = {id(p): i for i, p in enumerate(self.optimizer.parameters)}
        values: list[tuple[Parameter, Array]] = []
        for key in self.required:
            states, tensors = getattr(self.optimizer, self.counterpart.states[key]), self._tensors(key)
            for row in self.filled:
                own = states[indices[id(row.mapping.parameter)]]
                each = assembled(row.mapping, row.recipe, row.names, tensors)
                if text := misfit(own, f"{key} of {row.mapping.path}", each):
                    raise GraphValueError(f"The state in {self.state.origin} does not fit: {text}; {ADVICE}.")
                values.append((own, np.array(each.array, own.dtype.numpy, order="C")))
        self._check_sums(values)
        return iter([*values, *self._initialised(indices)])

    def _check_sums(self, values: Sequence[tuple[Parameter, Array]]) -> None:
        """Raise GraphValueError for sums of 0, by which an Adagrad here divides unless it starts with accum=0.0."""
        if not getattr(self.optimizer, "starts_at_zero", True) and not all(a.all() for _, a in values):
            name = type(self.optimizer).__name__
            raise GraphValueError(f"Some sums in {self.state.origin} are 0; create {name} with accum=0.0.")

    def _initialised(self, indices: Mapping[int, int]) -> Iterator[tuple[Parameter, Array]]:
        """The states of SGD that tell whether a velocity is initialised: 0.0, else 1.0."""
        filled = {id(row.mapping.parameter) for row in self.filled if self.required}
        for parameter, stat in zip(self.optimizer.parameters, getattr(self.optimizer, "stat", ()), strict=False):
            yield stat, np.full(stat.shape, 0.0 if id(parameter) in filled else 1.0, stat.dtype.numpy)


def counts_after(optimizer: Optimizer, count: int | None) -> Iterator[tuple[Parameter, Array]]:
    """The states that count updates, with their values after `count` of them."""
    if count is None:
        return
    yield optimizer.global_step, np.full(optimizer.global_step.shape, count, np.int32)
    for name in ("beta1", "beta2"):
        if isinstance(power := getattr(optimizer, f"{name}_power", None), Parameter):
            yield power, np.full(power.shape, getattr(optimizer, name) ** count, power.dtype.numpy)
