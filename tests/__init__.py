"""What tests need; where several processes test, threads that wait for work leave the cores to the others."""

import os

if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1:  # before NumPy and oneDNN read it
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
