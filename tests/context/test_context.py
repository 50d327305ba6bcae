"""Settings of a process: set_context, get_context and the settings of parallel training."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import graphls as gl
from graphls import context, nn
from graphls.communication import GlobalComm, create_group, get_group_size, get_rank, init, release
from graphls.ir.errors import GraphlsError
from graphls.runtime.context.keys import KEYS
from graphls.runtime.context.parallel import _get_device_num, _get_gradients_mean, _get_parallel_mode
from graphls.runtime.onnxruntime.cuda_libraries import Card, Driver


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    """Every test begins with the defaults and leaves them."""
    context.reset_context()
    yield
    context.reset_context()
    context.reset_auto_parallel_context()
    release()


def test_a_cell_that_is_called_compiles_unless_the_mode_says_otherwise() -> None:
    assert context.get_context("mode") == context.GRAPH_MODE == 0
    context.set_context(mode=context.PYNATIVE_MODE)
    assert context.get_context("mode") == 1
    context.reset_context()
    assert context.get_context("mode") == 0


@pytest.mark.parametrize("mode", [2, -1])
def test_a_mode_that_is_none(mode: int) -> None:
    with pytest.raises(ValueError, match=r"'mode' must be one of 0, 1, but got .*test_context"):
        context.set_context(mode=mode)


def test_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(ValueError, match="argument foo is not recognized!"):
        context.set_context(foo=1)
    with pytest.raises(GraphlsError, match="save_graph is not recognized! did you mean 'save_graphs'"):
        context.set_context(save_graph=1)
    with pytest.raises(ValueError, match="argument foo is not recognized!"):
        context.get_context("foo")


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("device_target", "TPU", ValueError),
        ("device_target", 1, TypeError),
        ("device_id", -1, ValueError),
        ("device_id", True, TypeError),
        ("max_call_depth", 0, ValueError),
        ("max_call_depth", 1.5, TypeError),
        ("enable_graph_kernel", 1, TypeError),
        ("save_graphs", 4, ValueError),
        ("save_graphs_path", 3, TypeError),
        ("max_device_memory", "much", ValueError),
        ("deterministic", "yes", ValueError),
    ],
)
def test_values_that_do_not_fit_change_nothing(key: str, value: object, error: type[Exception]) -> None:
    before = context.get_context(key)
    with pytest.raises(error, match=key) as caught:
        context.set_context(**{"mode": 1, key: value})
    assert isinstance(caught.value, GraphlsError)
    assert (context.get_context(key), context.get_context("mode")) == (before, 0)


def test_every_key_takes_its_default_back() -> None:
    context.set_context(**{name: key.default for name, key in KEYS.items()})
    assert {name: context.get_context(name) for name in KEYS} == {name: key.default for name, key in KEYS.items()}


def test_settings_that_graphls_does_not_act_on_are_kept() -> None:
    context.set_context(enable_graph_kernel=True, max_call_depth=10, max_device_memory="3.5GB", save_graphs=True)
    assert context.get_context("enable_graph_kernel") is True
    assert context.get_context("max_call_depth") == 10
    assert context.get_context("max_device_memory") == "3.5GB"


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(RuntimeError, match="'Ascend' is not available; graphls runs on 'CPU' and 'GPU'"):
        context.set_context(device_target="Ascend")
    with pytest.raises(RuntimeError, match="'Ascend' is not available"):
        context.set_device("Ascend", 0)


def test_set_device_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    context.set_device("CPU", 3)
    assert (context.get_context("device_target"), context.get_context("device_id")) == ("CPU", 3)
    context.reset_context()
    monkeypatch.setenv("GRAPHLS_DEVICE", "cuda")
    assert (context.get_context("device_target"), context.default_device()) == ("GPU", gl.Cuda())
    context.set_context(device_target="CPU")
    assert context.default_device() == "cpu"


def test_save_graphs_writes_the_stages_of_every_compilation(tmp_path: Path) -> None:
    context.set_context(save_graphs=2, save_graphs_path=str(tmp_path / "graphs"))
    net = nn.Dense(3, 2)
    for rows in (4, 5):
        net(gl.Tensor(np.ones((rows, 3), np.float32)))
    folders = sorted((tmp_path / "graphs").iterdir())
    assert [folder.name for folder in folders] == ["Dense", "Dense_2"]
    for folder, rows in zip(folders, (4, 5), strict=True):
        stages = sorted(path.name for path in folder.iterdir())
        assert stages[:2] == ["00_trace.ir", "01_gradient.ir"]
        assert gl.parse((folder / stages[-1]).read_text()).inputs[0].type.shape == (rows, 3)
    context.set_context(save_graphs=False)
    net(gl.Tensor(np.ones((6, 3), np.float32)))
    assert len(list((tmp_path / "graphs").iterdir())) == 2


def test_one_process_on_one_device() -> None:
    modes = gl.ParallelMode
    assert gl.get_auto_parallel_context("parallel_mode") == modes.STAND_ALONE == "stand_alone"
    gl.set_auto_parallel_context(parallel_mode=modes.STAND_ALONE, device_num=1, gradients_mean=True)
    assert (_get_parallel_mode(), _get_device_num(), _get_gradients_mean()) == ("stand_alone", 1, True)
    gl.reset_auto_parallel_context()
    assert _get_gradients_mean() is False


def test_data_parallel_training_in_one_process_is_that_of_one_rank() -> None:
    context.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
    assert (_get_parallel_mode(), _get_device_num()) == ("data_parallel", 1)
    net = nn.WithLossCell(nn.Dense(3, 2), nn.MSELoss())
    step = nn.TrainOneStepCell(net, nn.SGD(net.trainable_params()))
    assert np.isfinite(float(step(gl.Tensor(np.ones((4, 3), np.float32)), gl.Tensor(np.ones((4, 2), np.float32)))))


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"parallel_mode": "auto_parallel"}, RuntimeError, "several processes divide .*='auto_parallel'"),
        ({"device_num": 8}, RuntimeError, "and one was, not 8; start the script by"),
        ({"parallel_mode": "all"}, ValueError, "The parallel_mode is one of 'stand_alone', .*, not 'all'"),
        ({"device_num": 0}, ValueError, "The device_num of set_auto_parallel_context is 1 or more, not 0"),
        ({"global_rank": 1.0}, TypeError, "The global_rank of set_auto_parallel_context is an integer, not 1.0"),
        ({"parameter_broadcast": 1}, TypeError, "parameter_broadcast of set_auto_parallel_context is a bool, not 1"),
        ({"all_reduce_fusion_config": 3}, TypeError, "all_reduce_fusion_config of set_auto_parallel_context is a list"),
        ({"parallel_optimizer_config": {"optimizer_level": "level3"}}, RuntimeError, "='level3'.* give .*level1"),
        ({"parallel_optimizer_config": {"optimizer_weight_shard_size": 4}}, RuntimeError, "started, 1, not among 4"),
        ({"parallel_optimizer_config": {"parallel_optimizer_threshold": -1}}, ValueError, "a number of KB, 0 or more"),
        ({"mirror_mean": True}, ValueError, "the keyword argument mirror_mean is not recognized!"),
    ],
)
def test_parallel_training_that_is_not_offered(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, object], error: type[Exception], text: str
) -> None:
    monkeypatch.setattr("graphls.runtime.context.parallel.find_spec", lambda name: None)  # as without JAX
    with pytest.raises(error, match=text):
        gl.set_auto_parallel_context(**settings, gradients_mean=True)
    assert gl.get_auto_parallel_context("gradients_mean") is False


def test_communication_of_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match=r"get_rank needs communication to be set up; call init\(\) first"):
        get_rank()
    init("nccl")
    assert (get_rank(), get_group_size(), get_group_size(GlobalComm.WORLD_COMM_GROUP)) == (0, 1, 1)
    with pytest.raises(ValueError, match="There is no group 'mine'"):
        get_rank("mine")
    with pytest.raises(ValueError, match="'mccl', 'mpi' or 'xla', not 'gloo'"):
        init("gloo")
    with pytest.raises(ValueError, match="The timeout of init is a number of seconds above 0, not 0"):
        init(timeout=0)
    with pytest.raises(TypeError, match="The timeout of init is a number of seconds, not 'long'"):
        init(timeout="long")  # type: ignore[arg-type]
    create_group("mine", [0])
    release()
    assert (GlobalComm.INITED, GlobalComm.BACKEND) == (False, "")
    init()
    with pytest.raises(ValueError, match="There is no group 'mine'"):
        get_rank("mine")
    create_group("mine", [0])
    assert get_group_size("mine") == 1
    release()
    monkeypatch.setenv("RANK_SIZE", "8")
    with pytest.raises(RuntimeError, match="RANK_SIZE says that 8 processes train together"):
        init()


def test_names_of_the_package_are_found_when_asked_for() -> None:
    assert gl.set_context is context.set_context
    assert gl.context is context
    assert gl.half is gl.float16
    with pytest.raises(AttributeError, match="graphls has no 'set_contxt'; did you mean 'set_context'"):
        _ = gl.set_contxt
    assert not hasattr(gl, "__wrapped__")


def test_a_gpu_that_the_runtime_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphls.runtime.onnxruntime import session as ort

    class Runtime:
        @staticmethod
        def get_available_providers() -> list[str]:
            return ["CPUExecutionProvider"]

    monkeypatch.setattr(ort, "load_runtime", lambda: Runtime)
    with pytest.raises(RuntimeError, match=r"has no CUDAExecutionProvider .*test_context.py"):
        context.set_context(device_target="GPU", mode=1)
    assert (context.get_context("device_target"), context.get_context("mode")) == ("CPU", 0)


def test_a_gpu_is_what_the_settings_say() -> None:
    assert context.cuda_of_context() == gl.Cuda()
    context.set_context(device_id=2, max_device_memory="1.5GB")
    gl.set_deterministic(True)
    assert context.cuda_of_context() == gl.Cuda(id=2, memory_limit=3 << 29, deterministic=True)
    assert context.get_context("deterministic") == "ON"
    with pytest.raises(TypeError, match="set_deterministic takes True or False"):
        gl.set_deterministic(1)  # type: ignore[arg-type]


def test_a_gpu_that_is_not_there_is_the_first_one_for_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "current_driver", lambda: Driver((13, 0), (Card("NVIDIA", 1, (9, 0)),)))
    context.set_context(device_id=3)
    assert context.cuda_of_context().id == 3
    context.replace_missing_devices(True)
    try:
        with pytest.warns(UserWarning, match="There is no GPU 3; graphls runs on GPU 0 instead"):
            assert context.cuda_of_context().id == 0
        assert context.cuda_of_context().id == 0
    finally:
        context.replace_missing_devices(False)
