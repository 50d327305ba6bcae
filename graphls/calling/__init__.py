"""Calls outside of a trace: the steps that are kept for a cell or function, and `jit`."""
