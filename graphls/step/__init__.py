"""Compiled steps: one call, many steps in one call, and what is warned of."""
