"""Distributed training: processes started by `mpiexec` that communicate through mpi4py."""
