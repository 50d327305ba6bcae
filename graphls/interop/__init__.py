"""Exchange of weights and optimizer states with PyTorch, adapters in PEFT's format, and file formats of checkpoints."""
