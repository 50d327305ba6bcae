"""What a session asks of a GPU, and what is said where one is not there or too small, on a double of the runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.runtime.onnxruntime import runtime as installed
from graphls.runtime.onnxruntime.cuda_libraries import Card, Driver
from graphls.runtime.onnxruntime.failures import cuda_failure
from tests.cuda.double import MadeUpRuntime, make_up_a_gpu

X = np.ones((2, 3), np.float32)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> MadeUpRuntime:
    """A GPU that is none."""
    return make_up_a_gpu(monkeypatch)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"device_id": "0", "use_tf32": "0"}),
        ({"id": 1, "tf32": True}, {"device_id": "1", "use_tf32": "1"}),
        ({"deterministic": True}, {"cudnn_conv_algo_search": "DEFAULT"}),
        (
            {"memory_limit": 1 << 20},
            {"gpu_mem_limit": str((1 << 20) - 16 * 4), "arena_extend_strategy": "kSameAsRequested"},
        ),
        ({"graph": True}, {"enable_cuda_graph": "1"}),
    ],
)
def test_options_reach_the_provider(options: Any, expected: dict[str, str], gpu: MadeUpRuntime) -> None:
    net = nn.Dense(3, 4)
    step = graphls.compile(net, X, device=graphls.Cuda(**options))
    step(X)
    assert expected.items() <= gpu.sessions[-1].items()
    assert set(gpu.ids) == {options.get("id", 0)}
    assert step._session._options().use_deterministic_compute is options.get("deterministic", False)


def test_cuda_by_name_is_the_gpu_of_the_settings(gpu: MadeUpRuntime) -> None:
    graphls.set_context(device_id=1, deterministic="ON")
    try:
        graphls.compile(nn.ReLU(), X, device="cuda")
    finally:
        graphls.reset_context()
    assert gpu.sessions[-1].items() >= {"device_id": "1", "cudnn_conv_algo_search": "DEFAULT"}.items()


def test_tensors_of_another_gpu_and_of_the_host_are_brought_here(gpu: MadeUpRuntime) -> None:
    net = nn.Dense(3, 3)
    devices: Any = [graphls.Cuda(), graphls.Cuda(id=1), "cpu"]
    steps = [graphls.compile(net, X, device=device) for device in devices]
    y = graphls.Tensor(X)
    for step in (*steps, *reversed(steps)):
        y = step(y)
    expected = X
    for _ in range(6):
        expected = expected @ net.weight.asnumpy().T + net.bias.asnumpy()
    np.testing.assert_allclose(y.asnumpy(), expected, rtol=1e-4)


def test_sums_in_any_order_are_told_where_bits_are_to_be_the_same(
    gpu: MadeUpRuntime, recwarn: pytest.WarningsRecorder
) -> None:
    words = np.array([1, 1, 2], np.int32)
    net = nn.Embedding(4, 3)
    step: Any = graphls.grad(net, weights=net.trainable_params())
    graphls.compile(step, words, device=graphls.Cuda())
    graphls.compile(net, words, device=graphls.Cuda(deterministic=True))
    assert not [w for w in recwarn if "last bits" in str(w.message)]
    with pytest.warns(UserWarning, match="gradient of an embedding, so that the last bits of this step differ"):
        graphls.compile(step, words, device=graphls.Cuda(deterministic=True))


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"id": "0"}, TypeError, "takes an int for 'id', not '0'"),
        ({"id": -1}, ValueError, "takes 0 or more for 'id', not -1"),
        ({"memory_limit": 0}, ValueError, "takes 1 or more for 'memory_limit'"),
        ({"memory_limit": True}, TypeError, "takes an int for 'memory_limit'"),
        ({"graph": 1}, TypeError, "takes True or False for 'graph', not 1"),
    ],
)
def test_options_that_are_none_are_told(options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        graphls.Cuda(**options)
    assert isinstance(caught.value, graphls.GraphlsError)


def test_states_beyond_the_limit_are_told(gpu: MadeUpRuntime) -> None:
    with pytest.raises(MemoryError, match=r"states of this step take 16,000 bytes.*memory_limit of 9,000"):
        graphls.compile(
            nn.Dense(1000, 4, has_bias=False), np.ones((2, 1000), np.float32), device=graphls.Cuda(memory_limit=9000)
        )


ALLOCATION = (
    "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Non-zero status code returned while running MatMul node. Name:'y' "
    "Status Message: bfc_arena.cc:376 Failed to allocate memory for requested buffer of size 1073741824"
)


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        (ALLOCATION, MemoryError, "memory of the GPU does not hold this step (it asks for 1,073,741,824 bytes more)"),
        (
            "CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=0",
            MemoryError,
            "does not hold this step; take a smaller",
        ),
        ("CUDA failure 35: CUDA driver version is insufficient", RuntimeError, "driver of the GPU is too old"),
        ("CUDA failure 101: invalid device ordinal ; GPU=7", RuntimeError, "no GPU of this number"),
        ("CUDA failure 209: no kernel image is available", RuntimeError, "has no code for this GPU"),
        ("CUDA failure 700: an illegal memory access\nat x.cc", RuntimeError, "this process cannot use any more"),
        ("Failed to load libcudnn.so.9: cannot open", RuntimeError, "library of CUDA or cuDNN is missing"),
        ("This session cannot use the graph capture feature as requested", RuntimeError, "compile it with graph=False"),
    ],
)
def test_failures_are_one_sentence(text: str, error: type[Exception], said: str) -> None:
    failure = cuda_failure(text, graph=True)
    assert isinstance(failure, error) and said in str(failure) and "\n" not in str(failure)


def test_other_failures_are_those_of_the_runtime() -> None:
    assert cuda_failure("Gather indices out of range") is None
    assert cuda_failure("This session cannot use the graph capture feature") is None


def test_a_step_that_memory_does_not_hold_leaves_its_states(
    gpu: MadeUpRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = graphls.compile(nn.Dense(3, 4), X, device="cuda")
    step(X)

    def fail(binding: Any, options: Any) -> None:
        raise RuntimeError(ALLOCATION)

    monkeypatch.setattr(step._session.session._sess, "run_with_iobinding", fail)
    with pytest.raises(MemoryError, match="smaller batch"):
        step(X)


def test_a_provider_that_fails_is_not_tried_again_with_fewer_optimizations(
    gpu: MadeUpRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def fail(*arguments: Any, **options: Any) -> None:
        tried.append(options)
        raise RuntimeError("CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version")

    monkeypatch.setattr(gpu, "InferenceSession", fail)
    with pytest.raises(RuntimeError, match=r"driver of the GPU is too old.*doctor --device cuda"):
        graphls.compile(nn.ReLU(), X, device="cuda")
    assert len(tried) == 1 and tried[0]["enable_fallback"] == 0


ONE = Driver((13, 0), (Card("NVIDIA H100", 80 << 30, (9, 0)),))


@pytest.mark.parametrize(
    ("driver", "missing", "device", "text"),
    [
        (
            Driver(fault="no NVIDIA driver is installed"),
            (),
            "cuda",
            "no NVIDIA driver is installed; install NVIDIA's driver 580",
        ),
        (Driver((12, 4), ONE.cards), (), "cuda", "driver knows CUDA 12.4 and this runtime needs CUDA 13"),
        (ONE, (), graphls.Cuda(id=1), "There is no GPU 1; this machine has 1"),
        (
            ONE,
            ("libcublas.so.13", "libcurand.so.10"),
            "cuda",
            r"missing \(libcublas.*run pip install nvidia-cublas nvidia-cur",
        ),
    ],
)
def test_what_an_installation_lacks_is_told_first(
    driver: Driver, missing: tuple[str, ...], device: Any, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = MadeUpRuntime()
    runtime.cuda_version = "13.0"
    monkeypatch.setattr(installed, "load_runtime", lambda: runtime)
    monkeypatch.setattr("graphls.runtime.onnxruntime.cuda_libraries.current_driver", lambda: driver)
    monkeypatch.setattr("graphls.runtime.onnxruntime.cuda_libraries.missing_libraries", lambda cuda: missing)
    with pytest.raises(RuntimeError, match=text) as caught:
        graphls.compile(nn.ReLU(), X, device=device)
    assert isinstance(caught.value, graphls.GraphlsError)
