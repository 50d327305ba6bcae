"""The settings that `set_context` takes: their defaults, and what each may be."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.plan import DEFAULT
from graphls.ir.registry import nearest

GRAPH_MODE = 0
"""Calling a cell compiles it and runs the graph."""

PYNATIVE_MODE = 1
"""Calling a cell runs it step by step, as plain Python."""

DEVICES = {"CPU": "cpu", "GPU": "cuda", "Ascend": None, "Davinci": None}
"""The device of graphls by its name in MindSpore; None where graphls has none."""


ENGINES = (DEFAULT, "openvino", "numpy")
"""The engines that run what they take of a step; see docs/engines.md."""


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


KEYS = {
    "mode": choice(GRAPH_MODE, PYNATIVE_MODE),
    "device_target": Key("CPU", (str,), tuple(DEVICES)),
    "device_id": number(0),
    "engine": Key(DEFAULT, (str,), ENGINES),
    "save_graphs": Key(False, (bool, int), (0, 1, 2, 3)),
    "save_graphs_path": text("."),
    "aoe_config": table(),
    "aoe_tune_mode": text(),
    "ascend_config": table(),
    "auto_tune_mode": text("NO_TUNE"),
    "check_bprop": flag(),
    "compile_cache_path": text(),
    "debug_level": choice(0, 1),
    "deterministic": choice("OFF", "ON"),
    "device_memory": size("31GB"),
    "disable_format_transform": flag(),
    "enable_auto_mixed_precision": flag(),
    "enable_compile_cache": flag(),
    "enable_dump": flag(),
    "enable_graph_kernel": flag(),
    "enable_mem_reuse": flag(True),
    "enable_loop_sink": flag(),
    "enable_profiling": flag(),
    "enable_reduce_precision": flag(True),
    "enable_sparse": flag(),
    "enable_task_sink": flag(True),
    "env_config_path": text(),
    "exec_order": choice("bfs", "dfs"),
    "gpu_config": table(),
    "grad_for_scalar": flag(),
    "graph_kernel_flags": text(),
    "graph_memory_max_size": size("0GB"),
    "inter_op_parallel_num": number(0),
    "jit_config": table(),
    "jit_level": choice("", "O0", "O1", "O2"),
    "jit_enable_inplace_ops": flag(True),
    "jit_syntax_level": choice(2, 0, 1),
    "load_compile_cache": flag(),
    "max_call_depth": number(1000, least=1),
    "max_device_memory": size("1024GB"),
    "memory_offload": choice("OFF", "ON"),
    "memory_optimize_level": choice("O0", "O1"),
    "mempool_block_size": size("1GB"),
    "op_timeout": number(900),
    "parallel_speed_up_json_path": text(),
    "precompile_only": flag(),
    "print_file_path": text(),
    "profile_memory": flag(),
    "profiling_dir_path": text(),
    "profiling_mode": flag(),
    "profiling_options": text("training_trace"),
    "pynative_synchronize": flag(),
    "reserve_class_name_in_scope": flag(True),
    "runtime_num_threads": number(30),
    "save_compile_cache": flag(),
    "save_dump_path": text("."),
    "support_binary": flag(),
    "topo_order": table(),
    "variable_memory_max_size": size("30GB"),
}
"""Every setting by its name; graphls acts on the first five, `compile_cache_path`, `deterministic`,
`enable_compile_cache` and `max_device_memory`, and takes the others as MindSpore does."""


def require_known(caller: str, name: str, known: Iterable[str]) -> None:
    """Raise GraphValueError for a key that is none of those that are known."""
    if name not in known:
        hint = nearest(name, known).replace(";", "")
        what = "argument" if caller.startswith("get_") else "keyword argument"
        text = f"For 'context.{caller}', the {what} {name} is not recognized!{hint}"
        raise GraphValueError(text)
