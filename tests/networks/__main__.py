"""Compare the models of all combinations: `python -m tests.networks [SEED]`."""

from __future__ import annotations

import sys
import time
import warnings

from tests.networks.agreement import difference, every_combination, prepare


def main() -> int:
    """Print every combination that differs, and how many agree."""
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    found, start = {}, time.perf_counter()
    for combination in every_combination(seed):
        found[combination] = difference(prepare(combination))
        if found[combination]:
            print(f"{combination}: {found[combination]}", flush=True)
    agree = sum(not text for text in found.values())
    print(f"{agree} of {len(found)} combinations agree bit for bit, in {time.perf_counter() - start:.0f} s")
    return int(agree < len(found))


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="Gradients in (float32|bfloat16) need no loss scaling")
    sys.exit(main())
