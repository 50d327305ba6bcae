"""What a step shows of its values while it runs: tensors that are printed, or written to a summary.

Outside of a graph that happens at once. A graph keeps the values in states of its own, so that it can be
in an answer of an `if`, too; a compiled step looks behind each call whether there are new ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphls.ir.reporting import warn
from graphls.ir.types import int64
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Tensor
from graphls.trace.current import current_tracer
from graphls.trace.states import Array, Report, Show


def report(tensors: Sequence[Tensor], show: Show) -> None:
    """Show tensors: now, or where a graph is being traced, whenever it has run.

    What one iteration of a loop has is not kept, so there it is a warning.
    """
    tracer = current_tracer()
    if tracer is None:
        show([tensor.asnumpy() for tensor in tensors])
        return
    if tracer.here.in_loop:
        warn("A tensor in the function of a loop is not shown; give it as a result of the loop.")
        return
    made: Report = tracer.kept("report", lambda: _new(tensors, show))
    if not any(made is known for known in tracer.reports):
        tracer.reports.append(made)
    for parameter, tensor in zip(made.values, tensors, strict=True):
        tracer.write(parameter, tensor)
    (count,) = tracer.emit("add", (tracer.current(made.count), tracer.constant(np.array(1, int64.numpy))), {})
    tracer.set_written(made.count, count)


def _new(tensors: Sequence[Tensor], show: Show) -> Report:
    values = [_state(np.zeros(tensor.shape, tensor.dtype.numpy)) for tensor in tensors]
    return Report(values, _state(np.zeros((), np.int64)), show)


def _state(array: Array) -> Parameter:
    return Parameter(array, name="report", requires_grad=False)
