"""The inputs of a step as a program of XLA takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from graphls.base.sharing.storage import array_in
from graphls.distributed.own_parts import own_region
from graphls.distributed.peers import Peers
from graphls.ir.graph import Value
from graphls.runtime.buffers import in_rows
from graphls.runtime.xla.buffers import XlaBuffer
from graphls.runtime.xla.crossing import Cells, Crossing
from graphls.runtime.xla.processes import require_same_inputs, spread
from graphls.runtime.xla.program import Program, as_words, is_wide

Array = np.ndarray[Any, Any]


class Inputs:
    """The inputs of a program: what the step is fed, and arrays that stay, in which `shared` values cross.

    They may share the memory of arrays, as a step waits for its program. `cells` have what tasks of a pipeline
    exchange. `peers` are the processes of a mesh of several ones, of which each gives its part of an input or all
    of it.
    """

    def __init__(
        self, program: Program, shared: Mapping[Value, Array], cells: Cells, peers: Peers | None
    ) -> None:
        self.program, self.peers = program, peers
        own: Mapping[Value, Any] = {**shared, **cells}
        kinds = ((value, kind.dtype.numpy) for value, kind in program.kinds.items())
        self.kinds = [(v, own.get(v), dtype, dtype.itemsize < 8 and peers is None) for v, dtype in kinds]
        self.uncompared = peers

    def of(self, fed: Mapping[Value, Any]) -> list[Any]:
        """The arrays for this step."""
        if self.uncompared is not None:
            self._compare(self.uncompared, fed)
        arrays = []
        for value, own, dtype, as_it_is in self.kinds:
            array = fed[value] if own is None else own
            if not as_it_is or type(array) is not np.ndarray or array.dtype != dtype or not array.flags.c_contiguous:
                array = self._placed(array, value, dtype)
            arrays.append(array)
        return arrays

    def _placed(self, array: Any, value: Value, dtype: np.dtype[Any]) -> Any:
        kind = self.program.kinds[value]
        if isinstance(array, Crossing):
            return array.at(self.program.jax, self.program.place(value))
        if isinstance(array, XlaBuffer) and not is_wide(kind) and array.array.sharding == self.program.place(value):
            return array.array
        rows = in_rows(array_in(array), dtype)
        own = rows.reshape(-1).view(np.uint32).reshape(*rows.shape, 2) if is_wide(kind) else rows
        if self.peers is None:
            return own
        region = (*own_region(self.program.graph, value), slice(0, 2))
        return spread(self.program.jax, own, region, as_words(kind).shape, self.program.place(value))

    def _compare(self, peers: Peers, fed: Mapping[Value, Any]) -> None:
        """In the first step, require that inputs that processes give completely are the same on all."""
        arrays = {v: array_in(fed[v]) for v in self.program.graph.inputs if v in fed}
        require_same_inputs(peers, {str(v): array for v, array in arrays.items() if array.shape == v.type.shape})
        self.uncompared = None
