"""What scripts of MindSpore need beside numbers, a test for each: control flow, names, behaviour, checks and texts."""

import gc
import inspect
import os
import warnings
import weakref

import mindspore as ms
import mindspore.dataset as ds
import mindspore.nn.probability.distribution as msd
import numpy as np
import pytest
from mindspore import Parameter, Tensor, _checkparam, context, mint, nn, ops
from mindspore.boost import BoostTrainOneStepWithLossScaleCell
from mindspore.common.api import _cell_graph_executor, _pynative_executor
from mindspore.experimental import optim
from mindspore.nn import NoSuchThing
from mindspore.ops import functional as F
from mindspore.train.callback import _CallbackManager, _CheckpointManager, _InternalCallbackParam, _set_cur_net

ONES = Tensor(np.ones((1, 2), np.float32))


def rows():
    return ds.NumpySlicesDataset({"x": np.ones((4, 2), np.float32), "y": np.ones((4, 3), np.float32)}).batch(2)


def trained(callbacks, epochs=1):
    net = nn.Dense(2, 3)
    model = ms.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params()), metrics={"loss"})
    model.fit(epochs, rows(), rows(), callbacks=callbacks, dataset_sink_mode=False)


# -- control flow -------------------------------------------------------------------------------------------------


class SevenConditions(nn.Cell):
    def construct(self, x):
        if x > 1:
            x = x + 1
        if x > 2:
            x = x + 2
        if x > 3:
            x = x + 3
        if x > 4:
            x = x + 4
        if x > 5:
            x = x + 5
        if x > 6:
            x = x * 2
        if x > 7:
            x = x * 3
        return x


def test_seven_conditions_in_a_row():
    assert float(SevenConditions()(Tensor(2.0))) == 102.0
    assert float(ms.grad(SevenConditions())(Tensor(2.0))) == 6.0


class Times(nn.Cell):
    def construct(self, x, n):
        i = n * 0
        while i < n:
            x = x * 2
            i = i + 1
        return x


def test_a_loop_over_a_tensor():
    assert float(Times()(Tensor(1.5), Tensor(3))) == 12.0
    assert float(ms.grad(Times())(Tensor(1.5), Tensor(3))) == 8.0


class Endless(nn.Cell):
    def construct(self, x, y):
        while x:
            y = y + 1
        return y


def test_a_loop_whose_condition_nothing_changes():
    with pytest.raises((TypeError, ValueError, RuntimeError), match="entries"):
        Endless()(Tensor(True), Tensor(1.0))


class Nested(nn.Cell):
    def construct(self, x):
        if x > 1:
            if x > 2:
                x = x * x
        return x


def test_the_gradient_of_integers():
    assert int(ms.grad(Nested())(Tensor(3, ms.int32))) == 6


class Chosen(nn.Cell):
    def construct(self, x, y, i):
        return (x, y)[i]


def test_a_tuple_indexed_by_a_tensor():
    assert float(Chosen()(Tensor(1.0), Tensor(2.0), Tensor(1))) == 2.0


class Squared(nn.Cell):
    def construct(self, x):
        while x < 100:
            x = x * x
        return x


def test_the_gradient_of_a_loop_without_a_known_end():
    assert float(ms.grad(Squared())(Tensor(2.0))) == 8 * 2.0**7


# -- names --------------------------------------------------------------------------------------------------------


def test_a_name_that_is_missing_fails_where_it_is_used():
    with pytest.raises(AttributeError, match="NoSuchThing"):
        NoSuchThing(3)


def test_a_device_that_is_not_there():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context.set_context(mode=context.GRAPH_MODE, device_target="Ascend", device_id=3)
    assert nn.Dense(2, 3)(ONES).shape == (1, 3)


def test_executors():
    _cell_graph_executor.compile(nn.Dense(2, 3), ONES)
    _pynative_executor.sync()


def test_levels_of_syntax_and_of_compiling():
    assert ms.STRICT != ms.LAX
    context.set_context(jit_syntax_level=ms.STRICT)
    ms.set_context(jit_level="O0")
    context.set_context(jit_config={"jit_level": "O1"})


class Mine(ops.PrimitiveWithInfer):
    @ops.prim_attr_register
    def __init__(self, k=2):
        self.init_prim_io_names(inputs=["x"], outputs=["y"])
        self.add_prim_attr("unit", 1)

    def infer_shape(self, x):
        return x

    def infer_dtype(self, x):
        return x


def test_primitives_of_ones_own():
    made = Mine(3)
    assert (made.k, made.unit) == (3, 1)
    nn.Dense(2, 3).add_flags(defer_inline=True)


def test_functions_of_python_values():
    assert F.tuple_len((1, 2)) == 2 and F.make_range(0, 3) == (0, 1, 2)
    assert F.mixed_precision_cast(ms.float16, Tensor(1.0)).dtype == ms.float16


def test_boosted_steps():
    net = nn.WithLossCell(nn.Dense(2, 3), nn.MSELoss())
    step = BoostTrainOneStepWithLossScaleCell(net, nn.SGD(net.trainable_params()), Tensor(2.0))
    assert len(step(ONES, Tensor(np.ones((1, 3), np.float32)))) == 3


def test_communication():
    from mindspore.communication._comm_helper import GlobalComm
    from mindspore.communication.management import HCCL_WORLD_COMM_GROUP

    GlobalComm.CHECK_ENVS = False
    assert isinstance(GlobalComm.BACKEND, str) and isinstance(HCCL_WORLD_COMM_GROUP, str)


def test_operators_that_are_not_public():
    from mindspore.ops.operations import _grad_ops, _inner_ops, _sequence_ops

    assert _grad_ops.ReluGrad()(Tensor([1.0, 2.0]), Tensor([0.0, 3.0])).asnumpy().tolist() == [0.0, 2.0]
    assert _inner_ops.MixedPrecisionCast()(ms.float16, Tensor(2.0)).dtype == ms.float16
    assert _sequence_ops.TupleToTensor()((1, 2), ms.int32).asnumpy().tolist() == [1, 2]


def test_what_callbacks_are_made_of(tmp_path):
    params = _InternalCallbackParam()
    params.batch_num = 3
    assert params.batch_num == 3
    with _CallbackManager([ms.train.callback.LossMonitor()]) as manager:
        manager.on_train_begin(ms.train.RunContext(params))
    _CheckpointManager().update_ckpoint_filelist(str(tmp_path), "net")
    _set_cur_net(None)


def test_what_mindspore_was_built_with():
    from mindspore._c_expression import security
    from mindspore._extends.parse.standard_method import while_cond

    assert not security.enable_security() and while_cond(Tensor(1))


def test_checks_that_are_not_public():
    assert _checkparam.Validator.check_int_range(3, 1, 5, _checkparam.Rel.INC_BOTH, "a") == 3
    with pytest.raises(ValueError):
        _checkparam.check_positive_int(-1, "a", "b")


def test_settings_of_several_devices():
    from mindspore.parallel import Layout, set_algo_parameters
    from mindspore.parallel._auto_parallel_context import auto_parallel_context
    from mindspore.train.model import ParallelMode

    set_algo_parameters(elementwise_op_strategy_follow=True)
    Layout((2, 2), ("a", "b"))("a", "b")
    assert auto_parallel_context().get_parallel_mode() == ParallelMode.STAND_ALONE
    context.set_auto_parallel_context(parallel_mode="data_parallel", device_num=8, gradients_mean=True)
    context.reset_auto_parallel_context()


def test_the_profiler(tmp_path):
    profiler = ms.profiler.Profiler(output_path=str(tmp_path))
    nn.Dense(2, 3)(ONES)
    profiler.analyse()


def test_rows_of_a_tensor():
    assert ms.RowTensor(Tensor([0]), Tensor([[1.0]]), (2, 1)).to_dense().shape == (2, 1)


def test_a_helper_of_datasets():
    assert len([*ms.DatasetHelper(rows(), dataset_sink_mode=False)]) == 2


def test_the_base_of_losses():
    from mindspore.nn.loss.loss import _Loss

    class Absolute(_Loss):
        def construct(self, x, y):
            return self.get_loss(ops.abs(x - y))

    assert float(Absolute()(Tensor([1.0, 3.0]), Tensor([0.0, 0.0]))) == 2.0


def test_methods_of_cells():
    net, seen = nn.SequentialCell(nn.Dense(2, 3), nn.ReLU()), []
    net.apply(lambda cell: seen.append(cell.cls_name))
    assert seen == ["Dense", "ReLU", "SequentialCell"]
    net.init_parameters_data()
    net.place("worker", 0)
    assert net[0].weight.shape == (3, 2)


def test_hooks_of_cells():
    net, seen = nn.Dense(2, 3), []
    handle = net.register_forward_pre_hook(lambda cell, inputs: seen.append(1))
    net.register_forward_hook(lambda cell, inputs, output: seen.append(2))
    net(ONES)
    handle.remove()
    net(ONES)
    assert seen == [1, 2, 2]


class Registered(nn.SGD):
    @nn.optim.optimizer.opt_init_args_register
    def __init__(self, params, learning_rate=0.1):
        super().__init__(params, learning_rate)


def test_optimizers():
    optimizer = Registered(nn.Dense(2, 3).trainable_params(), learning_rate=0.2)
    assert optimizer.target in ("CPU", "GPU", "Ascend")
    optimizer.target = "CPU"
    rate = optimizer.get_lr_parameter(optimizer.parameters)
    assert isinstance(rate[0] if isinstance(rate, (list, tuple)) else rate, Parameter)


def test_lists_of_mixed_precision():
    from mindspore import amp

    net = nn.SequentialCell(nn.Dense(2, 3), nn.ReLU())
    assert amp.custom_mixed_precision(net, white_list=amp.get_white_list())(ONES).shape == (1, 3)


def test_ends_of_datasets():
    from mindspore.dataset.engine.iterators import ITERATORS_LIST, _cleanup, _unset_iterator_cleanup

    _unset_iterator_cleanup()
    _cleanup()
    assert ITERATORS_LIST == []


def test_modes_of_datasets():
    ds.config.set_debug_mode(True)
    assert ds.config.get_debug_mode()
    ds.config.set_debug_mode(False)
    ds.config.set_iterator_mode(do_copy=False, parallel_convert=True)


def test_mint():
    x = Tensor([1.0, 2.0, 3.0])
    assert mint.narrow(mint.clone(x), 0, 1, 2).asnumpy().tolist() == [2.0, 3.0]
    assert mint.scatter(x, 0, Tensor([0]), Tensor([9.0])).asnumpy().tolist() == [9.0, 2.0, 3.0]
    assert mint.nn.Linear(2, 3)(ONES).shape == (1, 3) and float(mint.sinc(Tensor(0.0))) == 1.0


def test_distributions_and_optimizers_of_two_packages():
    assert abs(float(msd.Normal(0.0, 1.0, dtype=ms.float32).log_prob(Tensor(0.0))) + 0.9189385) < 1e-5
    import mindspore.nn.utils

    assert mindspore.nn.utils is not None
    optimizer = optim.Adam(nn.Dense(2, 3).trainable_params(), lr=0.1)
    optim.lr_scheduler.StepLR(optimizer, 1).step()


def test_updates_of_rows():
    table = Parameter(Tensor([[1.0], [2.0]]), name="table")
    squares = Parameter(Tensor([[1.0], [1.0]]), name="squares")
    ops.SparseApplyAdagrad(lr=0.1)(table, squares, Tensor([[1.0]]), Tensor([0]))
    assert table.asnumpy()[1, 0] == 2.0 and table.asnumpy()[0, 0] < 1.0


def test_summary_operators():
    ops.ScalarSummary()("a", Tensor(1.0))
    ops.TensorSummary()("b", Tensor([1.0]))
    ops.HistogramSummary()("c", Tensor([1.0]))
    ops.ImageSummary()("d", Tensor(np.ones((1, 3, 2, 2), np.float32)))


def test_methods_that_write():
    x = Tensor([1.0, 2.0, 3.0])
    x.scatter_(0, Tensor([1]), Tensor([9.0]))
    x.index_add_(0, Tensor([2], ms.int32), Tensor([4.0]))
    assert x.asnumpy().tolist() == [1.0, 9.0, 7.0]


def test_the_installation(capsys):
    ms.set_recursion_limit(10000)
    ms.run_check()
    assert "correct" in capsys.readouterr().out


def test_readers_are_classes():
    for name in ("TFRecord", "Mind", "Coco", "VOC", "KITTI", "CelebA", "PennTreebank"):
        assert inspect.isclass(getattr(ds, f"{name}Dataset"))


def test_a_step_and_requests_to_exit():
    net = nn.WithLossCell(nn.Dense(2, 3), nn.MSELoss())
    assert not nn.TrainOneStepCell(net, nn.SGD(net.trainable_params())).use_graceful_exit


# -- behaviour ----------------------------------------------------------------------------------------------------


class Own:
    """A dataset of a user's own."""

    place = resets = 0

    def get_dataset_size(self):
        return 2

    def get_repeat_count(self):
        return 1

    def create_tuple_iterator(self, num_epochs=-1, do_copy=True):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        if self.place == 2:
            raise StopIteration
        self.place += 1
        return ONES, Tensor(np.ones((1, 3), np.float32))

    def reset(self):
        self.place = 0
        self.resets += 1


def test_a_dataset_of_ones_own():
    net, own = nn.Dense(2, 3), Own()
    ms.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params())).train(3, own, dataset_sink_mode=False)
    assert own.resets >= 2


def test_a_bias_that_is_not_there():
    assert nn.Dense(2, 3, has_bias=False).bias is None and nn.Conv2d(1, 2, 3).bias is None


class Early(nn.Cell):
    def __init__(self):
        self.width, self.names = 64, ["a"]
        super().__init__()
        self.dense = nn.Dense(self.width, 2)

    def construct(self, x):
        return self.dense(x)


def test_plain_values_before_the_base_is_made():
    assert Early()(Tensor(np.ones((1, 64), np.float32))).shape == (1, 2)


def test_inputs_of_any_length():
    net = nn.Dense(3, 2)
    net.set_inputs(Tensor(shape=[None, 3], dtype=ms.float32))
    for count in (4, 5):
        assert net(Tensor(np.ones((count, 3), np.float32))).shape == (count, 2)


def test_the_gradient_by_all_weights():
    assert len(ops.GradOperation(get_by_list=True)(nn.Dense(2, 3), None)(ONES)) == 2


KINDS = "Int8 Int16 Int32 Int64 UInt8 Float16 Float32 Float64 Bool Number String None Tuple List RowTensor Function"


@pytest.mark.parametrize("kind", KINDS.split())
def test_kinds_of_arguments(kind):
    graph = ops.MultitypeFuncGraph("graph")
    graph.register(kind)(lambda x: "kind")
    graph.register("Tensor")(lambda x: "tensor")
    assert graph(Tensor(1.0)) == "tensor"


class Layers(nn.Cell):
    def __init__(self):
        super().__init__()
        self.layers = nn.CellList([nn.ReLU()])
        self.layers += [nn.Sigmoid()]

    def construct(self, i, x):
        return self.layers[i](x)


def test_a_list_of_cells_grows_and_is_indexed_by_a_tensor():
    assert float(Layers()(Tensor(0), Tensor(2.0))) == 2.0 and float(Layers()(Tensor(1), Tensor(0.0))) == 0.5


class Forgotten(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense, self.scale = nn.Dense(2, 3), Parameter(Tensor(1.0))
        self.dense = None
        self.scale = None


def test_parts_that_are_set_to_none():
    net = Forgotten()
    assert net.dense is None and net.scale is None and not net.trainable_params()


def test_a_metric_is_called():
    assert nn.Accuracy("classification")(Tensor([[0.1, 0.9]]), Tensor([1])) == 1.0


def test_options_that_change_nothing_or_are_refused(tmp_path):
    assert ms.Model(nn.Dense(2, 3)).predict(ONES, backend=None).shape == (1, 3)
    with pytest.raises(TypeError, match="does not offer encrypted files"):
        ms.export(nn.Dense(2, 3), ONES, file_name=str(tmp_path / "net"), file_format="ONNX", enc_key=b"0" * 16)


def test_the_line_of_an_evaluation_is_flushed(monkeypatch):
    shown = []
    monkeypatch.setattr("builtins.print", lambda *values, flush=False, **options: shown.append((values[0], flush)))
    trained([ms.LossMonitor()])
    evaluations = [flush for text, flush in shown if "Eval result" in str(text)]
    assert evaluations and all(evaluations)


class Constants(nn.Cell):
    def construct(self, x):
        return 1, 2


def test_a_cell_that_gives_constants():
    assert tuple(map(int, Constants()(Tensor(1.0)))) == (1, 2)


def test_a_prefix_that_is_a_function(tmp_path):
    trained([ms.ModelCheckpoint(prefix=lambda params: "own", directory=str(tmp_path))])
    assert any(name.startswith("own") for name in os.listdir(tmp_path))


def test_numpy_asks_a_tensor():
    assert np.all(Tensor([True, True])) and np.any(Tensor([False, True])) and not np.all(Tensor([True, False]))


def test_a_star_of_callbacks():
    names = {}
    exec("from mindspore.train.callback import *", names)
    assert "LossMonitor" in names and not {"Any", "warn", "annotations"} & names.keys()


def test_iterators_that_have_ended_are_freed():
    gc.disable()
    try:
        iterator = rows().create_tuple_iterator(num_epochs=1)
        for _ in iterator:
            pass
        seen = weakref.ref(iterator)
        del iterator
        assert seen() is None
    finally:
        gc.enable()


# -- checks and texts ---------------------------------------------------------------------------------------------


def parameters():
    return nn.Dense(2, 3).trainable_params()


def rates_of_two_lengths():
    weight, bias = parameters()
    nn.SGD([{"params": [weight], "lr": [0.1, 0.2]}, {"params": [bias], "lr": [0.1, 0.2, 0.3]}], 0.1)


CHECKS = {
    "the dtype of scores": (
        lambda: ops.cross_entropy(Tensor([[1, 2]], ms.int32), Tensor([0], ms.int32)), TypeError, None),
    "the number of labels": (
        lambda: ops.cross_entropy(Tensor(np.ones((2, 3), np.float32)), Tensor([0, 1, 2], ms.int32)), ValueError, None),
    "lambd of ASGD": (lambda: nn.ASGD(parameters(), lambd="x"), TypeError, "lambd"),
    "alpha of ASGD": (lambda: nn.ASGD(parameters(), alpha=[1]), TypeError, "alpha"),
    "t0 of ASGD": (lambda: nn.ASGD(parameters(), t0=None), TypeError, "t0"),
    "etas of Rprop": (lambda: nn.Rprop(parameters(), etas=0.5), TypeError, "etas"),
    "step_sizes of Rprop": (lambda: nn.Rprop(parameters(), step_sizes=3), TypeError, "step_sizes"),
    "the shape of LayerNorm": (lambda: nn.LayerNorm(3), TypeError, "normalized_shape"),
    "rates of two lengths": (rates_of_two_lengths, ValueError, None),
    "initial values that are a text": (lambda: Parameter("zeros"), TypeError, None),
    "no initial values": (lambda: Parameter(None), TypeError, None),
    "no parameters": (
        lambda: nn.SGD([]), ValueError, "For 'Optimizer', the argument parameters must not be empty"),
    "indexes": (
        lambda: nn.Accuracy().set_indexes("x"), ValueError, "should be a list and all its elements should be int"),
    "columns": (lambda: ds.GeneratorDataset([1, 2], None), ValueError, "Neither columns_names nor schema are provided"),
    "degrees": (lambda: ds.vision.RandomAffine(degrees=-3), ValueError, "(?i)degree"),
    "positions": (lambda: ops.GradOperation(get_all=1), TypeError, "get_all"),
}


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_checks_and_texts(name):
    call, kind, text = CHECKS[name]
    with pytest.raises(kind, match=text):
        call()
