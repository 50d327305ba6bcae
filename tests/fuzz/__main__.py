"""`python -m tests.fuzz [names]` calls every function, `python -m tests.fuzz programs` runs random programs."""

from __future__ import annotations

import sys

from tests.fuzz import functions, workers

if __name__ == "__main__":
    sys.exit(workers.main(sys.argv[2:]) if sys.argv[1:2] == ["programs"] else functions.main())
