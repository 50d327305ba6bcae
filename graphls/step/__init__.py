"""Compiled steps: compile, call, repeat and export."""
