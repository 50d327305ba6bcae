"""Blocks that add losses and optimizers to models, as `onnxruntime.training.onnxblock` has them."""

from graphls.onnx.training.onnxblock import blocks, loss, optim
from graphls.onnx.training.onnxblock.accessor import base, empty_base
from graphls.onnx.training.onnxblock.blocks import Block
from graphls.onnx.training.onnxblock.building import ForwardBlock, TrainingBlock
from graphls.onnx.training.parameters import save_checkpoint

__all__ = ["Block", "ForwardBlock", "TrainingBlock", "base", "blocks", "empty_base", "loss", "optim", "save_checkpoint"]
