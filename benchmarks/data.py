"""Getting data ready: images a second of one worker, and what single operations on images and sentences take.

Run it with `python benchmarks/data.py`, and with `--peer-python P`, an interpreter that has MindSpore, beside that:
both take turns, each in a process of its own.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

COUNT, BATCH, TURNS, REPEATS = 10_000, 128, 3, 50
WORDS = "[UNK] the quick brown fox jump ##ed over lazy dog and then , . a man went to town buy ##ing bread friend ##ly"
SENTENCE = "The quick brown fox jumped over the lazy dog, and then a man went to town buying friendly bread."


def pipeline(ds: Any, vision: Any) -> Any:
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
    return rows.map(operations, ["image"], num_parallel_workers=1).batch(BATCH, drop_remainder=True)


def rate(dataset: Any) -> float:
    """Images a second in one epoch."""
    start = time.perf_counter()
    count = sum(len(batch["image"]) for batch in dataset.create_dict_iterator(num_epochs=1, output_numpy=True))
    return count / (time.perf_counter() - start)


def microseconds(operation: Callable[[Any], Any], row: object) -> float:
    """What an operation takes for a row: the least of some times."""
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        operation(row)
        times.append(time.perf_counter() - start)
    return min(times) * 1e6


def measured(package: str) -> dict[str, float]:
    """Each figure of a package by name."""
    ds = importlib.import_module(f"{package}.dataset")
    vision = importlib.import_module(f"{package}.dataset.vision")
    text = importlib.import_module(f"{package}.dataset.text")
    image = np.random.default_rng(0).integers(0, 256, (224, 224, 3), np.uint8)
    tokenizer = text.BertTokenizer(text.Vocab.from_list(WORDS.split()), lower_case=True)
    dataset = pipeline(ds, vision)
    rate(dataset)  # which starts what both keep
    return {
        "images a second": statistics.median(rate(dataset) for _ in range(3)),
        "resize, us": microseconds(vision.Resize((256, 256)), image),
        "blur, us": microseconds(vision.GaussianBlur(5), image),
        "warp, us": microseconds(vision.Rotate(30.0), image),
        "sentence, us": microseconds(tokenizer, SENTENCE),
    }


def turn(python: str, package: str) -> dict[str, float]:
    """The figures of a package in a process of its own."""
    done = subprocess.run([python, __file__, "--package", package], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{package} could not be measured:\n{done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print a table of medians, and the ratio to the peer where there is one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--package", help="measure this one, here")
    parser.add_argument("--peer-python", metavar="P", help="an interpreter that has MindSpore")
    options = parser.parse_args()
    if options.package:
        print(json.dumps(measured(options.package)))
        return
    who = {"graphls": sys.executable, **({"mindspore": options.peer_python} if options.peer_python else {})}
    turns = [{package: turn(python, package) for package, python in who.items()} for _ in range(TURNS)]
    print(f"{'':16} " + " ".join(f"{package:>10}" for package in who))
    for name in turns[0]["graphls"]:
        print(f"{name:16} " + " ".join(f"{statistics.median(t[p][name] for t in turns):10.0f}" for p in who))


if __name__ == "__main__":
    main()
