"""The signature of the PyTorch program that a model was exported from: its parameters, buffers and constants."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
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
    """The kinds of the constants of a model by name, and that of Constant nodes; empty where nothing is recorded.

    `absent` are the parameters of the program that no constant has the name of and none was folded from: the exporter
    has tied them to others, merged them with others that have the same numbers, or fused them into these.
    """

    kinds: Mapping[str, str]
    of_nodes: str = ""
    absent: tuple[str, ...] = ()

    @classmethod
    def of(cls, model: ModelProto) -> Signature:
        """The signature of a model; PyTorch's exporters write no parameter and no buffer into Constant nodes."""
        kinds, folded = _recorded(model.graph)
        of_folded = {name: _kind_of_folded(kinds, sources) for name, sources in folded.items()} if kinds else {}
        there = {text_of(tensor.name) for tensor in model.graph.initializer}.union(*folded.values())
        absent = tuple(name for name, kind in kinds.items() if kind == PARAMETER and name not in there)
        is_torch = text_of(model.producer_name) == "pytorch"
        return cls({**kinds, **of_folded}, CONSTANT if is_torch else "", absent)

    def kind(self, name: str, is_node: bool) -> str:
        """The kind of a constant; empty where nothing is recorded."""
        return self.kinds.get(name, self.of_nodes if is_node else "")


def _recorded(graph: GraphProto) -> tuple[dict[str, str], dict[str, Sequence[str]]]:
    """The kinds of tensors by name, and the names of those that a tensor was folded from by the exporter's optimizer.

    The kinds are written at each tensor and, also for those that are no longer there, into the signature of the graph.
    """
    signature = {text_of(entry.key): text_of(entry.value) for entry in graph.metadata_props}.get(SIGNATURE, "")
    kinds = {name: kind for kind, name in _INPUT.findall(signature)}
    folded: dict[str, Sequence[str]] = {}
    for holder in (*graph.input, *graph.value_info, *graph.initializer):
        name, metadata = text_of(holder.name), _metadata(holder)
        if metadata.get(KIND) in _KINDS:
            kinds[name] = metadata[KIND]
        elif FOLDED in metadata:
            folded[name] = _names(metadata[FOLDED])
    return kinds, folded


def _kind_of_folded(kinds: Mapping[str, str], sources: Sequence[str]) -> str:
    """The kind of a tensor that was folded from others: a parameter where one of those is, then a buffer."""
    of_sources = {kinds.get(source, CONSTANT) for source in sources}
    return next((kind for kind in _KINDS if kind in of_sources), CONSTANT)


def _metadata(holder: ValueInfoProto | TensorProto) -> dict[str, str]:
    return {text_of(entry.key): text_of(entry.value) for entry in holder.metadata_props}


def _names(text: str) -> Sequence[str]:
    """The names in the text of a list of them; empty where it is none."""
    try:
        names = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ()
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else ()
