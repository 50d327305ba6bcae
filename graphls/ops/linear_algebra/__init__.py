"""Products, factorizations, linear systems and norms of matrices."""
