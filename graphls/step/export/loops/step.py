"""Train a bundle that graphls has exported, with NumPy and any ONNX Runtime.

results = Step("bundle")(images=images, labels=labels)     # {"loss": ..., "overflow": ..., "scale": ...}
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from safetensors.numpy import load_file, save_file


class Step:
    """A training step with its state; `states` holds the arrays by name and may be changed between steps."""

    def __init__(self, folder: str | Path, states: str | Path | None = None, **options: Any) -> None:
        self.manifest = json.loads(Path(folder, "step.json").read_text(encoding="utf-8"))
        if (self.manifest.get("format"), self.manifest.get("version")) != ("graphls bundle", 1):
            raise ValueError(f"{folder} holds a bundle of version {self.manifest.get('version')}; this loop reads 1.")
        self.states = load_file(states or Path(folder, "state.safetensors"))
        for state in self.manifest["states"]:
            array = self.states.get(state["name"])
            if array is None or list(array.shape) != state["shape"] or array.dtype != state["dtype"]:
                kind = "missing" if array is None else f"{array.dtype}{list(array.shape)}"
                raise ValueError(f"The state {state['name']!r} is {kind}, not {state['dtype']}{state['shape']}.")
        settings = {"providers": ["CPUExecutionProvider"], **options}
        try:
            self.session = onnxruntime.InferenceSession(Path(folder, self.manifest["model"]["name"]), **settings)
        except Exception as error:  # of classes that ONNX Runtime does not show
            raise RuntimeError(f"ONNX Runtime {onnxruntime.__version__} cannot run {folder}: {error}") from None
        self.changing = {state["name"]: state["next"] for state in self.manifest["states"] if state["next"]}
        self.names = [*(output["name"] for output in self.manifest["outputs"]), *self.changing.values()]

    def __call__(self, **inputs: Any) -> dict[str, Any]:
        feeds, sizes = dict(self.states), dict[Any, int]()
        for item in self.manifest["inputs"]:
            array = np.ascontiguousarray(inputs.pop(item["name"]), item["dtype"])
            sizes = {**{n: m for n, m in zip(item["shape"], array.shape, strict=False) if isinstance(n, str)}, **sizes}
            if list(array.shape) != [sizes.get(n, n) for n in item["shape"]]:
                raise ValueError(f"The input {item['name']!r} has the shape {array.shape}, not {item['shape']}.")
            feeds[item["name"]] = array
        if inputs:
            raise TypeError(f"The step has no input {next(iter(inputs))!r}.")
        for draw in self.manifest["random"]["draws"]:
            feeds[draw["name"]] = drawn(draw, [sizes.get(n, n) for n in draw["shape"]], self.states)
        results = dict(zip(self.names, self.session.run(self.names, feeds), strict=True))
        self.states.update({name: results.pop(after) for name, after in self.changing.items()})
        return results

    def save(self, path: str | Path) -> None:
        """Write the states at once or not at all."""
        save_file(self.states, f"{path}.tmp")
        os.replace(f"{path}.tmp", path)


def drawn(draw: dict[str, Any], shape: list[int], states: dict[str, Any]) -> Any:
    """The random numbers of a step: words of Philox with the key (seed, site), counted from (0, 0, step, 0)."""
    seed, step = (int(number) % 2**64 for number in states[draw["state"]])
    counter, key = np.array([0, 0, step, 0], np.uint64), np.array([seed, draw["site"]], np.uint64)
    kind, options, size = draw["kind"], draw["options"], int(np.prod(shape, dtype=int))
    count = size + size % 2 if kind == "normal" else -(-size // {"bytes": 8, "bernoulli": 4, "uniform": 2}.get(kind, 1))
    words = np.random.Philox(key=key, counter=counter).random_raw(count)
    if kind == "bernoulli":
        return (words.view("<u2")[:size] < round(options["probability"] * 2**16)).reshape(shape)
    if kind == "uniform":
        return ((words.view("<u4")[:size] >> 8).astype(np.float32) * np.float32(2.0**-24)).reshape(shape)
    if kind == "integers":
        start, stop = int(options["start"]), int(options["stop"])
        return (words % np.uint64(stop - start) + np.uint64(start % 2**64)).view("<i8").reshape(shape)
    if kind in ("bytes", "permutation"):
        return words.view("u1")[:size].reshape(shape) if kind == "bytes" else np.argsort(words, kind="stable")
    bits = words >> np.uint64(11)
    radius, angle = np.sqrt(-2 * np.log((bits[0::2] + 1) * 2.0**-53)), bits[1::2] * (2 * np.pi * 2.0**-53)
    return np.ravel((radius * np.cos(angle), radius * np.sin(angle)), "F")[:size].astype(np.float32).reshape(shape)
