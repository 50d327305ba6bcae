"""Cells with loops and branches in the words of Python, and what MindSpore gives for them (measured_control_flow.json).

The cells are written for MindSpore's graph mode too: with its names imported in place of these, `measured()` made the
numbers on MindSpore 2.10's CPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls import GradOperation, Parameter, Tensor, nn, ops


class Squares(nn.Cell):
    def construct(self, x: Any, y: Any) -> Any:
        while x < y:
            x = x * x + 1
        return x


class Products(nn.Cell):
    def construct(self, x: Any, y: Any) -> Any:
        out = x
        while x < y:
            out = out * y + x
            x = x + 1
        return out


class Weighted(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.w = Parameter(Tensor(np.array([2.0], np.float32)), name="w")
        self.n = Tensor(np.array(3, np.int32))

    def construct(self, x: Any) -> Any:
        i = Tensor(np.array(0, np.int32))
        while i < self.n:
            x = x * self.w + 1
            i = i + 1
        return x


class BranchInLoop(nn.Cell):
    def construct(self, x: Any, y: Any, z: Any) -> Any:
        out = z
        while x < y:
            if 2 * x < y:
                out = out + x
            else:
                out = out * 2
            x = x + 1
        return out


class LoopInLoop(nn.Cell):
    def construct(self, x: Any, y: Any) -> Any:
        out = x
        while x < y:
            z = Tensor(np.array(0, np.int32))
            while z < 2:
                out = out + y * z
                z = z + 1
            x = x + 1
        return out


class Break(nn.Cell):
    def construct(self, x: Any, y: Any) -> Any:
        while x < y:
            x = x + 2
            if x > 5:
                break
        return x * y


class Continue(nn.Cell):
    def construct(self, x: Any, y: Any) -> Any:
        out = y
        while x < 8:
            x = x + 1
            if x == 4:
                continue
            out = out * x
        return out


class LoopInUnrolledLoop(nn.Cell):
    def construct(self, x: Any, y: Any) -> Any:
        for _ in range(3):
            if x > y:
                x = x - y
            else:
                x = x * 3
            while y < x:
                y = y + 2
        return x * y


class ReturnBeforeLoop(nn.Cell):
    def construct(self, x: Any, y: Any) -> Any:
        if x > y:
            return x * x
        while x < y:
            x = x + 3
        return x * y + x


class Layer(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        weight = Tensor(np.array([[0.5, -0.2, 0.1], [0.3, 0.4, -0.6], [0.2, 0.1, 0.9]], np.float32))
        self.d = nn.Dense(3, 3, weight_init=weight, bias_init="ones")

    def construct(self, x: Any) -> Any:
        h = x
        while (h * h).sum() < 60:
            h = self.d(h) + h
        return h


class Assigned(nn.Cell):
    def construct(self, x: Any) -> Any:
        i = Tensor(np.array(0, np.int32))
        while i < 3:
            x[i] = x[i] * 2 + i
            i = i + 1
        return x


class NestedBranches(nn.Cell):
    def construct(self, x: Any, y: Any) -> Any:
        if x[0] > 0:
            if y > 0:
                out = x * y
            else:
                out = x - y
        elif y > 3:
            out = x + y
        else:
            out = x
        if out[1] > 2:
            out = out * out
        return out


class MethodWithBranch(nn.Cell):
    def construct(self, x: Any, y: Any) -> Any:
        out = x
        while y > 0:
            y = y - 1
            out = out + self.f(out, y)
        return out

    def f(self, a: Any, b: Any) -> Any:
        if b > 2:
            return a * b
        return a + b


class ReturnInInnerLoop(nn.Cell):
    def construct(self, x: Any, y: Any) -> Any:
        while x < y:
            x = x + 1
            while x < 3:
                x = x * 2
                if x > 6:
                    return x * y
        return x + y


class WeightAndBranch(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.w = Parameter(Tensor(np.array(2.0, np.float32)), name="w")

    def construct(self, x: Any, y: Any) -> Any:
        out = x
        while y > 0:
            out = out * self.w + y
            if out > 50:
                out = out / 2
            y = y - 1
        return out


class LoopToTheCount(nn.Cell):
    def construct(self, x: Any, n: Any) -> Any:
        i = 0 * n
        s = x * 0
        while i < n:
            j = 0 * n
            while j < i:
                if x[0] > j:
                    s = s + x * j
                else:
                    s = s - x
                j = j + 1
            i = i + 1
            if s.sum() > 100:
                break
        return s * x


class UnrolledBreak(nn.Cell):
    def construct(self, x: Any, y: Any) -> Any:
        for i in range(5):
            if i == 3:
                continue
            if x > y:
                break
            x = x + y
        return x * y


class Exchanged(nn.Cell):
    def construct(self, x: Any, y: Any) -> Any:
        a = x
        b = y
        while a > b:
            a, b = b + 1, a - 1
            b = b * 2
        return a * b + x


class MethodWithLoop(nn.Cell):
    def inner(self, x: Any) -> Any:
        while x < 10:
            x = x * x + x
        return x

    def construct(self, x: Any, y: Any) -> Any:
        return self.inner(x) * y


class Rotated(nn.Cell):
    def construct(self, x: Any, y: Any) -> Any:
        while x.sum() < y:
            x = ops.concat((x[1:], x[:1] + 1)) * 1.5
        return ops.relu(x - 2)


class Halved(nn.Cell):
    def construct(self, x: Any, y: Any) -> Any:
        out = x
        while y > 1:
            y = y // 2
            out = ops.maximum(out * 0.5, out - y)
        return out


class AndOr(nn.Cell):
    def construct(self, x: Any, y: Any) -> Any:
        if x > 0 and y > 0:
            z = x * y
        elif x > 0 or y > 3:
            z = x - y
        else:
            z = x
        while z < 20 and x < 30:
            z = z + x * x
            x = x + 1
        return z


class LoopOverTuple(nn.Cell):
    def construct(self, x: Any, y: Any) -> Any:
        out = 0.0 * x
        for v in (x, y, x * y):
            k = v
            while k > 1:
                k = k / 2
                out = out + k * v
        return out


class Endless(nn.Cell):
    def construct(self, x: Any, y: Any) -> Any:
        while True:
            x = x * 2
            if x > y:
                break
        return x + y


def _arrays(*values: Any) -> tuple[Any, ...]:
    """Integers and their lists as int32, others as float32."""
    kinds = [np.int32 if np.asarray(v).dtype.kind == "i" else np.float32 for v in values]
    return tuple(np.array(v, kind) for v, kind in zip(values, kinds, strict=True))


PROGRAMS: list[tuple[type[nn.Cell], tuple[Any, ...]]] = [
    (Squares, _arrays(1, 20)), (Squares, _arrays(1.0, 20.0)), (Products, _arrays(1, 4)), (Products, _arrays(0.5,
    3.0)), (Weighted, _arrays([1.5, 2.0])), (BranchInLoop, _arrays(1.0, 5.0, 2.0)), (BranchInLoop, _arrays(1, 5,
    2)), (LoopInLoop, _arrays(1.0, 4.0)), (LoopInLoop, _arrays(1, 4)), (Break, _arrays(1.0, 9.0)), (Break,
    _arrays(1, 9)), (Continue, _arrays(1.0, 2.0)), (Continue, _arrays(1, 2)), (LoopInUnrolledLoop, _arrays(2.0,
    3.0)), (LoopInUnrolledLoop, _arrays(2, 3)), (ReturnBeforeLoop, _arrays(1.0, 8.0)), (ReturnBeforeLoop,
    _arrays(9.0, 8.0)), (ReturnBeforeLoop, _arrays(1, 8)), (Layer, _arrays([[0.1, 0.2, 0.3]])), (Assigned,
    _arrays([1.0, 2.0, 3.0])), (NestedBranches, _arrays([1.0, 2.0], 3.0)), (NestedBranches, _arrays([1.0, 2.0],
    -3.0)), (NestedBranches, _arrays([-1.0, 2.0], 4.0)), (NestedBranches, _arrays([1, 2], 3)),
    (MethodWithBranch, _arrays(1.5, 4.0)), (MethodWithBranch, _arrays(1, 4)), (ReturnInInnerLoop, _arrays(1.0,
    5.0)), (ReturnInInnerLoop, _arrays(1, 5)), (ReturnInInnerLoop, _arrays(4.0, 9.0)), (WeightAndBranch,
    _arrays(1.0, 4.0)), (WeightAndBranch, _arrays(1.0, 4)), (LoopToTheCount, _arrays([1.5, 2.5], 4)),
    (LoopToTheCount, _arrays([9.0, 8.0], 5)), (LoopToTheCount, _arrays([3, 1], 4)), (UnrolledBreak, _arrays(1.0,
    2.0)), (UnrolledBreak, _arrays(1, 2)), (UnrolledBreak, _arrays(1.0, 0.1)), (Exchanged, _arrays(20.0, 1.0)),
    (Exchanged, _arrays(20, 1)), (MethodWithLoop, _arrays(1.0, 3.0)), (MethodWithLoop, _arrays(1, 3)), (Rotated,
    _arrays([0.5, 1.0, -0.5], 30.0)), (Halved, _arrays(8.0, 9)), (Halved, _arrays(8.0, 9.0)), (AndOr,
    _arrays(2.0, 3.0)), (AndOr, _arrays(2.0, -1.0)), (AndOr, _arrays(-2.0, 1.0)), (AndOr, _arrays(2, 3)),
    (LoopOverTuple, _arrays(5.0, 3.0)), (Endless, _arrays(1.0, 9.0)), (Endless, _arrays(1, 9)),
]  # fmt: skip


class Gradient(nn.Cell):
    """The gradient of a cell by its first input."""

    def __init__(self, net: nn.Cell) -> None:
        super().__init__()
        self.net, self.take = net, GradOperation()

    def construct(self, *inputs: Any) -> Any:
        return self.take(self.net)(*inputs)


def measured(number: int) -> dict[str, Any]:
    """The value of a program, its gradients by its inputs and by its weights, and those of the first, as lists."""
    kind, arrays = PROGRAMS[number]
    net, inputs = kind(), tuple(map(Tensor, arrays))
    found = {
        "value": (net(*inputs),),
        "gradient": GradOperation(get_all=True)(net)(*inputs),
        "second": GradOperation(get_all=True)(Gradient(net))(*inputs),
    }
    weights = tuple(net.trainable_params())
    if weights:
        found["weights"] = GradOperation(get_by_list=True)(net, weights)(*inputs)
    return {
        name: [[g.asnumpy().dtype.name, g.asnumpy().astype(np.float64).tolist()] for g in gradients]
        for name, gradients in found.items()
    }
