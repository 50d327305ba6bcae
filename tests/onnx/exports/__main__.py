"""All exports in graphls beside what their frameworks gave: `python -m tests.onnx.exports [name ...]`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.onnx.exports.agreement import FILES, Export, gradients_difference, losses_difference, outputs_difference


def main(names: list[str]) -> None:
    """Print a row of a table for each file."""
    print("| file | outputs | gradients | losses | trained file |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in names or sorted(path.stem for path in FILES.glob("*.onnx")):
            export = Export(name)
            losses, saved = losses_difference(export, Path(folder))
            row = (outputs_difference(export), gradients_difference(export), losses, saved)
            print(f"| {name} | {' | '.join(f'{x:.0e}' for x in row)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
