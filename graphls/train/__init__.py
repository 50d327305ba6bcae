"""Training: models, callbacks, metrics and checkpoints."""
