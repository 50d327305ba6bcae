"""Damaged files of all kinds that are read; `python -m tests.files.damaged --count 3000` reads that many of each kind.

Whatever the damage is, a reader gives something or raises an error of graphls, within seconds. The damage goes through
a container: what stands in a zip archive is damaged and packed again, with its checksums right.
"""

from __future__ import annotations

import argparse
import io
import random
import re
import sys
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import graphls
import graphls.onnx
from graphls import adapters, dataset, nn, train
from graphls.base.reporting import checked
from graphls.cli.dump import read_graph
from graphls.cli.training.columns import read_columns
from graphls.interop import torch
from graphls.interop.formats import torch as torch_format
from graphls.ir.errors import GraphlsError
from graphls.ir.verify import verify
from graphls.onnx.training import parameters
from graphls.runtime.lowering.lowering import lower
from graphls.train.run_page import RunRecord, load_record

SLOW = 10.0
"""Seconds of CPU that no reader of such small files may take."""

X, Y = np.ones((4, 3), np.float32), np.ones((4, 2), np.float32)


@dataclass(frozen=True)
class Kind:
    """A kind of files: what writes a folder of it, which of its files is damaged, and what reads the folder."""

    file: str
    write: Callable[[Path], object]
    read: Callable[[Path], object]


def dense() -> nn.Cell:
    """A network with a weight and a bias."""
    return nn.SequentialCell(nn.Dense(3, 2))


def adam(net: nn.Cell) -> nn.Optimizer:
    """An optimizer whose states have a file."""
    return nn.AdamW(net.trainable_params(), 0.1)


def training() -> nn.Cell:
    """A step with an optimizer."""
    net = dense()
    return nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Momentum(net.trainable_params(), 0.1, 0.9))


def _weights() -> dict[str, Any]:
    return {"0.weight": np.ones((2, 3), np.float32), "0.bias": np.ones(2, np.float32)}


def _optimizer_state() -> dict[str, Any]:
    moments = ({"step": 3, "exp_avg": a, "exp_avg_sq": a * a} for a in _weights().values())
    numbers = {"lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
    group = {**numbers, "amsgrad": False, "maximize": False, "params": [0, 1]}
    return {"optimizer": {"state": dict(enumerate(moments)), "param_groups": [group]}, "model": _weights()}


def _write_onnx(folder: Path) -> None:
    from tests.onnx.models import model, node, tensor

    nodes = [node("Gemm", "x w b", "h"), node("Relu", "h", "r"), node("ReduceSum", "r axes", "y", keepdims=0)]
    constants = {"w": np.ones((3, 2), np.float32), "b": np.ones(2, np.float32), "axes": np.array([1])}
    proto = model(nodes, [tensor("x", [4, 3])], ["y"], constants)
    (folder / "net.onnx").write_bytes(proto.SerializeToString())


def _run_onnx(folder: Path) -> None:
    graphls.compile(graphls.onnx.load(folder / "net.onnx"), X, backend="numpy")


def _load_optimizer(folder: Path) -> None:
    net = dense()
    torch.load_optimizer_state_dict(adam(net), net, folder / "a.pt", changed=("eps", "lr"))


def _write_adapters(folder: Path) -> None:
    net = dense()
    adapters.lora(net, X, rank=2)
    adapters.save_adapters(net, folder)


def _load_adapters(folder: Path) -> None:
    adapters.load_adapters(dense(), folder, X)


def _write_ir(folder: Path) -> None:
    (folder / "step.ir").write_text(str(graphls.compile(training(), X, Y, backend="numpy").graph))


def _read_ir(folder: Path) -> None:
    graph = read_graph(str(folder / "step.ir"))
    verify(graph)
    lower(graph)


def _write_checkpoint(folder: Path) -> None:
    kinds = [parameters.Kind("w", (2, 3), "float32", True)]
    rows = {"first_order_moments": np.ones(6, np.float32), "second_order_moments": np.ones(6, np.float32)}
    content = parameters.Content(kinds, {"w": X[:2]}, {"epoch": 3}, rows, {"step": 2.0})
    parameters.write(content, folder / "checkpoint")


def _write_schema(folder: Path) -> None:
    schema = dataset.Schema()
    schema.add_column("x", "int32", [2])
    (folder / "a.json").write_text(schema.to_json())


def _write_table(path: Path) -> None:
    """Numbers, rows of them, text, bytes in structs and codes of a dictionary, as Parquet, Arrow or Feather."""
    import pyarrow
    from pyarrow import feather, ipc, parquet

    images = [{"bytes": b"\x89PNG", "path": "a.png"}, {"bytes": b"abc", "path": "b.png"}]
    columns = {"x": [[0.5, 1.0], [1.5, 2.0]], "label": [1, 0], "text": ["fine", "rain"], "image": images}
    codes = pyarrow.array(["b", "a"]).dictionary_encode()
    table = pyarrow.table({**columns, "rows": [[1, 2, 3], [4]], "code": codes})
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
    elif path.suffix == ".feather":
        feather.write_feather(table, str(path), compression="lz4")
    else:
        with ipc.new_stream(str(path), table.schema) as stream:
            stream.write_table(table)


def _read_table(path: Path) -> None:
    for _ in dataset.ArrowDataset(path, shuffle=False):
        pass


KINDS: dict[str, Kind] = {
    "npz": Kind("a.npz", lambda f: np.savez(f / "a.npz", x=X, y=Y), lambda f: read_columns(f / "a.npz")),
    "csv": Kind("a.csv", lambda f: (f / "a.csv").write_text("a,b\n1,2\n3,4.5\nx,7\n"),
                lambda f: read_columns(f / "a.csv")),
    "columns": Kind("a.safetensors", lambda f: train.save_checkpoint(dense(), f / "a", format="safetensors"),
                    lambda f: read_columns(f / "a.safetensors")),
    "ckpt": Kind("a.ckpt", lambda f: train.save_checkpoint(dense(), f / "a", append_dict={"epoch": 3, "name": "abc"}),
                 lambda f: train.load_checkpoint(f / "a.ckpt", dense())),
    "safetensors": Kind("a.safetensors", lambda f: train.save_checkpoint(dense(), f / "a", format="safetensors"),
                        lambda f: train.load_checkpoint(f / "a.safetensors", dense())),
    "torch": Kind("a.pt", lambda f: (f / "a.pt").write_bytes(torch_format.encode(_weights())),
                  lambda f: torch.load_state_dict(dense(), f / "a.pt", strict=False)),
    "torch optimizer": Kind("a.pt", lambda f: (f / "a.pt").write_bytes(torch_format.encode(_optimizer_state())),
                            _load_optimizer),
    "onnx": Kind("net.onnx", _write_onnx, _run_onnx),
    "step.json": Kind("step.json", lambda f: graphls.compile(training(), X, Y).export(f), lambda f: _step(f)),
    "states": Kind("state.safetensors", lambda f: graphls.compile(training(), X, Y).export(f), lambda f: _step(f)),
    "ir": Kind("step.ir", _write_ir, _read_ir),
    "record": Kind("run.json", lambda f: RunRecord({"loss": [(1.0, 2.0)]}, {"a": [(1.0, 0.5)]}).save(f / "run.json"),
                   lambda f: load_record(f / "run.json")),
    "adapters": Kind("adapter_model.safetensors", _write_adapters, _load_adapters),
    "adapter settings": Kind("adapter_config.json", _write_adapters, _load_adapters),
    "onnx checkpoint": Kind("checkpoint", _write_checkpoint, lambda f: parameters.read(f / "checkpoint")),
    **{suffix[1:]: Kind(f"a{suffix}", partial(lambda file, folder: _write_table(folder / file), f"a{suffix}"),
                        partial(lambda file, folder: _read_table(folder / file), f"a{suffix}"))
       for suffix in (".parquet", ".arrow", ".feather") if find_spec("pyarrow")},
    "schema": Kind("a.json", _write_schema, lambda f: dataset.Schema(str(f / "a.json"))),
}  # fmt: skip


def _step(folder: Path) -> None:
    graphls.load_step(folder, backend="numpy")


TOKENS = (b"(((((", b"null", b"-1", b"1e999", b'"', b"{", b"}", b"[]", b"99999999999999999999", b"\xff", b"\0", b"\n",
          b"[" * 2000, b"NaN", b"..", b"true", b"0")  # fmt: skip


def damaged(data: bytes, draw: random.Random) -> bytes:
    """A file with some damage; in an archive it is often within one of its files."""
    if data[:2] == b"PK" and draw.random() < 0.8:
        return _repacked(data, draw)
    for _ in range(draw.choice((1, 1, 2, 5))):
        data = _damaged_once(data, draw)
    return data


def _damaged_once(data: bytes, draw: random.Random) -> bytes:
    at, many = draw.randrange(len(data) + 1), draw.choice((1, 1, 4, 8, 40))
    kind = draw.randrange(8)
    if kind == 0 and data:
        at = min(at, len(data) - 1)
        return data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :]
    if kind == 1:
        return data[:at] + draw.randbytes(many) + data[at + many :]
    if kind == 2:
        return data[:at]
    if kind == 3:
        return data[:at] + data[at + many :]
    if kind == 4:
        return data[:at] + data[at : at + many] * 2 + data[at + many :]
    if kind == 5:
        return data[:at] + draw.choice(TOKENS) + data[at:]
    words = [*re.finditer(rb"-?\d+|\w+|[\[({].{0,20}?[\])}]", data)]
    if not words:
        return data + draw.choice(TOKENS)
    word = draw.choice(words)
    new = draw.choice(TOKENS) if kind == 6 else draw.choice(words)[0]
    return data[: word.start()] + new + data[word.end() :]


def _repacked(data: bytes, draw: random.Random) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = draw.choice([*files])
    files[name] = damaged(files[name][:300], draw) + files[name][300:]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return made.getvalue()


def faults(name: str, seeds: range) -> Iterator[str]:
    """What goes wrong with damaged files of a kind: another error than one of graphls, or too much time."""
    kind = KINDS[name]
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind.write(Path(folder))
        file = Path(folder, kind.file)
        whole = file.read_bytes()
        kind.read(Path(folder))
        for seed in seeds:
            file.write_bytes(damaged(whole, random.Random(seed)))
            if text := _fault(kind, Path(folder)):
                yield f"{name} --seed {seed}: {text}"


def _fault(kind: Kind, folder: Path) -> str:
    begun = time.process_time()
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            checked(kind.read, folder)
    except GraphlsError:
        pass
    except BaseException:
        return traceback.format_exc()
    finally:
        seconds = time.process_time() - begun
    return f"{seconds:.0f} s" if seconds > SLOW else ""


def main() -> int:
    """Read many damaged files, and print what goes wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.files.damaged")
    parser.add_argument("kinds", nargs="*", default=[*KINDS])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    wrong = 0
    for name in options.kinds:
        for text in faults(name, range(options.seed, options.seed + options.count)):
            wrong += 1
            print(f"FAULT {text}")
    print(f"{options.count * len(options.kinds)} damaged files of {len(options.kinds)} kinds: {wrong} faults")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
