"""File formats of checkpoints: MindSpore's, safetensors, PyTorch's."""
