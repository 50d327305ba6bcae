"""Who imports whom: the arrows between the packages, and what `import graphls` leaves out."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx

import graphls
from graphls.base.aliases import ALIASES, real_name
from tests.sources import parsed

ROOT = Path(__file__).parent.parent
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "graphls").rglob("*.py"))
    if "loops" not in path.parts  # programs that bundles carry along, and that import no graphls
}
ALLOWED: dict[str, str] = {
    "base": "",
    "ir": "base",
    "distributed": "base ir",
    "primitives": "base distributed ir",
    "passes": "base distributed ir primitives",
    "frontend": "base ir primitives",
    "runtime": "base distributed ir passes primitives",
    "ops": "base distributed frontend ir primitives",
    "nn": "base distributed frontend ir ops passes primitives runtime",
    "inspect": "base distributed frontend ir passes primitives runtime",
    "interop": "base frontend ir nn passes",
    "step": "base distributed frontend inspect interop ir nn passes runtime",
    "graphls": "base frontend inspect ir nn ops passes runtime step",
    "dataset": "base distributed frontend ir",
    "train": "base dataset distributed frontend interop ir nn runtime step",
    "onnx": "base frontend interop ir nn ops passes primitives runtime step",
    "compat": "base dataset distributed frontend inspect ir nn ops runtime step train",
    "cli": "base compat dataset distributed frontend inspect interop ir nn onnx ops passes primitives "
    "runtime step train",
    "__main__": "cli",
}
"""What each package imports, also in functions and for types: only what is below it, so that imports form a line."""
EXCEPTIONS: set[tuple[str, str]] = set()
"""Imports against the line that are left, module by module: these may only become fewer."""
LATE = {
    "onnx": "a runtime, which takes longer to load than all of graphls",
    "onnxruntime": "a runtime",
    "IPython": "only for notebooks that run as programs, and so is traitlets",
    "traitlets": "of IPython",
    "networkx": "only for what goes wrong, and for large pages",
    "ml_dtypes": "only for bfloat16",
    "html": "a name that a file in the working directory often has, where `python -m` looks first",
    "importlib.metadata": "only where a name is not known",
    "difflib": "only for advice in errors",
    "mpi4py": "only in processes that mpiexec has started, and optional",
    "graphls.dataset.readers.arrow": "pipelines, for tables of other packages only",
    "jax": "optional, and takes longer to load than all of graphls",
    "jaxlib": "optional, as it belongs to jax",
    "rich": "optional",
    "safetensors": "optional",
    "tensorboardX": "optional",
    "graphls.compat.hook.script": "all of the compat layer, for one command of several",
}
"""What is imported in functions, and why."""
PUBLIC = (
    "graphls.adapters", "graphls.amp", "graphls.api", "graphls.communication", "graphls.compat",
    "graphls.compat.pytest", "graphls.context", "graphls.dataset", "graphls.diagnosis", "graphls.initializer",
    "graphls.interop.torch", "graphls.ir", "graphls.ir.errors", "graphls.log", "graphls.nn", "graphls.onnx",
    "graphls.ops", "graphls.passes",
    "graphls.passes.windows", "graphls.primitives", "graphls.profile", "graphls.quantization", "graphls.tensors",
    "graphls.testing", "graphls.train", "graphls.train.inference", "graphls.viz",
)  # fmt: skip
"""Modules that users import by these names."""
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
PICTURE = PAGE.partition("## Layers of packages")[2]
ARROWS = re.findall(r"^    (\w+) --> (\w+)$", PAGE, re.MULTILINE)
RUNTIMES = ("onnx", "onnxruntime")
OF_ONNX = (
    "graphls.runtime", "graphls.step.export.inference_model", "graphls.step.export.predict",
    "graphls.step.export.step_model", "graphls.step.export.write", "graphls.cli.training", "graphls.onnx.importing",
    "graphls.onnx", "graphls.inspect.testing.laws", "graphls.inspect.testing.samples",
)  # fmt: skip
"""Packages that import them."""
OF_XLA = tuple(name for name in MODULES if name.startswith("graphls.runtime.xla."))
"""The modules that may import JAX: rules of primitives have it as a parameter."""


def imports(tree: ast.AST, everywhere: bool) -> Iterator[str]:
    """The modules that are imported: everywhere, or only where importing the file does it."""
    waiting = deque(ast.iter_child_nodes(tree))
    while waiting:
        node = waiting.popleft()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif not isinstance(node, ast.expr) and (everywhere or not (is_function(node) or is_for_types(node))):
            waiting.extend(ast.iter_child_nodes(node))


def is_function(node: ast.AST) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def tree(module: str) -> ast.Module:
    return parsed(MODULES[module])


@cache
def imported_by(module: str) -> dict[bool, tuple[str, ...]]:
    """The imports everywhere and at once; trees themselves are not kept, which garbage collection would visit."""
    parsed_once = tree(module)
    return {everywhere: tuple(imports(parsed_once, everywhere)) for everywhere in (True, False)}


def imported(module: str, everywhere: bool) -> tuple[str, ...]:
    return imported_by(module)[everywhere]


def loaded(module: str, seen: set[str]) -> set[str]:
    """All modules that importing this one imports, ours followed."""
    if module in seen:
        return seen
    seen.add(module)
    for name in loaded_at_once(module):
        loaded(name, seen)
    return seen


def loaded_at_once(module: str) -> Iterator[str]:
    """The modules that one of ours names, and the package that it lies in."""
    if module in MODULES:
        for name in imported(module, everywhere=False):
            yield name if name in MODULES else name.rpartition(".")[0] or name
        yield module.rpartition(".")[0]


def package(module: str) -> str:
    """The room of a module: the part behind `graphls`, or `graphls` itself for a name of it."""
    part = ".".join(module.split(".")[:2])
    return part.removeprefix("graphls.") if part in MODULES else "graphls"


def against_the_line(module: str) -> set[tuple[str, str]]:
    """The imports of a module that its package is not allowed, with what imports them."""
    found = {
        name if name in MODULES else name.rpartition(".")[0] or name
        for name in imported(module, everywhere=True)
        if within(name, ("graphls",))
    }
    here = package(module)
    allowed = (here, *ALLOWED[here].split())
    rooms = tuple(map(_full, allowed) if here != "graphls" else map(_full, allowed[1:]))
    return {(module, name) for name in found if not within(name, rooms)}


def test_at_most_seventeen_rooms_of_at_most_forty_files() -> None:
    assert len({name.split(".")[1] for name in MODULES if "." in name} - {"__main__"}) <= 17
    folders = Counter(path.parent for path in MODULES.values())
    assert {str(folder.relative_to(ROOT)): count for folder, count in folders.items() if count > 40} == {}


def test_the_arrows_between_packages() -> None:
    strange = set().union(*map(against_the_line, MODULES))
    told = "import only what ALLOWED says, or, where it stands below, add its package there"
    assert strange - EXCEPTIONS == set(), told
    assert EXCEPTIONS - strange == set(), "take from EXCEPTIONS what is left no more"


def test_runtimes_are_imported_where_they_may_be() -> None:
    everything = {(module, name) for module in MODULES for name in imported(module, everywhere=True)}
    without = ("ir", "primitives", "passes")
    assert [pair for pair in everything if package(pair[0]) in without and within(pair[1], RUNTIMES)] == []
    assert [pair for pair in everything if within(pair[1], ("torch", "onnxruntime.training"))] == []
    assert {pair[0] for pair in everything if within(pair[1], ("jax", "jaxlib"))} <= set(OF_XLA)


def test_imports_form_a_line() -> None:
    order = list(ALLOWED)
    assert set(order) == set(map(package, MODULES))
    for name, allowed in ALLOWED.items():
        above = order[order.index(name) :]
        assert [other for other in allowed.split() if other.partition(".")[0] in above] == []


def test_nothing_is_allowed_that_no_module_needs() -> None:
    used: dict[str, set[str]] = {name: set() for name in ALLOWED}
    for module in MODULES:
        used[package(module)] |= {name for name in imported(module, everywhere=True) if within(name, ("graphls",))}
    for name, allowed in ALLOWED.items():
        unused = [other for other in allowed.split() if not any(within(n, (_full(other),)) for n in used[name])]
        assert unused == [], f"take {unused} from what {name} is allowed"


def _full(name: str) -> str:
    return name if name == "graphls" else f"graphls.{name}"


def test_no_modules_import_each_other() -> None:
    """Also not in functions, and not for types."""
    arrows = networkx.DiGraph()
    for module in MODULES:
        for name in imported(module, everywhere=True):
            target = name if name in MODULES else name.rpartition(".")[0]
            if target in MODULES and target != module:
                arrows.add_edge(module, target)
    assert [sorted(circle) for circle in networkx.strongly_connected_components(arrows) if len(circle) > 1] == []


def in_functions(module: str) -> Iterator[str]:
    """The imports in the functions of a module."""
    for node in ast.walk(tree(module)):
        if is_function(node):
            yield from imports(node, everywhere=True)


@cache
def loading_a_runtime() -> frozenset[str]:
    """The modules that importing leads, at once or on its way, to a runtime, and the runtimes."""
    arrows = networkx.DiGraph((name, other) for name in MODULES for other in loaded_at_once(name))
    runtimes = {name for name in arrows if within(name, RUNTIMES)}
    return frozenset(runtimes.union(*(networkx.ancestors(arrows, name) for name in runtimes)))


@cache
def eagerly_loaded() -> frozenset[str]:
    """What `import graphls` imports."""
    return frozenset(loaded("graphls", set()))


def takes_time(module: str, name: str) -> bool:
    """Whether importing it loads a runtime, or what `import graphls` leaves alone so that it stays quick."""
    target = name if name in MODULES else name.rpartition(".")[0]
    eager = eagerly_loaded()
    return target in loading_a_runtime() or (module in eager and target not in eager)


def test_imports_in_functions_are_of_what_takes_time() -> None:
    """Of all but the trial of a session, a program of its own that imports from a path that it is given."""
    modules = MODULES.keys() - {"graphls.runtime.onnxruntime.trial"}
    names = [(module, name) for module in modules for name in in_functions(module) if not within(name, tuple(LATE))]
    assert [pair for pair in names if not (within(pair[1], ("graphls",)) and takes_time(*pair))] == []


def test_modules_that_users_name_are_where_they_were() -> None:
    assert set(map(real_name, PUBLIC)) <= MODULES.keys()
    assert [name for name in PUBLIC if importlib.import_module(name).__name__ != real_name(name)] == []
    assert set(ALIASES) < set(PUBLIC)
    assert graphls.random.random_state().shape == (2,)


def test_the_picture_has_every_package_above_what_it_imports() -> None:
    lines = [line for line in PICTURE.partition("\n## ")[0].splitlines() if line.startswith("    ")]
    rows = [line.strip().partition("  ")[0].split() for line in reversed(lines)]
    height = {name: number for number, row in enumerate(rows) for name in row}
    assert set(height) == set(ALLOWED)
    for name, allowed in ALLOWED.items():
        assert [n for n in allowed.split() if height[n.partition(".")[0]] >= height[name]] == []


def test_the_drawing_shows_what_packages_import() -> None:
    drawn = set(re.findall(r'^    (\w+)\["', PAGE, re.MULTILINE))
    assert drawn == {name for arrow in ARROWS for name in arrow} <= set(ALLOWED)
    for name in drawn:
        needed = {package.partition(".")[0] for package in ALLOWED[name].split()} & drawn
        assert {end for start, end in ARROWS if start == name} <= needed <= reached(name)


def test_the_map_of_the_readme_has_every_package() -> None:
    here = (ROOT / "README.md").read_text(encoding="utf-8").partition("## A map of the code")[2]
    rooms = set(re.findall(r"(\w+)(?:/|\.py)[ \n]", here.partition("\n## ")[0]))
    assert rooms - {"graphls", "tools"} == set(ALLOWED) - {"graphls", "__main__"}


def reached(package: str) -> set[str]:
    """The packages that arrows lead to, at once or on their way."""
    ends = {end for start, end in ARROWS if start == package}
    return ends.union(*map(reached, ends))


def test_no_other_package_imports_a_runtime_when_it_is_imported() -> None:
    others = [name for name in MODULES if not within(name, OF_ONNX)]
    assert loading_a_runtime().intersection(others) == set()


def test_showing_a_cell_registers_no_passes_of_the_diagnosis() -> None:
    found = loaded("graphls.nn.cell_tree", set())
    assert {name for name in found if within(name, ("graphls.inspect.diagnosis",))} == set()


def test_importing_graphls_leaves_the_runtimes_alone() -> None:
    code = "import graphls, sys; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=600)
    unwanted = {"torch", "jax", "onnx", "onnxruntime", "networkx", "sklearn", "scipy", "rich"}
    assert unwanted.isdisjoint(run.stdout.split())


def test_a_package_has_the_names_that_its_modules_list() -> None:
    here = importlib.import_module("graphls.nn")
    rooms = tuple(name for name in ALIASES.values() if name.startswith("graphls.nn."))  # with names of their own
    modules = (name for name in MODULES if within(name, ("graphls.nn",)) and not within(name, rooms))
    listing = {name for name in modules if lists_names(tree(name))}
    for module in map(importlib.import_module, sorted(listing)):
        assert [name for name in module.__all__ if getattr(here, name) is not getattr(module, name)] == []
    assert {*here.__all__} == {name for module in listing for name in importlib.import_module(module).__all__}


def lists_names(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__" for node in tree.body)
