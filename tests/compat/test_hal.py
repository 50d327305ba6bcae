"""What `mindspore.hal` and `mindspore.runtime` tell of devices, and what they set."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import graphls
from graphls.compat import hal
from graphls.runtime.onnxruntime.cuda_libraries import Card, Driver
from tests.cuda.double import make_up_a_gpu


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    """The settings as they were."""
    yield
    graphls.reset_context()


def test_cards_are_counted_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = tuple(Card(name, 1 << 34, (9, 0)) for name in ("NVIDIA A", "NVIDIA B"))
    monkeypatch.setattr(hal, "current_driver", lambda: Driver((13, 0), cards))
    make_up_a_gpu(monkeypatch)
    assert (hal.device_count("GPU"), hal.device_count("CPU"), hal.device_count()) == (2, 1, 1)
    assert [hal.get_device_name(i, "GPU") for i in range(2)] == ["NVIDIA A", "NVIDIA B"]
    assert hal.get_device_name(0) == "CPU"


def test_no_card_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hal, "is_available", lambda target: target == "CPU")
    assert (hal.device_count("GPU"), hal.device_count("CPU")) == (0, 1)


def test_the_memory_of_a_gpu_is_a_setting() -> None:
    hal.set_memory("1GB", "1GB", "6GB")
    assert graphls.get_context("max_device_memory") == "6GB"
    assert graphls.context.cuda_of_context() == graphls.Cuda(memory_limit=6 << 30)
    with pytest.raises(ValueError, match="max_device_memory"):
        hal.set_memory(max_size="six")
