"""What a session does on a real card: options, limits, failures, and everything around a step."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops, train
from graphls.cli.main import main
from graphls.runtime.buffers import DeviceBuffer
from graphls.runtime.onnxruntime.cuda_libraries import find_driver
from tests.cuda.card import differing, trained
from tests.networks.steps import batch, build

F32 = np.float32
Note = Callable[[str], None]


def product(device: Any) -> Any:
    """A product of float32 matrices on a device, with the exact one."""
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(256, 256)).astype(F32) for _ in range(2))
    found = graphls.compile(lambda a, b: a @ b, a, b, device=device)(a, b).asnumpy()
    exact = a.astype(float) @ b.astype(float)
    return float(np.abs(found - exact).max() / np.abs(exact).max())


def test_the_doctor_finds_nothing_missing(
    note: Note, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphls.cli.doctor.conflict", str)  # a machine for tests may have two runtimes
    code = main(["doctor", "--device", "cuda"])
    for line in capsys.readouterr().out.splitlines():
        note(line)
    assert code == 0


def test_float32_products_keep_24_bits_without_tf32(note: Note) -> None:
    plain, tf32 = product("cuda"), product(graphls.Cuda(tf32=True))
    note(f"float32 products: error {plain:.1e}, with TF32 {tf32:.1e}")
    assert plain < 3e-6 and (tf32 > 2e-5 or find_driver().cards[0].capability < (8, 0))


def test_float16_overflows() -> None:
    a = np.full((2, 2), 300, np.float16)
    step = graphls.compile(lambda a: (a * a * 0.01, ops.matmul(a, a) * 0.001), a, device="cuda")
    assert all(np.isinf(y.asnumpy()).all() for y in step(a))


def test_states_and_outputs_lie_on_the_card() -> None:
    net = nn.Dense(3, 4)
    step = graphls.compile(net, np.ones((2, 3), F32), device="cuda")
    y = step(np.ones((2, 3), F32))
    assert isinstance(net.weight.storage.current, DeviceBuffer) and isinstance(y._buffer, DeviceBuffer)
    assert net.weight.storage.current.value.device_name() == "cuda"


def test_outputs_become_inputs_and_keep_their_values() -> None:
    for device in (graphls.Cuda(), graphls.Cuda(graph=True)):
        step = graphls.compile(lambda x: (x + 1, ops.sum(x)), np.ones((64, 64), F32), device=device)
        results = [step(np.full((64, 64), value, F32)) for value in range(3)]
        results.append(step(results[2][0]))
        results.append(step(results[3][0]))
        assert [float(y.asnumpy()[0, 0]) for y, _ in results] == [1, 2, 3, 4, 5]
        assert [float(total) / 4096 for _, total in results] == [0, 1, 2, 3, 4]


def test_tensors_go_from_device_to_device() -> None:
    net = nn.Dense(3, 3)
    steps = [graphls.compile(net, np.ones((2, 3), F32), device=device) for device in ("cuda", "cpu", "cuda")]
    y: Any = np.ones((2, 3), F32)
    expected = y
    for step in steps:
        y = step(y)
        expected = expected @ net.weight.asnumpy().T + net.bias.asnumpy()
    np.testing.assert_allclose(y.asnumpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_card_that_is_not_there_is_told() -> None:
    with pytest.raises(RuntimeError, match="There is no GPU 99; this machine has"):
        graphls.compile(nn.ReLU(), np.ones(3, F32), device=graphls.Cuda(id=99))
    graphls.compile(nn.ReLU(), np.ones(3, F32), device=graphls.Cuda(id=0))(np.ones(3, F32))


def large(x: Any) -> Any:
    """512 MiB of intermediate values that no optimization avoids."""
    y = ops.exp(ops.broadcast_to(x, (1 << 27,)))
    return ops.sum(y / ops.reduce_max(y)) if hasattr(ops, "reduce_max") else ops.sum(y / ops.max(y))


def test_a_memory_limit_holds(note: Note) -> None:
    x = np.ones(1, F32)
    with pytest.raises(MemoryError, match="memory of the GPU does not hold this step") as caught:
        graphls.compile(large, x, device=graphls.Cuda(memory_limit=256 << 20))(x).asnumpy()
    note(str(caught.value))
    assert float(graphls.compile(large, x, device=graphls.Cuda(memory_limit=4 << 30))(x)) > 0


def test_memory_that_is_not_there_is_told_and_the_process_goes_on(note: Note) -> None:
    with pytest.raises(MemoryError) as caught:
        step = graphls.compile(
            lambda x: ops.sum(ops.exp(ops.broadcast_to(x, (1 << 20, 1 << 18)))), np.ones(1, F32), device="cuda"
        )
        step(np.ones(1, F32)).asnumpy()
    note(str(caught.value))
    assert float(graphls.compile(ops.sum, np.ones(3, F32), device="cuda")(np.ones(3, F32))) == 3


@pytest.mark.parametrize("name", ["lenet", "unet", "transformer"])
def test_deterministic_steps_have_the_same_bits_in_every_session(name: str, note: Note) -> None:
    device = graphls.Cuda(deterministic=True)
    states = [trained(name, "float32", device, 6)[1] for _ in range(3)]
    apart = {key for other in states[1:] for key in differing(states[0], other)}
    note(f"{name}: {len(apart)} of {len(states[0])} states differ between sessions")
    assert not apart


def test_a_checkpoint_resumes_with_the_same_bits(tmp_path: Path) -> None:
    def steps(cell: Any, inputs: Any, seeds: Any) -> Any:
        step = graphls.compile(cell, *inputs, device=graphls.Cuda(deterministic=True))
        for seed in seeds:
            step(*batch("lenet", seed))
        return {name: p.asnumpy() for name, p in step.parameters.items()}

    whole = steps(*build("lenet", "O2"), range(8))
    cell, inputs = build("lenet", "O2")
    steps(cell, inputs, range(4))
    train.save_checkpoint(cell, str(tmp_path / "half.ckpt"))
    again, inputs = build("lenet", "O2")
    train.load_param_into_net(again, train.load_checkpoint(str(tmp_path / "half.ckpt")))
    assert not differing(whole, steps(again, inputs, range(4, 8)))


def test_random_numbers_are_those_of_the_cpu() -> None:
    cell = nn.Dropout(p=0.5).set_train()
    x, masks = np.ones((40, 50), F32), []
    for device in ("cpu", "cuda", graphls.Cuda(graph=True)):
        graphls.set_seed(7)
        step = graphls.compile(cell, x, device=device)
        masks.append([step(x).asnumpy() for _ in range(3)])
    np.testing.assert_array_equal(masks[0], masks[1])
    np.testing.assert_array_equal(masks[0], masks[2])
    assert not np.array_equal(masks[0][0], masks[0][1])


@pytest.mark.parametrize("name", ["mlp", "lenet", "lstm"])
def test_many_steps_in_one_call_have_the_bits_of_single_ones(name: str) -> None:
    batches = [batch(name, seed) for seed in range(4)]
    cell, inputs = build(name, "float32")
    step = graphls.compile(cell, *inputs, device=graphls.Cuda(deterministic=True))
    losses = [float(step(*arrays)[0]) for arrays in batches]
    cell, inputs = build(name, "float32")
    again = graphls.compile(cell, *inputs, device=graphls.Cuda(deterministic=True)).repeated(4)
    found = again(*(np.stack(column) for column in zip(*batches, strict=True)))[0].asnumpy()
    np.testing.assert_allclose(found, losses, rtol=1e-6)


def test_a_recorded_step_follows_states_that_are_set() -> None:
    cell = nn.Dense(3, 2)
    optimizer = nn.SGD(cell.trainable_params(), 0.5)
    step = graphls.compile(
        nn.TrainOneStepCell(nn.WithLossCell(cell, nn.MSELoss()), optimizer), np.ones((4, 3), F32), np.ones((4, 2), F32),
        device=graphls.Cuda(graph=True),
    )  # fmt: skip
    for value in range(5):
        cell.weight.set_data(np.full((2, 3), value, F32))
        cell.bias.set_data(np.zeros(2, F32))
        loss = float(step(np.ones((4, 3), F32), np.ones((4, 2), F32)))
        assert loss == pytest.approx((3 * value - 1) ** 2)
        np.testing.assert_allclose(cell.bias.asnumpy(), np.full(2, -0.5 * (3 * value - 1)), rtol=1e-5)
    assert len(step._session.recordings) <= 2


def test_what_overflowed_is_explained() -> None:
    cell, inputs = build("mlp", "float16", scale=2.0**24)
    step = graphls.compile(cell, *inputs, device="cuda")
    assert bool(step(*inputs)[1])
    assert "overflow" in str(step.explain_overflow(*inputs)).lower()


def test_a_profile_has_the_nodes_of_the_step(note: Note) -> None:
    cell, inputs = build("lenet", "O2")
    profile = graphls.compile(cell, *inputs, device="cuda").profile(*inputs, steps=5)
    known = [kernel.node is not None for run in profile.runs for kernel in run.kernels]
    note(f"{sum(known)} of {len(known)} kernels of a profile belong to nodes")
    assert len(profile.runs) == 5 and sum(known) > 0.9 * len(known)


def test_threads_take_turns() -> None:
    cell, inputs = build("mlp", "float32")
    step = graphls.compile(cell, *inputs, device="cuda")
    count = next(p for name, p in step.parameters.items() if "global_step" in name or "step" in name)
    before, threads = int(count.asnumpy().reshape(-1)[0]), []
    for _ in range(4):
        threads.append(threading.Thread(target=lambda: [step(*inputs) for _ in range(10)]))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert int(count.asnumpy().reshape(-1)[0]) == before + 40


def in_a_child(step: Any, x: Any, queue: Any) -> None:
    """The error of a step in a forked process."""
    try:
        step(x)
        queue.put("no error")
    except graphls.GraphlsError as error:
        queue.put(str(error))


def test_a_forked_process_is_told_to_compile_there() -> None:
    x = np.ones(3, F32)
    step = graphls.compile(nn.ReLU(), x, device="cuda")
    step(x)
    context: Any = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=in_a_child, args=(step, x, queue))
    child.start()
    assert "forked process cannot use the GPU" in queue.get(timeout=60)
    child.join(60)


def test_a_model_trains_by_its_name() -> None:
    graphls.set_context(device_target="GPU")
    try:
        net = nn.SequentialCell(nn.Dense(4, 16), nn.ReLU(), nn.Dense(16, 1))
        rng = np.random.default_rng(0)
        x = rng.normal(size=(256, 4)).astype(F32)
        data = graphls.dataset.NumpySlicesDataset({"x": x, "y": x[:, :1] * 2 - 1}, shuffle=False).batch(32)
        model = train.Model(net, nn.MSELoss(), nn.Adam(net.trainable_params(), 0.02), metrics={"loss"})
        before = model.eval(data)["loss"]
        model.train(5, data)
        assert model.eval(data)["loss"] < 0.2 * before
    finally:
        graphls.reset_context()


def test_bfloat16_enters_and_leaves() -> None:
    x = graphls.Tensor(np.array([1.0, 1.00390625, -3.0]), graphls.bfloat16)
    for device in (graphls.Cuda(), graphls.Cuda(graph=True)):
        y = graphls.compile(lambda x: x + x, x, device=device)(x)
        assert y.dtype is graphls.bfloat16 and y.asnumpy().astype(F32).tolist() == [2.0, 2.0, -6.0]
