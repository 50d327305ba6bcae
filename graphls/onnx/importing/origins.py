"""Phase, scope and source line of an operator, from the metadata that graphls and PyTorch's exporters write."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from onnx import NodeProto

from graphls.base.location import Location, is_own
from graphls.ir.graph import PHASES
from graphls.runtime.lowering.metadata import LOCATION, NAMESPACE, PHASE, SCOPE
from graphls.runtime.lowering.protos import text_of

_LOCATION = re.compile(r"(.+)(?::|(?<=\]), line )(-?\d{1,18})", re.DOTALL | re.ASCII)
_FRAME = re.compile(r'File "([^"\n]+)", line (\d{1,18})', re.ASCII)
_OF_TORCH = re.compile(r"[/\\]site-packages[/\\]torch[/\\]")
_LONGEST = 20_000


@dataclass(frozen=True)
class Origin:
    """Phase, scope and line of a node."""

    phase: str = "forward"
    scope: str = ""
    loc: Location | None = None


def origin_of(node: NodeProto, around: Origin) -> Origin:
    """The origin of an operator by its metadata and name; in a branch or loop without any, that of the operator around.

    Models of graphls say all of it. PyTorch's exporters write the modules into `metadata_props`, with the stack of
    Python, or into the name of the operator, `/layer1/layer1.0/conv/Conv`, as others do too.
    """
    metadata = {text_of(entry.key): text_of(entry.value) for entry in node.metadata_props}
    if PHASE in metadata:
        phase = metadata[PHASE] if metadata[PHASE] in PHASES else "forward"
        return Origin(phase, metadata.get(SCOPE, ""), _location(metadata.get(LOCATION, "")))
    scope = _scope_of_modules(metadata) if metadata else ""
    scope = scope or _joined(text_of(node.name).split("/")[:-1]) or around.scope
    return Origin(around.phase, scope, _last_frame(metadata.get("pkg.torch.onnx.stack_trace", "")) or around.loc)


def function_of_torch(node: NodeProto) -> str:
    """The function of PyTorch that an operator comes from, such as `aten.detach.default`; "" without such metadata."""
    namespace = next((text_of(e.value) for e in node.metadata_props if text_of(e.key) == NAMESPACE), "")
    return namespace.rpartition("/")[2].rpartition(": ")[2]


def _location(text: str) -> Location | None:
    match = _LOCATION.fullmatch(text)
    return Location(match[1], int(match[2])) if match else None


def _last_frame(trace: str) -> Location | None:
    """The innermost line, outside of PyTorch and graphls where there is one."""
    frames = [Location(path, int(line)) for path, line in _FRAME.findall(trace[-_LONGEST:])]
    own = [frame for frame in frames if not _OF_TORCH.search(frame.file) and not is_own(frame.file)]
    return next(reversed(own or frames), None)


def _scope_of_modules(metadata: dict[str, str]) -> str:
    """The dotted path of the innermost module: the last entry but one, since the last is the operator itself."""
    try:
        scopes = ast.literal_eval(metadata.get("pkg.torch.onnx.name_scopes", "")[:_LONGEST])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        scopes = ()
    if isinstance(scopes, list) and len(scopes) > 1:
        return str(scopes[-2])
    parts = metadata.get(NAMESPACE, "").split("/")
    if any(":" in part for part in parts):
        parts = [part.partition(":")[0] for part in parts[:-1]]
    return _joined(parts)


def _joined(parts: list[str]) -> str:
    """The dotted path; an entry that repeats those before it, as `layer1/layer1.0` does, stands for all of them."""
    path = ""
    for part in filter(None, parts):
        path = part if not path or part.startswith(f"{path}.") else f"{path}.{part}"
    return path
