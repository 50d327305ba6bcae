"""Training steps with loss scaling that projects and tests write themselves, with the operators of each device."""

import mindspore.common.dtype as mstype
import mindspore.nn as nn
import mindspore.ops as ops
import numpy as np
from mindspore import Parameter, Tensor, context
from mindspore.common.initializer import initializer
from mindspore.communication.management import get_group_size
from mindspore.context import ParallelMode
from mindspore.nn.wrap.grad_reducer import DistributedGradReducer
from mindspore.nn.wrap.loss_scale import DynamicLossScaleUpdateCell
from mindspore.ops import composite as C
from mindspore.ops import functional as F
from mindspore.ops import operations as P
from mindspore.parallel._utils import _get_device_num, _get_gradients_mean, _get_parallel_mode

GRADIENT_CLIP_TYPE = 1
GRADIENT_CLIP_VALUE = 1.0

clip_grad = C.MultitypeFuncGraph("clip_grad")
grad_scale = C.MultitypeFuncGraph("grad_scale")
reciprocal = P.Reciprocal()
_grad_overflow = C.MultitypeFuncGraph("_grad_overflow")
grad_overflow = P.FloatStatus()
update_accu_grads = C.MultitypeFuncGraph("update_accu_grads")
accumulate_accu_grads = C.MultitypeFuncGraph("accumulate_accu_grads")
zeroslike = P.ZerosLike()
reset_accu_grads = C.MultitypeFuncGraph("reset_accu_grads")
cast = P.Cast()


@clip_grad.register("Number", "Number", "Tensor")
def _clip_grad(clip_type, clip_value, grad):
    if clip_type not in (0, 1):
        return grad
    dt = F.dtype(grad)
    if clip_type == 0:
        new_grad = C.clip_by_value(grad, F.cast(F.tuple_to_array((-clip_value,)), dt),
                                   F.cast(F.tuple_to_array((clip_value,)), dt))
    else:
        new_grad = nn.ClipByNorm()(grad, F.cast(F.tuple_to_array((clip_value,)), dt))
    return new_grad


@grad_scale.register("Tensor", "Tensor")
def tensor_grad_scale(scale, grad):
    return F.cast(grad, mstype.float32) * reciprocal(scale)


@grad_scale.register("Tensor", "RowTensor")
def tensor_grad_scale_row_tensor(scale, grad):
    return None


@_grad_overflow.register("Tensor")
def _tensor_grad_overflow(grad):
    return grad_overflow(grad)


@update_accu_grads.register("Tensor", "Tensor")
def _update_accu_grads(accu_grad, grad):
    succ = True
    return F.depend(succ, F.assign(accu_grad, cast(grad, mstype.float32)))


@accumulate_accu_grads.register("Tensor", "Tensor")
def _accumulate_accu_grads(accu_grad, grad):
    succ = True
    return F.depend(succ, F.assign_add(accu_grad, cast(grad, mstype.float32)))


@reset_accu_grads.register("Tensor")
def _reset_accu_grads(accu_grad):
    succ = True
    return F.depend(succ, F.assign(accu_grad, zeroslike(accu_grad)))


class Net(nn.Cell):
    def __init__(self, in_features=16, out_features=16):
        super(Net, self).__init__()
        self.weight = Parameter(Tensor(np.ones([out_features, in_features]).astype(np.float32)), name="weight")
        self.bias = Parameter(Tensor(np.ones([out_features]).astype(np.float32)), name="bias")
        self.matmul = P.MatMul(transpose_b=True)
        self.add = P.Add()
        self.cast = P.Cast()

    def construct(self, input_):
        half = mstype.float16
        output = self.matmul(self.cast(input_, half), self.cast(self.weight, half))
        return self.cast(self.add(output, self.cast(self.bias, half)), mstype.float32)


class NetWithLoss(nn.Cell):
    """Four inputs, the mean of squares."""

    def __init__(self):
        super(NetWithLoss, self).__init__(auto_prefix=False)
        self.net = Net()
        self.mean = P.ReduceMean()

    def construct(self, input_ids, input_mask, token_type_id, label_ids):
        return self.mean(P.Square()(self.net(input_ids * input_mask + token_type_id) - label_ids), ())


def rows():
    ones = Tensor(np.full([16, 16], 0.1).astype(np.float32))
    return ones, Tensor(np.ones([16, 16]).astype(np.float32)), Tensor(np.zeros([16, 16]).astype(np.float32)), ones


class BertTrainOneStepWithLossScaleCell(nn.Cell):
    """As in the model zoo: operators of each device, a scale that may be an input, gradients that are clipped."""

    def __init__(self, network, optimizer, scale_update_cell=None, target="CPU"):
        super(BertTrainOneStepWithLossScaleCell, self).__init__(auto_prefix=False)
        self.network = network
        self.network.set_grad()
        self.weights = optimizer.parameters
        self.optimizer = optimizer
        self.grad = C.GradOperation(get_by_list=True, sens_param=True)
        self.reducer_flag = False
        self.allreduce = P.AllReduce()
        self.parallel_mode = context.get_auto_parallel_context("parallel_mode")
        if self.parallel_mode in [ParallelMode.DATA_PARALLEL, ParallelMode.HYBRID_PARALLEL]:
            self.reducer_flag = True
        self.grad_reducer = F.identity
        self.degree = 1
        if self.reducer_flag:
            self.degree = get_group_size()
            self.grad_reducer = DistributedGradReducer(optimizer.parameters, False, self.degree)
        self.is_distributed = (self.parallel_mode != ParallelMode.STAND_ALONE)
        self.cast = P.Cast()
        if target == "GPU":
            self.gpu_target = True
            self.float_status = P.FloatStatus()
            self.addn = P.AddN()
            self.reshape = P.Reshape()
        else:
            self.gpu_target = False
            self.alloc_status = P.NPUAllocFloatStatus()
            self.get_status = P.NPUGetFloatStatus()
            self.clear_status = P.NPUClearFloatStatus()
        self.reduce_sum = P.ReduceSum(keep_dims=False)
        self.depend_parameter_use = P.Depend()
        self.base = Tensor(1, mstype.float32)
        self.less_equal = P.LessEqual()
        self.hyper_map = C.HyperMap()
        self.loss_scale = None
        self.loss_scaling_manager = scale_update_cell
        if scale_update_cell:
            self.loss_scale = Parameter(Tensor(scale_update_cell.get_loss_scale(), dtype=mstype.float32),
                                        name="loss_scale")

    @C.add_flags(has_effect=True)
    def construct(self, input_ids, input_mask, token_type_id, label_ids, sens=None):
        weights = self.weights
        loss = self.network(input_ids, input_mask, token_type_id, label_ids)
        if sens is None:
            scaling_sens = self.loss_scale
        else:
            scaling_sens = sens
        init = False
        if not self.gpu_target:
            init = self.alloc_status()
            init = F.depend(init, loss)
            clear_status = self.clear_status(init)
            scaling_sens = F.depend(scaling_sens, clear_status)
        grads = self.grad(self.network, weights)(input_ids, input_mask, token_type_id, label_ids,
                                                 self.cast(scaling_sens, mstype.float32))
        grads = self.grad_reducer(grads)
        grads = self.hyper_map(F.partial(grad_scale, scaling_sens * self.degree), grads)
        grads = self.hyper_map(F.partial(clip_grad, GRADIENT_CLIP_TYPE, GRADIENT_CLIP_VALUE), grads)
        if not self.gpu_target:
            init = F.depend(init, grads)
            get_status = self.get_status(init)
            init = F.depend(init, get_status)
            flag_sum = self.reduce_sum(init, (0,))
        else:
            flag_sum = self.hyper_map(F.partial(_grad_overflow), grads)
            flag_sum = self.addn(flag_sum)
            flag_sum = self.reshape(flag_sum, (()))
        if self.is_distributed:
            flag_reduce = self.allreduce(flag_sum)
            cond = self.less_equal(self.base, flag_reduce)
        else:
            cond = self.less_equal(self.base, flag_sum)
        overflow = cond
        if sens is None:
            overflow = self.loss_scaling_manager(self.loss_scale, cond)
        if overflow:
            succ = False
        else:
            succ = self.optimizer(grads)
        ret = (loss, cond, scaling_sens)
        return F.depend(ret, succ)


def check_bert(target, mode):
    context.set_context(mode=mode)
    network = NetWithLoss()
    optimizer = nn.AdamWeightDecay(network.trainable_params(), learning_rate=0.01, eps=1e-6, weight_decay=0.01)
    manager = DynamicLossScaleUpdateCell(loss_scale_value=2 ** 30, scale_factor=2, scale_window=3)
    step = BertTrainOneStepWithLossScaleCell(network, optimizer, manager, target)
    step.set_train()
    found = [step(*rows()) for _ in range(16)]
    skipped = [bool(cond.asnumpy()) for _, cond, _ in found]
    assert skipped[0] and not all(skipped)
    assert float(found[-1][0].asnumpy()) < float(found[0][0].asnumpy())
    loss, cond, scale = step(*rows(), Tensor(8.0, mstype.float32))
    assert not cond.asnumpy() and float(scale.asnumpy()) == 8.0
    _, cond, _ = step(*rows(), Tensor(1e38, mstype.float32))
    assert cond.asnumpy()


def test_bert_on_a_gpu():
    check_bert("GPU", context.GRAPH_MODE)


def test_bert_on_an_npu():
    check_bert("Ascend", context.GRAPH_MODE)


def test_bert_on_a_gpu_step_by_step():
    check_bert("GPU", context.PYNATIVE_MODE)


def test_bert_on_an_npu_step_by_step():
    check_bert("Ascend", context.PYNATIVE_MODE)


class AccumulatingStep(nn.Cell):
    """Gradients of several calls, whose sum is divided by the scale; the last call updates."""

    def __init__(self, network, optimizer, scale_update_cell=None, accumulation_steps=1):
        super(AccumulatingStep, self).__init__(auto_prefix=False)
        self.network = network
        self.network.set_grad()
        self.weights = optimizer.parameters
        self.optimizer = optimizer
        self.accumulation_steps = accumulation_steps
        self.enable_accumulation = self.accumulation_steps > 1
        self.one = Tensor(np.array([1]).astype(np.int32))
        self.zero = Tensor(np.array([0]).astype(np.int32))
        self.local_step = Parameter(initializer(0, [1], mstype.int32), name="local_step")
        self.accu_grads = self.weights.clone(prefix="accu_grads", init="zeros")
        self.accu_overflow = Parameter(initializer(0, [1], mstype.int32), name="accu_overflow")
        self.accu_loss = Parameter(initializer(0, [1], mstype.float32), name="accu_loss")
        self.grad = C.GradOperation(get_by_list=True, sens_param=True)
        self.grad_reducer = F.identity
        self.cast = P.Cast()
        self.reduce_sum = P.ReduceSum(keep_dims=False)
        self.base = Tensor(1, mstype.float32)
        self.less_equal = P.LessEqual()
        self.logical_or = P.LogicalOr()
        self.not_equal = P.NotEqual()
        self.select = P.Select()
        self.reshape = P.Reshape()
        self.hyper_map = C.HyperMap()
        self.loss_scaling_manager = scale_update_cell
        self.loss_scale = Parameter(Tensor(scale_update_cell.get_loss_scale(), dtype=mstype.float32), name="loss_scale")

    def construct(self, input_ids, input_mask, token_type_id, label_ids):
        weights = self.weights
        loss = self.network(input_ids, input_mask, token_type_id, label_ids)
        scaling_sens = self.loss_scale
        is_accu_step = self.not_equal(self.local_step, self.zero)
        self.local_step = self.select(is_accu_step, self.local_step + self.one, self.one)
        self.accu_loss = self.select(is_accu_step, self.accu_loss + loss, self.reshape(loss, (1,)))
        mean_loss = self.accu_loss / self.local_step
        is_accu_step = self.not_equal(self.local_step, self.accumulation_steps)
        grads = self.grad(self.network, weights)(input_ids, input_mask, token_type_id, label_ids,
                                                 self.cast(scaling_sens, mstype.float32))
        accu_succ = self.hyper_map(accumulate_accu_grads, self.accu_grads, grads)
        mean_loss = F.depend(mean_loss, accu_succ)
        overflow = self.less_equal(self.base, P.AddN()(self.hyper_map(F.partial(_grad_overflow), grads)))
        overflow = self.logical_or(self.not_equal(self.accu_overflow, self.zero), overflow)
        accu_overflow = self.select(overflow, self.one, self.zero)
        self.accu_overflow = self.select(is_accu_step, accu_overflow, self.zero)
        if is_accu_step:
            succ = False
        else:
            grads = self.grad_reducer(self.accu_grads)
            scaling = scaling_sens * self.accumulation_steps
            grads = self.hyper_map(F.partial(grad_scale, scaling), grads)
            grads = C.clip_by_global_norm(grads, 1.0, None)
            accu_overflow = self.less_equal(self.base, self.cast(accu_overflow, mstype.float32))
            overflow = self.loss_scaling_manager(self.loss_scale, accu_overflow)
            if overflow:
                succ = False
            else:
                succ = self.optimizer(grads)
            self.local_step = self.zero
            reset = self.hyper_map(reset_accu_grads, self.accu_grads)
            succ = F.depend(succ, reset)
        return F.depend(mean_loss, succ), overflow


def test_accumulated_gradients():
    context.set_context(mode=context.GRAPH_MODE)
    network = NetWithLoss()
    optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
    manager = DynamicLossScaleUpdateCell(2 ** 10, 2, 1000)
    step = AccumulatingStep(network, optimizer, manager, 3)
    step.set_train()
    before = [network.net.weight.asnumpy().copy()]
    for _ in range(6):
        step(*rows())
        before.append(network.net.weight.asnumpy().copy())
    moved = [bool((before[i] != before[i - 1]).any()) for i in range(1, len(before))]
    assert moved == [False, False, True, False, False, True]
    assert all((p.asnumpy() == 0).all() for p in step.accu_grads)


class TrainOneStepCell(nn.Cell):
    """The page on the training flow, with its own names and the number of devices."""

    def __init__(self, network, optimizer, sens=1.0):
        super(TrainOneStepCell, self).__init__(auto_prefix=False)
        self.network = network
        self.network.set_grad()
        self.optimizer = optimizer
        self.weights = self.optimizer.parameters
        self.grad = ops.GradOperation(get_by_list=True, sens_param=True)
        self.sens = sens
        self.reducer_flag = False
        self.grad_reducer = ops.identity
        self.parallel_mode = _get_parallel_mode()
        self.reducer_flag = self.parallel_mode in (ParallelMode.DATA_PARALLEL, ParallelMode.HYBRID_PARALLEL)
        if self.reducer_flag:
            self.mean = _get_gradients_mean()
            self.degree = _get_device_num()
            self.grad_reducer = DistributedGradReducer(self.weights, self.mean, self.degree)

    def construct(self, *inputs):
        loss = self.network(*inputs)
        sens = ops.fill(loss.dtype, loss.shape, self.sens)
        grads = self.grad(self.network, self.weights)(*inputs, sens)
        grads = self.grad_reducer(grads)
        loss = ops.depend(loss, self.optimizer(grads))
        return loss


def test_the_step_of_the_page():
    for mode in (context.GRAPH_MODE, context.PYNATIVE_MODE):
        context.set_context(mode=mode)
        network = NetWithLoss()
        step = TrainOneStepCell(network, nn.Momentum(network.trainable_params(), 0.1, 0.9, loss_scale=1024.0), 1024.0)
        losses = [float(step(*rows()).asnumpy()) for _ in range(4)]
        assert losses[-1] < losses[0]


class MFTrainOneStepCell(nn.TrainOneStepWithLossScaleCell):
    """The wrapper of MindFormers: a base class whose construct is replaced."""

    def __init__(self, network, optimizer, use_clip_grad=False, max_grad_norm=1.0, scale_sense=1.0, local_norm=False,
                 **kwargs):
        if isinstance(scale_sense, (int, float)):
            scale_sense = Tensor(scale_sense, mstype.float32)
        super(MFTrainOneStepCell, self).__init__(network, optimizer, scale_sense)
        self.use_clip_grad = use_clip_grad
        self.print = P.Print()
        self.max_grad_norm = max_grad_norm
        self.hyper_map = C.HyperMap()
        self.learning_rate = optimizer.learning_rate

    def construct(self, *inputs):
        scaling_sens = self.scale_sense
        loss = self.network(*inputs)
        status, scaling_sens = self.start_overflow_check(loss, scaling_sens)
        scaling_sens_filled = C.ones_like(loss) * F.cast(scaling_sens, F.dtype(loss))
        grads = self.grad(self.network, self.weights)(*inputs, scaling_sens_filled)
        grads = self.hyper_map(F.partial(grad_scale, scaling_sens), grads)
        global_norm = None
        if self.use_clip_grad:
            global_norm = ops.sqrt(P.AddN()(self.hyper_map(lambda g: ops.square(g).sum(), grads)))
            grads = ops.clip_by_global_norm(grads, self.max_grad_norm)
        cond = self.get_overflow_status(status, grads)
        overflow = self.process_loss_scale(cond)
        if not overflow:
            loss = F.depend(loss, self.optimizer(grads))
        if self.use_clip_grad:
            return loss, overflow, scaling_sens, self.learning_rate, global_norm
        return loss, overflow, scaling_sens, self.learning_rate


def test_the_wrapper_of_mindformers():
    for scale in (1.0, Tensor([4.0], mstype.float32), DynamicLossScaleUpdateCell(2 ** 12, 2, 1000)):
        for clip in (False, True):
            network = NetWithLoss()
            step = MFTrainOneStepCell(network, nn.AdamWeightDecay(network.trainable_params(), 0.01), clip, 1.0, scale)
            step.set_train()
            found = step(*rows())
            assert len(found) == 4 + clip and not found[1].asnumpy()


def test_a_scale_that_the_host_updates():
    from mindspore import DynamicLossScaleManager

    manager = DynamicLossScaleManager(init_loss_scale=2 ** 28, scale_factor=2, scale_window=4)
    network = NetWithLoss()
    optimizer = nn.Momentum(network.trainable_params(), 0.01, 0.9)
    scale = Tensor(manager.get_loss_scale(), mstype.float32)
    step = nn.TrainOneStepWithLossScaleCell(network, optimizer, scale)
    step.set_train()
    scales = []
    for _ in range(20):
        loss, overflow, scale = step(*rows())
        manager.update_loss_scale(overflow.asnumpy())
        step.set_sense_scale(Tensor(manager.get_loss_scale(), mstype.float32))
        scales.append(float(scale.asnumpy()))
    assert scales[0] == 2.0 ** 28 and min(scales) < 2.0 ** 20 and np.isfinite(float(loss.asnumpy()))


def test_update_cells_alone():
    cell = DynamicLossScaleUpdateCell(loss_scale_value=2 ** 12, scale_factor=2, scale_window=2)
    scale = Parameter(Tensor(cell.get_loss_scale(), mstype.float32), name="loss_scale")
    values = []
    for overflow in (True, False, False, False, False, True):
        assert bool(cell(scale, Tensor(overflow)).asnumpy()) == overflow
        values.append(float(scale.asnumpy()))
    assert values == [2048.0, 2048.0, 4096.0, 4096.0, 8192.0, 4096.0]
    fixed = nn.FixedLossScaleUpdateCell(4.0)
    assert bool(fixed(Tensor(4.0), Tensor(True))) and not bool(fixed(Tensor(4.0), Tensor(False)))


if __name__ == "__main__":
    for name, test in sorted(globals().items()):
        if name.startswith("test_"):
            test()
            print(name)
