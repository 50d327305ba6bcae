"""`python -m graphls opt --pattern`: tries patterns of a file on a graph, and says where they match or nearly do."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from graphls.base.errors import GraphValueError
from graphls.base.files.files import read_bytes
from graphls.inspect.testing import check_rewrite
from graphls.ir.graph import Graph, walk
from graphls.ir.parse import parse
from graphls.ir.verify import verify
from graphls.passes import Match, Pattern, Rewrite, rewrite
from graphls.passes.patterns.pattern import node_text
from graphls.passes.patterns.sources import Source

LISTED = 10
"""The number of matches that are listed."""

Say = Callable[[str], None]


def try_patterns(arguments: Sequence[str], graph: Graph, say: Say) -> tuple[Rewrite, ...]:
    """The rewrites of files, after they were tried on a graph; says how many matches each pattern has, and where.

    Each argument is a Python file that defines rewrites, or functions `pattern` and `replacement`; another file with
    two graphs or expressions and a line of dashes between; such a file with a pattern only; or an expression itself.
    """
    rewrites: list[Rewrite] = []
    for each in (each for argument in arguments for each in _patterns(argument)):
        if isinstance(each, Rewrite):
            before = graph
            graph, matches = each.replaced(graph)
            verify(graph)
            _report(each.name, each.pattern, matches, before, say)
            if matches:
                _compare(each, before, say)
            rewrites.append(each)
        else:
            _report(str(each), each, each.find(graph), graph, say)
    return tuple(rewrites)


def _patterns(argument: str) -> Iterator[Rewrite | Pattern]:
    path = Path(argument)
    if path.suffix == ".py":
        yield from _of_module(path)
        return
    is_expression = "(" in argument and not path.exists()
    text = argument if is_expression else read_bytes(path).decode("utf-8")
    before, *after = (_source(part, argument) for part in re.split(r"(?m)^---+\s*$", text))
    yield rewrite(before, after[0], name=_identifier(path.stem)) if after else Pattern(before)


def _source(text: str, file: str) -> Source:
    """A graph in IR text, or an expression; lines of comments before it do not count."""
    bare = re.sub(r"(?m)^\s*//.*$", "", text).strip()
    return verify(parse(text, file=file)) if bare.startswith("graph") else bare


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name) or "rewrite"


def _of_module(path: Path) -> Iterator[Rewrite | Pattern]:
    """The rewrites that a Python file defines, else its patterns, else those of its functions of these names."""
    members = runpy.run_path(str(path), run_name=path.stem)
    for kind in (Rewrite, Pattern):
        several = list(dict.fromkeys(each for each in members.values() if isinstance(each, kind)))
        if several:
            yield from several
            return
    options = {name: members[name] for name in ("types", "when", "shared") if name in members}
    if not callable(members.get("pattern")):
        advice = "define `pattern` and `replacement`, or a pass, fuse = rewrite(pattern, replacement)"
        raise GraphValueError(f"{path} has no pattern; {advice}.")
    pattern = Pattern(members["pattern"], **options)
    yield rewrite(pattern, members["replacement"], name=_identifier(path.stem)) if "replacement" in members else pattern


def _report(name: str, pattern: Pattern, matches: tuple[Match, ...], graph: Graph, say: Say) -> None:
    """Say how many matches there are and where or, without one, what is nearest."""
    say(f"{name}: {len(matches) or 'no'} match{'es' if len(matches) != 1 else ''}")
    for match in matches[:LISTED]:
        say(f"  {node_text(match.nodes[0])}")
    if len(matches) > LISTED:
        say(f"  and {len(matches) - LISTED} more")
    if matches:
        return
    near, missing = pattern.nearest(graph), pattern.missing(graph)
    if near is not None:
        say(f"  nearest: {near}")
    if missing:
        say(f"  no node of the graph is {' or '.join(missing)}; it has {', '.join(_primitives(graph))}")


def _primitives(graph: Graph) -> list[str]:
    return sorted({node.primitive.name for node in walk(graph)})


def _compare(each: Rewrite, graph: Graph, say: Say) -> None:
    """Say whether both sides have the same values for random numbers."""
    try:
        check_rewrite(each, graph)
        say("  both sides agree to 1e-5 on random numbers")
    except AssertionError as error:
        say(f"  WRONG: {str(error).splitlines()[0]}")
