"""What operators that update parameters share.

A parameter is read in its own dtype and written in place, where the new value is cast to that.
"""

from __future__ import annotations

from typing import Any

from graphls.ir.errors import GraphTypeError
from graphls.ops.elementwise import abs, add, div, mul, sign, sub
from graphls.ops.network import relu
from graphls.ops.operands import float_of, state_of, tensor_of
from graphls.ops.state import assign
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Symbol, Tensor


def _parameter(x: Any) -> Parameter | None:
    """The parameter itself, also behind `depend`."""
    found = getattr(x, "parameter", None) if isinstance(x, Symbol) else x
    return found if isinstance(found, Parameter) else None


def value_of(x: Any) -> Tensor:
    """The value of a parameter, or a tensor."""
    parameter = _parameter(x)
    return tensor_of(x) if parameter is None else state_of(parameter)


def written(x: Any, value: Tensor) -> Tensor:
    """A new value, which a parameter takes; raises GraphTypeError for what is no parameter, such as a slice of one."""
    if _parameter(x) is None:
        message = (
            f"What an operator updates is a Parameter, not {tensor_of(x).type}, whose value nothing would keep; give "
            "a Parameter itself (inside vmap there are slices only)."
        )
        raise GraphTypeError(message)
    return assign(x, value)


def moved(x: Any, step: Tensor) -> Tensor:
    """x without a step, written."""
    return written(x, sub(value_of(x), step))


def rest_of(share: Any) -> Any:
    """1 - share."""
    return 1 - share if isinstance(share, (int, float)) else sub(1.0, float_of(share))


def averaged(x: Any, share: Any, new: Tensor) -> Tensor:
    """share * x + (1 - share) * new, written."""
    return written(x, add(mul(value_of(x), share), mul(new, rest_of(share))))


def shrunk(x: Tensor, by: Any) -> Tensor:
    """x moved towards 0 by a number, at most to it."""
    return mul(sign(x), relu(sub(abs(x), by)))


def proximal_step(var: Any, rate: Tensor, l1: Any, l2: Any, g: Tensor) -> Tensor:
    """x less rate * g, then moved towards 0 by rate * l1 and divided by 1 + rate * l2, written."""
    stepped = sub(value_of(var), mul(g, rate))
    return written(var, div(shrunk(stepped, mul(rate, l1)), add(mul(rate, l2), 1.0)))
