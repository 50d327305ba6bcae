"""Programs: the calls of a graph, their order, and the memory that they share."""
