"""Tracing: cells run on symbols and are recorded as a graph."""
