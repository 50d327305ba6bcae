"""Recorded eager operations as a function that can be differentiated."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from graphls.base.errors import TraceError
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tape import COMPILED, SAME, Noted
from graphls.frontend.tensors.tensor import Tensor
from graphls.ir.compare import key_of_constant
from graphls.ops.directions import vjp

Source = tuple[str, Any]
"""The source of an operand: ("value", its number), ("constant", its number), or ("number", itself)."""


class Replayed:
    """The results as a function of the sources and of the constants of the recorded operations.

    Only operations that depend on the sources are replayed. `key` is equal for the same operations on other numbers;
    None where attributes are not hashable. Raises TraceError where a compiled step takes part, or a trained parameter
    that is not a source.
    """

    def __init__(self, noted: Sequence[Noted], sources: Sequence[Tensor], results: Sequence[Tensor]) -> None:
        self.number = {id(source): i for i, source in enumerate(sources)}
        self.count = len(sources)
        self.constants: list[Tensor] = []
        self.steps: list[tuple[str, tuple[Source, ...], Any, int, int]] = []
        for each in noted:
            self._append(each)
        self.results = tuple(map(self._place, results))

    def _append(self, noted: Noted) -> None:
        if not any(id(x) in self.number or _is_trained(x) for x in noted.operands):
            for result in noted.results:
                self.number.pop(id(result), None)  # a tensor may have become another one in place
            return
        if noted.primitive == COMPILED:
            text = "A hook that gives something computes with a compiled function, which has no gradient there"
            raise TraceError(f"{text}; call what that was made of.")
        places = tuple(map(self._place, noted.operands))
        if noted.primitive == SAME:
            kind, number = places[0]
            assert kind == "value"
            self.number[id(noted.results[0])] = number
            return
        self.steps.append((noted.primitive, places, noted.attrs, self.count, len(noted.results)))
        for result in noted.results:
            self.number[id(result)] = self.count
            self.count += 1

    def _place(self, operand: Any) -> Source:
        number = self.number.get(id(operand))
        if number is not None:
            return "value", number
        if _is_trained(operand):
            text = f"A hook that gives something reads {operand.name!r}, for which its gradient is not known"
            raise TraceError(f"{text}: it also reads numbers, so that it is not traced; take the one or the other.")
        if not isinstance(operand, (Tensor, np.ndarray)):
            return "number", operand
        self.constants.append(operand if isinstance(operand, Tensor) else Tensor(operand))
        return "constant", len(self.constants) - 1

    @property
    def key(self) -> Hashable:
        """The cache key of this function."""
        try:
            steps = [
                (name, *map(_key, places), *attrs, *map(key_of_constant, attrs.values()))
                for name, places, attrs, _, _ in self.steps
            ]
            return (self.count, *steps, *map(_key, self.results))
        except TypeError:
            return None

    def __call__(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The results for sources and constants."""
        constants = tensors[len(tensors) - len(self.constants) :]
        values = dict(enumerate(tensors[: len(tensors) - len(self.constants)]))

        def resolved(place: Source) -> Any:
            kind, item = place
            return item if kind == "number" else values[item] if kind == "value" else constants[item]

        for name, places, attrs, first, _ in self.steps:
            outputs = dispatch.apply(name, *map(resolved, places), **attrs)
            values.update(enumerate(outputs if isinstance(outputs, tuple) else (outputs,), first))
        return tuple(map(resolved, self.results))

    def pulled(self, tensors: tuple[Tensor, ...], seeds: tuple[Tensor, ...]) -> Any:
        """The gradients by sources and constants, in a trace."""
        return vjp(self, *tensors)[1](*seeds)


def _key(place: Source) -> Hashable:
    return place[0], key_of_constant(place[1])


def _is_trained(operand: object) -> bool:
    return isinstance(operand, Parameter) and operand.requires_grad
