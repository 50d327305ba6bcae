"""The import hook: which paths and names there are, and what the others say."""

from __future__ import annotations

import importlib
import sys
import warnings
from types import ModuleType
from typing import Any

import pytest

import graphls as gl
from graphls import compat, context, nn, ops
from graphls.compat.hook.providers import PATHS
from graphls.compat.hook.resolution import offered
from graphls.ir.errors import GraphlsError

IMPORTS = """
import mindspore
import mindspore as ms
import mindspore.nn as nn
import mindspore.ops as ops
import mindspore.context as context
import mindspore.common.dtype as mstype
import mindspore.common.initializer as weight_init
import mindspore.ops.operations as P
import mindspore.ops.functional as F
import mindspore.ops.composite as C
import mindspore.numpy as mnp
from mindspore import amp, common, communication, context, log as logger, mint, nn, ops, parallel, train
from mindspore import Tensor, Parameter, ParameterTuple, dtype as mstype_too, set_seed, get_seed, ms_function, jit
from mindspore import jit_class, ms_class, mutable, JitConfig, ParallelMode, set_auto_parallel_context, set_context
from mindspore import FixedLossScaleManager, DynamicLossScaleManager, grad, value_and_grad, float32, int32, bool_
from mindspore.amp import DynamicLossScaler, StaticLossScaler, all_finite, auto_mixed_precision, build_train_network
from mindspore.common import Parameter, Tensor, initializer, set_seed as common_seed, dtype
from mindspore.common.api import jit, ms_function
from mindspore.common.dtype import float16, dtype_to_nptype, pytype_to_dtype
from mindspore.common.initializer import HeUniform, Normal, One, TruncatedNormal, XavierUniform, Zero, initializer
from mindspore.common.parameter import Parameter, ParameterTuple
from mindspore.common.seed import get_seed, set_seed
from mindspore.common.tensor import Tensor
from mindspore.communication import get_group_size, get_rank, init
from mindspore.communication.management import GlobalComm, get_group_size, get_rank, init, release
from mindspore.context import ParallelMode, get_auto_parallel_context
from mindspore.log import error, info, warning
from mindspore.nn import Cell, CellList, Dense, Momentum, SequentialCell, WithEvalCell, WithLossCell
from mindspore.nn.cell import Cell
from mindspore.nn.dynamic_lr import cosine_decay_lr
from mindspore.nn.layer.activation import get_activation
from mindspore.nn.layer.basic import Dense, Dropout
from mindspore.nn.layer.conv import Conv2d
from mindspore.nn.learning_rate_schedule import CosineDecayLR, LearningRateSchedule, PolynomialDecayLR, WarmUpLR
from mindspore.nn.loss import SoftmaxCrossEntropyWithLogits
from mindspore.nn.loss.loss import LossBase
from mindspore.nn.optim import Adam, AdamWeightDecay, Lamb, Momentum
from mindspore.nn.optim.adam import Adam
from mindspore.nn.optim.momentum import Momentum
from mindspore.nn.optim.optimizer import Optimizer
from mindspore.nn.wrap import TrainOneStepCell
from mindspore.nn.wrap.cell_wrapper import TrainOneStepCell, WithLossCell
from mindspore.nn.wrap.grad_reducer import DistributedGradReducer
from mindspore.nn.wrap.loss_scale import DynamicLossScaleUpdateCell, TrainOneStepWithLossScaleCell
from mindspore.ops import GradOperation, HyperMap, MultitypeFuncGraph, constexpr, functional, operations
from mindspore.ops.composite import GradOperation, HyperMap, MultitypeFuncGraph, clip_by_value
from mindspore.ops.functional import cast, depend, stop_gradient, tensor_add
from mindspore.ops.operations import MatMul, NPUAllocFloatStatus, NPUClearFloatStatus, NPUGetFloatStatus, ReduceSum
from mindspore.ops.operations.math_ops import Add
from mindspore.ops.primitive import constexpr
from mindspore.parallel._auto_parallel_context import get_auto_parallel_context
from mindspore.parallel._utils import _get_device_num, _get_gradients_mean, _get_parallel_mode
from mindspore.train.amp import build_train_network
from mindspore.train.loss_scale_manager import DynamicLossScaleManager, FixedLossScaleManager, LossScaleManager
from mindspore.version import __version__
"""


@pytest.mark.usefixtures("mindspore")
@pytest.mark.parametrize("line", IMPORTS.strip().splitlines())
def test_imports_of_both_versions(line: str) -> None:
    exec(line, {})


TOP_LEVEL = (
    "GRAPH_MODE PYNATIVE_MODE ParallelMode Tensor Parameter ParameterTuple DynamicLossScaleManager LossScaleManager "
    "FixedLossScaleManager JitConfig get_auto_parallel_context get_context get_seed grad jit jit_class ms_class "
    "ms_function mutable nn ops amp reset_auto_parallel_context set_auto_parallel_context set_context set_device "
    "set_seed tensor value_and_grad float16 float32 float64 bfloat16 bool_ int8 int16 int32 int64 uint8 uint16 uint32 "
    "uint64 half single double context"
)


@pytest.mark.usefixtures("mindspore")
def test_names_at_the_top_are_those_of_graphls() -> None:
    ms = importlib.import_module("mindspore")
    for name in TOP_LEVEL.split():
        found, own = getattr(ms, name), getattr(gl, name)
        assert found is own or (isinstance(own, ModuleType) and found.__name__ == f"mindspore.{name}")
    assert ms.nn.Dense is nn.Dense
    assert ms.ops.MatMul is ops.MatMul
    assert ms.common.initializer.initializer is gl.initializer.initializer
    assert ms.nn.wrap.cell_wrapper.TrainOneStepCell is nn.TrainOneStepCell


TRAINING = (
    "Model Callback LossMonitor TimeMonitor ModelCheckpoint CheckpointConfig RunContext save_checkpoint "
    "load_checkpoint load_param_into_net export"
)


@pytest.mark.usefixtures("mindspore")
@pytest.mark.parametrize("name", TRAINING.split())
def test_names_of_the_training_flow(name: str) -> None:
    ms = importlib.import_module("mindspore")
    assert getattr(ms, name) is getattr(gl, name)
    assert getattr(ms, name) is getattr(ms.train, name)


@pytest.mark.usefixtures("mindspore")
@pytest.mark.parametrize("path", PATHS)
def test_every_path_is_a_module_whose_modules_exist(path: str) -> None:
    module = importlib.import_module(f"mindspore.{path}".rstrip("."))
    assert module.__name__ == f"mindspore.{path}".rstrip(".")
    assert offered(path)


@pytest.mark.usefixtures("mindspore")
def test_a_star_imports_what_is_offered() -> None:
    names: dict[str, Any] = {}
    exec("from mindspore.ops import *\nfrom mindspore.common.initializer import *", names)
    assert names["MatMul"] is ops.MatMul
    assert names["relu"] is ops.relu
    assert "initializer" in names


@pytest.mark.usefixtures("mindspore")
def test_the_version_is_that_of_the_interface() -> None:
    ms = importlib.import_module("mindspore")
    assert ms.__version__ == importlib.import_module("mindspore.version").__version__ == "2.10.0"


@pytest.mark.usefixtures("mindspore")
@pytest.mark.parametrize(
    ("module", "name", "near"),
    [
        ("mindspore", "Tensr", "Tensor"),
        ("mindspore.nn", "Dens", "Dense"),
        ("mindspore.nn", "layers", "layer"),
        ("mindspore.ops", "Matmull", "matmul"),
        ("mindspore.ops.operations", "reducesum", "ReduceSum"),
        ("mindspore.common", "initialiser", "initializer"),
        ("mindspore.numpy", "concatenat", "concatenate"),
        ("mindspore.mint", "matmull", "matmul"),
    ],
)
def test_what_is_not_offered_names_the_nearest(module: str, name: str, near: str) -> None:
    text = rf"graphls does not offer {module}.{name}; the nearest is '{near}'. \(.*test_finder.py:\d+\)$"
    with pytest.raises(AttributeError, match=text) as attribute:
        getattr(importlib.import_module(module), name)
    with pytest.raises(ImportError, match=f"graphls does not offer {module}.{name}") as imported:
        importlib.import_module(f"{module}.{name}")
    assert isinstance(attribute.value, GraphlsError)
    assert isinstance(imported.value, GraphlsError)
    assert not hasattr(importlib.import_module(module), name)


@pytest.mark.usefixtures("mindspore")
@pytest.mark.parametrize("name", ["scipi", "utilities", "qqqq"])
def test_where_nothing_is_near_nothing_is_named(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"graphls does not offer mindspore.mint.{name}\. \("):
        getattr(importlib.import_module("mindspore.mint"), name)


def test_only_where_it_is_installed() -> None:
    with pytest.raises(ModuleNotFoundError, match="No module named 'mindspore'"):
        importlib.import_module("mindspore")
    compat.install()
    compat.install()
    assert importlib.import_module("mindspore").Tensor is gl.Tensor
    assert context.get_context("mode") == context.PYNATIVE_MODE
    compat.uninstall()
    context.reset_context()
    with pytest.raises(ModuleNotFoundError, match="No module named 'mindspore'"):
        importlib.import_module("mindspore")


@pytest.mark.usefixtures("mindspore")
def test_a_mode_that_the_script_has_chosen_stays() -> None:
    context.set_context(mode=context.GRAPH_MODE)
    compat.install()
    assert context.get_context("mode") == context.GRAPH_MODE


def test_it_refuses_to_mix_with_mindspore_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mindspore", ModuleType("mindspore"))
    with pytest.raises(RuntimeError, match="MindSpore itself is imported already"):
        compat.install()


@pytest.mark.usefixtures("mindspore")
def test_other_modules_are_found_as_ever() -> None:
    assert importlib.util.find_spec("json") is not None
    assert importlib.util.find_spec("mindspored") is None


@pytest.mark.usefixtures("mindspore")
def test_scripts_of_mindspore_are_told_what_mindspore_2_tells() -> None:
    """MindSpore 2.10 says this of each Dropout without a `p`, and nothing of the others."""
    for call in (lambda: nn.Dropout(0.1), lambda: nn.Dropout(keep_prob=0.9), nn.Dropout):
        with pytest.warns(UserWarning, match="this parameter `keep_prob` will be deprecated, please use `p` instead"):
            call()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nn.Dropout(p=0.1), nn.MaxPool2d(2), nn.BatchNorm2d(2, momentum=0.1)
