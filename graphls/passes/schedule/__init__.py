"""Scheduling passes: node order, in-place states, and the partition into segments for engines."""
