"""Loss scaling beside other things that scripts do with a training step: schedules, checkpoints, averages, settings."""

import os
import tempfile

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import Parameter, Tensor, amp, context, nn, ops
from mindspore.nn.wrap.loss_scale import _grad_scale

X, Y = Tensor(np.ones((1, 2), np.float32)), Tensor(np.zeros((1, 3), np.float32))


def network():
    return nn.WithLossCell(nn.Dense(2, 3, weight_init="ones"), nn.MSELoss())


def rows():
    columns = {"x": np.ones((4, 2), np.float32), "y": np.ones((4, 3), np.float32)}
    return ds.NumpySlicesDataset(columns, shuffle=False).batch(2)


class OwnTools(nn.TrainOneStepWithLossScaleCell):
    """A step that computes with what its base has made."""

    def construct(self, *inputs):
        loss = self.network(*inputs)
        scaling_sens = self.scale_sense
        status, scaling_sens = self.start_overflow_check(loss, scaling_sens)
        filled = ops.ones_like(loss) * ops.cast(scaling_sens, ops.dtype(loss))
        grads = self.grad(self.network, self.weights)(*inputs, filled)
        grads = self.hyper_map(ops.partial(_grad_scale, scaling_sens * self.degree), grads)
        grads = self.grad_reducer(grads)
        if self.gpu_target or self.ascend_910a_target or self.ascend_910b_target:
            cond = self.get_overflow_status(status, grads)
        else:
            flag_sum = ops.AddN()(self.hyper_map(ops.FloatStatus(), grads)).reshape(())
            flag_sum = self.allreduce(flag_sum) if self.is_distributed else flag_sum
            cond = self.less_equal(self.base, flag_sum)
        overflow = self.process_loss_scale(cond)
        if self.logic_not(overflow):
            loss = ops.depend(loss, self.optimizer(grads))
        return loss, cond, scaling_sens


def test_a_step_with_the_tools_of_its_base():
    for scale, wanted in ((nn.DynamicLossScaleUpdateCell(2**10, 2, 3), False), (Tensor([4.0]), False),
                          (Tensor(np.inf, ms.float32), True)):
        net = network()
        before = net.backbone_network.weight.asnumpy().copy()
        step = OwnTools(net, nn.SGD(net.trainable_params()), scale)
        step.set_train()
        assert bool(step(X, Y)[1].asnumpy()) == wanted
        assert bool((net.backbone_network.weight.asnumpy() == before).all()) == wanted


class Product(nn.Cell):
    def __init__(self, in_features, out_features):
        super(Product, self).__init__()
        self.weight = Parameter(Tensor(np.ones([in_features, out_features]).astype(np.float32)), name="weight")
        self.matmul = ops.MatMul()

    def construct(self, x):
        return self.matmul(x, self.weight)


def test_the_examples_of_the_page_on_the_step():
    size, in_features, out_features = 16, 16, 10
    net = Product(in_features, out_features)
    optimizer = nn.Momentum(net.trainable_params(), learning_rate=0.1, momentum=0.9)
    net_with_loss = nn.WithLossCell(net, nn.MSELoss())
    inputs = Tensor(np.ones([out_features, in_features]), ms.float32)
    labels = Tensor(np.ones([out_features]), ms.float32)
    loss = net_with_loss(inputs, labels)
    manager = nn.DynamicLossScaleUpdateCell(loss_scale_value=2**12, scale_factor=2, scale_window=1000)
    train_network = nn.TrainOneStepWithLossScaleCell(net_with_loss, optimizer, scale_sense=manager)
    status = Tensor([0] * 8, ms.int32)
    scaling_sens = train_network.scale_sense
    scaling_sens_filled = ops.ones_like(loss) * ops.cast(scaling_sens, ops.dtype(loss))
    grads = train_network.grad(train_network.network, train_network.weights)(inputs, labels, scaling_sens_filled)
    grads = train_network.grad_reducer(grads)
    cond = train_network.get_overflow_status(status, grads)
    assert not train_network.process_loss_scale(cond)

    scaled = nn.TrainOneStepWithLossScaleCell(net_with_loss, optimizer, scale_sense=Tensor([1024], dtype=ms.float32))
    inputs = Tensor(np.ones([size, in_features]).astype(np.float32))
    label = Tensor(np.zeros([size, out_features]).astype(np.float32))
    for value in (1, 2):
        scaled.set_sense_scale(Tensor([value], dtype=ms.float32))
        assert scaled(inputs, label)[2].asnumpy().tolist() == [value]


class OwnSens(nn.TrainOneStepCell):
    """The step of the page, as a class that derives."""

    def construct(self, *inputs):
        loss = self.network(*inputs)
        sens = ops.fill(loss.dtype, loss.shape, self.sens)
        grads = self.grad_reducer(self.grad(self.network, self.weights)(*inputs, sens))
        return ops.depend(loss, self.optimizer(grads))


def test_a_step_with_the_sens_of_its_base():
    for options in ({}, {"sens": 128.0}):
        net = network()
        optimizer = nn.SGD(net.trainable_params(), 0.1, loss_scale=options.get("sens", 1.0))
        step = OwnSens(net, optimizer, **options)
        assert float(step(X, Y).asnumpy()) > float(step(X, Y).asnumpy())


def test_values_and_gradients_of_a_network():
    net = network()
    weights = ms.ParameterTuple(net.trainable_params())
    value_and_grad = nn.ForwardValueAndGrad(net, weights=weights, get_all=True, get_by_list=True, sens_param=True)
    _, (by_inputs, by_weights) = value_and_grad(X, Y, Tensor(16.0))
    assert (len(by_inputs), len(by_weights)) == (2, 2)
    assert len(nn.WithGradCell(nn.Dense(2, 3), nn.MSELoss())(X, Y)) == 2


class Tripled(nn.Cell):
    def construct(self, x):
        return x * 2

    def bprop(self, x, out, dout):
        return (dout * 3,)


def test_a_gradient_of_ones_own():
    net = nn.WithLossCell(nn.SequentialCell(nn.Dense(2, 3), Tripled()), nn.MSELoss())
    manager = nn.DynamicLossScaleUpdateCell(2**10, 2, 3)
    step = nn.TrainOneStepWithLossScaleCell(net, nn.Adam(net.trainable_params()), manager)
    step.set_train()
    assert not step(X, Y)[1].asnumpy()


def test_networks_of_a_model():
    net = nn.Dense(2, 3)
    model = ms.Model(net, nn.MSELoss(), nn.Momentum(net.trainable_params(), 0.1, 0.9), metrics={"mse": nn.MSE()},
                     amp_level="O2", loss_scale_manager=ms.DynamicLossScaleManager(2**8, 2, 10),
                     keep_batchnorm_fp32=True, boost_level="O0")
    assert type(model.train_network).__name__ == "TrainOneStepWithLossScaleCell"
    model.build(rows(), rows(), 1, 2)
    model.train(2, rows(), callbacks=[ms.LossMonitor(), ms.TimeMonitor(2)], dataset_sink_mode=True, sink_size=2)
    model.fit(1, rows(), rows())
    assert model.eval(rows(), dataset_sink_mode=False)["mse"] >= 0
    assert model.predict(X).shape == (1, 3)


def test_schedules_and_groups():
    layers = [nn.Dense(2, 4, weight_init="ones"), nn.Dense(4, 3, weight_init="ones")]
    net = nn.WithLossCell(nn.SequentialCell(layers), nn.MSELoss())
    params = net.trainable_params()
    groups = [{"params": [p for p in params if "bias" not in p.name], "weight_decay": 0.01},
              {"params": [p for p in params if "bias" in p.name], "lr": 0.001}, {"order_params": params}]
    optimizer = nn.AdamWeightDecay(groups, learning_rate=nn.PolynomialDecayLR(0.01, 0.001, 4, 0.5))
    step = nn.TrainOneStepWithLossScaleCell(net, optimizer, nn.DynamicLossScaleUpdateCell(2**12, 2, 2))
    step.set_train()
    losses = [float(step(X, Y)[0].asnumpy()) for _ in range(3)]
    assert losses[2] < losses[0]
    optimizer = nn.Momentum(params, [0.1, 0.01, 0.001], 0.9, weight_decay=1e-4, loss_scale=16.0, use_nesterov=True)
    assert len(nn.TrainOneStepWithLossScaleCell(net, optimizer, Tensor(1.0))(X, Y)) == 3


class Halved(amp.LossScaler):
    def scale(self, inputs):
        return inputs * 0.5

    def unscale(self, inputs):
        return inputs / 0.5

    def adjust(self, grads_finite):
        return True


def test_scalers():
    scaler = amp.DynamicLossScaler(scale_value=2**10, scale_factor=2, scale_window=1)
    grads = (Tensor([1.0, 2.0]), Tensor([0.5]))
    assert [g.asnumpy().tolist() for g in scaler.unscale(scaler.scale(grads))] == [[1.0, 2.0], [0.5]]
    values = []
    for finite in (True, False, False):
        scaler.adjust(Tensor(finite))
        values.append(float(scaler.scale_value.asnumpy()))
    assert values == [2.0**11, 2.0**10, 2.0**9]
    assert float(Halved().scale(Tensor(1.0))) == 0.5


def test_parts_of_a_batch():
    net = network()
    cell = nn.GradAccumulationCell(net, 2)
    step = nn.TrainOneStepWithLossScaleCell(cell, nn.SGD(net.trainable_params()), Tensor(2.0))
    assert len(step(Tensor(np.ones((4, 2), np.float32)), Tensor(np.ones((4, 3), np.float32)))) == 3


def test_a_checkpoint_of_a_step():
    net = network()
    manager = nn.DynamicLossScaleUpdateCell(2**12, 2, 1)
    step = nn.TrainOneStepWithLossScaleCell(net, nn.Adam(net.trainable_params()), manager)
    step.set_train()
    step(X, Y)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "step.ckpt")
        ms.save_checkpoint(step, file)
        saved = ms.load_checkpoint(file)
        assert float(saved["scale_sense"].asnumpy()) == 2.0**13
        assert ms.load_param_into_net(step, saved) == ([], [])
    step(X, Y)


class Averaged(nn.TrainOneStepWithLossScaleCell):
    """Gradients that are clipped, and an average of the weights."""

    def __init__(self, network, optimizer, scale_sense=1.0):
        if isinstance(scale_sense, (int, float)):
            scale_sense = nn.FixedLossScaleUpdateCell(scale_sense)
        super().__init__(network, optimizer, scale_sense)
        self.averages = self.weights.clone(prefix="ema", init="same")
        self.decay = Parameter(Tensor(0.9, ms.float32), name="decay", requires_grad=False)

    def construct(self, x, y):
        loss = self.network(x, y)
        status, sens = self.start_overflow_check(loss, self.scale_sense)
        grads = self.grad(self.network, self.weights)(x, y, ops.ones_like(loss) * ops.cast(sens, loss.dtype))
        grads = self.hyper_map(ops.partial(lambda scale, grad: grad / scale, sens), grads)
        grads = ops.clip_by_global_norm(grads, 1.0)
        cond = self.get_overflow_status(status, grads)
        overflow = self.process_loss_scale(cond)
        if overflow == False:  # noqa: E712  (as scripts write it)
            loss = ops.depend(loss, self.optimizer(grads))
            self.hyper_map(ops.partial(averaged, self.decay), self.averages, self.weights)
        return loss, cond, sens


def averaged(decay, average, weight):
    return ops.assign(average, decay * average + (1 - decay) * weight)


def test_averages_of_weights():
    net = network()
    step = Averaged(net, nn.AdamWeightDecay(net.trainable_params(), 0.01), 128.0)
    before = step.averages[0].asnumpy().copy()
    losses = [float(step(X, Y)[0].asnumpy()) for _ in range(2)]
    assert losses[1] < losses[0]
    assert (step.averages[0].asnumpy() != before).any()
    assert (step.averages[0].asnumpy() != step.weights[0].asnumpy()).any()


def test_a_step_that_is_a_function():
    net, loss_fn, scale = nn.Dense(2, 3), nn.MSELoss(), Tensor(2.0**10)
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    value_and_grad = ops.value_and_grad(lambda x, y: loss_fn(net(x), y) * scale, None, net.trainable_params())

    @ms.jit
    def train_step(x, y):
        loss, grads = value_and_grad(x, y)
        grads = ops.HyperMap()(ops.partial(lambda scale, grad: grad / scale, scale), grads)
        finite = ops.logical_not(ops.AddN()(ops.HyperMap()(ops.FloatStatus(), grads)) > 0)
        if finite.reshape(()):
            optimizer(grads)
        return loss / scale

    losses = [float(train_step(X, Y).asnumpy()) for _ in range(2)]
    assert losses[1] < losses[0]


def test_other_kinds_of_sixteen_bits():
    net = nn.Dense(2, 3)
    step = amp.build_train_network(
        net, nn.Momentum(net.trainable_params(), 0.1, 0.9, loss_scale=1024.0), nn.MSELoss(), level="O2",
        cast_model_type=ms.bfloat16, loss_scale_manager=ms.FixedLossScaleManager(1024.0, False),
    )
    assert np.isfinite(step(X, Y).asnumpy())


def test_settings_around_a_step():
    context.set_context(enable_graph_kernel=True, save_graphs=False, max_call_depth=10000)
    ms.set_context(ascend_config={"precision_mode": "must_keep_origin_dtype"})
    net = network()
    step = nn.TrainOneStepWithLossScaleCell(net, nn.Lamb(net.trainable_params(), 0.1), Tensor(2.0))
    step.set_jit_config(ms.JitConfig(jit_level="O1"))
    step.set_train()
    step.compile(X, Y)
    assert len(step(X, Y)) == 3
    assert step.scale_sense.name == "scale_sense"


def test_scales_that_optimizers_divide_out():
    for name in ("Adagrad", "Adam", "AdaMax", "Adadelta", "FTRL", "LazyAdam", "Momentum", "ProximalAdagrad", "RMSProp",
                 "SGD"):
        net = nn.Dense(2, 3)
        options = {"learning_rate": 0.1, "momentum": 0.9} if name == "Momentum" else {}
        optimizer = getattr(nn, name)(net.trainable_params(), loss_scale=1024.0, **options)
        model = ms.Model(net, nn.MSELoss(), optimizer, loss_scale_manager=ms.FixedLossScaleManager(1024.0, False))
        before = net.weight.asnumpy().copy()
        model.train(1, rows(), dataset_sink_mode=False)
        assert (net.weight.asnumpy() != before).any(), name


def test_managers_as_they_begin():
    fixed, dynamic = ms.FixedLossScaleManager(), ms.DynamicLossScaleManager()
    assert (fixed.get_loss_scale(), fixed.get_update_cell().get_loss_scale()) == (128.0, 128.0)
    assert (dynamic.get_loss_scale(), dynamic.get_update_cell().loss_scale_value) == (2**24, 2**24)
    assert ms.LossScaleManager().get_loss_scale() is None


if __name__ == "__main__":
    context.set_context(mode=context.GRAPH_MODE)
    for name, test in sorted(globals().items()):
        if name.startswith("test_"):
            test()
            print(name)
