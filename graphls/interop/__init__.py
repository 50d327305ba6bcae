"""Weights that other frameworks have trained, and weights for them."""
