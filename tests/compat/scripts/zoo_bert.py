"""BERT's pre-training step as the model zoo writes it: clipping by HyperMap, loss scaling by the status of a device."""

import argparse
import math

import mindspore.common.dtype as mstype
import mindspore.nn as nn
import numpy as np
from mindspore import context
from mindspore.common import set_seed
from mindspore.common.initializer import TruncatedNormal, initializer
from mindspore.common.parameter import Parameter, ParameterTuple
from mindspore.common.tensor import Tensor
from mindspore.communication.management import get_group_size
from mindspore.context import ParallelMode
from mindspore.dataset import GeneratorDataset
from mindspore.nn.learning_rate_schedule import LearningRateSchedule, PolynomialDecayLR, WarmUpLR
from mindspore.nn.optim import AdamWeightDecay, Lamb
from mindspore.nn.wrap.grad_reducer import DistributedGradReducer
from mindspore.ops import composite as C
from mindspore.ops import functional as F
from mindspore.ops import operations as P
from mindspore.train import Model
from mindspore.train.callback import Callback

GRADIENT_CLIP_TYPE = 1
GRADIENT_CLIP_VALUE = 1.0
VOCAB, HIDDEN, HEADS, SEQ, PREDICTIONS = 40, 32, 2, 16, 3

clip_grad = C.MultitypeFuncGraph("clip_grad")


@clip_grad.register("Number", "Number", "Tensor")
def _clip_grad(clip_type, clip_value, grad):
    if clip_type not in (0, 1):
        return grad
    dt = F.dtype(grad)
    if clip_type == 0:
        new_grad = C.clip_by_value(
            grad, F.cast(F.tuple_to_array((-clip_value,)), dt), F.cast(F.tuple_to_array((clip_value,)), dt)
        )
    else:
        new_grad = nn.ClipByNorm()(grad, F.cast(F.tuple_to_array((clip_value,)), dt))
    return new_grad


grad_scale = C.MultitypeFuncGraph("grad_scale")
reciprocal = P.Reciprocal()


@grad_scale.register("Tensor", "Tensor")
def tensor_grad_scale(scale, grad):
    return grad * reciprocal(scale)


class EmbeddingLookup(nn.Cell):
    def __init__(self, vocab_size, embedding_size, initializer_range=0.02):
        super(EmbeddingLookup, self).__init__()
        shape = [vocab_size, embedding_size]
        self.vocab_size = vocab_size
        self.embedding_table = Parameter(
            initializer(TruncatedNormal(initializer_range), shape), name="embedding_table"
        )
        self.expand = P.ExpandDims()
        self.shape_flat = (-1,)
        self.gather = P.Gather()
        self.reshape = P.Reshape()
        self.shape = P.Shape()
        self.embedding_size = embedding_size

    def construct(self, input_ids):
        extended_ids = self.expand(input_ids, -1)
        flat_ids = self.reshape(extended_ids, self.shape_flat)
        output_for_reshape = self.gather(self.embedding_table, flat_ids, 0)
        output = self.reshape(output_for_reshape, self.shape(input_ids) + (self.embedding_size,))
        return output, self.embedding_table.value()


class SaturateCast(nn.Cell):
    def __init__(self, dst_type=mstype.float32):
        super(SaturateCast, self).__init__()
        np_type = mstype.dtype_to_nptype(dst_type)
        self.tensor_min_type = float(np.finfo(np_type).min)
        self.tensor_max_type = float(np.finfo(np_type).max)
        self.min_op = P.Minimum()
        self.max_op = P.Maximum()
        self.cast = P.Cast()
        self.dst_type = dst_type

    def construct(self, x):
        out = self.max_op(x, self.tensor_min_type)
        out = self.min_op(out, self.tensor_max_type)
        return self.cast(out, self.dst_type)


class BertAttention(nn.Cell):
    def __init__(self, compute_type):
        super(BertAttention, self).__init__()
        self.size = HIDDEN // HEADS
        weight = TruncatedNormal(0.02)
        self.query_layer = nn.Dense(HIDDEN, HIDDEN, weight_init=weight).to_float(compute_type)
        self.key_layer = nn.Dense(HIDDEN, HIDDEN, weight_init=weight).to_float(compute_type)
        self.value_layer = nn.Dense(HIDDEN, HIDDEN, weight_init=weight).to_float(compute_type)
        self.reshape = P.Reshape()
        self.transpose = P.Transpose()
        self.trans_shape = (0, 2, 1, 3)
        self.matmul_trans_b = P.BatchMatMul(transpose_b=True)
        self.matmul = P.BatchMatMul()
        self.multiply = P.Mul()
        self.scores_mul = 1.0 / math.sqrt(float(self.size))
        self.multiply_data = -10000.0
        self.softmax = nn.Softmax()
        self.dropout = nn.Dropout(p=0.0)
        self.sub = P.Sub()
        self.add = P.Add()
        self.cast = P.Cast()
        self.get_dtype = P.DType()

    def heads(self, x):
        return self.transpose(self.reshape(x, (-1, SEQ, HEADS, self.size)), self.trans_shape)

    def construct(self, tensor, attention_mask):
        query, key = self.heads(self.query_layer(tensor)), self.heads(self.key_layer(tensor))
        attention_scores = self.matmul_trans_b(query, key)
        attention_scores = self.multiply(attention_scores, self.scores_mul)
        attention_mask = P.ExpandDims()(attention_mask, 1)
        multiply_out = self.sub(
            self.cast(F.tuple_to_array((1.0,)), self.get_dtype(attention_scores)),
            self.cast(attention_mask, self.get_dtype(attention_scores)),
        )
        adder = self.multiply(multiply_out, self.multiply_data)
        attention_probs = self.dropout(self.softmax(self.add(adder, attention_scores)))
        context_layer = self.matmul(attention_probs, self.heads(self.value_layer(tensor)))
        return self.reshape(self.transpose(context_layer, self.trans_shape), (-1, SEQ, HIDDEN))


class BertOutput(nn.Cell):
    def __init__(self, in_channels, compute_type):
        super(BertOutput, self).__init__()
        self.dense = nn.Dense(in_channels, HIDDEN, weight_init=TruncatedNormal(0.02)).to_float(compute_type)
        self.add = P.Add()
        self.layernorm = nn.LayerNorm((HIDDEN,)).to_float(compute_type)
        self.cast = P.Cast()

    def construct(self, hidden_status, input_tensor):
        output = self.dense(hidden_status)
        output = self.add(input_tensor, output)
        return self.layernorm(output)


class BertModel(nn.Cell):
    def __init__(self, compute_type):
        super(BertModel, self).__init__()
        self.bert_embedding_lookup = EmbeddingLookup(VOCAB, HIDDEN)
        self.position = nn.Embedding(SEQ, HIDDEN, use_one_hot=False)
        self.attention = BertAttention(compute_type)
        self.attention_output = BertOutput(HIDDEN, compute_type)
        self.intermediate = nn.Dense(HIDDEN, 4 * HIDDEN, activation="gelu").to_float(compute_type)
        self.output = BertOutput(4 * HIDDEN, compute_type)
        self.cast_compute_type = SaturateCast(dst_type=compute_type)
        self.position_ids = Tensor(np.arange(SEQ).reshape(-1, SEQ).astype(np.int32))
        self.dense = nn.Dense(HIDDEN, HIDDEN, activation="tanh").to_float(compute_type)
        self.slice = P.StridedSlice()
        self.squeeze_1 = P.Squeeze(axis=1)
        self.cast = P.Cast()

    def construct(self, input_ids, input_mask):
        embedding_output, embedding_tables = self.bert_embedding_lookup(input_ids)
        embedding_output = embedding_output + self.position(self.position_ids)
        mask = self.cast(P.Reshape()(input_mask, (-1, 1, SEQ)), mstype.float32)
        attention_mask = P.Tile()(mask, (1, SEQ, 1))
        x = self.cast_compute_type(embedding_output)
        x = self.attention_output(self.attention(x, attention_mask), x)
        x = self.output(self.intermediate(x), x)
        sequence_output = self.cast(x, mstype.float32)
        batch_size = P.Shape()(input_ids)[0]
        first_token = self.squeeze_1(
            self.slice(sequence_output, (0, 0, 0), (batch_size, 1, HIDDEN), (1, 1, 1))
        )
        return sequence_output, self.cast(self.dense(first_token), mstype.float32), embedding_tables


class GetMaskedLMOutput(nn.Cell):
    def __init__(self):
        super(GetMaskedLMOutput, self).__init__()
        self.reshape = P.Reshape()
        self.gather = P.Gather()
        self.dense = nn.Dense(HIDDEN, HIDDEN, activation="gelu")
        self.layernorm = nn.LayerNorm((HIDDEN,))
        self.output_bias = Parameter(initializer("zero", VOCAB), name="output_bias")
        self.matmul = P.MatMul(transpose_b=True)
        self.log_softmax = nn.LogSoftmax(axis=-1)
        self.flat_offsets = P.Range()

    def construct(self, input_tensor, output_weights, positions):
        batch = P.Shape()(positions)[0]
        rng = F.tuple_to_array(F.make_range(batch))
        flat_offsets = self.reshape(rng * SEQ, (-1, 1))
        flat_position = self.reshape(positions + flat_offsets, (-1,))
        flat_sequence_tensor = self.reshape(input_tensor, (-1, HIDDEN))
        input_tensor = self.gather(flat_sequence_tensor, flat_position, 0)
        input_tensor = self.layernorm(self.dense(input_tensor))
        logits = self.matmul(input_tensor, output_weights) + self.output_bias
        return self.log_softmax(logits)


class BertNetworkWithLoss(nn.Cell):
    def __init__(self, compute_type):
        super(BertNetworkWithLoss, self).__init__()
        self.bert = BertModel(compute_type)
        self.cls1 = GetMaskedLMOutput()
        self.nsp = nn.Dense(HIDDEN, 2)
        self.onehot = P.OneHot()
        self.on_value, self.off_value = Tensor(1.0, mstype.float32), Tensor(0.0, mstype.float32)
        self.reduce_sum = P.ReduceSum()
        self.reduce_mean = P.ReduceMean()
        self.reshape = P.Reshape()
        self.neg = P.Neg()
        self.cast = P.Cast()
        self.last_idx = (-1,)

    def construct(self, input_ids, input_mask, next_sentence_labels, positions, masked_lm_ids, masked_lm_weights):
        sequence_output, pooled_output, table = self.bert(input_ids, input_mask)
        prediction_scores = self.cls1(sequence_output, table, positions)
        label_ids = self.reshape(masked_lm_ids, self.last_idx)
        label_weights = self.cast(self.reshape(masked_lm_weights, self.last_idx), mstype.float32)
        one_hot_labels = self.onehot(label_ids, VOCAB, self.on_value, self.off_value)
        per_example_loss = self.neg(self.reduce_sum(prediction_scores * one_hot_labels, self.last_idx))
        numerator = self.reduce_sum(label_weights * per_example_loss, ())
        denominator = self.reduce_sum(label_weights, ()) + self.cast(F.tuple_to_array((1e-5,)), mstype.float32)
        masked_lm_loss = numerator / denominator
        labels = self.onehot(self.reshape(next_sentence_labels, self.last_idx), 2, self.on_value, self.off_value)
        log_probs = P.LogSoftmax(axis=-1)(self.nsp(pooled_output))
        next_sentence_loss = self.reduce_mean(self.neg(self.reduce_sum(labels * log_probs, self.last_idx)))
        return self.cast(masked_lm_loss, mstype.float32) + next_sentence_loss


class BertTrainOneStepCell(nn.TrainOneStepCell):
    """Without loss scaling."""

    def __init__(self, network, optimizer, sens=1.0):
        super(BertTrainOneStepCell, self).__init__(network, optimizer, sens)
        self.cast = P.Cast()
        self.hyper_map = C.HyperMap()

    def set_sens(self, value):
        self.sens = value

    def construct(self, *inputs):
        weights = self.weights
        loss = self.network(*inputs)
        grads = self.grad(self.network, weights)(
            *inputs, self.cast(F.tuple_to_array((self.sens,)), mstype.float32).reshape(())
        )
        grads = self.hyper_map(F.partial(clip_grad, GRADIENT_CLIP_TYPE, GRADIENT_CLIP_VALUE), grads)
        grads = self.grad_reducer(grads)
        self.optimizer(grads)
        return loss


class BertTrainOneStepWithLossScaleCell(nn.Cell):
    """With the status of overflows that the device keeps."""

    def __init__(self, network, optimizer, scale_update_cell=None):
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
        self.is_distributed = self.parallel_mode != ParallelMode.STAND_ALONE
        self.cast = P.Cast()
        self.alloc_status = P.NPUAllocFloatStatus()
        self.get_status = P.NPUGetFloatStatus()
        self.clear_before_grad = P.NPUClearFloatStatus()
        self.reduce_sum = P.ReduceSum(keep_dims=False)
        self.base = Tensor(1, mstype.float32)
        self.less_equal = P.LessEqual()
        self.hyper_map = C.HyperMap()
        self.loss_scale = None
        self.loss_scaling_manager = scale_update_cell
        if scale_update_cell:
            self.loss_scale = Parameter(
                Tensor(scale_update_cell.get_loss_scale(), dtype=mstype.float32), name="loss_scale"
            )

    def construct(self, input_ids, input_mask, next_sentence_labels, positions, masked_lm_ids, masked_lm_weights,
                  sens=None):
        weights = self.weights
        loss = self.network(input_ids, input_mask, next_sentence_labels, positions, masked_lm_ids, masked_lm_weights)
        if sens is None:
            scaling_sens = self.loss_scale
        else:
            scaling_sens = sens
        init = self.alloc_status()
        init = F.depend(init, loss)
        clear_status = self.clear_before_grad(init)
        scaling_sens = F.depend(scaling_sens, clear_status)
        grads = self.grad(self.network, weights)(
            input_ids, input_mask, next_sentence_labels, positions, masked_lm_ids, masked_lm_weights,
            self.cast(scaling_sens, mstype.float32),
        )
        grads = self.grad_reducer(grads)
        grads = self.hyper_map(F.partial(grad_scale, scaling_sens * self.degree), grads)
        grads = self.hyper_map(F.partial(clip_grad, GRADIENT_CLIP_TYPE, GRADIENT_CLIP_VALUE), grads)
        init = F.depend(init, grads)
        get_status = self.get_status(init)
        init = F.depend(init, get_status)
        flag_sum = self.reduce_sum(init, (0,))
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
        ret = (loss, cond, scaling_sens.value())
        return F.depend(ret, succ)


class BertLearningRate(LearningRateSchedule):
    def __init__(self, learning_rate, end_learning_rate, warmup_steps, decay_steps, power):
        super(BertLearningRate, self).__init__()
        self.warmup_flag = False
        if warmup_steps > 0:
            self.warmup_flag = True
            self.warmup_lr = WarmUpLR(learning_rate, warmup_steps)
        self.decay_lr = PolynomialDecayLR(learning_rate, end_learning_rate, decay_steps, power)
        self.warmup_steps = Tensor(np.array([warmup_steps]).astype(np.float32))
        self.greater = P.Greater()
        self.one = Tensor(np.array([1.0]).astype(np.float32))
        self.cast = P.Cast()

    def construct(self, global_step):
        decay_lr = self.decay_lr(global_step)
        if self.warmup_flag:
            is_warmup = self.cast(self.greater(self.warmup_steps, global_step), mstype.float32)
            warmup_lr = self.warmup_lr(global_step)
            lr = (self.one - is_warmup) * decay_lr + is_warmup * warmup_lr
        else:
            lr = decay_lr
        return lr


class LossCallBack(Callback):
    def __init__(self):
        super(LossCallBack, self).__init__()
        self.outputs = []

    def step_end(self, run_context):
        cb_params = run_context.original_args()
        outputs = cb_params.net_outputs
        outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        self.outputs.append(tuple(output.asnumpy().item() for output in outputs))
        print("epoch: {}, step: {}, outputs are {}".format(
            cb_params.cur_epoch_num, cb_params.cur_step_num, " ".join("%.6g" % value for value in self.outputs[-1])))


def sentences(count):
    """Rows that count upwards from a word; some are hidden, and half of the rows have their second half swapped."""
    rng = np.random.RandomState(7)
    for _ in range(count):
        ids = (rng.randint(1, 5) + np.arange(SEQ) // 2) % (VOCAB - 1) + 1
        label = rng.randint(0, 2)
        if label:
            ids[SEQ // 2:] = ids[SEQ // 2:][::-1]
        positions = np.sort(rng.choice(SEQ - 2, PREDICTIONS, replace=False))
        masked = ids[positions]
        ids[positions] = 0
        mask = (np.arange(SEQ) < SEQ - rng.randint(0, 2)).astype(np.int32)
        yield (ids.astype(np.int32), mask, np.array([label], np.int32), positions.astype(np.int32),
               masked.astype(np.int32), np.ones(PREDICTIONS, np.float32))


def filled(net, seed):
    """The same first weights everywhere."""
    rng = np.random.RandomState(seed)
    for param in net.get_parameters():
        if len(param.shape) > 1:
            param.set_data(Tensor(rng.normal(0, 0.05, param.shape), mstype.float32))
        elif "bias" in param.name:
            param.set_data(Tensor(np.zeros(param.shape), mstype.float32))
    return net


def run_pretrain():
    parser = argparse.ArgumentParser(description="bert pre_training")
    parser.add_argument("--device_target", type=str, default="Ascend")
    parser.add_argument("--enable_lossscale", type=str, default="true", choices=["true", "false"])
    parser.add_argument("--optimizer", type=str, default="AdamWeightDecay", choices=["AdamWeightDecay", "Lamb"])
    args_opt = parser.parse_args()
    context.set_context(mode=context.GRAPH_MODE, device_target=args_opt.device_target, device_id=0)
    context.set_context(reserve_class_name_in_scope=False)
    set_seed(0)
    columns = ["input_ids", "input_mask", "next_sentence_labels", "masked_lm_positions", "masked_lm_ids",
               "masked_lm_weights"]
    dataset = GeneratorDataset(lambda: sentences(160), columns).batch(16, drop_remainder=True)
    scaled = args_opt.enable_lossscale == "true"
    net_with_loss = filled(BertNetworkWithLoss(mstype.float16 if scaled else mstype.float32), 1)
    lr_schedule = BertLearningRate(1e-2, 1e-3, 4, 30, 1.0)
    params = net_with_loss.trainable_params()
    decay_params = list(filter(lambda x: "layernorm" not in x.name.lower() and "bias" not in x.name.lower(), params))
    other_params = list(filter(lambda x: "layernorm" in x.name.lower() or "bias" in x.name.lower(), params))
    group_params = [{"params": decay_params, "weight_decay": 0.01},
                    {"params": other_params, "weight_decay": 0.0},
                    {"order_params": params}]
    if args_opt.optimizer == "Lamb":
        optimizer = Lamb(group_params, lr_schedule, eps=1e-6)
    else:
        optimizer = AdamWeightDecay(group_params, lr_schedule, eps=1e-6)
    if scaled:
        update_cell = nn.DynamicLossScaleUpdateCell(loss_scale_value=2.0**32, scale_factor=2.0**8, scale_window=1000)
        net_with_grads = BertTrainOneStepWithLossScaleCell(net_with_loss, optimizer, scale_update_cell=update_cell)
    else:
        net_with_grads = BertTrainOneStepCell(net_with_loss, optimizer)
    assert isinstance(optimizer.parameters, (ParameterTuple, tuple))
    model = Model(net_with_grads)
    callback = LossCallBack()
    model.train(3, dataset, callbacks=[callback], dataset_sink_mode=False)
    print("final loss: %.6f" % callback.outputs[-1][0])


if __name__ == "__main__":
    run_pretrain()
