"""The report of `load_state_dict`: loaded parameters, missing ones and unused tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphls.base.text.html import Page
from graphls.base.text.tables import Table


def counted(number: int, kind: str) -> str:
    """A number with a noun, in the plural if needed."""
    return f"{number} {kind}{'' if number == 1 else 's'}"


@dataclass(frozen=True)
class Loaded:
    """A loaded parameter: its path, its shape, the tensors that form it, and the changes to these."""

    parameter: str
    shape: tuple[int, ...]
    tensors: tuple[str, ...]
    changes: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """The result of loading weights; it prints as a table.

    `loaded` has the loaded parameters, `missing` the others, `unused` the tensors that form no parameter, and `ignored`
    those that are not weights, such as the number of batches that a normalisation has seen.

    Examples:
        >>> import numpy as np
        >>> from graphls import nn
        >>> from graphls.interop.torch import load_state_dict
        >>> weights = {"weight": np.ones((2, 3), np.float32), "head.weight": np.ones((2, 2), np.float32)}
        >>> report = load_state_dict(nn.Dense(3, 2), weights, strict=False)
        >>> report.missing, report.unused
        (('bias',), ('head.weight',))
    """

    origin: str
    loaded: tuple[Loaded, ...]
    missing: tuple[str, ...]
    unused: tuple[str, ...]
    ignored: tuple[str, ...]

    def table(self) -> Table:
        """The loaded parameters, below sentences about the others."""
        rows = [
            (each.parameter, " + ".join(each.tensors), ", ".join(each.changes), str(each.shape)) for each in self.loaded
        ]
        return Table(("parameter", "tensor", "changed", "shape"), rows, 3, [*self._sentences()])

    def _sentences(self) -> Iterator[str]:
        yield f"Loaded from {self.origin}: {counted(len(self.loaded), 'parameter')}."
        texts = (
            (self.missing, "Not loaded", "parameter"),
            (self.unused, "Not used", "tensor"),
            (self.ignored, "Ignored, as no weights", "tensor"),
        )
        for names, text, kind in texts:
            if names:
                yield f"{text}: {counted(len(names), kind)}, {', '.join(names)}."

    def __str__(self) -> str:
        return "\n".join(self.table().lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        page = Page("Loaded weights", self.origin)
        self.table().add_to(page)
        return page.text()
