"""MindSpore's settings of pipelines: stages divide the devices that a process drives, all else those of one stage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Mesh, context, nn, ops
from graphls import dataset as ds
from graphls.compat.parallel import AutoParallel, _get_stage_device_num
from graphls.runtime.context.parallel import _get_pipeline_stages, parallel_layout, preserved_parallel_context

pytest.importorskip("jax")


@pytest.fixture(autouse=True)
def _eight_devices() -> Iterator[None]:
    with preserved_parallel_context():
        context.set_auto_parallel_context(device_num=8, parallel_mode="semi_auto_parallel")
        yield


class Product(nn.Cell):
    """A product of matrices in a stage, by a strategy."""

    def __init__(self, *strategy: Any) -> None:
        super().__init__()
        self.product = ops.MatMul().shard(*strategy)
        self.pipeline_stage = 0

    def construct(self, x: graphls.Tensor, y: graphls.Tensor) -> Any:
        return self.product(x, y)


def traced(cell: nn.Cell) -> str:
    return str(graphls.compile(cell, np.ones((8, 4), np.float32), np.ones((4, 8), np.float32)).graph)


def test_stages_are_the_first_axis_of_the_mesh() -> None:
    assert (_get_pipeline_stages(), _get_stage_device_num()) == (1, 8)
    context.set_auto_parallel_context(pipeline_stages=2, pipeline_config={"pipeline_scheduler": "1f1b"})
    layout = parallel_layout()
    assert (layout.mesh, layout.data) == (Mesh(stage=2, d0=2, d1=2), "d0+d1")
    assert (_get_pipeline_stages(), _get_stage_device_num()) == (2, 4)
    context.set_auto_parallel_context(pipeline_stages=8)
    assert parallel_layout().mesh == Mesh(stage=8, d0=1)
    context.set_auto_parallel_context(device_num=6, pipeline_stages=3)
    assert parallel_layout().mesh == Mesh(stage=3, d0=2)
    context.reset_auto_parallel_context()
    assert context.get_auto_parallel_context("pipeline_stages") == 1


def test_auto_parallel_sets_stages() -> None:
    AutoParallel(nn.Dense(2, 2)).pipeline(stages=4)
    assert parallel_layout().mesh == Mesh(stage=4, d0=2)


def test_strategies_count_the_devices_of_a_stage() -> None:
    context.set_auto_parallel_context(pipeline_stages=2, dataset_strategy="full_batch")
    graph = traced(Product(((2, 1), (1, 2)), ((4, 1),)))
    assert "mesh(stage=2, d0=2, d1=2) (%x: f32[8,4], %y: f32[4,8])" in graph
    for text in '[["d0"], []]', '[[], ["d1"]]', '[["d0", "d1"], []]':
        assert text in graph, graph
    with pytest.raises(ValueError, match=r"which the 4 devices of a stage of mesh\(stage=2, d0=2, d1=2\) cannot take"):
        traced(Product(((4, 2), (2, 1))))
    with pytest.raises(ValueError, match=r"out_strategy .* needs more devices"):
        traced(Product(((2, 1), (1, 1)), ((4, 2),)))
    context.set_auto_parallel_context(dataset_strategy="data_parallel")
    assert "%x: f32[8/d0+d1,4]" in traced(Product(((2, 1), (1, 1))))


def test_functions_without_stages_run_in_the_first_one_and_training_steps_are_refused() -> None:
    context.set_auto_parallel_context(pipeline_stages=2)
    x = graphls.Tensor(np.arange(32, dtype=np.float32).reshape(8, 4))
    total = graphls.jit(lambda x: (ops.sum(x), x * 2))
    result, double = total(x)
    assert float(result) == 496
    np.testing.assert_array_equal(double.asnumpy(), 2 * x.asnumpy())
    net = nn.Dense(4, 1)
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.1))
    with pytest.raises(ValueError, match="no cell says in which one it runs; set its pipeline_stage"):
        step(x, x[:, :1])


def test_shards_of_a_dataset_are_as_many_as_the_devices_of_a_stage() -> None:
    context.set_auto_parallel_context(pipeline_stages=2)
    rows = ds.NumpySlicesDataset(np.arange(32), "x", shuffle=False, num_shards=4, shard_id=0).batch(2)
    assert [x.shape[0] for (x,) in rows] == [8] * 4
    rows = ds.NumpySlicesDataset(np.arange(32), "x", shuffle=False, num_shards=2, shard_id=0).batch(2)
    assert [x.shape[0] for (x,) in rows] == [2] * 8


def test_sums_of_gradients_count_the_devices_that_divide_the_batch() -> None:
    context.set_auto_parallel_context(pipeline_stages=2)
    assert nn.DistributedGradReducer([], mean=False).degree == 4


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"pipeline_stages": 3}, ValueError, "3 stages of a pipeline cannot have equal parts of 8 devices"),
        ({"device_num": 6, "pipeline_stages": 4}, ValueError, "4 stages .* of 6 devices"),
        ({"device_num": 3}, ValueError, "2 stages .* of 3 devices"),
        ({"pipeline_stages": 0}, ValueError, "pipeline_stages .* is 1 or more, not 0"),
        ({"pipeline_stages": True}, TypeError, "pipeline_stages .* an integer, not True"),
        ({"pipeline_config": {"scheduler": "1f1b"}}, ValueError, "pipeline_config"),
        ({"parallel_optimizer_config": {"optimizer_weight_shard_size": 8}}, RuntimeError, "all 4 devices of a stage"),
    ],
)
def test_wrong_settings_change_nothing(settings: Any, error: type[Exception], text: str) -> None:
    context.set_auto_parallel_context(pipeline_stages=2)
    with pytest.raises(error, match=text):
        context.set_auto_parallel_context(**settings)
    assert (parallel_layout().mesh, _get_pipeline_stages()) == (Mesh(stage=2, d0=2, d1=2), 2)


def test_one_device_has_no_stages() -> None:
    context.set_auto_parallel_context(device_num=1)
    with pytest.raises(RuntimeError, match=r"\(pipeline_stages=2\); set `device_num` before in one process, with JAX"):
        context.set_auto_parallel_context(pipeline_stages=2)


def pipeline_step(scale: float) -> tuple[Any, nn.Cell]:
    graphls.set_seed(5)
    net = nn.SequentialCell(nn.Dense(6, 8), nn.Tanh(), nn.Dense(8, 2))
    loss = nn.WithLossCell(net, nn.MSELoss())
    stages = {"network._backbone.0": 0, "network._backbone.2": 1}
    cell = nn.PipelineCell(nn.MicroBatchInterleaved(loss), 2, stages)
    manager = nn.DynamicLossScaleUpdateCell(scale, 2, 2)
    optimizer = nn.Adam(net.trainable_params(), 1e-2)
    return net, nn.MFPipelineWithLossScaleCell(cell, optimizer, True, 0.5, scale_sense=manager, micro_batch_num=2)


def test_a_step_of_mindformers_runs_in_stages_as_in_the_interpreter() -> None:
    x, y = (np.random.default_rng(0).normal(0, 20, size=(16, size)).astype(np.float32) for size in (6, 2))
    scale = 2.0**126  # overflows in the first steps
    net, cell = pipeline_step(scale)
    context.set_auto_parallel_context(parallel_mode="stand_alone")
    one = graphls.compile(cell, x, y, engine="numpy")
    expected = [[float(value) for value in one(x, y)] for _ in range(6)]
    weights = [p.asnumpy() for p in net.trainable_params()]

    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", pipeline_stages=2)
    config = {"parallel_optimizer_threshold": 0}
    context.set_auto_parallel_context(enable_parallel_optimizer=True, parallel_optimizer_config=config)
    net, cell = pipeline_step(scale)
    step = graphls.compile(cell, x, y)
    segments = [node for node in list(step.stages.values())[-1].nodes if node.primitive.name == "segment"]
    assert {node.attrs["stage"] for node in segments} == {0, 1}
    assert {node.micro for node in segments} == {None, 0, 1, 2, 3}
    results = [[float(value) for value in step(x, y)] for _ in range(6)]
    np.testing.assert_allclose(results, expected, rtol=1e-5)
    assert [row[1] for row in results].count(1.0) in range(1, 6)
    for parameter, weight in zip(net.trainable_params(), weights, strict=True):
        np.testing.assert_allclose(parameter.asnumpy(), weight, rtol=1e-4, atol=1e-6)
