"""Traces: what runs a cell on symbols, and the form of functions that it runs."""
