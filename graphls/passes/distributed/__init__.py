"""Passes for distributed training: buckets, sharded states and communication overlap."""
