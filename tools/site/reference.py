"""The pages of the reference: the public names on each, and the mkdocstrings directives of each."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from tools.operators.examples import entries as entries_of
from tools.operators.subjects import SUBJECTS
from tools.site import methods

PAGES = Path(__file__).parents[2] / "docs" / "operators"
TYPES = (
    "DType bfloat16 bool_ float4_e2m1fn float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu "
    "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64"
)


@dataclass(frozen=True)
class Part:
    """Public names of one module: all of them, or a selection."""

    module: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Page:
    """One page of the reference."""

    file: str
    title: str
    parts: tuple[Part, ...]

    @property
    def paths(self) -> list[str]:
        """The full names on the page."""
        return [f"{part.module}.{name}" for part in self.parts for name in part.names]


def _page(file: str, title: str, *modules: str) -> Page:
    """A page of complete modules, or of some names of one: `module: name name`."""
    return Page(f"reference/{file}.md", title, tuple(map(_part, modules)))


def _part(text: str) -> Part:
    module, _, names = text.partition(":")
    return Part(module, tuple(names.split()) or listed(module))


def listed(module: str) -> tuple[str, ...]:
    """The public names of a module; without `__all__` those that it defines."""
    of = importlib.import_module(module)
    names = vars(of).get("__all__")
    if names is None:
        defined = {n: item for n, item in vars(of).items() if getattr(item, "__module__", "") == module}
        names = [n for n, item in defined.items() if not n.startswith("_") and not is_value(item)]
    return tuple(sorted(set(names)))


def _same(module: str, of: str) -> str:
    """The public names of one module as those of another, from where people import them."""
    return f"{module}: {' '.join(listed(of))}"


@cache
def pages() -> tuple[Page, ...]:
    """All pages of the reference; functions of `ops` and cells of `nn` are in docs/operators."""
    return (
        _page("compile", "Compile and run", "graphls: compile load_step trace_graph Compiled Cuda Mesh",
              "graphls.step.calling.jit"),
        _page("tensors", "Tensors and parameters",
              f"graphls: Tensor Parameter ParameterTuple tensor from_numpy get_seed set_seed {TYPES}",
              "graphls.tensors.dtypes: dtype_to_nptype dtype_to_pytype pytype_to_dtype"),
        _page("gradients", "Gradients", "graphls: grad value_and_grad GradOperation"),
        _page("context", "Settings", "graphls.context", "graphls.log"),
        _page("initializer", "Initializers", "graphls.initializer"),
        _page("model", "Model, checkpoints and export", "graphls.train: Model save_checkpoint load_checkpoint "
              "load_checkpoint_async load_param_into_net export", "graphls.train.inference"),
        _page("callbacks", "Callbacks", _same("graphls.train", "graphls.train.callbacks")),
        _page("metrics", "Metrics", _same("graphls.train", "graphls.train.metrics")),
        _page("amp", "Mixed precision", "graphls.amp"),
        _page("dataset", "Datasets", "graphls.dataset", "graphls.dataset.pipeline", "graphls.dataset.config"),
        _page("dataset_transforms", "Transforms of rows", "graphls.dataset.transforms"),
        _page("dataset_vision", "Operations on images", "graphls.dataset.vision"),
        _page("dataset_text", "Operations on text", "graphls.dataset.text"),
        _page("mindrecord", "MindRecord files", "graphls.dataset.mindrecord", *(f"graphls.dataset.mindrecord.{module}"
              for module in ("writer: FileWriter", "index", "convert", "schema"))),
        _page("onnx", "ONNX", "graphls.onnx", "graphls.onnx.artifacts", "graphls.onnx.training",
              "graphls.onnx.training.onnxblock"),
        _page("adapters", "Adapters and quantization", "graphls.adapters", "graphls.quantization"),
        _page("seeing", "Summaries, profiles and pictures", "graphls.inspect.summary", "graphls.profile",
              "graphls.viz.svg: to_svg", "graphls.viz.dot: to_dot"),
        _page("interop", "Modules and weights of PyTorch", "graphls: from_torch", "graphls.interop.torch"),
        _page("diagnosis", "Overflow diagnosis", "graphls.diagnosis"),
        _page("ir", "Graphs", "graphls.ir"),
        _page("passes", "Passes", "graphls.passes"),
        _page("primitives", "Primitives", "graphls.primitives", "graphls.tensors"),
        _page("testing", "Tests of passes and primitives", "graphls.testing"),
        _page("ranks", "Ranks", "graphls.communication"),
        _page("compat", "MindSpore scripts", "graphls.compat"),
        _page("errors", "Errors", "graphls.ir.errors"),
        _page("names", "All names of graphls", "graphls"),
    )  # fmt: skip


def operator_paths() -> dict[str, list[str]]:
    """The full names on each page of docs/operators."""
    return {f"operators/{s.file}": s.paths for s in SUBJECTS}


@cache
def examples() -> dict[str, str]:
    """The examples that pages of docs/operators have, by full names."""
    texts = {s: (PAGES / s.file).read_text(encoding="utf-8") for s in SUBJECTS}
    examples_by_path = {path: text for s in SUBJECTS for path, text in entries_of(s.file, s.paths, texts[s]).items()}
    return {entries()[path]: text for path, text in examples_by_path.items()}


@cache
def entries() -> dict[str, str]:
    """Every public name with that under which it is described: of several its own, or the first."""
    several = [*operator_paths().values(), *(page.paths for page in pages())]
    paths = list(dict.fromkeys(path for paths in several for path in paths))
    first: dict[int, str] = {}
    for path in sorted(paths, key=lambda path: not _is_own_name(path)):
        first.setdefault(id(item(path)), path)
    return {path: path if isinstance(item(path), (int, str)) else first[id(item(path))] for path in paths}


def _is_own_name(path: str) -> bool:
    """Returns whether a function of a page of operators has the name of its definition."""
    return path.startswith("graphls.ops.") and path.rpartition(".")[2] == getattr(item(path), "__name__", "")


@cache
def described() -> dict[str, tuple[str, ...]]:
    """The names that are described on each page: on their first page, under the first of their names."""
    by_page: dict[str, tuple[str, ...]] = {}
    seen: set[str] = set()
    for file, paths in [*operator_paths().items(), *((page.file, page.paths) for page in pages())]:
        by_page[file] = tuple(path for path in paths if entries()[path] == path and path not in seen)
        seen.update(paths)
    return by_page


def item(path: str) -> Any:
    """The object of a full name."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def is_value(of: object) -> bool:
    """Returns whether an object is neither a class, a function nor a module, so that it has no docstring of its own."""
    return not (inspect.isclass(of) or inspect.isroutine(of) or isinstance(of, ModuleType))


def text(page: Page) -> str:
    """A page as Markdown: each module with its docstring, then its names."""
    parts = [f"# {page.title}"]
    for part in page.parts:
        parts += [f"## `{part.module}`", _about(part.module)]
        paths = [f"{part.module}.{name}" for name in part.names]
        others = [path for path in paths if path not in described()[page.file]]
        parts += ["Described elsewhere: " + ", ".join(map(_link, others)) + "."] if others else []
        parts += [entry(path) for path in paths if path not in others]
    parts += [methods.listed()] if page.file == "reference/tensors.md" else []
    return "\n\n".join(parts) + "\n"


def _link(path: str) -> str:
    return f"[`{path.rpartition('.')[2]}`][{entries()[path]}]"


def _about(module: str) -> str:
    return inspect.cleandoc(importlib.import_module(module).__doc__ or "")


def entry(path: str) -> str:
    """The mkdocstrings directive for one name; for a module only its docstring is shown."""
    options = "\n    options:\n      members: false" if isinstance(item(path), ModuleType) else ""
    return f"::: {path}{options}"
