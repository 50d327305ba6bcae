"""The classes of MindSpore's page on the training flow, on data of our own."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from mindspore.nn import Cell
from mindspore.nn.wrap.grad_reducer import DistributedGradReducer
from mindspore.ops import GradOperation
from mindspore.parallel._utils import _get_device_num, _get_gradients_mean, _get_parallel_mode


class GradNetWrtX(nn.Cell):
    def __init__(self, net):
        super(GradNetWrtX, self).__init__()
        self.net = net
        self.grad_op = GradOperation()
    def construct(self, x, y):
        gradient_function = self.grad_op(self.net)
        return gradient_function(x, y)


class TrainOneStepCell(Cell):
    def __init__(self, network, optimizer, sens=1.0):
        super(TrainOneStepCell, self).__init__(auto_prefix=False)
        self.network = network
        # set require_grad=True for Parameters in network
        self.network.set_grad()
        self.optimizer = optimizer
        self.weights = self.optimizer.parameters
        self.grad = ops.GradOperation(get_by_list=True, sens_param=True)
        # set init value for back propagation
        self.sens = sens
        # reduce_flag, used in distributed training
        self.reducer_flag = False
        self.grad_reducer = ops.identity
        self.parallel_mode = _get_parallel_mode()
        self.reducer_flag = self.parallel_mode in (ms.ParallelMode.DATA_PARALLEL, ms.ParallelMode.HYBRID_PARALLEL)
        if self.reducer_flag:
            self.mean = _get_gradients_mean()
            # number of devices
            self.degree = _get_device_num()
            self.grad_reducer = DistributedGradReducer(self.weights, self.mean, self.degree)

    def construct(self, *inputs):
        # get the loss of forward
        loss = self.network(*inputs)
        # set init value for backward propagation
        sens = ops.fill(loss.dtype, loss.shape, self.sens)
        # perform backward propagation
        grads = self.grad(self.network, self.weights)(*inputs, sens)
        grads = self.grad_reducer(grads)
        loss = ops.depend(loss, self.optimizer(grads))
        return loss


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.weight = ms.Parameter(ms.Tensor(np.ones((4, 3), np.float32)), name="weight")

    def construct(self, x, y):
        return ops.mean(ops.square(ops.matmul(x, self.weight) - y))


for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
    ms.set_context(mode=mode)
    x, y = ms.Tensor(np.ones((2, 4), np.float32)), ms.Tensor(np.zeros((2, 3), np.float32))
    print("gradient", GradNetWrtX(Net())(x, y).asnumpy().round(4).tolist()[0])
    net = Net()
    step = TrainOneStepCell(net, nn.Momentum(net.trainable_params(), 0.1, 0.9))
    print("losses", *(f"{step(x, y).asnumpy():.6f}" for _ in range(4)))
    net = Net()
    step = TrainOneStepCell(net, nn.Momentum(net.trainable_params(), 0.1, 0.9, loss_scale=8.0), sens=8.0)
    print("scaled", *(f"{step(x, y).asnumpy():.6f}" for _ in range(4)))
