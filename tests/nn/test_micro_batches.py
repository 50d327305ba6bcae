"""Networks that run on parts of a batch: sums, stages by name, and the training steps around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import amp, nn, ops, train
from graphls import dataset as ds

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(8, 6)).astype(np.float32), RNG.normal(size=(8, 2)).astype(np.float32)
Wrapper = Callable[[nn.Cell], nn.Cell]
WRAPPERS: dict[str, Wrapper] = {
    "accumulation": lambda net: nn.GradAccumulationCell(net, 4),
    "pipeline": lambda net: nn.PipelineCell(net, 4),
    "interleaved": lambda net: nn.MicroBatchInterleaved(net, 4),
    "nested": lambda net: nn.PipelineCell(nn.MicroBatchInterleaved(net), 2),
}


def parts() -> tuple[Any, nn.Cell]:
    graphls.set_seed(3)
    net = nn.SequentialCell(nn.Dense(6, 5), nn.Tanh(), nn.Dense(5, 2))
    return net, nn.WithLossCell(net, nn.MSELoss())


def expected() -> tuple[float, list[Any]]:
    """The mean loss of the complete batch, and its gradients."""
    net, loss = parts()
    value, grads = ops.value_and_grad(loss, None, net.trainable_params())(graphls.Tensor(X), graphls.Tensor(Y))
    return float(value), [grad.asnumpy() for grad in grads]


def changes(net: Any, run: Callable[[], Any]) -> tuple[Any, list[Any]]:
    """The result of a step, and what it subtracts from each parameter."""
    before = [p.asnumpy() for p in net.trainable_params()]
    result = run()
    return result, [b - p.asnumpy() for b, p in zip(before, net.trainable_params(), strict=True)]


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("name", WRAPPERS)
def test_losses_and_gradients_are_sums_over_the_parts(name: str, backend: str) -> None:
    loss, grads = expected()
    net, network = parts()
    cell = nn.TrainOneStepCell(WRAPPERS[name](network), nn.SGD(net.trainable_params(), 1.0))
    step = graphls.compile(cell, X, Y, backend=backend)
    result, steps = changes(net, lambda: step(X, Y))
    assert float(result) == pytest.approx(4 * loss, rel=1e-5)
    for change, grad in zip(steps, grads, strict=True):
        np.testing.assert_allclose(change, 4 * grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("name", "numbers"), [("pipeline", range(4)), ("interleaved", range(4)), ("nested", range(4))])
def test_nodes_have_the_numbers_of_the_parts(name: str, numbers: range) -> None:
    graph = graphls.compile(WRAPPERS[name](parts()[1]), X, Y).graph
    assert [node.micro for node in graph.nodes if node.primitive.name == "tanh"] == list(numbers)


def test_a_network_with_several_results_and_inputs_that_are_no_tensors() -> None:
    class Pair(nn.Cell):
        def construct(self, x: Any, scale: float) -> Any:
            return ops.sum(x) * scale, {"rows": ops.sum(x, 1)}

    total, named = nn.PipelineCell(Pair(), 2)(graphls.Tensor(X), 2.0)
    assert float(total) == pytest.approx(2 * X.sum(), rel=1e-5)
    np.testing.assert_allclose(named["rows"].asnumpy(), X[:4].sum(1) + X[4:].sum(1), rtol=1e-5)


def test_stages_are_set_by_the_names_of_cells() -> None:
    net, network = parts()
    config = {"_backbone.0": 0, "_backbone.1": 1, "_backbone.2": 1}
    nn.PipelineCell(network, 2, stage_config=config, segment_config=dict.fromkeys(config, 0))
    assert [cell.pipeline_stage for cell in net] == [0, 1, 1]
    with pytest.raises(KeyError, match=r"stage_config .* '_backbone.3', and WithLossCell has .*; did you mean '_back"):
        nn.PipelineCell(network, 2, stage_config={"_backbone.0": 1, "_backbone.3": 1})
    with pytest.raises(KeyError, match="segment_config of PipelineCell names 'layer'"):
        nn.PipelineCell(network, 2, {"_backbone.0": 1}, segment_config={"layer": 1})
    with pytest.raises(ValueError, match="stage_config"):
        nn.PipelineCell(network, 2, stage_config={"_backbone.0": 1, "_backbone.1": -1})
    for wrong in ({"_backbone.0": "first"}, [("_backbone.0", 1)]):
        with pytest.raises(TypeError, match="stage_config"):
            nn.PipelineCell(network, 2, stage_config=wrong)  # type: ignore[arg-type]
    assert [cell.pipeline_stage for cell in net] == [0, 1, 1]  # an error has set nothing


@pytest.mark.parametrize(
    ("cell", "argument"), [(nn.PipelineCell, "micro_size"), (nn.MicroBatchInterleaved, "interleave_num")]
)
def test_wrong_numbers_of_parts(cell: Any, argument: str) -> None:
    network = parts()[1]
    for wrong, error in ((0, ValueError), (-2, ValueError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match=f"{cell.__name__}.*{argument}"):
            cell(network, wrong)
    with pytest.raises(TypeError, match=f"{cell.__name__} takes a cell"):
        cell(lambda x: x, 2)
    with pytest.raises(ValueError, match=f"For '{cell.__name__}', an input of shape .8, 6. cannot be split into 3"):
        cell(network, 3)(graphls.Tensor(X), graphls.Tensor(Y))


@pytest.mark.parametrize("level", ["O0", "O2"])
def test_a_model_takes_the_mean_of_the_parts_unless_a_manager_scales(level: str) -> None:
    _, grads = expected()
    for manager, factor in ((None, 1), (amp.FixedLossScaleManager(64.0), 4)):
        net, network = parts()
        rows = ds.NumpySlicesDataset((X, Y), ["x", "y"], shuffle=False).batch(8)
        optimizer = nn.SGD(net.trainable_params(), 1.0)
        model = train.Model(
            nn.PipelineCell(network, 4), None, optimizer, amp_level=level, loss_scale_manager=manager
        )
        _, steps = changes(net, lambda model=model, rows=rows: model.train(1, rows))  # type: ignore[misc]
        for change, grad in zip(steps, grads, strict=True):
            np.testing.assert_allclose(change, factor * grad, rtol=2e-2 if level == "O2" else 1e-4, atol=1e-2)


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("clips", [True, False])
def test_steps_of_mindformers_scale_by_the_mean_of_the_parts(clips: bool, backend: str) -> None:
    loss, grads = expected()
    net, network = parts()
    cell = nn.MFPipelineWithLossScaleCell(
        nn.PipelineCell(network, 4), nn.SGD(net.trainable_params(), 1.0), clips, 0.25, micro_batch_num=4,
        scale_sense=nn.DynamicLossScaleUpdateCell(2.0**10, 2, 100), local_norm=True,
    )  # fmt: skip
    step = graphls.compile(cell, X, Y, backend=backend)
    (total, overflow, scale, rate, norm, local, sizes), steps = changes(net, lambda: step(X, Y))
    assert (bool(overflow), float(scale), float(rate)) == (False, 1024.0, 1.0)
    assert float(total) == pytest.approx(4 * loss, rel=1e-5)
    norms = [float(np.sqrt((grad.astype(np.float64) ** 2).sum())) for grad in grads]
    np.testing.assert_allclose(local.asnumpy(), norms, rtol=1e-4)
    assert sizes.asnumpy().tolist() == [grad.size for grad in grads]
    together = float(np.sqrt(np.square(norms).sum()))
    assert norm is None if not clips else float(norm) == pytest.approx(together, rel=1e-4)
    factor = min(0.25 / (max(together, 0.25) + 1e-6), 1) if clips else 1
    for change, grad in zip(steps, grads, strict=True):
        np.testing.assert_allclose(change, factor * grad, rtol=1e-3, atol=1e-6)


def test_steps_of_mindformers_skip_a_batch_of_which_one_part_overflows() -> None:
    net, network = parts()
    cell = nn.MFPipelineWithLossScaleCell(
        nn.PipelineCell(network, 4), nn.SGD(net.trainable_params(), 1.0), micro_batch_num=4,
        scale_sense=nn.DynamicLossScaleUpdateCell(2.0**10, 2, 100),
    )  # fmt: skip
    step = graphls.compile(cell, X, Y)
    broken = X.copy()
    broken[5] = np.inf
    (_, overflow, scale, *_), steps = changes(net, lambda: step(broken, Y))
    assert (bool(overflow), float(scale)) == (True, 512.0)
    assert not any(change.any() for change in steps)


def test_wrong_arguments_of_the_step_of_mindformers() -> None:
    net, network = parts()
    optimizer = nn.SGD(net.trainable_params(), 1.0)
    cell = nn.MFPipelineWithLossScaleCell(network, optimizer, scale_sense=4, parallel_config="kept")
    assert isinstance(cell, nn.MFTrainOneStepCell)
    assert (cell.use_clip_grad, cell.parallel_config, cell.clip_grad_norm.max_norm) == (True, "kept", 1.0)
    with pytest.raises(TypeError, match="MFPipelineWithLossScaleCell has no argument 'micro'"):
        nn.MFPipelineWithLossScaleCell(network, optimizer, micro=2)
    with pytest.raises(ValueError, match="micro_batch_num"):
        nn.MFPipelineWithLossScaleCell(network, optimizer, micro_batch_num=0)


def test_gradients_of_functions_are_divided_by_their_scale() -> None:
    loss, grads = expected()
    net, network = parts()
    optimizer = nn.SGD(net.trainable_params(), 1.0)
    pipeline, reducer = nn.PipelineCell(network, 4), nn.PipelineGradReducer(optimizer.parameters, 4 * 256.0)
    gradient = graphls.value_and_grad(lambda x, y: pipeline(x, y) * 256.0, None, optimizer.parameters)

    @graphls.jit
    def step(x: Any, y: Any) -> Any:
        value, scaled = gradient(x, y)
        optimizer(reducer(scaled))
        return value

    total, steps = changes(net, lambda: step(graphls.Tensor(X), graphls.Tensor(Y)))
    assert float(total) == pytest.approx(4 * 256 * loss, rel=1e-5)
    for change, grad in zip(steps, grads, strict=True):
        np.testing.assert_allclose(change, grad, rtol=1e-4, atol=1e-6)
    for wrong, error in (("4", TypeError), (graphls.Tensor([1.0, 2.0]), ValueError)):
        with pytest.raises(error, match="scale_sense of PipelineGradReducer"):
            nn.PipelineGradReducer(optimizer.parameters, wrong)  # type: ignore[arg-type]


class WithAccumulators(nn.TrainOneStepWithLossScaleCell):
    """A step as scripts write it: MindSpore's compiler adds the gradients of the parts to `accu_grads.<name>`."""

    def __init__(self, network: nn.Cell, optimizer: Any, scale: float, micro_size: int) -> None:
        super().__init__(network, optimizer, graphls.Tensor(scale))
        self.accu_grads = self.weights.clone(prefix="accu_grads", init="zeros")
        self.micro_size = micro_size

    def construct(self, *inputs: Any) -> Any:
        loss = self.network(*inputs)
        status, scale = self.start_overflow_check(loss, self.scale_sense)
        filled = ops.ones_like(loss) * ops.cast(scale, loss.dtype)
        grads = self.grad(self.network, self.weights)(*inputs, filled / self.micro_size)
        grads = tuple(self.taken(scale, *pair) for pair in zip(grads, self.accu_grads, strict=True))
        overflow = self.get_overflow_status(status, grads)
        if not overflow:
            loss = ops.depend(loss, self.optimizer(grads))
        return loss, overflow

    def taken(self, scale: Any, grad: Any, accumulator: Any) -> Any:
        """What the accumulator has after this gradient; it is zeros again behind that."""
        total = ops.depend(accumulator, grad) * ops.reciprocal(scale)
        return ops.depend(total, ops.assign(accumulator, ops.zeros_like(accumulator)))


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
def test_accumulators_of_scripts_have_the_sums_over_the_parts(backend: str) -> None:
    _, grads = expected()
    net, network = parts()
    cell = WithAccumulators(nn.PipelineCell(network, 4), nn.SGD(net.trainable_params(), 1.0), 2.0**10, 4)
    step = graphls.compile(cell, X, Y, backend=backend)
    assert not any("accu_grads" in state.name for state in step.graph.states)
    broken = X.copy()
    broken[5] = np.inf
    (_, overflow), steps = changes(net, lambda: step(broken, Y))
    assert bool(overflow) and not any(change.any() for change in steps)
    (_, overflow), steps = changes(net, lambda: step(X, Y))
    assert not bool(overflow)
    for change, grad in zip(steps, grads, strict=True):
        np.testing.assert_allclose(change, grad, rtol=1e-3, atol=1e-6)


def test_accumulators_of_a_network_without_parts_are_states_of_the_script() -> None:
    class Accumulating(nn.Cell):
        def __init__(self, network: nn.Cell, weights: Any) -> None:
            super().__init__()
            self.network, self.weights = network, graphls.ParameterTuple(weights)
            self.accu_grads = self.weights.clone(prefix="accu_grads", init="zeros")
            self.grad = ops.GradOperation(get_by_list=True)

        def construct(self, *inputs: Any) -> Any:
            grads = self.grad(self.network, self.weights)(*inputs)
            return tuple(ops.assign_add(a, g) for a, g in zip(self.accu_grads, grads, strict=True))

    _, grads = expected()
    net, network = parts()
    cell = Accumulating(network, net.trainable_params())
    for _ in range(2):
        cell(graphls.Tensor(X), graphls.Tensor(Y))
    for accumulator, grad in zip(cell.accu_grads, grads, strict=True):
        np.testing.assert_allclose(accumulator.asnumpy(), 2 * grad, rtol=1e-4, atol=1e-6)
