"""Blocks that add losses and optimizers to models, as `onnxruntime.training.onnxblock` has them."""

from graphls.onnx.training.onnxblock import blocks, loss, optim
from graphls.onnx.training.onnxblock.accessor import base, empty_base
from graphls.onnx.training.onnxblock.blocks import Block
from graphls.onnx.training.onnxblock.building import ForwardBlock, TrainingBlock
from graphls.onnx.training.parameters import load_checkpoint_to_model, save_checkpoint

__all__ = [
    "Block", "ForwardBlock", "TrainingBlock", "base", "blocks", "empty_base", "load_checkpoint_to_model", "loss",
    "optim", "save_checkpoint",
]  # fmt: skip
