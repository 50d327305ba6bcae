"""Order of nodes, states in place, and the partition into segments for engines."""
