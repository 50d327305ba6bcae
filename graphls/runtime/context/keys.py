"""Table of the settings of `set_context`: defaults and valid values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.engines import AUTO
from graphls.ir.plan import DEFAULT
from graphls.ir.registry import nearest
from graphls.ir.sharding import Mesh

GRAPH_MODE = 0
"""Calling a cell compiles it and runs the graph."""

PYNATIVE_MODE = 1
"""Calling a cell runs it step by step, as plain Python."""

DEVICES = {"CPU": "cpu", "GPU": "cuda", "Ascend": None, "Davinci": None}
"""The device of graphls by its name in MindSpore; None where graphls has none."""


ENGINES = (DEFAULT, "onednn", "xla", "numpy", AUTO)
"""The engines that run what they take of a step, and the name for the fastest of them; see docs/engines.md."""


@dataclass(frozen=True)
class Key:
    """One setting: its default, the classes of its values, and which of them fit."""

    default: Any
    kinds: tuple[type, ...]
    choices: tuple[Any, ...] = ()
    least: int | None = None
    pattern: str = ""

    def check(self, caller: str, name: str, value: object) -> None:
        """Raise GraphTypeError for a value of another class, GraphValueError for one that does not fit."""
        if not isinstance(value, self.kinds) or (isinstance(value, bool) and bool not in self.kinds):
            kinds = " or ".join(kind.__name__ for kind in self.kinds)
            text = f"For {caller!r}, the argument {name!r} must be {kinds}, but got {value!r}."
            raise GraphTypeError(text)
        wrong = self._fault(value)
        if wrong:
            text = f"For {caller!r}, the argument {name!r} must be {wrong}, but got {value!r}."
            raise GraphValueError(text)

    def _fault(self, value: Any) -> str:
        if self.choices and value not in self.choices:
            return f"one of {', '.join(map(repr, self.choices))}"
        if self.least is not None and value < self.least:
            return f"at least {self.least}"
        if self.pattern and not re.fullmatch(self.pattern, value):
            return "a size such as '5GB'"
        return ""


def flag(default: bool = False) -> Key:
    """A setting that is on or off."""
    return Key(default, (bool,))


def number(default: int, least: int = 0) -> Key:
    """An integer of `least` or more."""
    return Key(default, (int,), least=least)


def text(default: str = "") -> Key:
    """A text."""
    return Key(default, (str,))


def choice(*choices: object) -> Key:
    """One of several values, of which the first is the default."""
    return Key(choices[0], tuple({type(item) for item in choices}), choices)


def size(default: str) -> Key:
    """A size in gigabytes."""
    return Key(default, (str,), pattern=r"\d+(\.\d+)?\s*GB")


def table() -> Key:
    """A dict."""
    return Key({}, (dict,))


@cache
def mindspore_settings(context: str) -> dict[str, tuple[Any, list[str]]]:
    """The settings of one of MindSpore's contexts, with defaults and the names of the classes of values."""
    text = Path(__file__).with_name("mindspore_settings.json").read_text(encoding="utf-8")
    return {name: tuple(setting) for name, setting in json.loads(text)[context].items()}


def _key(default: Any, names: list[str]) -> Key:
    """A setting of MindSpore: a number is 0 or more."""
    kinds = tuple({"bool": bool, "int": int, "str": str, "dict": dict}[name] for name in names)
    return Key(default, kinds, least=0 if kinds == (int,) else None)


KEYS = {
    **{name: _key(*setting) for name, setting in mindspore_settings("set_context").items()},
    "mode": choice(GRAPH_MODE, PYNATIVE_MODE),
    "device_target": Key("CPU", (str,), tuple(DEVICES)),
    "engine": Key(DEFAULT, (str,), ENGINES),
    "mesh": Key(None, (Mesh, NoneType)),
    "zero": choice(0, 1, 2, 3),
    "save_graphs": Key(False, (bool, int), (0, 1, 2, 3)),
    "auto_tune_mode": text("NO_TUNE"),
    "compile_cache_path": text(),
    "debug_level": choice(0, 1),
    "deterministic": choice("OFF", "ON"),
    "device_memory": size("31GB"),
    "enable_dump": flag(),
    "enable_mem_reuse": flag(True),
    "enable_loop_sink": flag(),
    "enable_profiling": flag(),
    "enable_sparse": flag(),
    "enable_task_sink": flag(True),
    "exec_order": choice("bfs", "dfs"),
    "grad_for_scalar": flag(),
    "graph_memory_max_size": size("0GB"),
    "jit_level": choice("", "O0", "O1", "O2"),
    "jit_enable_inplace_ops": flag(True),
    "jit_syntax_level": choice(2, 0, 1),
    "max_call_depth": number(1000, least=1),
    "max_device_memory": size("1024GB"),
    "memory_offload": choice("OFF", "ON"),
    "memory_optimize_level": choice("O0", "O1"),
    "mempool_block_size": size("1GB"),
    "parallel_speed_up_json_path": text(),
    "precompile_only": flag(),
    "profile_memory": flag(),
    "profiling_dir_path": text(),
    "profiling_mode": flag(),
    "profiling_options": text("training_trace"),
    "runtime_num_threads": number(30),
    "save_dump_path": text("."),
    "support_binary": flag(),
    "topo_order": table(),
    "variable_memory_max_size": size("30GB"),
}
"""Every setting by its name: those of MindSpore's table, and those that take few values or are of another version.

graphls acts on `mode`, `device_target`, `device_id`, `engine`, `mesh`, `zero`, `save_graphs`, `save_graphs_path`,
`compile_cache_path`, `deterministic`, `enable_compile_cache`, `max_device_memory` and `runtime_num_threads`, and takes
the others as MindSpore does.
"""


def require_known(caller: str, name: str, known: Iterable[str]) -> None:
    """Raise GraphValueError for a key that is none of those that are known."""
    if name not in known:
        hint = nearest(name, known).replace(";", "")
        what = "argument" if caller.startswith("get_") else "keyword argument"
        text = f"For 'context.{caller}', the {what} {name} is not recognized!{hint}"
        raise GraphValueError(text)
