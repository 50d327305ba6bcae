"""The command line: the parser of all commands, and the commands `opt`, `diff`, `doctor` and `exec`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from graphls.base.errors import GraphImportError, GraphlsError, visible
from graphls.base.files.files import write_text
from graphls.base.reporting import was_interrupted
from graphls.cli.doctor import examine
from graphls.cli.dump import add_dump, read_graph
from graphls.cli.export import add_export
from graphls.cli.gradient import add_gradient
from graphls.cli.parser import Parser
from graphls.cli.patterns import try_patterns
from graphls.cli.placement import add_placement
from graphls.cli.simulate import add_simulate
from graphls.cli.train import add_train
from graphls.cli.view import add_view
from graphls.inspect.viz.html import write_page
from graphls.ir.engines import check_engine
from graphls.ir.graph import Graph
from graphls.ir.text import dump
from graphls.ir.verify import verify
from graphls.passes import find_pass, parse_pipeline
from graphls.passes.manager import Pipeline, Stage, pass_names
from graphls.runtime.context import force_device, set_context
from graphls.runtime.context.parallel import drive_or_warn

PATTERN = "try rewrites or a pattern first: a Python file, a file of two graphs or expressions, or 'mul(x, x)'"
EXEC = "Run a program as Python does, with every import of mindspore resolved to graphls; its exit code is the result."


CLOSED_PIPE = 128 + 13
"""The exit code that shells give programs which end because nobody reads their output any more (SIGPIPE)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns 0, 1 after an error (one line on stderr) and 2 for wrong usage.

    `diff` returns as the program of that name does: 0 for graphs that are alike, 1 for others, 2 after an error. A
    command whose reader has left, as in `graphls doctor | head -1`, ends without a word and returns 141.
    """
    try:
        try:
            return _run(arguments)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return CLOSED_PIPE


def _discard_output() -> None:
    """Let what is still in the buffers of the output go nowhere, so that Python can flush them at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _run(arguments: Sequence[str] | None) -> int:
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    count = _program_index(arguments) + 1 if arguments[:1] == ["exec"] else len(arguments)
    options = _parser().parse_args(arguments[:count])
    if options.command is execute:
        options.arguments = arguments[count:]
    try:
        return int(options.command(options))
    except BrokenPipeError:
        raise
    except (GraphlsError, OSError, ImportError) as error:
        if was_interrupted(error):
            raise KeyboardInterrupt from None
        print(f"graphls: {visible(str(error).splitlines()[0])}", file=sys.stderr)
        return 2 if options.command is compare else 1


def _program_index(arguments: Sequence[str]) -> int:
    """The index of the program in `exec [--device cpu] program arguments`; what follows is the program's own."""
    index = 1
    while index < len(arguments) and arguments[index].startswith("-"):
        if arguments[index].startswith("-m"):  # `-m module` or `-mmodule`
            return index + (arguments[index] == "-m")
        index += 2 if arguments[index] in ("--device", "--devices", "--engine") else 1
    return index


def execute(options: argparse.Namespace) -> int:
    """Run a program that imports mindspore."""
    from graphls.compat.hook.script import run_and_report, run_main

    if (options.module is None) == (options.program is None):
        options.refuse("one program is needed: a file, a folder or -m module")
    force_device(options.device)
    drive_or_warn(options.devices)
    if options.engine:
        check_engine(options.engine, "cpu")
        set_context(engine=options.engine)
    run = run_and_report if options.report else run_main
    return run(options.module or options.program, options.arguments, options.module is not None)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of devices, 1 or more")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = Parser(prog="graphls", description="Training steps as one static graph.")
    commands = parser.add_subparsers(required=True, metavar="command")
    opt = commands.add_parser("opt", help="run passes over a graph in IR text", description=optimize.__doc__)
    opt.set_defaults(command=optimize, refuse=opt.error)
    opt.add_argument("file", nargs="?", help="a file of IR text, or - for the standard input")
    opt.add_argument("-p", "--passes", default="", help="a pipeline such as 'gradient, overflow{mode=window}, dce'")
    opt.add_argument("--pattern", action="append", default=[], metavar="FILE", help=PATTERN)
    opt.add_argument("-o", "--output", default="-", help="the file to write, or - for the standard output")
    opt.add_argument("--verify", action="store_true", help="check the graph after every pass")
    opt.add_argument("--print-between-passes", action="store_true", help="print every stage to stderr")
    opt.add_argument("--print-differences", action="store_true", help="print what every pass changed to stderr")
    opt.add_argument("--time-passes", action="store_true", help="print the time of every pass to stderr")
    opt.add_argument("--html", metavar="PAGE", help="write a page with a tab for every stage")
    opt.add_argument("--import", dest="modules", action="append", default=[], help="a module that registers passes")
    opt.add_argument("--list", action="store_true", help="list all passes, including those of plugins")
    add_dump(commands)
    difference = commands.add_parser("diff", help="compare two graphs in IR text", description=compare.__doc__)
    difference.set_defaults(command=compare)
    difference.add_argument("before", help="a file of IR text, or - for the standard input")
    difference.add_argument("after", help="the file to compare it with, or - for the standard input")
    doctor = commands.add_parser("doctor", help="check this installation", description=diagnose.__doc__)
    doctor.set_defaults(command=diagnose)
    doctor.add_argument("--device", choices=["cpu", "cuda"], default="", help="check what a step on this device needs")
    script = commands.add_parser("exec", help="run a program that imports mindspore", description=EXEC)
    script.set_defaults(command=execute, refuse=script.error)
    script.add_argument("--device", choices=["cpu", "cuda"], default="", help="override the script's device")
    script.add_argument("--devices", type=_count, default=1, help="divide training among so many devices, by JAX")
    script.add_argument("--engine", help="the engine of steps, such as onednn, xla or auto; see docs/engines.md")
    script.add_argument("--report", action="store_true", help="report on stderr, at the end, what was replaced")
    script.add_argument("-m", dest="module", metavar="module", help="run a module, as python -m does")
    script.add_argument("program", nargs="?", help="a Python file, a notebook, or a folder with a __main__.py")
    script.add_argument("arguments", nargs="*", help="the arguments of the program, its sys.argv[1:]")
    add_view(commands)
    add_placement(commands)
    add_simulate(commands)
    add_train(commands)
    add_export(commands)
    add_gradient(commands)
    return parser


def _pass_table() -> str:
    """A row for every pass: its name and summary or, for a plugin that does not load, the error."""
    names = pass_names()
    width = max(map(len, names))
    return "\n".join(f"{name:{width}}  {_summary(name)}" for name in names)


def _summary(name: str) -> str:
    try:
        return (find_pass(name).__doc__ or "").partition("\n")[0]
    except GraphImportError as error:
        return str(error)


def optimize(options: argparse.Namespace) -> int:
    """Run a pipeline of passes over a graph and print the resulting graph."""
    _import(options.modules)
    if options.list:
        print(_pass_table())
        return 0
    if options.file is None:
        options.refuse("the following arguments are required: file")
    pipeline = parse_pipeline(options.passes)
    graph = read_graph(options.file)
    rewrites = try_patterns(options.pattern, graph, lambda line: print(line, file=sys.stderr))
    pipeline = Pipeline((*rewrites, *pipeline.passes))
    stages: list[Stage] = []
    for stage in _checked_stages(pipeline, graph, options.verify):
        if options.print_between_passes:
            print(f"// {stage.name}\n{dump(stage.graph)}", file=sys.stderr)
        if options.print_differences and stages:
            print(f"// {stage.name}\n{graph.diff(stage.graph)}\n", file=sys.stderr)
        stages.append(stage)
        graph = stage.graph
    if options.time_passes:
        print(_times(stages), file=sys.stderr)
    if options.html:
        write_page(options.html, {stage.name: stage.graph for stage in stages}, below=Path.cwd())
    _write(options.output, dump(graph))
    return 0


def _checked_stages(pipeline: Pipeline, graph: Graph, is_verified: bool) -> Iterator[Stage]:
    """The stages; where a pass fails on a graph that breaks a rule of the IR, the error names that rule."""
    try:
        yield from pipeline.steps(graph, verify=is_verified)
    except GraphlsError:
        raise
    except Exception:
        verify(graph)
        raise


def _import(modules: Sequence[str]) -> None:
    """Import modules that register passes, or files below the working directory; Python's own modules come first."""
    if modules and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    for module in modules:
        import_module(module.removesuffix(".py").replace(os.sep, "."))


def _write(output: str, text: str) -> None:
    """Write to a file, or to the standard output (-)."""
    if output == "-":
        sys.stdout.write(text)
    else:
        write_text(Path(output), text)


def _times(stages: Sequence[Stage]) -> str:
    """A row for every pass: its time, its share of all of them, and the nodes before and after, regions included."""
    counts = [stage.graph.node_count for stage in stages]
    seconds = sum(stage.seconds for stage in stages)
    rows = [(s.name, s.seconds, counts[i], counts[i + 1]) for i, s in enumerate(stages[1:])]
    rows.append(("total", seconds, counts[0], counts[-1]))
    width = max(len(row[0]) for row in rows)
    lines = [f"{'pass':{width}} {'ms':>10}  share    nodes"]
    for name, time, before, after in rows:
        share = time / seconds if seconds else 0.0
        lines.append(f"{name:{width}} {1000 * time:10.3f}  {share:5.0%}  {before:7} -> {after}")
    return "\n".join(lines)


def compare(options: argparse.Namespace) -> int:
    """Print the differences in structure between two graphs: names, source lines and the order of nodes do not count.

    The exit code is 0 if there are none, 1 if there are some, and 2 after an error.
    """
    difference = read_graph(options.before).diff(read_graph(options.after))
    print(difference)
    return 1 if difference else 0


def diagnose(options: argparse.Namespace) -> int:
    """Print the installed versions, and whether float16 overflows on each provider as it must.

    With --device cuda, list what a step on a GPU needs, with the command that installs each missing part, and run a
    small step.
    """
    return examine(options.device)
