"""Tests of mixed precision and of Model with managers of the loss scale, as MindSpore's own write them."""

import mindspore as ms
import mindspore.nn as nn
import numpy as np
import pytest
from mindspore import FixedLossScaleManager, Model, Tensor, amp, context, ops
from mindspore.common import dtype as mstype
from mindspore.nn import Momentum, SoftmaxCrossEntropyWithLogits
from mindspore.ops import functional as F
from mindspore.ops import operations as P
from mindspore.train import LossMonitor, TimeMonitor
from mindspore.train.callback import Callback
from mindspore.train.loss_scale_manager import DynamicLossScaleManager, LossScaleManager


def setup_module(module=None):
    context.set_context(mode=context.GRAPH_MODE)


class Net(nn.Cell):
    def __init__(self, in_features, out_features):
        super(Net, self).__init__()
        self.dense = nn.Dense(in_features, out_features)
        self.loss = nn.MSELoss()

    def construct(self, input_x, label):
        output = self.dense(input_x)
        loss = self.loss(output, label)
        return loss


class NetNoLoss(nn.Cell):
    def __init__(self, in_features, out_features):
        super(NetNoLoss, self).__init__()
        self.dense = nn.Dense(in_features, out_features)

    def construct(self, input_x):
        return self.dense(input_x)


class ConvBN(nn.Cell):
    def __init__(self):
        super(ConvBN, self).__init__()
        self.conv = nn.Conv2d(3, 4, kernel_size=3, stride=2, pad_mode="same", weight_init="normal")
        self.bn = nn.BatchNorm2d(4)
        self.relu = nn.ReLU()
        self.flatten = nn.Flatten()
        self.fc = nn.Dense(64, 10)

    def construct(self, x):
        return self.fc(self.flatten(self.relu(self.bn(self.conv(x)))))


class Rows:
    """Rows that are given as little as Model asks for."""

    def __init__(self, size, *arrays):
        self.size, self.arrays, self.index = size, arrays, 0

    def get_dataset_size(self):
        return self.size

    def get_repeat_count(self):
        return 1

    def create_tuple_iterator(self, num_epochs=-1, do_copy=True):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        if self.index == self.size:
            raise StopIteration
        self.index += 1
        return tuple(Tensor(array) for array in self.arrays)

    def reset(self):
        self.index = 0


class OldRows(Rows):
    """Rows of a class that takes no arguments at all."""

    def create_tuple_iterator(self):
        return iter([tuple(Tensor(array) for array in self.arrays)] * self.size)

    __iter__ = __next__ = reset = None


def plain(kind=Rows):
    return kind(3, np.ones([16, 16]).astype(np.float32), np.zeros([16, 16]).astype(np.float32))


def images(kind=Rows):
    return kind(3, np.ones([4, 3, 8, 8]).astype(np.float32), np.array([0, 1, 2, 3]).astype(np.int32))


def test_amp_o0():
    inputs, label = Tensor(np.ones([16, 16]).astype(np.float32)), Tensor(np.zeros([16, 16]).astype(np.float32))
    net = Net(16, 16)
    optimizer = nn.Momentum(net.trainable_params(), learning_rate=0.1, momentum=0.9)
    train_network = amp.build_train_network(net, optimizer, level="O0")
    _ = train_network(inputs, label)


def test_amp_o2():
    inputs, label = Tensor(np.ones([16, 16]).astype(np.float32)), Tensor(np.zeros([16, 16]).astype(np.float32))
    net = Net(16, 16)
    optimizer = nn.Momentum(net.trainable_params(), learning_rate=0.1, momentum=0.9)
    train_network = amp.build_train_network(net, optimizer, level="O2")
    assert len(train_network(inputs, label)) == 3


def test_amp_keywords():
    inputs, label = Tensor(np.ones([16, 16]).astype(np.float32)), Tensor(np.zeros([16, 16]).astype(np.float32))
    for options in ({"cast_model_type": mstype.float16}, {"keep_batchnorm_fp32": False}, {"loss_scale_manager": None},
                    {"cast_model_type": mstype.float32, "keep_batchnorm_fp32": True}, {"boost_level": "O0"}):
        net = NetNoLoss(16, 16)
        optimizer = nn.Momentum(net.trainable_params(), learning_rate=0.1, momentum=0.9)
        amp.build_train_network(net, optimizer, nn.MSELoss(), level="O2", **options)(inputs, label)
    with pytest.raises(ValueError):
        amp.build_train_network(net, optimizer, nn.MSELoss(), level="O2", unknown=3)


def test_amp_network_with_many_layers():
    network = ConvBN()
    optimizer = nn.Momentum(network.trainable_params(), learning_rate=0.1, momentum=0.9)
    loss = nn.SoftmaxCrossEntropyWithLogits(reduction="mean")
    for level in ("O0", "O1", "O2", "O3", "auto"):
        train_network = amp.build_train_network(network, optimizer, loss, level=level)
        train_network(Tensor(np.ones([4, 3, 8, 8]).astype(np.float32)),
                      Tensor(np.eye(10)[:4].astype(np.float32)))


def test_compile_model_train_with_levels():
    for level in ("O0", "O1", "O2", "O3", "auto"):
        for manager in (None, FixedLossScaleManager(), FixedLossScaleManager(1024.0, False),
                        DynamicLossScaleManager(2 ** 4, 2, 2)):
            net = ConvBN()
            kept = isinstance(manager, FixedLossScaleManager) and not manager.get_drop_overflow_update()
            optimizer = nn.Momentum(net.trainable_params(), 0.01, 0.9, loss_scale=1024.0 if kept else 1.0)
            loss = SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
            options = {} if manager is None and level != "O2" else {"loss_scale_manager": manager}
            model = Model(net, loss_fn=loss, optimizer=optimizer, metrics={"acc"}, amp_level=level, **options)
            before = net.fc.weight.asnumpy().copy()
            model.train(2, images(), dataset_sink_mode=False)
            assert (net.fc.weight.asnumpy() != before).any(), (level, manager)
            assert model.eval(images(), dataset_sink_mode=False)["acc"] >= 0


def test_model_with_rows_that_take_no_arguments():
    net = NetNoLoss(16, 16)
    model = Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.01),
                  loss_scale_manager=DynamicLossScaleManager(16, 2, 2))
    before = net.dense.weight.asnumpy().copy()
    model.train(1, plain(OldRows), dataset_sink_mode=False)
    assert (net.dense.weight.asnumpy() != before).any()


def test_model_that_keeps_the_scale_of_a_callback():
    seen = []

    class Watch(Callback):
        def step_end(self, run_context):
            params = run_context.original_args()
            seen.append((params.cur_step_num, len(params.net_outputs), float(params.net_outputs[2].asnumpy())))

    net = NetNoLoss(16, 16)
    model = Model(net, nn.MSELoss(), Momentum(net.trainable_params(), 0.01, 0.9), amp_level="O0",
                  loss_scale_manager=DynamicLossScaleManager(init_loss_scale=16, scale_factor=2, scale_window=2))
    model.train(2, plain(), callbacks=[LossMonitor(), TimeMonitor(), Watch()], dataset_sink_mode=False)
    assert [step for step, _, _ in seen] == [1, 2, 3, 4, 5, 6]
    assert seen[0][2] == 16.0 and seen[-1][2] > 16.0


def test_model_of_a_step_that_is_given():
    net = NetNoLoss(16, 16)
    manager = nn.DynamicLossScaleUpdateCell(2 ** 10, 2, 100)
    step = nn.TrainOneStepWithLossScaleCell(
        nn.WithLossCell(net, nn.MSELoss()), nn.Adam(net.trainable_params()), manager
    )
    Model(step).train(1, plain(), callbacks=LossMonitor(1), dataset_sink_mode=False)
    Model(step).train(1, plain(), callbacks=LossMonitor(1), dataset_sink_mode=True, sink_size=3)


def test_wrong_managers():
    net = NetNoLoss(16, 16)
    with pytest.raises((TypeError, ValueError)):
        Model(net, nn.MSELoss(), nn.SGD(net.trainable_params()), amp_level="O9")
    for arguments in ((0.5,), (2 ** 24, 0), (2 ** 24, 2, 0)):
        with pytest.raises(ValueError):
            DynamicLossScaleManager(*arguments)


class OwnManager(LossScaleManager):
    """A fixed scale that the update leaves alone."""

    def __init__(self):
        self.updates = 0

    def get_loss_scale(self):
        return 64.0

    def update_loss_scale(self, overflow):
        self.updates += 1

    def get_update_cell(self):
        return nn.FixedLossScaleUpdateCell(64.0)


def test_a_manager_that_derives():
    net = NetNoLoss(16, 16)
    Model(net, nn.MSELoss(), nn.SGD(net.trainable_params()), loss_scale_manager=OwnManager()).train(1, plain())


OPTIMIZERS = {
    "AdaFactor": {}, "AdaMax": {}, "Adadelta": {}, "Adagrad": {}, "Adam": {}, "AdamOffload": {}, "AdamWeightDecay": {},
    "ASGD": {}, "FTRL": {}, "Lamb": {"learning_rate": 0.01}, "LazyAdam": {},
    "Momentum": {"learning_rate": 0.1, "momentum": 0.9}, "ProximalAdagrad": {}, "RMSProp": {}, "Rprop": {}, "SGD": {},
}


def test_every_optimizer_with_tensor_and_cell_scales():
    inputs, label = Tensor(np.ones([16, 16]).astype(np.float32)), Tensor(np.zeros([16, 16]).astype(np.float32))
    for name, options in OPTIMIZERS.items():
        for scale in (Tensor(1.0), Tensor([8.0]), nn.FixedLossScaleUpdateCell(8.0),
                      nn.DynamicLossScaleUpdateCell(2 ** 8, 2, 2)):
            net = NetNoLoss(16, 16)
            optimizer = getattr(nn, name)(net.trainable_params(), **options)
            step = nn.TrainOneStepWithLossScaleCell(nn.WithLossCell(net, nn.MSELoss()), optimizer, scale_sense=scale)
            step.set_train()
            loss, overflow, found = step(inputs, label)
            assert not overflow.asnumpy() and np.isfinite(loss.asnumpy()), name
            assert found.shape in ((), (1,))


def test_thor_and_lars():
    inputs, label = Tensor(np.ones([16, 16]).astype(np.float32)), Tensor(np.zeros([16, 16]).astype(np.float32))
    net = NetNoLoss(16, 16)
    optimizer = nn.LARS(nn.Momentum(net.trainable_params(), 0.1, 0.9), epsilon=1e-8, coefficient=0.001)
    step = nn.TrainOneStepWithLossScaleCell(nn.WithLossCell(net, nn.MSELoss()), optimizer, Tensor(16.0))
    assert len(step(inputs, label)) == 3


def check_functions_with_scaler(mode, scaler):
    ms.set_context(mode=mode)
    net = amp.auto_mixed_precision(ConvBN(), "O1")
    loss_fn, optimizer = nn.CrossEntropyLoss(), nn.Adam(net.trainable_params())
    status = amp.init_status()

    def forward_fn(data, label):
        logits = net(data)
        loss = loss_fn(ops.cast(logits, mstype.float32), label)
        return scaler.scale(loss), logits

    grad_fn = ops.value_and_grad(forward_fn, None, optimizer.parameters, has_aux=True)

    @ms.jit
    def train_step(data, label):
        (loss, _), grads = grad_fn(data, label)
        loss = scaler.unscale(loss)
        is_finite = amp.all_finite(grads, status)
        if is_finite:
            grads = scaler.unscale(grads)
            loss = ops.depend(loss, optimizer(grads))
        loss = ops.depend(loss, scaler.adjust(is_finite))
        return loss, is_finite

    data, label = Tensor(np.ones([4, 3, 8, 8]).astype(np.float32)), Tensor(np.array([0, 1, 2, 3]), mstype.int32)
    losses = [float(train_step(data, label)[0].asnumpy()) for _ in range(3)]
    assert losses[-1] < losses[0]
    ms.set_context(mode=context.GRAPH_MODE)


def test_functions_with_scalers():
    for mode in (context.GRAPH_MODE, context.PYNATIVE_MODE):
        check_functions_with_scaler(mode, amp.StaticLossScaler(scale_value=2 ** 10))
        check_functions_with_scaler(mode, amp.DynamicLossScaler(2 ** 10, 2, 50))


def test_finite_or_not():
    good = (Tensor(np.ones((2, 3), np.float16)), Tensor(np.ones(2, np.float32)))
    assert bool(amp.all_finite(good).asnumpy())
    for bad in (np.inf, -np.inf, np.nan):
        assert not bool(amp.all_finite((good[0], Tensor(np.array([1.0, bad], np.float32)))).asnumpy())


def test_auto_mixed_precision_of_every_level():
    x = Tensor(np.ones([4, 3, 8, 8]).astype(np.float32))
    kinds = {level: amp.auto_mixed_precision(ConvBN(), level)(x).dtype for level in ("O0", "O1", "O2", "O3", "auto")}
    assert kinds["O0"] == mstype.float32 and kinds["O3"] in (mstype.float16, mstype.float32)
    amp.auto_mixed_precision(ConvBN(), "O2", mstype.bfloat16)(x)
    with pytest.raises(ValueError):
        amp.auto_mixed_precision(ConvBN(), "O5")


def test_white_and_black_lists():
    assert nn.Conv2d in amp.get_white_list() and nn.BatchNorm2d in amp.get_black_list()
    amp.custom_mixed_precision(ConvBN(), white_list=[nn.Dense])
    amp.custom_mixed_precision(ConvBN(), black_list=[*amp.get_black_list(), nn.Flatten])
    for wrong in ({"white_list": [3]}, {"white_list": nn.Dense}, {}):
        with pytest.raises((TypeError, ValueError)):
            amp.custom_mixed_precision(ConvBN(), **wrong)


def test_to_float_and_back():
    net = ConvBN().to_float(mstype.float16)
    net.bn.to_float(mstype.float32)
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
    net_with_loss = nn.WithLossCell(net, loss)
    step = nn.TrainOneStepWithLossScaleCell(net_with_loss, optimizer, Tensor(1024.0))
    step.set_train()
    found = step(Tensor(np.ones([4, 3, 8, 8]).astype(np.float32)), Tensor(np.array([0, 1, 2, 3]), mstype.int32))
    assert found[0].asnumpy().dtype in (np.float16, np.float32)


def test_overflow_operators():
    alloc, get, clear = P.NPUAllocFloatStatus(), P.NPUGetFloatStatus(), P.NPUClearFloatStatus()

    class Status(nn.Cell):
        def construct(self, x):
            init = alloc()
            init = F.depend(init, x)
            cleared = clear(init)
            x = F.depend(x, cleared)
            res = ops.exp(x)
            init = F.depend(init, res)
            init = F.depend(init, get(init))
            return P.ReduceSum()(init, (0,)), res

    assert float(Status()(Tensor(100.0))[0].asnumpy()) > 0 and float(Status()(Tensor(1.0))[0].asnumpy()) == 0


def test_sparse_gradients():
    class Table(nn.Cell):
        def __init__(self):
            super(Table, self).__init__()
            self.table = nn.EmbeddingLookup(10, 4, target="CPU", sparse=True)

        def construct(self, index):
            return ops.ReduceMean()(self.table(index) ** 2)

    for name in ("LazyAdam", "FTRL", "Adam", "Adagrad", "ProximalAdagrad"):
        net = Table()
        optimizer = getattr(nn, name)(net.trainable_params())
        optimizer.target = "CPU"
        step = nn.TrainOneStepWithLossScaleCell(net, optimizer, nn.DynamicLossScaleUpdateCell(2 ** 10, 2, 10))
        assert not step(Tensor(np.array([1, 3, 3]), mstype.int32))[1].asnumpy()


if __name__ == "__main__":
    for name, test in sorted(globals().items()):
        if name.startswith("test_"):
            test()
            print(name)
