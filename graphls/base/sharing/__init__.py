"""State shared by steps, threads and processes: parameter storage, locks, threads and fork handlers."""
