"""Functions that make, move, choose, write and join elements."""
