"""Writes files/: weights of modules of PyTorch 2.13 and of Hugging Face's transformers 5.23, and what the modules gave.

Run by hand where both are installed: `python -m tests.interop.record`. `outputs.npz` has the inputs and outputs of each
case as `<case>.x0`, `<case>.x1` and `<case>.y`; the weights are `<case>.safetensors`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

FILES = Path(__file__).parent / "files"


def layers(torch: Any) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """A module for each case, and its inputs."""
    nn = torch.nn
    x, image = torch.randn(3, 6), torch.randn(2, 4, 5, 5)
    sequence = torch.randn(2, 4, 7)
    around = nn.Sequential(nn.Linear(6, 5), nn.PReLU(5), nn.Linear(5, 4, bias=False), nn.Bilinear(4, 4, 3))
    around.forward = lambda x: around[3](around[2](around[1](around[0](x))), around[2](around[1](around[0](x))))
    norms = nn.ModuleDict(
        {
            "batch": nn.BatchNorm2d(4), "plain": nn.BatchNorm2d(4, affine=False), "group": nn.GroupNorm(2, 4),
            "instance": nn.InstanceNorm2d(4, affine=True), "layer": nn.LayerNorm(5), "rms": nn.RMSNorm((5,), eps=1e-6),
        }
    )  # fmt: skip
    norms.forward = lambda x: norms["rms"](
        norms["layer"](norms["instance"](norms["group"](norms["plain"](norms["batch"](x)))))
    )
    for each in norms.parameters():
        nn.init.normal_(each, 1.0)
    norms(image * 3 + 1)
    return {
        "dense": (around, (x,)),
        "convolutions": (
            nn.Sequential(
                nn.Conv2d(4, 8, 3, padding=1, groups=2), nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False),
                nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1, groups=2),
            ),
            (image,),
        ),
        "sequences": (nn.Sequential(nn.Conv1d(4, 6, 3, padding=1), nn.ConvTranspose1d(6, 3, 2, stride=2)), (sequence,)),
        "norms": (norms.eval(), (image,)),
        "embedding": (nn.Embedding(7, 5), (torch.tensor([[1, 6], [0, 3]]),)),
        "attention": (nn.MultiheadAttention(8, 2, batch_first=True, add_bias_kv=True), (torch.randn(2, 3, 8),) * 3),
        "attention_apart": (
            nn.MultiheadAttention(8, 2, kdim=5, vdim=6, batch_first=True),
            (torch.randn(2, 3, 8), torch.randn(2, 4, 5), torch.randn(2, 4, 6)),
        ),
        "transformer": (
            nn.Transformer(8, 2, 1, 1, 16, batch_first=True).eval(),
            (torch.randn(2, 3, 8), torch.randn(2, 4, 8)),
        ),
        "lstm": (nn.LSTM(4, 3, 2, bidirectional=True), (torch.randn(5, 2, 4),)),
        "gru": (nn.GRU(4, 3, 2, batch_first=True), (torch.randn(2, 5, 4),)),
        "rnn": (nn.RNN(4, 3, nonlinearity="relu", bias=False), (torch.randn(5, 2, 4),)),
    }  # fmt: skip


def models(torch: Any) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Small models of Hugging Face."""
    from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel

    ids = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
    bert = BertConfig(
        vocab_size=20, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=8, attn_implementation="eager",
    )  # fmt: skip
    gpt = GPT2Config(vocab_size=20, n_positions=8, n_embd=8, n_layer=2, n_head=2, attn_implementation="eager")
    return {"bert": (BertModel(bert).eval(), (ids,)), "gpt2": (GPT2LMHeadModel(gpt).eval(), (ids,))}


def record() -> None:
    """Write all files."""
    import numpy as np
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(7)
    FILES.mkdir(exist_ok=True)
    arrays: dict[str, Any] = {}
    for case, (module, inputs) in {**layers(torch), **models(torch)}.items():
        for parameter in module.parameters():  # also those that begin as 0 or 1
            torch.nn.init.normal_(parameter, 0.0, 0.5)
        given = module(*inputs)
        output = given if torch.is_tensor(given) else given[0]
        arrays.update(
            {f"{case}.x{i}": x.numpy() for i, x in enumerate(inputs)}, **{f"{case}.y": output.detach().numpy()}
        )
        if case in ("bert", "gpt2"):
            module.save_pretrained(FILES / case, **({"max_shard_size": "5kB"} if case == "bert" else {}))
            for settings in (FILES / case).glob("*config.json"):
                settings.unlink()
        else:
            save_file(module.state_dict(), FILES / f"{case}.safetensors")
        if case == "dense":
            torch.save({"model": module.state_dict(), "epoch": 3}, FILES / "dense.pt")
    np.savez_compressed(FILES / "outputs.npz", **arrays)


if __name__ == "__main__":
    record()
