"""Operations of operations: in order, at random, one of them."""

from __future__ import annotations

from typing import Any

from graphls.dataset.randomness import generator
from graphls.dataset.transforms.checks import probability
from graphls.dataset.transforms.operation import chained, operations


class _Operations:
    """A list of operations and functions; raises GraphTypeError for others, GraphValueError for an empty list."""

    def __init__(self, transforms: Any) -> None:
        self.transforms = operations("transforms", transforms)


class Compose(_Operations):
    """Operations one after the other; what one gives, columns in a tuple, the next one takes."""

    def __call__(self, *columns: Any) -> Any:
        return chained(self.transforms, columns)


class RandomApply(_Operations):
    """All of the operations one after the other, with a probability."""

    def __init__(self, transforms: Any, prob: float = 0.5) -> None:
        super().__init__(transforms)
        self.prob = probability("prob", prob)

    def __call__(self, *columns: Any) -> Any:
        return chained(self.transforms if generator().random() < self.prob else [], columns)


class RandomChoice(_Operations):
    """One of the operations, each as likely as the others."""

    def __call__(self, *columns: Any) -> Any:
        return chained([self.transforms[generator().integers(len(self.transforms))]], columns)


class RandomOrder(_Operations):
    """All of the operations, in random order."""

    def __call__(self, *columns: Any) -> Any:
        return chained([self.transforms[i] for i in generator().permutation(len(self.transforms))], columns)
