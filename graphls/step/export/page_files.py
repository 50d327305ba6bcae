"""The web page of a bundle: its files, ONNX Runtime for browsers, and the training images."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from graphls.base.errors import GraphFileError, GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.base.files.files import write_bytes
from graphls.base.text.colours import theme
from graphls.interop.formats.safetensors import encode
from graphls.ir.types import float32, int32
from graphls.step.export.manifest import loop_source

if TYPE_CHECKING:
    from graphls.ir.graph import Graph

PACKAGE = "onnxruntime-web@1.30.0"
RUNTIME = (
    "ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm", "ort.webgpu.min.mjs",
    "ort-wasm-simd-threaded.asyncify.mjs", "ort-wasm-simd-threaded.asyncify.wasm",
)  # fmt: skip
"""What a page takes of the package: one pair for WebAssembly, one for WebGPU, of which a browser loads its own."""
PAGE = ("index.html", "page.mjs", "curves.mjs", "pad.mjs", "store.mjs")
DATA = ("images", "labels", "test_images", "test_labels")
LONGEST = 600
"""Seconds after which npm is given up."""


def check_data(step: Any, data: object) -> None:
    """Raise GraphTypeError or GraphValueError unless a page can train this step with these arrays.

    The step takes images, float32 [rows, channels, height, width] with equal sides, and labels, int32 [rows];
    `data` has `images`, `labels`, `test_images` and `test_labels` of any number of rows.
    """
    graph: Graph = step.graph
    kinds = [value.type for value in graph.inputs]
    is_fit = len(kinds) == 2 and kinds[0].rank == 4 and (kinds[0].dtype, kinds[1].dtype) == (float32, int32)
    if not is_fit or kinds[0].shape[2] != kinds[0].shape[3] or kinds[1].shape != kinds[0].shape[:1]:
        types = ", ".join(map(str, kinds))
        raise GraphValueError(f"A page trains steps of images f32[rows,channels,side,side] and labels, not of {types}.")
    if not isinstance(data, dict) or set(data) != set(DATA):
        raise GraphTypeError(f"A page needs data: let the function return the step and a dict of {', '.join(DATA)}.")
    for part in ("", "test_"):
        images, labels = np.shape(data[f"{part}images"]), np.shape(data[f"{part}labels"])
        if images[1:] != kinds[0].shape[1:] or labels != images[:1]:
            raise GraphValueError(f"{part}images of shape {images} and {part}labels of shape {labels} do not fit.")


def write_page(folder: Path, data: Any, runtime: str | None) -> None:
    """Make a page of a bundle that lies in a folder; `runtime` is the folder of onnxruntime-web, else npm brings it.

    Raises GraphRuntimeError where npm is needed and fails, GraphFileError for files that cannot be read or written.
    """
    kinds = {"images": np.float32, "labels": np.int32}
    arrays = {name: np.ascontiguousarray(data[name], kinds[name.removeprefix("test_")]) for name in DATA}
    write_bytes(folder / "data.safetensors", encode(arrays))
    source = resources.files("graphls.step.export") / "page"
    write_bytes(folder / "step.mjs", loop_source("javascript"))
    for name in PAGE:
        write_bytes(folder / name, (source / name).read_bytes())
    write_bytes(folder / "page.css", theme().encode() + (source / "page.css").read_bytes())
    if runtime is not None:
        _copy(Path(runtime), folder / "ort")
    else:
        with TemporaryDirectory() as temporary:
            _copy(_downloaded(Path(temporary)), folder / "ort")


def _copy(package: Path, folder: Path) -> None:
    place = package / "dist" if (package / "dist").is_dir() else package
    for name in RUNTIME:
        try:
            write_bytes(folder / name, (place / name).read_bytes())
        except FileNotFoundError:
            raise GraphFileError(f"{package} is not a folder of onnxruntime-web: it has no {name}.") from None


def _downloaded(folder: Path) -> Path:
    """The package, as npm packs it."""
    npm = shutil.which("npm")
    if npm is None:
        way = "install Node.js, or name a folder of it with --runtime"
        raise GraphRuntimeError(f"npm, which brings {PACKAGE} for the page, is not installed; {way}.")
    command = [npm, "pack", PACKAGE, "--silent"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=LONGEST)
    except subprocess.TimeoutExpired:
        raise GraphRuntimeError(f"npm did not bring {PACKAGE} within {LONGEST} s.") from None
    if done.returncode:
        raise GraphRuntimeError(f"npm did not bring {PACKAGE}: {' '.join(done.stderr.split())[:300]}")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        for name in RUNTIME:
            member = archive.extractfile(f"package/dist/{name}")
            assert member is not None
            (folder / name).write_bytes(member.read())
    return folder
