"""What MindSpore's page on the training flow shows, by the imports and calls that it uses, on data of our own."""

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn, ops
from mindspore.nn import Accuracy, Cell
from mindspore.nn.wrap.grad_reducer import DistributedGradReducer
from mindspore.ops import GradOperation
from mindspore.parallel._utils import _get_device_num, _get_gradients_mean, _get_parallel_mode


class Rows():
    """As many items as it is told, each an array of zeros and one of ones."""

    def __init__(self, count):
        self.zeros = [np.zeros((3, 4, 5)) for _ in range(count)]
        self.ones = [np.ones((1)) for _ in range(count)]

    def __len__(self):
        return len(self.zeros)

    def __getitem__(self, number):
        return self.zeros[number], self.ones[number]


class InputGradient(nn.Cell):
    """The gradient of a network by its first input."""

    def __init__(self, inner):
        super(InputGradient, self).__init__()
        self.inner = inner
        self.make = GradOperation()

    def construct(self, a, b):
        return self.make(self.inner)(a, b)


class OneStep(Cell):
    """A step of training in the words of the page: fill, GradOperation with sens, a reducer, depend."""

    def __init__(self, forward, updater, start=1.0):
        super(OneStep, self).__init__(auto_prefix=False)
        self.forward = forward
        self.forward.set_grad()
        self.updater = updater
        self.parameters = updater.parameters
        self.backward = ops.GradOperation(get_by_list=True, sens_param=True)
        self.start = start
        self.reduce = ops.identity
        if _get_parallel_mode() in (ms.ParallelMode.DATA_PARALLEL, ms.ParallelMode.HYBRID_PARALLEL):
            self.reduce = DistributedGradReducer(self.parameters, _get_gradients_mean(), _get_device_num())

    def construct(self, *batch):
        value = self.forward(*batch)
        first = ops.fill(value.dtype, value.shape, self.start)
        gradients = self.reduce(self.backward(self.forward, self.parameters)(*batch, first))
        return ops.depend(value, self.updater(gradients))


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.weight = ms.Parameter(ms.Tensor(np.ones((4, 3), np.float32)), name="weight")

    def construct(self, x, y):
        return ops.mean(ops.square(ops.matmul(x, self.weight) - y))


class Scores(nn.Cell):
    def __init__(self):
        super().__init__()
        self.flat, self.dense = nn.Flatten(), nn.Dense(60, 2)

    def construct(self, x):
        return self.dense(self.flat(x))


dataset = ds.GeneratorDataset(Rows(100), column_names=["data", "label"])
for columns in dataset.create_dict_iterator():
    data, label = columns["data"], columns["label"]
for columns in dataset.create_tuple_iterator():
    data, label = columns[0], columns[1]
print("rows", dataset.get_dataset_size(), type(columns).__name__, data.shape, data.dtype, label.shape)

for mode in (ms.GRAPH_MODE, ms.PYNATIVE_MODE):
    ms.set_context(mode=mode, device_target="CPU")
    x, y = ms.Tensor(np.ones((2, 4), np.float32)), ms.Tensor(np.zeros((2, 3), np.float32))
    print("gradient", InputGradient(Net())(x, y).asnumpy().round(4).tolist()[0])
    net = Net()
    step = OneStep(net, nn.Momentum(net.trainable_params(), 0.1, 0.9))
    print("losses", *(f"{step(x, y).asnumpy():.6f}" for _ in range(4)))
    net = Net()
    step = OneStep(net, nn.Momentum(net.trainable_params(), 0.1, 0.9, loss_scale=8.0), start=8.0)
    print("scaled", *(f"{step(x, y).asnumpy():.6f}" for _ in range(4)))

rows = [(d.astype(np.float32), np.int32(t[0])) for d, t in map(Rows(16).__getitem__, range(16))]
batches = ds.GeneratorDataset(rows, ["data", "label"]).batch(4)
network = Scores()
loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
saving = ms.ModelCheckpoint(prefix="scores", directory="saved", config=ms.CheckpointConfig(save_checkpoint_steps=4))
model = ms.Model(network, loss, optimizer, metrics={"Accuracy": Accuracy()})
model.train(2, batches, callbacks=[ms.LossMonitor(), saving])
print("accuracy", model.eval(batches))
