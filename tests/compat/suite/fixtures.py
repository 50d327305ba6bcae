"""A conftest file that imports mindspore, as those of others do."""

import mindspore as ms
import pytest


@pytest.fixture(autouse=True)
def graph_mode():
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


@pytest.fixture
def images():
    return ms.Tensor([[[[1.0, 2.0], [3.0, 4.0]]]], ms.float32)
