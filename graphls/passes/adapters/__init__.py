"""Products with weights that get adapters or quantizers."""
