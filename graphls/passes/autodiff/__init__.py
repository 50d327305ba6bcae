"""Reverse-mode differentiation: the gradient pass and its parts."""
