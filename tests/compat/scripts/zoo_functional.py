"""The functional side of MindSpore: ops.functional, jit, ms_function, grad, vmap, jvp, vjp, jacobians, bprop."""

import argparse

import mindspore as ms
import mindspore.numpy as mnp
import numpy as np
from mindspore import Tensor, context, nn, ops
from mindspore.common import dtype as mstype
from mindspore.common.api import ms_function
from mindspore.ops import composite as C
from mindspore.ops import functional as F
from mindspore.ops import operations as P


class Polynomial(nn.Cell):
    """A sum of powers, with weights."""

    def __init__(self, degree):
        super().__init__()
        self.weights = ms.Parameter(Tensor(np.linspace(0.5, -0.5, degree + 1), mstype.float32), name="weights")
        self.degree = degree

    def construct(self, x):
        out = F.zeros_like(x)
        for i in range(self.degree + 1):
            out = out + self.weights[i] * F.tensor_pow(x, i)
        return out


class GradNet(nn.Cell):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.grad = C.GradOperation(get_all=True, get_by_list=True)
        self.params = ms.ParameterTuple(net.trainable_params())

    def construct(self, x):
        return self.grad(self.net, self.params)(x)


add_all = C.MultitypeFuncGraph("add_all")


@add_all.register("Tensor", "Tensor")
def _add_tensors(x, y):
    return x + y


@add_all.register("Number", "Tensor")
def _add_number(x, y):
    return x * 10 + y


class Surrogate(nn.Cell):
    """A sign whose gradient is that of the identity between -1 and 1."""

    def construct(self, x):
        return F.select(x >= 0, F.ones_like(x), -F.ones_like(x))

    def bprop(self, x, out, dout):
        return (F.select(F.logical_and(x > -1, x < 1), dout, F.zeros_like(dout)),)


def rosenbrock(x, y):
    return (1 - x) ** 2 + 10 * (y - x ** 2) ** 2


@ms_function
def newton_root(x, n):
    steps = 0
    while steps < n:
        x = x - (x * x - 2) / (2 * x)
        steps += 1
    return x


@ms.jit
def collatz(x):
    count = Tensor(0, mstype.int32)
    while x > 1:
        if x % 2 == 0:
            x = x // 2
        else:
            x = 3 * x + 1
        count = count + 1
    return count


def show(name, *values):
    arrays = [np.asarray(v.asnumpy() if isinstance(v, ms.Tensor) else v, np.float64) for v in values]
    numbers = np.concatenate([array.reshape(-1) for array in arrays])
    print("%s: %s" % (name, " ".join("%.5f" % (number + 0.0) for number in numbers)))


def summed(x, y):
    return rosenbrock(x, y).sum()


def cube(x):
    return F.tensor_pow(x, 3)


def slope_of_cube(x):
    return C.GradOperation()(cube)(x)


def wave(x):
    return F.sin(x) * x


def product(x, y):
    return x * y + F.exp(x)


def squares_and_sum(x):
    return ops.concat((x * x, x.sum().reshape((1,))))


def scaled_tanh(x):
    return ops.tanh(x) * x[0]


def half_stopped(x):
    return F.stop_gradient(x) * x


def differentiate():
    x, y = Tensor(np.array([0.5, -1.0, 1.5], np.float32)), Tensor(np.array([2.0, 0.5, -0.5], np.float32))
    ones = Tensor(np.ones(3, np.float32))
    show("grad", ms.grad(rosenbrock)(x, y), *ms.grad(rosenbrock, (0, 1))(x, y))
    value, slopes = ms.value_and_grad(summed, (0, 1))(x, y)
    show("value_and_grad", value, *slopes)
    inputs, weights = GradNet(Polynomial(3))(x)
    show("grad_operation", *inputs, *weights)
    show("second", C.GradOperation()(slope_of_cube)(x))
    outputs, tangents = ops.jvp(wave, x, ones)
    show("jvp", outputs, tangents)
    outputs, backward = ops.vjp(product, x, y)
    show("vjp", outputs, *backward(ones))
    show("jacrev", ms.jacrev(squares_and_sum)(x))
    show("jacfwd", ms.jacfwd(scaled_tanh)(x))
    show("bprop", ms.grad(Surrogate())(Tensor([-2.0, -0.5, 0.5, 3.0], mstype.float32)))
    show("stop_gradient", ms.grad(half_stopped)(x))


def projected(matrix, vector):
    return P.MatMul()(matrix, vector.reshape((2, 1))).sum()


def neuron(weights, inputs):
    return ops.tanh((weights * inputs).sum())


@ms.jit
def mapped(vectors):
    return C.HyperMap()(add_all, (vectors, vectors), (vectors, 2 * vectors))


@ms.jit
def mapped_with_number(vectors):
    return C.Map()(F.partial(add_all, 1), (vectors, vectors))


@ms.jit
def like_numpy(vectors):
    return mnp.where(vectors > 0, mnp.sqrt(mnp.abs(vectors)), mnp.cumsum(vectors)), mnp.linspace(0, 1, 4)


def vectorize():
    rng = np.random.RandomState(0)
    matrices = Tensor(rng.normal(size=(4, 3, 2)).astype(np.float32))
    vectors, rows = Tensor(rng.normal(size=2).astype(np.float32)), Tensor(rng.normal(size=(3, 2)).astype(np.float32))
    show("vmap", ops.vmap(projected, in_axes=(0, None))(matrices, vectors))
    show("vmap_grad", ms.vmap(ms.grad(neuron), in_axes=(None, 0))(vectors, rows))
    show("map", *mapped(vectors))
    show("partial", *mapped_with_number(vectors))
    show("mnp", *like_numpy(vectors))


def goes_on(state):
    return state[0] < 5


def doubled(state):
    return [state[0] + 1, state[1] * 2]


def doubled_and_added(i, value):
    return value * 2 + i


def gathered(carry, x):
    return carry + x, carry * x


@ms.jit
def loops(start, rows):
    counted = ops.WhileLoop()(goes_on, doubled, [Tensor(0, mstype.int32), start])
    carry, outputs = ops.Scan()(gathered, start, rows, 3)
    return counted[0], counted[1], ops.ForiLoop()(0, 4, doubled_and_added, start), carry, outputs[2]


def control():
    start = Tensor(1.5, mstype.float32)
    show("newton", newton_root(Tensor(2.0, mstype.float32), 4))
    show("collatz", collatz(Tensor(27, mstype.int32)), collatz(Tensor(6, mstype.int32)))
    show("loops", *loops(start, [Tensor(2.0), Tensor(3.0), Tensor(4.0)]))
    show("select", F.select(Tensor([True, False]), Tensor([1.0, 2.0]), Tensor([3.0, 4.0])), F.scalar_to_tensor(2.5))
    show("shapes", F.tuple_to_array(F.shape(Tensor(np.zeros((2, 3), np.float32)))), F.rank(Tensor([[1.0]])))


def minimise(steps):
    """Adam by hand over values, as functional optimizers are written."""
    point = Tensor(np.array([-1.0, 1.5], np.float32))

    def valley(point):
        return rosenbrock(point[0], point[1])

    grad = ms.value_and_grad(valley)

    @ms.jit
    def update(point, first, second, step):
        value, slope = grad(point)
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * F.square(slope)
        rate = 0.1 * F.sqrt(1 - 0.999 ** step) / (1 - 0.9 ** step)
        return value, point - rate * first / (F.sqrt(second) + 1e-8), first, second

    first = second = ops.zeros_like(point)
    for step in range(1, steps + 1):
        value, point, first, second = update(point, first, second, Tensor(step, mstype.float32))
    print("final loss: %.6f" % float(value.asnumpy()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", type=int, default=context.PYNATIVE_MODE)
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    context.set_context(mode=args.mode)
    differentiate()
    vectorize()
    control()
    minimise(args.steps)
