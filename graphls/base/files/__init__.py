"""Files that are written at once or not at all, and the wire format of protocol buffers."""
