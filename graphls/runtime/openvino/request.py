"""Inference requests that run a compiled model on bound arrays."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from operator import getitem
from typing import Any

import numpy as np

from graphls.runtime.lowering.ports import Ports
from graphls.runtime.openvino.runtime import load_openvino

Array = np.ndarray[Any, Any]


class Request:
    """One run of a model at a time, on the arrays that its inputs and outputs, by their names, are bound to.

    `flags` are the arrays of the numbers that it gives beside the values of the graph. That of the fault is the number
    of a node that was given an index out of range, and 0 where all is well; see indices.py.
    """

    def __init__(self, model: Any, ports: Ports, flags: Mapping[str, Array]) -> None:
        self._retained: dict[str, Array] = {}
        self._request = model.create_infer_request()
        self._ports = {name: port for port in model.inputs for name in port.get_names()}
        # Results that are one constant have the names of all of them: each takes one that is left.
        left = {*ports.outputs, *ports.writes.values(), *flags}
        for port in model.outputs:
            name = next(iter(left.intersection(port.get_names())))
            left.remove(name)
            self._ports[name] = port
        self._tensor: Any = partial(load_openvino().Tensor, shared_memory=True)
        self._calls = [partial(self._request.start_async, {}, None), partial(self._request.wait)]
        for name, flag in flags.items():
            self.bind(name, flag)
        if ports.guarded:
            self._calls.append(partial(getitem, (None,), flags[ports.fault]))  # an IndexError where it is not 0

    def bind(self, name: str, array: Array) -> None:
        """Read or write this array, in row-major order, from now on; nothing reads an input that the model lacks."""
        if name in self._ports:
            array = array if array.flags.writeable else array.copy()  # OpenVINO shares no memory that is read only
            self._request.set_tensor(self._ports[name], self._tensor(array))
            self._retained[name] = array  # which the tensor does not

    def call(self) -> partial[object]:
        """A callable that runs the model and is no Python function."""
        return partial(deque, map(partial.__call__, self._calls), 0)

    def times(self) -> Iterator[tuple[str, str, int]]:
        """The name and the kind of each operator that ran, and the mean of its time in microseconds."""
        for info in self._request.profiling_info:
            if info.status.name == "EXECUTED":
                yield info.node_name, info.node_type, round(1e6 * info.real_time.total_seconds())
