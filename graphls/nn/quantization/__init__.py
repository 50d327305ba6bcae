"""Quantization-aware training, for inference with 8-bit integers."""

from graphls.nn.quantization.fake_quantize import fake_quantize

__all__ = ["fake_quantize"]
