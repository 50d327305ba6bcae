"""Runs scripts that import `mindspore` on graphls: an import hook for this process, and `python -m graphls exec`."""

from graphls.compat.hook.finder import install, uninstall
from graphls.compat.hook.script import run_script

__all__ = ["install", "run_script", "uninstall"]
