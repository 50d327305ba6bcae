"""Random calls and random programs, which find what nobody thought of."""
