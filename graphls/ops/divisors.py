"""Greatest common divisors and least common multiples of integers."""

from __future__ import annotations

from typing import Any

from graphls.ir.errors import GraphTypeError
from graphls.ir.types import broadcast_shapes
from graphls.ops.control_flow import while_loop
from graphls.ops.elementwise import abs, floor_div, mod, mul
from graphls.ops.logic import equal, not_equal, where
from graphls.ops.operands import operand_of
from graphls.ops.record import operation
from graphls.ops.reductions import any
from graphls.ops.shapes import broadcast_to
from graphls.tensors import dispatch
from graphls.tensors.tensor import Tensor


@operation(classes="Gcd")
def gcd(input: Any, other: Any) -> Tensor:
    """The greatest integers that divide both, broadcasting; of 0 and a number, the number without its sign.

    Raises GraphTypeError for what is no integer.
    """
    return _gcd(*_integers("gcd", input, other))


@operation(classes="Lcm")
def lcm(input: Any, other: Any) -> Tensor:
    """The least integers above 0 that both divide, broadcasting; 0 where one is 0. Raises GraphTypeError as `gcd`."""
    x, y = _integers("lcm", input, other)
    divisor = _gcd(x, y)
    return mul(abs(floor_div(x, where(equal(divisor, 0), 1, divisor))), abs(y))


def _integers(name: str, *operands: Any) -> tuple[Tensor, ...]:
    tensors = dispatch.promoted(*map(operand_of, operands))
    if tensors[0].dtype.kind not in ("int", "uint"):
        raise GraphTypeError(f"{name} takes integers, not {tensors[0].type}; cast it first.")
    shape = broadcast_shapes(*(t.shape for t in tensors))
    return tuple(broadcast_to(t, shape) for t in tensors)


def _gcd(x: Tensor, y: Tensor) -> Tensor:
    """Euclid's algorithm, until all are done."""

    def reduced(state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        larger, smaller = state
        is_done = equal(smaller, 0)
        rest = mod(larger, where(is_done, 1, smaller))
        return where(is_done, larger, smaller), where(is_done, 0, rest)

    found, _ = while_loop(lambda state: any(not_equal(state[1], 0)), reduced, (abs(x), abs(y)))
    result: Tensor = found
    return result
