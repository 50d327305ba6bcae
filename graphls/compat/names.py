"""Where each module of MindSpore is found in graphls: its path, without `mindspore`, and the modules that it offers.

Modules are looked through in order. A path that is not here cannot be imported.
"""

from __future__ import annotations

VERSION = ("graphls.compat.version",)
NN = ("graphls.nn", "graphls.compat.nn")
OPS = (
    "graphls.ops",
    "graphls.ops.operations",
    "graphls.compat.ops",
    "graphls.ops.functional",
    "graphls.compat.functional",
    "graphls.compat.boxes",
    "graphls.compat.collectives",
    "graphls.compat.debug",
    "graphls.compat.edit_distance",
    "graphls.compat.gradient_operators",
    "graphls.compat.host_operators",
    "graphls.compat.sparse_updates",
)
TRANSFORMER = ("graphls.compat.transformer", *NN)
SEQUENCES = ("graphls.compat.sequence_ops", *OPS)
PRIMITIVE = ("graphls.ops.primitive", *OPS)
MODEL = ("graphls.train", "graphls.compat.train")
CALLBACKS = ("graphls.train.callbacks", "graphls.compat.callbacks")
METRICS = ("graphls.train.metrics",)
SERIALIZATION = ("graphls.train.serialization", "graphls.train")
AMP = ("graphls.amp", "graphls.compat.amp")
TRAIN = (*MODEL, *CALLBACKS, *METRICS, *SERIALIZATION, *AMP)
CONTEXT = ("graphls.context", "graphls.compat.settings")
DTYPE = ("graphls.tensors.dtypes", "graphls.compat.kinds")
JIT = ("graphls.calling.jit",)
PARAMETER = ("graphls.tensors.parameter",)
TENSOR = ("graphls.tensors.tensor",)
INITIALIZER = ("graphls.initializer", "graphls.compat.initializers")
RANDOM = ("graphls.tensors.random",)
PARALLEL = ("graphls.context.parallel", "graphls.compat.parallel")
ROOT = ("graphls.compat.root",)
STANDARD = ("graphls.compat.standard_method", "graphls.compat.functional", "graphls.ops")
BOOST = ("graphls.compat.boost",)
HAL = ("graphls.compat.hal",)
BIJECTORS = ("graphls.compat.bijectors",)
PROBABILITY = ("graphls.compat.probability", "graphls.compat.probability_counts", *BIJECTORS)
BAYESIAN = ("graphls.compat.bayesian_layers",)
OPTIM = ("graphls.compat.mint_optim", "graphls.compat.mint_optimizers")
CHECKS = ("graphls.compat.checkparam",)
PROFILER = ("graphls.compat.profiler",)
COMMUNICATION = ("graphls.communication", "graphls.compat.collectives")
DATASET = ("graphls.dataset",)
SAMPLERS = ("graphls.dataset.samplers",)
VISION = ("graphls.dataset.vision",)
TRANSFORMS = ("graphls.dataset.transforms",)
TEXT = ("graphls.dataset.text",)
MINDRECORD_ERRORS = ("graphls.dataset.mindrecord.schema",)
MINDRECORD = (
    "graphls.dataset.mindrecord",
    "graphls.dataset.mindrecord.writer",
    "graphls.dataset.mindrecord.index",
    "graphls.dataset.mindrecord.convert",
    *MINDRECORD_ERRORS,
)
NUMPY = (
    "graphls.compat.numpy",
    "graphls.compat.numpy_arrays",
    "graphls.compat.numpy_math",
    "graphls.tensors.dtypes",
)


def _below(path: str, names: str, modules: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Modules of MindSpore directly in one of its packages that all offer the same."""
    return {f"{path}.{name}" if path else name: modules for name in names.split()}


PATHS: dict[str, tuple[str, ...]] = {
    "": (*VERSION, "graphls", *CONTEXT, *JIT, *DTYPE, *TRAIN, "graphls.compat.ops", *PROFILER, *ROOT),
    "_c_expression": ROOT,
    "_extends": STANDARD,
    "_extends.parse": STANDARD,
    "_extends.parse.standard_method": STANDARD,
    "boost": BOOST,
    **_below("boost", "boost grad_accumulation base less_batch_normalization", BOOST),
    "boost.boost_cell_wrapper": (*BOOST, "graphls.compat.loss_scale"),
    **_below("", "hal runtime", HAL),
    **_below("hal", "device event memory stream", HAL),
    **_below("runtime", "device event executor memory stream", HAL),
    "amp": AMP,
    "context": (*CONTEXT, *PARALLEL),
    "dtype": DTYPE,
    "log": ("graphls.log",),
    "version": VERSION,
    "common": ("graphls", *JIT, *DTYPE, *PARAMETER, *TENSOR, *RANDOM, *INITIALIZER, *ROOT),
    **_below("common", "sparse_tensor dump recompute no_inline generator", ROOT),
    **_below("common", "lazy_inline mutable jit_context", JIT),
    "common.api": (*JIT, "graphls.compat.executors"),
    "common.dtype": DTYPE,
    "common.initializer": INITIALIZER,
    "common.jit_config": JIT,
    "common.parameter": PARAMETER,
    "common.seed": RANDOM,
    "common.tensor": TENSOR,
    "communication": COMMUNICATION,
    **_below("communication", "management _comm_helper comm_func", COMMUNICATION),
    "_checkparam": CHECKS,
    **_below("", "profiler", PROFILER),
    **_below("profiler", "common profiler profiling", PROFILER),
    "parallel": PARALLEL,
    **_below("parallel", "_utils _auto_parallel_context _cost_model_context algo_parameter_config shard", PARALLEL),
    **_below("parallel", "auto_parallel parameter_broadcast", PARALLEL),
    "nn": (*NN, *METRICS),
    "nn.metrics": METRICS,
    **_below("nn", "cell dynamic_lr grad learning_rate_schedule layer loss optim sparse wrap", NN),
    **_below("nn.layer", "activation basic combined container conv dense embedding image math normalization", NN),
    **_below("nn.layer", "padding pooling rnn_cells rnns timedistributed transformer", NN),
    **_below("nn.loss", "loss", NN),
    **_below("nn.grad", "cell_grad", NN),
    **_below("nn.optim", "ada_grad adadelta adafactor adam adamax adasum asgd ftrl lamb lars lazyadam momentum", NN),
    **_below("nn.optim", "optimizer proximal_ada_grad rmsprop rprop sgd thor", NN),
    **_below("nn.wrap", "cell_wrapper grad_reducer", NN),
    "nn.transformer": TRANSFORMER,
    **_below("nn.transformer", "layers loss moe op_parallel_config transformer", TRANSFORMER),
    "nn.wrap.loss_scale": (*NN, "graphls.compat.loss_scale"),
    "ops": OPS,
    **_below("ops", "auto_generate composite function functional operations", OPS),
    "ops.communication": COMMUNICATION,
    **_below("ops", "primitive _primitive_cache", PRIMITIVE),
    **_below("ops.operations", "_sequence_ops _scalar_ops", SEQUENCES),
    "ops.operations._inner_ops": ("graphls.compat.inner_operators", *SEQUENCES),
    "ops.operations._grad_ops": ("graphls.compat.gradient_operators", "graphls.compat.shape_gradients", *OPS),
    "ops.composite.base": OPS,
    **_below("ops.operations", "array_ops comm_ops control_ops debug_ops image_ops inner_ops linalg_ops", OPS),
    **_below("ops.operations", "math_ops nn_ops other_ops random_ops sparse_ops", OPS),
    **_below("ops.composite", "array_ops clip_ops math_ops multitype_ops random_ops", OPS),
    **_below("ops.function", "array_func clip_func debug_func grad image_func linalg_func math_func nn_func", OPS),
    **_below("ops.function", "other_func parameter_func random_func sparse_func", OPS),
    "ops.function.grad.grad_func": OPS,
    "train": TRAIN,
    "train.amp": AMP,
    "train._utils": ("graphls.compat.train_utils",),
    "train.callback": (*CALLBACKS, *MODEL),
    **_below("train.callback", "_callback _checkpoint _early_stop _history _lambda_callback _loss_monitor", CALLBACKS),
    **_below("train.callback", "_lr_scheduler_callback _on_request_exit _reduce_lr_on_plateau", CALLBACKS),
    **_below("train.callback", "_summary_collector _time_monitor", CALLBACKS),
    "train.data_sink": MODEL,
    "train.dataset_helper": MODEL,
    "train.loss_scale_manager": AMP,
    "train.metrics": METRICS,
    "train.model": MODEL,
    "train.serialization": SERIALIZATION,
    "train.summary": (*CALLBACKS, *MODEL),
    "train.summary.summary_record": (*CALLBACKS, *MODEL),
    "dataset": DATASET,
    "dataset.config": ("graphls.dataset.config",),
    "dataset.core": DATASET,
    "dataset.core.config": ("graphls.dataset.config",),
    "dataset.engine": DATASET,
    **_below("dataset.engine", "datasets datasets_standard_format datasets_user_defined datasets_vision", DATASET),
    "dataset.engine.datasets_text": DATASET,
    "dataset.engine.iterators": ("graphls.compat.iterators", *DATASET),
    "dataset.engine.samplers": (*SAMPLERS, *DATASET),
    "mindrecord": MINDRECORD,
    **_below("mindrecord", "filereader filewriter mindpage", MINDRECORD),
    **_below("mindrecord", "common common.exceptions", MINDRECORD_ERRORS),
    "dataset.samplers": (*SAMPLERS, *DATASET),
    "dataset.text": TEXT,
    **_below("dataset.text", "transforms utils", TEXT),
    "dataset.transforms": TRANSFORMS,
    **_below("dataset.transforms", "c_transforms transforms", TRANSFORMS),
    "dataset.transforms.py_transforms": ("graphls.dataset.transforms.py_transforms", *TRANSFORMS),
    "dataset.utils": DATASET,
    "dataset.vision": VISION,
    **_below("dataset.vision", "c_transforms transforms utils", VISION),
    "dataset.vision.py_transforms": ("graphls.dataset.vision.py_transforms", *VISION),
    "mint": ("graphls.compat.mint",),
    "mint.linalg": ("graphls.compat.mint_linalg",),
    "mint.special": ("graphls.compat.mint_special",),
    "mint.nn": ("graphls.compat.mint_nn", "graphls.compat.mint_layers"),
    "mint.nn.functional": ("graphls.compat.mint_functional",),
    "mint.optim": OPTIM,
    "experimental": OPTIM,
    "experimental.optim": OPTIM,
    **_below("experimental.optim", "adadelta adagrad adam adamax adamw asgd lr_scheduler nadam optimizer", OPTIM),
    **_below("experimental.optim", "radam rmsprop rprop sgd", OPTIM),
    "nn.utils": INITIALIZER,
    **_below("nn", "probability", PROBABILITY),
    "nn.probability.distribution": PROBABILITY,
    **_below("nn.probability.distribution", "bernoulli beta categorical cauchy distribution", PROBABILITY),
    **_below("nn.probability.distribution", "exponential gamma gumbel laplace log_normal", PROBABILITY),
    **_below("nn.probability.distribution", "logistic normal poisson uniform", PROBABILITY),
    **_below("nn.probability.distribution", "geometric half_normal student_t transformed_distribution", PROBABILITY),
    "nn.probability.bnn_layers": BAYESIAN,
    **_below("nn.probability.bnn_layers", "bnn_cell_wrapper conv_variational dense_variational", BAYESIAN),
    "nn.probability.bnn_layers.layer_distribution": BAYESIAN,
    "nn.probability.bijector": BIJECTORS,
    **_below("nn.probability.bijector", "bijector exp gumbel_cdf invert power_transform", BIJECTORS),
    **_below("nn.probability.bijector", "scalar_affine softplus", BIJECTORS),
    "numpy": NUMPY,
    **_below("numpy", "array_creations array_ops dtypes logic_ops math_ops", NUMPY),
}
"""The modules of graphls that stand for a module of MindSpore, by the path of the latter."""
