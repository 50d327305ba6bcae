"""The engine of XLA: a step as one program, which JAX traces from the rules of its primitives."""
