"""Overflow windows of loss scaling: their placement, their proof, and what is read of them."""
