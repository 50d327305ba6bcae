"""Host calls in a trace: nodes that call Python, and prints inside branches and loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphls.base.errors import TraceError
from graphls.base.location import Location, user_location
from graphls.base.reporting import warn
from graphls.frontend.trace.tracer import Tracer
from graphls.ir.graph import Value
from graphls.ir.types import Type
from graphls.primitives.host import HostFunction


@dataclass(frozen=True)
class Shown:
    """A print of values in a branch or in each iteration of a loop: an effect without results.

    It stands after the branches or the loop, because these run in a runtime, without Python. `loops` are the numbers
    of iterations of the loops that it has left so far, which are the first axes of its values.
    """

    primitive: str
    values: tuple[Value, ...]
    attrs: Mapping[str, Any]
    guard: Value | None
    loops: tuple[int, ...]
    phase: str
    scope: str
    loc: Location | None


def host_function(
    tracer: Tracer, wish: str, function: Callable[..., Any], wrapped: Callable[..., Any], *how: object
) -> HostFunction:
    """A function with its name in the graph, and `wrapped`, which calls it in a way that `how` identifies.

    One function called in one way has one name, so that equal calls are equal nodes, and no two have the same.
    """
    key = (id(getattr(function, "__self__", None)), id(getattr(function, "__func__", function)), *how)
    if key not in tracer.functions:
        # The function is retained, as another one might get its id.
        tracer.functions[key] = tracer.function_names.fresh(wish), function
    return HostFunction(tracer.functions[key][0], wrapped, user_location())


def call_python(
    tracer: Tracer, primitive: str, function: HostFunction, values: Sequence[Value], results: Sequence[Type]
) -> tuple[Value, ...]:
    """The results of a function in the step; raises TraceError in a branch of a condition and in a loop."""

    def emit_call() -> tuple[Value, ...]:
        here = tracer.here
        if here.in_loop or here.in_branch:
            where = "the function of a loop" if here.in_loop else "a branch of a condition on a tensor"
            text = f"{function} is Python and cannot be called in {where}, which runs without Python; call it before or"
            raise TraceError(f"{text} after it, or choose between the results with ops.where.", function.location)
        attrs = {"function": function, "results": tuple(map(str, results))}
        return _emitted(tracer, primitive, values, attrs, here.phase, here.scope, function.location)

    outputs: tuple[Value, ...] = tracer.recorded(primitive, emit_call)
    return outputs[len(outputs) - len(results) :]


def show(tracer: Tracer, primitive: str, values: Sequence[Value], attrs: Mapping[str, Any]) -> None:
    """Emit an effect that shows values whenever the graph runs."""
    here = tracer.here
    item = Shown(primitive, tuple(values), attrs, None, (), here.phase, here.scope, user_location())
    tracer.recorded("show", lambda: show_here(tracer, item))


def show_here(tracer: Tracer, item: Shown) -> None:
    """Emit a print here, or after the running branch or loop."""
    if tracer.here.in_branch or tracer.here.in_loop:
        tracer.here.shown.append(item)
        return
    values, attrs = item.values, item.attrs
    if item.guard is not None:
        values, attrs = (item.guard, *values), {**attrs, "guarded": True}
    if item.loops:
        attrs = {**attrs, "loops": item.loops}
    _emitted(tracer, item.primitive, values, attrs, item.phase, item.scope, item.loc)


def behind_loop(item: Shown, rows: Iterator[Value], length: int) -> Shown:
    """The prints of a loop's iterations, moved after the loop; `rows` has the guard and the values, stacked."""
    guard = item.guard and next(rows)
    return replace(item, guard=guard, values=tuple(next(rows) for _ in item.values), loops=(length, *item.loops))


def in_reverse(tracer: Tracer, item: Shown) -> Shown:
    """The prints of a reversed loop: the last row first."""

    def turned(value: Value) -> Value:
        return tracer.builder.emit("reverse", (value,), {"axes": (0,)})[0]

    return replace(item, guard=item.guard and turned(item.guard), values=tuple(map(turned, item.values)))


def warn_of_lost(shown: Iterable[Shown]) -> None:
    """Warn of prints that are dropped because the number of iterations is not known."""
    for item in shown:
        at = f" ({item.loc})" if item.loc else ""
        warn(f"A tensor in a loop whose number of iterations the graph decides is not shown{at}; give it as a result.")


def _emitted(
    tracer: Tracer, primitive: str, values: Iterable[Value], attrs: Mapping[str, Any], phase: str, scope: str,
    loc: Location | None,
) -> tuple[Value, ...]:  # fmt: skip
    e = tracer.builder
    e.follow(tracer.here, phase)
    e.scope, e.loc = scope, loc
    outputs = e.emit(primitive, values, attrs)
    tracer.note(outputs)
    return outputs
