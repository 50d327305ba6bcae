"""What modules keep while the process runs: each of these is of a thread, or safe to use from several."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.sources import parsed

ROOT = Path(__file__).parent.parent
KNOWN: dict[str, tuple[str, ...]] = {
    "of a thread, by a context variable": (
        "ir.operators.current_builder",
        "frontend.tensors.executor.EXECUTOR", "dataset.randomness._current", "onnx.training.onnxblock.accessor._open",
        "ops.gradients._IS_GRADIENT", "frontend.tensors.tape._TAPE",
    ),
    "locks": (
        "base.sharing.locks.COMPILING", "base.sharing.locks.LOOSE", "base.sharing.locks.SEEDING",
        "base.sharing.locks._MERGING",
        "dataset.randomness._OUTSIDE", "distributed.shard_reads._counting", "runtime.xla.library._opening",
        "runtime.xla.part.MESHES",
        "train.background._lock", "train.callbacks.callback._WARNING",
    ),
    "settings, which threads that start later have to see, changed as a whole under a lock": (
        "base.sharing.arrays._settings",
        "compat.parallel._algorithm", "compat.parallel._cost_model", "compat.parallel._more",
        "compat.root._offload", "compat.root._servers",
        "runtime.context._settings", "runtime.context.Replacement.devices", "runtime.context.Replacement.forced",
        "runtime.context.Replacement.is_allowed", "runtime.context.Replacement.warned",
        "runtime.context.parallel._settings", "runtime.simulation._settings", "distributed.world._driven",
        "runtime.context.parallel.OneRank.left_out",
        "runtime.context.parallel.OneRank.is_forced", "dataset.config._settings", "dataset.randomness.SEED",
        "frontend.names.traps.Meaning.is_mindspore",
        "runtime.cache._settings", "runtime.threads._settings", "runtime.xla.library._settings",
        "runtime.xla.processes._settings",
        "frontend.tensors.random._seeded",
    ),
    "changed under a lock": (
        "dataset.randomness._outside", "train.background._pending", "train.callbacks.callback._warned",
        "distributed.shard_reads._counted", "runtime.xla.library._further",
    ),
    "changed by who compiles, which one thread at a time does": (
        "runtime.engine_choice._unwritten", "step.lint._warned",
        "frontend.trace.rewriting.functions._codes", "frontend.trace.rewriting.sources._files",
    ),
    "each change is one assignment or one call into C": (
        "runtime.onnxruntime.guard._survived", "runtime.onnxruntime.operators._operations",
        "runtime.onnxruntime.operators._sessions",
        "distributed.communication.GlobalComm.BACKEND", "distributed.communication.GlobalComm.INITED",
        "compat.hook.resolution.REACHED",
        "compat.hook.resolution._completed", "dataset.pipeline.workers._connections",
        "dataset.pipeline.iterators._feeds", "onnx.training.onnxblock.accessor._numbers", "passes.manager._directory",
        "passes.manager._numbers",
        "distributed.sharded_states._communicators", "distributed.shard_reads._ended",
        "distributed.shard_reads._retained", "distributed.shard_reads._states",
        "distributed.watchdog.Watching.watch", "distributed.world.Ranks.groups",
        "base.sharing.forks._functions", "base.sharing.forks._guards",
        "base.sharing.forks._numbers",
        "base.sharing.forks._renewed",
        "frontend.tensors.configuration.Configuration.changes",
        "frontend.tensors.configuration.Configuration.gradient_changes", "frontend.tensors.dispatch._plans",
        "train.callbacks.summary._numbers",
    ),
    "a thread that does one task after the other, or each thread its own": (
        "runtime.host_random.AHEAD", "distributed.shards._scratch_memory", "distributed.communication_thread._QUEUE",
    ),
    "filled by imports, by definitions of primitives and passes": (
        "dataset.pipeline.dataset._makers", "ir.engines._engines", "runtime.onednn.registry.CONDITIONS",
        "runtime.onednn.registry.JOINS", "runtime.onednn.registry.RULES", "ir.registry._operations", "onnx.table.TABLE",
        "ops.record.CELLS", "ops.record.FUNCTIONS", "ops.record.OPERATIONS",
        "passes.simplify.compositions.RULES", "passes.simplify.compositions.SUMS", "passes.manager._passes",
        "distributed.watchdog.EXIT_CALLBACKS",
        "frontend.tensors.methods.METHODS", "frontend.registry._functions", "frontend.registry._compilers",
        "nn.quantization._CHECKS",
    ),
    "does not change": ("distributed.world.ALONE",),
    "empty for ever": ("compat.iterators.ITERATORS_LIST",),
}
MAKERS = (
    "ContextVar", "Counter", "Group", "Guard", "TaskQueue", "Lock", "RLock", "Settings", "WeakKeyDictionary", "WeakSet",
    "WeakValueDictionary", "count", "defaultdict", "deque", "dict", "list", "local", "settings.Settings",
    "threading.local",
)
CHANGES = ("add", "append", "clear", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update")


def is_state(value: ast.expr | None) -> bool:
    """Whether an object is empty at first, or of a class whose objects change."""
    if isinstance(value, ast.Call):
        name = ast.unparse(value.func)
        return name in MAKERS or (name == "set" and not value.args)
    return isinstance(value, (ast.List, ast.Dict)) and not ast.unparse(value).strip("[]{}")


def changed_names(tree: ast.Module) -> Iterator[str]:
    """The names whose objects a module changes in place, and the names and attributes that functions assign."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
            yield ast.unparse(node.value)
        elif isinstance(node, ast.FunctionDef) and "cls" not in {argument.arg for argument in node.args.args}:
            yield from assigned_in(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            yield ast.unparse(node.func.value)


def changed_attributes(tree: ast.Module, changed: set[str]) -> Iterator[str]:
    """The attributes of classes that functions of their module assign or change in place."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            own = {target.id for part in node.body for target in targets(part)}
            functions = (n for n in node.body if isinstance(n, ast.FunctionDef) and n.name != "__init_subclass__")
            assigned = {*changed, *(a.replace("cls.", f"{node.name}.") for f in functions for a in assigned_in(f))}
            yield from {f"{node.name}.{name}" for name in own}.intersection(assigned)


def assigned_in(tree: ast.AST) -> set[str]:
    """The attributes that are assigned anywhere in this."""
    found = (n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    return {ast.unparse(attribute) for attribute in found}


def targets(node: ast.stmt) -> list[ast.Name]:
    found = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target for target in found if isinstance(target, ast.Name)]


def states() -> Iterator[str]:
    """The states of all modules, by module and name."""
    for path in sorted((ROOT / "graphls").rglob("*.py")):
        tree = parsed(path)
        module = ".".join(path.relative_to(ROOT / "graphls").with_suffix("").parts).removesuffix(".__init__")
        changed = set(changed_names(tree))
        for node in tree.body:
            for target in targets(node):
                value = getattr(node, "value", None)
                if target.id != "__all__" and (target.id in changed or is_state(value)):
                    yield f"{module}.{target.id}"
        yield from (f"{module}.{name}" for name in changed_attributes(tree, changed))


def test_every_state_of_a_module_is_known_and_says_why_threads_may_use_it() -> None:
    known = {name for names in KNOWN.values() for name in names}
    assert set(states()) == known, "say in KNOWN whose it is: prefer a context variable, or sharing.settings.Settings"
