"""Functions that create, move, select, write and join elements."""
