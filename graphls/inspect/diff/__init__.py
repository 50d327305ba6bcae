"""Differences of two graphs in structure, and their text."""
