"""The pass manager: a registry of passes, pipelines as text, and the graph after every pass."""

from __future__ import annotations

import ast
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from functools import reduce
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from graphls.base.errors import GraphAttributeError, GraphKeyError, GraphTypeError, GraphValueError, VerifyError
from graphls.base.files.files import write_text
from graphls.base.location import line_of
from graphls.base.plugins import check_name, load_plugin, plugins
from graphls.ir.graph import Graph, Node
from graphls.ir.registry import nearest
from graphls.ir.text import dump
from graphls.ir.verify import type_errors
from graphls.ir.verify import verify as verify_graph

DEFAULT_PASSES = "gradient, join, hoist, overflow, fold, cse, merge, dce, order"
"""The default pipeline of a step; engines and devices may have others."""

DEFAULT = "default"
"""The word for the default pipeline in the text of another one."""


class Pass(Protocol):
    """A frozen dataclass whose fields are the options of the pass.

    Its docstring shows a graph before and after the pass, in IR text.

    Examples:
        >>> from dataclasses import dataclass
        >>> import numpy as np
        >>> import graphls
        >>> from graphls.passes import Pass, register_pass
        >>> @register_pass
        ... @dataclass(frozen=True)
        ... class Count(Pass):
        ...     name = "count"
        ...     least: int = 0
        ...     def run(self, graph):
        ...         print(f"{len(graph.nodes)} nodes, of {self.least} or more")
        ...         return graph
        >>> step = graphls.compile(lambda x: x + 1, np.ones(2, np.float32), passes="count{least=1}, dce")
        2 nodes, of 1 or more
    """

    @property
    def name(self) -> str:
        """The name of the pass in pipelines; a class attribute."""

    def run(self, graph: Graph) -> Graph:
        """The graph after the pass; `graph` itself is not changed."""


PLUGINS = "graphls.passes"
"""The group of entry points by which installed packages bring passes."""

_passes: dict[str, type[Pass]] = {}
PassClass = TypeVar("PassClass", bound="type[Pass] | Pass")


def register_pass(cls: PassClass) -> PassClass:
    """Register a pass for pipelines by its `name`, in place of an earlier one of yours.

    Stands above `@dataclass(frozen=True)`, or takes what `rewrite` returns. Raises GraphTypeError for what is not a
    pass, and GraphValueError for the name of one of graphls.

    Examples:
        >>> from dataclasses import dataclass
        >>> from graphls.passes import find_pass, register_pass
        >>> @register_pass
        ... @dataclass(frozen=True)
        ... class KeepAll:
        ...     name = "keep_all"
        ...
        ...     def run(self, graph):
        ...         return graph
        >>> find_pass("keep_all")
        <class '__main__.KeepAll'>
    """
    kind: type[Pass] = cls if isinstance(cls, type) else type(cls)
    name = getattr(kind, "name", None)
    if not isinstance(name, str) or not re.fullmatch(r"\w+", name):
        text = f"The pass {kind.__name__} needs a class attribute `name` of letters, digits and '_'"
        raise GraphTypeError(f"{text}{_similar('name', kind)}.")
    if not is_dataclass(kind) or not callable(getattr(kind, "run", None)):
        text = f"The pass {kind.__name__} must be a dataclass with a method run(graph)"
        raise GraphTypeError(f"{text}{_similar('run', kind)}.")
    check_name("pass", name, _passes.get(name), kind)
    _passes[name] = kind
    return cls


def _similar(name: str, cls: type) -> str:
    """A hint to a member of a class that has nearly the name of one that it lacks."""
    near = get_close_matches(name, [other for other in vars(cls) if not other.startswith("_")], 1)
    return f"; did you mean {name!r} by {near[0]!r}" if near and near[0] != name else ""


def find_pass(name: str) -> type[Pass]:
    """The pass of that name, loaded from a plugin where none is registered.

    Raises GraphKeyError that lists the known ones, and GraphImportError for a plugin that fails.

    Examples:
        >>> from graphls.passes import find_pass
        >>> find_pass("dce")().name
        'dce'
    """
    if name not in _passes:
        load_plugin(PLUGINS, name, _passes)
    if name not in _passes:
        known = pass_names()
        others = "yours is known once its module is imported, as `python -m graphls opt --import` does"
        near = nearest(name, [*known, DEFAULT])
        raise GraphKeyError(f"There is no pass {name!r}{near}; there are {', '.join(known)}; {others}.")
    return _passes[name]


def pass_names() -> list[str]:
    """The names of all passes, in order, with those of plugins that are not loaded."""
    return sorted({*_passes, *plugins(PLUGINS)})


class Stage(NamedTuple):
    """A graph on its way through a pipeline: its name ("01_fold") and the seconds that its pass took."""

    name: str
    graph: Graph
    seconds: float


@dataclass(frozen=True)
class PipelineResult:
    """The result of a run: the final graph, the stages by name, and the seconds that each pass took.

    `folder` is where the stages were written, if they were.

    Examples:
        >>> from graphls.ir import parse
        >>> from graphls.passes import parse_pipeline
        >>> graph = parse('''
        ... graph @main(%x: f32[2]) {
        ...   %unused = exp(%x) : f32[2]
        ...   %y = log(%x) : f32[2]
        ...   return %y
        ... }
        ... ''')
        >>> result = parse_pipeline("dce").run(graph)
        >>> [node.primitive.name for node in result.graph.nodes], list(result.seconds)
        (['log'], ['00_input', '01_dce'])
    """

    graph: Graph
    stages: dict[str, Graph] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    folder: Path | None = None

    def with_stage(self, name: str, graph: Graph) -> PipelineResult:
        """The result with one more stage after the final graph; it is written where the others are."""
        name = f"{len(self.stages):02d}_{name}"
        if self.folder:
            write_text(self.folder / f"{name}.ir", dump(graph))
        return replace(self, stages={**self.stages, name: graph})


@dataclass(frozen=True)
class Pipeline:
    """Passes that run one after the other; `str` gives the text that `parse_pipeline` reads.

    Examples:
        >>> from graphls.passes import parse_pipeline
        >>> pipeline = parse_pipeline("gradient, fold, dce")
        >>> str(pipeline), len(pipeline.passes)
        ('gradient, fold, dce', 3)
    """

    passes: tuple[Pass, ...]

    def run(self, graph: Graph, *, verify: bool = True, keep: bool = True, source: str = "input") -> PipelineResult:
        """Run every pass, verify the graph after each and keep the stages.

        Stages are named "00_input" (or another `source`), "01_gradient" and so on. After `dump_to(directory)`, or
        where the environment has GRAPHLS_DUMP=directory, each one is written to directory/<graph>/<stage>.ir, of
        later graphs of that name to <graph>_2 and so on. Raises VerifyError, which names the pass, for a graph that
        breaks a rule; errors of a pass are passed on.
        """
        stages, seconds, folder = {}, {}, _dump_folder(graph)
        for stage in self._steps(graph, verify, source, folder):
            graph = stage.graph
            seconds[stage.name] = stage.seconds
            if keep:
                stages[stage.name] = graph
        return PipelineResult(graph, stages, seconds, folder)

    def steps(self, graph: Graph, *, verify: bool = True, source: str = "input") -> Iterator[Stage]:
        """The stages one by one, as they are computed; the first is the graph before all passes."""
        return self._steps(graph, verify, source, _dump_folder(graph))

    def _steps(self, graph: Graph, verify: bool, source: str, folder: Path | None) -> Iterator[Stage]:
        stage, maker = Stage(f"00_{source}", graph, 0.0), "The input graph of the pipeline"
        typed: set[Node] = set()  # stages share most nodes, and the types of one are inferred once
        verified: Graph | None = None
        for number in range(len(self.passes) + 1):
            if number:
                each = self.passes[number - 1]
                stage = _timed(f"{number:02d}_{each.name}", each, stage.graph)
                maker = f"The graph after the pass {each.name!r}"
            if folder:
                write_text(folder / f"{stage.name}.ir", dump(stage.graph))
            if verify and stage.graph is not verified:
                _verify(stage.graph, maker, typed)
                verified = stage.graph
            yield stage

    def with_pass(self, added: Pass, before: str) -> Pipeline:
        """The pipeline with a pass inserted before the first one of a name."""
        at = [each.name for each in self.passes].index(before)
        return Pipeline((*self.passes[:at], added, *self.passes[at:]))

    def __str__(self) -> str:
        return ", ".join(map(pass_text, self.passes))


def _timed(name: str, each: Pass, graph: Graph) -> Stage:
    start = time.perf_counter()
    try:
        result = each.run(graph)
    except FrozenInstanceError as error:
        text = f"The pass {each.name!r} changes a graph or a node in place ({error}), but these are immutable"
        advice = "make new ones with graph.replace(...) and dataclasses.replace(node, ...)."
        raise GraphAttributeError(f"{text}; {advice}", line_of(error)) from error
    if not isinstance(result, Graph):
        raise GraphTypeError(f"The pass {each.name!r} returned {type(result).__name__} and must return a Graph.")
    if not getattr(each, "proves_writes", False):
        result = _with_proven_marks(graph, result)
    return Stage(name, graph if _is_same(graph, result) else result, time.perf_counter() - start)


def _is_same(graph: Graph, result: Graph) -> bool:
    """Whether a pass has changed nothing, as is common, so that the graph needs no second verification."""
    first, second = ((g.name, g.inputs, g.states, g.nodes, g.writes, g.outputs, g.mesh) for g in (graph, result))
    return first == second


def _with_proven_marks(before: Graph, after: Graph) -> Graph:
    """The graph without `in place` marks that a pass has copied though it changed the nodes that proved them."""
    marked = {write.state for write in before.writes if write.in_place}
    if not marked or before.nodes == after.nodes:
        return after
    writes = (replace(w, in_place=w.in_place and w.state not in marked) for w in after.writes)
    return after.replace(writes=tuple(writes))


def _verify(graph: Graph, maker: str, typed: set[Node]) -> None:
    try:
        verify_graph(graph, typed)
    except VerifyError as error:
        is_taken = "is used twice" in str(error).partition("\n")[0]
        advice = "; Builder(Names.of(graph)) takes names that are free" if is_taken else ""
        named = VerifyError(f"{maker} does not verify{advice}. {error}")
        named.location = error.location
        raise named from None
    except (AttributeError, TypeError):
        fault = next(type_errors(graph), None)
        if fault is None:
            raise
        raise GraphTypeError(f"{maker} is malformed: {fault}.") from None


_directory: str | None = None
_numbers: dict[str, Iterator[int]] = {}
"""The counter of dumped runs of each folder; two threads never share a number, as `next` is a call into C."""


def dump_to(directory: str | None) -> None:
    """Write the stages of every run to a folder in a directory; with None the environment decides."""
    global _directory
    _directory = directory


def _dump_folder(graph: Graph) -> Path | None:
    directory = _directory or os.environ.get("GRAPHLS_DUMP")
    if not directory:
        return None
    folder = Path(directory).absolute() / re.sub(r"[^\w.-]", "_", graph.name)
    number = next(_numbers.setdefault(str(folder), count(1)))
    return folder if number == 1 else folder.with_name(f"{folder.name}_{number}")


_CONSTANTS = {"true": True, "false": False, "none": None}
_ITEM = re.compile(r"\s*(?P<name>\w+)\s*(?:\{(?P<options>[^{}]*)\})?\s*(?:,|$)")
_QUOTED = r"""\"[^"]*"|'[^']*'"""
_LIST = reduce(lambda inner, _: rf"[\[(](?:{_QUOTED}|[^\[\]()'\"]|{inner})*[\])]", range(4), "(?!)")
"""A list as Python writes it, with lists in it four deep."""

_OPTION = re.compile(rf"\s*(?P<key>\w+)\s*=\s*(?P<value>{_QUOTED}|{_LIST}|(?![\[(])[^,\s]+)\s*(?:,|$)")


def parse_pipeline(text: str) -> Pipeline:
    """The pipeline that a text such as `gradient, overflow{mode=window}, fold, dce` names.

    The word `default` stands for the default passes. Options are numbers, words, and lists of them, which may be
    nested: `shardings{inputs=[[data, none], []]}`.

    Raises GraphKeyError for a pass that is not known, GraphValueError for options it does not have and
    for other text.

    Examples:
        >>> from graphls.passes import parse_pipeline
        >>> str(parse_pipeline("gradient, overflow{mode=window}, dce"))
        'gradient, overflow{mode=window}, dce'
    """
    items = _items(_ITEM, text, "pipeline")
    named = ([m] if m["name"] != DEFAULT or m["options"] else _items(_ITEM, DEFAULT_PASSES, "pipeline") for m in items)
    return Pipeline(tuple(_configured(m["name"], m["options"] or "") for m in chain.from_iterable(named)))


def as_pipeline(passes: Pass | Pipeline | Sequence[Pass | str] | str) -> Pipeline:
    """The pipeline of a text, a pass or several of both; raises GraphTypeError for anything else.

    Examples:
        >>> from graphls.passes import as_pipeline, find_pass
        >>> str(as_pipeline([find_pass("fold")(), "cse, dce"]))
        'fold, cse, dce'
    """
    if isinstance(passes, Pipeline):
        return passes
    if isinstance(passes, str):
        return parse_pipeline(passes)
    several = passes if isinstance(passes, (list, tuple)) else (passes,)
    nested = [parse_pipeline(item).passes if isinstance(item, str) else (item,) for item in several]
    items = tuple(chain.from_iterable(nested))
    for item in items:
        if isinstance(item, type):
            raise GraphTypeError(f"{item.__name__} is a class of passes; give a pass of it, {item.__name__}().")
        if not (isinstance(getattr(item, "name", None), str) and callable(getattr(item, "run", None))):
            message = f"A pipeline is a text, or passes, which have a name and run(graph); {item!r} is neither."
            raise GraphTypeError(message)
    return Pipeline(items)


def _items(pattern: re.Pattern[str], text: str, kind: str) -> list[re.Match[str]]:
    matches, position, text = [], 0, text.strip()
    while position < len(text):
        match = pattern.match(text, position)
        if match is None:
            example = "fold, overflow{mode=window}" if kind == "pipeline" else "mode=window, limit=3"
            raise GraphValueError(f"The {kind} text {text[position:]!r} does not parse; write it like '{example}'.")
        matches.append(match)
        position = match.end()
    return matches


def _configured(name: str, text: str) -> Pass:
    cls = find_pass(name)
    known: dict[str, Field[Any]] = {f.name: f for f in fields(cls) if f.init}  # type: ignore[arg-type]
    options = {}
    for match in _items(_OPTION, text, "option"):
        key, value = match["key"], _value(match["value"])
        if key not in known:
            listed = ", ".join(known) or "none"
            text = f"The pass {name!r} has no option {key!r}{nearest(key, known)}; its options: {listed}"
            raise GraphValueError(f"{text}.")
        options[key] = _fitting(name, known[key], value)
    return cls(**options)


def _value(text: str) -> Any:
    """A number, quoted string or list as Python writes it, true, false, none, or a bare word, also in lists."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    try:
        return _element(ast.parse(text, mode="eval").body)
    except (ValueError, SyntaxError):
        return text


def _element(tree: ast.expr) -> Any:
    """The value of an expression without operators; raises ValueError for another one."""
    if isinstance(tree, (ast.List, ast.Tuple)):
        return tuple(map(_element, tree.elts))
    if isinstance(tree, ast.Name):
        return _CONSTANTS.get(tree.id, tree.id)
    return ast.literal_eval(tree)


def _fitting(name: str, option: Field[Any], value: object) -> Any:
    default = option.default
    if default is MISSING or default is None or type(value) is type(default):
        return value
    if isinstance(default, float) and type(value) is int:
        return float(value)
    kind = type(default).__name__
    raise GraphValueError(f"The option {option.name!r} of the pass {name!r} takes a {kind}, not {value!r}.")


def pass_text(each: Pass) -> str:
    """A pass as pipelines write it, with the options that differ from their defaults."""
    options = [(f.name, getattr(each, f.name), f.default) for f in fields(each) if f.init]  # type: ignore[arg-type]
    written = ", ".join(f"{name}={_option_text(value)}" for name, value, default in options if value != default)
    return f"{each.name}{{{written}}}" if written else each.name


def _option_text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value if re.fullmatch(r"[A-Za-z_]\w*", value) and value not in _CONSTANTS else repr(value)
    return f"[{', '.join(map(_option_text, value))}]" if isinstance(value, tuple) else repr(value)
