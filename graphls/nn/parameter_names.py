"""Names of a cell's parameters: each has its own, or an error says which two have one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.parameter import BY_PATHS, Parameter
from graphls.nn.cell_tree import CellSettings


def separate_if_complete(initialise: object, cell: Any) -> None:
    """Let no parameters of parts that were filled late share names, behind the `__init__` of a cell's own class."""
    if type(cell).__init__ is initialise and cell.__dict__.get("_auto_prefix") and cell._cells:
        separate(cell)


def separate(cell: CellSettings) -> None:
    """Name the parameters of parts by their paths where one of them has the name of another.

    A cell that becomes an attribute has its parameters named by paths. Those that it gets later, as an empty list of
    cells does, are named within it, "0.weight", as in MindSpore's checkpoints; two lists would then share names.
    """
    named = list(cell.parameters_and_names())
    counts = Counter(parameter.name for _, parameter in named)
    parts = {path.partition(".")[0] for path, p in named if counts[p.name] > 1 and _is_inner(path, p)}
    for path, parameter in named if parts else ():
        if path.partition(".")[0] in parts and _is_inner(path, parameter):
            parameter.name = path


def _is_inner(path: str, parameter: Parameter) -> bool:
    """True for a parameter that is named by the end of its path."""
    return path.endswith(f".{parameter.name}")


def check_distinct(cell: CellSettings, names: Iterable[str] | None = None) -> None:
    """Raise GraphValueError where two parameters of a cell have one name, of some names or of all."""
    among = None if names is None else set(names)
    seen: dict[str, Parameter] = {}
    for parameter in cell.get_parameters():
        name = parameter.name
        if (among is None or name in among) and seen.setdefault(name, parameter) is not parameter:
            first, second = _owner(cell, seen[name]), _owner(cell, parameter)
            both = " and ".join(f"{path!r} ({type(of).__name__} of {of._made_at})" for path, of in (first, second))
            remedy = BY_PATHS if first[0] != second[0] else "set `name` of one of them"
            text = f"The parameters {both} are both called {name!r}, and a checkpoint has one entry for each name"
            raise GraphValueError(f"{text}; {remedy}.")


def _owner(root: CellSettings, parameter: Parameter) -> tuple[str, Any]:
    """The path of a parameter and its cell: that where it is an attribute, or else one that has it in a tuple."""
    owners = [
        (f"{at}.{name}" if at else name, cell, cell._params.get(name) is parameter)
        for at, cell in root.cells_and_names()
        for name, own in cell._own_parameters()
        if own is parameter
    ]
    path, cell, _ = next((owner for owner in owners if owner[2]), owners[0])
    return path, cell
