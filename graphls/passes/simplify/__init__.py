"""Simplification: constant folding, common subexpressions, dead code, patterns, loop-invariant code."""
