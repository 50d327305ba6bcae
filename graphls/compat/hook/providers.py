"""Maps modules of MindSpore, without `mindspore`, to the modules of graphls that provide their names.

Modules are searched in order. Names that they lack are looked up under the other names of the object (`known.py`).
"""

from __future__ import annotations

VERSION = ("graphls.compat.hook.mindspore_names",)
NN = ("graphls.nn", "graphls.compat.nn")
OPS = (
    "graphls.ops",
    "graphls.ops.operations",
    "graphls.compat.ops",
    "graphls.ops.functional",
    "graphls.compat.operators.functional",
    "graphls.compat.operators.collectives",
    "graphls.compat.operators.debug",
    "graphls.compat.operators.gradient_operators",
    "graphls.compat.operators.host_operators",
    "graphls.compat.operators.sparse_updates",
)
INNER = ("graphls.compat.operators.inner_operators", *OPS)
STANDARD = ("graphls.compat.standard_method", "graphls.compat.operators.functional", "graphls.ops")
TRANSFORMER = ("graphls.compat.transformer", *NN)
METRICS = ("graphls.train.metrics",)
AMP = ("graphls.nn.amp", "graphls.compat.amp")
TRAIN = (
    "graphls.train",
    "graphls.compat.train",
    "graphls.train.callbacks",
    *METRICS,
    "graphls.train.serialization",
    *AMP,
)
CONTEXT = ("graphls.runtime.context",)
DTYPE = ("graphls.frontend.tensors.dtypes", "graphls.compat.dtypes")
JIT = ("graphls.step.calling.jit",)
TENSOR = ("graphls.frontend.tensors.parameter", "graphls.frontend.tensors.tensor", "graphls.frontend.tensors.random")
INITIALIZER = ("graphls.nn.initializer", "graphls.compat.initializers")
PARALLEL = ("graphls.runtime.context.parallel", "graphls.compat.parallel")
ROOT = ("graphls.compat.root",)
BOOST = ("graphls.compat.boost",)
BIJECTORS = ("graphls.compat.probability.bijectors",)
PROBABILITY = ("graphls.compat.probability.distributions", "graphls.compat.probability.discrete", *BIJECTORS)
PROFILER = ("graphls.compat.profiler",)
COMMUNICATION = ("graphls.compat.operators.collectives", "graphls.distributed.communication")
DATASET = ("graphls.dataset",)
VISION = ("graphls.dataset.vision",)
TRANSFORMS = ("graphls.dataset.transforms",)
MINDRECORD = (
    "graphls.dataset.mindrecord",
    "graphls.dataset.mindrecord.writer",
    "graphls.dataset.mindrecord.index",
    "graphls.dataset.mindrecord.convert",
    "graphls.dataset.mindrecord.schema",
)
NUMPY = (
    "graphls.compat.numpy.functions",
    "graphls.compat.numpy.arrays",
    "graphls.compat.numpy.math",
    "graphls.frontend.tensors.dtypes",
)


def _below(path: str, names: str, modules: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Modules of MindSpore directly in one of its packages that all have the same providers."""
    return {f"{path}.{name}" if path else name: modules for name in names.split()}


PATHS: dict[str, tuple[str, ...]] = {
    "": (*VERSION, "graphls", *CONTEXT, *JIT, *DTYPE, *TRAIN, "graphls.compat.ops", *PROFILER, *ROOT),
    "_c_expression": (*ROOT, "graphls.compat.executors"),
    **_below("", "_extends graph._parse", STANDARD),
    "boost": BOOST,
    "boost.boost_cell_wrapper": (*BOOST, "graphls.compat.loss_scale"),
    **_below("", "hal runtime runtime.device", ("graphls.compat.hal",)),
    "amp": AMP,
    "context": (*CONTEXT, *PARALLEL, *ROOT),
    "dtype": DTYPE,
    "log": ("graphls.base.log",),
    "version": VERSION,
    "common.dtype": DTYPE,
    "common": ("graphls", *JIT, *DTYPE, *TENSOR, *INITIALIZER, *ROOT),
    **_below("", "common.api graph.api", (*JIT, "graphls.compat.executors")),
    "communication": COMMUNICATION,
    "_checkparam": ("graphls.compat.checkparam",),
    "profiler": PROFILER,
    "profiler.profiling": PROFILER,
    "parallel": PARALLEL,
    "nn": (*NN, *METRICS),
    **_below("nn.transformer", "layers loss moe op_parallel_config transformer", TRANSFORMER),
    "nn.transformer": TRANSFORMER,
    "nn.wrap.loss_scale": (*NN, "graphls.compat.loss_scale"),
    "ops": OPS,
    "ops.communication": COMMUNICATION,
    **_below("ops", "primitive _primitive_cache", ("graphls.ops.primitive", *OPS)),
    **_below("ops.operations", "_inner_ops _sequence_ops _scalar_ops", INNER),
    "ops.operations._grad_ops": ("graphls.compat.operators.gradient_operators", *OPS),
    **_below("ops.composite", "array_ops clip_ops random_ops", OPS),
    "train": TRAIN,
    "train._utils": ("graphls.compat.train_utils",),
    **_below("", "dataset dataset.utils", DATASET),
    **_below("dataset", "config core.config", ("graphls.dataset.config",)),
    "dataset.engine.iterators": ("graphls.compat.iterators", *DATASET),
    **_below("dataset", "engine.samplers samplers", ("graphls.dataset.samplers", *DATASET)),
    "mindrecord": MINDRECORD,
    "multiprocessing": ("multiprocessing",),
    "dataset.text": ("graphls.dataset.text",),
    **_below("dataset.transforms", "c_transforms", TRANSFORMS),
    "dataset.transforms": TRANSFORMS,
    "dataset.transforms.py_transforms": ("graphls.dataset.transforms.py_transforms", *TRANSFORMS),
    "dataset.vision": VISION,
    "dataset.vision.c_transforms": VISION,
    "dataset.vision.py_transforms": ("graphls.dataset.vision.py_transforms", *VISION),
    "mint": ("graphls.compat.mint.functions",),
    "mint.linalg": ("graphls.compat.mint.linalg",),
    "mint.special": ("graphls.compat.mint.special",),
    "mint.nn": ("graphls.compat.mint.nn",),
    "mint.nn.functional": ("graphls.compat.mint.functional",),
    **_below("", "mint.optim experimental", ("graphls.compat.mint.optimizers", "graphls.compat.mint.schedules")),
    "nn.utils": (*INITIALIZER, "graphls.compat.parallel"),
    "nn.probability": PROBABILITY,
    "nn.probability.bnn_layers": ("graphls.compat.probability.bayesian_layers",),
    "nn.probability.bijector": BIJECTORS,
    "numpy": NUMPY,
}
"""The modules of graphls that provide the names of a module of MindSpore and of those inside it, by its path."""


def providers(path: str) -> tuple[str, ...]:
    """The modules of graphls that provide the names of a module of MindSpore: its own, or those of its package."""
    while path and path not in PATHS:
        path = path.rpartition(".")[0]
        if not path:
            return ()
    return PATHS[path]
