"""`python -m tests.bundles.install` installs the packages of npm that bundles are tried on, as `make test` does first.

It does nothing where they are there, and it never fails: without npm the tests that need them are left out and say so.
With `--native` it adds onnxruntime-node, which takes 290 MB, and the tests of loops then run on it as well.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "javascript"
PACKAGES, LOCK = FOLDER / "node_modules", FOLDER / "package-lock.json"
MARK = PACKAGES / ".installed"
NATIVE, NATIVE_VERSION = "onnxruntime-node", "1.30.0"
LONGEST = 300
"""Seconds after which npm is given up."""


def missing() -> str:
    """Why bundles cannot be tried in JavaScript; empty where they can."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    return "" if is_installed() else "the packages of npm are not installed; run `python -m tests.bundles.install`"


def is_installed() -> bool:
    """Whether the packages are those of the lock file."""
    return MARK.exists() and MARK.read_bytes() == LOCK.read_bytes()


def has_native() -> bool:
    """Whether the native build for Node is there."""
    return (PACKAGES / NATIVE).is_dir()


def main() -> None:
    """Install the packages unless they are there; no package runs a program of its own."""
    if shutil.which("npm") is None:
        return
    if not is_installed() and _npm("ci"):
        MARK.write_bytes(LOCK.read_bytes())
    if "--native" in sys.argv and not has_native():
        _npm("install", "--no-save", f"{NATIVE}@{NATIVE_VERSION}")


def _npm(*arguments: str) -> bool:
    """Whether npm does what it is told; else what it said is printed."""
    command = ["npm", *arguments, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    try:
        done = subprocess.run(command, cwd=FOLDER, timeout=LONGEST, capture_output=True, text=True, errors="replace")
    except subprocess.TimeoutExpired:
        print(f"npm was given up after {LONGEST} s; the tests of bundles in JavaScript are left out")
        return False
    if done.returncode:
        print(f"npm failed, and the tests of bundles in JavaScript are left out:\n{done.stderr[-2000:]}")
    return done.returncode == 0


if __name__ == "__main__":
    main()
