"""The engine for collectives after an update, which complete together with it."""
