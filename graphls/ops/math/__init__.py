"""Functions of elements, and reductions."""
