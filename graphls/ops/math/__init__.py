"""Elementwise functions, and reductions."""
