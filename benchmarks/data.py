"""Data pipelines: images per second, and the times of operations on images, arrays and strings.

Run it with `python benchmarks/data.py`, and with `--peer-python P`, an interpreter that has MindSpore, beside that:
both take turns, each in a process of its own. `python benchmarks/data.py operations` measures each operation of
`data_operations.txt`, those first that are slowest beside the peer's.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import math
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

COUNT, BATCH, TURNS, REPEATS = 10_000, 128, 3, 50
WORDS = "[UNK] the quick brown fox jump ##ed over lazy dog and then , . a man went to town buy ##ing bread friend ##ly"
SENTENCE = "The quick brown fox jumped over the lazy dog, and then a man went to town buying friendly bread."


def pipeline(ds: Any, vision: Any, workers: int) -> Any:
    """CIFAR's usual augmentation on images in memory: crop, flip, scale, normalise, channels first."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (COUNT, 32, 32, 3), np.uint8)
    labels = rng.integers(0, 10, COUNT).astype(np.int32)
    rows = ds.NumpySlicesDataset((images, labels), ["image", "label"], num_parallel_workers=1, shuffle=True)
    operations = [
        vision.RandomCrop((32, 32), (4, 4, 4, 4)),
        vision.RandomHorizontalFlip(),
        vision.Rescale(1 / 255, 0.0),
        vision.Normalize([0.49, 0.48, 0.44], [0.2, 0.2, 0.2]),
        vision.HWC2CHW(),
    ]
    return rows.map(operations, ["image"], num_parallel_workers=workers).batch(BATCH, drop_remainder=True).repeat(2)


class Files:
    """The bytes of a JPEG of 224 x 224 pixels, again and again."""

    def __init__(self) -> None:
        (self.data,) = rows_of_each_kind()["jpeg"]

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.data, np.int32(index % 10)


def files_pipeline(ds: Any, vision: Any, workers: int) -> Any:
    """ImageNet's usual augmentation: a part of the file decoded and resized, flip, normalise, channels first."""
    rows = ds.GeneratorDataset(Files(), ["image", "label"], shuffle=True, num_parallel_workers=1)
    operations = [
        vision.RandomCropDecodeResize(224),
        vision.RandomHorizontalFlip(),
        vision.Normalize([120, 110, 100], [60, 61, 62]),
        vision.HWC2CHW(),
    ]
    return rows.map(operations, ["image"], num_parallel_workers=workers).batch(32)


def rate(dataset: Any) -> tuple[float, float]:
    """Images a second, and seconds until the first batch."""
    start = time.perf_counter()
    batches = dataset.create_dict_iterator(num_epochs=1, output_numpy=True)
    count, first = len(next(batches)["image"]), time.perf_counter() - start
    count += sum(len(batch["image"]) for batch in batches)
    return count / (time.perf_counter() - start), first


def mebibytes() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def microseconds(operation: Callable[[Any], Any], row: object) -> float:
    """The time of an operation on a row in microseconds: the least of several runs."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        operation(row)
        times.append(time.perf_counter() - start)
    return min(times) * 1e6


def measured(package: str) -> dict[str, float]:
    """The figures of a package by name."""
    ds = importlib.import_module(f"{package}.dataset")
    vision = importlib.import_module(f"{package}.dataset.vision")
    rate(pipeline(ds, vision, 1))  # starts the threads that both keep
    figures = {}
    for what, new_pipeline in (("images", pipeline), ("files", files_pipeline)):
        before = mebibytes()
        for workers in (1, 2):
            rates, firsts = zip(*(rate(new_pipeline(ds, vision, workers)) for _ in range(2)), strict=True)
            figures[f"{what} a second, {workers} worker{'s' * (workers > 1)}"] = max(rates)
            figures[f"first batch of {what}, {workers}, ms"] = min(firsts) * 1e3
        figures[f"memory of {what}, MiB"] = mebibytes() - before
    return figures


def rows_of_each_kind() -> dict[str, tuple[Any, ...]]:
    """The columns that operations get: `color` is an image of 224 x 224 pixels, `planes` one with channels first."""
    from PIL import Image

    rng = np.random.default_rng(0)
    color, file = np.kron(rng.integers(0, 256, (28, 28, 3), np.uint8), np.ones((8, 8, 1), np.uint8)), io.BytesIO()
    Image.fromarray(color).save(file, "JPEG")
    planes = rng.random((3, 224, 224), np.float32)
    labels = np.eye(10, dtype=np.float32)[rng.integers(0, 10, 16)]
    return {
        "color": (color,), "float": (planes.transpose(1, 2, 0).copy(),), "planes": (planes,),
        "small planes": (rng.random((3, 32, 32)),), "pil": (Image.fromarray(color),),
        "jpeg": (np.frombuffer(file.getvalue(), np.uint8),),
        "batch": (rng.integers(0, 256, (16, 64, 64, 3), np.uint8), labels),
        "numbers": (np.arange(1000, dtype=np.float32),), "label": (np.array(7),), "labels": (np.arange(1000) % 99,),
        "digits": (np.array([str(number) for number in range(100)]),), "words": (np.array(SENTENCE.split()),),
        "sentence": (SENTENCE,), "page": (" ".join([SENTENCE] * 30),),
    }  # fmt: skip


def operations_measured(package: str) -> dict[str, float]:
    """Microseconds of each operation of `data_operations.txt`; none where a package refuses the row."""
    names: dict[str, Any] = {
        name: importlib.import_module(f"{package}.dataset.{name}") for name in ("vision", "transforms", "text")
    }
    names |= {"np": np, "vocab": names["text"].Vocab.from_list(WORDS.split())}
    rows, times = rows_of_each_kind(), {}
    for line in Path(__file__).with_name("data_operations.txt").read_text(encoding="utf-8").splitlines():
        kind, _, code = line.partition(" | ")
        try:
            operation = eval(code, names)
            operation(*rows[kind])
            times[line] = microseconds(lambda row, run=operation: run(*row), rows[kind])  # type: ignore[misc]
        except Exception as error:
            print(f"{package} refuses {line}: {error}", file=sys.stderr)
    return times


MEASURED = {"pipelines": measured, "operations": operations_measured}


def turn(what: str, python: str, package: str) -> dict[str, float]:
    """The figures of a package in a process of its own."""
    command = [python, __file__, what, "--package", package]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{package} could not be measured.")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def print_operations(best: dict[str, dict[str, float]]) -> None:
    """One line for each operation: microseconds of each package, and the first over the last."""
    first, *others = best.values()
    peer = others[0] if others else {}
    ratios = {line: first[line] / peer[line] if line in peer else math.nan for line in first}
    for line in sorted(first, key=lambda line: -ratios[line] if line in peer else math.inf):
        kind, code = line.split(" | ")
        print(f"{first[line]:8.0f} {peer.get(line, math.nan):8.0f} {ratios[line]:6.2f}  {kind:12} {code[:90]}")
    for line in peer.keys() - first:
        print(f"only the peer takes {line}")


def main() -> None:
    """Print a table of medians, and the ratio to the peer where there is one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="?", choices=MEASURED, default="pipelines")
    parser.add_argument("--package", help="measure this one, here")
    parser.add_argument("--peer-python", metavar="P", help="an interpreter that has MindSpore")
    options = parser.parse_args()
    if options.package:
        print(json.dumps(MEASURED[options.what](options.package)))
        return
    who = {"graphls": sys.executable, **({"mindspore": options.peer_python} if options.peer_python else {})}
    turns = [{package: turn(options.what, python, package) for package, python in who.items()} for _ in range(TURNS)]
    if options.what == "operations":
        print_operations({p: {name: min(t[p][name] for t in turns) for name in turns[0][p]} for p in who})
        return
    print(f"{'':30} " + " ".join(f"{package:>10}" for package in who))
    for name in turns[0]["graphls"]:
        print(f"{name:30} " + " ".join(f"{statistics.median(t[p][name] for t in turns):10.0f}" for p in who))


if __name__ == "__main__":
    main()
