"""Loss scaling in all the forms that scripts and tests of MindSpore write it in."""

import mindspore as ms
import mindspore.context as context
import mindspore.nn as nn
import numpy as np
import pytest
from mindspore import Model, Parameter, Tensor, amp
from mindspore._checkparam import Rel
from mindspore._checkparam import Validator as validator
from mindspore.common import dtype as mstype
from mindspore.common.api import _cell_graph_executor
from mindspore.communication.management import init
from mindspore.context import ParallelMode
from mindspore.nn import TrainOneStepWithLossScaleCell, WithLossCell
from mindspore.nn.optim import Lamb, Momentum
from mindspore.nn.wrap.cell_wrapper import WithLossCell as WrappedWithLossCell
from mindspore.nn.wrap.loss_scale import DynamicLossScaleUpdateCell, FixedLossScaleUpdateCell
from mindspore.ops import functional as F
from mindspore.ops import operations as P
from mindspore.train.loss_scale_manager import DynamicLossScaleManager, FixedLossScaleManager


def setup_module():
    context.set_context(mode=context.GRAPH_MODE, device_target="Ascend")


class MindData:
    """A dataset as tests of MindSpore make them: no class of mindspore.dataset."""

    def __init__(self, size=None, batch_size=None, repeat_count=1, np_types=None, output_shapes=None, input_indexs=()):
        self._size = size
        self._batch_size = batch_size
        self._repeat_count = repeat_count
        self._np_types = np_types
        self._output_shapes = output_shapes
        self._input_indexs = input_indexs
        self._iter_num = 0

    def get_dataset_size(self):
        return self._size

    def get_repeat_count(self):
        return self._repeat_count

    def get_batch_size(self):
        return self._batch_size

    def create_tuple_iterator(self, num_epochs=-1, do_copy=True):
        return self

    @property
    def input_indexs(self):
        return self._input_indexs

    def device_que(self, send_epoch_end=True, create_data_info_queue=False, queue_name=""):
        self.queue_name = "6ba41974-209e-11ea-88b0-a24efeb2c736"
        return self

    def create_dict_iterator(self, num_epochs=-1, output_numpy=False, do_copy=True):
        return self.__iter__()

    def send(self, num_epochs=-1):
        pass

    def stop_send(self):
        pass

    def release(self):
        pass

    def continue_send(self):
        pass

    def get_data_info(self):
        pass

    def output_types(self):
        return self._np_types

    def output_shapes(self):
        return self._output_shapes

    def __len__(self):
        return self._size

    def __iter__(self):
        return self

    def __next__(self):
        if self._size < self._iter_num:
            raise StopIteration
        self._iter_num += 1
        return tuple(
            Tensor(np.ones(shape, kind)) for shape, kind in zip(self._output_shapes, self._np_types)
        )

    def next(self):
        return self.__next__()

    def reset(self):
        self._iter_num = 0


class MindDataSet(MindData):
    def __init__(self, dataset_types, dataset_shapes):
        super(MindDataSet, self).__init__(size=2, batch_size=32, np_types=dataset_types, output_shapes=dataset_shapes,
                                          input_indexs=(0, 1))

    def __next__(self):
        if self._size < self._iter_num:
            raise StopIteration
        self._iter_num += 1
        lst = []
        for shape_, type_ in zip(self._output_shapes, self._np_types):
            lst.append(Tensor(np.ones(shape_).astype(type_)))
        return tuple(lst)


class Net(nn.Cell):
    def __init__(self, in_features, out_features):
        super(Net, self).__init__()
        self.weight = Parameter(Tensor(np.ones([out_features, in_features]).astype(np.float32)), name="weight")
        self.bias = Parameter(Tensor(np.ones([out_features]).astype(np.float32)), name="bias")
        self.matmul = P.MatMul(transpose_b=True)
        self.add = P.Add()

    def construct(self, input_):
        return self.add(self.matmul(input_, self.weight), self.bias)


class NetFP16(nn.Cell):
    def __init__(self, in_features, out_features):
        super(NetFP16, self).__init__()
        self.weight = Parameter(Tensor(np.ones([out_features, in_features]).astype(np.float32)), name="weight")
        self.bias = Parameter(Tensor(np.ones([out_features]).astype(np.float32)), name="bias")
        self.matmul = P.MatMul(transpose_b=True)
        self.add = P.Add()
        self.cast = P.Cast()

    def construct(self, input_):
        output = self.add(self.matmul(self.cast(input_, mstype.float16), self.cast(self.weight, mstype.float16)),
                          self.cast(self.bias, mstype.float16))
        return self.cast(output, mstype.float32)


class MSELoss(nn.Cell):
    def __init__(self):
        super(MSELoss, self).__init__()
        self.reduce_sum = P.ReduceSum()
        self.square = P.Square()
        self.reduce_mean = P.ReduceMean()

    def construct(self, data, label):
        diff = data - label
        return self.reduce_mean(self.square(diff), ())


def data_of(size=16):
    return Tensor(np.ones([size, size]).astype(np.float32)), Tensor(np.zeros([size, size]).astype(np.float32))


def with_loss(net, loss=None):
    return WithLossCell(net, loss or MSELoss())


def test_momentum_compile():
    inputs = Tensor(np.ones([15, 1]).astype(np.float32))
    label = Tensor(np.zeros([15, 1]).astype(np.float32))
    scaling_sens = Tensor(np.full((1), np.finfo(np.float32).max), dtype=mstype.float32)
    net = Net(1, 1)
    net_with_loss = WrappedWithLossCell(net, MSELoss())
    optimizer = Momentum(net.trainable_params(), learning_rate=0.1, momentum=0.9)
    train_network = TrainOneStepWithLossScaleCell(net_with_loss, optimizer, scale_sense=scaling_sens)
    train_network.set_train()
    output = train_network(inputs, label)
    print("the result is ", output)
    assert len(output) == 3 and output[2].shape in ((), (1,))


def test_compile_fp16_not_overflow():
    inputs, label = data_of()
    net = NetFP16(16, 16)
    optimizer = Momentum(net.trainable_params(), learning_rate=0.1, momentum=0.9)
    scaling_sens = Tensor(1.0, dtype=mstype.float32)
    train_network = TrainOneStepWithLossScaleCell(with_loss(net), optimizer, scale_sense=scaling_sens)
    train_network.set_train()
    _cell_graph_executor.compile(train_network, inputs, label)
    loss, cond, scale = train_network(inputs, label)
    assert not cond.asnumpy() and float(scale.asnumpy()) == 1.0 and np.isfinite(loss.asnumpy())


def test_compile_fp16_overflow():
    inputs = Tensor(np.full([16, 16], 0.1).astype(np.float32))
    label = Tensor(np.zeros([16, 16]).astype(np.float32))
    net = NetFP16(16, 16)
    before = net.weight.asnumpy().copy()
    scaling_sens = Tensor(np.full((), 1.0e30), dtype=mstype.float32)
    optimizer = Momentum(net.trainable_params(), learning_rate=0.1, momentum=0.9)
    train_network = TrainOneStepWithLossScaleCell(with_loss(net), optimizer, scale_sense=scaling_sens)
    train_network.set_train()
    _, cond, _ = train_network(inputs, label)
    assert cond.asnumpy()
    assert (net.weight.asnumpy() == before).all()


def test_set_sense_scale():
    inputs, label = data_of()
    net = NetFP16(16, 16)
    train_network = TrainOneStepWithLossScaleCell(
        with_loss(net), nn.SGD(net.trainable_params(), 0.01), scale_sense=Tensor(np.full((1), 2.0), mstype.float32)
    )
    for value in (4.0, 1024.0):
        train_network.set_sense_scale(Tensor(np.full((1), value), dtype=mstype.float32))
        assert train_network(inputs, label)[2].asnumpy().item() == value
    with pytest.raises(TypeError):
        train_network.set_sense_scale(4.0)
    with pytest.raises(ValueError):
        train_network.set_sense_scale(Tensor(np.ones(3, np.float32)))


@pytest.mark.parametrize("scale", [1.0, "8", None])
def test_scales_that_are_none(scale):
    net = Net(16, 16)
    with pytest.raises(TypeError):
        TrainOneStepWithLossScaleCell(with_loss(net), nn.SGD(net.trainable_params()), scale_sense=scale)


def test_a_scale_of_two_numbers():
    net = Net(16, 16)
    with pytest.raises(ValueError):
        TrainOneStepWithLossScaleCell(
            with_loss(net), nn.SGD(net.trainable_params()), scale_sense=Tensor(np.ones(2, np.float32))
        )


@pytest.mark.parametrize("dtype", [mstype.float32, mstype.float16])
def test_lamb_and_momentum_compile(dtype):
    for kind in (lambda p: Lamb(p, learning_rate=0.01), lambda p: Momentum(p, learning_rate=0.01, momentum=0.9)):
        net = NetFP16(16, 16)
        train_network = TrainOneStepWithLossScaleCell(
            with_loss(net), kind(net.trainable_params()), scale_sense=Tensor([1.0], mstype.float32)
        )
        train_network.set_train()
        assert len(train_network(*data_of())) == 3


OPTIMIZERS = {
    "Adagrad": {}, "Adam": {}, "AdamWeightDecay": {}, "ASGD": {}, "FTRL": {}, "Lamb": {"learning_rate": 0.01},
    "LazyAdam": {}, "Momentum": {"learning_rate": 0.1, "momentum": 0.9}, "ProximalAdagrad": {}, "RMSProp": {},
    "Rprop": {}, "SGD": {}, "AdaMax": {}, "Adadelta": {},
}


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_dynamic_scale_with_every_optimizer(name):
    net = NetFP16(16, 16)
    optimizer = getattr(nn, name)(net.trainable_params(), **OPTIMIZERS[name])
    manager = DynamicLossScaleUpdateCell(loss_scale_value=2 ** 24, scale_factor=2, scale_window=2)
    train_network = TrainOneStepWithLossScaleCell(with_loss(net), optimizer, scale_sense=manager)
    train_network.set_train()
    scales = []
    for _ in range(3):
        _, overflow, scale = train_network(*data_of())
        scales.append((bool(overflow.asnumpy()), float(scale.asnumpy())))
    assert scales[0] == (True, 2.0 ** 24) or scales[0][1] == 2.0 ** 23


def test_fixed_scale_cell():
    net = NetFP16(16, 16)
    manager = FixedLossScaleUpdateCell(loss_scale_value=128.0)
    assert manager.get_loss_scale() == 128.0
    optimizer = nn.Adam(net.trainable_params())
    train_network = nn.TrainOneStepWithLossScaleCell(with_loss(net), optimizer, scale_sense=manager)
    for _ in range(2):
        loss, overflow, scale = train_network(*data_of())
        assert float(scale.asnumpy()) == 128.0 and not overflow.asnumpy()


@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3", "auto"])
def test_amp_levels(level):
    net = nn.SequentialCell(nn.Dense(16, 16), nn.BatchNorm1d(16), nn.ReLU())
    loss = nn.MSELoss()
    optimizer = nn.Momentum(net.trainable_params(), learning_rate=0.1, momentum=0.9)
    train_network = amp.build_train_network(net, optimizer, loss, level=level)
    output = train_network(*data_of())
    assert isinstance(output, tuple) == (level == "O2")


def test_amp_o2_with_loss_inside():
    net = with_loss(nn.Dense(16, 16), nn.MSELoss())
    optimizer = nn.Momentum(net.trainable_params(), learning_rate=0.1, momentum=0.9)
    train_network = amp.build_train_network(net, optimizer, level="O2")
    assert len(train_network(*data_of())) == 3


def test_amp_with_manager_of_one_value():
    net = nn.Dense(16, 16)
    optimizer = nn.Momentum(net.trainable_params(), learning_rate=0.1, momentum=0.9, loss_scale=1024.0)
    train_network = amp.build_train_network(
        net, optimizer, nn.MSELoss(), level="O2",
        loss_scale_manager=FixedLossScaleManager(loss_scale=1024.0, drop_overflow_update=False),
    )
    assert np.isfinite(train_network(*data_of()).asnumpy())


def test_amp_refuses_what_is_no_level():
    net = nn.Dense(16, 16)
    optimizer = nn.Momentum(net.trainable_params(), learning_rate=0.1, momentum=0.9)
    with pytest.raises((TypeError, ValueError)):
        amp.build_train_network(net, optimizer, nn.MSELoss(), level="O5")


def dataset_of(shape=(16, 16)):
    return MindDataSet((np.float32, np.float32), (shape, shape))


@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize("manager", [
    DynamicLossScaleManager(init_loss_scale=16, scale_factor=2, scale_window=2),
    DynamicLossScaleManager(2 ** 10),
    FixedLossScaleManager(128.0),
    FixedLossScaleManager(128.0, drop_overflow_update=False),
    None,
])
def test_model_with_managers(manager, sink):
    net = NetFP16(16, 16)
    optimizer = Momentum(net.trainable_params(), learning_rate=0.1, momentum=0.9,
                         loss_scale=128.0 if isinstance(manager, FixedLossScaleManager)
                         and not manager.get_drop_overflow_update() else 1.0)
    model = Model(net, loss_fn=MSELoss(), optimizer=optimizer, metrics=None, loss_scale_manager=manager)
    before = net.weight.asnumpy().copy()
    model.train(2, dataset_of(), dataset_sink_mode=sink)
    assert (net.weight.asnumpy() != before).any()


@pytest.mark.parametrize("level", ["O0", "O2", "O3"])
def test_model_with_levels(level):
    net = nn.Dense(16, 16)
    optimizer = nn.Momentum(net.trainable_params(), learning_rate=0.01, momentum=0.9)
    loss_scale_manager = DynamicLossScaleManager(init_loss_scale=16, scale_factor=2, scale_window=2)
    model = Model(net, nn.MSELoss(reduction="mean"), optimizer, amp_level=level, loss_scale_manager=loss_scale_manager)
    model.train(2, dataset_of(), dataset_sink_mode=False)


def test_model_builds_its_network_from_keywords():
    net = nn.Dense(16, 16)
    optimizer = nn.Momentum(net.trainable_params(), learning_rate=0.01, momentum=0.9)
    model = Model(net, loss_fn=nn.MSELoss(), optimizer=optimizer, metrics={"acc"}, amp_level="O2",
                  keep_batchnorm_fp32=False, loss_scale_manager=FixedLossScaleManager(1024.0))
    model.train(1, dataset_of(), dataset_sink_mode=False)


def test_amp_in_data_parallel_mode():
    context.reset_auto_parallel_context()
    init()
    context.set_auto_parallel_context(parallel_mode=ParallelMode.DATA_PARALLEL, gradients_mean=True, device_num=1)
    net = NetFP16(16, 16)
    optimizer = nn.Momentum(net.trainable_params(), learning_rate=0.1, momentum=0.9)
    train_network = amp.build_train_network(net, optimizer, nn.MSELoss(), level="O0")
    assert np.isfinite(train_network(*data_of()).asnumpy())
    scaled = TrainOneStepWithLossScaleCell(with_loss(net), optimizer, scale_sense=Tensor(2.0, mstype.float32))
    assert len(scaled(*data_of())) == 3
    context.reset_auto_parallel_context()


class OwnStep(nn.TrainOneStepWithLossScaleCell):
    """A step of the user's own, of the four methods of its base."""

    def __init__(self, network, optimizer, scale_sense):
        super(OwnStep, self).__init__(network, optimizer, scale_sense)
        self.hyper_map = ms.ops.HyperMap()
        self.fill = P.Fill()

    def construct(self, *inputs):
        weights = self.weights
        loss = self.network(*inputs)
        scaling_sens = self.scale_sense
        status, scaling_sens = self.start_overflow_check(loss, scaling_sens)
        scaling_sens_filled = ms.ops.ones_like(loss) * F.cast(scaling_sens, F.dtype(loss))
        grads = self.grad(self.network, weights)(*inputs, scaling_sens_filled)
        grads = self.hyper_map(F.partial(grad_scale, scaling_sens), grads)
        grads = self.grad_reducer(grads)
        cond = self.get_overflow_status(status, grads)
        overflow = self.process_loss_scale(cond)
        if not overflow:
            loss = F.depend(loss, self.optimizer(grads))
        return loss, cond, scaling_sens


grad_scale = ms.ops.MultitypeFuncGraph("grad_scale")
reciprocal = P.Reciprocal()


@grad_scale.register("Tensor", "Tensor")
def tensor_grad_scale(scale, grad):
    return grad * F.cast(reciprocal(scale), F.dtype(grad))


@grad_scale.register("Tensor", "RowTensor")
def tensor_grad_scale_row_tensor(scale, grad):
    return ms.RowTensor(grad.indices, grad.values * F.cast(reciprocal(scale), F.dtype(grad.values)), grad.dense_shape)


@pytest.mark.parametrize("mode", [context.GRAPH_MODE, context.PYNATIVE_MODE])
def test_a_step_of_ones_own(mode):
    context.set_context(mode=mode)
    net = NetFP16(16, 16)
    manager = DynamicLossScaleManager(2 ** 24, 2, 2).get_update_cell()
    step = OwnStep(with_loss(net), nn.Adam(net.trainable_params(), 0.01), manager)
    step.set_train()
    first = step(*data_of())
    losses = [float(step(*data_of())[0].asnumpy()) for _ in range(12)]
    assert first[1].asnumpy() and losses[-1] < losses[0]
    context.set_context(mode=context.GRAPH_MODE)


@pytest.mark.parametrize("arguments", [(0.5,), (2 ** 24, 0), (2 ** 24, -2), (2 ** 24, 2, 0), (2 ** 24, 2, -1)])
def test_wrong_dynamic_managers(arguments):
    with pytest.raises(ValueError):
        DynamicLossScaleManager(*arguments)
    with pytest.raises(ValueError):
        FixedLossScaleManager(0.5)


def test_managers_on_the_host():
    manager = DynamicLossScaleManager(init_loss_scale=16, scale_factor=2, scale_window=2)
    values = []
    for overflow in (False, False, True, True, False, False):
        manager.update_loss_scale(overflow)
        values.append(manager.get_loss_scale())
    assert values == [16, 32, 16, 8, 8, 16]
    assert manager.get_drop_overflow_update() and manager.get_update_cell() is not None
    fixed = FixedLossScaleManager(128.0)
    fixed.update_loss_scale(True)
    assert fixed.get_loss_scale() == 128.0 and fixed.get_drop_overflow_update()
    assert FixedLossScaleManager(128.0, False).get_update_cell() is None


def test_scalers_of_functions():
    net = nn.Dense(16, 16).to_float(mstype.float16)
    loss_fn, optimizer = nn.MSELoss(), nn.Momentum(net.trainable_params(), 0.1, 0.9)
    scaler = amp.DynamicLossScaler(scale_value=2 ** 24, scale_factor=2, scale_window=2)

    def forward(x, y):
        loss = loss_fn(net(x).astype(mstype.float32), y)
        return scaler.scale(loss)

    grad_fn = ms.value_and_grad(forward, None, optimizer.parameters)
    skipped = 0
    for _ in range(14):
        loss, grads = grad_fn(*data_of())
        loss, grads = scaler.unscale(loss), scaler.unscale(grads)
        is_finite = amp.all_finite(grads)
        scaler.adjust(is_finite)
        if is_finite:
            optimizer(grads)
        else:
            skipped += 1
    assert skipped > 0 and np.isfinite(loss.asnumpy())


class SlowManager(ms.LossScaleManager):
    """A manager of the user's own, with the checks that MindSpore's use, whose cell is MindSpore's."""

    def __init__(self, init_loss_scale=2 ** 24, scale_factor=2, scale_window=2000):
        validator.check_positive_int(scale_window, "scale_window", self.__class__.__name__)
        validator.check_number("init_loss_scale", init_loss_scale, 1, Rel.GE, self.__class__.__name__)
        self.loss_scale, self.scale_factor, self.scale_window = init_loss_scale, scale_factor, scale_window
        self.asked = 0

    def get_loss_scale(self):
        return self.loss_scale

    def update_loss_scale(self, overflow):
        self.loss_scale = max(self.loss_scale / self.scale_factor, 1) if overflow else self.loss_scale

    def get_update_cell(self):
        self.asked += 1
        return nn.DynamicLossScaleUpdateCell(self.loss_scale, self.scale_factor, self.scale_window)


def test_a_manager_of_ones_own():
    for wrong in (0, -3, 2.5, True):
        with pytest.raises((TypeError, ValueError), match="scale_window"):
            SlowManager(scale_window=wrong)
    manager = SlowManager(2 ** 10, 2, 100)
    net = NetFP16(16, 16)
    optimizer = nn.Momentum(net.trainable_params(), learning_rate=0.1, momentum=0.9)
    model = Model(net, loss_fn=MSELoss(), optimizer=optimizer, loss_scale_manager=manager)
    model.train(1, dataset_of(), dataset_sink_mode=False)
    assert manager.asked == 1


def test_a_dataset_of_ones_own_is_read_from_its_start_in_every_epoch():
    seen = []

    class Counting(ms.train.callback.Callback):
        def on_train_step_end(self, run_context):
            seen.append(run_context.original_args().cur_epoch_num)

    net = nn.Dense(16, 16)
    model = Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.01))
    model.train(3, dataset_of(), callbacks=[Counting()], dataset_sink_mode=False)
    assert [seen.count(epoch) for epoch in (1, 2, 3)] == [3, 3, 3]
