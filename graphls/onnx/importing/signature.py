"""The signature of the PyTorch program that a model was exported from: its parameters, buffers and constants."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from onnx import GraphProto, ModelProto, TensorProto, ValueInfoProto

from graphls.runtime.lowering.protos import text_of

PARAMETER, BUFFER, CONSTANT = "PARAMETER", "BUFFER", "CONSTANT_TENSOR"
KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
FOLDED = "pkg.onnxscript.optimizer.folded_from"

_KINDS = (PARAMETER, BUFFER, CONSTANT)
_INPUT = re.compile(rf"^[^\n]*: ({'|'.join(_KINDS)}) target='([^'\n]+)'", re.MULTILINE)


@dataclass(frozen=True)
class Signature:
    """The kinds of the constants of a model by name, and that of Constant nodes; empty where nothing is recorded."""

    kinds: Mapping[str, str]
    of_nodes: str = ""

    @classmethod
    def of(cls, model: ModelProto) -> Signature:
        """The signature of a model; PyTorch's exporters write no parameter and no buffer into Constant nodes."""
        is_torch = text_of(model.producer_name) == "pytorch"
        return cls(_kinds(model.graph), CONSTANT if is_torch else "")

    def kind(self, name: str, is_node: bool) -> str:
        """The kind of a constant; empty where nothing is recorded."""
        return self.kinds.get(name, self.of_nodes if is_node else "")


def _kinds(graph: GraphProto) -> dict[str, str]:
    """The kinds by name, written at each tensor and, for all of them, into the signature of the graph.

    A tensor that the exporter's optimizer has folded from others is a parameter where one of those is, then a buffer,
    else a constant.
    """
    signature = {text_of(entry.key): text_of(entry.value) for entry in graph.metadata_props}.get(SIGNATURE, "")
    kinds = {name: kind for kind, name in _INPUT.findall(signature)}
    folded: dict[str, Iterable[str]] = {}
    for holder in (*graph.input, *graph.value_info, *graph.initializer):
        name, metadata = text_of(holder.name), _metadata(holder)
        if metadata.get(KIND) in _KINDS:
            kinds[name] = metadata[KIND]
        elif FOLDED in metadata:
            folded[name] = _names(metadata[FOLDED])
    if not kinds:
        return {}
    for name, sources in folded.items():
        of_sources = {kinds.get(source, CONSTANT) for source in sources}
        kinds[name] = next((kind for kind in _KINDS if kind in of_sources), CONSTANT)
    return kinds


def _metadata(holder: ValueInfoProto | TensorProto) -> dict[str, str]:
    return {text_of(entry.key): text_of(entry.value) for entry in holder.metadata_props}


def _names(text: str) -> Iterable[str]:
    """The names in the text of a list of them; empty where it is none."""
    try:
        names = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ()
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else ()
