"""The list of the methods of tensors, with links to the functions of `graphls.ops` that most of them are."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from graphls import ops
from graphls.ops.record import OPERATIONS


def listed() -> str:
    """The list as Markdown."""
    functions = {id(getattr(ops, name)): name for name in reversed(ops.__all__)}
    shared, own = [], []
    for record in OPERATIONS:
        function = functions.get(id(record.function))
        for name in record.methods:
            if function is None:
                own.append(f"| `{name}` | {_sentence(record.function)} |")
            else:
                shared.append(f"[`{name}`][graphls.ops.{name if name in ops.__all__ else function}]")
    in_place = sorted(f"`{name}`" for record in OPERATIONS for name in record.in_place)
    return "\n\n".join(_parts(sorted(shared), sorted(own), in_place))


def _parts(shared: list[str], own: list[str], in_place: list[str]) -> Iterator[str]:
    yield "## Methods of tensors"
    yield f"These call the function of `graphls.ops` with the tensor as its first argument: {', '.join(shared)}."
    yield f"These assign the result of the method without the last `_` to their tensor: {', '.join(in_place)}."
    yield "\n".join(["These are methods only:\n", "| method | description |\n|---|---|", *own])


def _sentence(function: object) -> str:
    text = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
    return text.replace("|", "\\|")
