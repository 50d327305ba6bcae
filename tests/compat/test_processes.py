"""What running a script leaves behind, the processes that it spawns, and devices that are not there."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from graphls import compat, context
from graphls.communication import release
from graphls.runtime.context.parallel import get_auto_parallel_context

ROOT = Path(__file__).parent.parent.parent

SCRIPT = """
import sys, mindspore as ms
ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU", max_call_depth=10)
ms.set_auto_parallel_context(parallel_mode="data_parallel")
assert sys.argv[1:] == ["a", "b"] and __name__ == "__main__"
print(sys.modules["__main__"].__file__)
{end}
"""


@pytest.mark.parametrize(("end", "code"), [("", 0), ("1 / 0", 1)])
def test_a_script_leaves_the_process_as_it_was(
    end: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(end=end))
    before = sys.argv, [*sys.path], sys.modules["__main__"], [*sys.meta_path]
    assert compat.run_script(str(script), ["a", "b"]) == code
    assert capsys.readouterr().out == f"{script}\n"
    assert (sys.argv, sys.path, sys.modules["__main__"], sys.meta_path) == before
    assert not [name for name in sys.modules if name.partition(".")[0] == "mindspore"]
    assert (context.get_context("mode"), context.get_context("max_call_depth")) == (context.GRAPH_MODE, 1000)
    assert get_auto_parallel_context("parallel_mode") == "stand_alone"


def test_a_script_that_exits_does_so_too(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import mindspore\nraise SystemExit(3)\n")
    before = sys.argv
    with pytest.raises(SystemExit):
        compat.run_script(str(script))
    assert sys.argv is before and "mindspore" not in sys.modules


@pytest.mark.usefixtures("mindspore")
def test_a_hook_that_was_there_stays(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import mindspore\n")
    assert compat.run_script(str(script)) == 0
    import mindspore

    assert mindspore.nn.Dense is not None


SPAWNING = """
import multiprocessing
import mindspore as ms

def work(x):
    import mindspore.nn as nn
    return nn.ReLU()(ms.Tensor([x - 2.0, x])).tolist()

if __name__ == "__main__":
    with multiprocessing.get_context("{method}").Pool(1) as pool:
        print(pool.map(work, [1.0]))
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_spawned_processes_have_mindspore(method: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SPAWNING.format(method=method))
    command = [sys.executable, "-m", "graphls", "exec", "train.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.stderr) == ("[[0.0, 1.0]]\n", "")


def test_processes_that_are_spawned_without_the_hook_have_none() -> None:
    from multiprocessing import spawn

    of_python = spawn.get_preparation_data
    compat.install()
    assert [key for key in spawn.get_preparation_data("x") if key not in of_python("x")] == ["graphls.compat"]
    compat.uninstall()
    context.reset_context()
    assert spawn.get_preparation_data is of_python


@pytest.mark.usefixtures("mindspore")
@pytest.mark.parametrize("target", ["Ascend", "GPU", "Davinci"])
def test_a_device_that_is_not_there_is_replaced_with_one_warning(target: str) -> None:
    import mindspore as ms

    if target == "GPU" and context._fault_of("GPU") is None:
        pytest.skip("a GPU is there")
    with pytest.warns(UserWarning, match=f"'{target}' is not there; graphls runs on the (CPU|GPU) instead. .*test_pr"):
        ms.set_context(mode=ms.GRAPH_MODE, device_target=target)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ms.set_device(target, 0)
        ms.context.set_context(device_target=target, device_id=0)
        assert ms.get_context("device_target") == target
        assert ms.nn.ReLU()(ms.Tensor([-1.0, 2.0])).tolist() == [0.0, 2.0]
        ms.set_context(device_target="CPU")
        assert context.default_device() == "cpu"
    with pytest.raises(ValueError, match="device_target"):
        ms.set_context(device_target="TPU")


@pytest.mark.usefixtures("mindspore")
def test_settings_of_several_devices_are_those_of_one_with_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphls.runtime.context.parallel.find_spec", lambda name: None)  # as without JAX
    import mindspore as ms
    from mindspore.communication import get_group_size, init

    try:
        init("nccl")
        with pytest.warns(UserWarning, match="One process was started, so device_num=8") as caught:
            ms.set_auto_parallel_context(parallel_mode="data_parallel", device_num=8, gradients_mean=True)
            ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.SEMI_AUTO_PARALLEL, global_rank=3)
        assert len(caught) == 1
        names = ("parallel_mode", "device_num", "global_rank", "gradients_mean")
        assert [ms.get_auto_parallel_context(name) for name in names] == ["data_parallel", 1, 0, True]
        assert get_group_size() == 1
    finally:
        ms.reset_auto_parallel_context()
        release()
