"""What is not offered: one list, one tone, and each of its sentences in an error that a user meets."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Tensor, context, nn, ops, train
from graphls import dataset as ds
from graphls.base.refusals import REFUSALS, refusal
from graphls.dataset.mindrecord import FileReader
from graphls.interop.formats.checkpoint import decode
from tests.sources import parsed

ROOT = Path(__file__).parents[2] / "graphls"
X = Tensor(np.ones((1, 2), np.float32))
ROWS = ds.NumpySlicesDataset({"x": np.arange(2)})
FIELD = b"\x0a\x07\x0a\x01a\x1a\x02\x0a\x00"
"""An entry of a checkpoint with a tag and a map parameter."""
CALLS: dict[str, list[tuple[Callable[[], Any], type[Exception]]]] = {
    "division of networks": [
        (lambda: context.set_auto_parallel_context(parallel_mode="semi_auto_parallel"), RuntimeError),
        (lambda: context.set_auto_parallel_context(parallel_mode="auto_parallel"), RuntimeError),
        (lambda: context.set_auto_parallel_context(pipeline_stages=2), RuntimeError),
    ],
    "division of weights": [
        (lambda: context.set_auto_parallel_context(parallel_optimizer_config={"optimizer_level": "level2"}),
         RuntimeError),
    ],
    "projections": [
        (lambda: nn.LSTM(2, 3, proj_size=2), TypeError),
        (lambda: ops.LSTM(2, 3, 1, True, False, 0.0, 2)(X, X, X, X), ValueError),
    ],
    "formats": [
        (lambda: graphls.export(nn.Dense(2, 2), X, file_name="x", file_format="MINDIR"), ValueError),
        (lambda: graphls.export(nn.Dense(2, 2), X, file_name="x", file_format="AIR"), ValueError),
    ],
    "encryption": [
        (lambda: graphls.export(nn.Dense(2, 2), X, file_name="x", file_format="ONNX", enc_key=b"1" * 16), TypeError),
        (lambda: train.save_checkpoint(nn.Dense(2, 2), "x.ckpt", enc_key=b"1" * 16), ValueError),
        (lambda: train.CheckpointConfig(enc_key=b"1" * 16), ValueError),
    ],
    "hash tables": [(lambda: decode(FIELD), ValueError)],
    "complex numbers": [(lambda: Tensor(np.ones(2, np.complex64)), TypeError)],
    "boost": [
        (lambda: train.Model(nn.Dense(1, 1), boost_level="O1"), ValueError),
        (lambda: train.Model(nn.Dense(1, 1), boost_config_dict={"boost": {}}), ValueError),
    ],
    "other runtimes": [(lambda: train.Model(nn.Dense(2, 2)).predict(X, backend="lite"), ValueError)],
    "attention masks": [(lambda: ops.flash_attention_score(X, X, X, 1, prefix=[1]), ValueError)],
    "dataset caches": [
        (lambda: ROWS.map(abs, cache=3), TypeError), (lambda: ds.DatasetCache, AttributeError),
        (lambda: ds.TextFileDataset(__file__, cache=3), ValueError),
    ],
    "map callbacks": [(lambda: ROWS.map(abs, callbacks=[3]), TypeError)],
    "bad rows": [(lambda: ds.config.set_error_samples_mode(ds.config.ErrorSamplesMode.SKIP), ValueError)],
    "file operators": [(lambda: FileReader("x", operator=abs), ValueError)],
    "summaries": [
        (lambda: train.SummaryCollector("x", collect_specified_data={"collect_graph": True}), ValueError)
    ],
}  # fmt: skip


@pytest.mark.parametrize(("key", "call", "kind"), [(k, *call) for k, calls in CALLS.items() for call in calls])
def test_every_refusal_is_met_in_its_sentence(
    key: str, call: Callable[[], Any], kind: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    start, end = refusal(key, "|").split(" (|)")
    with pytest.raises(kind) as caught:
        call()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert re.search(rf"{re.escape(start)}( \(.+?\))?{re.escape(end.rstrip('.'))}", str(caught.value))
    assert list(tmp_path.iterdir()) == []


def test_the_calls_meet_the_complete_list() -> None:
    assert CALLS.keys() == REFUSALS.keys()


def test_no_error_refuses_a_feature_in_other_words() -> None:
    """Apart from names of MindSpore, which the import hook answers, and two sentences that MindSpore has itself."""
    other = []
    for path in ROOT.rglob("*.py"):
        if not re.search("offered|supported|boost|encrypted", path.read_text(encoding="utf-8")):
            continue
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Raise):
                texts = [c.value for c in ast.walk(node) if isinstance(c, ast.Constant) and isinstance(c.value, str)]
                other += [t for t in texts if re.search(r"not offered|not supported|no boost|not encrypted", t)]
    assert sorted(other) == [
        " is not supported if source does not have attribute '__getitem__'.", " is not supported; use one of ",
        " not supported; use one of ", "class_indexing is not supported in Segmentation task.",
    ]  # fmt: skip


def test_counts_of_processes_say_how_to_start_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphls.runtime.context.parallel.find_spec", lambda name: None)  # as without JAX
    with pytest.raises(RuntimeError, match=r"one was, not 8; start the script by `mpiexec -n 8 p"):
        context.set_auto_parallel_context(device_num=8)
    with pytest.raises(RuntimeError, match=r"global_rank is the number of this process.*, 0 of 1, not 1.*mpiexec"):
        context.set_auto_parallel_context(global_rank=1)
    graphls.communication.init()
    with pytest.raises(ValueError, match=r"below 1, as many processes as were started.*`mpiexec -n 4 python"):
        graphls.communication.create_group("a", [0, 3])
