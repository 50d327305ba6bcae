"""`python -m tests.browser.install`: see to it that a browser starts, as `make test` does before the tests.

It does nothing where one starts. Else it installs Debian's Chromium, if it may, or lets Playwright download one. It
never asks, and it never fails: without a browser the tests of pages fail, and say what to install.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

from tests.browser.chromium import BROWSER, LIBRARIES, VARIABLE, NoBrowserError, is_wanted, launch, started

LONGEST = 900
"""Seconds after which a command is given up; a slow line needs minutes for 100 MB."""
APT = ("apt-get", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=2", "-o", "Acquire::http::Timeout=30")
SETTINGS = {"DEBIAN_FRONTEND": "noninteractive", "PLAYWRIGHT_DOWNLOAD_CONNECTION_TIMEOUT": "10000"}


def complaint() -> str:
    """Why no browser starts and what to do; empty where one does."""
    try:
        with started() as playwright:
            launch(playwright).close()
    except NoBrowserError as error:
        return str(error)
    return ""


def ways() -> Iterator[list[list[str]]]:
    """The ways to install a browser here, the best first, each as its commands."""
    may_install = getattr(os, "geteuid", lambda: 1)() == 0 and shutil.which("apt-get") is not None
    if may_install:
        install = [*APT, "install", "--yes", "--no-install-recommends"]
        yield [[*APT, "update"], [*install, *LIBRARIES], [*install, BROWSER]]
    options = ["--with-deps"] if may_install else []
    yield [[sys.executable, "-m", "playwright", "install", *options, "chromium"]]


def run(command: list[str]) -> None:
    """Run a command that may fail; what it prints is shown only then."""
    print("+", *command, flush=True)
    try:
        done = subprocess.run(
            command, env={**os.environ, **SETTINGS}, timeout=LONGEST, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        print(f"gave up after {LONGEST} s", flush=True)
        return
    if done.returncode:
        print(done.stdout[-2000:], flush=True)


def main() -> None:
    """Install a browser, unless one starts, one is named, or none is wanted."""
    text = complaint() if is_wanted() else ""
    for commands in () if os.environ.get(VARIABLE) else ways():
        if not text:
            break
        for command in commands:
            run(command)
        text = complaint()
    print(text, file=sys.stderr, end="\n" if text else "")


if __name__ == "__main__":
    main()
