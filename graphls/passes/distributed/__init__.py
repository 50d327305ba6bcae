"""Collectives: buckets, sharded states, communication beside computation."""
