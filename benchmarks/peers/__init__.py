"""Compares graphls with PyTorch and JAX: `python -m benchmarks.peers`."""
