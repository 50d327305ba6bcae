"""Random tensors and distributions."""
