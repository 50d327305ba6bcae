"""What steps, threads and processes share: the values of parameters, their locks, threads and forks."""
