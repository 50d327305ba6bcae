"""The rescale pass on long chains."""

from __future__ import annotations

from graphls.ir import Builder, Graph, Type, Value, verify
from graphls.ir.types import float32
from graphls.passes.overflow.rescale import Rescale


def test_long_products_take_linear_time() -> None:
    """Every product of a value with itself could be followed in two ways."""
    x, w = (Value(name, Type(float32)) for name in ("x", "w"))
    e = Builder()
    loss = e.mul(x, w)
    for _ in range(2000):
        loss = e.mul(loss, loss)
    one = e.constant(1.0, float32)
    (gradient,) = e.emit("gradient", (loss, one, w, x), {"of": 1, "wrt": 1})
    made = verify(Rescale().run(Graph("long", (x, w), (), tuple(e.nodes), (), (gradient,))))
    assert [v.name for v in made.inputs] == ["x", "w", "scale_factor"] and len(made.outputs) == 2
