"""Export the networks with both exporters of PyTorch: `python -m tests.onnx.exports.make.torch_exports [name ...]`.

Run by hand, from the root of the repository, in an environment with torch, onnxscript and transformers. All networks
are exported in evaluation mode with their nodes as they are: neither are constants folded, which would merge batch
normalisation into convolutions, nor are nodes fused.
"""

from __future__ import annotations

import copy
import re
import sys
from pathlib import Path
from typing import Any

import onnx
import torch

from tests.onnx.exports.make.networks import NETWORKS, Example, Logits
from tests.onnx.exports.make.references import make_distinct, reference, write

NAMESPACE, TRACE = "namespace", "pkg.torch.onnx.stack_trace"
KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
FILES = Path(__file__).parents[1] / "files"


def by_dynamo(example: Example, network: Any, path: Path) -> None:
    """The exporter that PyTorch takes by default."""
    sizes = tuple({0: torch.export.Dim("batch")} for _ in example.inputs)
    shapes = (sizes,) if isinstance(network, Logits) else sizes  # whose `forward` takes all in one tuple
    torch.onnx.export(
        network, tuple(example.inputs.values()), path, dynamo=True, optimize=False, external_data=False,
        input_names=list(example.inputs), output_names=["y"], dynamic_shapes=shapes, verbose=False,
    )  # fmt: skip


def by_torchscript(example: Example, network: Any, path: Path) -> None:
    """The exporter of older versions, by tracing."""
    torch.onnx.export(
        network, tuple(example.inputs.values()), path, dynamo=False, training=torch.onnx.TrainingMode.PRESERVE,
        do_constant_folding=False, opset_version=17, input_names=list(example.inputs), output_names=["y"],
        dynamic_axes={name: {0: "batch"} for name in [*example.inputs, "y"]},
    )  # fmt: skip


def shortened(model: Any) -> Any:
    """A model without what the exporter tells of its own work, but for the kinds of initializers.

    Of each node's lines the last stays, in its package.
    """
    infos = model.graph.value_info
    kinds = {info.name: entry.value for info in infos for entry in info.metadata_props if entry.key == KIND}
    for holder in (model, model.graph, *model.graph.node, *model.graph.value_info, *model.graph.initializer):
        kept = {entry.key: entry.value for entry in holder.metadata_props if entry.key in (NAMESPACE, TRACE)}
        del holder.metadata_props[:]
        if isinstance(holder, onnx.NodeProto):
            for key, value in kept.items():
                holder.metadata_props.add(key=key, value=_last(value) if key == TRACE else value)
        holder.doc_string = ""
    del infos[:]
    for tensor in model.graph.initializer:
        if tensor.name in kinds:
            info = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            info.metadata_props.add(key=KIND, value=kinds[tensor.name])
            infos.append(info)
    return model


def _last(trace: str) -> str:
    """The last of the lines of a program, named from its package on."""
    trace = trace.replace(f"{Path.cwd()}/", "")
    frames = re.findall(r'File "(?:.*/site-packages/)?([^"]*)", line (\d+), in (\w+)', trace)
    return "File \"{}\", line {}, in {}".format(*frames[-1]) if frames else ""


def main(names: list[str]) -> None:
    """Make the files of some networks, or of all."""
    FILES.mkdir(exist_ok=True)
    for name in names or NETWORKS:
        torch.manual_seed(0)
        example = NETWORKS[name]()
        make_distinct(example.network)
        write(FILES / f"{name}.npz", reference(example))
        for export in (by_dynamo, by_torchscript):
            path = FILES / f"{name}.{export.__name__.removeprefix('by_')}.onnx"
            export(example, copy.deepcopy(example.network).eval(), path)
            onnx.save(shortened(onnx.load(path)), path)
            print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main(sys.argv[1:])
