"""Training: metrics."""
