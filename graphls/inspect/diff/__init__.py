"""Structural differences of two graphs, and their text."""
