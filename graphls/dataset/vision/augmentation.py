"""Operations chosen at random from a list."""

from __future__ import annotations

from typing import Any

from graphls.dataset.randomness import generator
from graphls.dataset.transforms.checks import integer, probability, type_error, value_error
from graphls.dataset.transforms.operation import chained, operations


class UniformAugment:
    """`num_ops` different operations of a list one after the other, each with a probability drawn anew.

    Raises GraphTypeError or GraphValueError, also for a list that is too short.
    """

    def __init__(self, transforms: Any, num_ops: int = 2) -> None:
        self.num_ops = integer("num_ops", num_ops, 1)
        self.transforms = operations("transforms", transforms)
        if self.num_ops > len(self.transforms):
            raise value_error(f"num_ops is {num_ops}, but there are only {len(self.transforms)} transforms.")

    def __call__(self, *columns: Any) -> Any:
        draw = generator()
        chosen = draw.permutation(len(self.transforms))[: self.num_ops]
        return chained([self.transforms[i] for i in chosen if draw.random() < draw.random()], columns)


class RandomSelectSubpolicy:
    """One of several lists of (operation, probability) pairs, whose operations happen one after the other.

    Raises GraphTypeError or GraphValueError.
    """

    def __init__(self, policy: Any) -> None:
        if not isinstance(policy, list):
            raise type_error("policy", policy, "a list of lists of (operation, probability)")
        if not policy:
            raise value_error("The list policy must not be empty.")
        self.policy = [_subpolicy(f"policy[{place}]", item) for place, item in enumerate(policy)]

    def __call__(self, *columns: Any) -> Any:
        draw = generator()
        chosen = self.policy[draw.integers(len(self.policy))]
        return chained([operation for operation, prob in chosen if draw.random() < prob], columns)


def _subpolicy(name: str, value: Any) -> list[tuple[Any, float]]:
    if not isinstance(value, (list, tuple)):
        raise type_error(name, value, "a list of (operation, probability)")
    if not value:
        raise value_error(f"The list {name} must not be empty.")
    for pair in value:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise type_error(name, pair, "an (operation, probability) pair")
    operations(name, [operation for operation, _ in value])
    return [(operation, probability(name, prob)) for operation, prob in value]
