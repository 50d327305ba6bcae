"""Tests in the style of MindSpore's own: compile-only ones, classes, modes, devices and names of version 1."""

import mindspore.context as context
import mindspore.nn as nn
import mindspore.ops.operations as P
import numpy as np
import pytest
from mindspore import Parameter, Tensor
from mindspore.common.api import _cell_graph_executor
from mindspore.communication.management import init
from mindspore.context import ParallelMode
from mindspore.ops import composite as C

context.set_context(mode=context.GRAPH_MODE, device_target="Ascend")


class Scaled(nn.Cell):
    def __init__(self, size, factor):
        super(Scaled, self).__init__()
        self.weight = Parameter(Tensor(np.ones([size], np.float32)), name="weight")
        self.mul = P.Mul()
        self.factor = factor

    def construct(self, x):
        return self.mul(x, self.weight) * self.factor


class Gradient(nn.Cell):
    def __init__(self, network):
        super(Gradient, self).__init__()
        self.network = network
        self.grad = C.GradOperation(get_all=True)

    def construct(self, x):
        return self.grad(self.network)(x)


def compile_net(net, *inputs):
    net.set_train()
    _cell_graph_executor.compile(net, *inputs)


def test_compile_only():
    compile_net(Gradient(Scaled(3, 2.0)), Tensor(np.ones([2, 3], np.float32)))


def test_compile_says_phase_and_whether_it_is_new():
    net = Scaled(3, 2.0)
    x = Tensor(np.ones([2, 3], np.float32))
    phase, is_new = _cell_graph_executor.compile(net, x)
    again, is_new_again = _cell_graph_executor.compile(net, x)
    assert (phase, is_new, is_new_again) == (again, True, False)


def test_wrong_shapes_are_errors_when_compiling():
    with pytest.raises(ValueError):
        _cell_graph_executor.compile(Scaled(3, 2.0), Tensor(np.ones([2, 4], np.float32)))


class TestConvolution:
    def setup_method(self):
        self.net = nn.SequentialCell(nn.Conv2d(1, 2, 3, weight_init="ones"), nn.ReLU())

    def teardown_method(self):
        del self.net

    def test_shape(self, images):
        assert self.net(images).shape == (1, 2, 2, 2)

    @pytest.mark.level0
    @pytest.mark.platform_x86_cpu
    @pytest.mark.env_onecard
    @pytest.mark.parametrize("mode", [context.GRAPH_MODE, context.PYNATIVE_MODE])
    def test_values(self, images, mode):
        context.set_context(mode=mode, device_target="GPU")
        assert np.allclose(self.net(images).asnumpy(), 10.0)


def test_data_parallel():
    init()
    context.set_auto_parallel_context(parallel_mode=ParallelMode.DATA_PARALLEL, gradients_mean=True, device_num=8)
    net = nn.WithLossCell(nn.Dense(4, 3), nn.MSELoss())
    step = nn.TrainOneStepCell(net, nn.Momentum(net.trainable_params(), 0.1, 0.9))
    step.set_train()
    assert np.isfinite(step(Tensor(np.ones([2, 4], np.float32)), Tensor(np.ones([2, 3]), dtype=None)).asnumpy())
    context.reset_auto_parallel_context()


def test_what_is_not_offered_is_the_failure_of_its_test():
    from mindspore.ops import NothingOfTheKind

    with pytest.raises(AttributeError, match=r"does not offer mindspore.ops.NothingOfTheKind"):
        NothingOfTheKind()(Tensor([1.0]))
