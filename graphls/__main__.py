"""`python -m graphls`."""

import sys

# For `-m`, Python looks for modules in the working directory first: what lies there by chance, an html.py say, would
# stand for a module of Python's own. Scripts (`exec`) get the folder of the script there, as from Python.
if sys.argv[1:2] != ["exec"] and not getattr(sys.flags, "safe_path", False):
    sys.path.append(sys.path.pop(0))

from graphls.cli.main import main

raise SystemExit(main())
