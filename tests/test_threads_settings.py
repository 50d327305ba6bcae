"""States of the process in several threads: settings, seeds, numbers of folders. A change is seen as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import context
from graphls.base.sharing.settings import Settings
from graphls.compat import parallel, root
from graphls.dataset import config, randomness
from graphls.frontend.tensors import random
from graphls.ir import parse
from graphls.passes import as_pipeline, manager
from graphls.runtime.context import parallel as one_rank
from tests.test_threads import fast_switching, in_threads

__all__ = ["fast_switching"]
KEPT = [
    (context._settings, "mode", 1),
    (one_rank._settings, "gradients_mean", True),
    (parallel._algorithm, "fully_use_devices", True),
    (parallel._cost_model, "beta", 2),
    (root._offload, "cpu", 1),
    (root._servers, "worker_num", 3),
    (config._settings, "workers", 4),
]


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    with context.kept_context():
        yield
    config._settings.reset()
    randomness.SEED.reset()
    graphls.set_seed(0)


@pytest.mark.parametrize(("settings", "name", "value"), KEPT)
def test_a_setting_holds_in_every_thread_also_while_others_change(settings: Settings, name: str, value: Any) -> None:
    """Threads that keep, change and reset other settings take none from the one that reads."""
    with settings.preserved():
        settings.update({name: value})

        def work(number: int) -> None:
            for i in range(200):
                if number == 0:
                    assert settings[name] == value
                elif number == 1:
                    settings.update({f"other{i}": i})
                else:
                    with settings.preserved():
                        pass

        in_threads(3, work)
        assert settings[name] == value


def test_changes_of_several_threads_are_all_there() -> None:
    settings = Settings({"a": 0})

    def work(number: int) -> None:
        for i in range(100):
            settings.update({f"{number}.{i}": i})

    in_threads(4, work)
    assert len(settings.values()) == 401


def test_a_default_stays_what_it_is() -> None:
    context.get_auto_parallel_context("all_reduce_fusion_config").append(1)
    assert context.get_auto_parallel_context("all_reduce_fusion_config") == []


def test_the_context_and_what_it_brings_about_belong_together(tmp_path: Path) -> None:
    def work(number: int) -> None:
        for _ in range(50):
            context.set_context(save_graphs=True, save_graphs_path=str(tmp_path / str(number)))
            context.set_context(save_graphs=False)
            context.set_context(save_graphs=True)

    in_threads(4, work)
    assert manager._directory == context.get_context("save_graphs_path")


def test_a_seed_the_generator_and_the_state_of_steps_are_those_of_one_call() -> None:
    def work(number: int) -> None:
        for i in range(100):
            graphls.set_seed(1000 * number + i)

    in_threads(4, work)
    seed = graphls.get_seed()
    assert random.random_state().asnumpy().tolist() == [seed, 0]
    assert random.generator().integers(2**60) == np.random.default_rng(seed).integers(2**60)


def test_threads_draw_different_numbers_outside_of_a_pipeline() -> None:
    for seed in range(30):
        config.set_seed(seed)
        drawn: list[float] = []
        in_threads(4, lambda number, drawn=drawn: drawn.append(randomness.generator().random()))  # type: ignore[misc]
        assert len(set(drawn)) == 4


def test_the_row_of_a_thread_is_its_own() -> None:
    def work(number: int) -> None:
        draws = randomness.RowDraws(randomness.Key(0, number, 0))
        for row in range(100):
            draws.enter(row)
            assert randomness.generator() is draws.generator()

    in_threads(4, work)


def test_every_run_of_a_pipeline_has_a_folder_of_its_own(tmp_path: Path) -> None:
    graph = parse("graph @dumped(%x: f32[2]) {\n  return %x\n}\n")
    context.set_context(save_graphs=True, save_graphs_path=str(tmp_path))
    in_threads(4, lambda number: [as_pipeline("dce").run(graph) for _ in range(10)] and None)
    assert sorted(folder.name for folder in tmp_path.iterdir()) == sorted(
        ["dumped", *(f"dumped_{i}" for i in range(2, 41))]
    )


def test_a_warning_that_is_given_once_is_given_once(
    recwarn: pytest.WarningsRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Old(graphls.train.Callback):
        def step_end(self, run_context: Any) -> None:
            pass

    from graphls.train.callbacks.callback import _warn_of_hooks

    monkeypatch.setattr(one_rank, "find_spec", lambda name: None)  # as without JAX
    one_rank.force_one_rank(True)
    in_threads(4, lambda number: _warn_of_hooks(Old))
    in_threads(4, lambda number: context.set_auto_parallel_context(device_num=8))
    one_rank.force_one_rank(False)
    texts = [str(w.message) for w in recwarn]
    assert sum("Old" in text for text in texts) == sum("device_num" in text for text in texts) == 1
