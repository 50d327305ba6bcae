"""Architectures of Hugging Face through `graphls.from_torch`, compared with PyTorch: `make compare-models`.

Each is small, with random weights and without dropout. A row has the largest relative differences: of the outputs in
evaluation mode by the largest output, of the gradient of any tensor by its norm, of the losses of 20 steps of AdamW,
and of the outputs of the module after its weights were written back, by those of the module that PyTorch trained.
"""

from __future__ import annotations

import argparse
import copy
import logging
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transformers as hf

import graphls
from graphls import nn, ops

STEPS, RATE, SEED = 20, 1e-3, 0
NOISE = 1e-6
"""The part of the norm of all gradients below which that of a tensor is 0 but for roundings, as of biases of keys."""
TEXT = {
    "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "max_position_embeddings": 32,
}  # fmt: skip
GROUPED = {**TEXT, "num_key_value_heads": 2, "pad_token_id": 0}
IMAGE = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "image_size": 16,
    "patch_size": 4, "num_labels": 5,
}  # fmt: skip
T5 = {"vocab_size": 64, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
BART = {
    "vocab_size": 64, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 32,
}  # fmt: skip
CLIP_TEXT = {**TEXT, "projection_dim": 16, "eos_token_id": 63}
CLIP_IMAGE = {**{k: v for k, v in IMAGE.items() if k != "num_labels"}, "projection_dim": 16}


@dataclass(frozen=True)
class Architecture:
    """The classes of a configuration and a model of Hugging Face, and the kind of inputs that the model takes."""

    config: str
    model: str
    inputs: str
    settings: dict[str, Any]
    output: str = "logits"

    def module(self) -> Any:
        """The model with random weights and without dropout."""
        settings = dict(self.settings)
        for name in ("text_config", "vision_config"):
            if name in settings:
                settings[name] = dict(settings[name])
        config = getattr(hf, self.config)(**settings)
        for part in (config, getattr(config, "text_config", None), getattr(config, "vision_config", None)):
            for name in dir(part) if part is not None else ():
                if ("drop" in name or name in ("mask_time_prob", "mask_feature_prob")) and "summary" not in name:
                    value = getattr(part, name)
                    if isinstance(value, float):
                        setattr(part, name, 0.0)
        torch.manual_seed(SEED)
        return getattr(hf, self.model)(config)


ARCHITECTURES: dict[str, Architecture] = {
    "BERT": Architecture("BertConfig", "BertForSequenceClassification", "text", {**TEXT, "num_labels": 5}),
    "RoBERTa": Architecture("RobertaConfig", "RobertaForMaskedLM", "text", {**TEXT, "pad_token_id": 0}),
    "DistilBERT": Architecture(
        "DistilBertConfig", "DistilBertForMaskedLM", "text",
        {"vocab_size": 64, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 32},
    ),
    "ALBERT": Architecture("AlbertConfig", "AlbertForMaskedLM", "text", {**TEXT, "embedding_size": 16}),
    "ELECTRA": Architecture("ElectraConfig", "ElectraForMaskedLM", "text", {**TEXT, "embedding_size": 16}),
    "DeBERTa v2": Architecture(
        "DebertaV2Config", "DebertaV2ForMaskedLM", "text",
        {**TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 8},
    ),
    "MPNet": Architecture("MPNetConfig", "MPNetForMaskedLM", "text", TEXT),
    "ModernBERT": Architecture(
        "ModernBertConfig", "ModernBertForMaskedLM", "text",
        {**TEXT, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2},
    ),
    "GPT-2": Architecture(
        "GPT2Config", "GPT2LMHeadModel", "text",
        {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32},
    ),
    "GPT-NeoX": Architecture("GPTNeoXConfig", "GPTNeoXForCausalLM", "text", TEXT),
    "OPT": Architecture(
        "OPTConfig", "OPTForCausalLM", "text",
        {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 48,
         "max_position_embeddings": 32, "word_embed_proj_dim": 32},
    ),
    "BLOOM": Architecture(
        "BloomConfig", "BloomForCausalLM", "text", {"vocab_size": 64, "hidden_size": 32, "n_layer": 2, "n_head": 4}
    ),
    "Llama": Architecture("LlamaConfig", "LlamaForCausalLM", "text", GROUPED),
    "Mistral": Architecture("MistralConfig", "MistralForCausalLM", "text", {**GROUPED, "sliding_window": 5}),
    "Qwen2": Architecture("Qwen2Config", "Qwen2ForCausalLM", "text", GROUPED),
    "Phi": Architecture("PhiConfig", "PhiForCausalLM", "text", GROUPED),
    "Gemma": Architecture("GemmaConfig", "GemmaForCausalLM", "text", {**GROUPED, "head_dim": 8}),
    "Mixtral": Architecture(
        "MixtralConfig", "MixtralForCausalLM", "text",
        {**GROUPED, "num_local_experts": 4, "experts_implementation": "batched_mm"},
    ),
    "Mamba": Architecture(
        "MambaConfig", "MambaForCausalLM", "text",
        {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "pad_token_id": 0},
    ),
    "T5": Architecture("T5Config", "T5ForConditionalGeneration", "sequences", T5),
    "BART": Architecture("BartConfig", "BartForConditionalGeneration", "sequences", BART),
    "ViT": Architecture("ViTConfig", "ViTForImageClassification", "images", IMAGE),
    "DeiT": Architecture("DeiTConfig", "DeiTForImageClassification", "images", IMAGE),
    "Swin": Architecture(
        "SwinConfig", "SwinForImageClassification", "images",
        {"image_size": 16, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4,
         "num_labels": 5},
    ),
    "ConvNeXt": Architecture(
        "ConvNextConfig", "ConvNextForImageClassification", "images",
        {"num_stages": 2, "hidden_sizes": [16, 32], "depths": [1, 1], "patch_size": 2, "num_labels": 5,
         "layer_scale_init_value": 0.5},
    ),
    "ResNet": Architecture(
        "ResNetConfig", "ResNetForImageClassification", "images",
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 2], "layer_type": "basic", "num_labels": 5},
    ),
    "SegFormer": Architecture(
        "SegformerConfig", "SegformerForSemanticSegmentation", "images",
        {"num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [2, 1], "hidden_sizes": [8, 16], "num_labels": 5,
         "num_attention_heads": [1, 2], "patch_sizes": [3, 3], "strides": [2, 2], "mlp_ratios": [2, 2],
         "decoder_hidden_size": 16},
    ),
    "Whisper": Architecture(
        "WhisperConfig", "WhisperForConditionalGeneration", "speech",
        {**BART, "num_mel_bins": 8, "max_source_positions": 8, "max_target_positions": 16, "pad_token_id": 0,
         "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1},
    ),
    "Wav2Vec2": Architecture(
        "Wav2Vec2Config", "Wav2Vec2ForCTC", "audio",
        {"vocab_size": 16, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
         "conv_dim": [16, 16], "conv_stride": [5, 2], "conv_kernel": [10, 3], "num_feat_extract_layers": 2,
         "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2},
    ),
    "CLIP": Architecture(
        "CLIPConfig", "CLIPModel", "pairs",
        {"text_config": CLIP_TEXT, "vision_config": CLIP_IMAGE, "projection_dim": 16},
        "logits_per_image",
    ),
}  # fmt: skip


def example_inputs(kind: str) -> dict[str, Any]:
    """The example inputs of a kind of model, by name."""
    generator = torch.Generator().manual_seed(SEED + 1)
    mask = torch.ones(3, 8, dtype=torch.int64)
    mask[1, 6:] = mask[2, 4:] = 0

    def words(*shape: int) -> Any:
        return torch.randint(3, 63, shape, generator=generator)

    def numbers(*shape: int) -> Any:
        return torch.randn(*shape, generator=generator)

    text = {"input_ids": words(3, 8), "attention_mask": mask}
    return {
        "text": lambda: text,
        "sequences": lambda: {**text, "decoder_input_ids": words(3, 6)},
        "images": lambda: {"pixel_values": numbers(3, 3, 16, 16)},
        "speech": lambda: {"input_features": numbers(3, 8, 16), "decoder_input_ids": words(3, 6)},
        "audio": lambda: {"input_values": numbers(3, 400)},
        "pairs": lambda: {**text, "pixel_values": numbers(3, 3, 16, 16)},
    }[kind]()


class Loss(nn.Cell):
    """The cross-entropy of one of the results, whose last axis, or second one of images, are the classes."""

    def __init__(self, net: Any, output: str) -> None:
        super().__init__()
        self.net, self.output = net, output

    def construct(self, *values: Any) -> Any:
        *inputs, labels = values
        y = self.net(*inputs)[self.output]
        return ops.cross_entropy(y if y.ndim == 4 else ops.reshape(y, (-1, y.shape[-1])), labels)


def torch_loss(module: Any, inputs: dict[str, Any], output: str, labels: Any) -> Any:
    """The same loss in PyTorch."""
    y = module(**inputs)[output]
    return torch.nn.functional.cross_entropy(y if y.ndim == 4 else y.reshape(-1, y.shape[-1]), labels)


@dataclass
class Difference:
    """The largest relative differences of an architecture."""

    outputs: float
    gradients: float
    losses: float
    written: float

    def __str__(self) -> str:
        return " | ".join(f"{x:.0e}" for x in (self.outputs, self.gradients, self.losses, self.written))


def compare(architecture: Architecture) -> Difference:
    """Run an architecture in graphls and in PyTorch."""
    module, inputs = architecture.module().eval(), example_inputs(architecture.inputs)
    with torch.no_grad():
        outputs = module(**inputs)[architecture.output]
    classes = outputs.shape[1] if outputs.ndim == 4 else outputs.shape[-1]
    shape = outputs.shape[:1] + outputs.shape[2:] if outputs.ndim == 4 else (outputs.numel() // classes,)
    labels = torch.randint(0, classes, shape, generator=torch.Generator().manual_seed(SEED + 2))
    flags = {"use_cache": False} if hasattr(module.config, "use_cache") else {}
    net = graphls.from_torch(module, **inputs, **flags)
    arrays = [inputs[name].numpy() for name in net.argument_names]
    differences = [difference(net(*arrays)[architecture.output].asnumpy(), outputs.numpy())]
    other = Loss(copy.deepcopy(net), architecture.output).set_train()  # a forward pass changes statistics
    loss = Loss(net, architecture.output).set_train()
    peer, gradients = copy.deepcopy(module).train(), copy.deepcopy(module).train()
    inputs = {**inputs, **flags}
    torch_loss(gradients, inputs, architecture.output, labels).backward()
    arrays.append(labels.numpy().astype(np.int32))
    differences.append(gradient_difference(other, arrays, gradients))
    step = nn.TrainOneStepCell(loss, nn.AdamW(net.trainable_params(), RATE, weight_decay=0.01)).set_train()
    losses = [float(step(*arrays).asnumpy()) for _ in range(STEPS)]
    expected = train_in_torch(peer, inputs, architecture.output, labels)
    differences.append(max(abs(a - b) / abs(b) for a, b in zip(losses, expected, strict=True)))
    net.to_torch(module)
    with torch.no_grad():
        pair = [each.eval()(**inputs)[architecture.output].numpy() for each in (module, peer)]
    outputs_differ, gradients_differ, losses_differ = differences
    return Difference(outputs_differ, gradients_differ, losses_differ, difference(*pair))


def difference(value: Any, expected: Any) -> float:
    """The largest difference by the largest element."""
    return float(np.abs(value - expected).max() / np.abs(expected).max())


def gradient_difference(loss: Any, arrays: list[Any], peer: Any) -> float:
    """The largest difference of the gradient of a tensor by its norm, or by that of all where it is only roundings."""
    parameters = list(loss.trainable_params())
    gradients = ops.grad(loss, None, parameters)(*map(graphls.Tensor, arrays))
    expected = {name: p.grad.numpy() for name, p in peer.named_parameters() if p.grad is not None}
    total = float(np.sqrt(sum(float((g**2).sum()) for g in expected.values())))
    rows = []
    for parameter, gradient in zip(parameters, gradients, strict=True):
        other = expected[parameter.name.removeprefix("net.")]
        norm = float(np.linalg.norm(other))
        rows.append(float(np.linalg.norm(gradient.asnumpy() - other)) / (norm if norm > NOISE * total else total))
    return max(rows)


def train_in_torch(module: Any, inputs: dict[str, Any], output: str, labels: Any) -> list[float]:
    """The losses of the steps in PyTorch, each before its update."""
    optimizer = torch.optim.AdamW((p for p in module.parameters() if p.requires_grad), RATE, weight_decay=0.01)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch_loss(module, inputs, output, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main() -> None:
    """Print a row of a table for each architecture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="architectures, by default all")
    names = parser.parse_args().names or list(ARCHITECTURES)
    warnings.simplefilter("ignore")
    hf.logging.set_verbosity_error()
    logging.disable(logging.CRITICAL)
    print("| architecture | outputs | gradients | 20 losses | written back |\n|---|---|---|---|---|")
    for name in names:
        started = time.perf_counter()
        try:
            row = str(compare(ARCHITECTURES[name]))
        except Exception as error:
            row = f"{type(error).__name__}: {error}"
        print(f"| {name} | {row} | {time.perf_counter() - started:.0f}s", flush=True)


if __name__ == "__main__":
    main()
