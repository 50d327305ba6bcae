"""Products, factors, systems and norms of matrices."""
