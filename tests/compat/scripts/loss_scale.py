"""Loss scaling as the pages on TrainOneStepWithLossScaleCell and on the managers of the loss scale describe it."""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, amp, nn, ops


class Net(nn.Cell):
    def __init__(self, in_features, out_features):
        super(Net, self).__init__()
        initial = np.ones([in_features, out_features]).astype(np.float32)
        self.weight = Parameter(Tensor(initial), name="weight")
        self.matmul = ops.MatMul()

    def construct(self, x):
        return self.matmul(x, self.weight)


class Rows:
    """A dataset of the user's own, with as few methods as Model asks for."""

    def __init__(self, count):
        self.count = count

    def get_dataset_size(self):
        return self.count

    def get_repeat_count(self):
        return 1

    def create_tuple_iterator(self, num_epochs=-1, do_copy=True):
        return self

    def __iter__(self):
        self.place = 0
        return self

    def __next__(self):
        if self.place == self.count:
            raise StopIteration
        self.place += 1
        return self.row()

    def reset(self):
        self.place = 0

    def row(self):
        return Tensor(np.ones([8, 4]).astype(np.float32)), Tensor(np.zeros([8, 2]).astype(np.float32))


def trained(scale_sense, setter=False):
    net = nn.WithLossCell(Net(4, 2), nn.MSELoss())
    optimizer = nn.Momentum(net.trainable_params(), learning_rate=0.1, momentum=0.9)
    step = nn.TrainOneStepWithLossScaleCell(net, optimizer, scale_sense=scale_sense)
    step.set_train()
    if setter:
        step.set_sense_scale(Tensor(2**10, ms.float32))
    losses = []
    for _ in range(2):
        loss, overflow, scale = step(*Rows(1).row())
        losses.append(float(loss.asnumpy()))
    return losses[0] + losses[1], bool(overflow.asnumpy()), float(scale.asnumpy().reshape(()))


print("cell", *trained(nn.DynamicLossScaleUpdateCell(loss_scale_value=2**12, scale_factor=2, scale_window=1)))
print("fixed", *trained(nn.FixedLossScaleUpdateCell(loss_scale_value=2**12)))
print("tensor", *trained(Tensor(np.full((1), 2**12), ms.float32)))
print("set", *trained(Tensor(2**12, ms.float32), setter=True))

for level in ("O0", "O1", "O2", "O3"):
    for name, manager in (
        ("fixed", amp.FixedLossScaleManager(1024.0, drop_overflow_update=True)),
        ("kept", amp.FixedLossScaleManager(1024.0, drop_overflow_update=False)),
        ("dynamic", amp.DynamicLossScaleManager(init_loss_scale=2**6, scale_factor=2, scale_window=2)),
    ):
        network = Net(4, 2)
        before = network.weight.asnumpy().copy()
        scale = 1024.0 if name == "kept" else 1.0
        optimizer = nn.Momentum(network.trainable_params(), learning_rate=0.1, momentum=0.9, loss_scale=scale)
        model = ms.Model(network, nn.MSELoss(), optimizer, amp_level=level, loss_scale_manager=manager)
        model.train(2, Rows(3), dataset_sink_mode=False)
        print("model", level, name, np.abs(network.weight.asnumpy() - before).max())
