"""Writes the files of tests without PyTorch: `python -m tests.onnx.pytorch.make`.

Needs torch, onnxscript and transformers, as `make test-torch` installs them.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from onnx import ModelProto

import graphls
from benchmarks.hugging_face import ARCHITECTURES, example_inputs
from tests.onnx.pytorch.agreement import FILES, RATE, STEPS, write
from tests.onnx.pytorch.networks import NETWORKS, logits_of, network, trained

MODELS = ("Llama", "T5", "Swin", "DeBERTa v2", "Wav2Vec2")
"""Architectures of Hugging Face that tests read from files."""


def without_stacks(source: Any) -> Any:
    """The source of a mode without the stacks of Python in the metadata, which are long and name folders."""
    model = ModelProto.FromString(source.data)
    for node in model.graph.node:
        kept = [entry for entry in node.metadata_props if entry.key == "namespace"]
        texts = [(entry.key, entry.value) for entry in kept]
        del node.metadata_props[:]
        for key, value in texts:
            node.metadata_props.add(key=key, value=value)
    del model.graph.value_info[:]
    return replace(source, data=model.SerializeToString())


def architecture(name: str) -> tuple[Any, dict[str, Any], Any]:
    """A small model of Hugging Face, its inputs by name, and the labels."""
    module, inputs = ARCHITECTURES[name].module().train(), example_inputs(ARCHITECTURES[name].inputs)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(parameter.bfloat16())  # with fewer digits the file is smaller
    logits = module(**inputs)["logits"]
    return module, inputs, torch.arange(logits[..., 0].numel()) * 7 % logits.shape[-1]


def main() -> None:
    """Write all files."""
    models = {name.lower().replace(" ", "_"): architecture(name) for name in MODELS}
    for name, (module, inputs, labels) in {**{name: network(name) for name in NETWORKS}, **models}.items():
        flags = {"use_cache": False} if name in models and hasattr(module.config, "use_cache") else {}
        net = graphls.from_torch(module, **inputs, **flags)
        net.__dict__["_sources"] = tuple(map(without_stacks, net.__dict__["_sources"]))
        peer = copy.deepcopy(module)
        arrays = {f"input.{key}": value.numpy() for key, value in inputs.items()}
        arrays["labels"] = labels.numpy().astype(np.int32)
        arrays["losses"] = np.array(trained(peer, inputs, labels, STEPS, RATE))
        state = {k: v.detach().numpy() for k, v in peer.state_dict(keep_vars=True).items() if v.is_floating_point()}
        arrays.update({f"trained.{key}": value for key, value in state.items() if name in NETWORKS})
        with torch.no_grad():
            arrays["outputs"] = logits_of(peer.eval()(**inputs)).numpy()
        write(name, net, arrays)
        print(name, (FILES / f"{name}.npz").stat().st_size)


if __name__ == "__main__":
    main()
