"""`python -m tests.fuzz [names]` calls every function, `python -m tests.fuzz programs` runs random programs.

`python -m tests.fuzz pairs` runs pairs of operations, `python -m tests.fuzz control-flow` branches and loops, and
`python -m tests.fuzz onnx` random ONNX models.
"""

from __future__ import annotations

import sys

from tests.fuzz import functions, workers
from tests.fuzz.seeds import KINDS

if __name__ == "__main__":
    sys.exit(workers.main(sys.argv[1:]) if sys.argv[1:2] and sys.argv[1] in KINDS else functions.main())
