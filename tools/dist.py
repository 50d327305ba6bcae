"""Build the wheel and the source distribution in out/dist, check both, and run the demo outside of the checkout.

`make dist` runs it. The wheel is installed into an empty environment, and what is run there is the command and the
examples of the source distribution; an error names what lacks or does not belong there.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path

from tools.description import described

ROOT = Path(__file__).parents[1]
OUT = ROOT / "out" / "dist"
REQUIRED = {
    "graphls/py.typed",
    "graphls/ops/__init__.pyi",
    "graphls/nn/functions.pyi",
    "graphls/frontend/tensors/methods.pyi",
    "graphls/step/export/loops/step.py",
    "graphls/step/export/loops/step.mjs",
    "graphls/step/export/page/index.html",
    "graphls/inspect/viz/page/page.html",
    "graphls/inspect/viz/page/page.css",
    "graphls/inspect/viz/page/main.js",
    "graphls/runtime/lowering/kernel_tables.json",
    "graphls/runtime/onnxruntime/tried_neighbours.txt",
    "graphls/compat/hook/mindspore_names.txt",
    "graphls/runtime/context/mindspore_settings.json",
}
"""Files that are not modules and must be in the wheel."""
KINDS = {".css", ".html", ".js", ".json", ".mjs", ".py", ".pyi", ".txt", ".typed"}
"""Allowed kinds of files in the wheel."""
LARGEST = 8 * 2**20


def main() -> None:
    """Do all of it; raises SystemExit with one sentence."""
    shutil.rmtree(OUT, ignore_errors=True)
    run("-m", "build", "--no-isolation", "--outdir", str(OUT), str(ROOT))
    (wheel,), (source,) = OUT.glob("*.whl"), OUT.glob("*.tar.gz")
    run("-m", "twine", "check", "--strict", str(wheel), str(source))
    look_into(wheel, source)
    with tarfile.open(source) as archive:
        archive.extractall(OUT, filter="data")
    demo(wheel, OUT / source.name.removesuffix(".tar.gz"))
    print(f"{wheel.name} and {source.name} in {OUT.relative_to(ROOT)} are good")


def run(*arguments: str, python: str = sys.executable, folder: Path = ROOT) -> None:
    """Run Python with arguments in a folder; its output is shown if it fails."""
    done = subprocess.run([python, *arguments], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\n`python {' '.join(arguments)}` failed.")


def look_into(wheel: Path, source: Path) -> None:
    """Both have what Git has of their folders and nothing else, and a description without links into folders."""
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        (metadata,) = (archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA"))
    with tarfile.open(source) as archive:
        root = source.name.removesuffix(".tar.gz") + "/"
        sources = {member.name.removeprefix(root) for member in archive if member.isfile()} - {"PKG-INFO"}
    require(packed >= REQUIRED, "the wheel lacks", REQUIRED - packed)
    strange = {name for name in packed if Path(name).suffix not in KINDS}
    require(not strange, "the wheel has", strange)
    tracked = known()
    packages = "graphls/", "graphls-stubs/"
    for title, files, all_of in (("wheel", packed, packages), ("source distribution", sources, FOLDERS)):
        expected = {name for name in tracked if name.startswith(all_of)}
        require(expected <= files, f"the {title} lacks", expected - files)
        require(files <= tracked, f"the {title} has", files - tracked)
    require(wheel.stat().st_size + source.stat().st_size < LARGEST, "it is too much", {wheel.name, source.name})
    for text in (metadata, described((ROOT / "README.md").read_text(encoding="utf-8"), "https://host/name", "v1")):
        inside = {link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link}
        require(not inside, "the description leads to", inside)


FOLDERS = ("benchmarks/", "docs/", "examples/", "graphls/", "graphls-stubs/", "tests/", "tools/")


def known() -> set[str]:
    """The files that Git knows, of which those that a source distribution is unpacked from are all there."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in done.stdout.split("\0") if name and (ROOT / name).exists()}


def require(is_so: bool, what: str, files: Iterable[str]) -> None:
    """End with a sentence where something is not so."""
    if not is_so:
        sys.exit(f"This must not be: {what} {', '.join(sorted(files)[:20])}.")


def demo(wheel: Path, source: Path) -> None:
    """Run the demo and the command, with nothing but the wheel and its requirements installed."""
    venv.create(OUT / "environment", with_pip=True)
    python = str(OUT / "environment" / ("Scripts" if sys.platform == "win32" else "bin") / "python")
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--constraint", str(ROOT / "constraints.txt"), f"{wheel}[cpu,demo]", python=python)
    run("-I", "-m", "graphls", "doctor", python=python, folder=OUT)
    run("-I", str(source / "examples" / "digits.py"), python=python, folder=OUT)


if __name__ == "__main__":
    main()
