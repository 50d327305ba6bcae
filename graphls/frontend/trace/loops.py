"""Traced loops: functions as the bodies of `scan` and `while_loop`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from graphls.base.errors import GraphTypeError, TraceError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import leaves, map_leaves, rebuild, structure
from graphls.frontend.tensors.tensor import Symbol, Tensor, is_number, is_tensor
from graphls.frontend.trace.host_calls import behind_loop, in_reverse, show_here, warn_of_lost
from graphls.frontend.trace.regions import Run, is_random
from graphls.frontend.trace.tracer import Tracer
from graphls.ir.graph import Graph, Value, walk


def traced_scan(tracer: Tracer, function: Callable[..., Any], init: Any, xs: object, length: int, reverse: bool) -> Any:
    """The last carry and the stacked results of `function(carry, element)`, which returns a carry and results."""
    arrays = [tracer.value(leaf) for leaf in leaves(xs) if is_tensor(leaf)]
    elements = [_fresh(tracer, v, v.type.shape[1:]) for v in arrays]
    element = _with_tensors(xs, elements)
    body = _Body.traced(tracer, "scan", lambda carry: function(carry, element), init, elements)
    random_elements, random_arrays = body.run.lift_random(tracer, length)
    shown = [v for item in body.run.shown for v in (item.guard, *item.values) if v is not None]
    region = _region((*body.carried, *elements, *random_elements), body.run, (*body.yields, *body.results, *shown))
    attrs = {"carries": len(body.carried), "length": length, "reverse": reverse}
    outputs = tracer.emit("scan", (*body.starts, *arrays, *random_arrays), attrs, regions=(region,))
    rows = iter(outputs[len(body.carried) + len(body.results) :])
    for item in [behind_loop(item, rows, length) for item in body.run.shown]:
        show_here(tracer, in_reverse(tracer, item) if reverse else item)
    return body.carry(tracer, outputs), _with_tensors(body.others, outputs[len(body.carried) :])


def traced_while(
    tracer: Tracer, condition: Callable[..., object], function: Callable[..., object], init: object
) -> Any:
    """The final carry of `carry = function(carry)` while `condition(carry)`, a bool of shape (), is true."""
    body = _Body.traced(tracer, "while_loop", lambda carry: (function(carry), ()), init, ())
    own = [_fresh(tracer, v, v.type.shape) for v in body.carried]
    states = dict(zip(body.parameters, own[len(leaves(init)) :], strict=True))
    with tracer.inside(in_loop=True):
        test = Run.of(tracer, lambda: condition(_with_tensors(init, own)), states)
    if any(test.states[p] is not v for p, v in states.items()) or len(test.states) > len(states):
        text = "The condition of while_loop cannot write parameters; write them in its body."
        raise TraceError(text)
    test.hoist(tracer, own)
    warn_of_lost([*body.run.shown, *test.shown])
    regions = _region(own, test, (test.result.graph_value,)), _region(body.carried, body.run, body.yields)
    if any(is_random(node) for region in regions for node in walk(region)):
        text = "while_loop draws no random numbers, as it does not know how often it runs; give max_iterations."
        raise TraceError(text)
    return body.carry(tracer, tracer.emit("while_loop", body.starts, {}, regions=regions))


@dataclass
class _Body:
    """The body of a loop: its run, the carried values that it takes and yields, and its other results.

    Parameters that the function writes are carried after `init`.
    """

    run: Run
    init: Any
    parameters: tuple[Parameter, ...]
    starts: list[Value]
    carried: list[Value]
    yields: list[Value]
    others: Any
    results: list[Value]

    @classmethod
    def traced(
        cls, tracer: Tracer, name: str, function: Callable[..., tuple[object, object]], init: object,
        elements: Sequence[Value],
    ) -> _Body:  # fmt: skip
        """Trace a function of the carry, again while it writes parameters that are not carried yet."""
        parameters: tuple[Parameter, ...] = ()
        while True:
            starts = [*map(tracer.value, leaves(init)), *map(tracer.current, parameters)]
            carried = [_fresh(tracer, v, v.type.shape) for v in starts]
            states = dict(zip(parameters, carried[len(leaves(init)) :], strict=True))
            with tracer.inside(in_loop=True):
                once = partial(_one_iteration, name, init, function, _with_tensors(init, carried))
                run = Run.of(tracer, once, states)
            # The written parameters are known only after the trace, and each must be carried.
            if run.states.keys() <= states.keys():
                run.hoist(tracer, (*carried, *elements))
                carry, others = run.result
                yields = [*(leaf.graph_value for leaf in leaves(carry)), *(run.states[p] for p in parameters)]
                results = [leaf.graph_value for leaf in leaves(others) if is_tensor(leaf)]
                return cls(run, init, parameters, starts, carried, yields, others, results)
            parameters = tuple(dict.fromkeys((*parameters, *run.states)))

    def carry(self, tracer: Tracer, outputs: Sequence[Value]) -> Any:
        """The carry after the last iteration; parameters are set to their last values."""
        count = len(leaves(self.init))
        for parameter, value in zip(self.parameters, outputs[count:], strict=False):
            tracer.set_written(parameter, value)
        return _with_tensors(self.init, outputs[:count])


def _one_iteration(name: str, init: object, function: Callable[..., object], carry: object) -> tuple[Any, Any]:
    return as_pair(name, init, function(carry))


def as_pair(name: str, init: object, returned: object) -> tuple[Any, Any]:
    """The carry that a function returned and its other results, with numbers as tensors.

    Raises GraphTypeError where the carry differs from `init` in structure or in the type of a tensor, or a result is
    neither a tensor nor a number nor None.
    """
    if not isinstance(returned, tuple) or len(returned) != 2:
        text = f"The function of {name} gives a pair of a carry and results, not {type(returned).__name__}."
        raise GraphTypeError(text)
    if structure(init) != structure(returned[0]):
        text = f"The function of {name} must give a carry of the structure of the one that it takes."
        raise GraphTypeError(text)
    pairs = zip(leaves(init), leaves(returned[0]), strict=True)
    results = map_leaves(partial(_result, name), returned[1])
    return rebuild(returned[0], [_carried_on(name, *pair) for pair in pairs]), results


def _result(name: str, leaf: Any) -> Tensor | None:
    if leaf is None or isinstance(leaf, Tensor):
        return leaf
    if not is_number(leaf) and not is_tensor(leaf):
        text = f"The results of the function of {name} are tensors, numbers and None, not {leaf!r}."
        raise GraphTypeError(text)
    return Tensor(leaf)


def _carried_on(name: str, before: Tensor, after: object) -> Tensor:
    if is_number(after):
        after = Tensor(after, before.dtype)
    if not isinstance(after, Tensor) or after.type != before.type:
        kind = after.type if isinstance(after, Tensor) else repr(after)
        raise GraphTypeError(
            f"The function of {name} takes {before.type} in its carry and gives {kind}; keep its type.",
        )
    return after


def _region(inputs: Sequence[Value], run: Run, outputs: Sequence[Value]) -> Graph:
    return Graph("region", tuple(inputs), (), tuple(run.nodes), (), tuple(outputs))


def _fresh(tracer: Tracer, like: Value, shape: tuple[int, ...]) -> Value:
    return Value(tracer.builder.names.fresh(like.name), like.type.with_shape(shape))


def _with_tensors(tree: object, values: Sequence[Value]) -> Any:
    """The same pytree with these values in place of its tensors."""
    symbols = iter([Symbol(v) for v in values])
    return map_leaves(lambda leaf: next(symbols) if is_tensor(leaf) else leaf, tree)
