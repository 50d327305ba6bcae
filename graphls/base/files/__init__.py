"""Atomic file writes, and the wire format of protocol buffers."""
