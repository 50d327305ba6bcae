"""graphls beside PyTorch and JAX: `python -m benchmarks.peers`."""
