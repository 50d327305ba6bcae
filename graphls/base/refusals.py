"""What graphls does not offer of other frameworks: one list of features, with the reason and what to use instead."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """A feature as the object of "graphls does not offer", what to do instead, and the reason where it is short."""

    what: str
    instead: str
    reason: str = ""


REFUSALS = {
    "division of networks": Refusal(
        "networks that several processes divide",
        "set `device_num` before in one process, with JAX, which drives so many devices and divides networks by "
        "strategies (scripts of MindSpore: `python -m graphls exec --devices 8 script.py`)",
    ),
    "division of weights": Refusal(
        "gradients and weights that are divided among processes",
        'give the "optimizer_level" "level1", which divides the states of optimizers among all processes, or set '
        "`device_num` before in one process, with JAX, which divides weights among so many devices",
    ),
    "projections": Refusal(
        "projections of the hidden state in LSTM (`proj_size`)",
        "write such a layer as a cell of nn.LSTMCell and nn.Dense",
    ),
    "formats": Refusal(
        "the formats MINDIR and AIR",
        'give file_format="ONNX", which MindSpore Lite converts, or save_checkpoint for the weights alone',
        "only MindSpore runs them",
    ),
    "encryption": Refusal("encrypted files", "leave the key out, and encrypt the file or its disk"),
    "hash tables": Refusal("map parameters (hash tables)", "use nn.Embedding and save its table as a parameter"),
    "complex numbers": Refusal(
        "complex numbers", "keep real and imaginary parts as two tensors", "ONNX Runtime has hardly any kernel for them"
    ),
    "boost": Refusal("the levels of boost", "leave them at 'O0', or set amp_level for mixed precision"),
    "other runtimes": Refusal("prediction by MindSpore Lite", "leave the backend at None, or export the network"),
    "attention masks": Refusal(
        "drop masks, padding masks, prefixes and lengths of sequences in flash_attention_score",
        "give attn_mask, or a sparse_mode",
    ),
    "dataset caches": Refusal("caches of rows", "leave `cache` out, and save prepared rows as files of MindRecord"),
    "map callbacks": Refusal("callbacks of `map`", "leave `callbacks` out, or give callbacks to Model.train"),
    "bad rows": Refusal(
        "replacing or skipping rows that fail", "filter such rows out", "the error of a row ends the pass"
    ),
    "file operators": Refusal("operators of FileReader", "apply `map` to a MindDataset of the file"),
    "summaries": Refusal(
        "graphs, input data, lineage and landscapes in SummaryCollector",
        "leave them out; step.show writes the graph, and RunReport the run, as pages",
    ),
}
"""By a key for the code that refuses; docs/differences.md has them as a table."""


def refusal(key: str, detail: str = "") -> str:
    """The sentence of an error that refuses a feature; `detail` names the argument that requests it."""
    feature = REFUSALS[key]
    requested = f" ({detail})" if detail else ""
    reason = f", as {feature.reason}" if feature.reason else ""
    return f"graphls does not offer {feature.what}{requested}{reason}; {feature.instead}."
