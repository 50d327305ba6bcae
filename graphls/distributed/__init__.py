"""The processes that train together, which are started by `mpiexec` and talk through mpi4py."""
