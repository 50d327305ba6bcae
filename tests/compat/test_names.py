"""What stands behind names of MindSpore that few scripts need for numbers, and many for being imported."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import graphls as gl
from graphls import Tensor, nn, ops

pytestmark = pytest.mark.usefixtures("mindspore")

IMPORTS = """
from mindspore import STRICT, LAX, COMPATIBLE, RowTensor, DatasetHelper, connect_network_with_dataset, data_sink
from mindspore import run_check, set_recursion_limit, set_ps_context, set_offload_context, security, hal, runtime, boost
from mindspore._c_expression import security
from mindspore._checkparam import Rel, Validator, check_positive_int, GE, twice, args_type_check
from mindspore._extends.parse.standard_method import while_cond, ms_len
from mindspore.boost import AutoBoost, BoostTrainOneStepCell, GradientAccumulation
from mindspore.boost.boost_cell_wrapper import BoostTrainOneStepWithLossScaleCell, grad_overflow, reciprocal
from mindspore.boost.grad_accumulation import GradientAccumulation, gradient_accumulation_op, gradient_clear_op
from mindspore.boost.less_batch_normalization import CommonHeadLastFN, LessBN
from mindspore.common import RowTensor, lazy_inline, mutable
from mindspore.common.api import _cell_graph_executor, _executor, _pynative_executor
from mindspore.common.initializer import _assignment, _calculate_fan_in_and_fan_out, _calculate_gain, _register
from mindspore.common.dtype import tensor_type, number, string, tuple_, list_, type_none, issubclass_, float_type
from mindspore.common.sparse_tensor import RowTensor
from mindspore.communication._comm_helper import GlobalComm, HCCL_WORLD_COMM_GROUP, NCCL_WORLD_COMM_GROUP
from mindspore.communication.comm_func import all_reduce
from mindspore.communication.management import GlobalComm, get_process_group_ranks
from mindspore.dataset.engine.iterators import _cleanup, _unset_iterator_cleanup, ITERATORS_LIST
from mindspore.nn.loss.loss import _Loss, LossBase
from mindspore.nn.optim import AdamOffload
from mindspore.nn.wrap.cell_wrapper import MicroBatchInterleaved, PipelineCell, _BroadCastCell, _VirtualDatasetCell
from mindspore.nn.wrap.cell_wrapper import VirtualDatasetCellTriple
from mindspore.nn.wrap.loss_scale import _grad_overflow, _grad_scale, tensor_grad_scale, tensor_grad_scale_row_tensor
from mindspore.nn.optim.optimizer import Optimizer, opt_init_args_register
from mindspore.ops import Primitive, PrimitiveWithCheck, PrimitiveWithInfer, prim_attr_register, constexpr, _primexpr
from mindspore.ops.composite.base import add_flags, core
from mindspore.ops.functional import make_range, shape_mul, tuple_getitem, tuple_len
from mindspore.ops.operations import ImageSummary, Print, ResizeBilinear, ScalarSummary, TensorSummary
from mindspore.ops.operations._grad_ops import Conv2DBackpropFilter, SliceGrad, StridedSliceGrad
from mindspore.ops.operations._inner_ops import Centralization, ConvertToDynamic, DynamicBroadcastTo, Format
from mindspore.ops.operations._inner_ops import IsConstant, MixedPrecisionCast
from mindspore.ops.operations._grad_ops import ReluGrad, SqrtGrad
from mindspore.ops.operations._sequence_ops import TupleToTensor, shape_mul
from mindspore.ops.operations.comm_ops import AllGather, AllReduce, ReduceOp
from mindspore.ops.primitive import _primexpr, constexpr, prim_attr_register
from mindspore.parallel import Layout, set_algo_parameters, shard
from mindspore.parallel._auto_parallel_context import auto_parallel_context, _set_auto_parallel_context
from mindspore.parallel._utils import _is_in_auto_parallel_mode, _get_pipeline_stages
from mindspore.profiler import Profiler, ProfilerActivity, ProfilerLevel, schedule
from mindspore.train._utils import _make_directory, _to_tensor, check_value_type
from mindspore.train.amp import AMP_BLACK_LIST, AMP_WHITE_LIST, _OutputTo16, _OutputTo32
from mindspore.train.amp import custom_mixed_precision, get_black_list, get_white_list
from mindspore.train.callback import _CallbackManager, _CheckpointManager, _InternalCallbackParam, _set_cur_net
from mindspore.train.callback._callback import CallbackManager, InternalCallbackParam, _handle_loss, set_cur_net
from mindspore.train.callback._checkpoint import CheckpointConfig, _chg_ckpt_file_name_if_same_exist
from mindspore.train.dataset_helper import DatasetHelper, connect_network_with_dataset
from mindspore.train.model import Model, ParallelMode, _transfer_tensor_to_tuple
"""


@pytest.mark.parametrize("line", IMPORTS.strip().splitlines())
def test_names_are_there(line: str) -> None:
    from graphls.compat.hook.stand_in import StandIn

    names: dict[str, Any] = {}
    exec(line, names)
    assert not [name for name, value in names.items() if isinstance(value, StandIn)]


def test_a_star_brings_no_names_of_other_modules() -> None:
    for module in ("train.callback", "train", "parallel", "context", "dataset.samplers", "common.parameter", "log"):
        names: dict[str, Any] = {}
        exec(f"from mindspore.{module} import *", names)
        foreign = {"Any", "warn", "annotations", "np", "GraphTypeError", "user_location", "Callable", "Iterator", "os"}
        assert not foreign & names.keys()


# -- checks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "right", "wrong", "error"),
    [
        ("check_positive_int", 3, 0, ValueError),
        ("check_positive_int", 3, 2.0, TypeError),
        ("check_positive_int", 3, True, TypeError),
        ("check_non_negative_int", 0, -1, ValueError),
        ("check_positive_float", 0.5, 0.0, ValueError),
        ("check_non_negative_float", 0.0, -0.5, ValueError),
        ("check_negative_float", -0.5, float("nan"), ValueError),
        ("check_is_float", 0.5, "x", TypeError),
        ("check_is_int", 3, None, TypeError),
        ("check_bool", True, 1, TypeError),
        ("check_positive_int_sequence", (1, 2), (1, 0), ValueError),
        ("check_positive_int_sequence", [1, 2], 3, TypeError),
    ],
)
def test_checks_of_one_value(check: str, right: Any, wrong: Any, error: type[Exception]) -> None:
    module: Any = importlib.import_module("mindspore._checkparam")
    for place in (module, module.Validator):
        assert getattr(place, check)(right, "size", "Net") == right
        with pytest.raises(error, match=r"^For 'Net', the 'size(\[1\])?' must be .*test_names.py:\d+\)$"):
            getattr(place, check)(wrong, "size", "Net")


def test_checks_of_relations_and_classes() -> None:
    module: Any = importlib.import_module("mindspore._checkparam")
    V, Rel = module.Validator, module.Rel
    assert V.check_int_range(3, 1, 3, Rel.INC_RIGHT, "x", "Net") == 3
    assert module.check_float_range(0.0, 0, 1, module.INC_LEFT, "x") == 0.0
    with pytest.raises(ValueError, match=r"'x' must be in \[1, 3\), but got 3"):
        V.check_int_range(3, 1, 3, Rel.INC_LEFT, "x", "Net")
    with pytest.raises(ValueError, match="'x' must be greater than or equal to 5, but got 3"):
        V.check_int(3, 5, Rel.GE, "x", "Net")
    with pytest.raises(ValueError, match="'a' should be equal to b: 4, but got 3"):
        V.check("a", 3, "b", 4, Rel.EQ, "Net")
    with pytest.raises(TypeError, match="'a' should be less than b: 2"):
        V.check("a", 3, "b", 2, Rel.LT, "Net", TypeError)
    assert V.check("a", 0, "b", (0, 2), Rel.INC_LEFT) == 0
    assert V.check_value_type("x", 3, [int, float], "Net") == 3
    with pytest.raises(TypeError, match="'x' must be int, but got True of 'bool'"):
        V.check_value_type("x", True, int, "Net")
    assert V.check_string("same", ["same", "valid"], "mode") == "same"
    with pytest.raises(ValueError, match="'mode' must be one of 'same', 'valid', but got 'pad'"):
        V.check_string("pad", ["same", "valid"], "mode")
    V.check_subclass("dtype", gl.float32, (gl.float16, gl.float32), "Net")
    V.check_subclass("cell", nn.Dense, nn.Cell, "Net")
    with pytest.raises(TypeError, match="'dtype' must be one of Float16, but got Int32"):
        V.check_subclass("dtype", gl.int32, gl.float16, "Net")
    V.check_tensors_dtypes_same_and_valid({"x": gl.float32, "y": gl.float32}, (gl.float32,), "Net")
    with pytest.raises(TypeError, match="dtypes must be the same"):
        V.check_types_same_and_valid({"x": gl.float32, "y": gl.int32}, (gl.float32, gl.int32), "Net")
    assert (module.twice(3), module.twice((1, 2))) == ((3, 3), (1, 2))

    @module.args_type_check(a=int, b=(str, float))
    def function(a: Any, b: Any = None) -> Any:
        return a

    assert function(3) == 3
    with pytest.raises(TypeError, match="For 'function', the 'b' must be str or float"):
        function(3, b=[1])


# -- training -----------------------------------------------------------------------------------------------------


def rows() -> Any:
    return gl.dataset.NumpySlicesDataset(
        {"x": np.ones((8, 3), np.float32), "y": np.zeros((8, 2), np.float32)}, shuffle=False
    ).batch(2)


@pytest.mark.parametrize(("sink", "size", "count"), [(False, -1, 4), (True, -1, 4), (True, 3, 3), (True, 6, 6)])
def test_a_loop_over_a_dataset_helper(sink: bool, size: int, count: int) -> None:
    ms: Any = importlib.import_module("mindspore")
    helper = ms.DatasetHelper(rows(), dataset_sink_mode=sink, sink_size=size, epoch_num=2)
    net = nn.Dense(3, 2)
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.1))
    connected = ms.connect_network_with_dataset(step, helper)
    for _ in range(2):
        losses = [float(connected(*inputs)) for inputs in helper]
        assert len(losses) == count == helper.sink_size()
    assert losses[-1] < losses[0]
    assert helper.types_shapes() == ([gl.float32, gl.float32], [[2, 3], [2, 2]])
    helper.stop_send()
    with pytest.raises(TypeError, match="DatasetHelper takes a dataset, and int has no get_dataset_size"):
        ms.DatasetHelper(3)


def test_data_sink_calls_a_function_on_the_next_rows() -> None:
    ms: Any = importlib.import_module("mindspore")
    seen: list[Any] = []
    process = ms.data_sink(lambda x, y: seen.append(x.shape) or len(seen), rows(), sink_size=3)
    assert [process(), process()] == [3, 6]


def test_boosted_steps_are_those_of_nn() -> None:
    boost: Any = importlib.import_module("mindspore.boost")

    def train(kind: Any, *settings: Any) -> list[float]:
        gl.set_seed(2)
        net = nn.Dense(3, 2)
        step = kind(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.1), *settings)
        made = [step(Tensor(np.ones((2, 3), np.float32)), Tensor(np.zeros((2, 2), np.float32))) for _ in range(3)]
        return [float(loss[0] if isinstance(loss, tuple) else loss) for loss in made]

    assert train(boost.BoostTrainOneStepCell) == train(nn.TrainOneStepCell)
    scale = nn.FixedLossScaleUpdateCell(4.0)
    assert train(boost.BoostTrainOneStepWithLossScaleCell, scale) == train(nn.TrainOneStepWithLossScaleCell, scale)
    net = nn.Dense(1, 1)
    assert boost.AutoBoost("O0").network_auto_process_train(net, 1) == (net, 1)
    with pytest.warns(UserWarning, match="does not offer the levels of boost .level='O1', which has no effect"):
        boost.AutoBoost("O1")


def test_gradients_are_accumulated_over_calls() -> None:
    boost: Any = importlib.import_module("mindspore.boost")

    class Step(nn.Cell):
        def __init__(self, network: Any, optimizer: Any) -> None:
            super().__init__(auto_prefix=False)
            self.network, self.optimizer = network, optimizer
            self.weights = optimizer.parameters
            self.grad = ops.GradOperation(get_by_list=True)
            self.accumulate = boost.GradientAccumulation(2, optimizer)

        def construct(self, x: Any) -> Any:
            return self.accumulate(self.network(x), self.grad(self.network, self.weights)(x))

    class Sum(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.weight = gl.Parameter(Tensor([1.0, 2.0]), name="weight")

        def construct(self, x: Any) -> Any:
            return (self.weight * x).sum()

    net = Sum()
    step = Step(net, nn.SGD(net.trainable_params(), 1.0))
    found = []
    for x in ([1.0, 1.0], [3.0, 5.0], [2.0, 0.0], [0.0, 2.0]):
        step(Tensor(x))
        found.append(net.weight.tolist())
    assert found == [[1.0, 2.0], [-1.0, -1.0], [-1.0, -1.0], [-2.0, -2.0]]


def test_mixed_precision_by_lists() -> None:
    amp: Any = importlib.import_module("mindspore.amp")
    x = Tensor(np.full((2, 3), 300.0, np.float32))

    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Dense(3, 2, weight_init="ones")
            self.norm = nn.LayerNorm((2,))

        def construct(self, x: Any) -> Any:
            y = self.dense(x)
            return self.norm(y), ops.square(y) * 0.01

    def infinite(network: Any) -> bool:
        return bool(np.isinf(network(x)[1].asnumpy()).any())

    assert not infinite(Net())
    assert nn.Dense in amp.get_white_list() and nn.LayerNorm in amp.get_black_list()
    amp.get_white_list().clear()
    assert amp.get_white_list()
    assert infinite(amp.custom_mixed_precision(Net(), black_list=amp.get_black_list()))
    assert not infinite(amp.custom_mixed_precision(Net(), white_list=amp.get_white_list()))
    assert infinite(amp.custom_mixed_precision(Net(), white_list=[nn.Dense, ops.operations.Square]))
    for lists in ({}, {"white_list": [], "black_list": []}):
        with pytest.raises(ValueError, match="takes a white_list or a black_list, and not both"):
            amp.custom_mixed_precision(Net(), **lists)
    with pytest.raises(TypeError, match="The black_list is of classes of cells, not "):
        amp.custom_mixed_precision(Net(), black_list=[ops.operations.MatMul])


# -- smaller things -----------------------------------------------------------------------------------------------


def test_rows_of_a_tensor() -> None:
    ms: Any = importlib.import_module("mindspore")
    found = ms.RowTensor(Tensor([2, 0, 2]), Tensor([[1.0], [2.0], [3.0]]), (4, 1))
    assert found.to_dense().tolist() == [[2.0], [0.0], [4.0], [0.0]]
    assert (found.dtype, found.dense_shape) == (gl.float32, (4, 1))
    with pytest.raises(ValueError, match="do not fit a tensor of shape"):
        ms.RowTensor(Tensor([2]), Tensor([[1.0], [2.0]]), (4, 1))


def test_files_of_a_prefix(tmp_path: Any) -> None:
    checkpoint: Any = importlib.import_module("mindspore.train.callback._checkpoint")
    for number in (1, 2, 3):
        (tmp_path / f"net-1_{number}.ckpt").write_text("")
    (tmp_path / "net_1-1_1.ckpt").write_text("")
    manager = checkpoint._CheckpointManager()
    manager.update_ckpoint_filelist(str(tmp_path), "net")
    assert manager.ckpoint_num == 3
    manager.remove_oldest_ckpoint_file()
    manager.remove_ckpoint_file(str(tmp_path / "net-1_3.ckpt"))
    assert [path[-12:] for path in manager.ckpoint_filelist] == ["net-1_2.ckpt"]
    assert checkpoint._chg_ckpt_file_name_if_same_exist(str(tmp_path), "net") == "net_2"


def test_the_profiler_writes_what_steps_take_and_never_fails(tmp_path: Any) -> None:
    ms: Any = importlib.import_module("mindspore")
    profiler = ms.Profiler(output_path=str(tmp_path / "out"), profile_memory=True)
    net = nn.Dense(3, 2)
    ms.set_context(mode=ms.GRAPH_MODE)
    net(Tensor(np.ones((2, 3), np.float32)))
    profiler.stop()
    profiler.start()
    profiler.analyse()
    assert any("matmul" in path.read_text() for path in (tmp_path / "out").iterdir())
    assert profiler.seconds > 0
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="could not be profiled"):
        ms.Profiler(output_path=str(tmp_path / "file")).analyse()


def test_layouts_and_parameters_of_a_search() -> None:
    parallel: Any = importlib.import_module("mindspore.parallel")
    layout = parallel.Layout((2, 4), ("dp", "mp"))("dp", ("mp", "dp"), "None")
    assert layout.to_dict()["tensor_map"] == (1, (0, 1), -1)
    with pytest.raises(ValueError, match=", not 'tp'"):
        parallel.Layout((2, 4), ("dp", "mp"))("tp")
    parallel.set_algo_parameters(fully_use_devices=True)
    assert parallel.get_algo_parameters("fully_use_devices") is True
    parallel.reset_algo_parameters()
    assert parallel.get_algo_parameters("fully_use_devices") is False
    with pytest.raises(ValueError, match="no parameter 'fully_use_device'; did you mean 'fully_use_devices'"):
        parallel.set_algo_parameters(fully_use_device=True)
    net = nn.Dense(3, 2)
    x = Tensor(np.ones((2, 3), np.float32))
    assert (parallel.shard(net, ((1, 1),))(x) == net(x)).all()
    context = parallel._auto_parallel_context.auto_parallel_context()
    context.set_gradients_mean(True)
    assert context.get_gradients_mean() is True
    context.reset()


def test_optimizers_remember_their_arguments() -> None:
    module: Any = importlib.import_module("mindspore.nn.optim.optimizer")

    class Own(module.Optimizer):  # type: ignore[misc]
        @module.opt_init_args_register  # type: ignore[untyped-decorator]
        def __init__(self, params: Any, learning_rate: float = 0.1) -> None:
            super().__init__(learning_rate, params)

        def construct(self, gradients: Any) -> Any:
            return tuple(ops.assign_sub(p, g * 1.0) for p, g in zip(self.parameters, gradients, strict=True))

    optimizer = Own(nn.Dense(2, 1).trainable_params(), 0.5)
    assert optimizer.init_learning_rate == 0.5
    for target in ("CPU", "GPU", "Ascend"):
        optimizer.target = target
        assert optimizer.target == target
    with pytest.raises(ValueError, match="target of an optimizer is 'CPU', 'Ascend' or 'GPU', not 'TPU'"):
        optimizer.target = "TPU"


def test_settings_and_checks_of_the_installation(capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    ms: Any = importlib.import_module("mindspore")
    ms.set_context(jit_level="O0", jit_config={"jit_level": "O1"}, jit_syntax_level=ms.STRICT)
    assert (ms.get_context("jit_level"), ms.STRICT, ms.LAX) == ("O0", 0, 2)
    ms.run_check()
    assert "correct" in capsys.readouterr().out
    before = sys.getrecursionlimit()
    try:
        ms.set_recursion_limit(before + 10)
        assert sys.getrecursionlimit() == before + 10
    finally:
        sys.setrecursionlimit(before)
    assert ms.security.enable_security() is False
    assert ms.hal.is_available("CPU") and ms.hal.device_count("Ascend") == 0
    ms.common.api._pynative_executor.sync()
    config: Any = importlib.import_module("mindspore.dataset.config")
    config.set_debug_mode(True)
    config.set_iterator_mode(do_copy=True)
    assert config.get_debug_mode() and config.get_iterator_mode() == {"do_copy": True, "parallel_convert": False}
    config.set_debug_mode(False)
    config.set_iterator_mode()
    importlib.import_module("mindspore.dataset.engine.iterators")._cleanup()
    assert [*rows().create_tuple_iterator(num_epochs=1)]
    types: Any = importlib.import_module("mindspore.common.dtype")
    assert types.issubclass_(gl.float32, types.number) and not types.issubclass_(types.string, types.number)
    assert types.get_py_obj_dtype(Tensor([1])) is gl.int64
