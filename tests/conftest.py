"""Options and fixtures that all tests share."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from graphls.context import PYNATIVE_MODE, reset_context, set_context
from graphls.runtime.onnxruntime import session as ort
from graphls.runtime.onnxruntime.session_options import threads
from tests import draws, messages
from tests.forced_engine import ENGINES, ForcedEngine

QUIET = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}  # a busy machine fails no test
settings.register_profile("fixed", max_examples=60, derandomize=True, **QUIET)
settings.register_profile("quick", max_examples=10, derandomize=True, **QUIET)
settings.register_profile("explore", max_examples=2000, **QUIET)
settings.load_profile("fixed")

# Tests start hundreds of processes, each of which would compile again, and to rewrite asserts takes half of collecting.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ["JAX_NUM_CPU_DEVICES"] = "8"  # meshes in tests have up to eight devices, and JAX divides a CPU once
# Steps on XLA compile in a third of the time; XLA_FLAGS="" tests what users have.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false")
WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
ON_ALL_CORES = {"backends", "bundles", "networks", "sharing", "steps"}
"""The folders in which it matters that steps compute on several threads; tests of the whole project do so as well."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="rewrite the expected halves of the .ir files")
    parser.addoption("--engine", choices=["onnxruntime", *ENGINES], help="what runs every step that names no engine")
    parser.addoption("--cut", action="store_true", help="let the host skip updates of any size: steps in segments")


def pytest_configure(config: pytest.Config) -> None:
    """Let the engine of `--engine` run what would run on ONNX Runtime, and `--cut` cut steps into segments."""
    config.pluginmanager.register(draws)
    config.pluginmanager.register(messages)
    if config.getoption("--cut"):
        from tests import cut

        config.pluginmanager.register(cut)
        cut.pytest_configure()
    engine = config.getoption("--engine")
    if engine in ENGINES:
        forced = ForcedEngine(engine)
        config.pluginmanager.register(forced)
        forced.pytest_configure()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage: nothing of what is made goes away again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let small steps compute on one thread where several processes test: threads that wait take what these need."""
    folder = re.match(r"tests/(\w+)/", item.nodeid)
    is_small = WORKERS > 1 and folder and folder[1] not in ON_ALL_CORES
    ort.threads = _one if is_small else threads


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Look for garbage behind the last test of a file, and never again in what stays: it becomes more and more."""
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def _one() -> int:
    return 1


@pytest.fixture
def bless(request: pytest.FixtureRequest) -> bool:
    """Whether --bless was given, which says that what the code makes now is right."""
    return bool(request.config.getoption("--bless"))


@pytest.fixture
def eager() -> Iterator[None]:
    """The mode in which cells run step by step."""
    set_context(mode=PYNATIVE_MODE)
    yield
    reset_context()


@pytest.fixture(autouse=True, scope="session")
def untried() -> Iterator[None]:
    """Tests run models that are unusual without a trial, and write nothing into the folder of its results."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("graphls.runtime.onnxruntime.guard.is_unusual", lambda model: False)
        yield
