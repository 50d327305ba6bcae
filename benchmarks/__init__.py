"""Benchmarks of graphls; README.md in this folder describes them."""
