"""How fast steps are on a GPU; nothing here fails by time, and everything goes into the report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.runtime.onnxruntime.runtime import load_runtime
from tests.cuda.card import has_loop
from tests.networks.steps import NETWORKS, batch, build

Note = Callable[[str], None]
F32 = np.float32


def seconds(run: Callable[[], Any], least: float = 0.4) -> float:
    """The median time of a call, of those in about `least` seconds."""
    for _ in range(3):
        run()
    times: list[float] = []
    while sum(times) < least or len(times) < 5:
        start = perf_counter()
        run()
        times.append(perf_counter() - start)
    return float(np.median(times))


def step_seconds(name: str, form: str, device: Any) -> float:
    cell, inputs = build(name, form)
    step = graphls.compile(cell, *inputs, device=device)
    arrays = batch(name)
    return seconds(lambda: float(step(*arrays)[0]))


@pytest.mark.parametrize("name", NETWORKS)
def test_steps_of_networks(name: str, note: Note) -> None:
    for form in ("float32", "float16"):
        cuda = step_seconds(name, form, "cuda")
        recorded = None if has_loop(name) else step_seconds(name, form, graphls.Cuda(graph=True))
        cpu = step_seconds(name, form, "cpu")
        text = "no CUDA graph" if recorded is None else f"as a CUDA graph {1000 * recorded:.2f}"
        note(f"{name} {form}: {1000 * cuda:.2f} ms, {text}, CPU {1000 * cpu:.2f}")


def perceptron(wide: int, deep: int) -> nn.Cell:
    layers: list[nn.Cell] = []
    for _ in range(deep):
        layers += [nn.Dense(wide, wide), nn.ReLU()]
    return nn.SequentialCell(*layers)


def convolutions(channels: int, deep: int) -> nn.Cell:
    layers: list[nn.Cell] = [nn.Conv2d(3, channels, 3, stride=2)]
    for _ in range(deep):
        layers += [nn.Conv2d(channels, channels, 3), nn.BatchNorm2d(channels), nn.ReLU()]
    return nn.SequentialCell(*layers)


def torch_network(kind: str, size: int, deep: int) -> Any:
    import torch

    layers: list[Any] = []
    if kind == "dense":
        for _ in range(deep):
            layers += [torch.nn.Linear(size, size), torch.nn.ReLU()]
    else:
        layers = [torch.nn.Conv2d(3, size, 3, stride=2, padding=1)]
        for _ in range(deep):
            layers += [
                torch.nn.Conv2d(size, size, 3, padding=1, bias=False),
                torch.nn.BatchNorm2d(size),
                torch.nn.ReLU(),
            ]
    return torch.nn.Sequential(*layers)


def torch_seconds(kind: str, size: int, deep: int, x: Any, y: Any, half: bool) -> float:
    """A step of PyTorch with its gradient scaler, where half, and momentum."""
    torch = pytest.importorskip("torch")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    net = torch_network(kind, size, deep).cuda()
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda", enabled=half)

    def step() -> float:
        given, wanted = torch.from_numpy(x).cuda(), torch.from_numpy(y).cuda()
        with torch.autocast("cuda", torch.float16, enabled=half):
            loss = torch.nn.functional.mse_loss(net(given).float(), wanted)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return float(loss)

    return seconds(step)


def our_seconds(net: nn.Cell, x: Any, y: Any, half: bool, device: Any) -> float:
    net = graphls.amp.auto_mixed_precision(net, "O2") if half else net
    loss = nn.WithLossCell(net, nn.MSELoss())
    optimizer = nn.Momentum(net.trainable_params(), 0.01, 0.9)
    scale = nn.DynamicLossScaleUpdateCell(2.0**12, 2, 1000)
    cell: Any = (
        nn.TrainOneStepWithLossScaleCell(loss, optimizer, scale) if half else nn.TrainOneStepCell(loss, optimizer)
    )
    step = graphls.compile(cell.set_train(), x, y, device=device)
    return seconds(lambda: float(step(x, y)[0] if half else step(x, y)))


@pytest.mark.parametrize("half", [False, True], ids=["float32", "O2"])
@pytest.mark.parametrize(
    ("kind", "size", "deep", "rows"), [("dense", 128, 8, 64), ("dense", 2048, 8, 512), ("conv", 64, 8, 64)]
)
def test_against_pytorch(kind: str, size: int, deep: int, rows: int, half: bool, note: Note) -> None:
    rng = np.random.default_rng(0)
    shape, result = ((rows, size),) * 2 if kind == "dense" else ((rows, 3, 64, 64), (rows, size, 32, 32))
    x, y = rng.normal(size=shape).astype(F32), rng.normal(size=result).astype(F32)
    make = perceptron if kind == "dense" else convolutions
    ours = our_seconds(make(size, deep), x, y, half, "cuda")
    recorded = our_seconds(make(size, deep), x, y, half, graphls.Cuda(graph=True))
    text = f"{kind} {size}x{deep}, {rows} rows, {'O2' if half else 'float32'}: {1000 * ours:.2f} ms a step"
    note(f"{text}, as a CUDA graph {1000 * recorded:.2f}")
    note(f"{text}; PyTorch {1000 * torch_seconds(kind, size, deep, x, y, half):.2f}")


def test_what_deterministic_kernels_cost(note: Note) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(64, 3, 64, 64)).astype(F32), rng.normal(size=(64, 64, 32, 32)).astype(F32)
    for options in ({}, {"deterministic": True}, {"tf32": True}):
        note(
            f"{options}: {1000 * our_seconds(convolutions(64, 8), x, y, False, graphls.Cuda(**options)):.2f} ms a step"
        )


@pytest.mark.parametrize("megabytes", [0.01, 1, 20, 100])
def test_ways_to_bring_an_input(megabytes: float, note: Note) -> None:
    """Which is quickest, for who decides how sessions do it."""
    runtime = load_runtime()
    array = np.ones(int(megabytes * 2**18), F32)
    value = runtime.OrtValue.ortvalue_from_numpy(array, "cuda", 0)
    note(f"{megabytes} MB: a new value {_micros(lambda: runtime.OrtValue.ortvalue_from_numpy(array, 'cuda', 0))}")
    note(f"{megabytes} MB: update_inplace {_micros(lambda: value.update_inplace(array))}")
    note(f"{megabytes} MB: reading {_micros(value.numpy)}")
    step = graphls.compile(graphls.ops.sum, array, device="cuda")
    device = graphls.compile(lambda x: x * 1, array, device="cuda")(array)
    note(f"{megabytes} MB: a step on a NumPy array {_micros(lambda: float(step(array)))}")
    note(f"{megabytes} MB: a step on a tensor of the card {_micros(lambda: float(step(device)))}")
    try:
        note(f"{megabytes} MB: update_inplace of a value {_micros(lambda: value.update_inplace(device._buffer.value))}")
        _pinned(runtime, array, value, megabytes, note)
    except Exception as error:
        note(f"{megabytes} MB: {type(error).__name__}: {str(error)[:200]}")


def _pinned(runtime: Any, array: Any, value: Any, megabytes: float, note: Note) -> None:
    library = Path(runtime.__file__).parent / "capi" / "libonnxruntime_providers_cuda.so"
    try:
        runtime.register_execution_provider_library("CUDAExecutionProvider", str(library))
    except Exception as error:
        note(f"the library of the provider does not register: {str(error)[:200]}")
    devices = [d for d in runtime.get_ep_devices() if "CUDA" in d.ep_name]
    note(f"devices of providers: {[d.ep_name for d in runtime.get_ep_devices()]}, build: {runtime.get_build_info()}")
    if not devices:
        return
    memory = devices[0].memory_info(runtime.OrtDeviceMemoryType.HOST_ACCESSIBLE)
    pinned = runtime.OrtValue.ortvalue_from_shape_and_type(array.shape, F32, memory_info=memory)
    stream = devices[0].create_sync_stream()
    note(f"{megabytes} MB: into pinned memory {_micros(lambda: pinned.update_inplace(array))}")
    note(f"{megabytes} MB: from pinned memory {_micros(lambda: runtime.copy_tensors([pinned], [value], None))}")
    note(f"{megabytes} MB: from pinned, begun only {_micros(lambda: runtime.copy_tensors([pinned], [value], stream))}")


def _micros(run: Callable[[], Any]) -> str:
    return f"{1e6 * seconds(run, 0.1):.0f} us"
